package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// demoRun is a running demo as a user has it: one command and what it prints.
type demoRun struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *lockedBuffer
	url    string
	ended  chan error
	killed bool
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var pagesLine = regexp.MustCompile(`(?m)^pages and API\s+(\S+)$`)

func startDemo(t *testing.T, dir string) *demoRun {
	t.Helper()
	d := &demoRun{t: t, out: &lockedBuffer{}, ended: make(chan error, 1)}
	d.cmd = exec.Command(bin(t), "demo", "--state-dir", dir,
		"--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--control", "127.0.0.1:0")
	d.cmd.Stdout, d.cmd.Stderr = d.out, d.out
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { d.ended <- d.cmd.Wait() }()
	t.Cleanup(func() {
		if !d.killed {
			_ = d.cmd.Process.Kill()
		}
	})
	d.await("the addresses are printed", 90*time.Second, func() bool {
		m := pagesLine.FindStringSubmatch(d.out.String())
		if m == nil || !strings.Contains(d.out.String(), "Ctrl-C stops everything") {
			return false
		}
		d.url = m[1]
		return true
	})
	return d
}

func (d *demoRun) await(what string, limit time.Duration, ok func() bool) {
	d.t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(limit); !ok(); <-tick.C {
		select {
		case err := <-d.ended:
			d.t.Fatalf("the demo ended by itself: %v\n%s", err, d.out)
		default:
		}
		if time.Now().After(end) {
			d.t.Fatalf("after %s still not: %s\n%s", limit, what, d.out)
		}
	}
}

func (d *demoRun) get(path string, out any) string {
	d.t.Helper()
	res, err := http.Get(d.url + path)
	if err != nil {
		d.t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		d.t.Fatalf("GET %s: %s %v\n%s", path, res.Status, err, b)
	}
	if out != nil {
		if err := json.Unmarshal(b, out); err != nil {
			d.t.Fatalf("GET %s: %v\n%s", path, err, b)
		}
	}
	return string(b)
}

// gate runs the verb as a pipeline would.
func (d *demoRun) gate(service string) (code int, text string) {
	d.t.Helper()
	out, err := exec.Command(bin(d.t), "gate", service, "--control", d.url).CombinedOutput()
	if ee, ok := errors.AsType[*exec.ExitError](err); ok {
		return ee.ExitCode(), string(out)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return 0, string(out)
}

func (d *demoRun) runs() []drill {
	var list struct {
		Experiments []drill `json:"experiments"`
	}
	d.get("/api/v1/experiments", &list)
	return list.Experiments
}

// objectives are the SLOs as the API shows them.
type objectives []struct {
	ID     string `json:"id"`
	Budget struct {
		Valid int64 `json:"valid_events"`
	} `json:"budget"`
}

func (d *demoRun) objectives() objectives {
	var list struct {
		SLOs objectives `json:"slos"`
	}
	d.get("/api/v1/slos", &list)
	return list.SLOs
}

func (o objectives) valid(t *testing.T, id string) int64 {
	t.Helper()
	for _, s := range o {
		if s.ID == id {
			return s.Budget.Valid
		}
	}
	t.Errorf("no objective is called %s", id)
	return 0
}

func (d *demoRun) valid(t *testing.T, id string) int64 {
	t.Helper()
	return d.objectives().valid(t, id)
}

func (d *demoRun) evaluated() time.Time {
	var list struct {
		At time.Time `json:"evaluated_at"`
	}
	d.get("/api/v1/slos", &list)
	return list.At
}

// killPostmaster is kill -9 of the demo's PostgreSQL: the parent of what works
// on a database for control.
func killPostmaster(t *testing.T, dir string) {
	t.Helper()
	// Where the state directory is closed to its user the cluster lies elsewhere,
	// under a name that the demo's log tells.
	links, err := filepath.Glob("/proc/[0-9]*/cwd")
	if err != nil {
		t.Fatal(err)
	}
	for _, link := range links {
		data, err := os.Readlink(link)
		if err != nil || filepath.Base(data) != "data" {
			continue
		}
		pid := filepath.Base(filepath.Dir(link))
		opened, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
		if err == nil && strings.HasPrefix(string(opened), pid+"\n") && owns(dir, data) {
			n, _ := strconv.Atoi(pid) // it is a number: /proc says so
			if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatal("no PostgreSQL of the demo runs")
}

// owns reports whether the cluster with this data belongs to the state directory:
// it lies in it, or a process of it holds its lock.
func owns(dir, data string) bool {
	if strings.HasPrefix(data, dir) {
		return true
	}
	lock := filepath.Join(filepath.Dir(data), "owner.lock")
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // fails for a bad pattern only
	for _, link := range links {
		if to, err := os.Readlink(link); err != nil || to != lock {
			continue
		}
		line, err := os.ReadFile(filepath.Join(filepath.Dir(filepath.Dir(link)), "cmdline"))
		if err == nil && bytes.Contains(line, []byte(dir)) {
			return true
		}
	}
	return false
}

// stop is Ctrl-C.
func (d *demoRun) stop() {
	d.t.Helper()
	if err := d.cmd.Process.Signal(os.Interrupt); err != nil {
		d.t.Fatal(err)
	}
	select {
	case err := <-d.ended:
		if err != nil {
			d.t.Errorf("the demo ended with %v, want 0\n%s", err, d.out)
		}
	case <-time.After(60 * time.Second):
		d.t.Fatalf("the demo does not stop\n%s", d.out)
	}
	d.killed = true
}

// TestDemoTellsTheWholeStory is the main job as a user sees it.
func TestDemoTellsTheWholeStory(t *testing.T) {
	if slow(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "state")
	began := time.Now()
	d := startDemo(t, dir)
	t.Logf("pages after %.1f s", time.Since(began).Seconds())
	if page := d.get("/", nil); !strings.Contains(page, "points") {
		t.Error("the overview does not show the points service")
	}
	early := []string{"chinese.test.mjs", "long.test.mjs"} // need no story
	looked := browse(t, d.url, filepath.Join(dir, "demo"), early...)
	limit := func() time.Duration { return time.Until(began.Add(4 * time.Minute)) }
	d.await("a service is frozen and its gate denies", limit(), func() bool {
		code, _ := d.gate("points")
		return code == exitNo
	})
	var done drill
	d.await("a scheduled experiment has a verdict", limit(), func() bool {
		for _, r := range d.runs() {
			if r.State == "completed" {
				done = r
				return true
			}
		}
		return false
	})
	t.Logf("the story is told after %.0f s", time.Since(began).Seconds())
	if done.Verdict != "passed" || done.Injected == 0 {
		t.Errorf("the drill is %q with %d of %d tries injected: %s; want passed", done.Verdict, done.Injected, done.Attempts, done.Why)
	}
	var whole struct {
		GameDay    string `json:"gameday"`
		Receipts   []any  `json:"receipts"`
		Assertions []any  `json:"assertions"`
	}
	d.get("/api/v1/experiments/"+done.ID, &whole)
	if whole.GameDay == "" || len(whole.Receipts) == 0 || len(whole.Assertions) == 0 {
		t.Errorf("the run lacks its game day, receipts or assertions: %+v", whole)
	}
	if page := d.get("/runs/"+done.ID, nil); !strings.Contains(page, "passed") {
		t.Error("the run's page does not show its verdict")
	}
	if code, text := d.gate("order"); code != exitOK {
		t.Errorf("gate order exits %d, want 0:\n%s", code, text)
	}
	code, text := d.gate("points")
	if code != exitNo || !strings.Contains(text, "error budget is spent") || !strings.Contains(text, "thaws ") {
		t.Errorf("gate points exits %d, want 1 with reason and thaw time:\n%s", code, text)
	}
	first := d.objectives()
	failed := browse(t, d.url, filepath.Join(dir, "demo"), "story.mjs") // its own drills pass; this one does not
	if code, text := d.gate("nosuch"); code != exitUnknown {
		t.Errorf("gate of an unknown service exits %d, want 4:\n%s", code, text)
	}

	looked()
	failed()
	browse(t, d.url, filepath.Join(dir, "demo"), otherBrowserTests(t, early)...)()

	d.stop()
	if left := processesWith(dir); left != "" {
		t.Errorf("processes are left:\n%s", left)
	}
	if left := leftovers(t, dir); len(left) > 0 {
		t.Errorf("locks or temporary files are left: %v", left)
	}

	again := startDemo(t, dir)
	found := false
	for _, r := range again.runs() {
		found = found || r.ID == done.ID && r.Verdict == done.Verdict
	}
	if !found {
		t.Error("the second start does not know the run of the first")
	}
	// A start adds what was served since, and no second history; at a full hour the oldest
	// of 720 leaves the window.
	if before, after := first.valid(t, "order-availability"), again.valid(t, "order-availability"); after < before-before/100 || after > before+before/100 {
		t.Errorf("order has %d valid events after the second start, %d before", after, before)
	}
	again.await("points is still frozen", 60*time.Second, func() bool {
		code, _ := again.gate("points")
		return code == exitNo
	})
	// The private database is killed: it is started again, and everything goes on.
	killPostmaster(t, dir)
	again.await("the database is missed", 30*time.Second, func() bool {
		return strings.Contains(again.out.String(), "the private database ended")
	})
	missed := time.Now()
	again.await("budgets are weighed again", 60*time.Second, func() bool { return again.evaluated().After(missed) })
	again.stop()
	if left := processesWith(dir); left != "" {
		t.Errorf("processes are left after the second stop:\n%s", left)
	}
}

// processesWith lists processes whose command line names dir.
func processesWith(dir string) string {
	links, _ := filepath.Glob("/proc/[0-9]*/cmdline") // fails for a bad pattern only
	var found []string
	for _, link := range links {
		line, err := os.ReadFile(link)
		if err == nil && bytes.Contains(line, []byte(dir)) {
			found = append(found, strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return strings.Join(found, "\n")
}

// leftovers lists lock, socket and temporary files under dir.
func leftovers(t *testing.T, dir string) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := e.Name()
		if strings.HasSuffix(name, ".lock") || name == "lock" || name == "postmaster.pid" || strings.HasPrefix(name, ".s.PGSQL") ||
			strings.HasSuffix(name, ".new") || strings.HasPrefix(name, ".token-") || strings.HasSuffix(name, ".open") {
			found = append(found, path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
