package wire_test

import (
	"bytes"
	"flag"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

var attempts = flag.Int("attempts", 100_000, "requests of TestReliability_F19_X128")

// mortal is an upstream whose connections die: after one answer in fifty it ends
// the connection in the way of end. It counts the requests it has read.
func mortal(t *testing.T, end func(c *net.TCPConn, more func() bool)) (address string, seen *atomic.Int64) {
	seen = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); served.Wait() })
	served.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer c.Close()
				buf, n := make([]byte, 8<<10), 0
				more := func() bool {
					for {
						// All requests have a head and no body, or "hello" for one.
						if i := bytes.Index(buf[:n], []byte("\r\n\r\n")); i >= 0 {
							size := i + 4
							if buf[0] == 'P' {
								size += len("hello")
							}
							if n >= size {
								n = copy(buf, buf[size:n])
								seen.Add(1)
								return true
							}
						}
						m, err := c.Read(buf[n:])
						if n += m; err != nil {
							return false
						}
					}
				}
				for more() {
					if seen.Load()%50 == 0 {
						end(c.(*net.TCPConn), more)
						return
					}
					if _, err := io.WriteString(c, small); err != nil {
						return
					}
				}
			})
		}
	})
	return l.Addr().String(), seen
}

// load sends n requests by hand of eight clients through retry, balance and
// wire, and returns what the log says of them.
func load(t *testing.T, address string, n int) (logged, unanswered, failed int64) {
	p := pool(t, wire.Config{})
	svc := exchange.Chain(p,
		retry.Layer(retry.Config{Enabled: true, MaxRetries: 2, OnStatus: []int{502}, PerTry: 5 * time.Second, BackoffBase: time.Microsecond}, retry.Deps{Endpoints: 1}),
		balance.Layer(balance.Config{Endpoints: []string{address}, Rand: func() float64 { return 0 }}, balance.NewPool()))
	var tries, without, errors atomic.Int64
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			x := new(exchange.Exchange)
			buf := make([]byte, 1<<10)
			for i := range n / 8 {
				x.Reset()
				x.Request.Method, x.Request.Path, x.Request.Host = "GET", "/a", "app.example"
				x.Request.Body.Set(nil, 0)
				if (i+client)%4 == 0 { // may not be sent twice
					x.Request.Method = "POST"
					x.Request.Body.Set(bytes.NewReader([]byte("hello")), 5)
					x.Request.Body.Keep(64)
					_, _ = io.Copy(io.Discard, &x.Request.Body)
					_ = x.Request.Body.Rewind()
				}
				x.SetDeadline(time.Now().Add(30 * time.Second))
				err := svc.Serve(x)
				for err == nil && x.Response.Body != nil {
					if _, rerr := x.Response.Body.Read(buf); rerr != nil {
						if rerr != io.EOF {
							err = rerr
						}
						break
					}
				}
				if err != nil {
					errors.Add(1)
				}
				tries.Add(int64(len(x.Event.Tries)))
				for _, try := range x.Event.Tries {
					if try.Status == 0 {
						without.Add(1)
					}
				}
				x.End(exchange.Classify(err, x.Response.Status))
			}
		})
	}
	clients.Wait()
	return tries.Load(), without.Load(), errors.Load()
}

// Whatever becomes of kept connections, the log names as many attempts as the
// upstream has read: nothing is sent twice in secret, and an attempt that found
// a dead connection is not one.
func TestReliability_F19_X128(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: part of make test, not of make check")
	}
	n := *attempts
	if racing {
		n /= 10
	}
	tests := []struct {
		name string
		end  func(c *net.TCPConn, more func() bool)
	}{
		{"it answers, closes its half, and reads what still comes", func(c *net.TCPConn, more func() bool) {
			_, _ = io.WriteString(c, small)
			_ = c.CloseWrite()
			for more() {
			}
		}},
		{"it dies with the request read", func(*net.TCPConn, func() bool) {}},
		{"it dies in the middle of the answer's body", func(c *net.TCPConn, _ func() bool) {
			_, _ = io.WriteString(c, small[:len(small)-1])
		}},
		{"it dies in the middle of the answer's head", func(c *net.TCPConn, _ func() bool) {
			_, _ = io.WriteString(c, small[:20])
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, seen := mortal(t, tt.end)
			logged, unanswered, failed := load(t, address, n/len(tests))
			// What was written last may not have been read yet.
			for end := time.Now().Add(5 * time.Second); seen.Load() != logged && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if got := seen.Load(); got != logged {
				t.Errorf("logged %d attempts, the upstream saw %d", logged, got)
			}
			t.Logf("%d attempts logged, %d of them without an answer, %d requests failed", logged, unanswered, failed)
		})
	}
}

// An upstream that closes at once may throw away what its kernel has taken and
// it has not read. No log on our side can know that; what it must not do is hide
// an attempt, and each that the upstream did not see must stand there as unanswered.
func TestReliability_X128_HardClose(t *testing.T) {
	address, seen := mortal(t, func(c *net.TCPConn, _ func() bool) {
		_, _ = io.WriteString(c, small)
		_ = c.Close()
	})
	n := *attempts / 4
	if racing {
		n /= 10
	}
	logged, unanswered, failed := load(t, address, n)
	if got := seen.Load(); logged-got != unanswered {
		t.Errorf("logged %d attempts, the upstream saw %d, %d are without an answer", logged, got, unanswered)
	}
	t.Logf("%d attempts, of which %d were thrown away unread; %d requests failed", logged, unanswered, failed)
}

func TestPolicies_R17(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: part of make test, not of make check")
	}
	const overloaded = "HTTP/1.1 503 Service Unavailable\r\nX-Backend-Status: overloaded\r\nContent-Length: 1024\r\n\r\n"
	body := strings.Repeat("x", 1<<10)
	script := make([]string, 3000)
	for i := range script {
		script[i] = overloaded + body
		if i%3 == 2 {
			script[i] = "HTTP/1.1 200 OK\r\nContent-Length: 1024\r\n\r\n" + body
		}
	}
	address, connections, requests, _ := scripted(t, script...)
	svc := exchange.Chain(pool(t, wire.Config{}),
		retry.Layer(retry.Config{Enabled: true, MaxRetries: 2, OnStatus: []int{503}, PerTry: 5 * time.Second, BackoffBase: time.Millisecond}, retry.Deps{Endpoints: 1}),
		balance.Layer(balance.Config{Endpoints: []string{address}, Rand: func() float64 { return 0 }}, balance.NewPool()))
	before := 0
	for i := range 1000 {
		x := request("GET", address, "-")
		x.Event.Tries = nil // balance names them
		if err := svc.Serve(x); err != nil || x.Response.Status != 200 {
			t.Fatalf("request %d: %d, %v", i, x.Response.Status, err)
		}
		got, err := io.ReadAll(x.Response.Body)
		if err != nil || string(got) != body {
			t.Fatalf("request %d: %d bytes, %v", i, len(got), err)
		}
		x.End(retrylog.OK)
		if i == 0 {
			before = runtime.NumGoroutine()
		}
	}
	if n, m := connections.Load(), requests.Load(); n > 2 || m != 3000 {
		t.Errorf("%d tries over %d connections, want 3000 over at most 2", m, n)
	}
	if n := runtime.NumGoroutine(); n > before {
		t.Errorf("%d goroutines, %d after the first request", n, before)
	}
}
