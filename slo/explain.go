package slo

import (
	"fmt"
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

// Explain tells how each number of s was made.
func (s Status) Explain() []Line {
	b, o := s.Budget, s.Objective
	span := fmt.Sprintf("%s up to %s", Span(o.Window), Clock(s.DataUntil))
	room := whole - o.TargetPPB
	if b.NoData {
		return []Line{
			{"sli", "Good requests", "no data", "good + bad = 0 in " + span, "No valid request was counted: there is nothing to judge, and nothing is assumed."},
			s.explainCoverage(),
		}
	}
	lines := []Line{
		{"sli", "Good requests", Share(b.Tally.Good, b.Valid),
			fmt.Sprintf("good / (good + bad) = %s / (%s + %s)", Count(b.Tally.Good), Count(b.Tally.Good), Count(b.Tally.Bad)),
			fmt.Sprintf("Share of valid requests that were good, %s. %s more were neutral and count for neither.", span, Count(b.Tally.Neutral))},
		{"target", "Target", Target(o.TargetPPB), fmt.Sprintf("kept while good × 10⁹ ≥ %s × (good + bad)", Count(o.TargetPPB)),
			"What was promised."},
		{"allowed", "Allowed failures", Count(b.Allowed),
			fmt.Sprintf("⌊(10⁹ − %s) × %s / 10⁹⌋ = ⌊%s × %s / 10⁹⌋", Count(o.TargetPPB), Count(b.Valid), Count(room), Count(b.Valid)),
			"So many of the valid requests may fail before the promise is broken."},
		{"remaining_events", "Failures left", Count(b.Remaining),
			fmt.Sprintf("allowed − bad = %s − %s", Count(b.Allowed), Count(b.Tally.Bad)), "Below zero the promise is broken."},
		{"spent", "Budget spent", SpentPercent(b.SpentPPM),
			fmt.Sprintf("bad × 10⁹ / (%s × (good + bad)) = %s × 10⁹ / (%s × %s)", Count(room), Count(b.Tally.Bad), Count(room), Count(b.Valid)),
			"Share of the error budget that is gone."},
		{"remaining", "Budget left", Percent(b.RemainingPPM), fmt.Sprintf("1 − spent = 1 − %s", SpentPercent(b.SpentPPM)), "Never shown fuller than it is: what is spent is rounded up, what is left down."},
		{"chaos", "Spent by experiments", SpentPercent(SpentBy(o.TargetPPB, b.Tally.ChaosBad, b.Valid)),
			fmt.Sprintf("%s of the %s bad requests carry an experiment", Count(b.Tally.ChaosBad), Count(b.Tally.Bad)),
			"Users felt these too, so they are part of what is spent."},
	}
	for _, w := range BurnWindows() {
		burn := s.Burn(w)
		l := Line{ID: "burn_" + Window(w), Label: "Burn rate, " + Span(w), Value: Rate(burn),
			Formula: "good + bad = 0", Meaning: "No valid request in this span."}
		if !burn.NoData {
			l.Formula = fmt.Sprintf("(bad / valid) / (1 − target) = (%s / %s) / (%s / 10⁹)", Count(burn.Bad), Count(burn.Valid), Count(room))
			l.Meaning = fmt.Sprintf("At 1× a full budget lasts exactly %s", Span(o.Window))
			if left := Exhausts(o, burn.RateMilli); left > 0 {
				l.Meaning += fmt.Sprintf("; at this pace %s", Span(left))
			}
			l.Meaning += "."
		}
		lines = append(lines, l)
	}
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

func (s Status) explainCoverage() Line {
	return Line{"coverage", "Coverage", Percent(s.CoveragePPM),
		"gateway time reported / gateway time expected, less events known to be lost",
		"Below the policy's line nothing is concluded: the state is held."}
}
