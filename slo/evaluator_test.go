package slo

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// book is a ledger in memory: minutes of one service, summed directly.
type book struct {
	objective Objective
	minutes   []Slot
	until     time.Time
	coverage  int64
	away      error
	state     State
	moves     []Level
	rolled    int
	walks     int
}

func (b *book) sum(since, until time.Time) Tally {
	var t Tally
	for _, m := range b.minutes {
		if !m.At.Before(since) && m.At.Before(until) {
			t.Good, t.Bad = t.Good+m.Valid-m.Bad, t.Bad+m.Bad
		}
	}
	return t
}

func (b *book) ReadBudgets(_ context.Context, q Question) ([]Measured, error) {
	if b.away != nil {
		return nil, b.away
	}
	o := b.objective.At(b.until.Add(time.Minute - 1).Truncate(time.Minute))
	f := o.Frame(b.until)
	sums := func(p Period) Sums { return Sums{All: b.sum(p.From, p.To)} }
	p := Counted{Objective: o, Closed: sums(f.Closed), Running: sums(f.Running)}
	for _, w := range o.Windows() {
		p.Burns = append(p.Burns, sums(f.Burn(o, w)))
	}
	m := Measured{Objective: o, Env: "prod", Seen: true, DataUntil: b.until, State: b.state}
	if q.Whole {
		m.CoveragePPM = b.coverage
		p.Hours = b.minutes
	}
	m.Parts = []Counted{p}
	return []Measured{m}, nil
}

func (b *book) ReadMinutes(context.Context, Objective, string, time.Time, time.Time) ([]Slot, error) {
	b.walks++
	return b.minutes, nil
}

func (b *book) WriteBudgets(_ context.Context, changes []Change) error {
	for _, c := range changes {
		if c.From.At.Equal(b.state.At) && c.From.Level == b.state.Level {
			b.state = c.To
			if c.Moved() {
				b.moves = append(b.moves, c.To.Level)
			}
		}
	}
	return nil
}

func (b *book) RollUp(context.Context) error { b.rolled++; return b.away }

func (b *book) add(at time.Time, valid, bad int64) {
	b.minutes = append(b.minutes, Slot{At: at.Truncate(time.Minute), For: time.Minute, Valid: valid, Bad: bad})
	b.until = at
}

func newBook(t *testing.T) *book {
	o := promise(t, "99")
	o.Window, o.Revision = time.Hour, 1
	return &book{objective: o, coverage: million}
}

func TestEvaluatorTakesAServiceIntoAFreezeAndOut(t *testing.T) {
	b := newBook(t)
	p := DefaultPolicy()
	p.Hold, p.MinFreeze = 5*time.Minute, 10*time.Minute
	e := NewEvaluator(b, Config{Policy: p})
	var thaw, thawed time.Time
	for m := range 120 {
		now := noon.Add(time.Duration(m) * time.Minute)
		bad := int64(0)
		if m == 10 {
			bad = 100
		}
		b.add(now, 100, bad)
		b.until = now.Add(time.Minute)
		if err := e.Tick(t.Context(), now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		s := e.Statuses()[0]
		if s.Level == Frozen {
			if s.ThawAt.IsZero() {
				t.Fatalf("minute %d: frozen without a thaw time", m)
			}
			thaw = s.ThawAt
		} else if !thaw.IsZero() && thawed.IsZero() {
			thawed = s.At
		}
		if s.Budget != Weigh(b.objective, b.sum(now.Add(time.Minute-time.Hour), now.Add(time.Minute))) {
			t.Fatalf("minute %d: budget is not that of the last hour", m)
		}
	}
	if want := []Level{Normal, Frozen, Normal}; !slices.Equal(b.moves, want) {
		t.Errorf("went through %v, want %v", b.moves, want)
	}
	// The bad minute has left at 71, five minutes later it thaws.
	if want := noon.Add(76 * time.Minute); !thaw.Equal(want) || !thawed.Equal(want) {
		t.Errorf("last forecast %v, thawed %v, want 76 min", thaw.Sub(noon), thawed.Sub(noon))
	}
}

func TestEvaluatorLivesOnWithTheLedgerAway(t *testing.T) {
	b := newBook(t)
	b.add(noon, 1000, 5)
	e := NewEvaluator(b, Config{})
	if err := e.Tick(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	before := e.Statuses()
	b.away = errors.New("connection refused")
	for m := range 3 {
		if err := e.Tick(t.Context(), noon.Add(time.Duration(m+1)*time.Minute)); !errors.Is(err, b.away) {
			t.Fatalf("tick without a ledger: %v", err)
		}
	}
	if h := e.Health(); !h.LastAt.Equal(noon) || !h.AwaySince.Equal(noon.Add(time.Minute)) || h.Err == "" {
		t.Errorf("health is %+v", h)
	}
	if after := e.Statuses(); len(after) != 1 || !after[0].At.Equal(before[0].At) || after[0].Budget != before[0].Budget {
		t.Errorf("the last evaluation is gone: %+v", after)
	}
	b.away = nil
	if err := e.Tick(t.Context(), noon.Add(5*time.Minute)); err != nil || !e.Health().AwaySince.IsZero() {
		t.Errorf("after the return: %v, %+v", err, e.Health())
	}
}

// Readers share an evaluation: the next one is another, and picking makes a set of one's own.
func TestStatusesStayAsTheyWereRead(t *testing.T) {
	b := newBook(t)
	b.add(noon, 1000, 5)
	e := NewEvaluator(b, Config{})
	if err := e.Tick(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	read := e.Statuses()
	was := read[0].At
	if err := e.Tick(t.Context(), noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if !read[0].At.Equal(was) || e.Statuses()[0].At.Equal(was) {
		t.Error("an evaluation was written over")
	}
	Only(read, func(*Status) bool { return true })[0].Level = Frozen
	if read[0].Level == Frozen {
		t.Error("what was picked is what others read")
	}
}

func TestEvaluatorReadsSeldomWhatIsDear(t *testing.T) {
	b := newBook(t)
	b.add(noon, 100, 50)
	b.until = noon.Add(30 * time.Second)
	e := NewEvaluator(b, Config{})
	for s := range 60 {
		if err := e.Tick(t.Context(), noon.Add(time.Duration(s)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if b.rolled != 2 || b.walks != 2 {
		t.Errorf("in a minute: rolled %d times, walked %d times, want 2 and 2", b.rolled, b.walks)
	}
	b.coverage, b.objective.Revision = 500_000, 2
	if err := e.Tick(t.Context(), noon.Add(61*time.Second)); err != nil {
		t.Fatal(err)
	}
	if s := e.Statuses()[0]; s.CoveragePPM != 500_000 || s.Measured != Unknown || s.Level != Frozen {
		t.Errorf("a changed objective is not read anew: %d ppm, %s", s.CoveragePPM, s.Measured)
	}
}

func TestSLO_S31(t *testing.T) {
	b := newBook(t)
	for m := range 30 {
		b.add(noon.Add(time.Duration(m)*time.Minute), 100, 1)
	}
	e := NewEvaluator(b, Config{})
	// Three minutes late: the last five minutes are those that end with the data.
	now := b.until.Add(3 * time.Minute)
	if err := e.Tick(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	s := e.Statuses()[0]
	if got := s.Burn(5 * time.Minute); got.Valid != 500 || !s.DataUntil.Equal(b.until) {
		t.Errorf("five minutes hold %d requests up to %v, want 500 up to the watermark", got.Valid, s.DataUntil)
	}
	// What comes two hours late is still counted where it belongs.
	b.objective.Window = 4 * time.Hour
	b.minutes = append([]Slot{{At: b.until.Truncate(time.Minute).Add(-2 * time.Hour), For: time.Minute, Valid: 7, Bad: 7}}, b.minutes...)
	if err := e.Tick(t.Context(), now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if got := e.Statuses()[0].Budget.Tally; got.Bad != 29+7 { // the minute at the watermark has not begun
		t.Errorf("with a late row %d failures are counted, want 36", got.Bad)
	}
}

func TestRunTicksEachSecondAndEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBook(t)
		b.add(time.Now(), 100, 0)
		e := NewEvaluator(b, Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second+1)
		defer cancel()
		start := time.Now()
		if err := e.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if last := e.Health().LastAt; last.Sub(start) < 9*time.Second {
			t.Errorf("last evaluation after %v, want one each second", last.Sub(start))
		}
	})
}

func TestWorst(t *testing.T) {
	at := func(id string, l Level, left int64) Status {
		return Status{Objective: Objective{ID: id}, Level: l, Budget: Budget{RemainingPPM: left}}
	}
	got, ok := Worst([]Status{at("a", Normal, 900_000), at("b", Emergency, 100_000), at("c", Unknown, 0), at("d", Emergency, 50_000)})
	if !ok || got.Objective.ID != "d" {
		t.Errorf("worst is %s, want d", got.Objective.ID)
	}
	if _, ok := Worst(nil); ok {
		t.Error("an empty set has a worst")
	}
}
