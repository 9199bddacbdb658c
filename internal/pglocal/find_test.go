package pglocal

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func binaries(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"initdb", "postgres"} {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + filepath.Base(filepath.Dir(dir)) + ".3 (Debian)'\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFindPrefersTheNewest(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	root := t.TempDir()
	for _, v := range []string{"9", "17", "15"} {
		binaries(t, filepath.Join(root, v, "bin"))
	}
	if err := os.MkdirAll(filepath.Join(root, "18", "bin"), 0o755); err != nil { // without a server
		t.Fatal(err)
	}
	// The number of the test's own directory must not pass for a version.
	t.Chdir(root)
	got, err := find("*/bin")
	if want := []string{"17/bin", "15/bin", "9/bin"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
}

func TestNothingFoundSaysWhatToType(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := find(t.TempDir() + "/*/bin")
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), install()) {
		t.Errorf("got %v", err)
	}
}

func TestDataKeepsItsVersion(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "15", "bin")
	binaries(t, dir)
	if got, err := choose(dir, "15"); err != nil || got != dir {
		t.Errorf("got %s, %v", got, err)
	}
	if _, err := choose(dir, "13"); err == nil || !strings.Contains(err.Error(), installVersion("13")) {
		t.Errorf("got %v, want the line to type", err)
	}
}

func TestMajor(t *testing.T) {
	for s, want := range map[string]string{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": "15",
		"postgres (PostgreSQL) 18beta1":                          "18",
		"postgres (PostgreSQL) 17":                               "17",
		"nothing of the kind":                                    "",
	} {
		if got := major(s); got != want {
			t.Errorf("%q: got %q, want %q", s, got, want)
		}
	}
}

func TestParsePostmaster(t *testing.T) {
	tests := []struct {
		name, text string
		want       postmaster
		ok         bool
	}{
		{"whole", "42\n/d\n1700000000\n5432\n/s\n\n  5432001  3\nready   \n", postmaster{42, "/s"}, true},
		{"just begun", "42\n", postmaster{pid: 42}, true},
		{"empty", "", postmaster{}, false},
		{"init", "1\n", postmaster{}, false},
		{"standalone", "-42\n/d\n", postmaster{}, false},
	}
	for _, tt := range tests {
		if got, ok := parsePostmaster(tt.text); got != tt.want || ok != tt.ok {
			t.Errorf("%s: got %+v, %v", tt.name, got, ok)
		}
	}
}

func TestAClosedParentIsSeen(t *testing.T) {
	open, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(open, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	stranger := &syscall.Credential{Uid: uint32(os.Geteuid()) + 12345, Gid: uint32(os.Getegid()) + 12345}
	if reachable(closed, stranger) {
		t.Error("a stranger reaches a directory that is closed to others")
	}
	if !reachable("/", stranger) {
		t.Error("a stranger does not reach the root")
	}
	if dir := elsewhere("/srv/state/pg"); !strings.HasPrefix(dir, "/var/lib/breakwater/") {
		t.Errorf("lasting data goes to %s", dir)
	}
	if a, b := elsewhere("/srv/a/pg"), elsewhere("/srv/b/pg"); a == b {
		t.Error("two states share one place")
	}
}
