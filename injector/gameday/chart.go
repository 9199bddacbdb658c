package gameday

import (
	"fmt"
	"strings"
	"time"

	"breakwater/injector"
)

// The plot, in units of its viewBox.
const (
	chartWide, chartHigh = 640, 150
	plotLeft, plotRight  = 44, 630
	plotTop, plotZero    = 22, 122
	// Gateways count for five seconds at a time: finer steps would show holes.
	finest, most = 5 * time.Second, 60
)

// steps is how many columns c is drawn in.
func (c Course) steps() int64 {
	return min(max(int64(c.Until.Sub(c.From)/finest), 1), most)
}

// column is what one step of a course counted.
type column struct{ bad, all, injected, attempts int64 }

// columns folds the points of c into equal steps.
func (c Course) columns() []column {
	n := c.steps()
	out := make([]column, n)
	span := int64(c.Until.Sub(c.From))
	if span <= 0 {
		return out
	}
	for _, p := range c.Points {
		// A point counts what came before its instant.
		i := min(max(int64(p.At.Sub(c.From)-time.Second)*n/span, 0), n-1)
		out[i].bad += p.Bad
		out[i].all += p.Good + p.Bad
		out[i].injected += p.Injected
		out[i].attempts += p.Attempts
	}
	return out
}

// worst is the largest failed share of a column, ppm.
func worst(all []column) (ppm int64) {
	for _, c := range all {
		if c.all > 0 {
			ppm = max(ppm, c.bad*1_000_000/c.all)
		}
	}
	return ppm
}

// scale is the top of the axis: the next of a few round shares.
func scale(ppm int64) int64 {
	for _, top := range []int64{10_000, 50_000, 100_000, 250_000, 500_000} {
		if ppm <= top {
			return top
		}
	}
	return 1_000_000
}

func percent(ppm int64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%02d", ppm/10_000, ppm%10_000/100), "0"), ".") + " %"
}

// SVG draws the failed share of c over time, with the injection shaded: integers
// alone, so that one story is the same bytes everywhere.
func (c Course) SVG() string {
	all, steps := c.columns(), c.steps()
	top := scale(worst(all))
	var out strings.Builder
	title := fmt.Sprintf("Failed share of %s during %s, at most %s", c.Service, c.Run, percent(worst(all)))
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="sans-serif" font-size="11"><title>%s</title>`,
		chartWide, chartHigh, chartWide, chartHigh, title)
	fmt.Fprintf(&out, `<rect width="%d" height="%d" fill="#fff"/>`, chartWide, chartHigh)
	x := func(t time.Time) int64 {
		span := int64(c.Until.Sub(c.From))
		if span <= 0 {
			return plotLeft
		}
		return plotLeft + min(max(int64(t.Sub(c.From)), 0), span)*(plotRight-plotLeft)/span
	}
	if !c.Hit.IsZero() {
		from, to := x(c.Hit), x(c.Back)
		fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#fde9c8"/><text x="%d" y="%d" fill="#7a4b00">injecting</text>`,
			from, plotTop, max(to-from, 1), plotZero-plotTop, from+3, plotTop+12)
	}
	for _, share := range []int64{0, top / 2, top} {
		y := plotZero - share*(plotZero-plotTop)/top
		fmt.Fprintf(&out, `<line x1="%d" x2="%d" y1="%d" y2="%d" stroke="#ccc"/><text x="%d" y="%d" text-anchor="end" fill="#555">%s</text>`,
			plotLeft, plotRight, y, y, plotLeft-4, y+4, percent(share))
	}
	for i, col := range all {
		if col.all == 0 {
			continue
		}
		left := plotLeft + int64(i)*(plotRight-plotLeft)/steps
		right := plotLeft + int64(i+1)*(plotRight-plotLeft)/steps
		high := min(col.bad*1_000_000/col.all, top) * (plotZero - plotTop) / top
		if col.bad > 0 {
			high = max(high, 1)
		}
		if high > 0 {
			fmt.Fprintf(&out, `<rect x="%d" y="%d" width="%d" height="%d" fill="#b3261e"/>`, left, plotZero-high, max(right-left-1, 1), high)
		}
	}
	fmt.Fprintf(&out, `<text x="%d" y="%d" fill="#222">%s: failed requests</text>`, plotLeft, 14, c.Service)
	fmt.Fprintf(&out, `<text x="%d" y="%d" fill="#555">%s</text><text x="%d" y="%d" text-anchor="end" fill="#555">%s</text></svg>`,
		plotLeft, plotZero+16, clock(c.From), plotRight, plotZero+16, clock(c.Until))
	return out.String()
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

// Spark is c as one line of text, for readers without pictures.
func (c Course) Spark() string {
	all := c.columns()
	top := scale(worst(all))
	marks := []rune(" ▁▂▃▄▅▆▇█")
	var out strings.Builder
	for _, col := range all {
		i := int64(0)
		if col.all > 0 && col.bad > 0 {
			i = max(col.bad*1_000_000/col.all*8/top, 1)
		}
		out.WriteRune(marks[min(i, 8)])
	}
	return out.String()
}

// share is a/b in words.
func share(a, b int64) string {
	if b == 0 {
		return "none"
	}
	return fmt.Sprintf("%d of %d (%s)", a, b, percent(a*1_000_000/b))
}

// visible is what users of a run's target saw of it.
func visible(r injector.Run) string { return share(r.Bad, r.Good+r.Bad) }
