package fault

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
)

// X162: a fault names whom it is for; nothing, and *, are refused.
func TestReliability_X162(t *testing.T) {
	for _, change := range []func(*Target){
		func(g *Target) { *g = Target{} },
		func(g *Target) { g.Service = "*" },
		func(g *Target) { g.Routes = []string{"order", "*"} },
		func(g *Target) { g.Methods = []string{"*"} },
		func(g *Target) { g.Endpoint = "*" },
		func(g *Target) { g.Callers = []string{"*"} },
		func(g *Target) { g.Tenants = []string{"*"} },
		func(g *Target) { g.ExcludeTenants = []string{"*"} },
	} {
		f := errorFault(1_000_000)
		change(&f.Target)
		tab := NewTable(Caps{})
		armed, refused := tab.Replace(time.Now(), leases(f))
		if len(armed) != 0 || len(refused) != 1 || !strings.Contains(refused[0].Reason, "target") || tab.live.Load() != nil {
			t.Errorf("%+v: armed %v, refused %+v", f.Target, armed, refused)
		}
	}
}

// F11: nobody outside the target is hit, in a million requests; of those inside the
// share that was asked for is, everywhere alike; all faults together stay below the cap.
func TestReliability_F11(t *testing.T) {
	if testing.Short() {
		t.Skip("a million requests: part of make test, not of make check")
	}
	// Leases run out by a clock that stands still here, however long a million takes.
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{MaxPPM: 300_000})
		arm(t, tab,
			errorFault(200_000, func(f *Fault) { f.Target.Callers, f.Target.ExcludeTenants = []string{"web"}, []string{"vip"} }),
			errorFault(100_000, func(f *Fault) { f.ID, f.Seed, f.Target.Methods = "two", "other", []string{"DELETE"} }))
		svc := exchange.Chain(null{}, Layer(tab, Site{Service: "points", Route: "r"}))
		x := try("")
		buckets := make([]int, 50)
		const n = 1_000_000
		inside := n / 4
		hit, off := 0, 0
		for i := range n {
			x.Response.Head.Reset()
			x.Response.Status, x.Event.Experiment, x.Try().Fault = 0, "", ""
			x.Event.RequestID = strconv.FormatUint(uint64(i)*0x9e3779b97f4a7c15, 16)
			in := i%4 == 0
			x.Event.Caller, x.Event.Tenant = "web", ""
			switch i % 4 {
			case 1:
				x.Event.Caller = "app"
			case 2:
				x.Event.Tenant = "vip"
			case 3:
				x.Event.Caller = ""
			}
			if err := svc.Serve(x); err != nil {
				t.Fatal(err)
			}
			switch {
			case x.Response.Status != 503:
			case in:
				hit++
				buckets[i/4/(inside/len(buckets))]++
			default:
				off++
			}
		}
		if share := float64(hit) / float64(inside); off != 0 || math.Abs(share-0.2) > 0.002 {
			t.Errorf("%d hit off target, and a share of %.4f inside, want 0 and 0.2 +- 0.002", off, share)
		}
		// Chi-square with 50 degrees of freedom: 99.9 % of fair samplers are below 86.7.
		chi := 0.0
		for _, got := range buckets {
			want := 0.2 * float64(inside) / float64(len(buckets))
			chi += (float64(got) - want) * (float64(got) - want) / (want * 0.8)
		}
		if chi > 86.7 {
			t.Errorf("chi-square %.1f: the share is not the same everywhere", chi)
		}
	})
}

func TestReliability_F11_UnionCap(t *testing.T) {
	three := func(change func(*Fault)) (first, second Fault) {
		first = errorFault(30_000)
		second = errorFault(30_000, func(f *Fault) { f.ID, f.Run, f.Seed = "two", "run-2", "t" })
		change(&second)
		return first, second
	}
	for name, tt := range map[string]struct {
		change func(*Fault)
		armed  int
	}{
		"two draws":               {func(*Fault) {}, 1},
		"one draw":                {func(f *Fault) { f.Seed = "s" }, 2},
		"one draw, another key":   {func(f *Fault) { f.Seed, f.Key = "s", KeyRequest }, 1},
		"another service":         {func(f *Fault) { f.Target.Service = "coupon" }, 2},
		"together just the cap":   {func(f *Fault) { f.PPM = 20_000 }, 2},
		"a control run beside it": {func(f *Fault) { f.PPM = 0 }, 2},
	} {
		first, second := three(tt.change)
		tab := NewTable(Caps{MaxPPM: 50_000})
		armed, refused := tab.Replace(time.Now(), leases(first, second))
		if len(armed) != tt.armed || len(refused) != 2-tt.armed || len(refused) > 0 && !strings.Contains(refused[0].Reason, "cap") {
			t.Errorf("%s: armed %+v, refused %+v", name, armed, refused)
		}
	}
	tab := NewTable(Caps{MaxPPM: 50_000})
	first, second := three(func(f *Fault) { f.Target.Routes = []string{"b"} })
	first.Target.Routes = []string{"a"}
	if armed, _ := tab.Replace(time.Now(), leases(first, second)); len(armed) != 2 {
		t.Errorf("armed %+v: faults on two routes do not meet", armed)
	}
}

// Caps bind what is armed already, at once.
func TestLowerCapsEndWhatIsBeyondThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		arm(t, tab, latencyFault(20*time.Second), errorFault(10_000))
		time.AfterFunc(time.Second, func() { tab.SetCaps(Caps{MaxPPM: 20_000, MaxLatency: 10 * time.Second}) })
		x, start := try("r"), time.Now()
		if err := serve(tab, x); err != nil || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if armed := tab.Armed(time.Now()); len(armed) != 1 || armed[0].Fault != "err" {
			t.Errorf("armed %+v", armed)
		}
	})
}

// A fault lives no longer than the gateway allows, though it be renewed for ever,
// and changed meanwhile.
func TestNoFaultOutlivesTheCap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{MaxDuration: time.Minute})
		for i := range 30 {
			f := errorFault(int64(i + 1))
			armed, refused := tab.Replace(time.Now(), leases(f))
			if alive := i*5 < 60; alive != (len(armed) == 1) || alive != (len(refused) == 0) {
				t.Errorf("after %d s: armed %v, refused %v", i*5, armed, refused)
			}
			time.Sleep(5 * time.Second)
		}
		tab.Replace(time.Now(), nil)
		arm(t, tab, errorFault(1)) // another run of it
	})
}

// X160: stop wins over whatever arms at the same time, and nothing is injected once
// it has been acknowledged.
func TestReliability_X160(t *testing.T) {
	f, chance := errorFault(1_000_000), rand.New(rand.NewPCG(1, 2))
	for round := range 1000 {
		tab := NewTable(Caps{})
		var arming sync.WaitGroup
		begun := make(chan struct{})
		arming.Go(func() {
			close(begun)
			for range 3 {
				tab.Replace(time.Now(), leases(f))
			}
		})
		<-begun
		for range chance.IntN(200) { // an instant anywhere in the arming
			_ = tab.Halted()
		}
		tab.Halt()
		x := try("r")
		if err := serve(tab, x); err != nil || x.Response.Status != 200 {
			t.Fatalf("round %d: got %d, %v after the stop", round, x.Response.Status, err)
		}
		arming.Wait()
		if tab.live.Load() != nil {
			t.Fatalf("round %d: a fault is alive", round)
		}
	}
}

// The same of an abort, which takes one run out of the plan and leaves the others.
func TestAbortsAtRandomInstantsLeaveNoneAlive(t *testing.T) {
	chance := rand.New(rand.NewPCG(3, 4))
	for round := range 1000 {
		tab, keep := NewTable(Caps{}), errorFault(0, func(f *Fault) { f.ID = "keep" })
		var sleeping sync.WaitGroup
		for i := range 3 {
			sleeping.Go(func() { _ = serve(tab, try(fmt.Sprint(round, i))) })
		}
		arm(t, tab, keep, latencyFault(20*time.Second))
		sleeping.Go(func() { _ = serve(tab, try("late")) })
		for range chance.IntN(100) {
			_ = tab.Halted()
		}
		arm(t, tab, keep)
		sleeping.Wait() // or the test takes 20 s, and fails by its time
		if armed := tab.Armed(time.Now()); len(armed) != 1 || armed[0].Fault != "keep" || tab.sleeps.Load() != 0 {
			t.Fatalf("round %d: armed %+v, %d asleep", round, armed, tab.sleeps.Load())
		}
	}
}

// C13: what counts against the cap is who sleeps, not who was delayed once.
func TestChaos_C13(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{MaxSleeps: 1})
		arm(t, tab, latencyFault(time.Second))
		stream := try("1")
		if err := serve(tab, stream); err != nil { // its body is open from here on
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		begin := time.Now()
		if err := serve(tab, try("2")); err != nil || time.Since(begin) != time.Second || tab.Missed() != 0 {
			t.Errorf("%v after %v, %d missed", err, time.Since(begin), tab.Missed())
		}
	})
}

// C48: which half is hit hangs on the id alone, so the same ids are hit again.
func TestChaos_C48(t *testing.T) {
	f := errorFault(500_000, func(f *Fault) { f.Key = KeyRequest })
	hits := func() (all []bool, n int) {
		tab := NewTable(Caps{}) // another gateway
		arm(t, tab, f)
		for i := range 10_000 {
			x := try(fmt.Sprintf("id-%d", i))
			_ = serve(tab, x)
			if all = append(all, x.Response.Status == 503); x.Response.Status == 503 {
				n++
			}
		}
		return all, n
	}
	first, n := hits()
	second, _ := hits()
	if fmt.Sprint(first) != fmt.Sprint(second) || n < 4871 || n > 5129 { // 99 %
		t.Errorf("%d of 10000, the same again: %v", n, fmt.Sprint(first) == fmt.Sprint(second))
	}
	for i, hit := range first {
		if hit != Hit(f.Seed, fmt.Sprintf("id-%d", i), f.PPM) {
			t.Fatalf("what was to be expected of id-%d differs", i)
		}
	}
}

// C20: a share of nothing is taken, and does nothing.
func TestChaos_C20(t *testing.T) {
	tab := NewTable(Caps{})
	for _, kind := range []Fault{errorFault(0), latencyFault(time.Second, func(f *Fault) { f.PPM = 0 }), of(Drop, func(f *Fault) { f.PPM, f.Phase = 0, BeforeUpstream })} {
		arm(t, tab, kind)
		for i := range 1000 {
			x := try(fmt.Sprint(i))
			if err := serve(tab, x); err != nil || x.Response.Status != 200 || x.Event.Experiment != "" {
				t.Fatalf("%s: %d, %v", kind.Kind, x.Response.Status, err)
			}
		}
	}
	if injected(tab) != 0 {
		t.Errorf("%d injected", injected(tab))
	}
}

// The unit of a connection is the connection and not the address behind it; who
// belongs to no tenant is a unit alone.
func TestUnits(t *testing.T) {
	for _, key := range []string{KeyConnection, KeyTenant, KeyTrace} {
		tab := NewTable(Caps{})
		arm(t, tab, errorFault(500_000, func(f *Fault) { f.Key = key }))
		hits := 0
		for i := range 1000 {
			before := 0
			for n := range 2 { // requests of one unit
				x := try(fmt.Sprint(i, n))
				x.Request.Peer, x.Request.Connection = "10.0.0.1", fmt.Sprintf("10.0.0.1:%d", i)
				x.Event.Tenant = fmt.Sprintf("t%d", i)
				x.Request.Head.Set("traceparent", fmt.Sprintf("00-%032x-00f067aa0ba902b7-01", i+1))
				_ = serve(tab, x)
				if n == 1 && x.Response.Status != before {
					t.Fatalf("%s: two requests of unit %d differ", key, i)
				}
				before = x.Response.Status
			}
			if before == 503 {
				hits++
			}
		}
		if hits < 440 || hits > 560 {
			t.Errorf("%s: %d of 1000 units hit, want half", key, hits)
		}
	}
	tab := NewTable(Caps{})
	arm(t, tab, errorFault(500_000, func(f *Fault) { f.Key = KeyTenant }))
	hits := 0
	for i := range 1000 {
		x := try(fmt.Sprint(i))
		if _ = serve(tab, x); x.Response.Status == 503 {
			hits++
		}
	}
	if hits < 440 || hits > 560 {
		t.Errorf("%d of 1000 requests without a tenant hit, want half", hits)
	}
}

// What had no effect was not injected.
func TestOnlyEffectsAreCounted(t *testing.T) {
	for name, f := range map[string]Fault{
		"a field that is there already": of(Header, func(f *Fault) { f.Headers = map[string]string{"Content-Encoding": "gzip"} }),
		"a field that is not there":     of(Header, func(f *Fault) { f.Remove = []string{"X-Gone"} }),
		"a cut just at the end":         of(Truncate, func(f *Fault) { f.Bytes = 4 }),
		"a cut beyond the end":          of(Truncate, func(f *Fault) { f.Bytes, f.Clean = 400, true }),
		"no bit that is flipped":        of(Corrupt, func(f *Fault) { f.PPMOfBody = 1 }),
	} {
		for _, known := range []bool{true, false} {
			tab, x := NewTable(Caps{}), try("r")
			arm(t, tab, f)
			if err := exchange.Chain(&upstream{body: "fine", known: known}, Layer(tab, Site{Service: "points"})).Serve(x); err != nil {
				t.Fatal(err)
			}
			if b, err := io.ReadAll(x.Response.Body); err != nil || string(b) != "fine" {
				t.Errorf("%s: %q, %v", name, b, err)
			}
			if injected(tab) != 0 || x.Event.Experiment != "" || x.Try().Fault != "" {
				t.Errorf("%s, length known %v: counts as injected", name, known)
			}
		}
	}
}

// With nothing armed, and with something that is for others, the layer allocates
// nothing.
func TestNothingArmedAllocatesNothing(t *testing.T) {
	tab, x := NewTable(Caps{}), try("r")
	svc := Layer(tab, Site{Service: "points"})(null{})
	if n := testing.AllocsPerRun(1000, func() { _ = svc.Serve(x) }); n != 0 {
		t.Errorf("%v allocations with nothing armed", n)
	}
	arm(t, tab, errorFault(1_000_000, func(f *Fault) { f.Target.Service = "coupon" }), errorFault(0, func(f *Fault) { f.ID = "none" }))
	if n := testing.AllocsPerRun(1000, func() { _ = svc.Serve(x) }); n != 0 {
		t.Errorf("%v allocations of a request that is not hit", n)
	}
}
