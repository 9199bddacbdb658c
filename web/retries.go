package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
	"breakwater/slo/traffic"
)

type retriesView struct {
	Sub, Trouble, Service string
	Ranges, Services      []Link
	Facts                 []Fact
	Chart                 *Chart
	ChartTrouble          string
	Fates                 []FateRow
	FateBars              []FateBar
	FateSum               string
	Routes                []RetryRow
	More                  int
	Empty                 bool
	Explain               []slo.Line
	Take                  map[string]Take
}

// FateRow is one reason with what became of it.
type FateRow struct {
	Class, Name, Note, Count, Share string
	Code                            bool
}

// FateBar is a part of the whole; positions are percent.
type FateBar struct{ Class, X, W string }

// RetryRow is one route.
type RetryRow struct {
	Name, Of, Href             string
	Requests, Final, First     string
	Tries, Retries, Used, Help string
	TriesClass                 string
	UsedBar                    *Bar
}

const mostRetryRoutes = 40

func (s *Server) retries(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	a, step, links := v.trafficRange()
	service := r.URL.Query().Get("service")
	if service != "" && !s.cfg.Covers(r, service) {
		s.trouble(w, v, http.StatusForbidden, "Not your service", v.say("Your token does not cover %s.", service))
		return
	}
	page := retriesView{Ranges: links, Service: service, Take: map[string]Take{}}
	for _, t := range []string{"routes", "fates", "steps"} {
		page.Take[t] = take(r, t)
	}
	from, to := a.from.Truncate(time.Minute), a.to.Truncate(time.Minute).Add(time.Minute)
	found, err := s.tries(r.Context(), v.now, tryAsk{service, from, to, step})
	page.Trouble = s.read(v, "Retries", err)
	fates, steps, served := found.fates, found.steps, found.served
	names := map[string]bool{}
	routes := slices.DeleteFunc(slices.Clone(found.routes), func(x traffic.Route) bool {
		names[x.Service] = true
		return service != "" && x.Service != service || !s.cfg.Covers(r, x.Service)
	})
	// The most amplified first, then where the first try fails most.
	slices.SortStableFunc(routes, func(a, b traffic.Route) int {
		x, _ := traffic.Amplified(a.Tally)
		y, _ := traffic.Amplified(b.Tally)
		return cmp.Or(cmp.Compare(y, x), cmp.Compare(b.Tally.FirstTryBad, a.Tally.FirstTryBad), cmp.Compare(a.Service+a.Route, b.Service+b.Route))
	})
	if s.exported(w, v, retrySheets(routes, fates, steps)...) {
		return
	}
	budgets := map[string]int64{}
	for _, c := range served {
		for up, ratio := range c.Budgets() {
			budgets[up] = ratio
		}
	}
	sum := traffic.Sum(routes)
	page.Empty = len(routes) == 0 && page.Trouble == ""
	page.Sub = v.text(v.say("What failed at first, and what became of it."), v.say("Last %s.", v.lasting(a.to.Sub(a.from))))
	page.Services = v.serviceLinks(service, names)
	page.Facts, page.Explain = v.retryFacts(sum, fates)
	for _, x := range routes[:min(len(routes), mostRetryRoutes)] {
		page.Routes = append(page.Routes, v.retryRow(x, budgets[x.Upstream]))
	}
	page.More = len(routes) - len(page.Routes)
	page.Fates, page.FateBars, page.FateSum = v.fateRows(fates)
	if len(steps) == 0 && page.Trouble == "" {
		page.ChartTrouble = v.say("No request was counted in this range.")
	} else if page.Trouble == "" {
		page.Chart = v.amplification(a, step, service, steps)
	}
	s.show(w, v, http.StatusOK, "retries", Page{Title: "Retries", Crumbs: []Link{{Name: "Retries"}}}, page)
}

// tried is what the page of retries reads, the same for every reader.
type tried struct {
	routes []traffic.Route
	steps  []traffic.Minute
	fates  []traffic.Fate
	served []traffic.Served
}

// tryAsk is what for; its instants are whole minutes.
type tryAsk struct {
	service  string
	from, to time.Time
	step     time.Duration
}

// triesKept is how long tries are kept: an open page asks again each second.
const triesKept = 5 * time.Second

func (s *Server) tries(ctx context.Context, now time.Time, q tryAsk) (tried, error) {
	key := fmt.Sprint(q.from.Unix(), q.to.Unix(), q.step, q.service)
	found, _, err := s.retried.get(key, now, func() (out tried, err error) {
		t := s.cfg.Traffic
		var errs [4]error
		together(
			func() { out.routes, errs[0] = t.RetryRoutes(ctx, q.from, q.to) },
			func() { out.steps, errs[1] = t.RetrySteps(ctx, q.service, q.from.Truncate(q.step), q.to, q.step) },
			func() { out.fates, errs[2] = t.Fates(ctx, q.service, q.from, q.to) },
			func() { out.served, errs[3] = t.Served(ctx, q.from) })
		return out, errors.Join(errs[:]...)
	})
	return found, err
}

func (l lang) serviceLinks(here string, names map[string]bool) []Link {
	var all []string
	for n := range names {
		all = append(all, n)
	}
	slices.Sort(all)
	out := []Link{{Name: l.say("All services"), Here: here == ""}}
	for _, n := range all {
		out = append(out, Link{Name: n, Href: n, Here: n == here})
	}
	return out
}

// tries writes thousandths of a try: "1.043".
func tries(milli int64) string { return fmt.Sprintf("%d.%03d", milli/1000, milli%1000) }

func (l lang) retryFacts(t slo.Tally, fates []traffic.Fate) ([]Fact, []slo.Line) {
	amp := Fact{Name: "Tries a request", Value: "–", Class: "mute", Text: l.say("No request in this range.")}
	pair := Fact{Name: "Success (first try)", Value: "–", Class: "mute", Text: l.say("No valid request in this range.")}
	var lines []slo.Line
	if milli, ok := traffic.Amplified(t); ok {
		amp.Value, amp.Class = tries(milli), ""
		if milli > 1100 {
			amp.Class = "fg-warn"
		}
		amp.Text = l.say("%s tries for %s requests.", slo.Count(t.Attempts), slo.Count(t.Exchanges))
		lines = append(lines, slo.Line{ID: "tries", Label: l.say("Tries a request"), Value: tries(milli), Formula: slo.Count(t.Attempts) + " tries / " + slo.Count(t.Exchanges) + " requests",
			Meaning: l.say("1.000 is none too many. A request that was refused before any try has none, so that it may be less.")})
	}
	if valid := t.Good + t.Bad; valid > 0 {
		first := valid - traffic.FirstBad(t)
		pair.Value, pair.Unit, pair.Class = slo.Share(t.Good, valid), "("+slo.Share(first, valid)+")", ""
		pair.Text = l.say("%s would have failed at the first try, %s did in the end.", slo.Count(traffic.FirstBad(t)), slo.Count(t.Bad))
		lines = append(lines, slo.Line{ID: "final", Label: l.say("Success"), Value: slo.Share(t.Good, valid), Formula: slo.Count(t.Good) + " good / " + slo.Count(valid) + " valid", Meaning: l.say("What users saw, retries included.")},
			slo.Line{ID: "first", Label: l.say("First try"), Value: slo.Share(first, valid), Formula: "(" + slo.Count(valid) + " − " + slo.Count(traffic.FirstBad(t)) + ") / " + slo.Count(valid), Meaning: l.say("What they would have seen without any retry.")})
	}
	var retries, kept, gate, budget int64
	for _, f := range fates {
		retries += f.Retries
		switch {
		case f.Retried:
		case f.Reason == "error_rate_gate":
			gate += f.Count
			kept += f.Count
		case f.Reason == "retry_budget":
			budget += f.Count
			kept += f.Count
		default:
			kept += f.Count
		}
	}
	// Reasons came into the log later than counts: each request that was retried had one at least.
	sent := Fact{Name: "Retries sent", Value: slo.Count(max(retries, t.Retried)), Text: l.say("%s of %s requests that were retried ended good.", slo.Count(t.Recovered), slo.Count(t.Retried))}
	held := Fact{Name: "Not retried", Value: slo.Count(kept), Text: l.say("%s since too much failed (error rate gate), %s since the retry budget was used up.", slo.Count(gate), slo.Count(budget))}
	if gate+budget > 0 {
		held.Class = "fg-warn"
	}
	return []Fact{amp, pair, sent, held}, lines
}

func (l lang) retryRow(x traffic.Route, ratioMilli int64) RetryRow {
	row := RetryRow{Name: x.Route, Of: x.Service, Href: "/retries?service=" + url.QueryEscape(x.Service), Requests: slo.Count(x.Tally.Exchanges), Final: l.say("no data"), Tries: "–", Retries: slo.Count(traffic.Extra(x.Tally)), Used: "–"}
	if x.Upstream != "" && x.Upstream != x.Service {
		row.Of = l.say("%s to %v", row.Of, x.Upstream)
	}
	if milli, ok := traffic.Amplified(x.Tally); ok {
		row.Tries = tries(milli)
		if milli > 1100 {
			row.TriesClass = "fg-warn strong"
		}
	}
	if valid := x.Tally.Good + x.Tally.Bad; valid > 0 {
		row.Final, row.First = slo.Share(x.Tally.Good, valid), "("+slo.Share(valid-traffic.FirstBad(x.Tally), valid)+")"
	}
	if ppm, ok := traffic.Used(x.Tally, ratioMilli); ok {
		row.Used = slo.SpentPercent(ppm)
		b := Bar{Class: "f-c1", Size: "thin", Width: pos(clamp(float64(ppm) / 10_000)), Label: l.say("%s of the retry budget", row.Used)}
		if ppm > 800_000 {
			b.Class = "f-warn"
		}
		row.UsedBar = &b
	}
	return row
}

// fateRows splits what was retried into what it came to, and keeps each reason of what
// was not.
func (l lang) fateRows(fates []traffic.Fate) (rows []FateRow, bars []FateBar, sum string) {
	var all, x int64
	var saved, failed, neither int64
	for _, f := range fates {
		all += f.Count
		saved, failed, neither = saved+f.Recovered, failed+f.Failed, neither+f.Neither
	}
	if all == 0 {
		return nil, nil, ""
	}
	add := func(class, name, note string, n int64, code bool) {
		if n == 0 {
			return
		}
		rows = append(rows, FateRow{Class: class, Name: name, Note: note, Count: slo.Count(n), Share: slo.Percent(slo.Part(n, all)), Code: code})
		bars = append(bars, FateBar{Class: class, X: pos(100 * float64(x) / float64(all)), W: pos(max(100*float64(n)/float64(all)-0.25, 0.1))}) // a gap between two, and never less than a line
		x += n
	}
	add("f-normal", l.say("recovered"), l.say("retried, and good in the end"), saved, false)
	add("f-emergency", l.say("failed again"), l.say("retried, and bad in the end"), failed, false)
	add("f-c4", l.say("neither"), l.say("retried, then a 4xx, or the client went away"), neither, false)
	classes := []string{"f-c2", "f-c3", "f-half", "f-c1", "f-open", "f-c4"}
	i := 0
	for _, f := range fates {
		if !f.Retried {
			add(classes[i%len(classes)], f.Reason, l.skipWords(f.Reason), f.Count, true)
			i++
		}
	}
	return rows, bars, slo.Count(all)
}

// skipWords says in plain words why a retry was not made.
func (l lang) skipWords(reason string) string {
	words := map[string]string{
		"refused": phrase("a policy of ours said no"), "status_not_listed": phrase("the failure is none that is retried"), "secondary_unmatched": phrase("a bare 503"),
		"latency_after_head": phrase("slow, but the answer had begun"), "rule_never": phrase("a rule says never"), "rule_fallback": phrase("a rule says fallback"), "connect_never": phrase("connecting is not retried"),
		"attempts_exhausted": phrase("all tries were used"), "non_idempotent": phrase("doing it twice would do it twice"), "body_not_replayable": phrase("the body was not kept"),
		"retry_count": phrase("another hop of the path retries"), "client_gone": phrase("the client had gone"), "retry_after_exceeds_cap": phrase("the upstream asks to wait too long"),
		"retry_after_exceeds_deadline": phrase("the upstream asks to wait beyond the deadline"), "deadline": phrase("no time was left"), "error_rate_gate": phrase("so much failed that retries would add load"),
		"retry_budget": phrase("the budget of retries was used up"),
	}
	return l.word(words[reason])
}

// amplification draws tries a request over time.
func (v view) amplification(a axis, step time.Duration, service string, steps []traffic.Minute) *Chart {
	at, value, top := []time.Time{}, []float64{}, 1.05
	byTime := map[int64]traffic.Minute{}
	for _, m := range steps {
		byTime[m.At.Unix()] = m
	}
	var rows []traffic.Minute
	for t := a.from.Truncate(step); t.Before(a.to); t = t.Add(step) {
		m := byTime[t.Unix()]
		m.At = t
		rows = append(rows, m)
		milli, ok := traffic.Amplified(m.Tally)
		at = append(at, t)
		value = append(value, math.NaN())
		if ok {
			value[len(value)-1] = float64(milli) / 1000
			top = max(top, value[len(value)-1])
		}
	}
	var ticks []float64
	low := 1.0
	for _, x := range value {
		if !math.IsNaN(x) {
			low = min(low, x)
		}
	}
	a.min, a.max, ticks = nice(low, top)
	c := &Chart{ID: "amplification", Height: "h264", Columns: []string{v.say("Tries a request"), v.say("Requests"), v.say("Tries"), v.say("Failed at first"), v.say("Failed")}, X: v.times(a), Gaps: a.gaps(at, value, step), Label: v.say("Tries a request over time")}
	for _, t := range ticks {
		c.Y = append(c.Y, Tick{At: pos(a.y(t)), Text: strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.3f", t), "0"), ".")})
	}
	sp := spec{From: a.from.Unix(), To: a.to.Unix(), Min: a.min, Max: a.max, Ticks: ticks, Series: []series{{Label: v.say("Tries a request"), Color: "--c1"}}, Bands: [][2]int64{}, Limits: []specLimit{}}
	runs := v.runs
	if service != "" {
		runs = v.runsOf(service)
	}
	v.bandsOf(a, runs, c, &sp)
	line, _ := a.path(at, value, 1)
	c.Lines, c.Spec = []Line{{"c1", line}}, sp.json()
	c.Legend = []Key{{Class: "c1", Text: v.say("tries a request"), Line: true}}
	if len(c.Bands) > 0 {
		c.Legend = append(c.Legend, Key{Class: "band", Text: v.say("experiment")})
	}
	if len(c.Gaps) > 0 {
		c.Legend = append(c.Legend, Key{Class: "f-hatch", Text: v.say("no data")})
	}
	for i, m := range rows {
		row := Row{Time: v.clock(m.At), Cells: []Cell{{"", v.say("no data"), true}, {"", "–", true}, {"", "–", true}, {"", "–", true}, {"", "–", true}}}
		if t := m.Tally; !math.IsNaN(value[i]) {
			milli, _ := traffic.Amplified(t)
			row.Cells = []Cell{{fmt.Sprintf("%.3f", value[i]), tries(milli), false}, {"", slo.Count(t.Exchanges), false}, {"", slo.Count(t.Attempts), false}, {"", slo.Count(t.FirstTryBad), t.FirstTryBad == 0}, {"", slo.Count(t.Bad), t.Bad == 0}}
		}
		c.Rows = append(c.Rows, row)
	}
	c.Summary = v.say("1 is one try for each request; what lies above it is load that retries make, in steps of %s.", v.lasting(step))
	return c
}

func retrySheets(routes []traffic.Route, fates []traffic.Fate, steps []traffic.Minute) []sheet {
	counts := []string{"requests", "tries", "good", "bad", "first_try_bad", "retried", "recovered"}
	tally := func(t slo.Tally) []field {
		return []field{num(t.Exchanges), num(t.Attempts), num(t.Good), num(t.Bad), num(t.FirstTryBad), num(t.Retried), num(t.Recovered)}
	}
	r := sheet{name: "routes", columns: append([]string{"service", "env", "route", "upstream"}, counts...)}
	for _, x := range routes {
		r.rows = append(r.rows, append([]field{txt(x.Service), txt(x.Env), txt(x.Route), txt(x.Upstream)}, tally(x.Tally)...))
	}
	f := sheet{name: "fates", columns: []string{"reason", "retried", "count", "retries", "recovered", "failed"}}
	for _, x := range fates {
		f.rows = append(f.rows, []field{txt(x.Reason), txt(map[bool]string{true: "yes", false: "no"}[x.Retried]), num(x.Count), num(x.Retries), num(x.Recovered), num(x.Failed)})
	}
	s := sheet{name: "steps", columns: append([]string{"at"}, counts...)}
	for _, x := range steps {
		s.rows = append(s.rows, append([]field{instant(x.At)}, tally(x.Tally)...))
	}
	return []sheet{r, f, s}
}
