package gateway_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"breakwater/gateway"
	"breakwater/gateway/config"
)

// path returns a function that makes one request from a client's socket to an
// upstream's and back, with every policy in place, and an answer of 1 KiB.
func path(tb testing.TB, face string) (ask func()) {
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = up.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1024\r\n\r\n" + strings.Repeat("x", 1024))
	go func() {
		for {
			c, err := up.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				buf := make([]byte, 4<<10)
				for { // a head comes in one piece here
					if _, err := c.Read(buf); err != nil {
						return
					}
					if _, err := c.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	g := gateway.New(gateway.Config{Name: "gw", Env: "bench", Log: slog.New(slog.DiscardHandler)})
	cfg := retries(shop(up.Addr().String()), 2)
	cfg.Gateway.Front = face
	if err := g.Apply(cfg); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l) }()
	tb.Cleanup(func() {
		stop()
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	r := bufio.NewReader(c)
	request := []byte("GET /orders/1 HTTP/1.1\r\nHost: app.example\r\nX-Caller: web\r\n\r\n")
	return func() {
		if _, err := c.Write(request); err != nil {
			tb.Fatal(err)
		}
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				tb.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(1024); err != nil && err != io.EOF {
			tb.Fatal(err)
		}
	}
}

func BenchmarkPath(b *testing.B) {
	for _, face := range []string{config.FrontStandard, config.FrontAuto} {
		b.Run(face, func(b *testing.B) {
			ask := path(b, face)
			b.ReportAllocs()
			for b.Loop() {
				ask()
			}
		})
	}
}

// TestPathAllocations holds what a request costs the collector on the standard face:
// all of it is net/http's, the parts of its request. The fast face's costs nothing.
func TestPathAllocations(t *testing.T) {
	ask := path(t, config.FrontStandard)
	for range 100 { // pools fill, tables grow
		ask()
	}
	most := 15.
	if gateway.RaceEnabled {
		most *= 3
	}
	if n := testing.AllocsPerRun(500, ask); n > most {
		t.Errorf("%v allocations a request, want at most %v", n, most)
	}
}
