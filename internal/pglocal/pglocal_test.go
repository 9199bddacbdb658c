package pglocal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestMain lets the test binary play the process that owns a cluster, so that a
// test can kill it.
func TestMain(m *testing.M) {
	if dir := os.Getenv("PGLOCAL_TEST_OWN"); dir != "" {
		c, err := Start(context.Background(), config(dir))
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Println("ready", c.Pid())
		_, _ = io.Copy(io.Discard, os.Stdin) // until we are killed
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func config(dir string) Config {
	return Config{Dir: dir, Settings: []string{"fsync=off"}, Log: slog.New(slog.DiscardHandler)}
}

// home is a place that the cluster's user can reach.
func home(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a cluster of its own takes seconds: part of make test, not of make check")
	}
	if _, err := Find(); errors.Is(err, ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "pglocal")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "pg")
}

func start(t *testing.T, dir string) *Cluster {
	t.Helper()
	c, err := Start(t.Context(), config(dir))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stop(t *testing.T, c *Cluster) {
	t.Helper()
	if err := c.Stop(); err != nil {
		t.Fatal(err)
	}
	if alive(c.Pid()) {
		t.Errorf("process %d is still there", c.Pid())
	}
}

// ask runs one statement and returns the first value it gives.
func ask(t *testing.T, c *Cluster, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.DSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var v string
	if rows.Next() {
		if err := rows.Scan(&v); err != nil {
			t.Fatal(err)
		}
	}
	rows.Close()
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return v
}

// ownedByAnother starts the cluster in a process of its own and returns that and the postmaster.
func ownedByAnother(t *testing.T, dir string) (owner *exec.Cmd, postmaster int) {
	t.Helper()
	owner = exec.Command(os.Args[0], "-test.run=^$")
	owner.Env = append(os.Environ(), "PGLOCAL_TEST_OWN="+dir)
	in, err := owner.StdinPipe() // kept open: its end would end the owner
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	out, err := owner.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscanf(out, "ready %d\n", &postmaster); err != nil {
		t.Fatalf("the owner did not start the cluster: %v", err)
	}
	return owner, postmaster
}

func kill9(t *testing.T, owner *exec.Cmd) {
	t.Helper()
	if err := owner.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = owner.Wait() // says that it was killed
}

func TestDataSurvivesARestart(t *testing.T) {
	dir := home(t)
	c := start(t, dir)
	ask(t, c, `create table kept as select 'yes'::text as v`)
	if ports := ask(t, c, `show listen_addresses`); ports != "" {
		t.Errorf("it listens on %q", ports)
	}
	if group, err := syscall.Getpgid(c.Pid()); err != nil || group == syscall.Getpgrp() {
		t.Errorf("it is in our process group (%d, %v): Ctrl-C would end it before its clients", group, err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	stop(t, c)
	select {
	case <-c.Done():
	default:
		t.Error("Done is open after Stop")
	}
	if err := c.Stop(); err != nil {
		t.Errorf("a second Stop: %v", err)
	}
	c = start(t, dir)
	if v := ask(t, c, `select v from kept`); v != "yes" {
		t.Errorf("got %q after a restart", v)
	}
	stop(t, c)
}

func TestTheNextOwnerTakesOverWhatAKilledOneLeftRunning(t *testing.T) {
	dir := home(t)
	owner, pid := ownedByAnother(t, dir)
	kill9(t, owner)
	c := start(t, dir)
	if c.Pid() != pid || c.Shared() {
		t.Errorf("got postmaster %d, shared %v, want %d and ours", c.Pid(), c.Shared(), pid)
	}
	ask(t, c, `select 1::text`)
	stop(t, c)
}

func TestAKilledPostmasterRecovers(t *testing.T) {
	dir := home(t)
	owner, pid := ownedByAnother(t, dir)
	c := &Cluster{place: place{socket: filepath.Join(dir, "run")}}
	ask(t, c, `create table kept as select 'yes'::text as v`)
	kill9(t, owner)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c = start(t, dir)
	if v := ask(t, c, `select v from kept`); v != "yes" || c.Pid() == pid {
		t.Errorf("got %q from postmaster %d", v, c.Pid())
	}
	stop(t, c)
}

func TestOneThatIsJustStoppingIsStartedAgain(t *testing.T) {
	dir := home(t)
	owner, pid := ownedByAnother(t, dir)
	kill9(t, owner)
	if err := syscall.Kill(pid, syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	c := start(t, dir)
	ask(t, c, `select 1::text`)
	stop(t, c)
}

func TestAPidFileThatNamesSomebodyElseIsStale(t *testing.T) {
	dir := home(t)
	stop(t, start(t, dir))
	stranger := exec.Command("sleep", "60")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	text := fmt.Sprintf("%d\n%s/data\n1\n5432\n%s/run\n\n", stranger.Process.Pid, dir, dir)
	for _, name := range []string{dir + "/data/postmaster.pid", dir + "/run/.s.PGSQL.5432.lock"} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c := start(t, dir)
	ask(t, c, `select 1::text`)
	stop(t, c)
	if !alive(stranger.Process.Pid) {
		t.Error("the stranger was stopped")
	}
}

func TestAnInitdbThatWasCutOffIsMadeAgain(t *testing.T) {
	dir := home(t)
	if _, err := makePlace(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/data.new/base", 0o700); err != nil {
		t.Fatal(err)
	}
	stop(t, start(t, dir))
}

func TestALiveOwnerIsShared(t *testing.T) {
	dir := home(t)
	first := start(t, dir)
	second := start(t, dir)
	if !second.Shared() || second.Pid() != first.Pid() {
		t.Errorf("shared %v, postmaster %d, want %d", second.Shared(), second.Pid(), first.Pid())
	}
	if err := second.Stop(); err != nil {
		t.Fatal(err)
	}
	ask(t, first, `select 1::text`)
	stop(t, first)
}

func TestALongPathPutsTheSocketElsewhere(t *testing.T) {
	dir := filepath.Join(filepath.Dir(home(t)), strings.Repeat("long", 25), "pg")
	c := start(t, dir)
	ask(t, c, `select 1::text`)
	if strings.HasPrefix(c.place.socket, dir) || len(c.place.socket) > maxSocketDir {
		t.Errorf("socket in %s", c.place.socket)
	}
	stop(t, c)
	if _, err := os.Stat(c.place.socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left: %v", c.place.socket, err)
	}
}

func TestAPathMayHoldWhatAURLEscapes(t *testing.T) {
	c := start(t, filepath.Join(filepath.Dir(home(t)), "my state + 100% & more", "pg"))
	ask(t, c, `select 1::text`)
	stop(t, c)
}

func TestForeignDataIsNotTouched(t *testing.T) {
	dir := home(t)
	if err := os.MkdirAll(dir+"/data", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/data/PG_VERSION", []byte("15\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if c, err := Start(t.Context(), config(dir)); !errors.Is(err, ErrForeign) {
		t.Errorf("got %v, %v, want %v", c, err, ErrForeign)
	}
	if entries, err := os.ReadDir(dir + "/data"); err != nil || len(entries) != 1 {
		t.Errorf("the data holds %d files, %v", len(entries), err)
	}
}

func TestWhatPostgresSaidIsInTheError(t *testing.T) {
	cfg := config(home(t))
	cfg.Settings = append(cfg.Settings, "no_such_setting=1")
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := Start(ctx, cfg); err == nil || !strings.Contains(err.Error(), "no_such_setting") {
		t.Errorf("got %v", err)
	}
}
