package fault

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
)

// upstream counts its calls and answers with body; known says whether its
// length is told.
type upstream struct {
	calls int
	body  string
	known bool
	saw   []string // X-In of each call
	read  []string // bodies it got
}

func (u *upstream) Serve(x *exchange.Exchange) error {
	u.calls++
	u.saw = append(u.saw, x.Request.Head.Get("X-In"))
	got, err := io.ReadAll(&x.Request.Body)
	if err != nil {
		return err
	}
	u.read = append(u.read, string(got))
	r := &x.Response
	r.Status, r.Length = 200, -1
	if u.known {
		r.Length = int64(len(u.body))
	}
	r.Head.Add("Content-Encoding", "gzip")
	r.Body = io.NopCloser(iotestOneByte{strings.NewReader(u.body)})
	return nil
}

// iotestOneByte gives a byte at a time, as a slow connection may.
type iotestOneByte struct{ r io.Reader }

func (o iotestOneByte) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	return o.r.Read(p[:1])
}

func of(kind Kind, change ...func(*Fault)) Fault {
	f := Fault{ID: string(kind), Run: "run-1", Seed: "s", PPM: 1_000_000, Target: Target{Service: "points"}, Kind: kind}
	for _, c := range change {
		c(&f)
	}
	return f
}

func injected(tab *Table) int64 {
	var n int64
	for _, t := range tab.Tallies() {
		n += t.Injected
	}
	return n
}

func TestKindsThatEndATry(t *testing.T) {
	phase := func(p Phase) func(*Fault) { return func(f *Fault) { f.Phase = p } }
	for _, tt := range []struct {
		f           Fault
		kind        exchange.Kind
		unprocessed bool
		calls       int
	}{
		{of(Drop, phase(BeforeUpstream)), exchange.ResetBeforeFirst, false, 0},
		{of(Drop, phase(AfterUpstream)), exchange.ResetBeforeFirst, false, 1},
		{of(Reset, phase(BeforeUpstream)), exchange.ResetBeforeFirst, false, 0},
		{of(Reset, phase(AfterUpstream)), exchange.ResetBeforeFirst, false, 1},
		{of(Refuse), exchange.Dial, true, 0},
	} {
		t.Run(fmt.Sprintf("%s %s", tt.f.Kind, tt.f.Phase), func(t *testing.T) {
			tab, up, x := NewTable(Caps{}), &upstream{body: "fine"}, try("r")
			arm(t, tab, tt.f)
			err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x)
			ue, ok := errors.AsType[*exchange.UpstreamError](err)
			if !ok || ue.Kind != tt.kind || ue.Unprocessed != tt.unprocessed || up.calls != tt.calls {
				t.Errorf("%v after %d calls", err, up.calls)
			}
			if x.Response.Status != 0 || x.Response.Body != nil {
				t.Error("an answer is left beside the error")
			}
			if x.Event.Experiment != "run-1" || x.Try().Fault != string(tt.f.Kind) || injected(tab) != 1 {
				t.Errorf("event %+v, %d injected", x.Event, injected(tab))
			}
		})
	}
}

func TestGRPCFaultEndsInTheHead(t *testing.T) {
	tab, x := NewTable(Caps{}), try("r")
	arm(t, tab, of(GRPC, func(f *Fault) { f.Status, f.Body = 14, "100% gone\n" }))
	if err := serve(tab, x); err != nil {
		t.Fatal(err)
	}
	r := &x.Response
	if r.Status != 200 || r.Body != nil || r.Length != 0 || r.Head.Get("grpc-status") != "14" || r.Head.Get("Grpc-Message") != "100%25 gone%0A" ||
		r.Head.Get("Content-Type") != "application/grpc" {
		t.Errorf("%+v", r)
	}
}

func TestChaos_C22(t *testing.T) {
	if err := Check(of(GRPC)); err == nil {
		t.Error("gRPC status 0, which is no error, is taken")
	}
}

// A blackhole holds the try until somebody gives up; when the fault goes, the
// try goes on.
func TestBlackholeHoldsUntilItsTimeOrItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab, up, x := NewTable(Caps{}), &upstream{body: "fine"}, try("r")
		arm(t, tab, of(Blackhole))
		x.SetDeadline(time.Now().Add(2 * time.Second))
		began := time.Now()
		err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x)
		if ue, ok := errors.AsType[*exchange.UpstreamError](err); !ok || ue.Kind != exchange.TryTimeout || time.Since(began) != 2*time.Second || up.calls != 0 {
			t.Errorf("%v after %v, %d calls", err, time.Since(began), up.calls)
		}
		x, began = try("r"), time.Now() // no deadline: the cap of latencies ends it
		tab.SetCaps(Caps{MaxLatency: 5 * time.Second})
		err = exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x)
		if ue, ok := errors.AsType[*exchange.UpstreamError](err); !ok || ue.Kind != exchange.ResetBeforeFirst || time.Since(began) != 5*time.Second || up.calls != 0 {
			t.Errorf("%v after %v, %d calls", err, time.Since(began), up.calls)
		}
		x = try("r")
		go func() {
			time.Sleep(time.Second)
			tab.Halt()
		}()
		began = time.Now()
		if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil || time.Since(began) != time.Second || up.calls != 1 {
			t.Errorf("%v after %v, %d calls: the try must go on when the fault is gone", err, time.Since(began), up.calls)
		}
	})
}

// TestChaos_C9: a latency says on which side it stands; both sides add up.
func TestChaos_C9(t *testing.T) {
	for side, want := range map[Side]time.Duration{"": 25 * ms, RequestSide: 25 * ms, ResponseSide: 25 * ms, BothSides: 50 * ms} {
		synctest.Test(t, func(t *testing.T) {
			tab, x := NewTable(Caps{}), try("r")
			arm(t, tab, latencyFault(25*ms, func(f *Fault) { f.Side = side }))
			began := time.Now()
			asked := began
			up := exchange.Func(func(x *exchange.Exchange) error { asked = time.Now(); return good(x) })
			if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("%q took %v, want %v", side, got, want)
			}
			if (side == ResponseSide) != (asked == began) {
				t.Errorf("%q: the upstream was asked after %v", side, asked.Sub(began))
			}
			if got := x.Try().PlannedUS; got != want.Microseconds() || injected(tab) != 1 {
				t.Errorf("%q: planned %d us, %d injected", side, got, injected(tab))
			}
		})
	}
}

// Latencies of several faults add up, once, whatever the body is.
func TestLatencyIsOncePerTryAndNotPerRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab, x := NewTable(Caps{}), try("r")
		arm(t, tab, latencyFault(200*ms), latencyFault(300*ms, func(f *Fault) { f.ID = "lat2" }))
		up := &upstream{body: strings.Repeat("x", 1<<20), known: true}
		began := time.Now()
		if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, x.Response.Body); err != nil || time.Since(began) != 500*ms {
			t.Errorf("%v after %v, want 500 ms", err, time.Since(began))
		}
	})
}

// TestChaos_C7: a jitter beyond the latency has no meaning.
func TestChaos_C7(t *testing.T) {
	f := of(Latency, func(f *Fault) { f.Delay = &Delay{Dist: "uniform", MS: 100, JitterMS: 300} })
	if err := Check(f); err == nil || !strings.Contains(err.Error(), "jitter") {
		t.Errorf("got %v", err)
	}
}

func TestTruncationIsExact(t *testing.T) {
	const whole = "0123456789abcdefghij"
	for _, tt := range []struct {
		name  string
		known bool
		f     func(*Fault)
		sent  string
		clean bool // the reader sees an end, and no cut
		hit   int64
	}{
		{"bytes, dirty", true, func(f *Fault) { f.Bytes = 7 }, whole[:7], false, 1},
		{"bytes, dirty, chunked", false, func(f *Fault) { f.Bytes = 7 }, whole[:7], false, 1},
		{"bytes, clean", true, func(f *Fault) { f.Bytes, f.Clean = 7, true }, whole[:7], true, 1},
		{"bytes, clean, chunked", false, func(f *Fault) { f.Bytes, f.Clean = 7, true }, whole[:7], true, 1},
		{"percent", true, func(f *Fault) { f.PPMOfBody = 350_000 }, whole[:7], false, 1},
		{"percent of an unknown length", false, func(f *Fault) { f.PPMOfBody = 350_000 }, whole, true, 0},
		{"at once", true, func(*Fault) {}, "", false, 1},
		{"beyond the end", true, func(f *Fault) { f.Bytes = 20 }, whole, true, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tab, x := NewTable(Caps{}), try("r")
			arm(t, tab, of(Truncate, tt.f))
			up := &upstream{body: whole, known: tt.known}
			if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(x.Response.Body)
			ue, cut := errors.AsType[*exchange.UpstreamError](err)
			if string(got) != tt.sent || cut == tt.clean || cut && ue.Kind != exchange.BodyCut || injected(tab) != tt.hit {
				t.Errorf("%q, %v, %d injected", got, err, injected(tab))
			}
			if want := int64(len(tt.sent)); tt.known && tt.clean && x.Response.Length != want {
				t.Errorf("the length says %d, %d are sent", x.Response.Length, want)
			}
		})
	}
}

// TestChaos_C23: another body has its own length, shorter or longer.
func TestChaos_C23(t *testing.T) {
	for _, body := range []string{strings.Repeat("s", 17), strings.Repeat("l", 40), ""} {
		tab, x := NewTable(Caps{}), try("r")
		arm(t, tab, of(Body, func(f *Fault) { f.Body = body }))
		if err := exchange.Chain(&upstream{body: strings.Repeat("x", 18), known: true}, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(x.Response.Body)
		if err != nil || string(got) != body || x.Response.Length != int64(len(body)) || x.Response.Head.Has("Content-Encoding") {
			t.Errorf("%q, %v, length %d", got, err, x.Response.Length)
		}
	}
}

func TestNoBodyWhereThereIsNone(t *testing.T) {
	for _, kind := range []Kind{Body, Truncate, Corrupt, Drip} {
		tab, x := NewTable(Caps{}), try("r")
		arm(t, tab, of(kind, func(f *Fault) { f.Body, f.BytesPerSecond = "b", 10; f.PPMOfBody = 10 }))
		none := exchange.Func(func(x *exchange.Exchange) error { x.Response.Status, x.Response.Length = 204, 0; return nil })
		if err := exchange.Chain(none, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
			t.Fatal(err)
		}
		if x.Response.Body != nil || injected(tab) != 0 || x.Event.Experiment != "" {
			t.Errorf("%s: a 204 has a body, or counts as injected", kind)
		}
	}
}

func TestCorruptionIsExactAndTheSameAgain(t *testing.T) {
	whole := strings.Repeat("a", 100_000)
	read := func(id string, ppm int64) []byte {
		tab, x := NewTable(Caps{}), try(id)
		arm(t, tab, of(Corrupt, func(f *Fault) { f.PPMOfBody = ppm }))
		up := exchange.Func(func(x *exchange.Exchange) error {
			x.Response.Status, x.Response.Length = 200, int64(len(whole))
			x.Response.Body = io.NopCloser(strings.NewReader(whole))
			return nil
		})
		if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(x.Response.Body)
		if err != nil || len(got) != len(whole) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
		return got
	}
	changed := 0
	for _, b := range read("r", 10_000) {
		if b != 'a' {
			changed++
		}
	}
	if changed < 850 || changed > 1150 {
		t.Errorf("%d of 100000 bytes changed, want about 1000", changed)
	}
	if !bytes.Equal(read("r", 10_000), read("r", 10_000)) || bytes.Equal(read("r", 10_000), read("s", 10_000)) {
		t.Error("what is changed must hang on the unit, and on it alone")
	}
}

func TestDripKeepsItsRateAndStopsWithItsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab, x := NewTable(Caps{}), try("r")
		arm(t, tab, of(Drip, func(f *Fault) { f.BytesPerSecond = 1000 }))
		up := exchange.Func(func(x *exchange.Exchange) error {
			x.Response.Status, x.Response.Length = 200, 4000
			x.Response.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 4000)))
			return nil
		})
		if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		buf := make([]byte, 2000)
		if _, err := io.ReadFull(x.Response.Body, buf); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("2000 bytes took %v, %v; want 2 s", time.Since(began), err)
		}
		tab.Halt()
		if _, err := io.ReadFull(x.Response.Body, buf); err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("the rest took until %v, %v: the fault was gone", time.Since(began), err)
		}
	})
}

// A request is changed for one try alone; an answer is changed after everything.
func TestHeaderFaults(t *testing.T) {
	tab, x := NewTable(Caps{}), try("r")
	x.Request.Head.Add("X-In", "client")
	arm(t, tab,
		of(Header, func(f *Fault) { f.ID, f.Side, f.Headers = "in", RequestSide, map[string]string{"X-In": "changed"} }),
		of(Header, func(f *Fault) {
			f.ID, f.Headers, f.Remove = "out", map[string]string{"X-Backend-Status": "fine"}, []string{"content-encoding"}
		}))
	up := &upstream{body: "b"}
	if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
		t.Fatal(err)
	}
	if up.saw[0] != "changed" || x.Request.Head.Get("X-In") != "client" {
		t.Errorf("the upstream saw %q, a retry would send %q", up.saw[0], x.Request.Head.Get("X-In"))
	}
	if x.Response.Head.Get("X-Backend-Status") != "fine" || x.Response.Head.Has("Content-Encoding") {
		t.Errorf("answer %v", x.Response.Head.Fields())
	}
	for _, name := range []string{"Content-Length", "transfer-encoding", "Trailer"} {
		if Check(of(Header, func(f *Fault) { f.Headers = map[string]string{name: "1"} })) == nil || Check(of(Header, func(f *Fault) { f.Remove = []string{name} })) == nil {
			t.Errorf("a fault may write %s: it could smuggle", name)
		}
	}
}

func TestDuplicateSendsTheSameTwice(t *testing.T) {
	tab, x := NewTable(Caps{}), try("r")
	x.Request.Method = "POST"
	x.Request.Body.Set(strings.NewReader("pay 10"), 6)
	x.Request.Body.Keep(100)
	arm(t, tab, of(Duplicate))
	up := &upstream{body: "paid"}
	if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(x.Response.Body)
	if err != nil || string(got) != "paid" || up.calls != 2 || up.read[0] != "pay 10" || up.read[1] != "pay 10" {
		t.Errorf("%q, %v, calls %d with %q", got, err, up.calls, up.read)
	}
}

// What cannot be sent again is sent once, and counted as missed.
func TestDuplicateOfWhatCannotBeSentAgain(t *testing.T) {
	tab, x := NewTable(Caps{}), try("r")
	x.Request.Body.Set(strings.NewReader(strings.Repeat("x", 1000)), -1)
	x.Request.Body.Keep(10)
	arm(t, tab, of(Duplicate))
	up := &upstream{body: "paid"}
	if err := exchange.Chain(up, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
		t.Fatal(err)
	}
	if up.calls != 1 {
		t.Errorf("%d calls", up.calls)
	}
}
