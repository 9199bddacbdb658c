package web

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/slo"
)

// ranges are what a burn-down can show: how far back, in which steps. Steps are
// whole minutes, as the ledger counts.
var ranges = [...]struct {
	key        string
	back, step time.Duration
}{
	{"15m", 15 * time.Minute, time.Minute},
	{"1h", time.Hour, time.Minute},
	{"6h", 6 * time.Hour, 5 * time.Minute},
	{"1d", 24 * time.Hour, 15 * time.Minute},
	{"7d", 7 * 24 * time.Hour, 2 * time.Hour},
	{"30d", 30 * 24 * time.Hour, 6 * time.Hour},
}

// chooseRange is the range asked for, else the shortest one that holds the whole
// history: thirty days of nothing with a dot at the end tell nobody anything.
func chooseRange(asked string, history, window time.Duration) int {
	for i, r := range ranges {
		if r.key == asked {
			return i
		}
	}
	for i, r := range ranges {
		if r.back >= history || r.back >= window {
			return i
		}
	}
	return len(ranges) - 1
}

// reach is how far back the counts of st go, as far as its burn windows tell: the
// shortest that holds nearly every request of the whole window. An objective may
// be younger than the traffic it judges, so its date says little.
func (v view) reach(st *slo.Status) time.Duration {
	for _, window := range []time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour} {
		b := st.Burn(window)
		if b.Valid*100 < st.Budget.Valid*99 || b.NoData {
			continue
		}
		if age := v.now.Sub(st.Objective.Since); age > 0 && age < window {
			return age
		}
		return window
	}
	return st.Objective.Window
}

// history fills the two charts over time. With the database away they say so.
func (s *Server) history(r *http.Request, v view, st *slo.Status, runs []injector.Run, page *serviceView) {
	var h rangeCount
	h, page.Ranges, page.ChartTrouble = s.counted(r, v, st)
	if page.ChartTrouble != "" {
		return
	}
	page.Burndown = v.burndown(h.axis, h.step, st, h.points, overlays{runs: runs})
	page.Bars = v.bars(h.axis, h.step, h.points, runs)
}

// rangeCount is what was counted over the range that was asked for.
type rangeCount struct {
	axis
	step   time.Duration
	points []slo.Point
}

func (s *Server) counted(r *http.Request, v view, st *slo.Status) (h rangeCount, links []Link, trouble string) {
	o := st.Objective
	chosen := chooseRange(r.URL.Query().Get("r"), v.reach(st), o.Window)
	for i, c := range ranges {
		if c.back <= o.Window || i == 0 {
			links = append(links, Link{Name: v.lasting(c.back), Href: with(r, "r", c.key), Here: i == chosen})
		}
	}
	c := ranges[chosen]
	h.step, h.to = c.step, v.now.Truncate(time.Minute).Add(time.Minute)
	h.from = h.to.Add(-c.back)
	points, err := s.pointsOf(r.Context(), v, st, h.axis, c.step)
	// The running step may end in the future; that nothing is known of it yet is
	// no gap.
	h.points = slices.DeleteFunc(slices.Clone(points), func(p slo.Point) bool { return p.NoData && p.At.After(v.now) })
	if trouble = s.read(v, "The history", err); trouble == "" && len(h.points) == 0 {
		trouble = v.say("No step of this range has been counted yet.")
	}
	return h, links, trouble
}

// tooEarly is how many points from the first rest on less than a tenth of the
// requests that the last one has: where counting has just begun, three failures of
// ten requests are many times the budget, and would press a month flat. It has just
// begun while requests come into the window and none leaves it.
func tooEarly(points []slo.Point) int {
	var last int64
	for _, p := range points {
		if !p.NoData {
			last = p.Weighed
		}
	}
	early := 0
	var before int64
	for i, p := range points {
		switch {
		case p.NoData:
			continue
		case before > 0 && p.Weighed != before+p.Valid || p.Weighed*10 >= last:
			return early
		case p.RemainingPPM < 1_000_000: // where nothing failed nothing is pressed flat
			early = i + 1
		}
		before = p.Weighed
	}
	return early
}

func (v view) burndown(a axis, step time.Duration, st *slo.Status, points []slo.Point, over overlays) *Chart {
	at, left, low := make([]time.Time, len(points)), make([]float64, len(points)), 0.0
	early := tooEarly(points)
	for i, p := range points {
		at[i], left[i] = p.At, math.NaN()
		if !p.NoData && i >= early {
			left[i] = float64(p.RemainingPPM) / 10_000
			low = min(low, left[i])
		}
	}
	c := &Chart{ID: "burndown", Height: "h264", Columns: []string{v.say("Budget left"), v.say("Requests"), v.say("Failures"), v.say("by experiments")}}
	var ticks []float64
	a.min, a.max, ticks = 0, 100, []float64{0, 25, 50, 75, 100}
	if low < 0 {
		a.min, _, ticks = nice(low, 100)
		ticks = slices.DeleteFunc(ticks, func(t float64) bool { return t > 100 }) // more than all of it cannot be left
	}
	for _, t := range ticks {
		c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: percentTick(t)})
	}
	c.X = v.times(a)
	c.Gaps = a.gaps(at, left, step)
	sp := spec{Unit: "%", From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks,
		Series: []series{{Label: v.say("Budget left"), Color: "--c1", Area: true}}, Bands: [][2]int64{}, Limits: []specLimit{}}
	v.bandsOf(a, over.runs, c, &sp)
	v.mark(a, c, &sp, over.marks...)
	v.freezes(a, over.frozen, c, &sp)
	policy := slo.DefaultPolicy()
	if over.policy != nil {
		policy = *over.policy
	}
	for _, l := range []struct {
		ppm         int64
		class, text string
	}{{1_000_000 - policy.WarnPPM, "warn", v.say("warn %s", slo.Percent(1_000_000-policy.WarnPPM))}, {1_000_000 - policy.EmergencyPPM, "emergency", v.say("emergency %s", slo.Percent(1_000_000-policy.EmergencyPPM))},
		{0, "frozen", v.say("frozen below %s", slo.Percent(0))}} {
		y := float64(l.ppm) / 10_000
		limit := Limit{At: pos(a.y(y)), Class: l.class, Dy: "-5"}
		// Where the scale is long the three lines lie together: one label is enough.
		if a.max-a.min <= 260 || l.class == "frozen" {
			limit.Text = l.text
		}
		c.Limits = append(c.Limits, limit)
		sp.Limits = append(sp.Limits, specLimit{y, l.class, limit.Text})
	}
	line, area := a.path(at, left, math.Max(a.min, 0))
	c.Lines, c.Area = []Line{{"c1", line}}, area
	for i := len(points) - 1; i >= 0; i-- {
		if !math.IsNaN(left[i]) {
			c.Dots = []Dot{{pos(a.x(at[i])), pos(a.y(left[i]))}}
			v.project(a, st, at[i], left[i], c, &sp)
			break
		}
	}
	for i, p := range points {
		row := Row{Time: v.stamp(p.At, a)}
		if i < early && !p.NoData {
			row.Cells = []Cell{{"", v.say("too few requests yet"), true}, {"", slo.Count(p.Valid), false}, {"", slo.Count(p.Bad), p.Bad == 0}, {"", slo.Count(p.ChaosBad), p.ChaosBad == 0}}
		} else if p.NoData {
			row.Cells = []Cell{{"", v.say("no data"), true}, {"", "–", true}, {"", "–", true}, {"", "–", true}}
		} else {
			row.Cells = []Cell{{fmt.Sprintf("%.4f", float64(p.RemainingPPM)/10_000), slo.Percent(p.RemainingPPM), false},
				{"", slo.Count(p.Valid), false}, {"", slo.Count(p.Bad), p.Bad == 0}, {"", slo.Count(p.ChaosBad), p.ChaosBad == 0}}
		}
		c.Rows = append(c.Rows, row)
	}
	c.Label = v.say("Budget left of %s: %s now", st.Objective.Service, v.page0(st))
	c.Summary = v.story(st, len(c.Bands))
	c.Legend = []Key{{Class: "c1", Text: v.say("budget left"), Line: true}}
	if len(c.Bands) > 0 {
		c.Legend = append(c.Legend, Key{Class: "band", Text: v.say("experiment")})
	}
	if len(c.Frozen) > 0 {
		c.Legend = append(c.Legend, Key{Class: "f-frozen", Text: v.say("releases frozen")})
	}
	if c.Proj != "" {
		c.Legend = append(c.Legend, Key{Class: "c1 proj", Text: v.say("pace of the last hour, expiries counted"), Line: true})
	}
	if len(c.Gaps) > 0 {
		text := v.say("no data")
		if early > 0 {
			text = v.say("no data, or less than a tenth of the window's requests")
		}
		c.Legend = append(c.Legend, Key{Class: "f-hatch", Text: text})
	}
	c.Spec = sp.json()
	return c
}

func (l lang) page0(st *slo.Status) string {
	big, _, _ := l.leftSentence(st)
	return big
}

// story is the sentence that says what to see.
func (v view) story(st *slo.Status, bands int) string {
	b := st.Budget
	if b.NoData {
		return v.say("No request has been counted; the hatched time is not good and not bad.")
	}
	text := v.say("%s failures of %s requests in the window.", slo.Count(b.Tally.Bad), slo.Count(b.Valid))
	if b.Tally.ChaosBad > 0 {
		text = v.say("%s failures of %s requests in the window, %s of them by experiments.", slo.Count(b.Tally.Bad), slo.Count(b.Valid), slo.Count(b.Tally.ChaosBad))
	}
	if bands > 0 {
		text = v.text(text, v.say("Violet bands are experiments on this service."))
	}
	return text
}

// bandsOf draws the time a fault was armed behind the data.
func (v view) bandsOf(a axis, runs []injector.Run, c *Chart, sp *spec) {
	for _, r := range runs {
		from, to := faultTime(r, v.now)
		if from.IsZero() || to.Before(a.from) || from.After(a.to) {
			continue
		}
		c.Bands = append(c.Bands, a.stretch(from, to))
		sp.Bands = append(sp.Bands, [2]int64{from.Unix(), to.Unix()})
	}
}

// faultTime is when a run's fault was armed; zero if it never was.
func faultTime(r injector.Run, now time.Time) (from, to time.Time) {
	if r.InjectAt.IsZero() {
		return time.Time{}, time.Time{}
	}
	for _, end := range []time.Time{r.RecoverAt, r.EndedAt, now} {
		if !end.IsZero() {
			return r.InjectAt, end
		}
	}
	return r.InjectAt, now
}

// EventBars are the requests and the failures of each step, on scales of their
// own: ten failures of a million would not be a pixel high.
type EventBars struct {
	Requests, Failures *Chart
	Step               string
}

func (v view) bars(a axis, step time.Duration, points []slo.Point, runs []injector.Run) *EventBars {
	total := &Chart{ID: "requests", Height: "h72 bare", Label: v.say("Requests of each step")}
	failed := &Chart{ID: "failures", Height: "h96", Label: v.say("Failures of each step"), X: v.times(a)}
	var topValid, topBad, sumValid, sumBad, sumChaos int64
	for _, p := range points {
		topValid, topBad = max(topValid, p.Valid), max(topBad, p.Bad)
		sumValid, sumBad, sumChaos = sumValid+p.Valid, sumBad+p.Bad, sumChaos+p.ChaosBad
	}
	sp := &spec{}
	v.bandsOf(a, runs, total, sp)
	v.bandsOf(a, runs, failed, sp)
	_, highValid, ticksValid := nice(0, float64(max(topValid, 4)))
	_, highBad, ticksBad := nice(0, float64(max(topBad, 4)))
	width := 100 * float64(step) / float64(a.to.Sub(a.from))
	for i, p := range points {
		// A point stands at the end of its step; the last step may be cut short.
		x, width := a.x(p.At.Add(-step)), width
		if i > 0 {
			x = a.x(points[i-1].At)
			width = a.x(p.At) - x
		}
		bar := func(class string, n int64, from, high float64) Rect {
			h := 100 * float64(n) / high
			return Rect{class, pos(x + width*0.12), pos(100 - from - h), pos(width * 0.76), pos(h)}
		}
		if p.NoData && p.Valid == 0 {
			total.Gaps = append(total.Gaps, Stretch{pos(max(x, 0)), pos(width), ""})
			failed.Gaps = append(failed.Gaps, Stretch{pos(max(x, 0)), pos(width), ""})
			continue
		}
		total.Bars = append(total.Bars, bar("f-quiet", p.Valid, 0, highValid))
		if plain := p.Bad - p.ChaosBad; plain > 0 {
			failed.Bars = append(failed.Bars, bar("f-emergency", plain, 0, highBad))
		}
		if p.ChaosBad > 0 {
			failed.Bars = append(failed.Bars, bar("f-chaos", p.ChaosBad, 100*float64(p.Bad-p.ChaosBad)/highBad, highBad))
		}
	}
	for _, c := range []struct {
		chart *Chart
		high  float64
		ticks []float64
	}{{total, highValid, ticksValid}, {failed, highBad, ticksBad}} {
		ends := []float64{c.ticks[0], c.ticks[len(c.ticks)-1]}
		for _, t := range ends {
			c.chart.Y = append(c.chart.Y, Tick{At: pos(100 - 100*t/c.high), Text: compact(t)})
		}
	}
	total.Summary = v.say("%s requests", slo.Count(sumValid))
	failed.Summary = v.say("%s failures", slo.Count(sumBad))
	if sumChaos > 0 {
		failed.Summary = v.say("%s failures, %s of them by experiments", slo.Count(sumBad), slo.Count(sumChaos))
	}
	return &EventBars{Requests: total, Failures: failed, Step: v.lasting(step)}
}

func percentTick(v float64) string { return slo.Percent(int64(math.Round(v * 10_000))) }

// compact keeps an axis narrow: "12 k".
func compact(v float64) string {
	switch {
	case v >= 1_000_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v/1_000_000), ".0") + "\u202fM"
	case v >= 10_000:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", v/1_000), ".0") + "\u202fk"
	}
	return slo.Count(int64(v))
}

// stamp is a time as exact as the chart's range needs.
func (v view) stamp(t time.Time, a axis) Time {
	if a.to.Sub(a.from) > 24*time.Hour {
		return v.day(t)
	}
	return Time{v.iso(t), t.In(v.zone).Format("15:04:05")}
}
