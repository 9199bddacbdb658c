// Package redistest starts a Redis of its own for a test, and lets the test kill,
// stop and restart it.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Server is one redis-server on a unix socket. It belongs to its test.
type Server struct {
	t    testing.TB
	path string // of the binary
	sock string
	cmd  *exec.Cmd
}

// Start returns a server that answers. Without redis-server the test is skipped at
// a desk and fails in CI.
func Start(t testing.TB) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a Redis")
	}
	path, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	dir, err := os.MkdirTemp("", "redistest") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, path: path, sock: filepath.Join(dir, "s")}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	s.Restart()
	return s
}

// URL is where it listens.
func (s *Server) URL() string { return "unix://" + s.sock }

// Restart starts an empty server where there is none, and waits until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.cmd = exec.Command(s.path, "--port", "0", "--unixsocket", s.sock, "--save", "", "--appendonly", "no",
		"--dir", filepath.Dir(s.sock), "--loglevel", "warning")
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		answer, err := s.do("PING")
		if err == nil && answer == "+PONG" {
			return
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("redis-server does not answer: %q, %v", answer, err)
		}
	}
}

// Kill ends it at once (SIGKILL); it may be stopped, or gone already.
func (s *Server) Kill() {
	if s.cmd != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		s.cmd = nil
	}
}

// Silence makes it accept and never answer; Continue ends that.
func (s *Server) Silence() { s.signal(syscall.SIGSTOP) }

// Continue makes it answer again.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// Do sends one command and returns the first line of the answer.
func (s *Server) Do(words ...string) string {
	s.t.Helper()
	answer, err := s.do(words...)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer
}

func (s *Server) do(words ...string) (string, error) {
	c, err := net.DialTimeout("unix", s.sock, time.Second)
	if err != nil {
		return "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(5 * time.Second))
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	if _, err := c.Write([]byte(b.String())); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	return strings.TrimRight(line, "\r\n"), err
}
