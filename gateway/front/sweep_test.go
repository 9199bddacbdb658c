package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

// late is by how much what the sweeper does may come after its time: two sweeps,
// and what a shared machine may hold it up.
const late = 2 * time.Second

// TestClientGoneOnAnyRequest: a client that leaves is told on the first request of a
// connection, behind which net/http reads, and on later ones, where the sweeper looks.
func TestClientGoneOnAnyRequest(t *testing.T) { onBoth(t, testClientGoneOnAnyRequest) }

func testClientGoneOnAnyRequest(t *testing.T, on func() front.Listening) {
	type end struct {
		outcome retrylog.Outcome
		took    time.Duration
	}
	arrived, ended := make(chan struct{}), make(chan end, 1)
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		if x.Request.Path != "/wait" {
			_ = x.Wait(5*time.Millisecond, nil) // for long enough that net/http reads behind it
			return echo(x)
		}
		close(arrived)
		start := time.Now()
		err := x.Wait(10*time.Second, nil)
		ended <- end{exchange.Classify(err, 0), time.Since(start)}
		if err == nil {
			return echo(x)
		}
		return err
	})})
	for _, tt := range []struct {
		name   string
		before int
		behind string // sent behind the request
		reset  bool
		gone   bool
	}{
		{"the first request", 0, "", false, true},
		{"the second", 1, "", false, true},
		{"a later one", 5, "", false, true},
		{"a later one, by a reset", 5, "", true, true},
		{"one with another behind it, which is not over", 5, "GET / HTTP/1.1\r\n", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arrived, ended = make(chan struct{}), make(chan end, 1)
			c, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for range tt.before {
				ask(t, c)
			}
			if _, err := io.WriteString(c, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"+tt.behind); err != nil {
				t.Fatal(err)
			}
			<-arrived
			if !tt.gone {
				select {
				case e := <-ended:
					t.Errorf("ended as %v after %v, and the client is there", e.outcome, e.took)
				case <-time.After(500 * time.Millisecond):
				}
				return
			}
			time.Sleep(50 * time.Millisecond) // it leaves in the middle
			if tt.reset {
				_ = c.(*net.TCPConn).SetLinger(0)
			}
			_ = c.Close()
			e := <-ended
			if e.outcome != retrylog.ClientAbort || e.took > late {
				t.Errorf("ended as %v after %v", e.outcome, e.took)
			}
			t.Logf("told %v after the request", e.took)
		})
	}
}

// TestPatience: the times of a client are kept on every request of a connection.
func TestPatience(t *testing.T) { onBoth(t, testPatience) }

func testPatience(t *testing.T, on func() front.Listening) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	const patience, early = 300 * time.Millisecond, 20 * time.Millisecond
	big := strings.Repeat("x", 64<<20)
	ended := make(chan retrylog.Outcome, 8)
	address := listen(t, front.Config{
		Listening: on,
		Limits:    front.Limits{HeadTime: patience, WriteTime: patience, BodyGrace: patience},
		Service: exchange.Func(func(x *exchange.Exchange) error {
			x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { ended <- o }))
			switch x.Request.Path {
			case "/big":
				x.Response.Status, x.Response.Length = 200, int64(len(big))
				x.Response.Body = io.NopCloser(strings.NewReader(big))
				return nil
			case "/upload":
				if _, err := io.Copy(io.Discard, &x.Request.Body); err != nil {
					return err
				}
			case "/slow": // longer than any of the client's times
				_ = x.Wait(3*patience, nil)
			}
			return echo(x)
		}),
	})
	for _, tt := range []struct {
		name, sent string
		outcome    retrylog.Outcome // "": it comes to no request
	}{
		{"half a head", "GET /a HTTP/1.1\r\nHost:", ""},
		{"half a body", "POST /upload HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc", retrylog.LocalRefusal},
		{"an answer that nobody reads", "GET /big HTTP/1.1\r\nHost: a\r\n\r\n", retrylog.ClientAbort},
	} {
		for _, before := range []int{0, 3} {
			t.Run(fmt.Sprintf("%s after %d requests", tt.name, before), func(t *testing.T) {
				c, err := net.Dial("tcp", address)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				for range before {
					ask(t, c)
					<-ended
				}
				start := time.Now()
				if _, err := io.WriteString(c, tt.sent); err != nil {
					t.Fatal(err)
				}
				if tt.outcome != "" {
					if o := <-ended; o != tt.outcome {
						t.Errorf("ended as %v, want %v", o, tt.outcome)
					}
				} else {
					_, _ = io.Copy(io.Discard, c)
				}
				// A head's time begins when its connection is taken in, which may be
				// some milliseconds before the first of it is sent.
				if took := time.Since(start); took < patience-early || took > patience+late {
					t.Errorf("over after %v, want %v", took, patience)
				}
			})
		}
	}
	t.Run("an answer that takes long", func(t *testing.T) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for range 2 {
			if _, err := io.WriteString(c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
				t.Fatal(err)
			}
			if seen, more := readAnswer(r, "GET"); !strings.HasPrefix(seen, "200") || !more {
				t.Fatalf("got %q", seen)
			}
			<-ended
			time.Sleep(2 * patience) // and a rest between two is none of a head
		}
	})
}
