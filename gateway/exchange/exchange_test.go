package exchange_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

func fresh() *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	return x
}

// note is an ender that writes down that it ran, and how.
func note(list *[]string, name string) exchange.Ender {
	return exchange.EnderFunc(func(_ *exchange.Exchange, o retrylog.Outcome) { *list = append(*list, name+" "+string(o)) })
}

// body counts how often it was closed.
type body struct {
	io.Reader
	closed int
}

func (b *body) Close() error { b.closed++; return nil }

func TestEndersRunLastFirstAndOnce(t *testing.T) {
	x := fresh()
	var ran []string
	x.OnEnd(note(&ran, "record"))
	mark := x.Mark()
	x.OnEnd(note(&ran, "balance"))
	x.OnEnd(note(&ran, "wire"))
	x.EndTo(mark, retrylog.Timeout)
	x.OnEnd(note(&ran, "second try"))
	x.End(retrylog.OK)
	x.End(retrylog.OK)
	want := []string{"wire timeout", "balance timeout", "second try ok", "record ok"}
	if !slices.Equal(ran, want) {
		t.Errorf("enders ran as %q, want %q", ran, want)
	}
}

func answer(x *exchange.Exchange, status int, text string) *body {
	b := &body{Reader: strings.NewReader(text)}
	x.Response.Status, x.Response.Body, x.Response.Length = status, b, int64(len(text))
	x.Response.Head.Add("X-Status", text[:min(len(text), 5)])
	return b
}

func TestHoldAndRestore(t *testing.T) {
	tests := []struct {
		name string
		text string
		// A short body frees its connection while it is held; a long one keeps it.
		closedWhileHeld int
		ranWhileHeld    int
	}{
		{"a short body is read", "short", 1, 1},
		{"a long one keeps its connection", strings.Repeat("x", exchange.HoldBody+1), 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			x := fresh()
			var ran []string
			mark := x.Mark()
			x.OnEnd(note(&ran, "first"))
			b := answer(x, 503, tt.text)
			x.Hold(mark, retrylog.UpstreamFailure)
			if b.closed != tt.closedWhileHeld || len(ran) != tt.ranWhileHeld {
				t.Errorf("while held: closed %d times, enders %q", b.closed, ran)
			}
			if x.Response.Status != 0 || x.Response.Head.Len() != 0 || x.Response.Body != nil {
				t.Errorf("the slot is not free: %+v", x.Response)
			}
			if status, ok := x.Held(); !ok || status != 503 {
				t.Errorf("held %d, %v", status, ok)
			}
			answer(x, 200, "second")
			x.EndTo(mark, retrylog.Timeout)
			if !x.Restore() {
				t.Fatal("nothing came back")
			}
			got, err := io.ReadAll(x.Response.Body)
			if err != nil || string(got) != tt.text || x.Response.Status != 503 || x.Response.Head.Len() != 1 {
				t.Errorf("got back %d with %d bytes, %v", x.Response.Status, len(got), err)
			}
			x.End(retrylog.UpstreamFailure)
			if b.closed != 1 || len(ran) != 1 || ran[0] != "first upstream_failure" {
				t.Errorf("at the end: closed %d times, enders %q", b.closed, ran)
			}
			if x.Restore() {
				t.Error("it came back twice")
			}
		})
	}
}

func TestHoldDropsTheOneBefore(t *testing.T) {
	x := fresh()
	var ran []string
	long := strings.Repeat("x", exchange.HoldBody+1)
	for range 2 {
		mark := x.Mark()
		x.OnEnd(note(&ran, "try"))
		answer(x, 502, long)
		x.Hold(mark, retrylog.UpstreamFailure)
	}
	if len(ran) != 1 {
		t.Errorf("enders %q after the second hold, want those of the first", ran)
	}
	x.End(retrylog.OK)
	if want := []string{"try upstream_failure", "try upstream_failure"}; !slices.Equal(ran, want) {
		t.Errorf("enders %q, want %q", ran, want)
	}
}

func TestHoldPassesACutOn(t *testing.T) {
	x := fresh()
	cut := errors.New("cut")
	x.Response.Status = 503
	x.Response.Body = io.NopCloser(io.MultiReader(strings.NewReader("half"), failing{cut}))
	x.Hold(x.Mark(), retrylog.UpstreamFailure)
	x.Restore()
	got, err := io.ReadAll(x.Response.Body)
	if string(got) != "half" || !errors.Is(err, cut) {
		t.Errorf("got %q, %v, want what there was and the cut", got, err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func TestBodyReplay(t *testing.T) {
	const text = "0123456789"
	tests := []struct {
		name       string
		keep, read int
		rewinds    bool
	}{
		{"kept whole", 10, 10, true},
		{"kept so far", 10, 4, true},
		{"beyond the cap", 9, 10, false},
		{"not asked to keep", 0, 1, false},
		{"not read at all", 0, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b exchange.Body
			b.Set(strings.NewReader(text), int64(len(text)))
			b.Keep(tt.keep)
			if _, err := io.ReadFull(&b, make([]byte, tt.read)); err != nil {
				t.Fatal(err)
			}
			if err := b.Rewind(); (err == nil) != tt.rewinds {
				t.Fatalf("rewind: %v", err)
			}
			rest, err := io.ReadAll(&b)
			want := text
			if !tt.rewinds {
				want = text[tt.read:]
			}
			if err != nil || string(rest) != want {
				t.Errorf("read %q, %v, want %q", rest, err, want)
			}
		})
	}
}

func TestBodyKept(t *testing.T) {
	var b exchange.Body
	b.Set(bytes.NewReader([]byte("abc")), 3)
	b.Keep(8)
	if _, whole := b.Kept(); whole {
		t.Error("kept before it was read")
	}
	if _, err := io.ReadAll(&b); err != nil {
		t.Fatal(err)
	}
	if kept, whole := b.Kept(); !whole || string(kept) != "abc" || !b.Replayable() {
		t.Errorf("kept %q, %v", kept, whole)
	}
}

// interrupted counts its interruptions.
type interrupted struct{ n int }

func (i *interrupted) Interrupt() { i.n++ }

func TestCancel(t *testing.T) {
	x := fresh()
	token := x.Token()
	var waits interrupted
	if cause := x.Waiting(&waits); cause != nil {
		t.Fatal(cause)
	}
	done := x.Done()
	token.Cancel(exchange.ErrClientGone)
	token.Cancel(errors.New("a later cause"))
	<-done
	if waits.n != 1 || !errors.Is(x.Cause(), exchange.ErrClientGone) || !errors.Is(x.Err(), context.Canceled) {
		t.Errorf("interrupted %d times, cause %v, err %v", waits.n, x.Cause(), x.Err())
	}
	x.Reset()
	token.Cancel(exchange.ErrClientGone)
	if x.Cause() != nil {
		t.Error("a token of the last request cancelled this one")
	}
	var other interrupted
	_ = x.Waiting(&waits)
	x.Unwait(&other)
	x.Token().Cancel(exchange.ErrClientGone)
	if waits.n != 2 {
		t.Error("taking back another's wait took this one")
	}
}

func TestWait(t *testing.T) {
	tests := []struct {
		name     string
		deadline time.Duration
		cancel   time.Duration
		gone     bool
		want     error
		took     time.Duration
	}{
		{"to the end", time.Hour, time.Hour, false, nil, time.Second},
		{"to the deadline", 300 * time.Millisecond, time.Hour, false, context.DeadlineExceeded, 300 * time.Millisecond},
		{"to a cancel", time.Hour, 200 * time.Millisecond, false, exchange.ErrClientGone, 200 * time.Millisecond},
		{"to what it waits for", time.Hour, time.Hour, true, nil, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				x := fresh()
				start := time.Now()
				x.SetDeadline(start.Add(tt.deadline))
				token := x.Token()
				timer := time.AfterFunc(tt.cancel, func() { token.Cancel(exchange.ErrClientGone) })
				defer timer.Stop()
				gone := make(chan struct{})
				if tt.gone {
					close(gone)
				}
				err := x.Wait(time.Second, gone)
				if took := time.Since(start); !errors.Is(err, tt.want) || took != tt.took {
					t.Errorf("got %v after %v, want %v after %v", err, took, tt.want, tt.took)
				}
			})
		})
	}
}

func TestDetachedEndsWithTheExchange(t *testing.T) {
	x := fresh()
	ctx, cancel := x.Detached()
	defer cancel()
	x.Token().Cancel(exchange.ErrClientGone)
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), exchange.ErrClientGone) {
		t.Errorf("cause %v", context.Cause(ctx))
	}
}

func TestClassify(t *testing.T) {
	tests := []struct {
		err    error
		status int
		want   retrylog.Outcome
	}{
		{nil, 200, retrylog.OK},
		{nil, 404, retrylog.OK},
		{nil, 503, retrylog.UpstreamFailure},
		{&exchange.Refusal{Status: 503}, 0, retrylog.LocalRefusal},
		{&exchange.UpstreamError{Kind: exchange.TryTimeout}, 0, retrylog.Timeout},
		{&exchange.UpstreamError{Kind: exchange.Dial}, 0, retrylog.UpstreamFailure},
		{&exchange.UpstreamError{Kind: exchange.Canceled, Err: exchange.ErrClientGone}, 0, retrylog.ClientAbort},
		{&exchange.UpstreamError{Kind: exchange.Canceled, Err: context.DeadlineExceeded}, 0, retrylog.Timeout},
		{exchange.ErrTotalTimeout, 0, retrylog.Timeout},
	}
	for _, tt := range tests {
		if got := exchange.Classify(tt.err, tt.status); got != tt.want {
			t.Errorf("Classify(%v, %d) = %s, want %s", tt.err, tt.status, got, tt.want)
		}
	}
}

func TestStripHop(t *testing.T) {
	var h exchange.Head
	for _, f := range [][2]string{{"Connection", "keep-alive, X-Hop"}, {"X-Hop", "1"}, {"X-Keep", "1"}, {"Keep-Alive", "timeout=5"},
		{"TE", "gzip"}, {"Upgrade", "h2c"}, {"connection", "x-also"}, {"X-Also", "1"}, {"Transfer-Encoding", "chunked"}} {
		h.Add(f[0], f[1])
	}
	h.StripHop()
	if h.Len() != 1 || h.Get("x-keep") != "1" {
		t.Errorf("left %v", h.Fields())
	}
}
