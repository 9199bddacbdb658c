package web

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"breakwater/injector"
	"breakwater/slo"
)

// live draws the share of failing requests of the target over the whole run,
// with the fault band behind it.
func (s *Server) live(r *http.Request, v view, run injector.Run, o *runView) {
	if run.StartedAt.IsZero() {
		o.LiveTrouble = v.say("The run has not started.")
		if !run.State.Ended() && !run.PlannedAt.IsZero() {
			o.LiveTrouble = v.say("The run starts %s.", v.soon(run.PlannedAt))
		} else if run.State.Ended() {
			o.LiveTrouble = v.say("The run never started, so there is nothing to draw.")
		}
		return
	}
	from := run.StartedAt
	to := from.Add(run.BaselineFor + run.InjectFor + run.RecoverFor)
	if !run.EndedAt.IsZero() {
		to = run.EndedAt
	}
	if v.now.After(to) && run.EndedAt.IsZero() {
		to = v.now
	}
	if !to.After(from) {
		to = from.Add(time.Minute)
	}
	// Users are hurt whichever try failed, so failures are those of all traffic;
	// tries are those of this run's fault alone.
	points, err := s.cfg.Drills.Series(r.Context(), run.Service, "", from, to)
	var own []injector.Point
	if err == nil {
		own, err = s.cfg.Drills.Series(r.Context(), run.Service, run.ID, from, to)
	}
	if o.LiveTrouble = s.read(v, "The series", err); err != nil {
		return
	}
	points = merged(points, from, to)
	if len(points) == 0 {
		o.LiveTrouble = v.say("No gateway has reported since the run began.")
		return
	}
	a := axis{from: from, to: to}
	o.Amplified = v.triesChart(a, run, points)
	o.Bands, o.BandTrouble = s.runBands(r, v, a, run)
	o.Live, o.Tries = v.failingChart(a, run.Service, []injector.Run{run}, nil, points), v.tries(a, run, merged(own, from, to))
}

// merged joins the points of several gateways into steps, 5 s or what gives at
// most 120 of them: each gateway reports at instants of its own.
func merged(points []injector.Point, from, to time.Time) []injector.Point {
	step := 5 * time.Second
	for to.Sub(from)/step > 120 {
		step *= 2
	}
	var out []injector.Point
	for _, p := range points {
		at := from.Add((p.At.Sub(from) + step - 1) / step * step)
		if n := len(out); n > 0 && out[n-1].At.Equal(at) {
			last := &out[n-1]
			last.Good, last.Bad = last.Good+p.Good, last.Bad+p.Bad
			last.Attempts, last.Injected = last.Attempts+p.Attempts, last.Injected+p.Injected
			continue
		}
		// A silent step between two is no data, not a straight line.
		for n := len(out); n > 0 && at.Sub(out[n-1].At) > 2*step; n = len(out) {
			out = append(out, injector.Point{At: out[n-1].At.Add(step)})
		}
		p.At = at
		out = append(out, p)
	}
	return out
}

// failingChart is the share of failing requests of a service, with the faults of runs behind
// it and marks over it.
func (v view) failingChart(a axis, service string, runs []injector.Run, marks []specMark, points []injector.Point) *Chart {
	at, failed, top := make([]time.Time, len(points)), make([]float64, len(points)), 1.0
	for i, p := range points {
		at[i], failed[i] = p.At, math.NaN()
		if n := p.Good + p.Bad; n > 0 {
			failed[i] = 100 * float64(p.Bad) / float64(n)
			top = max(top, failed[i])
		}
	}
	var ticks []float64
	a.min, a.max, ticks = nice(0, top)
	a.max = min(a.max, 100)
	c := &Chart{ID: "live", Height: "h200", Columns: []string{v.say("Failing"), v.say("Requests"), v.say("Failures")},
		Label: v.say("Share of failing requests of %s during the run", service), X: v.times(a), Gaps: a.gaps(at, failed, 5*time.Second)}
	for _, t := range ticks {
		if t <= a.max {
			c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: percentTick(t)})
		}
	}
	sp := spec{Unit: "%", From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks,
		Series: []series{{Label: v.say("Failing"), Color: "--c1", Area: true}}, Bands: [][2]int64{}, Limits: []specLimit{}}
	v.bandsOf(a, runs, c, &sp)
	v.mark(a, c, &sp, marks...)
	line, area := a.path(at, failed, 0)
	c.Lines, c.Area, c.Spec = []Line{{"c1", line}}, area, sp.json()
	c.Legend = []Key{{Class: "c1", Text: v.say("failing requests"), Line: true}}
	if len(c.Bands) > 0 {
		c.Legend = append(c.Legend, Key{Class: "band", Text: v.say("fault armed")})
	}
	if len(c.Gaps) > 0 {
		c.Legend = append(c.Legend, Key{Class: "f-hatch", Text: v.say("no request")})
	}
	for _, p := range points {
		row := Row{Time: v.clock(p.At)}
		if n := p.Good + p.Bad; n > 0 {
			row.Cells = append(row.Cells, Cell{fmt.Sprintf("%.4f", 100*float64(p.Bad)/float64(n)), slo.Share(p.Bad, n), p.Bad == 0}, Cell{"", slo.Count(n), false}, Cell{"", slo.Count(p.Bad), p.Bad == 0})
		} else {
			row.Cells = append(row.Cells, Cell{"", v.say("no data"), true}, Cell{"", "0", true}, Cell{"", "–", true})
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// tries are the attempts that reached the fault, and of those the ones it hit; nil
// before any did.
func (v view) tries(a axis, run injector.Run, points []injector.Point) *Chart {
	if len(points) == 0 {
		return nil
	}
	c := &Chart{ID: "tries", Height: "h96", X: v.times(a), Label: v.say("Tries that reached the fault, and those injected")}
	v.bandsOf(a, []injector.Run{run}, c, &spec{})
	var top, sum, hit int64
	for _, p := range points {
		top, sum, hit = max(top, p.Attempts), sum+p.Attempts, hit+p.Injected
	}
	_, high, ticks := nice(0, float64(max(top, 4)))
	for _, t := range []float64{0, ticks[len(ticks)-1]} {
		c.Y = append(c.Y, Tick{At: pos(100 - 100*t/high), Text: compact(t)})
	}
	for i, p := range points {
		left := a.from
		if i > 0 {
			left = points[i-1].At
		}
		x := a.x(left)
		width := (a.x(p.At) - x) * 0.8
		tall := func(class string, n, from int64) {
			if n > 0 {
				h := 100 * float64(n) / high
				c.Bars = append(c.Bars, Rect{class, pos(x), pos(100 - h - 100*float64(from)/high), pos(width), pos(h)})
			}
		}
		tall("f-quiet", p.Attempts-p.Injected, p.Injected)
		tall("f-chaos", p.Injected, 0)
	}
	c.Summary = v.say("%s tries reached the fault, %s injected", slo.Count(sum), slo.Count(hit))
	return c
}

// hits are the exact counts of what the fault reached.
func (l lang) hits(r injector.Run) []Count {
	if r.InjectAt.IsZero() {
		return nil
	}
	bar := func(class string, n, of int64) Bar {
		b := Bar{Class: class, Size: "thin", Width: "0", Label: slo.Share(n, of)}
		if of > 0 {
			b.Width = pos(100 * float64(n) / float64(of))
		}
		return b
	}
	spared := r.Attempts - r.Injected
	note := l.say("no try reached it")
	if r.Attempts > 0 {
		note = l.say("%s hit, %s asked for", slo.Percent(slo.Part(r.Injected, r.Attempts)), slo.Percent(r.ExpectedPPM))
	}
	return []Count{
		{l.say("Matched"), l.say("tries that reached the fault"), slo.Count(r.Attempts), bar("f-c4", r.Attempts, r.Attempts)},
		{l.say("Injected"), note, slo.Count(r.Injected), bar("f-chaos", r.Injected, r.Attempts)},
		{l.say("Spared"), l.say("matched, left alone by the share"), slo.Count(spared), bar("f-c2", spared, r.Attempts)},
	}
}

func (v view) runFacts(r injector.Run) []Fact {
	var facts []Fact
	if !r.InjectAt.IsZero() {
		text := v.say("%s of %s", slo.Count(r.Bad), slo.Count(r.Good+r.Bad))
		if r.Good+r.Bad > 0 {
			text = v.say("%s, %s", text, slo.Percent(slo.Part(r.Bad, r.Good+r.Bad)))
		}
		facts = append(facts, Fact{Name: "Failed requests", Text: text})
		spent := v.say("%s of the window", slo.SpentPercent(r.BudgetSpentPPM))
		if r.CapPPM > 0 {
			spent = v.say("%s of the window, limit %s", slo.SpentPercent(r.BudgetSpentPPM), slo.Percent(r.CapPPM))
		}
		facts = append(facts, Fact{Name: "Budget spent", Text: spent})
	}
	for _, t := range []struct {
		name string
		at   time.Time
	}{{phrase("Planned"), r.PlannedAt}, {phrase("Started"), r.StartedAt}, {phrase("Injected"), r.InjectAt}, {phrase("Ended"), r.EndedAt}} {
		if !t.at.IsZero() {
			facts = append(facts, Fact{Name: t.name, Text: v.day(t.at).Text + t.at.In(v.zone).Format(":05")})
		}
	}
	return append(facts, Fact{Name: v.of("run", "Target"), Text: r.Service, Link: &Link{Href: serviceHref(r.Service)}},
		Fact{Name: "Scenario", Text: r.Scenario}, Fact{Name: "Epoch", Text: strconv.FormatInt(r.Epoch, 10)})
}
