package shed

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestEffective(t *testing.T) {
	tests := []struct {
		route   Tier
		said    string
		retries int
		want    Tier
	}{
		{"", "", 0, Default},
		{Critical, "", 0, Critical},
		{Sheddable, "", 0, Sheddable},
		{Default, "critical", 0, Critical},
		{Critical, "sheddable", 0, Sheddable},
		{Critical, "CRITICAL!", 0, Critical},
		{Sheddable, "nonsense", 0, Sheddable},
		// A retry loses one tier, whoever says what.
		{Critical, "", 1, Default},
		{Default, "", 3, Sheddable},
		{Sheddable, "", 1, Sheddable},
		{Sheddable, "critical", 1, Default},
	}
	for _, tt := range tests {
		if got := Effective(tt.route, tt.said, tt.retries); got != tt.want {
			t.Errorf("route %q, said %q, %d retries: %s, want %s", tt.route, tt.said, tt.retries, got, tt.want)
		}
	}
}

// The lowest tier goes first.
func TestCeilings(t *testing.T) {
	inFlight := int64(0)
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) { return inFlight, 100, true }})
	for _, tt := range []struct {
		inFlight int64
		want     [3]Verdict // sheddable, default, critical
	}{
		{0, [3]Verdict{}}, {74, [3]Verdict{}},
		{75, [3]Verdict{Full, Admitted, Admitted}}, {89, [3]Verdict{Full, Admitted, Admitted}},
		{90, [3]Verdict{Full, Full, Admitted}}, {200, [3]Verdict{Full, Full, Admitted}},
	} {
		inFlight = tt.inFlight
		for rank, want := range tt.want {
			if got := s.Admit(epoch, tierOf(rank), "c", "r"); got != want {
				t.Errorf("%d of 100 under way, %s: verdict %d, want %d", inFlight, tierOf(rank), got, want)
			}
		}
	}
}

// A small limit leaves every tier one place.
func TestCeilingsOfFew(t *testing.T) {
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) { return 0, 1, true }})
	if got := s.Admit(epoch, Sheddable, "c", "r"); got != Admitted {
		t.Errorf("nothing under way: verdict %d", got)
	}
}

// stress makes n requests in each of some intervals, from on, and returns who of
// the callers was shed by share in the last of them.
func stress(s *Shedder, from time.Duration, intervals, n int) (shed map[string]int, until time.Duration) {
	for i := range intervals {
		shed = map[string]int{}
		for j := range n {
			at := from + time.Duration(i)*interval + time.Duration(j)*interval/time.Duration(n)
			caller := fmt.Sprintf("caller-%d", j%50)
			if s.Admit(epoch.Add(at), Default, caller, fmt.Sprintf("id-%d-%d", i, j)) == Share {
				shed[caller]++
			}
		}
	}
	return shed, from + time.Duration(intervals)*interval
}

func TestShareHasHysteresis(t *testing.T) {
	full := false
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) {
		if full {
			return 100, 100, true
		}
		return 0, 100, true
	}})
	_, at := stress(s, interval, 4, 500)
	if got := s.Stats(epoch); got.SharePPM[1] != 0 || got.Level != "none" {
		t.Fatalf("without pressure: %+v", got)
	}
	full = true
	shed, at := stress(s, at, 8, 500)
	high := s.Stats(epoch.Add(at)).SharePPM[1]
	if high < 800_000 || len(shed) < 30 {
		t.Fatalf("under pressure %d of a million are shed, %d callers", high, len(shed))
	}
	full = false
	_, at = stress(s, at, 3, 500) // less than a second since the last time it was raised
	if got := s.Stats(epoch.Add(at)).SharePPM[1]; got < high {
		t.Errorf("at once after it the share is down to %d from %d", got, high)
	}
	_, at = stress(s, at, 14, 500)
	if got := s.Stats(epoch.Add(at)).SharePPM[1]; got != 0 {
		t.Errorf("4 s after the pressure the share is %d", got)
	}
}

// Nearly half the requests find the places full: that is how a load looks that uses them
// all. Nothing moves.
func TestNothingMovesBetween(t *testing.T) {
	n := 0
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) {
		n++
		if n%20 < 9 {
			return 100, 100, true
		}
		return 0, 100, true
	}})
	s.tiers[1].ppm, s.tiers[1].full = 300_000, 450_000
	var before map[string]int
	at := interval
	for i := range 10 {
		shed, until := stress(s, at, 2, 1000)
		at = until
		if i > 3 {
			same := 0
			for caller := range shed {
				if before[caller] > 0 {
					same++
				}
			}
			if same < len(shed)-1 || len(shed) == 0 {
				t.Errorf("of %d callers only %d were shed before too", len(shed), same)
			}
		}
		before = shed
	}
	if got := s.Stats(epoch.Add(at)).SharePPM[1]; got != 300_000 {
		t.Errorf("the share moved to %d", got)
	}
}

// A limit that is lowered for a probe says nothing of the load: who is shed stays.
func TestProbesMoveNothing(t *testing.T) {
	steady := false
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) { return 3, 3, steady }})
	_, at := stress(s, interval, 8, 500)
	if got := s.Stats(epoch.Add(at)).SharePPM[1]; got != 0 {
		t.Errorf("while a probe lasts the share moved to %d", got)
	}
	steady = true
	if _, at = stress(s, at, 8, 500); s.Stats(epoch.Add(at)).SharePPM[1] == 0 {
		t.Error("after it the share does not move")
	}
}

// The edge lies where as much of the traffic as is wanted lies below it, also where
// there is one caller only.
func TestEdge(t *testing.T) {
	one := share{ppm: 300_000}
	one.weights[17] = 1000
	if got := one.edge(); got != 17*million+300_000 {
		t.Errorf("one caller: %d", got)
	}
	even := share{ppm: 250_000}
	for b := range even.weights {
		even.weights[b] = 10
	}
	if got := even.edge(); got != 16*million {
		t.Errorf("even: %d, want a quarter of the buckets", got)
	}
	for _, tt := range []struct{ ppm, want int64 }{{0, 0}, {500_000, 32 * million}, {million, 64 * million}} {
		unknown := share{ppm: tt.ppm}
		if got := unknown.edge(); got != tt.want {
			t.Errorf("%d of unknown traffic: %d, want %d", tt.ppm, got, tt.want)
		}
	}
}

// Whatever the traffic, the part of it below the edge is what is wanted, to a
// millionth of it.
func FuzzEdge(f *testing.F) {
	f.Add([]byte{1, 2, 3}, uint32(500_000))
	f.Fuzz(func(t *testing.T, weights []byte, ppm uint32) {
		s := share{ppm: int64(ppm % (million - million/100))}
		total := int64(0)
		for i, w := range weights {
			s.weights[i%buckets] += int64(w) * 1000
			total += int64(w) * 1000
		}
		edge := s.edge()
		if edge < 0 || edge > buckets*million {
			t.Fatalf("edge %d", edge)
		}
		if total == 0 {
			return
		}
		below := int64(0)
		for b, w := range s.weights {
			below += w * min(max(edge-int64(b)*million, 0), million) / million
		}
		if want := total * s.ppm / million; below < want-buckets || below > want+buckets {
			t.Errorf("%d of %d lie below, want %d", below, total, want)
		}
	})
}

func TestMeasure(t *testing.T) {
	var told []string
	s := New(Config{}, epoch, Deps{Changed: func(c retrylog.Transition) { told = append(told, c.From+">"+c.To) }})
	s.SetFloor(Default, epoch.Add(time.Minute), epoch)
	for rank, want := range []Verdict{Measure, Admitted, Admitted} {
		if got := s.Admit(epoch.Add(time.Second), tierOf(rank), "c", "r"); got != want {
			t.Errorf("%s: verdict %d, want %d", tierOf(rank), got, want)
		}
	}
	if got := s.Stats(epoch.Add(20 * time.Second)); got.Level != "sheddable" || got.Floor[0] != 40*time.Second || got.Floor[1] != 0 {
		t.Errorf("state %+v", got)
	}
	// A lease that nobody renews ends by itself.
	if got := s.Admit(epoch.Add(70*time.Second), Sheddable, "c", "r"); got != Admitted || s.busy() {
		t.Errorf("after the lease: verdict %d, busy %v", got, s.busy())
	}
	s.SetFloor(Critical, epoch.Add(2*time.Minute), epoch.Add(80*time.Second))
	for rank, want := range []Verdict{Measure, Measure, Admitted} {
		if got := s.Admit(epoch.Add(90*time.Second), tierOf(rank), "c", "r"); got != want {
			t.Errorf("%s: verdict %d, want %d", tierOf(rank), got, want)
		}
	}
	s.SetFloor(Sheddable, epoch.Add(2*time.Minute), epoch.Add(100*time.Second))
	if got := s.Admit(epoch.Add(100*time.Second), Sheddable, "c", "r"); got != Admitted {
		t.Errorf("lifted: verdict %d", got)
	}
	if want := []string{"none>sheddable", "sheddable>none", "none>default", "default>none"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func get(id string) *exchange.Exchange {
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Event.RequestID, x.Request.Peer = "GET", id, "192.0.2.1"
	return x
}

func ok(x *exchange.Exchange) error { x.Response.Status = 200; return nil }

func TestLayer(t *testing.T) {
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) { return 9, 10, true }})
	svc := Layer(Default, s)(exchange.Func(ok))

	x := get("a")
	err := svc.Serve(x)
	refusal, refused := errors.AsType[*exchange.Refusal](err)
	if !refused || refusal.Policy != "shed" || refusal.Reason != "tier_default" || refusal.Status != 503 || refusal.RetryAfter < time.Second || refusal.RetryAfter > 3*time.Second {
		t.Errorf("got %+v", err)
	}
	x = get("b")
	x.InboundRetries = 1
	if err := svc.Serve(x); err == nil || x.Event.Tier != "sheddable" || !strings.Contains(err.Error(), "tier_sheddable") {
		t.Errorf("a retry: %v as %q", err, x.Event.Tier)
	}
	x = get("c")
	x.Request.Head.Add("x-breakwater-tier", "critical")
	if err := svc.Serve(x); err != nil || x.Event.Tier != "critical" {
		t.Errorf("a trusted peer's critical: %v as %q", err, x.Event.Tier)
	}
	s.Reconfigure(Config{Observe: true})
	x = get("d")
	if err := svc.Serve(x); err != nil || x.Event.Observed != "shed:tier_default" || x.Event.Tier != "" {
		t.Errorf("only observed: %v, %q, %q", err, x.Event.Observed, x.Event.Tier)
	}
	s.SetFloor(Critical, time.Now().Add(time.Hour), time.Now())
	err = svc.Serve(get("e"))
	if refusal, refused := errors.AsType[*exchange.Refusal](err); !refused || refusal.Reason != "measure_default" {
		t.Errorf("a measure: %+v", err)
	}
}

func TestLayerAllocatesNothing(t *testing.T) {
	inFlight := int64(0)
	s := New(Config{}, time.Now(), Deps{Pressure: func() (int64, int64, bool) { return inFlight, 10, true }})
	svc := Layer(Default, s)(exchange.Func(ok))
	x := get("a")
	for _, inFlight = range []int64{0, 10} {
		if n := testing.AllocsPerRun(2000, func() { _ = svc.Serve(x) }); n > 0 {
			t.Errorf("with %d under way a request allocates %.2f times", inFlight, n)
		}
	}
}

// Many at once: counted to the last.
func TestShedIsCounted(t *testing.T) {
	s := New(Config{}, epoch, Deps{Pressure: func() (int64, int64, bool) { return 10, 10, true }})
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 2000 {
				s.Admit(epoch.Add(time.Duration(i)*time.Millisecond), Sheddable, fmt.Sprint(g, i%7), fmt.Sprint(i))
			}
		})
	}
	group.Wait()
	if got := s.Stats(epoch.Add(2 * time.Second)); got.Shed[0] != 8000 || got.Level != "sheddable" {
		t.Errorf("%+v", got)
	}
}

func BenchmarkLayer(b *testing.B) {
	for name, pressure := range map[string]func() (int64, int64, bool){
		"no limit": nil, "pressure": func() (int64, int64, bool) { return 5, 10, true },
	} {
		b.Run(name, func(b *testing.B) {
			s := New(Config{}, time.Now(), Deps{Pressure: pressure})
			svc := Layer(Default, s)(exchange.Func(ok))
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				x := get("4f1d2c3b4a596877665544332211")
				x.Event.Caller = "web"
				for pb.Next() {
					_ = svc.Serve(x)
				}
			})
		})
	}
}
