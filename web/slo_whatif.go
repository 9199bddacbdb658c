package web

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
	"breakwater/slo/report"
)

// WhatIf is another promise, replayed over what was counted.
type WhatIf struct {
	Targets, Windows []Choice
	Custom           string
	Asked            bool
	Trouble          string
	Rows             []WhatIfRow
	Note             string
}

// Choice is an option of a form.
type Choice struct {
	Value, Text string
	Chosen      bool
}

// WhatIfRow sets one figure beside what it would have been.
type WhatIfRow struct {
	Name     string
	Is, Then string
	IsChip   *Chip
	ThenChip *Chip
}

func whatIfTargets() []string { return []string{"99", "99.5", "99.9", "99.95", "99.98", "99.99"} }
func whatIfWindows() []string { return []string{"1d", "7d", "28d", "30d", "90d"} }

// whatIf offers other targets and windows, and replays the one that was asked for.
// Both sides are replays of the same counts, so that they can be compared.
func (s *Server) whatIf(r *http.Request, v view, st *slo.Status, page *sloView) {
	o := st.Objective
	if o.Spec().Indicator.Kind == slo.Composite || st.Budget.NoData {
		return
	}
	q := r.URL.Query()
	target, window := strings.TrimSuffix(strings.TrimSpace(q.Get("target")), "%"), q.Get("window")
	w := &WhatIf{Asked: target != "" || window != ""}
	page.WhatIf = w
	now := slo.TargetPercent(o.TargetPPB)
	targets := whatIfTargets()
	for _, t := range []string{now, target} {
		if t != "" && !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	slices.SortFunc(targets, func(a, b string) int {
		x, _ := slo.ParseTarget(a)
		y, _ := slo.ParseTarget(b)
		return int((x - y) / 1000)
	})
	for _, t := range targets {
		text := t + "\u202f%"
		if t == now {
			text = v.say("%s, as it is", text)
		}
		w.Targets = append(w.Targets, Choice{t, text, t == target || target == "" && t == now})
	}
	has := slo.Window(o.Window)
	windows := whatIfWindows()
	if !slices.Contains(windows, has) {
		windows = append(windows, has)
	}
	for _, k := range windows {
		span, _ := report.Span(k)
		text := v.say("%s rolling", v.lasting(span))
		if k == has {
			text = v.say("%s, as it is", text)
		}
		w.Windows = append(w.Windows, Choice{k, text, k == window || window == "" && k == has})
	}
	if !w.Asked {
		return
	}
	other := o
	if target != "" {
		ppb, err := slo.ParseTarget(target)
		if err != nil {
			w.Trouble = v.say("The target %s.", err)
			return
		}
		other.TargetPPB = ppb
	}
	if window != "" && window != has {
		d, err := report.Span(window)
		if err != nil || d < time.Hour || d > 366*24*time.Hour || d%time.Minute != 0 {
			w.Trouble = v.say("The window must be 1h to 366d in whole minutes, such as 28d; got %s.", window)
			return
		}
		other = rolling(other, d)
	}
	both, err := s.replay(r, v, o, other, st)
	if err != nil {
		w.Trouble = v.say("This promise cannot be replayed: %s.", err)
		if !errors.Is(err, slo.ErrTerms) {
			w.Trouble = s.read(v, "The replay", err)
		}
		return
	}
	is, then := both[0], both[1]
	w.Rows = v.compare(o, other, is, then)
	w.Note = v.say("Both replayed over %s in steps of %s: %s failures of %s.", v.lasting(is.To.Sub(is.From)), v.lasting(is.Step), slo.Count(is.Bad), slo.Count(is.Valid))
}

func (s *Server) replay(r *http.Request, v view, o, other slo.Objective, st *slo.Status) ([]slo.Backtest, error) {
	key := strings.Join([]string{o.ID, st.Env, slo.TargetPercent(o.TargetPPB), o.Window.String(), slo.TargetPercent(other.TargetPPB), other.Window.String()}, "\x00")
	both, _, err := s.replays.get(key, v.now, func() ([]slo.Backtest, error) {
		return s.cfg.Promises.Backtests(r.Context(), []slo.Objective{o, other}, s.cfg.PolicyFor(o.Service, st.Env), st.Env, st.From, st.DataUntil)
	})
	return both, err
}

func (l lang) compare(o, other slo.Objective, is, then slo.Backtest) []WhatIfRow {
	ends := func(b slo.Backtest) string {
		if b.End.NoData {
			return l.say("no data")
		}
		return slo.Percent(b.End.RemainingPPM)
	}
	level := func(b slo.Backtest) *Chip {
		worst := Chip{}
		for _, level := range []slo.Level{slo.Frozen, slo.Emergency, slo.Warn, slo.Normal, slo.Unknown} {
			if b.Levels[level] > 0 {
				worst = levelChip(level, false)
				break
			}
		}
		return &worst
	}
	pages := func(b slo.Backtest) string {
		n := 0
		for _, f := range b.Fires {
			if f.Severity == "page" {
				n++
			}
		}
		return slo.Count(int64(n))
	}
	frozen := func(b slo.Backtest) string {
		if b.Freezes == 0 {
			return l.say("none")
		}
		return l.say("%s, %s", slo.Count(int64(b.Freezes)), l.lasting(b.Levels[slo.Frozen]))
	}
	return []WhatIfRow{
		{Name: l.say("Target"), Is: slo.Target(o.TargetPPB), Then: slo.Target(other.TargetPPB)},
		{Name: l.say("Window"), Is: l.lasting(o.Window), Then: l.lasting(other.Window)},
		{Name: l.say("Budget left"), Is: ends(is), Then: ends(then)},
		{Name: l.say("Most ever spent"), Is: slo.SpentPercent(is.WorstPPM), Then: slo.SpentPercent(then.WorstPPM)},
		{Name: l.say("Worst state"), IsChip: level(is), ThenChip: level(then)},
		{Name: l.say("Freezes"), Is: frozen(is), Then: frozen(then)},
		{Name: l.say("Calls at night"), Is: pages(is), Then: pages(then)},
	}
}

// rolling is o over a rolling window of d.
func rolling(o slo.Objective, d time.Duration) slo.Objective {
	o.Window = d
	if o.Terms != nil && o.Terms.Calendar != nil {
		terms := *o.Terms
		terms.Calendar, terms.Planned = nil, 0
		o.Terms = &terms
	}
	return o
}
