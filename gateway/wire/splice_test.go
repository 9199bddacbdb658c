package wire_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

type splicer interface {
	Spliceable() bool
	SendTo(w io.ReaderFrom, most int64) (int64, error)
}

// pair is a TCP connection with both its ends.
func pair(tb testing.TB) (ours, theirs *net.TCPConn) {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	d, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close(); _ = d.Close() })
	return c.(*net.TCPConn), d.(*net.TCPConn)
}

// upToSplice serves x, reads what came with the head, and returns the body from
// where it can be spliced on.
func upToSplice(tb testing.TB, p *wire.Pool, x *exchange.Exchange, to io.Writer) splicer {
	tb.Helper()
	if err := p.Serve(x); err != nil {
		tb.Fatal(err)
	}
	body := x.Response.Body.(splicer)
	buf := make([]byte, 1<<10)
	for !body.Spliceable() {
		n, err := x.Response.Body.Read(buf)
		if err != nil {
			tb.Fatal(err)
		}
		_, _ = to.Write(buf[:n])
	}
	return body
}

func TestSendTo(t *testing.T) {
	const size = 1 << 20
	whole := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	tests := []struct {
		name string
		send int // of the size bytes that were promised
		end  func(c *net.TCPConn)
		// client does something to the client's end first.
		client   func(c *net.TCPConn)
		deadline time.Duration
		kind     exchange.Kind // "" where the upstream is not to blame
		fails    bool
	}{
		{name: "the whole body", send: size},
		{name: "cut", send: size / 2, end: func(c *net.TCPConn) { _ = c.Close() }, kind: exchange.BodyCut, fails: true},
		{name: "silent", send: size / 2, deadline: 200 * time.Millisecond, kind: exchange.Canceled, fails: true},
		{name: "the client is gone", send: size, client: func(c *net.TCPConn) { _ = c.SetLinger(0); _ = c.Close() }, fails: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			done := make(chan struct{})
			address := upstream(t, func(c net.Conn, r *bufio.Reader) {
				for {
					if _, err := http.ReadRequest(r); err != nil {
						return
					}
					fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size)
					_, _ = c.Write(whole[:tt.send])
					if tt.end != nil {
						tt.end(c.(*net.TCPConn))
					} else if tt.send < size {
						<-done
					}
				}
			})
			defer close(done)
			gate, client := pair(t)
			read := make(chan []byte, 1)
			if tt.client != nil {
				tt.client(client)
				read <- nil
			} else {
				go func() { b, _ := io.ReadAll(client); read <- b }()
			}
			p := pool(t, wire.Config{})
			x := request("GET", address, "-")
			if tt.deadline > 0 {
				x.SetDeadline(time.Now().Add(tt.deadline))
			}
			body := upToSplice(t, p, x, gate)
			var err error
			for err == nil {
				_, err = body.SendTo(gate, 128<<10)
			}
			_ = gate.CloseWrite()
			got := <-read
			if !tt.fails {
				if err != io.EOF || !bytes.Equal(got, whole) {
					t.Errorf("got %d bytes and %v, want all and EOF", len(got), err)
				}
			} else if kindOf(err) != tt.kind || err == io.EOF {
				t.Errorf("got %v, want kind %q", err, tt.kind)
			}
			if tt.kind != "" && x.Event.Tries[0].Kind != string(tt.kind) {
				t.Errorf("the event says %q, want %q", x.Event.Tries[0].Kind, tt.kind)
			}
			x.End(retrylog.OK)
			if n := p.Idle(address); (n == 1) == tt.fails {
				t.Errorf("%d idle connections", n)
			}
		})
	}
}

// BenchmarkBody shows what becomes of bodies by the size of the buffer they are
// copied with, and by SendTo. Both ends of both connections run in this process:
// what differs between the rows is the proxy's own.
func BenchmarkBody(b *testing.B) {
	for _, size := range []int{16 << 10, 64 << 10, 1 << 20} {
		for _, by := range []int{32 << 10, 64 << 10, 256 << 10, 0} {
			name := fmt.Sprintf("%dKiB/buffer of %dKiB", size>>10, by>>10)
			if by == 0 {
				name = fmt.Sprintf("%dKiB/SendTo", size>>10)
			}
			b.Run(name, func(b *testing.B) {
				raw := append(fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size), make([]byte, size)...)
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				go func() {
					c, err := l.Accept()
					if err != nil {
						return
					}
					defer c.Close()
					for in := make([]byte, 4<<10); ; {
						if _, err := c.Read(in); err != nil {
							return
						}
						if _, err := c.Write(raw); err != nil {
							return
						}
					}
				}()
				gate, client := pair(b)
				go func() {
					_, _ = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{client}, make([]byte, 1<<20))
				}()
				p := wire.NewPool(wire.Config{})
				defer p.Close()
				buf := make([]byte, max(by, 4<<10))
				b.SetBytes(int64(size))
				b.ReportAllocs()
				for b.Loop() {
					x := request("GET", l.Addr().String(), "-")
					if err := p.Serve(x); err != nil {
						b.Fatal(err)
					}
					for {
						var n int
						if body := x.Response.Body.(splicer); by == 0 && body.Spliceable() {
							_, err = body.SendTo(gate, 128<<10)
						} else if n, err = x.Response.Body.Read(buf); n > 0 {
							_, _ = gate.Write(buf[:n])
						}
						if err == io.EOF {
							break
						}
						if err != nil {
							b.Fatal(err)
						}
					}
					x.End(retrylog.OK)
				}
			})
		}
	}
}
