package slo

import (
	"testing"
	"time"
)

// A backtest of the very objective and policy goes through what the evaluator went
// through.
func TestBacktestAgreesWithTheEvaluator(t *testing.T) {
	b := newBook(t)
	p := DefaultPolicy()
	p.Hold, p.MinFreeze = 5*time.Minute, 10*time.Minute
	e := NewEvaluator(b, Config{Policy: p})
	from := noon
	for m := range 180 {
		now := from.Add(time.Duration(m) * time.Minute)
		bad := int64(0)
		if m == 10 || m > 100 && m < 104 {
			bad = 60
		}
		b.add(now, 100, bad)
		b.until = now.Add(time.Minute)
		if err := e.Tick(t.Context(), b.until); err != nil {
			t.Fatal(err)
		}
	}
	got := Try(b.objective, p, b.minutes, from, from.Add(3*time.Hour), time.Minute)
	moves := b.moves[1:] // the first is into normal, from nothing
	if len(got.Moves) != len(moves) || got.Freezes != 2 {
		t.Fatalf("moved %+v, want %v", got.Moves, moves)
	}
	for i, m := range got.Moves {
		if m.To != moves[i] {
			t.Errorf("move %d is into %s, want %s", i, m.To, moves[i])
		}
	}
	if got.End != func() Budget { s := e.Statuses()[0].Budget; s.Tally = got.End.Tally; return s }() {
		t.Errorf("ends with %+v, the evaluator with %+v", got.End, e.Statuses()[0].Budget)
	}
	var all time.Duration
	for _, d := range got.Levels {
		all += d
	}
	if all != 3*time.Hour || got.Bad != 240 {
		t.Errorf("levels over %v, %d bad", all, got.Bad)
	}
	// Each outage fires the one rule of an hour's window, from its first minute on.
	if len(got.Fires) != 2 || !got.Fires[0].From.Equal(from.Add(11*time.Minute)) || !got.Fires[1].From.Equal(from.Add(102*time.Minute)) || got.Fires[1].Bad != 180 {
		t.Errorf("alerts: %+v", got.Fires)
	}
	// A laxer target would not have frozen.
	lax := b.objective
	lax.TargetPPB = 900_000_000
	if got := Try(lax, p, b.minutes, from, from.Add(3*time.Hour), time.Minute); got.Freezes != 0 {
		t.Errorf("at 90 %% it freezes %d times", got.Freezes)
	}
	// By hours, rules whose short window is finer are left out, and said so.
	if got := Try(b.objective, p, b.minutes, from, from.Add(3*time.Hour), time.Hour); len(got.Skipped) != 1 || got.Skipped[0].Name != "1h" {
		t.Errorf("left out: %+v", got.Skipped)
	}
}

func TestBacktestOfTime(t *testing.T) {
	o := with(t, "90", Terms{Method: Timeslices})
	o.Window = time.Hour
	var minutes []Slot
	for m := range 120 {
		s := Slot{At: noon.Add(time.Duration(m) * time.Minute), For: time.Minute, Valid: 10}
		if m >= 60 && m < 67 {
			s.Bad = 10
		}
		if m != 30 { // one minute without traffic
			minutes = append(minutes, s)
		}
	}
	got := Try(o, DefaultPolicy(), minutes, noon.Add(time.Hour), noon.Add(2*time.Hour), time.Minute)
	if got.Freezes != 1 || got.WorstPPM != 1_166_667 || got.End.Allowed != 6 {
		t.Errorf("7 bad minutes of 60 at 90 %%: %+v", got)
	}
}

// A calendar begins anew in a backtest, too.
func TestBacktestOfACalendar(t *testing.T) {
	o := with(t, "90", Terms{Calendar: &Calendar{Unit: Day, Start: "2026-01-01 00:00:00", Zone: "UTC"}, Planned: 2880})
	midnight := noon.Add(12 * time.Hour)
	var minutes []Slot
	for m := range 48 * 60 {
		s := Slot{At: noon.Add(time.Duration(m-12*60) * time.Minute), For: time.Minute, Valid: 2}
		if s.At.Before(noon) && m%2 == 0 {
			s.Bad = 1
		}
		minutes = append(minutes, s)
	}
	p := DefaultPolicy()
	p.Hold, p.MinFreeze = time.Minute, time.Minute
	got := Try(o, p, minutes, noon.Add(-12*time.Hour), midnight.Add(12*time.Hour), time.Minute)
	if got.Freezes != 1 || len(got.Moves) == 0 {
		t.Fatalf("%+v", got)
	}
	last := got.Moves[len(got.Moves)-1]
	if last.From != Frozen || last.At.Before(midnight) || last.At.After(midnight.Add(3*time.Minute)) {
		t.Errorf("thaws at %v from %s, want with the new day", last.At, last.From)
	}
}
