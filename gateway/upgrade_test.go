package gateway_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/internal/retrylog"
)

// inFlight is what the balancer holds for the first upstream.
func (h *house) inFlight(t *testing.T) (n int) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest("GET", "http://127.0.0.1/stats", nil)
	h.Admin().ServeHTTP(w, r)
	var stats struct {
		Upstreams map[string]struct {
			Endpoints []struct {
				InFlight int `json:"in_flight"`
			}
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &stats); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, e := range stats.Upstreams["order-up"].Endpoints {
		n += e.InFlight
	}
	return n
}

// TestWebSocket: the permit and the record end with the tunnel, and not with 101.
func TestWebSocket(t *testing.T) {
	address := server(t, func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+r.Header.Get("Upgrade")+"\r\n\r\n")
		_, _ = io.Copy(c, rw) // an echo, until the client has done
	})
	cfg := retries(shop(address), 2)
	cfg.Routes[0].Timeout = 100 * time.Millisecond // of no effect behind the head
	h := start(t, cfg, gateway.Config{})
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "GET /orders/1 HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(c)
	if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
		t.Fatal(res, err)
	}
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		if _, err := io.WriteString(c, "hello"); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 5)
		if _, err := io.ReadFull(r, buf); err != nil || string(buf) != "hello" {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	if n := h.inFlight(t); n != 1 {
		t.Errorf("%d in flight while the tunnel stands, want 1", n)
	}
	_ = c.(*net.TCPConn).CloseWrite()
	if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	ev := h.records.wait(t, 1)[0]
	if ev.Outcome != retrylog.OK || ev.Status != 101 || ev.LatencyUS < 300_000 {
		t.Errorf("recorded as %s, %d after %d us", ev.Outcome, ev.Status, ev.LatencyUS)
	}
	if n := h.inFlight(t); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
}

// TestPolicies_R25: a refused stream of a POST is one retry, and one withdrawal.
func TestPolicies_R25(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	streams := make(chan string, 10)
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_, _ = io.ReadFull(c, make([]byte, len(http2.ClientPreface)))
		f := http2.NewFramer(c, c)
		_ = f.WriteSettings()
		body, n := "", 0
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.HeadersFrame:
				if n++; n == 1 {
					_ = f.WriteRSTStream(frame.StreamID, http2.ErrCodeRefusedStream)
					streams <- "refused"
				}
				body = ""
			case *http2.DataFrame:
				if body += string(frame.Data()); n > 1 && frame.StreamEnded() {
					var b strings.Builder
					_ = hpack.NewEncoder(&b).WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
					_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: frame.StreamID, BlockFragment: []byte(b.String()), EndHeaders: true, EndStream: true})
					streams <- body
				}
			}
		}
	}()
	cfg := retries(shop(l.Addr().String()), 2)
	cfg.Upstreams[0].Protocol = config.H2C
	h := start(t, cfg, gateway.Config{})
	status, _, _ := h.do(t, "POST", "/orders/1", "0123456789")
	ev := h.records.wait(t, 1)[0]
	if status != 200 || len(ev.Tries) != 2 || ev.Reason != "unprocessed" || ev.Tries[0].Kind != "reset_before_first_byte" {
		t.Errorf("got %d after %d tries, reason %q", status, len(ev.Tries), ev.Reason)
	}
	if first, second := <-streams, <-streams; first != "refused" || second != "0123456789" {
		t.Errorf("the upstream saw %q and %q", first, second)
	}
}

// TestEarlyAnswerToAnUpload: an answer to half an upload goes through at once, with
// a retry policy that wants to know whether the body could be sent again.
func TestEarlyAnswerToAnUpload(t *testing.T) {
	address := server(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		buf := make([]byte, 1)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
			_, _ = w.Write(buf)
			_ = http.NewResponseController(w).Flush()
		}
	})
	h := start(t, retries(shop(address), 2), gateway.Config{})
	c, err := net.Dial("tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "PUT /orders/1 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(res, err)
	}
	buf := make([]byte, 1)
	for _, b := range "abc" {
		if _, err := io.WriteString(c, "1\r\n"+string(b)+"\r\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(res.Body, buf); err != nil || buf[0] != byte(b) {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	if _, err := io.WriteString(c, "0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
		t.Errorf("at the end %q, %v", rest, err)
	}
	if ev := h.records.wait(t, 1)[0]; ev.Outcome != retrylog.OK || !ev.BodyComplete {
		t.Errorf("recorded as %s, complete %v", ev.Outcome, ev.BodyComplete)
	}
}
