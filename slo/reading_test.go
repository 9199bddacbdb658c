package slo

import (
	"context"
	"testing"
	"time"
)

func TestSLO_T7(t *testing.T) {
	member := func(id string, terms Terms) Objective {
		o := with(t, "95", terms)
		o.ID = id
		return o
	}
	hour := noon.Add(-time.Hour)
	weigh := func(o Objective, parts ...Counted) reading {
		return read(Measured{Objective: o, DataUntil: noon, Parts: parts})
	}
	// Timeslices: a slice is bad if any member's is.
	both := with(t, "90", Terms{Method: Timeslices, Indicator: Indicator{Kind: Composite}})
	both.Window = time.Hour
	a, b := member("a", Terms{Method: Timeslices}), member("b", Terms{Method: Timeslices})
	r := weigh(both,
		Counted{Objective: a, Slices: []SliceHour{{At: hour, Measured: 1<<60 - 1, Bad: 0b0011}}},
		Counted{Objective: b, Slices: []SliceHour{{At: hour, Measured: 1<<60 - 1, Bad: 0b0110}}})
	if r.slices.Bad != 3 || r.slices.Total != 60 || r.slices.Measured != 60 {
		t.Errorf("two of each, one in common: %+v, want 3 bad of 60", r.slices)
	}
	// RatioTimeslices: two members at 95 % are one at 90 %.
	both.Terms = &Terms{Method: RatioTimeslices, Indicator: Indicator{Kind: Composite}}
	share := make([]int64, 60)
	for i := range share {
		share[i] = 3_000_000 // a twentieth of a minute
	}
	a, b = member("a", Terms{Method: RatioTimeslices}), member("b", Terms{Method: RatioTimeslices})
	r = weigh(both,
		Counted{Objective: a, Slices: []SliceHour{{At: hour, Measured: 1<<60 - 1, BadUS: share}}},
		Counted{Objective: b, Slices: []SliceHour{{At: hour, Measured: 1<<60 - 1, BadUS: share}}})
	if Part(r.running.Good, r.running.Good+r.running.Bad) != 900_000 || !Met(both, r.running) {
		t.Errorf("95 %% and 95 %% make %d ppm, want 90 %%", Part(r.running.Good, r.running.Good+r.running.Bad))
	}
	if one := r.running.Bad; one != 60*6_000_000 {
		t.Errorf("bad time is %d us", one)
	}
	// Occurrences: the sum of weight times burn rate.
	all := with(t, "99", Terms{Indicator: Indicator{Kind: Composite}})
	x, y := promise(t, "99.9"), promise(t, "99")
	sums := func(bad int64) Sums { return Sums{All: Tally{Good: 10_000 - bad, Bad: bad}} }
	windows := all.Windows()
	part := func(o Objective, weight, bad int64) Counted {
		c := Counted{Objective: o, WeightPPM: weight, Running: sums(bad), Closed: sums(bad)}
		for range windows {
			c.Burns = append(c.Burns, sums(bad))
		}
		return c
	}
	r = weigh(all, part(x, 700_000, 20), part(y, 300_000, 50)) // burn 2 and 0.5
	burn := Burning(all, windows[0], r.burns[0])
	if burn.RateMilli != 1550 {
		t.Errorf("0.7 of burn 2 and 0.3 of burn 0.5 make %d, want 1550", burn.RateMilli)
	}
	if got := r.budget(); got.SpentPPM != 1_550_000 || Met(all, r.running) {
		t.Errorf("spent %d ppm, want 1.55 of the budget", got.SpentPPM)
	}
	// Exactly all of it is not too much.
	r = weigh(all, part(x, 500_000, 10), part(y, 500_000, 100))
	if got := r.budget(); got.RemainingPPM != 0 || !Met(all, r.running) {
		t.Errorf("exactly spent leaves %d ppm, met %v", got.RemainingPPM, Met(all, r.running))
	}
	// And the least bit more is: the sum is rounded up.
	more := Counted{Objective: x, WeightPPM: million, Running: Sums{All: Tally{Good: 29_970_000_000_000_000 - 1, Bad: 30_000_000_000_000 + 1}}}
	if r = weigh(all, more); Met(all, r.running) {
		t.Error("one failure too many of 3e16 is rounded away")
	}
	if got := weigh(all, part(x, 1, 0)).objective.Unit(); got != "shares" {
		t.Errorf("counted in %s", got)
	}
}

func TestSliceOf(t *testing.T) {
	o := with(t, "99", Terms{Method: Timeslices, Slice: 5 * time.Minute, SlicePPB: 950_000_000})
	minute := func(m int, valid, bad int64) MinuteCount {
		return MinuteCount{At: noon.Add(time.Duration(m) * time.Minute), Valid: valid, Bad: bad, Good: valid - bad}
	}
	got := SliceOf(o, []MinuteCount{minute(0, 100, 5), minute(7, 50, 2), minute(9, 50, 4), minute(11, 0, 0), minute(59, 1, 1), minute(61, 10, 0)})
	if len(got) != 2 || !got[1].At.Equal(noon.Add(time.Hour)) {
		t.Fatalf("hours %+v", got)
	}
	// 5 of 100 keeps 95 %, 6 of 100 does not; without requests nothing is measured.
	if got[0].Measured != 1<<0|1<<1|1<<11 || got[0].Bad != 1<<1|1<<11 || got[1].Measured != 1 || got[1].Bad != 0 {
		t.Errorf("measured %b, bad %b; %b, %b", got[0].Measured, got[0].Bad, got[1].Measured, got[1].Bad)
	}
	o.Terms.Method = RatioTimeslices
	if got := SliceOf(o, []MinuteCount{minute(0, 3, 1), minute(5, 7, 1)}); got[0].BadUS[0] != 100_000_000 || got[0].BadUS[1] != 42_857_143 {
		t.Errorf("a third and a seventh of five minutes are %v us, rounded up", got[0].BadUS[:2])
	}
}

func TestFreshness(t *testing.T) {
	o := with(t, "90", Terms{Indicator: Indicator{Kind: Freshness, Limit: 10 * time.Minute}})
	o.Window = time.Hour
	if err := o.Check(); err != nil {
		t.Fatal(err)
	}
	// Good answers until 11:20, then again in the minute of 11:40.
	hours := []SliceHour{{At: noon.Add(-time.Hour), Measured: 1<<20 - 1 | 1<<40}}
	r := read(Measured{Objective: o, DataUntil: noon, Parts: []Counted{{Objective: o, Slices: hours}}})
	// Old from 11:31 to 11:40 at whose ends more than ten minutes have gone by: 11:30
	// is exactly ten. And from 11:51 after 11:41.
	if r.slices.Bad != 10+9 || r.slices.Total != 60 {
		t.Errorf("%d of %d slices are old, want 19 of 60", r.slices.Bad, r.slices.Total)
	}
	// Before the first good answer there was nothing to grow old.
	hours = []SliceHour{{At: noon.Add(-time.Hour), Measured: 1 << 55}}
	r = read(Measured{Objective: o, DataUntil: noon, Parts: []Counted{{Objective: o, Slices: hours}}})
	if r.slices.Bad != 0 || r.slices.Measured != 5 {
		t.Errorf("%d old, %d measured, want 0 and 5", r.slices.Bad, r.slices.Measured)
	}
}

func TestSlicesStillToComeAreNotOld(t *testing.T) {
	o := with(t, "90", Terms{Indicator: Indicator{Kind: Freshness, Limit: 10 * time.Minute}, Calendar: &Calendar{Unit: Day, Start: "2026-01-01 00:00:00", Zone: "UTC"}})
	o = o.At(noon)
	hours := []SliceHour{{At: noon.Add(-time.Hour), Measured: 1 << 59}}
	r := read(Measured{Objective: o, DataUntil: noon, Parts: []Counted{{Objective: o, Slices: hours}}})
	if r.slices.Bad != 0 || r.slices.Total != 1440 {
		t.Errorf("%d of %d slices of a day are old at noon", r.slices.Bad, r.slices.Total)
	}
}

func TestSpansOfSlicesEndWithASlice(t *testing.T) {
	o := with(t, "99", Terms{Method: Timeslices, Slice: 5 * time.Minute})
	o.Window = time.Hour
	f := o.Frame(noon.Add(7*time.Minute + time.Second))
	if !f.Closed.To.Equal(noon.Add(5*time.Minute)) || !f.Running.To.Equal(noon.Add(10*time.Minute)) || !f.Running.From.Equal(noon.Add(-50*time.Minute)) {
		t.Errorf("at 12:07 closed %v, running %v, want slices of five minutes", f.Closed, f.Running)
	}
}

// Of a calendar period the slices still to come are part of the whole.
func TestSlicesOfAPeriodAreJudgedOnTheWhole(t *testing.T) {
	o := with(t, "99", Terms{Method: Timeslices, Calendar: &Calendar{Unit: Day, Start: "2026-01-01 00:00:00", Zone: "UTC"}})
	until := noon.Truncate(24 * time.Hour).Add(time.Hour)
	o = o.At(until)
	r := read(Measured{Objective: o, DataUntil: until, Parts: []Counted{{Objective: o, Slices: []SliceHour{{At: until.Add(-time.Hour), Measured: 1<<60 - 1, Bad: 0b11}}}}})
	if got := Measure(DefaultPolicy(), r.measurement(million)); got != Normal || r.budget().Allowed != 14 {
		t.Errorf("2 bad minutes in the first hour of a day that allows %d: %s, want normal", r.budget().Allowed, got)
	}
}

// Whatever second is evaluated at, three failures are three.
func TestSLO_S38(t *testing.T) {
	b := newBook(t)
	e := NewEvaluator(b, Config{Whole: 24 * time.Hour})
	b.add(noon, 1000, 3)
	for s := range 3540 {
		now := noon.Add(time.Minute + time.Duration(s)*time.Second)
		b.until = now
		if err := e.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		if got := e.Statuses()[0].Budget.Tally; got.Bad != 3 || got.Good != 997 {
			t.Fatalf("second %d: %d bad of %d, want 3 of 1000", s, got.Bad, got.Good+got.Bad)
		}
	}
}

// The forecast is that of the counts beside it, whole reading or not.
func TestEmptyAtDoesNotLagAnOutage(t *testing.T) {
	b := newBook(t)
	b.objective = promise(t, "99")
	for m := range 120 {
		b.add(noon.Add(time.Duration(m-120)*time.Minute), 1000, 0)
	}
	b.until = noon
	e := NewEvaluator(b, Config{})
	if err := e.Tick(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	if at := e.Statuses()[0].EmptyAt; !at.IsZero() {
		t.Fatalf("without failures it is empty at %v", at)
	}
	rolled := b.rolled
	var last time.Time
	for s := 1; s <= 3; s++ {
		now := noon.Add(time.Duration(s) * time.Second)
		b.minutes = b.minutes[:120]
		b.add(noon, int64(s)*350, int64(s)*350)
		b.until = now
		if err := e.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		got := e.Statuses()[0].EmptyAt
		// 350 of 60 350 in the last hour stay below one in a hundred; 700 do not, and
		// with 1050 it is empty sooner.
		if got.IsZero() != (s == 1) || s == 3 && !got.Before(last) {
			t.Errorf("%d s into an outage the budget is empty at %v, a second before at %v", s, got, last)
		}
		last = got
	}
	if b.rolled != rolled {
		t.Error("a whole reading was made: the test shows nothing")
	}
}

// emptyAt looks where something leaves and halves in between; looking at every
// minute finds the same.
func TestEmptyAtIsTheFirstMinute(t *testing.T) {
	for try := range int64(200) {
		o := promise(t, "99")
		o.Window = 24 * time.Hour
		var slots []Slot
		for h := range int64(24) {
			slots = append(slots, Slot{At: noon.Add(time.Duration(h-24) * time.Hour), For: time.Hour, Valid: 1000 + (try*h)%77, Bad: (try * (h + 3)) % 19})
		}
		pace := Pace{Valid: 1000, Bad: try % 40, Per: time.Hour}
		var want time.Time
		w := newWalk(o.Window, slots, pace, noon)
		w.scale = eventParts
		if valid, bad := w.at(noon); !Over(o.TargetPPB, bad, valid) {
			for m := 1; m <= 24*60 && want.IsZero() && pace.Bad > 0; m++ {
				at := noon.Add(time.Duration(m) * time.Minute)
				if valid, bad := w.at(at); Over(o.TargetPPB, bad, valid) {
					want = at
				}
			}
		}
		if got := EmptyAt(o, slots, pace, noon); !got.Equal(want) {
			t.Fatalf("try %d: %v, want %v", try, EmptyAt(o, slots, pace, noon), want)
		}
	}
}

// An objective on time goes through the same machine.
func TestEvaluatorWeighsTime(t *testing.T) {
	o := with(t, "90", Terms{Method: Timeslices})
	o.Window = time.Hour
	hours := []SliceHour{{At: noon.Add(-time.Hour), Measured: 1<<60 - 1, Bad: 1<<7 - 1}}
	b := &timeBook{book: book{objective: o, coverage: million, until: noon}, hours: hours}
	e := NewEvaluator(b, Config{})
	if err := e.Tick(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	s := e.Statuses()[0]
	if s.Level != Frozen || s.Budget.Slices.Bad != 7 || s.Budget.Allowed != 6 || s.Objective.Amount(s.Budget.Remaining) != "−1" {
		t.Errorf("%s, %+v", s.Level, s.Budget)
	}
	// Five may be bad for a tenth of the budget to be back: the second leaves at 12:02.
	if want := noon.Add(DefaultPolicy().MinFreeze); !s.ThawAt.Equal(want) {
		t.Errorf("thaws at %v, want %v", s.ThawAt, want)
	}
	if s.FirstTry.Valid != 0 || s.Burn(5*time.Minute).Bad != 0 || s.Burn(time.Hour).Bad != 7 {
		t.Errorf("burns %+v", s.Burns)
	}
}

type timeBook struct {
	book
	hours []SliceHour
}

func (b *timeBook) ReadBudgets(ctx context.Context, q Question) ([]Measured, error) {
	m, err := b.book.ReadBudgets(ctx, q)
	m[0].Parts = []Counted{{Objective: b.objective, Slices: b.hours}}
	return m, err
}
