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
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/traffic"
)

// triesChart is how many tries the target's requests cost over the run, with its fault
// behind: what a retry storm looks like before users feel it.
func (v view) triesChart(a axis, run injector.Run, points []injector.Point) *Chart {
	at, value, low, top := make([]time.Time, len(points)), make([]float64, len(points)), 1.0, 1.05
	for i, p := range points {
		at[i], value[i] = p.At, math.NaN()
		if n := p.Good + p.Bad; n > 0 {
			value[i] = float64(p.Attempts) / float64(n)
			low, top = min(low, value[i]), max(top, value[i])
		}
	}
	var ticks []float64
	a.min, a.max, ticks = nice(low, top)
	c := &Chart{ID: "run-tries", Height: "h120", Summary: v.say("Tries a request; what lies above 1 is load that retries make."), Columns: []string{v.say("Tries a request"), v.say("Requests"), v.say("Tries")},
		Label: v.say("Tries a request of %s during the run", run.Service), X: v.times(a), Gaps: a.gaps(at, value, 5*time.Second)}
	for _, t := range ticks {
		c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", t), "0"), ".")})
	}
	sp := spec{From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks, Series: []series{{Label: v.say("Tries a request"), Color: "--c1"}}, Bands: [][2]int64{}, Limits: []specLimit{}}
	v.bandsOf(a, []injector.Run{run}, c, &sp)
	line, _ := a.path(at, value, 1)
	c.Lines, c.Spec = []Line{{"c1", line}}, sp.json()
	for _, p := range points {
		row := Row{Time: v.clock(p.At), Cells: []Cell{{"", v.say("no data"), true}, {"", "0", true}, {"", "–", true}}}
		if n := p.Good + p.Bad; n > 0 {
			row.Cells = []Cell{{fmt.Sprintf("%.4f", float64(p.Attempts)/float64(n)), tries(slo.Part(p.Attempts, n) / 1000), p.Attempts <= n}, {"", slo.Count(n), false}, {"", slo.Count(p.Attempts), false}}
		}
		c.Rows = append(c.Rows, row)
	}
	return c
}

// runBands is how the policies of the target stood over the run, with its fault behind.
func (s *Server) runBands(r *http.Request, v view, a axis, run injector.Run) (*Bands, string) {
	t := s.cfg.Traffic
	turns, err1 := t.PolicyTurns(r.Context(), a.from, a.to)
	lives, err2 := t.Lives(r.Context(), a.from, a.to)
	served, err3 := t.Served(r.Context(), a.from)
	if err := errors.Join(err1, err2, err3); err != nil {
		return nil, s.read(v, "What policies did", err)
	}
	var known []traffic.Key
	for _, c := range served {
		keys, _ := c.Policies()
		known = append(known, keys...)
	}
	foreign := func(service, upstream string) bool {
		return service != run.Service && (service != "" || upstream != run.Service)
	}
	turns = slices.DeleteFunc(turns, func(x retrylog.Transition) bool { return foreign(x.Service, x.Upstream) })
	known = slices.DeleteFunc(known, func(k traffic.Key) bool { return foreign(k.Service, k.Upstream) })
	bands := traffic.Bands(turns, lives, known, a.from, a.to)
	gateways := map[string]bool{}
	for _, b := range bands {
		gateways[b.Env+"/"+b.Gateway] = true
	}
	v.runs = []injector.Run{run}
	out := v.bands(a, bands, len(gateways) > 1)
	if out != nil {
		for i := range out.X { // seconds are too long to stand side by side on a phone
			out.X[i].Wide = out.X[i].Anchor == "middle"
		}
		out.Label, out.Rest = v.say("State of the policies of %s during the run", run.Service), ""
	}
	return out, ""
}
