package wire_test

import (
	"bufio"
	"context"
	"errors"
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

// TestDeadlineOfTheExchange: what a connection was told for an exchange before may
// come too early for the one that it carries now, never too late.
func TestDeadlineOfTheExchange(t *testing.T) {
	address := upstream(t, func(c net.Conn, r *bufio.Reader) {
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			slow, _ := time.ParseDuration(req.Header.Get("Slow"))
			time.Sleep(slow)
			body := 1 << 10
			if req.Header.Get("Slow-Body") != "" {
				body = 96 << 10 // spliced, where that is possible
			}
			_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", body)
			slow, _ = time.ParseDuration(req.Header.Get("Slow-Body"))
			time.Sleep(slow)
			if _, err := c.Write(make([]byte, body)); err != nil {
				return
			}
		}
	})
	p := pool(t, wire.Config{})
	ask := func(deadline time.Duration, field, value string) (time.Duration, error) {
		x := request("GET", address, "-")
		if field != "" {
			x.Request.Head.Add(field, value)
		}
		start := time.Now()
		if deadline > 0 {
			x.SetDeadline(start.Add(deadline))
		}
		err := p.Serve(x)
		if err == nil && x.Response.Body != nil {
			_, err = io.Copy(io.Discard, x.Response.Body)
		}
		x.End(retrylog.OK)
		return time.Since(start), err
	}
	const short, long = 100 * time.Millisecond, 30 * time.Second
	for _, tt := range []struct {
		name         string
		before, then time.Duration // deadlines; 0: none
		field        string
		late         bool
	}{
		{"longer, and its head needs it", short, long, "Slow", false},
		{"longer, and its body needs it", short, long, "Slow-Body", false},
		{"none at all", short, 0, "Slow", false},
		{"shorter, and its head is too slow", long, short, "Slow", true},
		{"shorter, and its body is too slow", long, short, "Slow-Body", true},
		{"as long, and its head is too slow", short, short, "Slow", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ask(tt.before, "", ""); err != nil {
				t.Fatal(err)
			}
			slow := 3 * short
			took, err := ask(tt.then, tt.field, slow.String())
			if late := errors.Is(err, context.DeadlineExceeded); late != tt.late || !late && err != nil {
				t.Fatalf("after %v: %v, want a deadline: %v", took, err, tt.late)
			}
			if tt.late && (took < short || took >= slow) {
				t.Errorf("given up after %v, want %v", took, short)
			}
			if !tt.late && p.Idle(address) != 1 {
				t.Errorf("%d connections are kept, want the one", p.Idle(address))
			}
		})
	}
}

// TestCancelBeatsAnEarlyDeadline: a cancelled exchange does not put off what woke it.
func TestCancelBeatsAnEarlyDeadline(t *testing.T) {
	asked := make(chan struct{}, 2)
	address := upstream(t, func(c net.Conn, r *bufio.Reader) {
		for n := 0; ; n++ {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			asked <- struct{}{}
			if n > 0 {
				continue // and never answered
			}
			if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"); err != nil {
				return
			}
		}
	})
	p := pool(t, wire.Config{})
	x := request("GET", address, "-")
	x.SetDeadline(time.Now().Add(time.Minute))
	if err := p.Serve(x); err != nil {
		t.Fatal(err)
	}
	x.End(retrylog.OK)
	<-asked
	x = request("GET", address, "-")
	x.SetDeadline(time.Now().Add(time.Hour))
	token := x.Token()
	go func() { <-asked; token.Cancel(exchange.ErrClientGone) }()
	if err := p.Serve(x); !errors.Is(err, exchange.ErrClientGone) {
		t.Errorf("got %v, want the client gone", err)
	}
}
