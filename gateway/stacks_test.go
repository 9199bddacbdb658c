package gateway_test

import (
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
)

// TestClientsWaitOnSmallStacks: a client that waits for an upstream costs a stack of
// 8 KiB, with policies on. Dialing takes a deeper one, and a goroutine keeps what
// it needed once: it has to happen elsewhere.
func TestClientsWaitOnSmallStacks(t *testing.T) {
	if gateway.RaceEnabled {
		t.Log("the race detector has larger frames")
		return
	}
	const clients = 400
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer up.Close()
	log := slog.New(slog.DiscardHandler)
	g := gateway.New(gateway.Config{Log: log})
	_, port, err := net.SplitHostPort(up.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(fmt.Sprintf(everything, up.Addr(), port), "concurrency: {kind: gradient}\n", "", 1) // it would not let so many in at once
	if err := g.Apply(parsed(t, text)); err != nil {
		t.Fatal(err)
	}
	address := served(t, g)
	stacks := func() uint64 {
		var m runtime.MemStats
		runtime.GC() // a goroutine that has ended gives its stack back
		runtime.ReadMemStats(&m)
		return m.StackInuse
	}
	before := stacks()
	for range clients { // one after the other: each has its connection to the upstream
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte("GET /orders HTTP/1.1\r\nHost: shop.example\r\nX-Caller: web\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		_ = up.(*net.TCPListener).SetDeadline(time.Now().Add(30 * time.Second))
		server, err := up.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		_ = server.SetDeadline(time.Now().Add(30 * time.Second))
		if _, err := server.Read(make([]byte, 4<<10)); err != nil {
			t.Fatal(err)
		}
	}
	if each := float64(stacks()-before) / clients; each > 9<<10 {
		t.Errorf("a stack of %.1f KiB each", each/1024)
	} else {
		t.Logf("%.1f KiB each", each/1024)
	}
}
