package fault

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

const ms = time.Millisecond

func errorFault(ppm int64, change ...func(*Fault)) Fault {
	f := Fault{ID: "err", Run: "run-1", Seed: "s", PPM: ppm, Target: Target{Service: "points"}, Kind: Error, Status: 503,
		Body: "busy", Headers: map[string]string{"X-Backend-Status": "overloaded"}}
	for _, c := range change {
		c(&f)
	}
	return f
}

func latencyFault(latency time.Duration, change ...func(*Fault)) Fault {
	f := Fault{ID: "lat", Run: "run-1", Seed: "s", PPM: 1_000_000, Target: Target{Service: "points"}, Kind: Latency, LatencyMS: latency.Milliseconds()}
	for _, c := range change {
		c(&f)
	}
	return f
}

// arm makes the faults live for 15 s.
func arm(t testing.TB, tab *Table, faults ...Fault) {
	t.Helper()
	if _, refused := tab.Replace(time.Now(), leases(faults...)); len(refused) > 0 {
		t.Fatalf("refused: %+v", refused)
	}
}

func leases(faults ...Fault) []Lease {
	var out []Lease
	for _, f := range faults {
		out = append(out, Lease{Fault: f, Hash: fmt.Sprintf("%+v", f), Until: time.Now().Add(15 * time.Second)})
	}
	return out
}

var good = exchange.Func(func(x *exchange.Exchange) error {
	x.Response.Status = 200
	x.Response.Head.Add("Content-Type", "text/html")
	x.Response.Body = io.NopCloser(strings.NewReader("fine"))
	x.Response.Length = 4
	return nil
})

func try(id string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Event.RequestID = "GET", id
	x.Request.Body.Set(nil, 0)
	x.Endpoint = "a:1"
	x.Event.Tries = append(x.Event.Tries, retrylog.Try{Endpoint: "a:1"})
	return x
}

// serve passes x through a layer over an upstream that is well.
func serve(tab *Table, x *exchange.Exchange) error {
	return exchange.Chain(good, Layer(tab, Site{Service: "points", Route: "points-deduct"})).Serve(x)
}

func TestHitShare(t *testing.T) {
	const n = 100_000
	for _, ppm := range []int64{0, 1, 500, 10_000, 200_000, 500_000, 999_999, 1_000_000} {
		hits := 0
		for i := range n {
			if Hit("run-7", fmt.Sprintf("req-%d#1", i), ppm) {
				hits++
			}
		}
		p := float64(ppm) / 1e6
		// Five standard deviations: a good hash passes, a biased one does not.
		if want, slack := p*n, 5*math.Sqrt(n*p*(1-p))+1; math.Abs(float64(hits)-want) > slack {
			t.Errorf("share %d ppm hit %d of %d, want %.0f +- %.0f", ppm, hits, n, want, slack)
		}
	}
}

// The tries of one request, and the runs that share requests, fall independently.
func TestHitIsIndependent(t *testing.T) {
	const n = 100_000
	both, seeds := 0, 0
	for i := range n {
		id := fmt.Sprintf("req-%d", i)
		if Hit("s", id+"#1", 500_000) && Hit("s", id+"#2", 500_000) {
			both++
		}
		if Hit("s", id+"#1", 500_000) && Hit("t", id+"#1", 500_000) {
			seeds++
		}
	}
	for name, got := range map[string]int{"tries": both, "seeds": seeds} {
		if math.Abs(float64(got)-n/4) > 700 {
			t.Errorf("two %s agree %d times in %d, want a quarter", name, got, n)
		}
	}
}

// The layer's hash without a built key is the one that others recompute.
func FuzzHitTry(f *testing.F) {
	f.Add("s", "id", 1, int64(500_000))
	f.Add("", "", 10, int64(1))
	f.Fuzz(func(t *testing.T, seed, id string, try int, ppm int64) {
		if try < 0 {
			return
		}
		if under(hashTry(seed, id, try), ppm) != Hit(seed, fmt.Sprintf("%s#%d", id, try), ppm) {
			t.Fatal("hashTry and Hit differ")
		}
		// Growing the share never loses a hit: a search may bisect it.
		if Hit(seed, id, ppm) && ppm < math.MaxInt64 && !Hit(seed, id, ppm+1) {
			t.Fatal("a greater share lost a hit")
		}
	})
}

func TestErrorAnswersAsTheUpstream(t *testing.T) {
	tests := []struct {
		name, method, body, kind string
		length                   int64
		fault                    Fault
	}{
		{"with a body", "GET", "busy", "text/plain; charset=utf-8", 4, errorFault(1_000_000)},
		{"a JSON body", "GET", `{"e":1}`, "application/json", 7, errorFault(1_000_000, func(f *Fault) { f.Body = `{"e":1}` })},
		{"its own type", "GET", "busy", "text/x", 4, errorFault(1_000_000, func(f *Fault) {
			f.Headers = map[string]string{"content-type": "text/x", "X-Backend-Status": "overloaded"}
		})},
		{"HEAD has no body", "HEAD", "", "", 0, errorFault(1_000_000)},
		{"no body given", "GET", "", "", 0, errorFault(1_000_000, func(f *Fault) { f.Body = "" })},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := NewTable(Caps{})
			arm(t, tab, tt.fault)
			x := try("r")
			x.Request.Method = tt.method
			if err := serve(tab, x); err != nil {
				t.Fatal(err)
			}
			r, got := &x.Response, ""
			if r.Body != nil {
				b, _ := io.ReadAll(r.Body)
				got = string(b)
			}
			if r.Status != 503 || got != tt.body || r.Length != tt.length || r.Local || r.Head.Get("Content-Type") != tt.kind || r.Head.Get("X-Backend-Status") != "overloaded" {
				t.Errorf("got %d %q of %d, local %v, head %v", r.Status, got, r.Length, r.Local, r.Head.Fields())
			}
			if x.Event.Experiment != "run-1" || x.Try().Fault != "err" {
				t.Errorf("event names run %q, fault %q", x.Event.Experiment, x.Try().Fault)
			}
		})
	}
}

// C1, C20: a share of 0 % injects nothing, and changes nothing.
func TestChaos_C1_C20(t *testing.T) {
	tab := NewTable(Caps{})
	arm(t, tab, errorFault(0), latencyFault(10*time.Second, func(f *Fault) { f.PPM = 0 }))
	for i := range 10_000 {
		x := try(fmt.Sprint(i))
		if err := serve(tab, x); err != nil || x.Response.Status != 200 || x.Response.Head.Len() != 1 || x.Event.Experiment != "" || x.Try().Fault != "" {
			t.Fatalf("request %d: %d, %v, %v", i, x.Response.Status, err, x.Event)
		}
	}
	if got := tab.Tallies(); len(got) != 1 || got[0] != (Tally{Run: "run-1", Service: "points", Attempts: 10_000}) {
		t.Errorf("tallies %+v, want 10000 attempts and no injection", got)
	}
}

// C11: one decision a try, whatever the fault's target asks for.
func TestChaos_C11(t *testing.T) {
	for _, caller := range []string{"", "web"} {
		tab := NewTable(Caps{})
		arm(t, tab, errorFault(500_000, func(f *Fault) {
			if caller != "" {
				f.Target.Callers = []string{caller}
			}
		}))
		const n = 20_000
		hit := 0
		for i := range n {
			x := try(fmt.Sprint(i))
			x.Event.Caller = caller
			if _ = serve(tab, x); x.Response.Status == 503 {
				hit++
			}
		}
		if hit < n*49/100 || hit > n*51/100 {
			t.Errorf("caller %q: %d of %d hit, want half +- 1 %%", caller, hit, n)
		}
	}
}

// C6: latencies of several faults add up.
func TestChaos_C6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		arm(t, tab, latencyFault(200*ms), latencyFault(300*ms, func(f *Fault) { f.ID = "lat2" }), errorFault(1_000_000))
		x, start := try("r"), time.Now()
		err := serve(tab, x)
		if took := time.Since(start); err != nil || took != 500*ms || x.Response.Status != 503 {
			t.Errorf("got %d, %v after %v, want 503 after 500ms", x.Response.Status, err, took)
		}
		if tr := x.Try(); tr.Fault != "lat" || tr.PlannedUS != 500_000 || tr.ActualUS != 500_000 || tr.CutShort {
			t.Errorf("try says %+v", *tr)
		}
		if got := tab.Tallies()[0]; got.Attempts != 1 || got.Injected != 1 {
			t.Errorf("tally %+v, want one attempt, hit once", got)
		}
	})
}

func TestLatencyEndsAtTheTrysDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		arm(t, tab, latencyFault(5*time.Second))
		x, start := try("r"), time.Now()
		x.SetDeadline(start.Add(800 * ms))
		err := serve(tab, x)
		ue, ok := errors.AsType[*exchange.UpstreamError](err)
		if !ok || ue.Kind != exchange.TryTimeout || time.Since(start) != 800*ms {
			t.Errorf("got %v after %v, want a try timeout after 800ms", err, time.Since(start))
		}
		if tr := x.Try(); tr.PlannedUS != 5_000_000 || tr.ActualUS != 800_000 || !tr.CutShort {
			t.Errorf("try says %+v", *tr)
		}
		if exchange.Classify(err, 0) != retrylog.Timeout {
			t.Errorf("classified %v, want timeout", exchange.Classify(err, 0))
		}
	})
}

func TestLatencyEndsWithTheClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		arm(t, tab, latencyFault(5*time.Second))
		x, start := try("r"), time.Now()
		token := x.Token()
		time.AfterFunc(100*ms, func() { token.Cancel(exchange.ErrClientGone) })
		if err := serve(tab, x); !errors.Is(err, exchange.ErrClientGone) || time.Since(start) != 100*ms {
			t.Errorf("got %v after %v", err, time.Since(start))
		}
	})
}

// Disarming, halting and a lease that runs out all wake what sleeps; a renewal
// does not.
func TestSleepsEndWithTheFault(t *testing.T) {
	tests := []struct {
		name string
		do   func(tab *Table, f Fault)
		took time.Duration
	}{
		{"not named any more", func(tab *Table, f Fault) { tab.Replace(time.Now(), nil) }, time.Second},
		{"changed", func(tab *Table, f Fault) { f.LatencyMS = 1; tab.Replace(time.Now(), leases(f)) }, time.Second},
		{"halted", func(tab *Table, f Fault) { tab.Halt() }, time.Second},
		{"nobody renews the lease", func(*Table, Fault) {}, 15 * time.Second},
		{"renewed", func(tab *Table, f Fault) { tab.Replace(time.Now(), leases(f)) }, 16 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tab, f := NewTable(Caps{}), latencyFault(20*time.Second)
				arm(t, tab, f)
				time.AfterFunc(time.Second, func() { tt.do(tab, f) })
				x, start := try("r"), time.Now()
				if err := serve(tab, x); err != nil || x.Response.Status != 200 || time.Since(start) != tt.took {
					t.Errorf("got %d, %v after %v, want 200 after %v", x.Response.Status, err, time.Since(start), tt.took)
				}
				if !x.Try().CutShort {
					t.Error("the try does not say that its delay was cut")
				}
			})
		})
	}
}

func TestExpiredFaultsInjectNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		arm(t, tab, errorFault(1_000_000))
		time.Sleep(15 * time.Second)
		x := try("r")
		if _ = serve(tab, x); x.Response.Status != 200 || len(tab.Armed(time.Now())) != 0 {
			t.Errorf("got %d, armed %v after the lease", x.Response.Status, tab.Armed(time.Now()))
		}
	})
}

func TestTargets(t *testing.T) {
	tests := []struct {
		name   string
		target Target
		site   Site
		want   int
	}{
		{"the service", Target{Service: "points"}, Site{Service: "points", Route: "r"}, 503},
		{"another service", Target{Service: "coupon"}, Site{Service: "points", Route: "r"}, 200},
		{"the route", Target{Service: "points", Routes: []string{"q", "r"}}, Site{Service: "points", Route: "r"}, 503},
		{"another route", Target{Service: "points", Routes: []string{"q"}}, Site{Service: "points", Route: "r"}, 200},
		{"the endpoint", Target{Service: "points", Endpoint: "a:1"}, Site{Service: "points", Route: "r"}, 503},
		{"another endpoint", Target{Service: "points", Endpoint: "b:1"}, Site{Service: "points", Route: "r"}, 200},
		{"another caller", Target{Service: "points", Callers: []string{"web"}}, Site{Service: "points", Route: "r"}, 200},
		{"an exempt route", Target{Service: "points"}, Site{Service: "points", Route: "r", Exempt: true}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := NewTable(Caps{})
			arm(t, tab, errorFault(1_000_000, func(f *Fault) { f.Target = tt.target }))
			x := try("r")
			if err := exchange.Chain(good, Layer(tab, tt.site)).Serve(x); err != nil || x.Response.Status != tt.want {
				t.Errorf("got %d, %v, want %d", x.Response.Status, err, tt.want)
			}
		})
	}
}

func TestKeyRequestHitsAllTriesOrNone(t *testing.T) {
	tab := NewTable(Caps{})
	arm(t, tab, errorFault(500_000, func(f *Fault) { f.Key = KeyRequest }))
	for i := range 100 {
		first := 0
		x := try(fmt.Sprint(i))
		for n := range 3 {
			_ = serve(tab, x)
			if n == 0 {
				first = x.Response.Status
			}
			if x.Response.Status != first {
				t.Fatalf("request %d: tries differ", i)
			}
			x.Response.Head.Reset()
			x.Event.Tries = append(x.Event.Tries, retrylog.Try{})
		}
	}
}
