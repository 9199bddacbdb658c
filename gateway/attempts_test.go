package gateway_test

import (
	"bufio"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
)

// TestReliability_F19 holds the attempts in the log against those an upstream saw
// that closes one in fifty of its kept connections, through each face: none is made
// that is not told, and none is told that was not made. The million is the wire's
// (go test ./gateway/wire -run F19).
func TestReliability_F19(t *testing.T) {
	for _, face := range []string{config.FrontAuto, config.FrontStandard} {
		t.Run(face, func(t *testing.T) {
			up, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer up.Close()
			var seen atomic.Int64
			go func() {
				for {
					c, err := up.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						for r := bufio.NewReader(c); ; {
							req, err := http.ReadRequest(r)
							if err != nil {
								return
							}
							_, _ = io.Copy(io.Discard, req.Body) // its end is the next request's beginning
							n := seen.Add(1)
							if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); err != nil || n%50 == 0 {
								return
							}
						}
					}()
				}
			}()
			records := newMemory()
			g := gateway.New(gateway.Config{Recorder: records, Log: slog.New(slog.DiscardHandler)})
			cfg := retries(shop(up.Addr().String()), 2)
			cfg.Gateway.Front = face
			if err := g.Apply(cfg); err != nil {
				t.Fatal(err)
			}
			address := served(t, g)
			const clients, each = 4, 500
			var all sync.WaitGroup
			for i := range clients {
				all.Go(func() {
					c, err := net.Dial("tcp", address)
					if err != nil {
						t.Error(err)
						return
					}
					defer c.Close()
					_ = c.SetDeadline(time.Now().Add(time.Minute))
					r := bufio.NewReader(c)
					for n := range each {
						request := "GET /orders/1 HTTP/1.1\r\nHost: a\r\n\r\n"
						if (n+i)%3 == 0 {
							request = "POST /orders/1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
						}
						if _, err := io.WriteString(c, request); err != nil {
							t.Error(err)
							return
						}
						res, err := http.ReadResponse(r, nil)
						if err != nil {
							t.Error(err)
							return
						}
						_, _ = io.Copy(io.Discard, res.Body)
						if res.Close {
							t.Error("the client's connection ends with the upstream's")
							return
						}
					}
				})
			}
			all.Wait()
			told, unseen := 0, 0
			for _, ev := range records.wait(t, clients*each) {
				told += len(ev.Tries)
				for _, try := range ev.Tries {
					if try.Status == 0 { // proven to have been taken by nobody
						unseen++
					}
				}
			}
			if want := int64(told - unseen); seen.Load() != want || told < clients*each {
				t.Errorf("%d attempts in the log, %d of them without an answer, and the upstream saw %d", told, unseen, seen.Load())
			}
			t.Logf("%d attempts, %d to a connection that had gone", told, unseen)
		})
	}
}
