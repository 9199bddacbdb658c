package pglocal

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// ErrNotFound is returned where PostgreSQL is not installed; the text of the
// error that wraps it holds the one line to type.
var ErrNotFound = errors.New("PostgreSQL is not installed")

// Find returns the directories that hold initdb and postgres, the one to prefer first.
func Find() ([]string, error) {
	return find(
		"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
		"/usr/pgsql-*/bin",                  // the packages of postgresql.org for Red Hat
		"/opt/homebrew/opt/postgresql*/bin", // macOS on Apple silicon
		"/usr/local/opt/postgresql*/bin",    // macOS on Intel
		"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	)
}

// find looks in PATH and then in places, the newest of each first.
func find(places ...string) ([]string, error) {
	var dirs []string
	if path, err := exec.LookPath("postgres"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	for _, pattern := range places {
		found, _ := filepath.Glob(pattern) // fails for a bad pattern only
		slices.SortFunc(found, func(a, b string) int { return number(b) - number(a) })
		dirs = append(dirs, found...)
	}
	var usable []string
	for _, dir := range dirs {
		if !slices.Contains(usable, dir) && executable(dir, "initdb") && executable(dir, "postgres") {
			usable = append(usable, dir)
		}
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("%w; type: %s", ErrNotFound, install())
	}
	return usable, nil
}

// choose picks the binaries for data of a version, "" for data yet to be made.
func choose(bin, version string) (string, error) {
	dirs := []string{bin}
	if bin == "" {
		found, err := Find()
		if err != nil {
			return "", err
		}
		dirs = found
	}
	if version == "" {
		return dirs[0], nil
	}
	for _, dir := range dirs {
		out, err := exec.Command(filepath.Join(dir, "postgres"), "--version").Output()
		if err == nil && major(string(out)) == version {
			return dir, nil
		}
	}
	// A newer server does not read an older one's files.
	return "", fmt.Errorf("the data was made by PostgreSQL %s, which is not installed; type: %s", version, installVersion(version))
}

// major reads "postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)".
func major(s string) string {
	_, s, _ = strings.Cut(s, "(PostgreSQL) ")
	end := strings.IndexFunc(s, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		return s
	}
	return s[:end]
}

// number is the version in a path of the usual places, 0 where it has none.
func number(dir string) int {
	for _, part := range strings.FieldsFunc(dir, func(r rune) bool { return r == '/' || r == '@' || r == '-' }) {
		if n, err := strconv.Atoi(part); err == nil {
			return n
		}
	}
	return 0
}

func executable(dir, name string) bool {
	info, err := os.Stat(filepath.Join(dir, name))
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

func install() string {
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@17"
	}
	return "apt-get install -y postgresql"
}

func installVersion(v string) string {
	if runtime.GOOS == "darwin" {
		return "brew install postgresql@" + v
	}
	return "apt-get install -y postgresql-" + v
}
