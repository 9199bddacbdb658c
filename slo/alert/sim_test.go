package alert

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func promise(targetPPB int64) slo.Objective {
	return slo.Objective{ID: "order-availability", Service: "order", TargetPPB: targetPPB, Window: 30 * 24 * time.Hour}
}

// town is a service whose seconds are counted, weighed and looked at as control
// does it, with the machine behind.
type town struct {
	t       *testing.T
	o       slo.Objective
	policy  slo.Policy
	now     time.Time
	from    time.Time
	good    []int64 // prefix sums by step since from
	bad     []int64
	step    time.Duration
	base    slo.Tally // what the window held before
	freeze  slo.State
	freezes int
	state   State
	sent    []string // "opened page"
	whys    []Why
	n       int
	until   time.Time // gateways report up to here; zero: now
	facts   []Symptom
}

func newTown(t *testing.T, o slo.Objective, step time.Duration) *town {
	return &town{t: t, o: o, policy: slo.DefaultPolicy(), now: noon, from: noon, step: step, good: []int64{0}, bad: []int64{0},
		base: slo.Tally{Good: 10_000_000}}
}

// count lets one step pass with good and bad requests.
func (w *town) count(good, bad int64) {
	w.good = append(w.good, w.good[len(w.good)-1]+good)
	w.bad = append(w.bad, w.bad[len(w.bad)-1]+bad)
	w.now = w.now.Add(w.step)
}

func (w *town) over(window time.Duration) slo.Tally {
	n := len(w.good) - 1
	k := max(0, n-int(window/w.step))
	return slo.Tally{Good: w.good[n] - w.good[k], Bad: w.bad[n] - w.bad[k]}
}

func (w *town) status() slo.Status {
	all := w.over(w.o.Window)
	all.Good, all.Bad = all.Good+w.base.Good, all.Bad+w.base.Bad
	m := slo.Measurement{TargetPPB: w.o.TargetPPB, Closed: all, Running: all, CoveragePPM: 1_000_000}
	before := w.freeze.Level
	w.freeze = slo.Next(w.policy, w.freeze, m, w.now)
	if w.freeze.Level == slo.Frozen && before != slo.Frozen {
		w.freezes++
	}
	s := slo.Status{Objective: w.o, Env: "prod", At: w.now, DataUntil: w.now, Budget: slo.Weigh(w.o, all), CoveragePPM: 1_000_000,
		Level: w.freeze.Level, Measured: w.freeze.Measured, Reason: w.freeze.Reason, Since: w.freeze.Since}
	if !w.until.IsZero() {
		s.DataUntil = w.until
	}
	for _, window := range w.o.Windows() {
		s.Burns = append(s.Burns, slo.Burning(w.o, window, w.over(window)))
	}
	return s
}

// look runs the machine once.
func (w *town) look() {
	sight := Look([]slo.Status{w.status()}, w.now)
	sight.Add(w.facts...)
	out := Step(Rules{Routes: []Route{{Name: "all", Least: Ticket, Receivers: []Receiver{{Name: "hook", Type: Webhook}}}},
		NewID: func() string { w.n++; return fmt.Sprintf("i-%d", w.n) }}, w.state, sight, nil, w.now)
	for _, c := range out.Changed {
		found := false
		for k := range w.state.Incidents {
			if w.state.Incidents[k].ID == c.ID {
				w.state.Incidents[k], found = c, true
			}
		}
		if !found {
			w.state.Incidents = append(w.state.Incidents, c)
		}
	}
	for _, d := range out.Messages {
		if d.Kind != Update {
			w.sent = append(w.sent, string(d.Kind)+" "+string(d.Incident.Severity)+" "+string(d.Incident.Class))
		}
	}
	w.whys = append(w.whys, out.Whys...)
}

func (w *town) open() (open []Incident) {
	for _, i := range w.state.Incidents {
		if i.Open() {
			open = append(open, i)
		}
	}
	return open
}

// S14: an outage of 20 minutes, then clean traffic.
func TestSLO_S14(t *testing.T) {
	w := newTown(t, promise(999_500_000), time.Minute)
	for range 4 * 60 {
		w.count(1000, 0)
		w.look()
	}
	for range 20 {
		w.count(0, 1000)
		w.look()
	}
	if len(w.sent) != 1 || w.sent[0] != "opened page errors" {
		t.Fatalf("an outage made %q, want one page", w.sent)
	}
	recovered := w.now
	var tier, over time.Duration // until the 6 h rule and its 30 min window are quiet; until the incident is closed
	for range 8 * 60 {
		w.count(1000, 0)
		w.look()
		since := w.now.Sub(recovered)
		for _, p := range w.status().Firing() {
			if p.Long == 6*time.Hour {
				tier = since
			}
		}
		for _, i := range w.open() {
			if i.Class == Errors {
				over = since
			}
		}
	}
	if tier > 30*time.Minute || tier < 25*time.Minute {
		t.Errorf("the 30 min / 6 h tier was quiet after %v, want just below 30 min", tier)
	}
	if over > 30*time.Minute {
		t.Errorf("the incident was open for %v after the outage", over)
	}
	if len(w.sent) != 2 || w.sent[1] != "resolved page errors" {
		t.Errorf("in all %q, want the page and its end", w.sent)
	}
	inhibited := false
	for _, y := range w.whys {
		inhibited = inhibited || y.Outcome == "inhibited"
	}
	if !inhibited {
		t.Error("nothing says that the budget's own alert was inhibited")
	}
}

// S21: no gateway sends anything any more.
func TestSLO_S21(t *testing.T) {
	o := promise(999_500_000)
	if got := SilentAfter(o); got.Round(time.Millisecond) != 2*time.Minute+25_920*time.Millisecond {
		t.Errorf("silence counts after %v, want 2 min 25.92 s", got)
	}
	w := newTown(t, o, time.Second)
	for range 600 {
		w.count(10, 0)
	}
	w.look()
	w.until = w.now
	for range 300 {
		w.count(0, 0)
		w.look()
		if late := w.now.Sub(w.until); (len(w.sent) > 0) != (late >= 146*time.Second) {
			t.Fatalf("%v into the silence: %q", late, w.sent)
		}
	}
	if w.sent[0] != "opened page silence" || len(w.sent) != 1 {
		t.Errorf("sent %q", w.sent)
	}
	// A lax promise waits longer: the delay follows the target.
	if lax := SilentAfter(promise(990_000_000)); lax != 2*time.Minute+518_400*time.Millisecond {
		t.Errorf("at 99 %%: %v", lax)
	}
	// And it ends when they are back.
	w.until = time.Time{}
	for range 200 {
		w.count(10, 0)
		w.look()
	}
	if len(w.open()) != 0 || w.sent[len(w.sent)-1] != "resolved page silence" {
		t.Errorf("afterwards %d open, sent %q", len(w.open()), w.sent)
	}
}

// S52 and "done when 7": an hour round the target makes one freeze, and at most
// two notifications, whatever the rhythm.
func TestSLO_S52_HoveringTellsTwiceAtMost(t *testing.T) {
	for _, period := range []int{1, 2, 3, 5, 7, 10, 14} {
		w := newTown(t, promise(999_500_000), time.Minute)
		w.base = slo.Tally{}
		const n = 40_000_000
		for m := range 61 {
			// The window's SLI is the target, a millionth more, a millionth less.
			bad := int64(n / 2000)
			if m/period%2 == 0 {
				bad -= n / 1_000_000
			} else {
				bad += n / 1_000_000
			}
			w.good, w.bad = []int64{0}, []int64{0}
			w.base = slo.Tally{Good: n - bad, Bad: bad}
			// What came in last burns at about the very rate the promise allows.
			for range 72 * 60 {
				w.good = append(w.good, w.good[len(w.good)-1]+9995-int64(m%2))
				w.bad = append(w.bad, w.bad[len(w.bad)-1]+5+int64(m%2))
			}
			w.now = noon.Add(time.Duration(m) * time.Minute)
			w.base.Good -= w.good[len(w.good)-1]
			w.base.Bad -= w.bad[len(w.bad)-1]
			w.look()
		}
		if w.freezes != 1 || len(w.sent) == 0 || len(w.sent) > 2 {
			t.Errorf("hovering every %d min: %d freezes, sent %q; want one freeze and at most two", period, w.freezes, w.sent)
		}
	}
}

// A burn rate that crosses the threshold of a page every minute is one incident.
func TestHoveringRoundAPagesThreshold(t *testing.T) {
	for _, period := range []int{1, 2, 5, 9} {
		w := newTown(t, promise(999_000_000), time.Minute)
		w.base = slo.Tally{Good: 100_000_000}
		for range 6 * 60 {
			w.count(1000, 0)
		}
		for m := range 180 {
			// 1.44 % over the hour is the threshold.
			bad := int64(20)
			if m/period%2 == 1 {
				bad = 12
			}
			w.count(1000-bad, bad)
			w.look()
		}
		if len(w.sent) > 2 || len(w.sent) == 0 {
			t.Errorf("every %d min: sent %q", period, w.sent)
		}
	}
}

// U2: (a) one of three requests fails within an hour; (b) nine of ten fail, of one
// request every two seconds.
func TestUX_U2(t *testing.T) {
	t.Run("a", func(t *testing.T) {
		w := newTown(t, promise(999_000_000), time.Minute)
		w.base = slo.Tally{}
		for m := range 60 {
			good, bad := int64(0), int64(0)
			switch m {
			case 10, 20:
				good = 1
			case 58:
				bad = 1
			}
			w.count(good, bad)
			w.look()
		}
		for _, sent := range w.sent {
			if strings.Contains(sent, "page") {
				t.Errorf("sent %q for one request of three", w.sent)
			}
		}
		s := w.status()
		noted := false
		for _, n := range Look([]slo.Status{s}, w.now).Notes {
			noted = noted || strings.HasPrefix(n.Text, "too few requests (3)")
		}
		if !noted || s.Budget.Tally.Bad != 1 {
			t.Errorf("it says %+v, with %d failures spent", Look([]slo.Status{s}, w.now).Notes, s.Budget.Tally.Bad)
		}
	})
	t.Run("b", func(t *testing.T) {
		o := promise(999_000_000)
		// A guard that asks for more traffic than there is, as in the report.
		o.Terms = &slo.Terms{Guard: &slo.Guard{MinBad: 100_000}}
		w := newTown(t, o, time.Minute)
		for range 60 {
			w.count(30, 0)
			w.look()
		}
		began := w.now
		for range 6 * 60 {
			w.count(3, 27)
			w.look()
			if len(w.sent) > 0 {
				break
			}
		}
		if len(w.sent) == 0 || w.now.Sub(began) > time.Hour || !strings.HasPrefix(w.sent[0], "opened page") {
			t.Fatalf("after %v: %q, want a page within the hour", w.now.Sub(began), w.sent)
		}
		if i := w.open()[0]; i.Tier != L1 || !strings.Contains(i.Title, "failed within an hour") {
			t.Errorf("opened %s %q", i.Tier, i.Title)
		}
	})
}
