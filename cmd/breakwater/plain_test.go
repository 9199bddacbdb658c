package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// programEnv tells a second test binary where the first one has built the program.
const programEnv = "BREAKWATER_TEST_PROGRAM"

// plain marks a test that drives real processes, or does one thing after another very
// often. The race detector finds nothing in either and makes them up to ten times as
// dear, which takes a core from what they drive. So under -race such a test is held by a
// second test binary, built without it: then plain reports true, and its caller returns.
// What goes on side by side in one process is tested under -race, by the other tests here
// and by those of the packages.
//
// The second binary begins while tests that are not parallel go on in the first one, and
// twice as many run as -parallel says: most of the time they wait for leases and windows.
func plain(t *testing.T) (held bool) {
	t.Helper()
	if !raceEnabled || testing.Short() {
		t.Parallel()
		return false
	}
	logs, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logs.Close()
	// Tests that go on meanwhile may change what is around them.
	cmd := &exec.Cmd{Env: os.Environ(), Stdout: logs, Stderr: logs}
	end := make(chan error, 1)
	go func() { end <- holdPlain(t, cmd) }()
	t.Parallel()
	err = <-end
	text, unread := os.ReadFile(logs.Name())
	if err = errors.Join(err, unread); err != nil {
		t.Errorf("%v\n%s", err, text)
	} else if !strings.Contains(string(text), "\n--- PASS: "+t.Name()+" (") {
		t.Errorf("it has not run:\n%s", text)
	} else {
		t.Logf("without the race detector:\n%s", text)
	}
	return true
}

// holdPlain has the second binary run one test, with our own flags.
func holdPlain(t *testing.T, cmd *exec.Cmd) error {
	seats() <- struct{}{}
	defer func() { <-seats() }()
	program, err := binary()
	if err != nil {
		return err
	}
	second, err := withoutRaces()
	if err != nil {
		return err
	}
	cmd.Path, cmd.Dir, cmd.Env = second, here(), append(cmd.Env, programEnv+"="+program)
	cmd.Args = []string{second, "-test.v", "-test.run=^" + t.Name() + "$"}
	if end, ok := t.Deadline(); ok { // it is to end before us, and what it started with it
		cmd.Args = append(cmd.Args, fmt.Sprintf("-test.timeout=%s", max(time.Until(end)-30*time.Second, time.Second)))
	}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			cmd.Args = append(cmd.Args, "-"+f.Name+"="+f.Value.String())
		}
	})
	return cmd.Run()
}

// seats are those of tests that run at one time in second binaries.
var seats = sync.OnceValue(func() chan struct{} {
	n := 4
	if f := flag.Lookup("test.parallel"); f != nil {
		n = f.Value.(flag.Getter).Get().(int)
	}
	return make(chan struct{}, 2*n)
})

// withoutRaces is this test binary once more, without the race detector.
var withoutRaces = sync.OnceValues(func() (string, error) {
	return goBuild("plain.test", "test", "-c", "-vet=off", "-ldflags=-w")
})

// binary is the real program, built once for all tests of this package.
var binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv(programEnv); path != "" {
		return path, nil
	}
	return goBuild("breakwater", "build")
})

// here is the directory of this package, wherever a test has gone.
var here = sync.OnceValue(func() string { dir, _ := os.Getwd(); return dir })

// workshop is where both are put.
var workshop = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "breakwater-test") })

func goBuild(name string, args ...string) (string, error) {
	dir, err := workshop()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	cmd := exec.Command("go", append(args, "-o", path, ".")...)
	cmd.Dir = here()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // as make build does, which has built most of it
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, out)
	}
	return path, nil
}

func TestMain(m *testing.M) {
	here() // as long as nobody has gone anywhere
	code := m.Run()
	if dir, err := workshop(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}
