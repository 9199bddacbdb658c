package gateway_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"breakwater/gateway"
)

// BenchmarkPath is one request from a client's socket to an upstream's and back,
// with every policy in place, and an answer of 1 KiB.
func BenchmarkPath(b *testing.B) {
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer up.Close()
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
	if err := g.Apply(retries(shop(up.Addr().String()), 2)); err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- g.Serve(ctx, l) }()
	defer func() {
		stop()
		if err := <-served; err != nil {
			b.Error(err)
		}
	}()

	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	r := bufio.NewReader(c)
	b.ReportAllocs()
	for b.Loop() {
		fmt.Fprint(c, "GET /orders/1 HTTP/1.1\r\nHost: app.example\r\nX-Caller: web\r\n\r\n")
		for {
			line, err := r.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if len(line) == 2 {
				break
			}
		}
		if _, err := r.Discard(1024); err != nil && err != io.EOF {
			b.Fatal(err)
		}
	}
}
