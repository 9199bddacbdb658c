package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"breakwater/internal/lockfile"
)

// postmaster is what a running PostgreSQL writes about itself into its data directory.
type postmaster struct {
	pid    int
	socket string
}

// postmaster reads the pid file and reports whether the process it names lives
// and really is the one of our data directory.
func (p place) postmaster() (postmaster, bool) {
	b, err := os.ReadFile(filepath.Join(p.data(), "postmaster.pid"))
	if err != nil {
		return postmaster{}, false
	}
	m, ok := parsePostmaster(string(b))
	if !ok || !p.serves(m.pid) {
		return postmaster{}, false
	}
	if m.socket == "" { // the file is written in steps
		m.socket = p.socket
	}
	return m, true
}

// parsePostmaster reads the lines pid, data directory, start time, port, socket directory.
func parsePostmaster(s string) (postmaster, bool) {
	lines := strings.Split(s, "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return postmaster{}, false
	}
	m := postmaster{pid: pid}
	if len(lines) > 4 {
		m.socket = strings.TrimSpace(lines[4])
	}
	return m, true
}

// serves reports whether pid is a postgres that works in our data directory. A
// number alone proves nothing: after a reboot it belongs to anybody.
func (p place) serves(pid int) bool {
	if !alive(pid) {
		return false
	}
	if cwd, err := os.Readlink(fmt.Sprintf("/proc/%d/cwd", pid)); err == nil {
		data, err := filepath.EvalSymlinks(p.data())
		return err == nil && cwd == data
	}
	out, err := exec.Command("ps", "-o", "command=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), p.data())
}

// clearStale removes lock files whose number PostgreSQL would take for a running
// postmaster and refuse to start: it went to someone else over a reboot, or
// nobody has waited for the dead one. Those that name nobody PostgreSQL handles
// itself. Only the owner of the place calls it.
func (p place) clearStale() {
	for _, name := range []string{
		filepath.Join(p.data(), "postmaster.pid"),
		filepath.Join(p.socket, ".s.PGSQL."+port+".lock"),
	} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		m, ok := parsePostmaster(string(b))
		if !ok || !exists(m.pid) || p.serves(m.pid) {
			continue
		}
		// The file also guards the memory that children of a killed postmaster may
		// still write to; they end by themselves once they notice.
		for range 250 {
			if !p.inUse() {
				break
			}
			time.Sleep(pollEvery)
		}
		if !p.inUse() {
			_ = os.Remove(name) // what cannot be removed PostgreSQL will name
		}
	}
}

// inUse reports whether any process works in the data directory, where the
// system can tell.
func (p place) inUse() bool {
	links, _ := filepath.Glob("/proc/[0-9]*/cwd") // fails for a bad pattern only
	data, err := filepath.EvalSymlinks(p.data())
	if err != nil {
		return false
	}
	for _, link := range links {
		if cwd, err := os.Readlink(link); err == nil && cwd == data {
			return true
		}
	}
	return false
}

// exists reports whether the number is taken, as PostgreSQL asks it.
func exists(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

// alive reports whether there is a process pid that still runs. One that has
// ended and that nobody waited for, as the first process of many containers
// never does, is not.
func alive(pid int) bool {
	if !exists(pid) {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true // no such file system here
	}
	_, state, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(state, "Z")
}

// own takes the lock of the place, or returns nil where a live process has it.
func own(dir string) (*lockfile.Lock, error) {
	lock, err := lockfile.Take(filepath.Join(dir, "owner.lock"))
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, nil
	}
	return lock, err
}
