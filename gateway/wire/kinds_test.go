package wire_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

// piped dials a pipe whose other end is served by serve.
func piped(serve func(c net.Conn, r *bufio.Reader)) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			defer theirs.Close()
			serve(theirs, bufio.NewReader(theirs))
		}()
		return ours, nil
	}
}

func TestHeaderTimeout(t *testing.T) {
	const most = 2 * time.Second
	tests := []struct {
		name     string
		upload   time.Duration // how long the client needs for its body
		headAt   time.Duration // after the request was read; 0: never
		bodyAt   time.Duration // after the head
		deadline time.Duration
		want     exchange.Kind
		took     time.Duration
	}{
		{"no head", 0, 0, 0, time.Minute, exchange.HeaderTimeout, most},
		{"a head in time, and a body that takes longer", 0, time.Second, 5 * time.Second, time.Minute, "", 6 * time.Second},
		{"a slow upload is not the upstream's time", 10 * time.Second, time.Second, 0, time.Minute, "", 11 * time.Second},
		{"no head after a slow upload", 10 * time.Second, 0, 0, time.Minute, exchange.HeaderTimeout, 12 * time.Second},
		{"the deadline comes first", 0, 0, 0, time.Second, exchange.Canceled, time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := wire.NewPool(wire.Config{HeaderTimeout: most, Dial: piped(func(c net.Conn, r *bufio.Reader) {
					req, err := http.ReadRequest(r)
					if err == nil {
						_, err = io.Copy(io.Discard, req.Body)
					}
					if err != nil || tt.headAt == 0 {
						_, _ = io.Copy(io.Discard, r)
						return
					}
					time.Sleep(tt.headAt)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n")
					time.Sleep(tt.bodyAt)
					_, _ = io.WriteString(c, "ok")
				})})
				defer p.Close()
				x := request("GET", "u:1", "-")
				if tt.upload > 0 {
					streamed, s := streaming("u:1", -1, io.EOF, "hello")
					x = streamed
					time.AfterFunc(tt.upload, func() { close(s.parts) })
				}
				start := time.Now()
				x.SetDeadline(start.Add(tt.deadline))
				err := p.Serve(x)
				if err == nil {
					_, err = io.ReadAll(x.Response.Body)
				}
				if took := time.Since(start); kindOf(err) != tt.want || (err == nil) != (tt.want == "") || took != tt.took {
					t.Errorf("got %v after %v, want kind %q after %v", err, took, tt.want, tt.took)
				}
				if tt.want != "" && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("%v is not a deadline", err)
				}
				x.End(retrylog.OK)
			})
		})
	}
}

// A connection that was closed while idle, in the moment between the look at it
// and the write: whether the request is lost can be proven, and then it is not.
func TestStaleConnectionUnderARequest(t *testing.T) {
	tests := []struct {
		name  string
		close func(c *net.TCPConn)
		again bool
	}{
		{"closed: the request was taken by nobody", func(c *net.TCPConn) { _ = c.Close() }, true},
		{"half closed: it may be read", func(c *net.TCPConn) { _ = c.CloseWrite() }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			// The first connection answers once; then dial hands out a wrapper whose
			// Write first has the upstream close.
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			closeIt, closed := make(chan struct{}), make(chan struct{})
			go func() {
				for first := true; ; first = false {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						r := bufio.NewReader(c)
						if _, err := http.ReadRequest(r); err != nil {
							return
						}
						_, _ = io.WriteString(c, small)
						if first {
							<-closeIt
							tt.close(c.(*net.TCPConn))
							close(closed)
						}
					}()
				}
			}()
			dials := 0
			p := pool(t, wire.Config{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
				dials++
				c, err := new(net.Dialer).DialContext(ctx, network, address)
				if err != nil || dials > 1 {
					return c, err
				}
				writes := 0
				return &late{TCPConn: c.(*net.TCPConn), before: func() {
					if writes++; writes == 2 {
						close(closeIt)
						<-closed
					}
				}}, nil
			}})
			serveOne(t, p, request("GET", l.Addr().String(), "-"))
			x := request("POST", l.Addr().String(), "hello") // may be sent twice by nobody
			err = p.Serve(x)
			if tt.again && (err != nil || dials != 2 || len(x.Event.Tries) != 1) {
				t.Errorf("got %v with %d dials, want the one attempt on a new connection", err, dials)
			}
			if ue, _ := errors.AsType[*exchange.UpstreamError](err); !tt.again && (ue == nil || ue.Kind != exchange.ResetBeforeFirst || ue.Unprocessed || dials != 1) {
				t.Errorf("got %v with %d dials, want a reset that proves nothing", err, dials)
			}
			x.End(retrylog.OK)
		})
	}
}

// late is a connection with something to happen right before each write.
type late struct {
	*net.TCPConn
	before func()
}

func (l *late) Write(p []byte) (int, error) { l.before(); return l.TCPConn.Write(p) }

func TestShelvesOfTheGoneAreForgotten(t *testing.T) {
	address, _, _, _ := scripted(t, small, small, small)
	p := pool(t, wire.Config{})
	x := request("GET", address, "-")
	if err := p.Serve(x); err != nil { // the body is still open: the connection is in use
		t.Fatal(err)
	}
	now := time.Now()
	p.Tick(now)
	p.Tick(now) // nobody asked in between
	x.End(retrylog.OK)
	if n := p.Idle(address); n != 0 {
		t.Errorf("%d idle connections at an endpoint that was forgotten", n)
	}
	serveOne(t, p, request("GET", address, "-"))
	p.Tick(now)
	p.Tick(now)
	if n := p.Idle(address); n != 1 {
		t.Errorf("%d idle connections, want the one that is good for 90 s", n)
	}
	p.Tick(now.Add(89 * time.Second))
	p.Tick(now.Add(91 * time.Second))
	if n := p.Idle(address); n != 0 {
		t.Errorf("%d idle connections after 91 s", n)
	}
}

func TestIdleByDefault(t *testing.T) {
	// Policies B6: 128 connections per endpoint, for 90 s.
	address, _ := answers(t, small, false)
	p := pool(t, wire.Config{})
	var open []*exchange.Exchange
	for range 130 {
		x := request("GET", address, "-")
		if err := p.Serve(x); err != nil {
			t.Fatal(err)
		}
		open = append(open, x)
	}
	for _, x := range open {
		x.End(retrylog.OK)
	}
	if n := p.Idle(address); n != 128 {
		t.Errorf("%d idle connections, want 128", n)
	}
}
