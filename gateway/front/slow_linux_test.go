package front_test

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// The figure is of 10 000: go test ./gateway/front -run F12 -slow 10000 -v
var slowClients = flag.Int("slow", 2000, "clients of TestReliability_F12 that never finish a head")

const slowServer = "BREAKWATER_SLOW_SERVER" // set in the process that serves them

// TestReliability_F12 holds the process that serves against clients that send a
// head byte by byte: what they cost, whether others feel it, and when they are gone.
func TestReliability_F12(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	if os.Getenv(slowServer) != "" {
		serveSlow(t)
		return
	}
	pid, address := startSlow(t)
	good, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer good.Close()
	for range 100 {
		ask(t, good)
	}
	idle := resident(t, pid)

	var took []time.Duration
	feel := func() {
		start := time.Now()
		ask(t, good)
		took = append(took, time.Since(start))
	}
	clients := make([]net.Conn, *slowClients)
	for i := range clients {
		if clients[i], err = net.Dial("tcp", address); err != nil {
			t.Fatal(err)
		}
		defer clients[i].Close()
		if _, err := io.WriteString(clients[i], "GET /a HTTP/1.1\r\nHost: a\r\n"); err != nil {
			t.Fatal(err)
		}
		if i%10 == 0 {
			feel()
		}
	}
	for i, c := range clients {
		_, _ = fmt.Fprintf(c, "X-%d: b\r\n", i) // one that is cut already is none the worse
		if i%10 == 0 {
			feel()
		}
	}
	last := time.Now()
	if n := opened(t, good); n != *slowClients+1 {
		t.Fatalf("%d connections are open, want all %d: this machine is too slow for that many", n, *slowClients+1)
	}
	peak := resident(t, pid)
	for opened(t, good) > 1 {
		feel()
		peak = max(peak, resident(t, pid))
		if time.Since(last) > 6*time.Second {
			t.Fatalf("%d are still there 6 s after their last byte", opened(t, good)-1)
		}
		time.Sleep(5 * time.Millisecond)
	}
	gone := time.Since(last)
	slices.Sort(took)
	p99, each := took[len(took)*99/100], (peak-idle)/len(clients)
	t.Logf("%d slow clients: %.1f MB over idle, %d bytes each; a good one's p99 %v of %d; all gone %v after the last byte",
		len(clients), float64(peak-idle)/1e6, each, p99, len(took), gone)
	if each > 10_000 && !raceEnabled { // whose own memory is most of it
		t.Errorf("a slow client costs %d bytes, want at most 10 kB", each)
	}
	most := 20 * time.Millisecond
	if len(clients) < 10_000 {
		most *= 5 // other tests run beside it
	}
	if p99 > most {
		t.Errorf("a good client's p99 is %v, want at most %v", p99, most)
	}
}

// opened asks how many connections there are.
func opened(t *testing.T, c net.Conn) int {
	t.Helper()
	if _, err := io.WriteString(c, "GET /open HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// resident is what the process has in memory, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := bytes.Cut(status, []byte("VmRSS:"))
	var kB int
	if _, err := fmt.Sscan(string(rest), &kB); err != nil {
		t.Fatal(err)
	}
	return kB << 10
}

// startSlow starts this test again as a process that serves.
func startSlow(t *testing.T) (pid int, address string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestReliability_F12$")
	cmd.Env, cmd.Stderr = append(os.Environ(), slowServer+"=1"), os.Stderr
	in, err := cmd.StdinPipe() // it ends with us
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // its verdict is ours
	})
	if err != nil {
		t.Fatal(err)
	}
	return cmd.Process.Pid, strings.TrimSpace(line)
}

// serveSlow serves until its standard input ends.
func serveSlow(t *testing.T) {
	var f *front.Front
	f = front.New(front.Config{
		Log: slog.New(slog.DiscardHandler), Listening: func() front.Listening { return front.Listening{Max: 1 << 20, Fast: true} },
		Service: exchange.Func(func(x *exchange.Exchange) error {
			s := strconv.FormatInt(f.Stats().Open, 10)
			x.Response.Status, x.Response.Length, x.Response.Body = 200, int64(len(s)), text(s)
			return nil
		}),
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := f.Server()
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(f.Listen(l)) }()
	fmt.Println(l.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = s.Shutdown(context.Background())
	<-done
}
