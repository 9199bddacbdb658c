// Package pglocal runs a private PostgreSQL cluster for who gives no database
// of their own: found binaries, a directory of ours, a Unix socket and no port.
package pglocal

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/lockfile"
)

// User and Database are what a cluster is made with; tools connect as that user.
const (
	User     = "breakwater"
	Database = "breakwater"
)

// Config says where a cluster lives.
type Config struct {
	// Dir holds the data, the log and, where its path is short enough, the socket.
	// Nothing else may be in it.
	Dir string
	// Bin is where initdb and postgres are; "" looks in the usual places.
	Bin string
	// Settings are further postgresql.conf lines, "fsync=off".
	Settings []string
	// Log is told what is done; nil is slog.Default.
	Log *slog.Logger
}

// Cluster is a running PostgreSQL of ours.
type Cluster struct {
	cfg    Config
	place  place
	pid    int
	owner  *lockfile.Lock // holds the lock for as long as we may stop the cluster; nil: another process may
	exited chan struct{}
	quit   chan struct{} // ends the watch over a process that is not our child
	once   sync.Once
	log    *slog.Logger
}

// ErrForeign is returned for a directory that holds something we did not make.
var ErrForeign = errors.New("not a cluster of breakwater")

// Start makes the cluster where there is none, starts it where it does not run,
// and returns when it answers. One left running by a process that was killed is
// taken over. One that another live process owns is shared: Stop then leaves it alone.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	c := &Cluster{cfg: cfg, log: cfg.Log, quit: make(chan struct{})}
	if c.log == nil {
		c.log = slog.Default()
	}
	var err error
	if c.place, err = makePlace(cfg.Dir); err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	if c.owner, err = own(c.place.dir); err != nil {
		return nil, fmt.Errorf("private PostgreSQL: %w", err)
	}
	if c.owner == nil {
		err = c.share(ctx)
	} else {
		err = c.run(ctx)
	}
	if err != nil {
		c.once.Do(c.release)
		return nil, fmt.Errorf("private PostgreSQL in %s: %w", c.place.dir, err)
	}
	return c, nil
}

// Dir is where the cluster really lives: Config.Dir, or another place where the
// user that PostgreSQL must run as cannot reach that.
func (c *Cluster) Dir() string { return c.place.dir }

// Shared reports whether another live process owns the cluster.
func (c *Cluster) Shared() bool { return c.owner == nil }

// Pid is the postmaster's.
func (c *Cluster) Pid() int { return c.pid }

// Done is closed when the cluster has ended, by Stop or by itself.
func (c *Cluster) Done() <-chan struct{} { return c.exited }

// DSN names the database, for pgx and psql alike.
func (c *Cluster) DSN() string { return c.dsn(Database) }

func (c *Cluster) dsn(database string) string {
	q := url.Values{"host": {c.place.socket}, "user": {User}}
	// A plus would be taken as it stands, not for the space it means.
	return "postgres:///" + database + "?" + strings.ReplaceAll(q.Encode(), "+", "%20")
}

// run adopts the running cluster or starts one; the lock is ours.
func (c *Cluster) run(ctx context.Context) error {
	switch foreign, err := c.place.foreign(); {
	case err != nil:
		return err
	case foreign:
		return fmt.Errorf("%w: there is data without our mark", ErrForeign)
	}
	if m, alive := c.place.postmaster(); alive {
		c.log.Info("take over running PostgreSQL", "pid", m.pid, "dir", c.place.dir)
		// One that was told to stop just before its owner was killed ends meanwhile.
		if err := c.attach(ctx, m); !errors.Is(err, errEnded) {
			return err
		}
	}
	bin, err := choose(c.cfg.Bin, c.place.version())
	if err != nil {
		return err
	}
	if c.place.version() == "" {
		c.log.Info("make a private PostgreSQL", "bin", bin, "dir", c.place.dir)
		if err := c.initdb(ctx, bin); err != nil {
			return err
		}
	}
	c.place.clearStale()
	// Children of a killed postmaster may hold its memory for a moment longer,
	// and one that was spawned just before its owner died may still be on its way.
	for left := 5; ; left-- {
		if err := c.spawn(bin); err != nil {
			return err
		}
		err := c.ready(ctx)
		if err == nil {
			return nil
		}
		if !errors.Is(err, errEnded) || left == 0 {
			return errors.Join(err, c.Stop())
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(10 * pollEvery):
		}
		if m, alive := c.place.postmaster(); alive {
			return c.attach(ctx, m)
		}
	}
}

// attach makes a running postmaster ours to use.
func (c *Cluster) attach(ctx context.Context, m postmaster) error {
	c.pid, c.place.socket = m.pid, m.socket
	c.exited = watch(m.pid, c.quit)
	return c.ready(ctx)
}

// share waits for the cluster that another process owns, and perhaps is just starting.
func (c *Cluster) share(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		if m, alive := c.place.postmaster(); alive {
			return c.attach(ctx, m)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the process that owns it: %w", ctx.Err())
		case <-time.After(pollEvery):
		}
	}
}

func (c *Cluster) initdb(ctx context.Context, bin string) error {
	fresh := filepath.Join(c.place.dir, "data.new")
	if err := os.RemoveAll(fresh); err != nil { // of a first start that was cut off
		return fmt.Errorf("clear the place: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"),
		"-D", fresh, "-U", User, "-A", "trust", "-E", "UTF8", "--locale=C")
	c.place.prepare(cmd)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, tail(string(out)))
	}
	if err := c.place.sign(fresh); err != nil {
		return err
	}
	if err := os.Rename(fresh, c.place.data()); err != nil {
		return fmt.Errorf("put the new cluster in place: %w", err)
	}
	return nil
}

func (c *Cluster) spawn(bin string) error {
	log, err := c.place.openLog()
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", c.place.data(), "-k", c.place.socket, "-p", port}
	for _, s := range append([]string{
		"listen_addresses=", "unix_socket_permissions=0700", "max_connections=100",
		"log_checkpoints=off", "log_line_prefix=%m [%p] ", "timezone=UTC", "log_timezone=UTC",
	}, c.cfg.Settings...) {
		args = append(args, "-c", s)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	c.place.prepare(cmd)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	c.pid, c.exited = cmd.Process.Pid, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended stands in its log
		close(c.exited)
	}()
	return nil
}

// ready waits until the database answers, and makes it where it is missing.
func (c *Cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := c.answer(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-c.exited:
			return fmt.Errorf("%w: %s", errEnded, c.place.logTail())
		case <-ctx.Done():
			return fmt.Errorf("wait for an answer: %w: %w", ctx.Err(), err)
		case <-time.After(pollEvery):
		}
	}
}

func (c *Cluster) answer(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.dsn("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var there bool
	if err := conn.QueryRow(ctx, `select exists (select from pg_database where datname = $1)`, Database).Scan(&there); err != nil || there {
		return err
	}
	_, err = conn.Exec(ctx, "create database "+Database)
	return err
}

// Stop ends the cluster in good order: open transactions are rolled back, what
// was committed is safe. A shared cluster goes on. A second call does nothing.
func (c *Cluster) Stop() (err error) {
	c.once.Do(func() {
		defer c.release()
		if !c.Shared() {
			err = c.end()
		}
	})
	return err
}

func (c *Cluster) end() error {
	for _, step := range []struct {
		signal syscall.Signal
		wait   time.Duration
	}{
		{syscall.SIGINT, 30 * time.Second}, // fast: clients are cut off, a checkpoint is made
		{syscall.SIGQUIT, 5 * time.Second}, // at once: the next start recovers from the log
		{syscall.SIGKILL, 5 * time.Second},
	} {
		select {
		case <-c.exited:
			return c.place.leave()
		default:
		}
		if err := syscall.Kill(c.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop postgres %d: %w", c.pid, err)
		}
		select {
		case <-c.exited:
			return c.place.leave()
		case <-time.After(step.wait):
			c.log.Warn("postgres does not stop", "pid", c.pid, "signal", step.signal.String())
		}
	}
	return fmt.Errorf("postgres %d is still there", c.pid)
}

// release gives up the lock and the watch; Shared keeps its answer.
func (c *Cluster) release() {
	close(c.quit)
	c.owner.Release()
}

const (
	startTimeout = 2 * time.Minute // recovery after a kill reads the log again
	pollEvery    = 20 * time.Millisecond
	port         = "5432" // a part of the socket's name only
)

var errEnded = errors.New("postgres ended at once")

// watch closes the channel once pid, which is not our child, is gone.
func watch(pid int, quit <-chan struct{}) chan struct{} {
	gone := make(chan struct{})
	go func() {
		tick := time.NewTicker(pollEvery)
		defer tick.Stop()
		for alive(pid) {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
		}
		close(gone)
	}()
	return gone
}
