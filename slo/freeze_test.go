package slo

import (
	"slices"
	"testing"
	"time"
)

// noon is where tests begin.
var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// spend is a measurement with c of the budget spent, in ppm of it.
func spend(c int64) Measurement {
	t := Tally{Good: 2_000_000_000 - c, Bad: c} // 99.95 %: a million failures allowed
	return Measurement{TargetPPB: 999_500_000, Closed: t, Running: t, CoveragePPM: million}
}

func blind() Measurement {
	m := spend(0)
	m.CoveragePPM = 899_999
	return m
}

// machine runs Next and remembers every level it entered.
type machine struct {
	policy Policy
	state  State
	now    time.Time
	path   []Level
}

func (m *machine) see(x Measurement, after time.Duration) Level {
	m.now = m.now.Add(after)
	m.state = Next(m.policy, m.state, x, m.now)
	if len(m.path) == 0 || m.path[len(m.path)-1] != m.state.Level {
		m.path = append(m.path, m.state.Level)
	}
	return m.state.Level
}

func newMachine() *machine { return &machine{policy: DefaultPolicy(), now: noon} }

func TestSLO_T31(t *testing.T) {
	m := newMachine()
	steps := []struct {
		c     int64
		after time.Duration
		want  Level
	}{
		{990_000, 0, Emergency},
		{1_001_000, time.Minute, Frozen},
		{999_000, time.Minute, Frozen},
		{1_002_000, time.Minute, Frozen},
		{950_000, time.Minute, Frozen},
		{890_000, 4 * time.Hour, Frozen}, // enough is back, but only just now
		{890_000, 59 * time.Minute, Frozen},
		{890_000, time.Minute, Emergency},
	}
	for i, s := range steps {
		if got := m.see(spend(s.c), s.after); got != s.want {
			t.Fatalf("step %d, c = %d ppm: %s, want %s", i, s.c, got, s.want)
		}
	}
	if want := []Level{Emergency, Frozen, Emergency}; !slices.Equal(m.path, want) {
		t.Errorf("went through %v, want %v", m.path, want)
	}
	if m.state.Reason == "" || !m.state.FrozenAt.IsZero() || !m.state.GoodSince.IsZero() {
		t.Errorf("after the thaw: %+v", m.state)
	}
}

func TestSLO_T32(t *testing.T) {
	m := newMachine()
	m.see(spend(1_100_000), 0)
	for range 180 {
		if got := m.see(blind(), time.Minute); got != Frozen || m.state.Measured != Unknown {
			t.Fatalf("%v into missing data: %s (measured %s), want frozen held", m.now.Sub(noon), got, m.state.Measured)
		}
	}
}

func TestHoldStandsStillWhileNothingIsSeen(t *testing.T) {
	m := newMachine()
	m.see(spend(1_100_000), 0)
	m.see(spend(500_000), 5*time.Hour)
	m.see(blind(), 30*time.Minute) // pauses for these 30 minutes
	if got := m.see(spend(500_000), 59*time.Minute); got != Frozen {
		t.Errorf("59 minutes of data: %s, want frozen", got)
	}
	if got := m.see(spend(500_000), time.Minute); got != Warn {
		t.Errorf("60 minutes of data: %s, want warn", got)
	}
}

func TestUnknownWithNothingHeld(t *testing.T) {
	m := newMachine()
	if got := m.see(blind(), 0); got != Unknown {
		t.Errorf("first look at missing data: %s, want unknown", got)
	}
	if got := m.see(spend(500_000), time.Minute); got != Warn {
		t.Errorf("then data: %s, want warn", got)
	}
	if got := m.see(blind(), time.Minute); got != Warn {
		t.Errorf("then none again: %s, want warn held", got)
	}
}

func TestHysteresis(t *testing.T) {
	tests := []struct {
		name string
		c    []int64
		want []Level
	}{
		{"warn holds down to 30 %", []int64{400_000, 399_999, 300_000, 299_999}, []Level{Warn, Normal}},
		{"emergency holds down to 70 %, then it is warn", []int64{800_000, 799_999, 700_000, 699_999}, []Level{Emergency, Warn}},
		{"emergency to between the lines of warn is warn", []int64{800_000, 350_000, 299_999}, []Level{Emergency, Warn, Normal}},
		{"emergency to nothing is normal", []int64{800_000, 100_000}, []Level{Emergency, Normal}},
		{"warn rises at once", []int64{400_000, 800_000, 1_000_001}, []Level{Warn, Emergency, Frozen}},
		{"all of the budget is not more than it", []int64{1_000_000}, []Level{Emergency}},
	}
	for _, tt := range tests {
		m := newMachine()
		for _, c := range tt.c {
			m.see(spend(c), time.Minute)
		}
		if !slices.Equal(m.path, tt.want) {
			t.Errorf("%s: went through %v, want %v", tt.name, m.path, tt.want)
		}
	}
}

func TestOnlyTooLittleBudgetRestartsTheHold(t *testing.T) {
	m := newMachine()
	m.see(spend(1_100_000), 0)
	m.see(spend(900_000), 4*time.Hour) // exactly a tenth is left: enough
	m.see(spend(900_001), 59*time.Minute)
	if !m.state.GoodSince.IsZero() {
		t.Error("less than a tenth left did not restart the hold")
	}
	m.see(spend(850_000), time.Minute)
	if got := m.see(spend(900_000), 59*time.Minute); got != Frozen {
		t.Errorf("59 minutes after the restart: %s, want frozen", got)
	}
	if got := m.see(spend(200_000), time.Minute); got != Normal {
		t.Errorf("60 minutes after the restart: %s, want what is measured, normal", got)
	}
}

func TestAPartialMinuteOnlyWorsens(t *testing.T) {
	bad, good := spend(1_100_000), spend(100_000)
	mix := func(closed, running Measurement) Measurement {
		return Measurement{TargetPPB: closed.TargetPPB, Closed: closed.Closed, Running: running.Running, CoveragePPM: million}
	}
	if got := Measure(DefaultPolicy(), mix(good, bad)); got != Frozen {
		t.Errorf("a bad running minute: %s, want frozen", got)
	}
	if got := Measure(DefaultPolicy(), mix(bad, good)); got != Frozen {
		t.Errorf("a good running minute: %s, want frozen until it closes", got)
	}
	if got := Measure(DefaultPolicy(), mix(Measurement{TargetPPB: 999_500_000}, good)); got != Normal {
		t.Errorf("the first minute of all: %s, want normal", got)
	}
}

func TestSLO_S52(t *testing.T) {
	m := newMachine()
	for i := range 60 {
		c := int64(999_999)
		if i%2 == 1 {
			c = 1_000_001
		}
		m.see(spend(c), time.Minute)
	}
	if want := []Level{Emergency, Frozen}; !slices.Equal(m.path, want) {
		t.Errorf("hovering at the limit went through %v, want one freeze", m.path)
	}
}

// Whatever is seen, a freeze lasts its minimum, missing data moves nothing, and
// a level is never milder than hysteresis permits.
func FuzzNext(f *testing.F) {
	f.Add([]byte{200, 10, 255, 10, 10, 10, 0})
	f.Fuzz(func(t *testing.T, seen []byte) {
		m := newMachine()
		for _, b := range seen {
			x := spend(int64(b) * 5000) // up to 127.5 %
			if b == 255 {
				x = blind()
			}
			before := m.state
			m.see(x, 17*time.Minute)
			if b == 255 && before.Level != "" && m.state.Level != before.Level {
				t.Fatalf("missing data moved %s to %s", before.Level, m.state.Level)
			}
			if before.Level == Frozen && m.state.Level != Frozen && m.now.Sub(before.FrozenAt) < m.policy.MinFreeze {
				t.Fatalf("thawed after %v", m.now.Sub(before.FrozenAt))
			}
			if b != 255 && Rank(m.state.Level) < Rank(m.state.Measured) {
				t.Fatalf("%s in force while %s is measured", m.state.Level, m.state.Measured)
			}
			if m.state.Level == Frozen && m.state.FrozenAt.IsZero() {
				t.Fatal("frozen since never")
			}
		}
	})
}
