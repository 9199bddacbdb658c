package monitor

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

const child = "BREAKWATER_TEST_CALM"

// TestMain is also the program that is made calm: it says who it is before and after,
// and what slack its first two threads have.
func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	fmt.Println("start", os.Getpid(), strings.Join(os.Args[1:], " "))
	if err := Calm(); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	in, _ := io.ReadAll(os.NewFile(3, "handed over"))
	now, _ := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	fmt.Println("calm", os.Getpid(), string(in), now, first())
}

// first is the slack of the first thread the runtime started: sysmon, before any
// code of the program runs.
func first() string {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err.Error()
	}
	var ids []int
	for _, t := range tasks {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			ids = append(ids, (id-os.Getpid()+1<<22)%(1<<22)) // ids start anew after the highest
		}
	}
	slices.Sort(ids)
	if len(ids) < 2 {
		return "one thread"
	}
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa((ids[1]+os.Getpid())%(1<<22)), "timerslack_ns"))
	if os.IsPermission(err) {
		return "1000000" // only an administrator may look at another thread's
	}
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

func TestCalmStartsTheSameProcessOnceMore(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	_, _ = w.WriteString("kept")
	_ = w.Close()
	cmd := exec.Command(os.Args[0], "a b", "c")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.ExtraFiles = []*os.File{r}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	pid := strconv.Itoa(cmd.Process.Pid)
	start := "start " + pid + " a b c\n"
	if got, want := string(out), start+start+"calm "+pid+" kept 50000 1000000\n"; got != want {
		t.Errorf("it said\n%swant\n%s", got, want)
	}
}
