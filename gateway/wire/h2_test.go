package wire_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

// h2server serves HTTP/2 in the clear.
func h2server(t *testing.T, h http.HandlerFunc) (address string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// h2frames is an upstream that answers frame by frame.
func h2frames(t *testing.T, serve func(n int64, f *http2.Framer, stream uint32)) (address string, streams *atomic.Int64) {
	t.Helper()
	streams = new(atomic.Int64)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if _, err := io.ReadFull(c, make([]byte, len(http2.ClientPreface))); err != nil {
					return
				}
				f := http2.NewFramer(c, c)
				_ = f.WriteSettings()
				for {
					frame, err := f.ReadFrame()
					if err != nil {
						return
					}
					switch frame := frame.(type) {
					case *http2.SettingsFrame:
						if !frame.IsAck() {
							_ = f.WriteSettingsAck()
						}
					case *http2.HeadersFrame:
						serve(streams.Add(1), f, frame.StreamID)
					}
				}
			}()
		}
	}()
	return l.Addr().String(), streams
}

// head encodes fields for one block; the table stays empty.
func head(fields ...string) []byte {
	var b strings.Builder
	e := hpack.NewEncoder(&b)
	e.SetMaxDynamicTableSize(0)
	for i := 0; i < len(fields); i += 2 {
		_ = e.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return []byte(b.String())
}

func h2pool(t *testing.T, cfg wire.Config) *wire.H2 {
	h := wire.NewH2(cfg, nil)
	t.Cleanup(h.Close)
	return h
}

func TestH2Exchange(t *testing.T) {
	address := h2server(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Link", "</s.css>")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Link")
		w.Header().Set("X-Saw", fmt.Sprintf("%s %s %s %s %d te=%s agent=%q sum=%s", r.Method, r.Host, r.URL.RequestURI(), body,
			r.ContentLength, r.Header.Get("Te"), r.UserAgent(), r.Trailer.Get("X-Sum")))
		w.WriteHeader(201)
		_, _ = io.WriteString(w, "hello")
		_ = http.NewResponseController(w).Flush() // or its length would be known
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
		w.Header().Set(http.TrailerPrefix+"Under_score", "1")
		w.Header().Set(http.TrailerPrefix+"X-Breakwater-Lie", "1")
	})
	p := h2pool(t, wire.Config{})
	for range 2 {
		x := request("POST", address, "-")
		x.Request.Path, x.Request.Query = "/a/%3Fb", "q=1"
		x.Request.Body.Set(strings.NewReader("body"), -1)
		x.Request.Head.Add("Content-Type", "application/grpc")
		x.Request.Announced = []string{"X-Sum"}
		x.Request.Trailer.Add("X-Sum", "7")
		informed := ""
		x.Inform = func(status int, head *exchange.Head) { informed = fmt.Sprint(status, head.Get("Link")) }
		if err := p.Serve(x); err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(x.Response.Body)
		if err != nil || string(body) != "hello" || x.Response.Status != 201 || x.Response.Length != -1 {
			t.Errorf("got %d %q of length %d, %v", x.Response.Status, body, x.Response.Length, err)
		}
		want := `POST app.example /a/%3Fb?q=1 body -1 te=trailers agent="" sum=7`
		if got := x.Response.Head.Get("X-Saw"); got != want {
			t.Errorf("the upstream saw %q, want %q", got, want)
		}
		if informed != "103</s.css>" {
			t.Errorf("informed of %q", informed)
		}
		tr := &x.Response.Trailer
		if tr.Get("Grpc-Status") != "0" || tr.Get("Under_score") != "1" || tr.Len() != 2 {
			t.Errorf("trailers %v", tr.Fields())
		}
		x.End(retrylog.OK)
	}
	idle(t, p, address)
}

// idle waits until the one connection to address serves nobody.
func idle(t *testing.T, p interface{ Idle(string) int }, address string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); p.Idle(address) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d idle connections, want 1", p.Idle(address))
		}
	}
}

// TestPolicies_R25 is the wire's part: each refusal is one attempt, told as
// unprocessed, and nothing is sent again behind the policy's back.
func TestPolicies_R25(t *testing.T) {
	address, streams := h2frames(t, func(n int64, f *http2.Framer, stream uint32) {
		if n == 1 {
			_ = f.WriteRSTStream(stream, http2.ErrCodeRefusedStream)
			return
		}
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head(":status", "200"), EndHeaders: true, EndStream: true})
	})
	p := h2pool(t, wire.Config{})
	x := request("POST", address, "0123456789")
	err := p.Serve(x)
	ue, ok := errors.AsType[*exchange.UpstreamError](err)
	if !ok || ue.Kind != exchange.ResetBeforeFirst || !ue.Unprocessed || streams.Load() != 1 {
		t.Fatalf("got %v after %d streams, want one that is known to be unprocessed", err, streams.Load())
	}
	if err := x.Request.Body.Rewind(); err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(x); err != nil || x.Response.Status != 200 || streams.Load() != 2 {
		t.Errorf("the second try: %d, %v after %d streams", x.Response.Status, err, streams.Load())
	}
	x.End(retrylog.OK)
}

func TestH2Failures(t *testing.T) {
	answer := func(f *http2.Framer, stream uint32) {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head(":status", "200"), EndHeaders: true})
		_ = f.WriteData(stream, false, []byte("half"))
	}
	tests := []struct {
		name        string
		serve       func(n int64, f *http2.Framer, stream uint32)
		kind        exchange.Kind // of the head's error
		unprocessed bool
		bodyKind    exchange.Kind
	}{
		{name: "reset", kind: exchange.ResetBeforeFirst, serve: func(_ int64, f *http2.Framer, s uint32) { _ = f.WriteRSTStream(s, http2.ErrCodeInternal) }},
		{name: "a goaway that leaves the stream out", kind: exchange.ResetBeforeFirst, unprocessed: true,
			serve: func(_ int64, f *http2.Framer, s uint32) { _ = f.WriteGoAway(0, http2.ErrCodeNo, nil) }},
		{name: "nonsense", kind: exchange.BadResponse, serve: func(_ int64, f *http2.Framer, s uint32) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: head(":status", "2000"), EndHeaders: true, EndStream: true})
		}},
		{name: "status 099", kind: exchange.BadResponse, serve: func(_ int64, f *http2.Framer, s uint32) {
			_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: head(":status", "600"), EndHeaders: true, EndStream: true})
		}},
		{name: "reset in the body", bodyKind: exchange.ResetAfterFirst, serve: func(_ int64, f *http2.Framer, s uint32) {
			answer(f, s)
			_ = f.WriteRSTStream(s, http2.ErrCodeInternal)
		}},
		{name: "silence before the head", kind: exchange.Canceled, serve: func(int64, *http2.Framer, uint32) {}},
		{name: "silence in the body", bodyKind: exchange.Canceled, serve: func(_ int64, f *http2.Framer, s uint32) { answer(f, s) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			address, streams := h2frames(t, tt.serve)
			x := request("GET", address, "-")
			x.SetDeadline(time.Now().Add(300 * time.Millisecond))
			err := h2pool(t, wire.Config{}).Serve(x)
			if kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
				t.Fatalf("got %v, want kind %q", err, tt.kind)
			}
			if streams.Load() != 1 {
				t.Errorf("%d streams, want 1", streams.Load())
			}
			if err != nil {
				if ue, _ := errors.AsType[*exchange.UpstreamError](err); ue.Unprocessed != tt.unprocessed {
					t.Errorf("unprocessed: %v, want %v", ue.Unprocessed, tt.unprocessed)
				}
				return
			}
			body, err := io.ReadAll(x.Response.Body)
			if string(body) != "half" || kindOf(err) != tt.bodyKind || x.Event.Tries[0].Kind != string(tt.bodyKind) {
				t.Errorf("body %q, %v, event %q, want kind %q", body, err, x.Event.Tries[0].Kind, tt.bodyKind)
			}
			x.End(retrylog.UpstreamFailure)
		})
	}
}

func TestH2ClientGone(t *testing.T) {
	reached, left := make(chan struct{}), make(chan struct{})
	address := h2server(t, func(_ http.ResponseWriter, r *http.Request) {
		close(reached)
		<-r.Context().Done()
		close(left)
	})
	x := request("GET", address, "-")
	token := x.Token()
	go func() { <-reached; token.Cancel(exchange.ErrClientGone) }()
	if err := h2pool(t, wire.Config{}).Serve(x); !errors.Is(err, exchange.ErrClientGone) || kindOf(err) != exchange.Canceled {
		t.Errorf("got %v, want the client gone", err)
	}
	select {
	case <-left:
	case <-time.After(5 * time.Second):
		t.Error("the upstream was not told")
	}
}

// TestH2FullDuplex answers each line before the next one is asked.
func TestH2FullDuplex(t *testing.T) {
	address := h2server(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(200)
		_ = http.NewResponseController(w).Flush()
		buf := make([]byte, 1)
		for {
			if _, err := r.Body.Read(buf); err != nil {
				return
			}
			_, _ = w.Write([]byte(strings.ToUpper(string(buf))))
			_ = http.NewResponseController(w).Flush()
		}
	})
	in, out := io.Pipe()
	x := request("POST", address, "-")
	x.Request.Body.Set(in, -1)
	if err := h2pool(t, wire.Config{}).Serve(x); err != nil {
		t.Fatal(err)
	}
	for _, c := range "abc" {
		if _, err := io.WriteString(out, string(c)); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 1)
		if _, err := io.ReadFull(x.Response.Body, buf); err != nil || string(buf) != strings.ToUpper(string(c)) {
			t.Fatalf("got %q, %v", buf, err)
		}
	}
	_ = out.Close()
	if rest, err := io.ReadAll(x.Response.Body); err != nil || len(rest) > 0 {
		t.Errorf("at the end: %q, %v", rest, err)
	}
	x.End(retrylog.OK)
}

func TestH2Dial(t *testing.T) {
	fails := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("refused") }
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) { <-ctx.Done(); return nil, ctx.Err() }
	for _, tt := range []struct {
		name string
		dial func(context.Context, string, string) (net.Conn, error)
		kind exchange.Kind
	}{{"refused", fails, exchange.Dial}, {"no answer", hangs, exchange.ConnectTimeout}} {
		t.Run(tt.name, func(t *testing.T) {
			err := h2pool(t, wire.Config{Dial: tt.dial, ConnectTimeout: 50 * time.Millisecond}).Serve(request("GET", "127.0.0.1:1", "-"))
			ue, ok := errors.AsType[*exchange.UpstreamError](err)
			if !ok || ue.Kind != tt.kind || !ue.Unprocessed {
				t.Errorf("got %v, want an unprocessed %s", err, tt.kind)
			}
		})
	}
}

// TestH2PanicOfTheSource: what breaks while the body is read breaks the exchange
// it belongs to.
func TestH2PanicOfTheSource(t *testing.T) {
	address := h2server(t, func(_ http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	x := request("POST", address, "-")
	x.Request.Body.Set(readerFunc(func([]byte) (int, error) { panic("boom") }), -1)
	defer func() {
		if v := recover(); v != "boom" {
			t.Errorf("recovered %v", v)
		}
	}()
	_ = h2pool(t, wire.Config{}).Serve(x)
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
