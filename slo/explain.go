package slo

import (
	"fmt"
	"strings"
	"time"
)

// Line explains one number: what it is, its value as shown everywhere, and the
// formula with the very integers that went in.
type Line struct {
	ID      string // closed set: sli, allowed, spent, remaining, burn_1h, coverage ...
	Label   string
	Value   string
	Formula string
	Meaning string
}

// Unit is what o's budget counts: requests, slices, time, or shares of members.
func (o Objective) Unit() string {
	switch t := o.terms(); {
	case t.Method == RatioTimeslices:
		return "time"
	case t.Method == Timeslices:
		return "slices"
	case t.Indicator.Kind == Composite:
		return "shares"
	}
	return "requests"
}

// Amount writes n of o's unit.
func (o Objective) Amount(n int64) string {
	if o.Unit() == "time" {
		return Span(time.Duration(n) * time.Microsecond)
	}
	return Count(n)
}

// Promise says in words what o counts as good.
func (o Objective) Promise() string {
	t := o.terms()
	var of string
	switch t.Indicator.Kind {
	case Latency:
		of = "requests that were answered within " + Span(t.Indicator.Limit)
		if q := t.Indicator.QuantilePPB; q > 0 {
			of += fmt.Sprintf(" (P%s within it is the same promise)", TargetPercent(q))
		}
	case DepTimeout:
		of = "requests without a timeout of a dependency"
	case RatioOf:
		of = fmt.Sprintf("%s without %s", listed(t.Indicator.Total), listed(t.Indicator.Bad))
	case Freshness:
		return fmt.Sprintf("Slices of %s at whose end the last good answer is at most %s old.", Span(t.Slice), Span(t.Indicator.Limit))
	case Composite:
		var parts []string
		for _, m := range t.Indicator.Members {
			part := m.Objective
			if t.Method == Occurrences {
				part += " × " + Ratio(m.WeightPPM)
			}
			parts = append(parts, part)
		}
		of = "what its parts promise: " + strings.Join(parts, ", ")
	default:
		of = "valid requests that were good"
	}
	switch t.Method {
	case Timeslices:
		return fmt.Sprintf("Slices of %s with at least %s of %s.", Span(t.Slice), Target(t.SlicePPB), of)
	case RatioTimeslices:
		return fmt.Sprintf("Time, each slice of %s weighed by its share of %s.", Span(t.Slice), of)
	}
	return "Share of " + of + "."
}

func listed(counters []Counter) string {
	names := make([]string, len(counters))
	for i, c := range counters {
		names[i] = string(c)
	}
	return strings.Join(names, " + ")
}

// window says over what s is weighed.
func (s Status) window() string {
	o := s.Objective
	if c := o.terms().Calendar; c != nil {
		zone, err := time.LoadLocation(c.Zone)
		if err != nil {
			zone = time.UTC
		}
		form := "2 Jan 2006 15:04 MST"
		return fmt.Sprintf("%s to %s, counted up to %s", s.From.In(zone).Format(form), s.To.In(zone).Format(form), Clock(s.DataUntil))
	}
	span := fmt.Sprintf("%s up to %s", Span(o.Window), Clock(s.DataUntil))
	if !o.Counted.IsZero() && o.Counted.After(s.DataUntil.Add(-o.Window)) {
		span += ", counted since " + Clock(o.Counted)
	}
	return span
}

// Explain tells how each number of s was made.
func (s Status) Explain() []Line {
	b, o := s.Budget, s.Objective
	span, unit := s.window(), o.Unit()
	room := whole - o.TargetPPB
	if b.NoData {
		return []Line{
			{"sli", "Good " + unit, "no data", "good + bad = 0 in " + span, "No valid request was counted: there is nothing to judge, and nothing is assumed."},
			s.explainCoverage(),
		}
	}
	base := "(good + bad)"
	if b.Base != b.Valid {
		base = "period"
	}
	lines := []Line{
		{"sli", "Good " + unit, Share(b.Tally.Good, b.Valid),
			fmt.Sprintf("good / (good + bad) = %s / (%s + %s)", o.Amount(b.Tally.Good), o.Amount(b.Tally.Good), o.Amount(b.Tally.Bad)),
			s.meaning(span)},
		{"target", "Target", Target(o.TargetPPB), fmt.Sprintf("kept while good × 10⁹ ≥ %s × (good + bad)", Count(o.TargetPPB)),
			"What was promised."},
		{"allowed", "Allowed failures", o.Amount(b.Allowed),
			fmt.Sprintf("⌊(10⁹ − %s) × %s / 10⁹⌋ = ⌊%s × %s / 10⁹⌋", Count(o.TargetPPB), o.Amount(b.Base), Count(room), o.Amount(b.Base)),
			"So many of the valid " + unit + " may fail before the promise is broken."},
		{"remaining_events", "Failures left", o.Amount(b.Remaining),
			fmt.Sprintf("allowed − bad = %s − %s", o.Amount(b.Allowed), o.Amount(b.Tally.Bad)), "Below zero the promise is broken."},
		{"spent", "Budget spent", SpentPercent(b.SpentPPM),
			fmt.Sprintf("bad × 10⁹ / (%s × %s) = %s × 10⁹ / (%s × %s)", Count(room), base, o.Amount(b.Tally.Bad), Count(room), o.Amount(b.Base)),
			"Share of the error budget that is gone."},
		{"remaining", "Budget left", Percent(b.RemainingPPM), fmt.Sprintf("1 − spent = 1 − %s", SpentPercent(b.SpentPPM)), "Never shown fuller than it is: what is spent is rounded up, what is left down."},
	}
	lines = append(lines, s.explainTerms()...)
	for _, w := range BurnWindows() {
		lines = append(lines, s.explainBurn(w, room))
	}
	lines = append(lines, s.explainRules()...)
	lines = append(lines, s.explainCoverage())
	if !s.ThawAt.IsZero() {
		lines = append(lines, Line{"thaw", "Thaws", Clock(s.ThawAt),
			"the window walked forward minute by minute: counted minutes leave it, good traffic enters at the pace of the last day",
			"The end of the freeze if nothing fails until then."})
	}
	if !s.EmptyAt.IsZero() {
		lines = append(lines, Line{"empty", "Budget empty", Clock(s.EmptyAt),
			fmt.Sprintf("the window walked forward: old failures leave it, new ones enter as in the last %s", Span(time.Hour)),
			"When the promise breaks if the last hour goes on."})
	}
	return append(lines, Line{"level", "State", string(s.Level), "measured " + string(s.Measured) + ", in force " + string(s.Level), s.Reason})
}

func (s Status) meaning(span string) string {
	if s.Objective.Terms == nil {
		return fmt.Sprintf("Share of valid requests that were good, %s. %s more were neutral and count for neither.", span, Count(s.Budget.Tally.Neutral))
	}
	return s.Objective.Promise() + " " + span + "."
}

// explainTerms are the lines that only some objectives have.
func (s Status) explainTerms() []Line {
	var lines []Line
	b, o, t := s.Budget, s.Objective, s.Objective.terms()
	if t.Calendar != nil && !o.Sliced() {
		how := "planned for the period"
		if b.IsEstimate {
			how = fmt.Sprintf("⌊%s × period / elapsed⌋, an estimate: the rest of the period is taken to go on as it did", o.Amount(b.Valid))
		}
		lines = append(lines,
			Line{"period_events", "Requests of the period", o.Amount(b.Base), how, "What the budget of the period is reckoned on."},
			Line{"so_far", "Budget left so far", Percent(b.SoFarPPM), fmt.Sprintf("1 − bad × 10⁹ / (%s × (good + bad)), %s allowed so far", Count(whole-o.TargetPPB), o.Amount(b.SoFar)),
				"The budget of the counted part alone. It grows back as traffic comes; nothing is decided on it."})
	}
	if o.Sliced() {
		lines = append(lines, Line{"slices", "Slices measured", Count(b.Slices.Measured), fmt.Sprintf("%s of %s, %s without traffic", Count(b.Slices.Measured), Count(b.Slices.Total), Count(b.Slices.Unmeasured())),
			"A slice without traffic is good by absence; the whole window stays the denominator."})
	}
	if t.Indicator.Kind == Availability && !o.Sliced() {
		spared := "Users felt these too, so they are part of what is spent."
		if b.ChaosSpared > 0 {
			spared = fmt.Sprintf("%s of them are spared by mode %s.", Count(b.ChaosSpared), t.Chaos)
		}
		lines = append(lines, Line{"chaos", "Spent by experiments", SpentPercent(SpentBy(o.TargetPPB, b.Tally.ChaosBad, b.Base)),
			fmt.Sprintf("%s of the %s bad requests carry an experiment", Count(b.Tally.ChaosBad), Count(b.Tally.Bad+b.ChaosSpared)), spared})
	}
	if !s.FirstTry.NoData && s.FirstTry.Valid > 0 {
		lines = append(lines, Line{"first_try", "Good at the first try", Share(s.FirstTry.Tally.Good, s.FirstTry.Valid),
			fmt.Sprintf("(good + bad − first tries that failed) / (good + bad) = (%s − %s) / %s", Count(s.FirstTry.Valid), Count(s.FirstTry.Tally.Bad), Count(s.FirstTry.Valid)),
			"What clients would have seen without retries; the distance is what retries hide."})
	}
	if t.Indicator.Kind == DepTimeout {
		lines = append(lines, Line{"dep_mean", "Timeouts a request", Ratio(ratio(b.Tally.DepCalls, b.Valid, million)),
			fmt.Sprintf("timeouts / (good + bad) = %s / %s", Count(b.Tally.DepCalls), Count(b.Valid)), "Some requests wait for several."})
	}
	for _, c := range s.Corrections {
		lines = append(lines, Line{"correction", "Corrected", string(c.Mode), fmt.Sprintf("%s to %s, %s", Clock(c.From), Clock(c.To), c.ID), fmt.Sprintf("%s, by %s.", c.Reason, c.Author)})
	}
	return lines
}

func (s Status) explainBurn(w time.Duration, room int64) Line {
	o, burn := s.Objective, s.Burn(w)
	l := Line{ID: "burn_" + Window(w), Label: "Burn rate, " + Span(w), Value: Rate(burn),
		Formula: "good + bad = 0", Meaning: "No valid request in this span."}
	if burn.NoData {
		return l
	}
	l.Formula = fmt.Sprintf("(bad / valid) / (1 − target) = (%s / %s) / (%s / 10⁹)", o.Amount(burn.Bad), o.Amount(burn.Valid), Count(room))
	l.Meaning = fmt.Sprintf("At 1× a full budget lasts exactly %s", Span(o.Window))
	if left := Exhausts(o, burn.RateMilli); left > 0 {
		l.Meaning += fmt.Sprintf("; at this pace %s", Span(left))
	}
	l.Meaning += "."
	if burn.SpentPPM > 0 {
		l.Meaning += fmt.Sprintf(" It spent %s of the whole budget.", Percent(burn.SpentPPM))
	}
	return l
}

// explainRules says which burn rules fire, which the guard keeps quiet, and which
// ask for less than the table; of the others there is nothing to tell.
func (s Status) explainRules() []Line {
	var lines []Line
	o := s.Objective
	firing := map[string]bool{}
	for _, p := range s.Firing() {
		firing[p.Name] = true
	}
	for _, p := range o.Rules() {
		long := s.Burn(p.Long)
		value, why := "quiet", p.Reason+"."
		switch {
		case firing[p.Name]:
			value = "fires"
		case !long.NoData && p.Exceeds(o, long.Bad, long.Valid) && !o.Guard().Lets(p, o, long.Bad, long.Valid):
			why = fmt.Sprintf("Held by the guard against low traffic: %s of %s failed, at least %s must, and surely (lower bound %s).",
				Count(long.Bad), Count(long.Valid), Count(o.Guard().MinBad), Percent(o.Guard().WilsonPPM(long.Bad, long.Valid)))
		case !p.Rescaled:
			continue
		}
		lines = append(lines, Line{"rule_" + p.Name, "Burn rule " + p.Name, value,
			fmt.Sprintf("over %s and over %s above %s", Span(p.Long), Span(p.Short()), RateMilli(p.ThresholdMilli(o))), why})
	}
	return lines
}

func (s Status) explainCoverage() Line {
	return Line{"coverage", "Coverage", Percent(s.CoveragePPM),
		"gateway time reported / gateway time expected, less events known to be lost",
		"Below the policy's line nothing is concluded: the state is held."}
}
