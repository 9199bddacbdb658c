package slo

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSLO_T15(t *testing.T) {
	o := promise(t, "99.95")
	// Two million in 720 hours, 800 of them bad: 500 in the 12 hours that leave
	// first, the other 300 in the last one.
	var slots []Slot
	for h := range 720 {
		s := Slot{At: noon.Add(time.Duration(h-720) * time.Hour), For: time.Hour, Valid: 2777}
		if h%9 < 7 {
			s.Valid++ // 720 * 2777 + 560 = 2 000 000
		}
		if h < 12 {
			s.Bad = 41
			if h < 8 {
				s.Bad++ // 500
			}
		}
		if h == 719 {
			s.Bad = 300
		}
		slots = append(slots, s)
	}
	pace := Pace{Valid: 2_000_000, Bad: 2000, Per: month} // burn 2
	if b := Burning(o, month, Tally{Good: pace.Valid - pace.Bad, Bad: pace.Bad}); b.RateMilli != 2000 {
		t.Fatalf("burn is %d", b.RateMilli)
	}
	want := 252 * time.Hour // 10.5 days
	if got := EmptyAt(o, slots, pace, noon).Sub(noon); got < want-2*time.Hour || got > want+2*time.Hour {
		t.Errorf("empty after %v, want %v", got, want)
	}
	if at := EmptyAt(o, slots, Pace{Valid: 2_000_000, Per: month}, noon); !at.IsZero() {
		t.Errorf("without failures it is empty at %v, want never", at)
	}

	// The same walk without new failures gives the thaw. 500 more failures 13 hours
	// old make it a freeze: 1300 of 1000; it ends once at most 900 are left.
	slots[12].Bad = 500
	s := State{Level: Frozen, FrozenAt: noon}
	p := DefaultPolicy()
	pace.Bad = 0
	thaw := ThawAt(p, o, s, slots, pace, noon)
	// 400 have left with the tenth hour, at 10:00: 10 * 41 + 8 = 418; with nine 377.
	if want := noon.Add(10*time.Hour + p.Hold); !thaw.Equal(want) {
		t.Errorf("thaws at %v, want %v", thaw, want)
	}
}

// The forecast and the machine agree to the minute: what ThawAt says is when
// Next thaws, whatever the failures were and whatever they looked like on the way.
func TestThawAtIsWhenTheMachineThaws(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for try := range 40 {
		o := promise(t, "99")
		o.Window = 6 * time.Hour
		p := Policy{WarnPPM: 400_000, WarnLeavePPM: 300_000, EmergencyPPM: 800_000, EmergencyLeavePPM: 700_000,
			ThawPPM: 100_000, Hold: 20 * time.Minute, MinFreeze: time.Hour, CoveragePPM: 900_000}
		var slots []Slot
		for m := range 360 {
			s := Slot{At: noon.Add(time.Duration(m-360) * time.Minute), For: time.Minute, Valid: rng.Int64N(20)}
			s.Bad = min(rng.Int64N(1+int64(m%97/90)*8), s.Valid)
			slots = append(slots, s)
		}
		m := machine{policy: p, now: noon}
		at := func(now time.Time) Measurement {
			w := newWalk(o.Window, slots, Pace{}, noon)
			valid, bad := w.at(now)
			// One good request a minute keeps data flowing.
			came := int64(now.Sub(noon) / time.Minute)
			tally := Tally{Good: valid - bad + came, Bad: bad}
			return Measurement{TargetPPB: o.TargetPPB, Closed: tally, Running: tally, CoveragePPM: million}
		}
		m.see(at(noon), 0)
		if m.state.Level != Frozen {
			continue
		}
		want := ThawAt(p, o, m.state, slots, Pace{Valid: 1, Per: time.Minute}, noon)
		for m.state.Level == Frozen && m.now.Before(noon.Add(24*time.Hour)) {
			m.see(at(m.now.Add(time.Minute)), time.Minute)
		}
		if !m.now.Equal(want) {
			t.Fatalf("try %d: forecast %v, thawed %v", try, want.Sub(noon), m.now.Sub(noon))
		}
	}
}

func TestThawNeedsTraffic(t *testing.T) {
	o := promise(t, "99.95")
	slots := []Slot{{At: noon.Add(-time.Hour), For: time.Minute, Valid: 10, Bad: 10}}
	if at := ThawAt(DefaultPolicy(), o, State{Level: Frozen, FrozenAt: noon}, slots, Pace{}, noon); !at.IsZero() {
		t.Errorf("without any traffic it thaws at %v, want never", at)
	}
	pace := Pace{Valid: 100, Per: time.Minute}
	at := ThawAt(DefaultPolicy(), o, State{Level: Frozen, FrozenAt: noon}, slots, pace, noon)
	// 10 failures weigh 90 % at 22 223 requests: 223 minutes of traffic, then the hold.
	if want := noon.Add(223*time.Minute + time.Hour); !at.Equal(want) {
		t.Errorf("traffic dilutes it at %v, want %v", at, want)
	}
}

func TestThawCountsSecondsWhenThePolicyDoes(t *testing.T) {
	o := promise(t, "99")
	p := DefaultPolicy()
	p.Hold, p.MinFreeze = 5*time.Second, 20*time.Second
	s := State{Level: Frozen, FrozenAt: noon, GoodSince: noon.Add(2 * time.Second)}
	slots := []Slot{{At: noon.Add(-time.Minute), For: time.Minute, Valid: 1000, Bad: 1}}
	if at := ThawAt(p, o, s, slots, Pace{}, noon.Add(3*time.Second)); !at.Equal(noon.Add(20 * time.Second)) {
		t.Errorf("thaws after %v, want 20 s", at.Sub(noon))
	}
}

func TestSparkHasAnHourAPoint(t *testing.T) {
	o := promise(t, "99.9")
	until := noon.Add(30 * time.Minute)
	got := spark(o, []Slot{
		{At: noon, For: time.Hour, Valid: 1000, Bad: 1},
		{At: noon.Add(-23 * time.Hour), For: time.Hour, Valid: 1000, Bad: 2},
		{At: noon.Add(-24 * time.Hour), For: time.Hour, Valid: 1000, Bad: 9},
	}, until)
	if len(got) != 24 || got[23] != 1000 || got[0] != 2000 || got[12] != -1 {
		t.Errorf("spark is %v", got)
	}
}
