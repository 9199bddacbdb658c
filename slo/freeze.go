package slo

import (
	"fmt"
	"time"
)

// Policy is when a level is entered and left. Durations are fields, not
// constants, so that a demonstration can live through a freeze in a minute.
type Policy struct {
	// Spent from which a level is entered, and below which it is left again. The
	// gap keeps a service that hovers at a line from flapping.
	WarnPPM, WarnLeavePPM           int64
	EmergencyPPM, EmergencyLeavePPM int64
	// A freeze begins above 100 % spent. It ends when ThawPPM of the budget has
	// been left at every evaluation for Hold, and MinFreeze has passed.
	ThawPPM   int64
	Hold      time.Duration
	MinFreeze time.Duration
	// CoveragePPM is the share of gateway-minutes below which nothing is known.
	CoveragePPM int64
}

// DefaultPolicy is the freeze of a service that has none of its own.
func DefaultPolicy() Policy {
	return Policy{
		WarnPPM: 400_000, WarnLeavePPM: 300_000,
		EmergencyPPM: 800_000, EmergencyLeavePPM: 700_000,
		ThawPPM: 100_000, Hold: time.Hour, MinFreeze: 4 * time.Hour,
		CoveragePPM: 900_000,
	}
}

// State is what the freeze machine remembers between evaluations.
type State struct {
	Level     Level
	Since     time.Time // Level was entered
	FrozenAt  time.Time // this freeze began; zero: not frozen
	GoodSince time.Time // enough budget has been left since; zero: it is not now
	At        time.Time // last evaluation
	Measured  Level
	Reason    string // why Level, from the evaluation that last moved or measured it
}

// Measurement is what one evaluation saw. Closed counts whole minutes, Running
// also the part of the last one: it may worsen a state, never improve it.
type Measurement struct {
	TargetPPB       int64
	Closed, Running Tally
	CoveragePPM     int64
	Sample          Sample // how sure Running is
}

// worst returns whichever of Closed and Running has spent more of its budget.
func (m Measurement) worst() Tally {
	r, c := m.Running, m.Closed
	// bad/valid compared crosswise; no valid event is the least bad of all.
	switch {
	case c.Good+c.Bad == 0:
		return r
	case r.Good+r.Bad == 0:
		return c
	case compare(r.Bad, c.Good+c.Bad, c.Bad, r.Good+r.Bad) >= 0:
		return r
	}
	return c
}

// spent reports whether the measurement has spent at least ppm of the budget.
func (m Measurement) spent(ppm int64) bool {
	t := m.worst()
	return SpentAtLeast(m.TargetPPB, t.Bad, t.Good+t.Bad, ppm)
}

// Measure is the level that the figures alone say, without memory.
func Measure(p Policy, m Measurement) Level {
	t := m.worst()
	switch {
	case p.Blind(m) != "":
		return Unknown
	case Over(m.TargetPPB, t.Bad, t.Good+t.Bad):
		return Frozen
	case m.spent(p.EmergencyPPM):
		return Emergency
	case m.spent(p.WarnPPM):
		return Warn
	}
	return Normal
}

// LevelOf is the level that a budget alone says, under the default policy and with
// everything reported: for looking back, not for deciding.
func LevelOf(o Objective, b Budget) Level {
	t := b.Tally
	if b.Base > b.Valid {
		t.Good = b.Base - t.Bad
	}
	return Measure(DefaultPolicy(), Measurement{TargetPPB: o.TargetPPB, Closed: t, Running: t, CoveragePPM: million})
}

// Blind says why nothing can be concluded from m: no_data, low_coverage, or
// undetermined where the counts are estimates too coarse to tell whether the
// promise is kept. "": something can.
func (p Policy) Blind(m Measurement) string {
	t := m.worst()
	switch {
	case t.Good+t.Bad == 0:
		return "no_data"
	case m.CoveragePPM < p.CoveragePPM:
		return "low_coverage"
	case m.Sample.Undetermined(m.TargetPPB, t.Good, t.Bad):
		return "undetermined"
	}
	return ""
}

// Next is the freeze state machine: the state in force after m was seen at now.
func Next(p Policy, prev State, m Measurement, now time.Time) State {
	s := p.next(prev, m, now)
	s.Reason = p.reason(s, m)
	return s
}

// reason is why the state in force is s.
func (p Policy) reason(s State, m Measurement) string {
	if s.Measured == Unknown {
		return whyUnknown(p, s.Level, m)
	}
	return p.why(s, m)
}

// next is Next without its words, which a replay of a month needs a few times.
func (p Policy) next(prev State, m Measurement, now time.Time) State {
	s := prev
	s.At, s.Measured = now, Measure(p, m)
	if s.Level == "" {
		s.Level, s.Since = Unknown, now
	}
	if s.Measured == Unknown {
		// Missing data neither freezes nor thaws. It does not count toward the
		// hold of a thaw either: the clock stands still while nothing is seen.
		if !s.GoodSince.IsZero() && !prev.At.IsZero() && now.After(prev.At) {
			s.GoodSince = s.GoodSince.Add(now.Sub(prev.At))
		}
		return s
	}
	level := p.settle(&s, m, now)
	if level != s.Level {
		s.Level, s.Since = level, now
		s.FrozenAt, s.GoodSince = time.Time{}, time.Time{}
		if level == Frozen {
			s.FrozenAt = now
		}
	}
	return s
}

// settle applies hysteresis: what is measured, unless the level in force holds.
func (p Policy) settle(s *State, m Measurement, now time.Time) Level {
	switch s.Level {
	case Frozen:
		if m.spent(million - p.ThawPPM + 1) {
			s.GoodSince = time.Time{}
			return Frozen
		}
		if s.GoodSince.IsZero() {
			s.GoodSince = now
		}
		if now.Sub(s.GoodSince) < p.Hold || now.Sub(s.FrozenAt) < p.MinFreeze {
			return Frozen
		}
		return s.Measured
	case Emergency:
		if s.Measured != Frozen && m.spent(p.EmergencyLeavePPM) {
			return Emergency
		}
	case Warn:
		if s.Measured == Normal && m.spent(p.WarnLeavePPM) {
			return Warn
		}
	}
	// Left emergency, yet not below the line where warn would be left.
	if s.Level == Emergency && s.Measured == Normal && m.spent(p.WarnLeavePPM) {
		return Warn
	}
	return s.Measured
}

func (p Policy) why(s State, m Measurement) string {
	t := m.worst()
	b := weigh(m.TargetPPB, t.Good, t.Bad, t, 0)
	spent := SpentPercent(b.SpentPPM) + " of the error budget is spent"
	switch {
	case s.Level == Frozen && s.Measured == Frozen:
		return fmt.Sprintf("%s: %s failed, %s were allowed.", spent, Count(t.Bad), Count(b.Allowed))
	case s.Level == Frozen && s.GoodSince.IsZero():
		return fmt.Sprintf("%s; a freeze ends only when %s is left.", spent, Percent(p.ThawPPM))
	case s.Level == Frozen:
		return fmt.Sprintf("%s; enough is left since %s, and must stay so for %s, at least %s after the freeze began.",
			spent, Clock(s.GoodSince), Span(p.Hold), Span(p.MinFreeze))
	case s.Level != s.Measured && s.Level == Emergency:
		return fmt.Sprintf("%s; emergency is left below %s.", spent, Percent(p.EmergencyLeavePPM))
	case s.Level != s.Measured && s.Level == Warn:
		return fmt.Sprintf("%s; warn is left below %s.", spent, Percent(p.WarnLeavePPM))
	case s.Level == Emergency:
		return fmt.Sprintf("%s; emergency begins at %s.", spent, Percent(p.EmergencyPPM))
	case s.Level == Warn:
		return fmt.Sprintf("%s; warn begins at %s.", spent, Percent(p.WarnPPM))
	}
	return spent + "."
}

func whyUnknown(p Policy, held Level, m Measurement) string {
	why := "No request has been counted in the window"
	switch p.Blind(m) {
	case "undetermined":
		t := m.worst()
		why = fmt.Sprintf("The counts are estimated from %s sampled lines, and %s failed of %s may be on either side of %s",
			Count(m.Sample.Lines), Count(t.Bad), Count(t.Good+t.Bad), Target(m.TargetPPB))
	case "low_coverage":
		why = fmt.Sprintf("Only %s of the gateway-minutes were reported, %s are needed", Percent(m.CoveragePPM), Percent(p.CoveragePPM))
	}
	if held == Unknown {
		return why + "."
	}
	return fmt.Sprintf("%s; %s is held.", why, held)
}
