package web

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/slo"
)

// overlays are what happened while a promise was kept or broken.
type overlays struct {
	runs   []injector.Run
	marks  []specMark
	frozen [][2]time.Time
	policy *slo.Policy // nil: the default one
}

// freezes draws the spans in which releases were frozen along the top.
func (v view) freezes(a axis, frozen [][2]time.Time, c *Chart, sp *spec) {
	for _, f := range frozen {
		if f[1].Before(a.from) || f[0].After(a.to) {
			continue
		}
		c.Frozen = append(c.Frozen, a.stretch(f[0], f[1]))
		sp.Frozen = append(sp.Frozen, [2]int64{f[0].Unix(), f[1].Unix()})
	}
}

// project draws from the last point to the instant at which the evaluator says that
// the budget is empty. Where that lies beyond the chart, the line leaves it.
func (v view) project(a axis, st *slo.Status, at time.Time, left float64, c *Chart, sp *spec) {
	if st.EmptyAt.IsZero() || left <= 0 || !st.EmptyAt.After(at) {
		return
	}
	c.Proj = "M" + pos(1000*float64(at.Sub(a.from))/float64(a.to.Sub(a.from))) + " " + pos(a.y(left)) +
		"L" + pos(1000*float64(st.EmptyAt.Sub(a.from))/float64(a.to.Sub(a.from))) + " " + pos(a.y(0))
	sp.Proj = [][2]float64{{float64(at.Unix()), left}, {float64(st.EmptyAt.Unix()), 0}}
	c.Now, sp.Now = pos(a.x(v.now)), v.now.Unix()
}

// lookBack fills what needs the database, and returns the tables of the page.
func (s *Server) lookBack(r *http.Request, v view, st *slo.Status, page *sloView) []sheet {
	runs := v.runsOf(st.Objective.Service)
	sheets := []sheet{{name: "burndown", columns: []string{"at", "remaining_ppm", "valid_events", "bad_events", "chaos_bad_events"}}, rateSheet(st)}
	h, links, trouble := s.counted(r, v, st)
	page.Ranges, page.ChartTrouble = links, trouble
	if trouble == "" {
		for _, p := range h.points {
			row := []field{instant(p.At), {}, num(p.Valid), num(p.Bad), num(p.ChaosBad)}
			if !p.NoData {
				row[1] = num(p.RemainingPPM)
			}
			sheets[0].rows = append(sheets[0].rows, row)
		}
		over, happened := s.overlays(r, v, st, h.axis, runs)
		page.Overlays = happened
		sheets = append(sheets, overlaySheet(happened))
		// What is expected is drawn into room of its own after now.
		a := h.axis
		if !st.EmptyAt.IsZero() && st.Budget.Remaining > 0 {
			a.to = a.to.Add(min(st.EmptyAt.Sub(v.now), a.to.Sub(a.from)/4))
		}
		page.Burndown = v.burndown(a, h.step, st, h.points, over)
		page.Ratio = v.ratio(h.axis, h.step, st, h.points, over)
		page.Bars = v.bars(h.axis, h.step, h.points, runs)
	}
	return append(sheets, s.spent(r, v, st, page))
}

func rateSheet(st *slo.Status) sheet {
	out := sheet{name: "burn_rates", columns: []string{"window_seconds", "rate_milli", "bad_events", "valid_events", "spent_ppm"}}
	for _, b := range st.Burns {
		row := []field{num(int64(b.Window / time.Second)), {}, num(b.Bad), num(b.Valid), {}}
		if !b.NoData {
			row[1], row[4] = num(b.RateMilli), num(b.SpentPPM)
		}
		out.rows = append(out.rows, row)
	}
	return out
}

func overlaySheet(list []OverlayRow) sheet {
	out := sheet{name: "overlays", columns: []string{"at", "kind", "text"}}
	for _, o := range list {
		out.rows = append(out.rows, []field{txt(o.Time.ISO), txt(o.Kind), txt(o.Text)})
	}
	return out
}

// overlays gathers deploys, incidents, configurations, freezes and experiments.
func (s *Server) overlays(r *http.Request, v view, st *slo.Status, a axis, runs []injector.Run) (overlays, []OverlayRow) {
	policy := s.cfg.PolicyFor(st.Objective.Service, st.Env)
	over := overlays{runs: runs, policy: &policy}
	type line struct {
		at time.Time
		OverlayRow
	}
	var lines []line
	causes, err := s.cfg.Promises.Causes(r.Context(), st.Objective.Service, st.Env, a.from, a.to)
	_ = s.read(v, "Deploys and incidents", err)
	for _, c := range causes {
		kind := string(c.Kind)
		icon, class := happenedIcon(kind)
		text := c.Ref
		if c.Title != "" && c.Title != c.Ref && c.Kind != slo.ByConfig {
			text = v.say("%s, %s", text, c.Title)
		}
		if c.Actor != "" && c.Actor != "gateway" {
			text = v.say("%s, by %s", text, c.Actor)
		}
		if !c.From.Before(a.from) {
			over.marks = append(over.marks, specMark{At: c.From.Unix(), Text: v.word(kind) + " " + c.Ref, Kind: kind})
		}
		lines = append(lines, line{c.From, OverlayRow{Time: v.day(c.From), Class: class, Icon: icon, Kind: v.word(kind), Text: text}})
	}
	moves, err := s.cfg.Promises.Transitions(r.Context(), st.Objective.Service, a.from, 200)
	_ = s.read(v, "Changes of level", err)
	var since time.Time
	if st.Level == slo.Frozen {
		over.frozen = append(over.frozen, [2]time.Time{st.FrozenAt, v.now})
	}
	for _, m := range slices.Backward(moves) {
		if m.Objective != st.Objective.ID || m.Env != st.Env {
			continue
		}
		switch {
		case m.To == slo.Frozen:
			since = m.At
		case m.From == slo.Frozen && m.To != slo.Unknown:
			from := since
			if from.IsZero() {
				from = a.from // frozen before the range began
			}
			over.frozen, since = append(over.frozen, [2]time.Time{from, m.At}), time.Time{}
		}
		chip := levelChip(m.To, false)
		lines = append(lines, line{m.At, OverlayRow{Time: v.day(m.At), Class: "fg-" + chip.Class, Icon: chip.Icon, Kind: v.say("level"), Text: v.say("%s to %s: %s", v.word(string(m.From)), v.word(string(m.To)), v.tell(m.Reason))}})
	}
	for _, run := range runs {
		if from, to := faultTime(run, v.now); !from.IsZero() && to.After(a.from) && from.Before(a.to) {
			lines = append(lines, line{from, OverlayRow{Time: v.day(from), Class: "fg-chaos", Icon: "s-chaos", Kind: v.say("experiment"), Text: run.Title, Href: runHref(run.ID)}})
		}
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.at.Compare(a.at) })
	var out []OverlayRow
	for _, l := range lines[:min(len(lines), 40)] {
		out = append(out, l.OverlayRow)
	}
	slices.SortStableFunc(over.marks, func(a, b specMark) int { return int(a.At - b.At) })
	return over, out
}

// ratio draws the share of good events of each step, shaded where it is below target.
func (v view) ratio(a axis, step time.Duration, st *slo.Status, points []slo.Point, over overlays) *Chart {
	target := float64(st.Objective.TargetPPB) / 1e7
	at, good, low := make([]time.Time, len(points)), make([]float64, len(points)), target
	below := 0
	for i, p := range points {
		at[i], good[i] = p.At, math.NaN()
		if p.Valid > 0 {
			good[i] = 100 * float64(p.Valid-p.Bad) / float64(p.Valid)
			low = min(low, good[i])
			if good[i] < target {
				below++
			}
		}
	}
	var ticks []float64
	a.min, _, ticks = nice(low-(100-low)*0.1, 100)
	a.min, a.max = max(a.min, 0), 100
	ticks = slices.DeleteFunc(ticks, func(t float64) bool { return t > 100 || t < a.min })
	c := &Chart{ID: "ratio", Height: "h160", Columns: []string{v.say("Good"), v.say("Requests"), v.say("Failures")}, X: v.times(a), Gaps: a.gaps(at, good, step),
		Label: v.say("Share of good requests of %s, target %s", st.Objective.Service, slo.Target(st.Objective.TargetPPB))}
	for _, t := range ticks {
		c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: strings.TrimSuffix(fmt.Sprintf("%.4g", t), ".0") + "\u202f%"})
	}
	sp := spec{Unit: "%", From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks, Below: &target,
		Series: []series{{Label: v.say("Good"), Color: "--c1"}}, Bands: [][2]int64{}, Limits: []specLimit{{target, "emergency", v.say("target %s", slo.Target(st.Objective.TargetPPB))}}}
	v.bandsOf(a, over.runs, c, &sp)
	v.mark(a, c, &sp, over.marks...)
	c.Limits = []Limit{{At: pos(a.y(target)), Class: "emergency", Text: v.say("target %s", slo.Target(st.Objective.TargetPPB)), Dy: "14"}}
	line, _ := a.path(at, good, 100)
	under := make([]float64, len(good))
	for i, g := range good {
		under[i] = g
		if g > target {
			under[i] = target
		}
	}
	_, c.Below = a.path(at, under, target)
	c.Lines, c.Spec = []Line{{"c1", line}}, sp.json()
	c.Summary = v.say("Each step of %s that was below its target is shaded: %s of %s.", v.lasting(step), slo.Count(int64(below)), slo.Count(int64(len(points))))
	c.Legend = []Key{{Class: "c1", Text: v.say("good requests"), Line: true}, {Class: "below", Text: v.say("below target")}}
	if len(c.Gaps) > 0 {
		c.Legend = append(c.Legend, Key{Class: "f-hatch", Text: v.say("no data")})
	}
	for _, p := range points {
		row := Row{Time: v.stamp(p.At, a), Cells: []Cell{{"", v.say("no data"), true}, {"", "–", true}, {"", "–", true}}}
		if p.Valid > 0 {
			row.Cells = []Cell{{fmt.Sprintf("%.5f", 100*float64(p.Valid-p.Bad)/float64(p.Valid)), slo.Share(p.Valid-p.Bad, p.Valid), false}, {"", slo.Count(p.Valid), false}, {"", slo.Count(p.Bad), p.Bad == 0}}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// SpentRow is what one cause has of the budget; bars follow one another as a
// waterfall.
type SpentRow struct {
	Name, Note, Href string
	Class, X, W      string
	Failures, Share  string
	Total            bool
}

// spent says who spent the budget.
func (s *Server) spent(r *http.Request, v view, st *slo.Status, page *sloView) sheet {
	out := sheet{name: "who_spent_it", columns: []string{"kind", "ref", "title", "bad_events", "share_of_failures_ppm", "share_of_budget_ppm", "first_at", "last_at"}}
	b := st.Budget
	if b.NoData {
		page.SpentTrouble = v.say("No request was counted, so nobody spent anything.")
		return out
	}
	parts, _, err := s.portions.get(st.Objective.ID+"\x00"+st.Env+"\x00"+fmt.Sprint(st.Objective.Revision), v.now, func() ([]slo.Portion, error) {
		return s.cfg.Promises.Attribution(r.Context(), st.Objective, st.Env, st.From, st.DataUntil)
	})
	if errors.Is(err, slo.ErrTerms) {
		page.SpentTrouble = v.say("Failures are put down to causes only where requests are counted, and this promise counts something else.")
		return out
	}
	if page.SpentTrouble = s.read(v, "Who spent it", err); err != nil {
		return out
	}
	var all int64
	for _, p := range parts {
		all += p.Bad
	}
	scale := float64(max(b.Allowed, all, b.Tally.Bad, 1))
	var seen int64
	for i, p := range parts {
		out.rows = append(out.rows, []field{txt(string(p.Kind)), txt(p.Ref), txt(p.Title), num(p.Bad), num(p.PPM), num(slo.Part(p.Bad, b.Allowed)), instant(p.First), instant(p.Last)})
		if i >= 10 {
			continue
		}
		row := v.spentRow(p, b)
		row.X, row.W = pos(100*float64(seen)/scale), pos(100*float64(p.Bad)/scale)
		seen += p.Bad
		page.Spent = append(page.Spent, row)
	}
	if rest := all - seen; rest > 0 {
		page.Spent = append(page.Spent, SpentRow{Name: v.count(len(parts)-10, "more cause", "more causes"), Note: v.say("each smaller than these"), Class: "f-c4", X: pos(100 * float64(seen) / scale), W: pos(100 * float64(rest) / scale),
			Failures: slo.Count(rest), Share: slo.SpentPercent(slo.Part(rest, b.Allowed))})
	}
	// Causes are kept for some seconds; what failed meanwhile is said, so that the rows add up.
	if late := b.Tally.Bad - all; late > 0 && len(parts) > 0 {
		out.rows = append(out.rows, []field{txt("not_yet"), txt(""), txt(""), num(late), {}, num(slo.Part(late, b.Allowed)), {}, {}})
		page.Spent = append(page.Spent, SpentRow{Name: v.say("Not put down yet"), Note: v.say("failed within the last seconds"), Class: "f-c4", X: pos(100 * float64(all) / scale), W: pos(100 * float64(late) / scale),
			Failures: slo.Count(late), Share: slo.SpentPercent(slo.Part(late, b.Allowed))})
		all += late
	}
	if len(parts) == 0 {
		page.SpentTrouble = v.say("Nothing failed in the window: the whole budget is left.")
		return out
	}
	page.SpentSub = v.say("%s failures, each put down to one cause", slo.Count(all))
	page.Spent = append(page.Spent, SpentRow{Name: v.say("Spent"), Total: true, Class: "f-" + statusChip(st).Class, X: "0", W: pos(100 * float64(all) / scale), Failures: slo.Count(b.Tally.Bad), Share: slo.SpentPercent(b.SpentPPM)})
	if b.Remaining > 0 {
		page.Spent = append(page.Spent, SpentRow{Name: v.say("Left"), Total: true, Class: "f-normal", X: pos(100 * float64(all) / scale), W: pos(100 * float64(b.Remaining) / scale), Failures: v.amount(st.Objective, b.Remaining), Share: slo.Percent(b.RemainingPPM)})
	}
	return out
}

func (v view) spentRow(p slo.Portion, b slo.Budget) SpentRow {
	row := SpentRow{Name: p.Ref, Failures: slo.Count(p.Bad), Share: slo.SpentPercent(slo.Part(p.Bad, b.Allowed))}
	if p.Title != "" && p.Title != p.Ref {
		row.Name = v.say("%s, %s", row.Name, p.Title)
	}
	row.Note = v.word(string(p.Kind))
	if first, last := v.day(p.First).Text, v.day(p.Last).Text; !p.First.IsZero() && first == last {
		row.Note = v.say("%s, %s", row.Note, first)
	} else if !p.First.IsZero() {
		row.Note = v.say("%s, %s to %s", row.Note, first, last)
	}
	switch p.Kind {
	case slo.ByExperiment:
		row.Class, row.Href = "f-chaos", runHref(p.Ref)
		for _, run := range v.runs {
			if run.ID == p.Ref {
				row.Name = run.Title
			}
		}
	case slo.ByIncident:
		row.Class = "f-emergency"
	case slo.ByDeploy:
		row.Class = "f-c3"
	case slo.ByConfig:
		row.Class = "f-c2"
		row.Name = v.say("Configuration %s", p.Ref)
	default:
		row.Class, row.Name, row.Note = "f-c4", v.say("Unknown"), v.say("no experiment, incident, deploy or configuration near it")
	}
	return row
}
