package web

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"breakwater/internal/histogram"
	"breakwater/slo"
	"breakwater/slo/traffic"
)

// serviceMore is what the page of a service shows beside its promise.
type serviceMore struct {
	Heat             *HeatChart
	HeatTrouble      string
	Callers, Calls   []BesideRow
	Codes            []BesideRow
	AroundTrouble    string
	NowHref, SLOHref string
}

// HeatChart is a heat map; cells of one strength are one path in a box of steps by rows.
type HeatChart struct {
	Summary, ViewBox string
	Levels           []HeatLevel
	Y, X             []Tick
	Rows             []Row
	Gaps             []Stretch
}

// HeatLevel is all cells of one strength.
type HeatLevel struct{ Class, D string }

// BesideRow is a neighbour, or a way to fail.
type BesideRow struct {
	Name, Href, Count, Share, Class string
	Bar                             Bar
}

const heatLevels = 6

func (s *Server) more(r *http.Request, v view, st *slo.Status) serviceMore {
	o := st.Objective
	m := serviceMore{NowHref: "/now?" + url.Values{"service": {o.Service}, "env": {st.Env}}.Encode(), SLOHref: sloHref(st)}
	const step = 2 * time.Minute
	to := v.now.Truncate(step).Add(step)
	from := to.Add(-time.Hour)
	heat, err := s.cfg.Traffic.Heat(r.Context(), o.Service, st.Env, from, to, step)
	if m.HeatTrouble = s.read(v, "Latencies", err); err == nil {
		if m.Heat = v.heat(axis{from: from, to: to}, step, heat); m.Heat == nil {
			m.HeatTrouble = v.say("No latency was measured in the last hour.")
		}
	}
	around, err := s.cfg.Traffic.Around(r.Context(), o.Service, st.Env, from, to)
	m.AroundTrouble = s.read(v, "Neighbours", err)
	var bad, asked int64
	for _, b := range around {
		switch b.Side {
		case "code", "kind":
			bad = max(bad, b.Bad)
		case "caller":
			asked += b.Total
		}
	}
	for _, b := range around {
		row := BesideRow{Name: cmp.Or(b.Name, v.say("without a name")), Count: slo.Count(b.Total), Share: slo.Share(b.Bad, b.Total)}
		if b.Bad*100 >= b.Total && b.Bad > 0 {
			row.Class = "fg-emergency"
		}
		switch b.Side {
		case "caller":
			row.Bar = Bar{Class: "f-c4", Size: "thin", Width: pos(100 * float64(b.Total) / float64(max(asked, 1))), Label: v.say("%s requests", slo.Count(b.Total))}
			m.Callers = append(m.Callers, row)
		case "calls":
			row.Href = serviceHref(b.Name)
			m.Calls = append(m.Calls, row)
		default:
			row.Name, row.Count = v.word(strings.ReplaceAll(b.Name, "_", " ")), slo.Count(b.Bad)
			if b.Side == "code" {
				row.Name = v.say("code %s", b.Name)
			}
			row.Bar = Bar{Class: "f-emergency", Size: "thin", Width: pos(100 * float64(b.Bad) / float64(max(bad, 1))), Label: v.say("%s failures", slo.Count(b.Bad))}
			m.Codes = append(m.Codes, row)
		}
	}
	return m
}

// micros writes a latency.
func micros(us float64) string {
	switch {
	case us < 1_000:
		return fmt.Sprintf("%.0f\u202fµs", us)
	case us < 9_950:
		return strings.TrimSuffix(fmt.Sprintf("%.1f", us/1_000), ".0") + "\u202fms"
	case us < 999_500:
		return fmt.Sprintf("%.0f\u202fms", us/1_000)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", us/1_000_000), ".0") + "\u202fs"
}

// heat draws how latencies were spread; nil: there were none.
func (v view) heat(a axis, step time.Duration, steps []traffic.HeatStep) *HeatChart {
	columns := int(a.to.Sub(a.from) / step)
	all := make([]traffic.HeatStep, columns)
	for _, s := range steps {
		if i := int(s.At.Sub(a.from) / step); i >= 0 && i < columns {
			all[i] = s
		}
	}
	m := traffic.Heat(all)
	rows := len(m.LowUS)
	if rows == 0 {
		return nil
	}
	c := &HeatChart{ViewBox: fmt.Sprintf("0 0 %d %d", columns, rows), X: v.times(a)}
	paths := make([]strings.Builder, heatLevels)
	for i, cells := range m.Counts {
		for r, n := range cells {
			if n > 0 {
				// Each level holds twice as much as the one before: a few slow ones among
				// thousands must be seen.
				level := heatLevels - 1
				for most := m.Most; level > 0 && n*2 <= most; most /= 2 {
					level--
				}
				fmt.Fprintf(&paths[level], "M%d %dh1v1h-1z", i, rows-1-r)
			}
		}
	}
	for i := range paths {
		if d := paths[i].String(); d != "" {
			c.Levels = append(c.Levels, HeatLevel{fmt.Sprintf("heat%d", i+1), d})
		}
	}
	for r, every := 0, max(rows/5, 1); r < rows; r += every {
		c.Y = append(c.Y, Tick{At: pos(100 * float64(rows-r) / float64(rows)), Text: micros(m.LowUS[r])})
	}
	var sum int64
	for i, s := range all {
		at := a.from.Add(time.Duration(i) * step)
		row := Row{Time: v.clock(at), Cells: []Cell{{"", "no data", true}, {"", "–", true}, {"", "–", true}, {"", "–", true}}}
		if n := histogram.Bins(s.Hist).Count(); n > 0 {
			sum += n
			row.Cells = []Cell{{"", slo.Count(n), false}}
			for _, q := range []float64{0.5, 0.95, 0.99} {
				cell := Cell{"", "–", true}
				if got := histogram.Bins(s.Hist).Quantile(q, s.MaxUS); !got.Empty {
					cell = Cell{"", micros(got.US), false}
				}
				row.Cells = append(row.Cells, cell)
			}
		} else {
			c.Gaps = append(c.Gaps, a.stretch(at, at.Add(step)))
		}
		c.Rows = append(c.Rows, row)
	}
	c.Summary = v.say("Latency of %s requests: the darker a cell, the more of its %s; each shade is twice the one before.", slo.Count(sum), v.lasting(step))
	return c
}
