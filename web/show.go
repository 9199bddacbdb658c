package web

import (
	"fmt"
	"time"

	"breakwater/injector"
	"breakwater/slo"
	"breakwater/slo/gate"
)

// How states look: a colour, a shape and a word, each enough alone. Figures are
// written by slo.Percent, slo.Count and their sisters, not here.

// Chip is a state in a pill, or a bare mark with its word.
type Chip struct{ Class, Icon, Text string }

func levelChip(l slo.Level, noData bool) Chip {
	if noData {
		return Chip{"nodata", "s-nodata", "no data"}
	}
	switch l {
	case slo.Normal, slo.Warn, slo.Emergency, slo.Frozen:
		return Chip{string(l), "s-" + string(l), string(l)}
	}
	return Chip{"unknown", "s-unknown", "unknown"}
}

// statusChip is no data where nothing was counted, unless a level is held from before:
// who is frozen stays frozen without data too.
func statusChip(st *slo.Status) Chip {
	held := st.Level == slo.Frozen || st.Level == slo.Emergency || st.Level == slo.Warn
	return levelChip(st.Level, st.Budget.NoData && !held)
}

// verdictMark is how a gate's answer looks. Deny is never ice blue: that colour
// belongs to the freeze beside it.
func verdictMark(decision gate.Verdict) Chip {
	switch decision {
	case gate.Allow:
		return Chip{"fg-normal", "s-normal", "allow"}
	case gate.Deny:
		return Chip{"fg-emergency", "s-emergency", "deny"}
	case gate.Hold:
		return Chip{"fg-warn", "s-warn", "hold"}
	}
	return Chip{"fg-unknown", "s-unknown", "unknown"}
}

// runChip is the state of a run while it moves, and its verdict once it is over.
func runChip(r injector.Run) Chip {
	words := map[injector.State]string{
		injector.PendingApproval: phrase("waits for approval"),
		injector.EngineError:     phrase("engine error"),
	}
	word := words[r.State]
	if word == "" {
		word = string(r.State)
	}
	switch {
	case r.State.Active():
		return Chip{"chaos", "s-chaos", word}
	case r.State == injector.Completed || r.State == injector.Aborted:
		return verdictChip(r.Verdict, word)
	case r.State == injector.EngineError:
		return Chip{"emergency", "s-emergency", word}
	case r.State == injector.PendingApproval:
		return Chip{"warn", "s-warn", word}
	}
	return Chip{"unknown", "s-unknown", word}
}

func verdictChip(v injector.Verdict, otherwise string) Chip {
	switch v {
	case injector.Passed:
		return Chip{"normal", "s-normal", "passed"}
	case injector.Failed:
		return Chip{"emergency", "s-emergency", "failed"}
	case injector.Inconclusive:
		return Chip{"unknown", "s-unknown", "inconclusive"}
	case injector.NotEvaluated:
		return Chip{"unknown", "s-unknown", "not evaluated"}
	}
	return Chip{"unknown", "s-unknown", otherwise}
}

func resultMark(r injector.Result) Chip {
	switch r {
	case injector.Pass:
		return Chip{"fg-normal", "s-normal", "pass"}
	case injector.Fail:
		return Chip{"fg-emergency", "s-emergency", "fail"}
	case injector.NoData:
		return Chip{"fg-unknown", "s-nodata", "no data"}
	case injector.Errored:
		return Chip{"fg-warn", "s-warn", "error"}
	}
	return Chip{"fg-unknown", "s-nodata", "not yet"}
}

// Bar is a proportion.
type Bar struct {
	Class, Width, Label, Size string
	Ticks                     bool
}

// budgetBar shows what is left; a spent budget fills the whole bar with stripes,
// since an empty bar would look like nothing to see.
func (l lang) budgetBar(st *slo.Status, size string) Bar {
	b := Bar{Size: size, Ticks: true}
	switch left := st.Budget.RemainingPPM; {
	case st.Budget.NoData:
		b.Class, b.Width, b.Label = "f-hatch", "100", l.say("no data")
	case left < 0:
		b.Class, b.Width, b.Label = "f-spent", "100", l.say("budget overspent: %s left", slo.Percent(left))
	default:
		b.Class, b.Width, b.Label = "f-"+statusChip(st).Class, pos(float64(left)/10_000), l.say("%s left", slo.Percent(left))
	}
	return b
}

// clock writes a duration as a player does: "7:12".
func clock(d time.Duration) string {
	s := max(int64(d/time.Second), 0)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

// plural picks the word for n; catalogues get a key of their own later.
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return slo.Count(int64(n)) + " " + many
}
