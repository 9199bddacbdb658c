package web

import (
	"math"
	"strings"

	"breakwater/slo"
)

// Spark is the burn of the last day, small, without axes: the dotted line is the
// pace that spends exactly the budget.
type Spark struct {
	Class, Line, One string
	Gaps             []Rect
}

const sparkW, sparkH = 104.0, 30.0

// spark draws Status.Spark. The scale is by square root, because a budget worth
// a month can be spent in an hour and a quiet day beside it must not be flat.
func spark(st *slo.Status) Spark {
	values := st.Spark
	known, top := 0, 2000.0
	for _, v := range values {
		if v >= 0 {
			known++
			top = max(top, float64(v))
		}
	}
	if known == 0 || st.Budget.NoData {
		return Spark{}
	}
	x := func(i int) float64 { return sparkW * float64(i) / float64(max(len(values)-1, 1)) }
	y := func(milli float64) float64 { return sparkH - 2 - (sparkH-4.5)*math.Sqrt(milli/top) }
	sp := Spark{Class: "c4", One: pos(y(1000))}
	if l := st.Level; l == slo.Warn || l == slo.Emergency || l == slo.Frozen {
		sp.Class = string(l)
	}
	var line strings.Builder
	pen := false
	for i, v := range values {
		if v < 0 {
			pen = false
			continue
		}
		at := pos(x(i)) + " " + pos(y(float64(v)))
		if pen {
			line.WriteString("L" + at)
			continue
		}
		line.WriteString("M" + at)
		if i+1 == len(values) || values[i+1] < 0 {
			// A lone hour would draw nothing; give it the width of a dash.
			line.WriteString("h-3")
		}
		pen = true
	}
	sp.Line = line.String()
	for i := 0; i < len(values); i++ {
		if values[i] >= 0 {
			continue
		}
		from := i
		for i+1 < len(values) && values[i+1] < 0 {
			i++
		}
		left, right := x(max(from-1, 0)), x(min(i+1, len(values)-1))
		sp.Gaps = append(sp.Gaps, Rect{X: pos(left), W: pos(right - left)})
	}
	return sp
}
