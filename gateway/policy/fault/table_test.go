package fault

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/gateway/exchange"
)

func TestReplaceRefuses(t *testing.T) {
	tests := []struct {
		name  string
		lease func(l *Lease)
		want  string
	}{
		{"no ttl", func(l *Lease) { l.Until = time.Time{} }, "no ttl"},
		{"a ttl that is over", func(l *Lease) { l.Until = time.Now().Add(-time.Second) }, "over"},
		{"no service", func(l *Lease) { l.Fault.Target.Service = "" }, "target.service"},
		{"no run", func(l *Lease) { l.Fault.Run = "" }, "run"},
		{"a share over all", func(l *Lease) { l.Fault.PPM = 1_000_001 }, "1000000"},
		{"a negative share", func(l *Lease) { l.Fault.PPM = -1 }, "ppm"},
		{"a share over the cap", func(l *Lease) { l.Fault.PPM = 500_001 }, "cap"},
		{"a latency over the cap", func(l *Lease) { l.Fault = latencyFault(10001*ms, func(f *Fault) { f.PPM = 1 }) }, "cap"},
		{"no latency", func(l *Lease) { l.Fault = latencyFault(0) }, "latency_ms"},
		{"a latency that wraps", func(l *Lease) { l.Fault = latencyFault(0); l.Fault.LatencyMS = 1 << 60 }, "latency_ms"},
		{"a good status", func(l *Lease) { l.Fault.Status = 200 }, "status"},
		{"an unknown kind", func(l *Lease) { l.Fault.Kind = "explode" }, "kind"},
		{"an unknown key", func(l *Lease) { l.Fault.Key = "moon" }, "key"},
		{"a header that splits", func(l *Lease) { l.Fault.Headers = map[string]string{"A": "b\r\nC: d"} }, "header"},
		{"a header about framing", func(l *Lease) { l.Fault.Headers = map[string]string{"transfer-encoding": "chunked"} }, "framing"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := NewTable(Caps{MaxPPM: 500_000, MaxLatency: 10 * time.Second})
			l := leases(errorFault(100_000))[0]
			tt.lease(&l)
			armed, refused := tab.Replace(time.Now(), []Lease{l})
			if len(armed) != 0 || len(refused) != 1 || !strings.Contains(refused[0].Reason, tt.want) {
				t.Errorf("armed %v, refused %+v, want a reason with %q", armed, refused, tt.want)
			}
			if tab.live.Load() != nil {
				t.Error("a refused fault is live")
			}
		})
	}
}

func TestReplaceIsTheWhole(t *testing.T) {
	tab := NewTable(Caps{})
	a, b := errorFault(1), errorFault(1, func(f *Fault) { f.ID = "two" })
	arm(t, tab, a, b)
	before := tab.live.Load()
	arm(t, tab, a, b)
	if tab.live.Load() != before {
		t.Error("a renewal built a new snapshot")
	}
	arm(t, tab, b)
	if got := tab.Armed(time.Now()); len(got) != 1 || got[0].Fault != "two" {
		t.Errorf("armed %+v, want only two", got)
	}
	if _, refused := tab.Replace(time.Now(), leases(b, b)); len(refused) != 1 {
		t.Errorf("refused %+v, want the second of a pair", refused)
	}
	tab.Replace(time.Now(), nil)
	if tab.live.Load() != nil {
		t.Error("nothing armed still costs a snapshot")
	}
}

// The same hash over another rule is another rule.
func TestReplaceDoesNotTrustAHash(t *testing.T) {
	tab := NewTable(Caps{})
	l := leases(errorFault(1))
	tab.Replace(time.Now(), l)
	l[0].Fault.PPM = 1_000_000
	tab.Replace(time.Now(), l)
	if got := tab.Armed(time.Now()); len(got) != 1 || got[0].PPM != 1_000_000 {
		t.Errorf("armed %+v, want the new share", got)
	}
}

func TestHaltHoldsUntilResume(t *testing.T) {
	tab := NewTable(Caps{})
	arm(t, tab, errorFault(1_000_000))
	tab.Halt()
	if _, refused := tab.Replace(time.Now(), leases(errorFault(1_000_000))); len(refused) != 1 || !tab.Halted() {
		t.Errorf("refused %+v under halt, want it", refused)
	}
	x := try("r")
	if _ = serve(tab, x); x.Response.Status != 200 {
		t.Errorf("got %d under halt", x.Response.Status)
	}
	tab.Resume()
	arm(t, tab, errorFault(1_000_000))
	x = try("r")
	if _ = serve(tab, x); x.Response.Status != 503 {
		t.Errorf("got %d after resume", x.Response.Status)
	}
}

// C14: over the cap of sleepers a fault is not injected, and only those that
// were due are counted.
func TestChaos_C14(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{MaxSleeps: 3})
		arm(t, tab, latencyFault(time.Second, func(f *Fault) { f.PPM = 500_000 }))
		due := 0
		var wg sync.WaitGroup
		for i := range 100 {
			id := fmt.Sprint(i)
			if Hit("s", id+"#1", 500_000) {
				due++
			}
			wg.Go(func() { _ = serve(tab, try(id)) })
		}
		wg.Wait()
		if got := tab.Tallies()[0]; tab.Missed() != int64(due-3) || got.Injected != 3 || got.Attempts != 100 {
			t.Errorf("missed %d of %d due, tally %+v", tab.Missed(), due, got)
		}
	})
}

// C3: arming and disarming under load answers, and hurts nobody.
func TestChaos_C3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tab := NewTable(Caps{})
		a, b := latencyFault(50*ms), latencyFault(30*ms, func(f *Fault) { f.ID = "b" })
		var wg sync.WaitGroup
		for i := range 50 {
			wg.Go(func() {
				for n := range 20 {
					if err := serve(tab, try(fmt.Sprint(i, n))); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			tab.Replace(time.Now(), leases(a, b))
			time.Sleep(20 * ms)
			tab.Replace(time.Now(), leases(b))
			time.Sleep(20 * ms)
		}
		if got := tab.Armed(time.Now()); len(got) != 1 || got[0].Fault != "b" {
			t.Errorf("armed %+v, want b", got)
		}
		tab.Halt()
		wg.Wait()
	})
}

func BenchmarkNothingArmed(b *testing.B) {
	tab, x := NewTable(Caps{}), try("r")
	svc := Layer(tab, Site{Service: "points"})(null{})
	b.ReportAllocs()
	for b.Loop() {
		_ = svc.Serve(x)
	}
}

func BenchmarkArmedNotHit(b *testing.B) {
	tab, x := NewTable(Caps{}), try("3f1c2d4e5a6b7c8d")
	tab.Replace(time.Now(), []Lease{{Fault: errorFault(0), Hash: "h", Until: time.Now().Add(time.Hour)}})
	svc := Layer(tab, Site{Service: "points"})(null{})
	b.ReportAllocs()
	for b.Loop() {
		_ = svc.Serve(x)
	}
}

// null answers nothing, at no cost.
type null struct{}

func (null) Serve(*exchange.Exchange) error { return nil }
