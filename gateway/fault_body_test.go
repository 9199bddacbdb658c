package gateway_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"breakwater/gateway/policy/fault"
)

// letters is an upstream that answers with the bytes behind /orders/, framed and
// encoded as the query says.
func letters(body []byte) http.HandlerFunc {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(body)
	_ = w.Close()
	return func(w http.ResponseWriter, r *http.Request) {
		send := body
		if r.URL.Query().Has("gzip") {
			w.Header().Set("Content-Encoding", "gzip")
			send = packed.Bytes()
		}
		if r.URL.Query().Has("chunked") {
			for len(send) > 0 {
				n := min(1000, len(send))
				_, _ = w.Write(send[:n])
				_ = http.NewResponseController(w).Flush()
				send = send[n:]
			}
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(send)))
		_, _ = w.Write(send)
	}
}

// alphabet never repeats within a piece, so that a byte too few or many shows.
func alphabet(n int) []byte {
	out := make([]byte, n)
	for i := range out {
		out[i] = byte('a' + (i*7+i/26)%26)
	}
	return out
}

// Truncation is exact to the byte, whatever the answer's framing and coding, and
// whatever the client speaks; a cut can be told from an end, and a clean one cannot.
func TestFaultWire_Truncation(t *testing.T) {
	const size = 10_000
	body := alphabet(size)
	h := haunt(t, shop(server(t, letters(body))))
	plain := h.ask(t, "GET", "/orders/1?gzip")
	packed := plain.body
	if !plain.whole || len(packed) < 100 || len(packed) > size {
		t.Fatalf("an encoded body of %d bytes", len(packed))
	}
	for _, tt := range []struct {
		name, query string
		known       bool
		sent        []byte
	}{
		{"length", "", true, body},
		{"chunked", "chunked", false, body},
		{"gzip", "gzip", true, packed},
		{"gzip, chunked", "gzip&chunked", false, packed},
	} {
		for _, clean := range []bool{false, true} {
			for _, at := range []int64{0, 1, 4095, -333_333} { // -: ppm of the length
				keep := at
				f := whole(fault.Truncate, func(f *fault.Fault) { f.Bytes, f.Clean = max(at, 0), clean })
				if at < 0 {
					if !tt.known {
						continue // a share of what nobody knows: fault's own tests
					}
					f.Bytes, f.PPMOfBody = 0, -at
					keep = int64(len(tt.sent)) * -at / 1_000_000
				}
				if keep >= int64(len(tt.sent)) {
					keep = int64(len(tt.sent)) - 1
					f.Bytes = keep
				}
				want := tt.sent[:keep]
				name := tt.name + " at " + strconv.FormatInt(at, 10) + " clean " + strconv.FormatBool(clean)
				h.arm(t, f)
				before := h.injected()
				got := h.ask(t, "GET", "/orders/1?"+tt.query)
				if !bytes.Equal(got.body, want) || got.whole != clean || got.status != 200 {
					t.Errorf("%s: %d bytes, want %d, whole %v, %v", name, len(got.body), keep, got.whole, got.err)
				}
				if promised := map[bool]int64{true: keep, false: int64(len(tt.sent))}[clean]; tt.known && got.length != promised {
					t.Errorf("%s: the head promises %d, want %d", name, got.length, promised)
				}
				two := h.dialH2(t).get(t, "/orders/1?"+tt.query)
				if !bytes.Equal(two.body, want) || two.ended != clean || !clean && (two.reset == nil || *two.reset != http2.ErrCodeInternal) {
					t.Errorf("%s, HTTP/2: %d bytes, want %d, ended %v, reset %v", name, len(two.body), keep, two.ended, two.reset)
				}
				if n := h.injected() - before; n != 2 {
					t.Errorf("%s: %d counted, want 2", name, n)
				}
			}
		}
	}
	for _, ev := range h.records.wait(t, 2) {
		if n := len(ev.Tries); n != 1 {
			t.Errorf("%d tries", n)
		}
	}
}

// A cut that the client saw is a failure in the record; a clean one is none, but
// names its run.
func TestFaultWire_TruncationIsRecorded(t *testing.T) {
	h := haunt(t, shop(server(t, letters(alphabet(1000)))))
	for i, clean := range []bool{false, true} {
		h.arm(t, whole(fault.Truncate, func(f *fault.Fault) { f.Bytes, f.Clean = 10, clean }))
		h.ask(t, "GET", "/orders/1")
		ev := h.last(t, i+1)
		if ev.Experiment != "run-1" || ev.Tries[0].Fault != "truncate" || ev.BodyComplete != clean || (ev.Outcome == "ok") != clean || ev.BytesOut != 10 {
			t.Errorf("clean %v: %+v", clean, ev)
		}
	}
}

// Empty bodies, HEAD and 204 have nothing to cut, corrupt or replace.
func TestFaultWire_NoBodyNoFault(t *testing.T) {
	h := haunt(t, shop(server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/orders/204":
			w.WriteHeader(204)
		case "/orders/304":
			w.WriteHeader(304)
		case "/orders/empty":
		default:
			_, _ = io.WriteString(w, "body")
		}
	})))
	h.arm(t,
		whole(fault.Truncate, func(f *fault.Fault) { f.PPMOfBody = 500_000 }),
		whole(fault.Corrupt, func(f *fault.Fault) { f.PPMOfBody = 1_000_000 }),
		whole(fault.Drip, func(f *fault.Fault) { f.BytesPerSecond = 1 }))
	for _, tt := range []struct{ method, path string }{{"GET", "/orders/204"}, {"GET", "/orders/304"}, {"GET", "/orders/empty"}, {"HEAD", "/orders/1"}} {
		if got := h.ask(t, tt.method, tt.path, "Connection", "close"); len(got.body) != 0 || got.err != nil {
			t.Errorf("%s %s: %d, %q, %v", tt.method, tt.path, got.status, got.body, got.err)
		}
	}
	if n := h.injected(); n != 0 {
		t.Errorf("%d counted", n)
	}
	h.arm(t, whole(fault.Body, func(f *fault.Fault) { f.Body = "another" }))
	for path, want := range map[string]string{"/orders/204": "", "/orders/304": "", "/orders/empty": "another", "/orders/1": "another"} {
		if got := h.ask(t, "GET", path, "Connection", "close"); string(got.body) != want {
			t.Errorf("%s: %q, want %q", path, got.body, want)
		}
	}
}

// C23: another body, shorter or longer, is read to its end by its own length.
func TestChaos_C23_wire(t *testing.T) {
	h := haunt(t, shop(server(t, letters(alphabet(18)))))
	for _, n := range []int{17, 40} {
		want := strings.Repeat("x", n)
		h.arm(t, whole(fault.Body, func(f *fault.Fault) { f.Body = want }))
		for _, query := range []string{"", "chunked", "gzip"} {
			got := h.ask(t, "GET", "/orders/1?"+query)
			if string(got.body) != want || got.length != int64(n) || !got.whole || got.head.Get("Content-Encoding") != "" {
				t.Errorf("%d, %q: %q, length %d, whole %v, %v", n, query, got.body, got.length, got.whole, got.head)
			}
			if two := h.dialH2(t).get(t, "/orders/1?"+query); string(two.body) != want || !two.ended {
				t.Errorf("%d, %q, HTTP/2: %q", n, query, two.body)
			}
		}
	}
}

func TestFaultWire_CorruptionKeepsTheLength(t *testing.T) {
	body := alphabet(10_000)
	h := haunt(t, shop(server(t, letters(body))))
	h.arm(t, whole(fault.Corrupt, func(f *fault.Fault) { f.PPMOfBody = 100_000 }))
	for _, query := range []string{"", "chunked"} {
		got := h.ask(t, "GET", "/orders/1?"+query)
		changed := 0
		for i := range min(len(got.body), len(body)) {
			if d := got.body[i] ^ body[i]; d != 0 {
				if changed++; d&(d-1) != 0 {
					t.Fatalf("byte %d has more than a bit flipped: %x", i, d)
				}
			}
		}
		if len(got.body) != len(body) || !got.whole || changed < 850 || changed > 1150 {
			t.Errorf("%q: %d bytes, whole %v, %d changed, want about 1000", query, len(got.body), got.whole, changed)
		}
	}
}

// A drip keeps its rate on the wire, and once its fault is gone the rest comes at once.
func TestFaultWire_Drip(t *testing.T) {
	body := alphabet(1000)
	h := haunt(t, shop(server(t, letters(body))))
	h.arm(t, whole(fault.Drip, func(f *fault.Fault) { f.BytesPerSecond = 2000 }))
	begin := time.Now()
	if got := h.ask(t, "GET", "/orders/1"); !bytes.Equal(got.body, body) || time.Since(begin) < 490*time.Millisecond {
		t.Errorf("%d bytes after %v, want 1000 not before 500 ms", len(got.body), time.Since(begin))
	}
	h.arm(t, whole(fault.Drip, func(f *fault.Fault) { f.BytesPerSecond = 100 }))
	begin = time.Now()
	time.AfterFunc(200*time.Millisecond, h.table.Halt)
	if got := h.ask(t, "GET", "/orders/1"); !bytes.Equal(got.body, body) || time.Since(begin) > 3*time.Second {
		t.Errorf("%d bytes after %v: the drip was halted after 0.2 s", len(got.body), time.Since(begin))
	}
}

// C6: a latency is charged once an answer, and not once a chunk.
func TestChaos_C6_wire(t *testing.T) {
	h := haunt(t, shop(server(t, letters(alphabet(1<<20)))))
	h.arm(t, whole(fault.Latency, func(f *fault.Fault) { f.LatencyMS = 200 }), whole(fault.Latency, func(f *fault.Fault) { f.ID, f.LatencyMS = "two", 300 }))
	begin := time.Now()
	got := h.ask(t, "GET", "/orders/1?chunked")
	if took := time.Since(begin); len(got.body) != 1<<20 || took < 500*time.Millisecond || took > 2*time.Second {
		t.Errorf("%d bytes after %v, want one delay of 500 ms", len(got.body), took)
	}
	if try := h.last(t, 1).Tries[0]; try.PlannedUS != 500_000 || try.ActualUS < 500_000 || try.CutShort {
		t.Errorf("%+v", try)
	}
}
