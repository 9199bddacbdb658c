package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// child is one process of serve or demo, started again whenever it ends before
// its time. Killing one never touches the others.
type child struct {
	name      string
	args      []string
	env       []string
	listeners map[string]net.Listener // handed down, kept open here
	output    output
	grace     time.Duration // from SIGTERM to SIGKILL
	log       *slog.Logger

	mu  sync.Mutex
	pid int
}

// Restart delays: at once after a healthy life, slower when it dies young.
const (
	firstRestart = 50 * time.Millisecond
	lastRestart  = 2 * time.Second
	healthyLife  = 10 * time.Second
)

// Run keeps the child alive until ctx ends, then stops it and returns.
func (c *child) Run(ctx context.Context) error {
	delay := firstRestart
	for {
		began := time.Now()
		err := c.once(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(began) > healthyLife {
			delay = firstRestart
		}
		c.log.Warn("child ended, starting it again", "child", c.name, "err", err, "delay_ms", delay.Milliseconds())
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(delay):
		}
		delay = min(2*delay, lastRestart)
	}
}

func (c *child) once(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	lifeRead, lifeWrite, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the life line of %s: %w", c.name, err)
	}
	defer lifeWrite.Close()
	defer lifeRead.Close()

	cmd := exec.Command(self, c.args...)
	cmd.Env = append(os.Environ(), c.env...)
	cmd.Stdout, cmd.Stderr = c.output.out, c.output.err
	// A group of its own: Ctrl-C in the terminal reaches the parent alone, which
	// stops the children in order.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.ExtraFiles = append(cmd.ExtraFiles, lifeRead)
	cmd.Env = append(cmd.Env, parentEnv+"=3")
	var fds []string
	for name, l := range c.listeners {
		file, err := l.(*net.TCPListener).File()
		if err != nil {
			return fmt.Errorf("hand down listener %s: %w", name, err)
		}
		defer file.Close()
		fds = append(fds, fmt.Sprintf("%s=%d", name, 3+len(cmd.ExtraFiles)))
		cmd.ExtraFiles = append(cmd.ExtraFiles, file)
	}
	cmd.Env = append(cmd.Env, listenersEnv+"="+strings.Join(fds, ","))
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", c.name, err)
	}
	c.setPID(cmd.Process.Pid)
	defer c.setPID(0)

	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may just have ended
	select {
	case err := <-done:
		return err
	case <-time.After(c.grace):
		c.log.Warn("child did not stop in time, killing it", "child", c.name)
		_ = cmd.Process.Kill()
		return <-done
	}
}

func (c *child) setPID(pid int) {
	c.mu.Lock()
	c.pid = pid
	c.mu.Unlock()
	if pid != 0 {
		c.log.Info("child started", "child", c.name, "pid", pid)
	}
}

// output is where a child writes. Both are real files: a pipe would make the
// child's write fail once we are gone.
type output struct {
	out, err *os.File
	owned    bool
}

func (o output) close() {
	if o.owned {
		_ = o.out.Close()
	}
}

// childOutput opens dir/name.log, or gives the child our own streams.
func childOutput(dir, name string) (output, error) {
	if dir == "" {
		return output{out: os.Stdout, err: os.Stderr}, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return output{}, fmt.Errorf("make the log directory: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return output{}, fmt.Errorf("open the log of %s: %w", name, err)
	}
	return output{out: file, err: file, owned: true}, nil
}
