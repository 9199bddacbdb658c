package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
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
// Second binaries run while tests that are not parallel go on in the first one, as
// many as -parallel says: more of them, and leases and windows are seen late.
func plain(t *testing.T) (held bool) {
	t.Helper()
	if !raceEnabled || testing.Short() {
		t.Parallel()
		return false
	}
	run := seconds().begin(t.Name())
	t.Parallel()
	<-run.ended
	seconds().forget(t.Name())
	if !strings.Contains(run.said.String(), "\n--- PASS: "+t.Name()+" (") && run.err == nil {
		run.err = errors.New("it has not run")
	}
	if run.err != nil {
		t.Errorf("%v, without the race detector:\n%s", run.err, run.said.String())
	} else {
		t.Logf("without the race detector:\n%s", run.said.String())
	}
	return true
}

// longest are the tests that a run of the whole package begins with: no other goes on
// for as long, and real minutes do not get shorter.
func longest() []string {
	return []string{"TestDemoTellsTheWholeStory", "TestEveryDueInstantStartsOnce", "TestEveryAnswerIsCountedOnce",
		"TestWeeklyGameDay", "TestQuarterlyChain", "TestFromTheLastFailureToTheFreeze"}
}

// beginLongest begins them, where all tests of the package are asked for.
func beginLongest() {
	if all := flag.Lookup("test.run").Value.String() == "" && flag.Lookup("test.list").Value.String() == "" && flag.Lookup("test.skip").Value.String() == ""; !all || !raceEnabled || testing.Short() {
		return
	}
	for _, name := range longest() {
		seconds().begin(name)
	}
}

// startApart is by how much the next one begins later: each of them makes a database of
// its own first, and all at once would keep each other waiting.
const startApart = 2 * time.Second

// secondRun is one test in a second binary.
type secondRun struct {
	ended chan struct{}
	said  lockedBuffer
	err   error
}

// secondRuns are all that have begun.
type secondRuns struct {
	mu    sync.Mutex
	all   map[string]*secondRun
	seats chan struct{}
	last  chan struct{} // closed: the one before has its seat
	until time.Time     // zero: without an end
}

var seconds = sync.OnceValue(func() *secondRuns {
	s := &secondRuns{all: map[string]*secondRun{}, last: make(chan struct{}), seats: make(chan struct{}, flag.Lookup("test.parallel").Value.(flag.Getter).Get().(int))}
	close(s.last) // nobody is before the first
	if d := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); d > 0 {
		s.until = time.Now().Add(d)
	}
	return s
})

// begin has a test run, if it does not do so already: in the order in which they are
// asked for, as soon as there is a seat.
func (s *secondRuns) begin(name string) *secondRun {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.all[name]; run != nil {
		return run
	}
	run := &secondRun{ended: make(chan struct{})}
	s.all[name] = run
	before, seated := s.last, make(chan struct{})
	s.last = seated
	environ := os.Environ() // tests that go on meanwhile may change it
	go func() {
		defer close(run.ended)
		program, err := binary()
		second, err2 := withoutRaces()
		<-before
		s.seats <- struct{}{}
		time.AfterFunc(startApart, func() { close(seated) })
		defer func() { <-s.seats }()
		if run.err = errors.Join(err, err2); run.err == nil {
			run.err = s.hold(exec.Command(second), name, append(environ, programEnv+"="+program), &run.said)
		}
	}()
	return run
}

func (s *secondRuns) forget(name string) { s.mu.Lock(); defer s.mu.Unlock(); delete(s.all, name) }

// hold runs one test with our own flags.
func (s *secondRuns) hold(cmd *exec.Cmd, name string, environ []string, out io.Writer) error {
	cmd.Args = append(cmd.Args, "-test.v", "-test.run=^"+name+"$")
	if !s.until.IsZero() { // it is to end before us, and what it started with it
		cmd.Args = append(cmd.Args, fmt.Sprintf("-test.timeout=%s", max(time.Until(s.until)-30*time.Second, time.Second)))
	}
	flag.Visit(func(f *flag.Flag) {
		if !strings.HasPrefix(f.Name, "test.") {
			cmd.Args = append(cmd.Args, "-"+f.Name+"="+f.Value.String())
		}
	})
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = here(), environ, out, out
	cmd.WaitDelay = 10 * time.Second // what it started holds on to its output: it has left something behind
	return cmd.Run()
}

// withoutRaces is this test binary once more, without the race detector.
var withoutRaces = sync.OnceValues(func() (string, error) {
	return goBuild("plain.test", "test", "-c", "-vet=off", "-ldflags=-s -w")
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
	flag.Parse()
	here() // as long as nobody has gone anywhere
	beginLongest()
	code := m.Run()
	if dir, err := workshop(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}
