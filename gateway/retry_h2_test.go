package gateway_test

import (
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/retry"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// refusing speaks HTTP/2 and refuses the first n streams before it has looked at
// them. It returns how many it saw, and the bodies of those it answered.
func refusing(t *testing.T, n int64) (address string, streams *atomic.Int64, bodies chan string) {
	t.Helper()
	streams, bodies = new(atomic.Int64), make(chan string, 16)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	answer := func() []byte {
		var b strings.Builder
		e := hpack.NewEncoder(&b)
		e.SetMaxDynamicTableSize(0)
		_ = e.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
		return []byte(b.String())
	}()
	serve := func(c net.Conn) {
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings()
		got := map[uint32]string{}
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			id := frame.Header().StreamID
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() {
					_ = f.WriteSettingsAck()
				}
			case *http2.HeadersFrame:
				if streams.Add(1) <= n {
					_ = f.WriteRSTStream(id, http2.ErrCodeRefusedStream)
					continue
				}
				got[id] = ""
			case *http2.DataFrame:
				text, known := got[id]
				if !known {
					continue // of a stream that was refused
				}
				got[id] = text + string(frame.Data())
				if frame.StreamEnded() {
					bodies <- got[id]
					_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: answer, EndHeaders: true, EndStream: true})
				}
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	return l.Addr().String(), streams, bodies
}

// R25: a refused stream is proof that nothing was done: even a POST is sent once
// more, whole, and for one retry of the budget.
func TestPolicies_R25_Budget(t *testing.T) {
	for _, tt := range []struct {
		refused, budget int64
		status, tries   int
		skip            string
	}{
		{1, 1, 200, 2, ""},
		{2, 1, 502, 2, "retry_budget"}, // were a try charged twice, the first row would fail
		{2, 2, 200, 3, ""},
		{9, 9, 502, 3, "attempts_exhausted"},
	} {
		address, streams, bodies := refusing(t, tt.refused)
		cfg := retries(shop(address), 2)
		cfg.Upstreams[0].Protocol = config.H2C
		cfg.Upstreams[0].RetryBudget = &retry.BudgetConfig{MinPerSec: tt.budget, TTL: time.Second}
		h := start(t, cfg, gateway.Config{})
		status, _, _ := h.do(t, "POST", "/orders/1", "0123456789")
		ev := h.records.wait(t, 1)[0]
		if status != tt.status || len(ev.Tries) != tt.tries || streams.Load() != int64(tt.tries) || ev.Skip != tt.skip {
			t.Errorf("%d after %d streams, event %+v; want %+v", status, streams.Load(), ev, tt)
		}
		if len(ev.Tries) > 1 && ev.Tries[0].Reason != "unprocessed" {
			t.Errorf("decided by %q", ev.Tries[0].Reason)
		}
		if tt.status == 200 {
			if text := <-bodies; text != "0123456789" {
				t.Errorf("the body came as %q", text)
			}
		}
	}
}
