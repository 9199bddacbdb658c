package report

import (
	"fmt"
	"strings"
	"time"

	"breakwater/slo"
)

// The plot of a burn-down, in units of its viewBox.
const (
	plotLeft, plotRight = 46, 632
	plotTop, plotZero   = 10, 118 // of the budget
	barsTop, barsBottom = 134, 156
)

// Chart is a burn-down drawn as SVG: what was left of the budget, the zero line, and
// below it the failures of each step.
type Chart struct {
	Line, Area string // paths
	Dots       []ChartDot
	Marks      []ChartMark // levels of the budget
	Days       []ChartMark
	Bars       []ChartBar
	Frozen     []ChartBar
	Most       string // the highest bar in words
	Title      string
	ZeroY      string
}

// The parts of a chart; numbers are ready to print.
type (
	ChartDot  struct{ X, Y string }
	ChartMark struct{ At, Text string }
	ChartBar  struct{ X, Y, W, H string }
)

func tenths(n int64) string {
	s := fmt.Sprintf("%d.%d", n/10, n%10)
	return strings.TrimSuffix(s, ".0")
}

// burnDown draws p. Positions are integers in tenths, so that the same review is
// the same bytes everywhere.
func burnDown(r Review, p ReviewPromise) Chart {
	c := Chart{Title: fmt.Sprintf("Error budget left of %s, %s", p.ID, moved(p))}
	// Until, not To: a running period is drawn as far as it is counted.
	span := int64(r.To.Sub(r.From) / time.Second)
	if span <= 0 {
		return c
	}
	x := func(t time.Time) int64 {
		at := min(max(int64(t.Sub(r.From)/time.Second), 0), span)
		return plotLeft*10 + at*(plotRight-plotLeft)*10/span
	}
	// The scale holds 0 and all that is shown; a budget ten times spent is cut off.
	low, high := int64(0), int64(1_000_000)
	var most int64
	for _, pt := range p.Points {
		if pt.RemainingPPM != nil {
			low, high = min(low, *pt.RemainingPPM), max(high, *pt.RemainingPPM)
		}
		most = max(most, pt.Bad)
	}
	low = max(low, -10_000_000)
	y := func(ppm int64) int64 {
		ppm = min(max(ppm, low), high)
		return plotTop*10 + (high-ppm)*(plotZero-plotTop)*10/(high-low)
	}
	c.ZeroY = tenths(y(0))
	for _, ppm := range levels(low) {
		c.Marks = append(c.Marks, ChartMark{tenths(y(ppm)), slo.Percent(ppm)})
	}
	c.line(p, x, y)
	c.bars(p, most, x)
	if most > 0 {
		c.Most = fmt.Sprintf("up to %s failed in a step", p.objective.Amount(most))
	}
	c.freeze(r, p, x)
	c.days(r, x)
	return c
}

// levels are the lines worth a label.
func levels(low int64) []int64 {
	out := []int64{1_000_000, 0}
	if low < -250_000 {
		out = append(out, low)
	} else {
		out = append(out, 500_000)
	}
	return out
}

func (c *Chart) line(p ReviewPromise, x func(time.Time) int64, y func(int64) int64) {
	var line, area strings.Builder
	pen, first, last := false, int64(0), int64(0)
	closeArea := func() {
		if pen {
			fmt.Fprintf(&area, "L%s %s L%s %sZ", tenths(last), c.ZeroY, tenths(first), c.ZeroY)
		}
		pen = false
	}
	for _, pt := range p.Points {
		if pt.RemainingPPM == nil {
			closeArea() // a gap is a gap
			continue
		}
		at := fmt.Sprintf("%s %s", tenths(x(pt.At)), tenths(y(*pt.RemainingPPM)))
		verb := "L"
		if !pen {
			verb, first = "M", x(pt.At)
		}
		line.WriteString(verb + at)
		area.WriteString(verb + at)
		pen, last = true, x(pt.At)
	}
	closeArea()
	c.Line, c.Area = line.String(), area.String()
	for i := len(p.Points) - 1; i >= 0; i-- {
		if pt := p.Points[i]; pt.RemainingPPM != nil {
			c.Dots = []ChartDot{{tenths(x(pt.At)), tenths(y(*pt.RemainingPPM))}}
			break
		}
	}
}

func (c *Chart) bars(p ReviewPromise, most int64, x func(time.Time) int64) {
	before := p.from
	for _, pt := range p.Points {
		if pt.Bad > 0 {
			h := max(pt.Bad*(barsBottom-barsTop)*10/most, 10)
			left, right := x(before), x(pt.At)
			gap := min((right-left)/5, 10)
			c.Bars = append(c.Bars, ChartBar{tenths(left + gap/2), tenths(barsBottom*10 - h), tenths(max(right-left-gap, 5)), tenths(h)})
		}
		before = pt.At
	}
}

// freeze shades the time in which releases were frozen.
func (c *Chart) freeze(r Review, p ReviewPromise, x func(time.Time) int64) {
	level, at := slo.Unknown, r.From
	if len(p.Moves) > 0 {
		level = p.Moves[0].From
	} else if p.FrozenSeconds > 0 {
		level = slo.Frozen
	}
	shade := func(to time.Time) {
		if level == slo.Frozen {
			c.Frozen = append(c.Frozen, ChartBar{tenths(x(at)), tenths(plotTop * 10), tenths(max(x(to)-x(at), 10)), tenths((barsBottom - plotTop) * 10)})
		}
	}
	for _, m := range p.Moves {
		shade(m.At)
		level, at = m.To, m.At
	}
	shade(r.Until)
}

// days labels where days of a week, and weeks or months of longer periods, begin.
func (c *Chart) days(r Review, x func(time.Time) int64) {
	zone := in(r.Zone, r.From).Location()
	for n := 0; n < 130; n++ {
		d := in(r.Zone, r.From)
		at := time.Date(d.Year(), d.Month(), d.Day()+n, 0, 0, 0, 0, zone)
		if !at.Before(r.To) {
			return
		}
		switch slo.Unit(r.Period) {
		case slo.Week:
			c.Days = append(c.Days, ChartMark{tenths(x(at)), at.Format("Mon 2")})
		case slo.Month:
			if n%7 == 0 {
				c.Days = append(c.Days, ChartMark{tenths(x(at)), at.Format("2 Jan")})
			}
		default:
			if at.Day() == 1 || at.Day() == 15 {
				c.Days = append(c.Days, ChartMark{tenths(x(at)), at.Format("2 Jan")})
			}
		}
	}
}
