package front_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// pipes is a listener without sockets, so that its connections live in fake time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}
func (l pipes) Close() error   { close(l.done); return nil }
func (l pipes) Addr() net.Addr { return &net.TCPAddr{} }

// dialPipes serves f in the bubble and returns how to connect.
func dialPipes(f *front.Front) (dial func() net.Conn, stop func()) {
	l := pipes{make(chan net.Conn), make(chan struct{})}
	s := f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f.Listen(l)) }()
	dial = func() net.Conn {
		ours, theirs := net.Pipe()
		l.conns <- theirs
		return ours
	}
	return dial, func() { _ = s.Close(); <-done }
}

// TestFirstHead: a head may come as it likes, and what can be judged is judged at once.
func TestFirstHead(t *testing.T) {
	long := "X-Long: " + strings.Repeat("x", 6<<10) + "\r\n"
	for _, tt := range []struct {
		name, sent string
		want       string // start of the answer; "": the connection ends without
		after      time.Duration
	}{
		{"whole", "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK", 0},
		{"bare line feeds", "POST /a HTTP/1.1\nHost: a\nContent-Length: 5\n\nhello", "HTTP/1.1 200 OK", 0},
		{"more than is gathered", "POST /a HTTP/1.1\r\nHost: a\r\n" + long + "Content-Length: 5\r\n\r\nhello", "HTTP/1.1 200 OK", 0},
		{"HTTP/1.0", "POST /a HTTP/1.0\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello", "HTTP/1.0 200 OK", 0},
		{"HTTP/0.9", "GET /\r\n", "HTTP/1.1 400", 0},
		{"a line without a colon, and no end", "GET /a HTTP/1.1\r\nHost: a\r\nX\r\n", "HTTP/1.1 400", 0},
		{"an end that is none", "GET /a HTTP/1.1\r\nHost: a\r\n\r\r\n", "HTTP/1.1 400", 0},
		{"an empty line", "\r\n", "HTTP/1.1 400", 0},
		{"no head that ends", "GET /a HTTP/1.1\r\nHost: a\r\n", "", 5 * time.Second},
		{"nothing", "", "", 5 * time.Second},
		{"more than is gathered, and no end", "GET /a HTTP/1.1\r\nHost: a\r\n" + long, "", 5 * time.Second},
		{"no line that ends", "GET /", "", 5 * time.Second},
	} {
		for _, pieces := range []int{1, 3, 1 << 20} {
			t.Run(fmt.Sprintf("%s, %d bytes a time", tt.name, pieces), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
						if body, err := io.ReadAll(&x.Request.Body); err != nil || string(body) != "hello" {
							t.Errorf("the body is %q, %v", body, err)
						}
						x.Response.Status = 200
						return nil
					})})
					dial, stop := dialPipes(f)
					defer stop()
					c, start := dial(), time.Now()
					defer c.Close()
					go func() {
						for rest := tt.sent; rest != ""; {
							n := min(pieces, len(rest))
							if _, err := io.WriteString(c, rest[:n]); err != nil {
								return // it was refused before its end
							}
							rest = rest[n:]
						}
					}()
					line, _ := bufio.NewReader(c).ReadString('\n')
					if took := time.Since(start); !strings.HasPrefix(line, tt.want) || (tt.want == "") != (line == "") || took != tt.after {
						t.Errorf("answered %q after %v, want %q after %v", line, took, tt.want, tt.after)
					}
				})
			})
		}
	}
}

// TestLateHead: the time of a first head is one, whoever reads it.
func TestLateHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes)})
		dial, stop := dialPipes(f)
		defer stop()
		c, start := dial(), time.Now()
		defer c.Close()
		time.Sleep(4 * time.Second)
		if _, err := io.WriteString(c, "GET /a HTTP/1.1\r\nX: "+strings.Repeat("x", 8<<10)); err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, c)
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("gone after %v, want the 5s of a head", took)
		}
		// The second head of a connection has its time from its first byte on.
		c = dial()
		defer c.Close()
		ask(t, c)
		time.Sleep(20 * time.Second)
		ask(t, c)
	})
}

// TestListenerClose: who has not sent a head is cut, and nobody is left behind.
func TestListenerClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes)})
		dial, stop := dialPipes(f)
		begun, silent := dial(), dial()
		if _, err := io.WriteString(begun, "GET /a HTTP/1.1\r\n"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := f.Stats().Open; n != 2 {
			t.Errorf("%d connections count before their head has come, want 2", n)
		}
		start := time.Now()
		stop()
		for _, c := range []net.Conn{begun, silent} {
			if n, err := c.Read(make([]byte, 1)); n != 0 || err != io.EOF {
				t.Errorf("read %d, %v", n, err)
			}
		}
		if took := time.Since(start); took != 0 || f.Stats().Open != 0 {
			t.Errorf("closed after %v, %d open", took, f.Stats().Open)
		}
	})
}

// byBytes writes one byte at a time.
type byBytes struct{ net.Conn }

func (c byBytes) Write(p []byte) (n int, err error) {
	for ; n < len(p) && err == nil; n++ {
		_, err = c.Conn.Write(p[n : n+1])
	}
	return n, err
}

// TestFirstBytesInPieces: HTTP/2 by prior knowledge, TLS, and both.
func TestFirstBytesInPieces(t *testing.T) {
	cert := secure(t)
	for _, how := range []front.Listening{{}, {TLS: cert}} {
		for _, two := range []bool{false, true} {
			address := serve(t, front.New(front.Config{
				Log: slog.New(slog.DiscardHandler), Service: exchange.Func(schemes), Listening: func() front.Listening { return how },
			}))
			tr := &http.Transport{
				Protocols: new(http.Protocols), TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
				DialContext: func(context.Context, string, string) (net.Conn, error) {
					c, err := net.Dial("tcp", address)
					return byBytes{c}, err
				},
			}
			defer tr.CloseIdleConnections()
			scheme, proto := "http", 11
			if how.TLS != nil {
				scheme = "https"
			}
			if two {
				proto = 20
				tr.Protocols.SetUnencryptedHTTP2(true)
				tr.Protocols.SetHTTP2(true)
			} else {
				tr.Protocols.SetHTTP1(true)
			}
			want := fmt.Sprintf("%d %s %s", proto, scheme, scheme)
			res, err := tr.RoundTrip(request(t, scheme+"://app.example/a", nil))
			if err != nil {
				t.Fatalf("want %s: %v", want, err)
			}
			if body, err := io.ReadAll(res.Body); err != nil || string(body) != want {
				t.Errorf("got %q, %v, want %q", body, err, want)
			}
		}
	}
}

// BenchmarkFront is what a request costs, on a connection that is kept and on one
// of its own.
func BenchmarkFront(b *testing.B) {
	f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
		x.Response.Status = 204
		return nil
	})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	s := f.Server()
	go func() { _ = s.Serve(f.Listen(l)) }()
	defer s.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		return c
	}
	buf := make([]byte, 4<<10)
	once := func(c net.Conn) {
		if _, err := io.WriteString(c, "GET /a HTTP/1.1\r\nHost: app.example\r\nUser-Agent: bench\r\n\r\n"); err != nil {
			b.Fatal(err)
		}
		if _, err := c.Read(buf); err != nil { // a short answer comes in one piece here
			b.Fatal(err)
		}
	}
	b.Run("kept", func(b *testing.B) {
		c := dial()
		defer c.Close()
		b.ReportAllocs()
		for b.Loop() {
			once(c)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			c := dial()
			once(c)
			_ = c.(*net.TCPConn).SetLinger(0) // leaves no port behind
			_ = c.Close()
		}
	})
}
