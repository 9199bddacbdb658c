package gateway_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/internal/retrylog"
)

// h2server is an upstream that speaks h2c alone.
func h2server(t *testing.T, h http.HandlerFunc) (address string) {
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// grpc is a configuration of one idempotent route over h2c, retried on 503 whether
// or not anything is said with it.
func grpc(endpoints ...string) config.Config {
	cfg := retries(shop(endpoints...), 2)
	cfg.Upstreams[0].Protocol = config.H2C
	cfg.Routes[0].Retry.Idempotent, cfg.Routes[0].Retry.BareOn503 = true, true
	return cfg
}

// call makes a gRPC call over h2c and returns the status, wherever it stands.
func (h *house) call(t *testing.T, path string, more ...string) (status string, body string) {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), "POST", h.url+path, io.MultiReader(strings.NewReader("message"))) // of no known length
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	for i := 0; i < len(more); i += 2 {
		req.Header.Set(more[i], more[i+1])
	}
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != 200 {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	status = res.Trailer.Get("Grpc-Status")
	if status == "" {
		status = res.Header.Get("Grpc-Status")
	}
	return status, string(text)
}

// TestGRPCOutcomes: the status behind an answer judges it, and only one in a head
// without a body can be tried again.
func TestGRPCOutcomes(t *testing.T) {
	head := func(status string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			w.Header().Set("Grpc-Status", status)
		}
	}
	late := func(status string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/grpc")
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
			w.Header().Set(http.TrailerPrefix+"Grpc-Status", status)
		}
	}
	tests := []struct {
		name     string
		upstream []http.HandlerFunc // one a call
		status   string
		body     string
		outcome  retrylog.Outcome
		first    int
	}{
		{"ok", []http.HandlerFunc{late("0")}, "0", "message", retrylog.OK, 200},
		{"not found is an answer", []http.HandlerFunc{head("5")}, "5", "", retrylog.OK, 404},
		{"unavailable in a head, then ok", []http.HandlerFunc{head("14"), late("0")}, "0", "message", retrylog.OK, 503},
		{"unavailable for good", []http.HandlerFunc{head("14"), head("14"), head("14")}, "14", "", retrylog.UpstreamFailure, 503},
		{"unavailable behind a message", []http.HandlerFunc{late("14")}, "14", "message", retrylog.UpstreamFailure, 200},
		{"unknown behind a message", []http.HandlerFunc{late("2")}, "2", "message", retrylog.UpstreamFailure, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var n atomic.Int64
			address := h2server(t, func(w http.ResponseWriter, r *http.Request) {
				i := n.Add(1)
				if int(i) > len(tt.upstream) {
					t.Error("one call too many")
					return
				}
				tt.upstream[i-1](w, r)
			})
			h := start(t, grpc(address), gateway.Config{})
			status, body := h.call(t, "/orders/1")
			if status != tt.status || body != tt.body || int(n.Load()) != len(tt.upstream) {
				t.Errorf("status %s, body %q after %d calls, want %s, %q and %d", status, body, n.Load(), tt.status, tt.body, len(tt.upstream))
			}
			if ev := h.records.wait(t, 1)[0]; ev.Outcome != tt.outcome || ev.Status != 200 || ev.FirstStatus != tt.first {
				t.Errorf("recorded as %s, %d, first %d, want %s, 200, first %d", ev.Outcome, ev.Status, ev.FirstStatus, tt.outcome, tt.first)
			}
		})
	}
}

// TestGRPCOfOurs: what the gateway itself says is a status too.
func TestGRPCOfOurs(t *testing.T) {
	held := make(chan struct{})
	defer close(held)
	slow := h2server(t, func(http.ResponseWriter, *http.Request) { <-held })
	for _, tt := range []struct {
		name, address, path, timeout string
		want                         string
		outcome                      retrylog.Outcome
	}{
		{"no route", slow, "/elsewhere", "", "12", retrylog.LocalRefusal},
		{"no upstream", closedPort(t), "/orders/1", "", "14", retrylog.UpstreamFailure},
		{"grpc-timeout", slow, "/orders/1", "50m", "4", retrylog.Timeout},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := start(t, grpc(tt.address), gateway.Config{})
			more := []string{}
			if tt.timeout != "" {
				more = append(more, "Grpc-Timeout", tt.timeout)
			}
			if status, _ := h.call(t, tt.path, more...); status != tt.want {
				t.Errorf("status %s, want %s", status, tt.want)
			}
			if ev := h.records.wait(t, 1)[0]; ev.Outcome != tt.outcome {
				t.Errorf("recorded as %s, want %s", ev.Outcome, tt.outcome)
			}
		})
	}
}

// TestGRPCBothWays: a call whose two ends talk by turns, over both halves.
func TestGRPCBothWays(t *testing.T) {
	address := h2server(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.WriteHeader(200)
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		buf := make([]byte, 1)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				break
			}
			_, _ = w.Write(buf)
			_ = rc.Flush()
		}
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	h := start(t, grpc(address), gateway.Config{})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	in, out := io.Pipe()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/orders/1", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	res, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for i := range 100 {
		if _, err := out.Write([]byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		if _, err := io.ReadFull(res.Body, buf); err != nil || buf[0] != byte(i) {
			t.Fatalf("turn %d: %v, %v", i, buf, err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 || res.Trailer.Get("Grpc-Status") != "0" {
		t.Errorf("at the end %q, %v, status %q", rest, err, res.Trailer.Get("Grpc-Status"))
	}
	if ev := h.records.wait(t, 1)[0]; ev.Outcome != retrylog.OK || !ev.BodyComplete || len(ev.Tries) != 1 {
		t.Errorf("recorded as %s, complete %v, %d tries", ev.Outcome, ev.BodyComplete, len(ev.Tries))
	}
}

// TestGRPCClientGone: a reset on our side is one on the upstream's, and nobody's
// failure.
func TestGRPCClientGone(t *testing.T) {
	reached, left := make(chan struct{}), make(chan struct{})
	address := h2server(t, func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(left)
	})
	h := start(t, grpc(address), gateway.Config{})
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-reached; cancel() }()
	in, out := io.Pipe()
	defer out.Close()
	req, err := http.NewRequestWithContext(ctx, "POST", h.url+"/orders/1", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	if _, err := tr.RoundTrip(req); err == nil {
		t.Error("answered")
	}
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Fatal("the upstream was not told")
	}
	if ev := h.records.wait(t, 1)[0]; ev.Outcome != retrylog.ClientAbort || len(ev.Tries) != 1 {
		t.Errorf("recorded as %s after %d tries", ev.Outcome, len(ev.Tries))
	}
}
