package pglocal

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// maxSocketDir leaves room for "/.s.PGSQL.5432.lock" in the shortest sun_path in use (104 bytes, macOS).
const maxSocketDir = 104 - 1 - len("/.s.PGSQL.5432.lock")

// mark is the file in the data directory that says the cluster is ours.
const mark = "breakwater.mark"

// place is where a cluster lives and as whom it runs.
type place struct {
	dir    string
	socket string // directory of the socket
	as     *syscall.Credential
}

// makePlace makes dir and what belongs to it, for the user PostgreSQL will run as.
func makePlace(dir string) (place, error) {
	if dir == "" {
		return place{}, errors.New("no directory given")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return place{}, err
	}
	p := place{dir: dir}
	if os.Geteuid() == 0 {
		// PostgreSQL refuses to run as root.
		if p.as, err = unprivileged(); err != nil {
			return place{}, err
		}
		if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
			return place{}, err
		}
		parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
		if err != nil {
			return place{}, err
		}
		if !reachable(parent, p.as) {
			// The home of root is closed to everybody, and opening it is not ours to do.
			p.dir = elsewhere(dir)
		}
	}
	if err := p.mkdir(p.dir); err != nil {
		return place{}, err
	}
	p.socket = socketDir(p.dir, p.as != nil)
	if err := p.mkdir(p.socket); err != nil {
		return place{}, err
	}
	return p, nil
}

// socketDir is dir/run, or a short path of its own where that is too long.
func socketDir(dir string, root bool) string {
	if run := filepath.Join(dir, "run"); len(run) <= maxSocketDir {
		return run
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if root || base == "" || len(base) > maxSocketDir-len("/bw-pg-01234567") {
		base = "/tmp"
	}
	return filepath.Join(base, "bw-pg-"+hash(dir))
}

// elsewhere is where the cluster of an unreachable dir goes: beside other
// temporary things if dir is one, else where system services keep theirs.
func elsewhere(dir string) string {
	if tmp, err := filepath.Abs(os.TempDir()); err == nil && strings.HasPrefix(dir, tmp+"/") {
		return filepath.Join(tmp, "breakwater-pg-"+hash(dir))
	}
	return filepath.Join("/var/lib/breakwater", "pg-"+hash(dir))
}

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("%x", sum[:4])
}

// unprivileged is the user root becomes: the package's own, or one that is everywhere.
func unprivileged() (*syscall.Credential, error) {
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err1 == nil && err2 == nil && uid != 0 {
			return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
		}
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody to become")
}

// reachable reports whether as may pass through dir and all above it.
func reachable(dir string, as *syscall.Credential) bool {
	for {
		info, err := os.Stat(dir)
		if err != nil {
			return false
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		bit := fs.FileMode(0o001)
		switch {
		case ok && st.Uid == as.Uid:
			bit = 0o100
		case ok && st.Gid == as.Gid:
			bit = 0o010
		}
		if info.Mode()&bit == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
		dir = filepath.Dir(dir)
	}
}

// mkdir makes dir for the cluster alone, or makes sure that it is so: in /tmp
// anybody could have been there first.
func (p place) mkdir(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if err == nil && p.as != nil {
		return os.Chown(dir, int(p.as.Uid), int(p.as.Gid))
	}
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner := uint32(os.Geteuid())
	if p.as != nil {
		owner = p.as.Uid
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.IsDir():
		return fmt.Errorf("%w: %s is not a directory", ErrForeign, dir)
	case ok && p.as != nil && st.Uid == 0:
		// Made by root for us, before we got to hand it over.
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			return errors.Join(fmt.Errorf("%w: %s belongs to root and is not empty", ErrForeign, dir), err)
		}
		if err := os.Chown(dir, int(p.as.Uid), int(p.as.Gid)); err != nil {
			return err
		}
	case ok && st.Uid != owner:
		return fmt.Errorf("%w: %s belongs to uid %d, not %d", ErrForeign, dir, st.Uid, owner)
	}
	return os.Chmod(dir, 0o700)
}

// prepare makes cmd run as the cluster's user, apart from our terminal: Ctrl-C
// must reach us alone, so that we can end the cluster after its last client.
func (p place) prepare(cmd *exec.Cmd) {
	cmd.Dir = p.dir
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + p.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: p.as}
}

func (p place) data() string { return filepath.Join(p.dir, "data") }

// version is the major version the data was made with, or "".
func (p place) version() string {
	b, err := os.ReadFile(filepath.Join(p.data(), "PG_VERSION"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// foreign reports whether there is a data directory that lacks our mark.
func (p place) foreign() (bool, error) {
	if _, err := os.Lstat(p.data()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	_, err := os.Stat(filepath.Join(p.data(), mark))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	return false, err
}

func (p place) sign(data string) error {
	if err := os.WriteFile(filepath.Join(data, mark), []byte("made by breakwater, which starts and stops it\n"), 0o644); err != nil {
		return fmt.Errorf("mark the cluster: %w", err)
	}
	return nil
}

// leave removes the socket's directory where it is not in ours.
func (p place) leave() error {
	if filepath.Dir(p.socket) == p.dir {
		return nil
	}
	if err := os.Remove(p.socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the socket's directory: %w", err)
	}
	return nil
}

// logSize is where a log is set aside at a start; one older log is kept.
const logSize = 8 << 20

func (p place) openLog() (*os.File, error) {
	name := filepath.Join(p.dir, "log")
	if info, err := os.Stat(name); err == nil && info.Size() > logSize {
		if err := os.Rename(name, name+".1"); err != nil {
			return nil, fmt.Errorf("set the log aside: %w", err)
		}
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the log: %w", err)
	}
	return f, nil
}

func (p place) logTail() string {
	b, err := os.ReadFile(filepath.Join(p.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return tail(string(b))
}

// tail is the end of a text: what a program says last is why it ended.
func tail(s string) string {
	s = strings.TrimSpace(s)
	if lines := strings.Split(s, "\n"); len(lines) > 5 {
		s = strings.Join(lines[len(lines)-5:], "\n")
	}
	if len(s) > 1000 {
		s = s[len(s)-1000:]
	}
	return s
}
