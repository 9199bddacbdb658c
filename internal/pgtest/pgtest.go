// Package pgtest gives each test a migrated PostgreSQL database of its own.
package pgtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/pglocal"
	"breakwater/migrations"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool returns a pool over a new database with every migration applied. It is
// closed when the test ends. Where PostgreSQL is not installed the test is
// skipped; with CI=true it fails. With -short it is skipped too.
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

// DSN is Pool for who opens the database themselves.
func DSN(t testing.TB) string {
	t.Helper()
	s := running(t)
	name := "test_" + strconv.FormatInt(s.count.Add(1), 10)
	return s.create(t, name, template)
}

// Empty returns the DSN of a new database without any migration.
func Empty(t testing.TB) string {
	t.Helper()
	s := running(t)
	return s.create(t, "empty_"+strconv.FormatInt(s.count.Add(1), 10), "template0")
}

// Cluster is the cluster all tests of this binary share, for those that need to
// know its process. They must not stop it.
func Cluster(t testing.TB) *pglocal.Cluster {
	t.Helper()
	return running(t).cluster
}

const template = "migrated"

// shared is the one cluster of the test binary.
var shared = sync.OnceValues(start)

type server struct {
	cluster *pglocal.Cluster
	guard   io.Closer // its end tells the guard that we are gone
	count   atomic.Int64
}

func running(t testing.TB) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("a database of its own: part of make test, not of make check")
	}
	s, err := shared()
	if errors.Is(err, pglocal.ErrNotFound) && os.Getenv("CI") != "true" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func start() (*server, error) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "pgtest")
	if err != nil {
		return nil, err
	}
	// The cluster's user must be able to pass.
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, err
	}
	guard, err := watch(dir)
	if err != nil {
		return nil, err
	}
	c, err := pglocal.Start(ctx, pglocal.Config{
		Dir: dir + "/pg",
		// Nothing of it is to survive this process.
		Settings: []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200", "jit=off"},
		Log:      slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	s := &server{cluster: c, guard: guard}
	if err := s.exec(ctx, "create database "+template); err != nil {
		return nil, err
	}
	db, err := pgxpool.New(ctx, s.dsn(template))
	if err != nil {
		return nil, err
	}
	defer db.Close()
	return s, migrations.Up(ctx, db)
}

// watch starts a process that waits for our end, however we come to it, and
// then removes the cluster: a test binary that panics, times out or is killed
// runs no cleanup of its own.
func watch(dir string) (io.Closer, error) {
	const script = `
cat >/dev/null
for again in 1 2 3 4 5 6 7 8 9 10; do
	pid=$(head -n 1 "$1/pg/data/postmaster.pid" 2>/dev/null)
	[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null
	for wait in 1 2 3 4 5 6 7 8 9 10; do
		[ -n "$pid" ] && kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	rm -rf "$1" 2>/dev/null
	[ -e "$1" ] || exit 0
	sleep 0.1
done`
	cmd := exec.Command("/bin/sh", "-c", script, "pgtest-guard", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C must not end it first
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return in, nil
}

func (s *server) create(t testing.TB, name, from string) string {
	t.Helper()
	if err := s.exec(t.Context(), "create database "+name+" template "+from); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := s.exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
			t.Error(err)
		}
	})
	return s.dsn(name)
}

// exec runs one statement on the maintenance database.
func (s *server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.dsn("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err = conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

func (s *server) dsn(database string) string {
	return strings.Replace(s.cluster.DSN(), "/"+pglocal.Database+"?", "/"+database+"?", 1)
}
