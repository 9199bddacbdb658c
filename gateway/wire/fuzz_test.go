package wire

import (
	"bytes"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/socket"
)

// canned is a connection that answers with bytes, whatever it is sent.
type canned struct{ *bytes.Reader }

func (canned) Write(p []byte) (int, error)      { return len(p), nil }
func (canned) Close() error                     { return nil }
func (canned) LocalAddr() net.Addr              { return nil }
func (canned) RemoteAddr() net.Addr             { return nil }
func (canned) SetDeadline(time.Time) error      { return nil }
func (canned) SetReadDeadline(time.Time) error  { return nil }
func (canned) SetWriteDeadline(time.Time) error { return nil }

func FuzzAnswer(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX: 1\r\n\r\n",
		"HTTP/1.1 103 Early\r\n\r\nHTTP/1.0 404\r\nConnection: keep-alive\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		p := NewPool(Config{})
		nc := canned{bytes.NewReader(raw)}
		c := &conn{nc: nc, quick: socket.New(nc), pool: p, shelf: p.shelf("u:1"), buf: make([]byte, readSize)}
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method = "GET"
		if err := c.readHead(x); err != nil {
			return
		}
		// What is taken for an answer can be written again without becoming two.
		if x.Response.Status < 200 || x.Response.Status > 599 {
			t.Fatalf("status %d", x.Response.Status)
		}
		for _, field := range x.Response.Head.Fields() {
			if field.Name == "" || strings.ContainsAny(field.Name, " :\r\n\x00") || strings.ContainsAny(field.Value, "\r\n\x00") {
				t.Fatalf("field %q", field)
			}
			if strings.EqualFold(field.Name, "Transfer-Encoding") || strings.EqualFold(field.Name, "Content-Length") {
				t.Fatalf("framing field %q was passed on", field)
			}
		}
		if x.Response.Body == nil {
			return
		}
		body, err := io.ReadAll(x.Response.Body)
		if n := x.Response.Length; err == nil && n >= 0 && int64(len(body)) != n {
			t.Fatalf("%d bytes of %d without an error", len(body), n)
		}
		if len(body) > len(raw) {
			t.Fatalf("%d bytes out of %d", len(body), len(raw))
		}
	})
}
