package front_test

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// asking is a client that asks the same n times and takes what it is told.
type asking struct {
	played
	request []byte
	left    int
}

func (a *asking) Read(p []byte) (int, error) {
	if a.left == 0 {
		return 0, io.EOF
	}
	a.left--
	return copy(p, a.request), nil
}

func (*asking) Write(p []byte) (int, error)      { return len(p), nil }
func (*asking) Close() error                     { return nil }
func (*asking) SetReadDeadline(time.Time) error  { return nil }
func (*asking) SetWriteDeadline(time.Time) error { return nil }

var _ net.Conn = (*asking)(nil)

// same is a body that is given again and again.
type same struct {
	text string
	at   int
}

func (s *same) Read(p []byte) (int, error) {
	if s.at == len(s.text) {
		return 0, io.EOF
	}
	n := copy(p, s.text[s.at:])
	s.at += n
	return n, nil
}
func (s *same) Close() error { return nil }

// BenchmarkFast is what the fast face costs between a client's socket and the stack.
func BenchmarkFast(b *testing.B) {
	body := &same{text: strings.Repeat("x", 1<<10)}
	f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Service: exchange.Func(func(x *exchange.Exchange) error {
		r := &x.Response
		r.Head.Add("Content-Type", "text/plain")
		r.Head.Add("Server", "bench")
		r.Status, r.Length, r.Body, body.at = 200, 1<<10, body, 0
		return nil
	})})
	c := &asking{request: []byte("GET /orders/1?a=b HTTP/1.1\r\nHost: shop.example\r\nUser-Agent: bench/1.0\r\nAccept: */*\r\nAccept-Encoding: gzip\r\nX-Caller: web\r\n\r\n"), left: b.N}
	b.ReportAllocs()
	b.ResetTimer()
	f.ServeFast(c)
}
