package front_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
	"breakwater/internal/retrylog"
)

func quickly() front.Listening { return front.Listening{Fast: true} }

// dialed is a client's connection with a bound that no good run comes near.
func dialed(t *testing.T, address string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	nc, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = nc.Close() })
	_ = nc.SetDeadline(time.Now().Add(30 * time.Second))
	return nc.(*net.TCPConn), bufio.NewReader(nc)
}

func say(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// outcomes has a service tell how its exchanges end.
func outcomes(svc exchange.Func) (exchange.Func, chan retrylog.Outcome) {
	ended := make(chan retrylog.Outcome, 64)
	return func(x *exchange.Exchange) error {
		x.OnEnd(exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { ended <- o }))
		return svc(x)
	}, ended
}

// TestSlowReader: a client that does not read what it asked for has the time of a
// write, and then loses its connection.
func TestSlowReader(t *testing.T) { onBoth(t, slowReader) }

func slowReader(t *testing.T, on func() front.Listening) {
	for name, length := range map[string]int64{"a length": 64 << 20, "chunks": -1} {
		t.Run(name, func(t *testing.T) {
			svc, ended := outcomes(func(x *exchange.Exchange) error {
				x.Response.Status, x.Response.Length = 200, length
				x.Response.Body = io.NopCloser(io.LimitReader(zeros{}, 64<<20))
				return nil
			})
			address := listen(t, front.Config{Listening: on, Service: svc, Limits: front.Limits{WriteTime: 300 * time.Millisecond}})
			c, r := dialed(t, address)
			say(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if o := <-ended; o != retrylog.ClientAbort {
				t.Errorf("ended as %s", o)
			}
			if n, err := io.Copy(io.Discard, r); err == nil && n >= 64<<20 {
				t.Error("it got all of it")
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestHalfClosedClient: a client that says it will send no more gets the answer to
// what it has asked, if that does not take long; a TCP end cannot be told from one
// that has gone, so one that waits longer counts as gone.
func TestHalfClosedClient(t *testing.T) { onBoth(t, halfClosedClient) }

func halfClosedClient(t *testing.T, on func() front.Listening) {
	svc, ended := outcomes(func(x *exchange.Exchange) error {
		if x.Request.Path == "/slow" {
			if err := x.Wait(20*time.Second, nil); err != nil {
				return err
			}
		}
		return echo(x)
	})
	address := listen(t, front.Config{Listening: on, Service: svc})
	if on().Fast { // net/http may see the end before the answer is written
		c, r := dialed(t, address)
		say(t, c, "GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\n")
		_ = c.CloseWrite()
		for _, path := range []string{"/a", "/b"} {
			seen, more := readAnswer(r, "GET")
			if !more || !strings.Contains(seen, "GET "+path) {
				t.Errorf("got %q", seen)
			}
			if o := <-ended; o != retrylog.OK {
				t.Errorf("ended as %s", o)
			}
		}
		if _, err := r.ReadByte(); err != io.EOF {
			t.Errorf("then came %v", err)
		}
	}
	c, r := dialed(t, address)
	say(t, c, "GET /slow HTTP/1.1\r\nHost: a\r\n\r\n")
	_ = c.CloseWrite()
	if o := <-ended; o != retrylog.ClientAbort {
		t.Errorf("ended as %s", o)
	}
	if b, _ := io.ReadAll(r); len(b) > 0 {
		t.Errorf("got %q", b)
	}
}

// TestNextRequestEarly: a request that comes while the one before it is answered is
// answered next, however it is cut into pieces, and nothing of it is lost in between.
func TestNextRequestEarly(t *testing.T) { onBoth(t, nextRequestEarly) }

func nextRequestEarly(t *testing.T, on func() front.Listening) {
	begun, goOn := make(chan struct{}), make(chan struct{})
	address := listen(t, front.Config{Listening: on, Service: exchange.Func(func(x *exchange.Exchange) error {
		if x.Request.Path == "/first" {
			begun <- struct{}{}
			<-goOn
		}
		body, err := io.ReadAll(&x.Request.Body)
		if err != nil {
			return err
		}
		x.Request.Head.Add("X-Body", string(body))
		return echo(x)
	})})
	const second = "POST /second HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello"
	for cut := 0; cut <= len(second); cut += 7 {
		c, r := dialed(t, address)
		say(t, c, "POST /first HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"+second[:cut])
		<-begun
		say(t, c, second[cut:])
		goOn <- struct{}{}
		for _, want := range []string{"POST /first?", "POST /second?"} {
			if seen, more := readAnswer(r, "POST"); !more || !strings.Contains(seen, want) {
				t.Fatalf("cut at %d: got %q, want %s", cut, seen, want)
			}
		}
		_ = c.Close()
	}
}

// TestAnswerBeforeTheUpload: an answer may come before the client has sent its body,
// which is then either read to its end or the last on its connection, and in both
// cases the client reads the answer.
func TestAnswerBeforeTheUpload(t *testing.T) { onBoth(t, answerBeforeTheUpload) }

func answerBeforeTheUpload(t *testing.T, on func() front.Listening) {
	svc, ended := outcomes(func(x *exchange.Exchange) error {
		x.Response.Status, x.Response.Local = 413, true
		return nil
	})
	address := listen(t, front.Config{Listening: on, Service: svc})
	for _, tt := range []struct {
		name, head string
		size       int
	}{
		{"small", "Content-Length: 1000\r\n\r\n", 1000}, {"large", "Content-Length: 8388608\r\n\r\n", 8 << 20},
		{"chunks", "Transfer-Encoding: chunked\r\n\r\n3E8\r\n" + strings.Repeat("x", 1000) + "\r\n0\r\n\r\n", 0},
	} {
		c, r := dialed(t, address)
		say(t, c, "POST / HTTP/1.1\r\nHost: a\r\n"+tt.head)
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			_, _ = io.CopyN(c, zeros{}, int64(tt.size)) // an error: nobody reads it any more
		}()
		res, err := http.ReadResponse(r, nil)
		if err != nil || res.StatusCode != 413 {
			t.Fatalf("%s: got %v, %v", tt.name, res, err)
		}
		if o := <-ended; o == retrylog.Panicked {
			t.Errorf("%s: ended as %s", tt.name, o)
		}
		if !res.Close { // then it goes on
			<-sent
			say(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
			if res, err = http.ReadResponse(r, nil); err != nil || res.StatusCode != 413 {
				t.Errorf("%s: and then %v, %v", tt.name, res, err)
			}
			<-ended
		} else if on().Fast && tt.size <= 1000 {
			t.Errorf("%s: the connection ends for a body that has come", tt.name)
		}
		_ = c.Close()
		<-sent
	}
}

// TestHandOver: what the fast face does not take is net/http's, from its first byte
// on, with all that follows on the connection; what came before was the fast one's.
func TestHandOver(t *testing.T) {
	const get, echoed = "GET /a HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a?"
	for _, tt := range []struct {
		name, raw string
		answers   []string // each has this in it
		fast      int64
		standard  int64
	}{
		{"nothing", get + get, []string{echoed, echoed}, 2, 0},
		{"the first", "GET http://b/a HTTP/1.1\r\nHost: a\r\n\r\n" + get, []string{"host=b", echoed}, 0, 2},
		{"the second, with what follows", get + "POST /b HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc" + get, []string{echoed, "POST /b?", echoed}, 1, 2},
		{"HTTP/1.0", get + "GET /b HTTP/1.0\r\nHost: a\r\n\r\n", []string{echoed, "GET /b?"}, 1, 1},
		{"what the filter refuses", get + "GET /..%2fb HTTP/1.1\r\nHost: a\r\n\r\n", []string{echoed, "400 Bad Request"}, 1, 1},
		{"too many fields", get + "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n", []string{echoed, "431 "}, 1, 1},
		{"a long head", get + "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("y", 70<<10) + "\r\n\r\n", []string{echoed, "431 "}, 1, 0},
		{"what only we refuse", get + "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", []string{echoed, "400 Bad Request 400 Bad Request <nil>"}, 1, 0},
		{"an unknown coding", get + "GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", []string{echoed, "501 Not Implemented"}, 1, 0},
		{"a line end behind a form", "POST /b HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n\r\n" + get, []string{"POST /b?", echoed}, 2, 0},
		{"HTTP/2 behind HTTP/1.1", get + "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00", []string{echoed}, 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Listening: quickly, Service: exchange.Func(func(x *exchange.Exchange) error {
				if _, err := io.Copy(io.Discard, &x.Request.Body); err != nil {
					return err
				}
				return echo(x)
			}), Refuse: func(x *exchange.Exchange, why *exchange.Refusal) error {
				x.Response.Status, x.Response.Local = why.Status, true
				return nil
			}})
			c, r := dialed(t, serve(t, f))
			say(t, c, tt.raw)
			for _, want := range tt.answers {
				seen := ""
				for seen == "" || strings.HasPrefix(seen, "100 ") {
					res, err := http.ReadResponse(r, nil)
					if err != nil {
						t.Fatal(err)
					}
					body, err := io.ReadAll(res.Body)
					seen = fmt.Sprintf("%s %s %v", res.Status, body, err)
				}
				if !strings.Contains(seen, want) {
					t.Errorf("got %q, want %q", seen, want)
				}
			}
			if tt.name == "HTTP/2 behind HTTP/1.1" {
				if b, _ := io.ReadAll(r); len(b) > 0 {
					t.Errorf("got %q", b)
				}
			}
			if s := f.Stats(); s.Fast != tt.fast || s.Standard != tt.standard {
				t.Errorf("%d by the fast face and %d by net/http, want %d and %d", s.Fast, s.Standard, tt.fast, tt.standard)
			}
		})
	}
}

// TestFastCut: whoever is to be cut is cut: without an answer, or by a reset, or in
// the middle of one, which then has no end that could be taken for a good one.
func TestFastCut(t *testing.T) {
	broken := &exchange.UpstreamError{Kind: exchange.BodyCut, Err: io.ErrUnexpectedEOF}
	svc, ended := outcomes(func(x *exchange.Exchange) error {
		switch x.Request.Path {
		case "/cut":
			return &exchange.Severed{}
		case "/reset":
			return &exchange.Severed{Reset: true}
		case "/panic":
			panic("on purpose")
		case "/status":
			x.Response.Status = 99
			return nil
		}
		x.Response.Status, x.Response.Body = 200, &pieces{[]string{"hello"}, broken}
		return nil
	})
	address := listen(t, front.Config{Listening: quickly, Service: svc})
	for _, tt := range []struct {
		path, got string
		want      retrylog.Outcome
		reset     bool
	}{
		{"/cut", "", retrylog.UpstreamFailure, false}, {"/reset", "", retrylog.UpstreamFailure, true}, {"/panic", "", retrylog.Panicked, false},
		{"/status", "", retrylog.Panicked, false}, {"/body", "5\r\nhello\r\n", retrylog.UpstreamFailure, false},
	} {
		c, r := dialed(t, address)
		say(t, c, "GET "+tt.path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		b, err := io.ReadAll(r)
		if !strings.HasSuffix(string(b), tt.got) || tt.got == "" && len(b) > 0 || (err != nil) != tt.reset {
			t.Errorf("%s: got %q, %v", tt.path, b, err)
		}
		if o := <-ended; o != tt.want {
			t.Errorf("%s: ended as %s, want %s", tt.path, o, tt.want)
		}
	}
}

// TestFastStops: when a server stops, connections that rest are closed, a request
// under way is answered, says that it was the last, and is waited for; what does not
// end in time is cut.
func TestFastStops(t *testing.T) {
	begun, goOn := make(chan struct{}, 2), make(chan struct{})
	var cut atomic.Value
	f := front.New(front.Config{Log: slog.New(slog.DiscardHandler), Listening: quickly, Service: exchange.Func(func(x *exchange.Exchange) error {
		switch x.Request.Path {
		case "/wait":
			begun <- struct{}{}
			<-goOn
		case "/ever":
			begun <- struct{}{}
			err := x.Wait(time.Minute, nil)
			cut.Store(fmt.Sprint(err))
			return err
		}
		return echo(x)
	})})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := f.Server()
	served := make(chan error, 1)
	go func() { served <- s.Serve(f.Listen(l)) }()
	rests, restsR := dialed(t, l.Addr().String())
	say(t, rests, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if seen, more := readAnswer(restsR, "GET"); !more {
		t.Fatal(seen)
	}
	busy, busyR := dialed(t, l.Addr().String())
	say(t, busy, "GET /wait HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
	ever, everR := dialed(t, l.Addr().String())
	say(t, ever, "GET /ever HTTP/1.1\r\nHost: a\r\n\r\n")
	<-begun
	<-begun
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := restsR.ReadByte(); err != io.EOF {
		t.Errorf("who rests: %v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	drained := make(chan struct{})
	go func() { f.Drain(ctx); close(drained) }()
	close(goOn)
	if seen, more := readAnswer(busyR, "GET"); more || !strings.HasPrefix(seen, "200 OK") {
		t.Errorf("under way: got %q, and more: %v", seen, more)
	}
	if _, err := busyR.ReadByte(); err != io.EOF {
		t.Errorf("a request behind the last: %v", err)
	}
	select {
	case <-drained:
		t.Error("one is still there")
	default:
	}
	stop()
	<-drained
	if b, _ := io.ReadAll(everR); len(b) > 0 || cut.Load() == nil || cut.Load().(string) != exchange.ErrClientGone.Error() {
		t.Errorf("cut: got %q, and its request %v", b, cut.Load())
	}
}
