package web

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// Chart is a time series drawn twice from one set of values: as SVG by the
// server, which needs no script, and by <bw-chart> with a cursor. The table
// below it holds the values for people and for the script alike.
type Chart struct {
	ID, Summary, Label, Height string
	Y, X                       []Tick
	Gaps, Bands                []Stretch
	Limits                     []Limit
	Area                       string
	Lines                      []Line
	Bars                       []Rect
	Dots                       []Dot
	Marks                      []Mark
	Below                      string // the area under a target, where the line is under it
	Proj                       string // where the line would go
	Now                        string // the instant after which nothing is known
	Frozen                     []Stretch
	Columns                    []string
	Rows                       []Row
	Legend                     []Key
	Spec                       string // JSON for <bw-chart>
}

// The parts of a chart; positions are percent of the plot, ready to print.
type (
	Tick struct {
		At, Text, Anchor string
		Wide             bool // dropped on a phone
	}
	Stretch struct{ X, W, End string }
	Limit   struct{ At, Class, Text, Dy string }
	Line    struct{ Class, D string }
	Rect    struct{ Class, X, Y, W, H string }
	Dot     struct{ X, Y string }
	// Mark is something that happened at one instant.
	Mark struct{ At, Text, Anchor, Dx, Class string }
	// Key is one entry of the legend, a line or a filled patch.
	Key struct {
		Class, Text string
		Line        bool
	}
	Row struct {
		Time  Time
		Cells []Cell
	}
	// Cell is a value: V for the script, Text for people; V is "" for no data.
	Cell struct {
		V, Text string
		Mute    bool
	}
)

// spec is what the script cannot read off the table.
type spec struct {
	Unit   string      `json:"unit"`
	From   int64       `json:"from"`
	To     int64       `json:"to"`
	Min    float64     `json:"min"`
	Max    float64     `json:"max"`
	Ticks  []float64   `json:"ticks"`
	Series []series    `json:"series"`
	Bands  [][2]int64  `json:"bands"`
	Limits []specLimit `json:"limits"`
	Marks  []specMark  `json:"marks,omitempty"`
	// Below is a target: what lies under it is shaded.
	Below *float64     `json:"below,omitempty"`
	Proj  [][2]float64 `json:"proj,omitempty"` // instants in seconds, values
	Now   int64        `json:"now,omitempty"`
	// Frozen are spans in which releases were frozen.
	Frozen [][2]int64 `json:"frozen,omitempty"`
}

type series struct {
	Label string `json:"label"`
	Color string `json:"color"`
	Step  bool   `json:"step,omitempty"`
	Area  bool   `json:"area,omitempty"`
}

type specMark struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
	Kind string `json:"kind"`
}

type specLimit struct {
	Value float64 `json:"value"`
	Class string  `json:"class"`
	Text  string  `json:"text"`
}

// pos prints a percentage of the plot.
func pos(percent float64) string {
	return strconv.FormatFloat(math.Round(percent*100)/100, 'f', -1, 64)
}

// axis maps instants and values into the plot.
type axis struct {
	from, to time.Time
	min, max float64
}

func (a axis) x(t time.Time) float64 {
	return clamp(100 * float64(t.Sub(a.from)) / float64(a.to.Sub(a.from)))
}

func (a axis) y(v float64) float64 { return clamp(100 * (a.max - v) / (a.max - a.min)) }

func clamp(p float64) float64 { return min(max(p, 0), 100) }

// stretch is the part of the plot between two instants, at least wide enough to see.
func (a axis) stretch(from, to time.Time) Stretch {
	x, end := a.x(from), a.x(to)
	if end-x < 0.35 { // to the left where the right has no room: what began just now is seen too
		end = min(x+0.35, 100)
		x = min(x, end-0.35)
	}
	return Stretch{pos(x), pos(end - x), pos(end)}
}

// mark draws instants at which something happened, with their words beside them
// where there is room.
func (v view) mark(a axis, c *Chart, sp *spec, marks ...specMark) {
	last := -100.0
	for _, m := range marks {
		at := time.Unix(m.At, 0)
		if at.Before(a.from) || at.After(a.to) {
			continue
		}
		x := a.x(at)
		mark := Mark{At: pos(x), Anchor: "start", Dx: "6", Class: m.Kind}
		if x > 70 {
			mark.Anchor, mark.Dx = "end", "-6"
		}
		if x-last > 12 {
			mark.Text, last = m.Text, x
		} else {
			m.Text = ""
		}
		c.Marks, sp.Marks = append(c.Marks, mark), append(sp.Marks, m)
	}
}

// path draws values in the 1000 by 100 box of an SVG that stretches; NaN lifts
// the pen, so that a gap stays a gap. area closes each piece down to base.
func (a axis) path(at []time.Time, values []float64, base float64) (line, area string) {
	var l, ar strings.Builder
	var open bool
	var last string
	closePiece := func() {
		if open {
			ar.WriteString("L" + last + " " + pos(a.y(base)) + "z")
		}
		open = false
	}
	for i, v := range values {
		if math.IsNaN(v) {
			closePiece()
			continue
		}
		x, y := pos(a.x(at[i])*10), pos(a.y(v))
		if !open {
			l.WriteString("M" + x + " " + y)
			ar.WriteString("M" + x + " " + pos(a.y(base)) + "L" + x + " " + y)
		} else {
			l.WriteString("L" + x + " " + y)
			ar.WriteString("L" + x + " " + y)
		}
		open, last = true, x
	}
	closePiece()
	return l.String(), ar.String()
}

// gaps are the stretches where values are missing, from the last known point to
// the next; step is half of what a lone missing point covers.
func (a axis) gaps(at []time.Time, values []float64, step time.Duration) []Stretch {
	var out []Stretch
	for i := 0; i < len(values); i++ {
		if !math.IsNaN(values[i]) {
			continue
		}
		from := at[i].Add(-step)
		for i+1 < len(values) && math.IsNaN(values[i+1]) {
			i++
		}
		to := at[i].Add(step)
		if to.After(a.to) {
			to = a.to
		}
		if from.Before(a.from) {
			from = a.from
		}
		out = append(out, a.stretch(from, to))
	}
	return out
}

// nice picks 4 to 7 round ticks that hold lo and hi.
func nice(lo, hi float64) (from, to float64, ticks []float64) {
	if hi <= lo {
		hi = lo + 1
	}
	raw := (hi - lo) / 5
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	step := 10 * mag
	for _, m := range []float64{1, 2, 2.5, 5} {
		if m*mag >= raw*0.999 {
			step = m * mag
			break
		}
	}
	from, to = math.Floor(lo/step+1e-9)*step, math.Ceil(hi/step-1e-9)*step
	for i := 0; from+float64(i)*step <= to+step/2; i++ {
		ticks = append(ticks, from+float64(i)*step)
	}
	return from, to, ticks
}

// times puts labels along the bottom. Every second one is dropped on a phone.
func (w when) times(a axis) []Tick {
	length := a.to.Sub(a.from)
	layout := "15:04"
	switch {
	case length > 36*time.Hour:
		layout = "2 Jan"
	case length <= 5*time.Minute:
		layout = "15:04:05"
	}
	var out []Tick
	const n = 6
	for i := 0; i <= n; i++ {
		t := Tick{At: pos(float64(i) * 100 / n), Anchor: "middle", Wide: i%2 == 1,
			Text: w.written(a.from.Add(length*time.Duration(i)/n).In(w.zone), layout)}
		switch i {
		case 0:
			t.Anchor = "start"
		case n:
			t.Anchor = "end"
		}
		out = append(out, t)
	}
	return out
}

func (s spec) json() string {
	b, err := json.Marshal(s)
	if err != nil {
		return "{}" // a NaN limit; the SVG is there all the same
	}
	return string(b)
}
