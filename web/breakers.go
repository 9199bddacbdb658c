package web

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/traffic"
)

// Traffic is what the pages need of how requests fared and what policies did.
type Traffic interface {
	PolicyTurns(ctx context.Context, from, to time.Time) ([]retrylog.Transition, error)
	Lives(ctx context.Context, from, to time.Time) ([]traffic.Life, error)
	Served(ctx context.Context, since time.Time) ([]traffic.Served, error)
	Refusals(ctx context.Context, from, to time.Time) ([]traffic.Refusal, error)
	RetryRoutes(ctx context.Context, from, to time.Time) ([]traffic.Route, error)
	// RetrySteps counts by steps; service "" is all of them.
	RetrySteps(ctx context.Context, service string, from, to time.Time, step time.Duration) ([]traffic.Minute, error)
	Fates(ctx context.Context, service string, from, to time.Time) ([]traffic.Fate, error)
	Heat(ctx context.Context, service, env string, from, to time.Time, step time.Duration) ([]traffic.HeatStep, error)
	Around(ctx context.Context, service, env string, from, to time.Time) ([]traffic.Beside, error)
}

// trafficRanges are how far back pages of traffic look.
var trafficRanges = [...]struct {
	key        string
	back, step time.Duration
}{{"15m", 15 * time.Minute, time.Minute}, {"1h", time.Hour, time.Minute}, {"6h", 6 * time.Hour, 5 * time.Minute}}

// trafficRange is the range asked for, an hour otherwise.
func (v view) trafficRange() (a axis, step time.Duration, links []Link) {
	chosen := 1
	for i, c := range trafficRanges {
		if c.key == v.r.URL.Query().Get("r") {
			chosen = i
		}
	}
	for i, c := range trafficRanges {
		links = append(links, Link{Name: v.lasting(c.back), Href: with(v.r, "r", c.key), Here: i == chosen})
	}
	c := trafficRanges[chosen]
	return axis{from: v.now.Add(-c.back), to: v.now}, c.step, links
}

type breakersView struct {
	Sub, Trouble       string
	Ranges             []Link
	Bands              *Bands
	Now                []LampRow
	More               int
	Turns              []TurnRow
	TurnsSub           string
	Limits             []LimitRow
	LimitsSub          string
	Refused            []RefusedRow
	Empty              bool
	Take               map[string]Take
	API, Quiet, Height string
}

// Bands is how policies stood over time, one lane each.
type Bands struct {
	Label, Summary, Height string
	Lanes                  []BandLane
	Faults                 []Stretch
	X                      []Tick
	Rest                   string // of those that are not drawn
}

// Brief reports whether all names are short, so that their column may be narrow.
func (b *Bands) Brief() bool {
	return !slices.ContainsFunc(b.Lanes, func(l BandLane) bool { return len([]rune(l.Name)) > 12 })
}

// BandLane is one policy; positions are percent.
type BandLane struct {
	Name, Full, Y string
	Spans         []BandSpan
}

// BandSpan is a state that lasted.
type BandSpan struct {
	Class, X, Y, W, H string
	Title             string
}

// Lamp is a state as a mark with its word.
type Lamp struct{ Class, Icon, Text string }

// LampRow is one policy now.
type LampRow struct {
	Name, Kind, Gateway, Href string
	Lamp                      Lamp
	Since                     Time
	Reason, Out, Turns        string
}

// TurnRow is one change of one policy.
type TurnRow struct {
	Time                        Time
	Name, Kind, Gateway, Reason string
	From                        string
	Lamp                        Lamp
}

// LimitRow is a limit that configurations set.
type LimitRow struct{ Name, Kind, Route, Text, Gateways string }

// RefusedRow is what a policy refused.
type RefusedRow struct {
	Service, Href, Policy, Reason, Count string
	Bar                                  Bar
}

const mostLanes = 16

func lamp(policy, state string) Lamp {
	word := strings.ReplaceAll(state, "_", "-")
	switch {
	case state == "":
		return Lamp{"", "s-nodata", "no data"}
	case state == "half_open":
		return Lamp{"half", "b-half", word}
	case state == traffic.Rest(policy):
		return Lamp{"closed", "b-closed", word}
	case state == "open":
		return Lamp{"open", "b-open", word}
	}
	return Lamp{"half", "b-half", word}
}

func bandClass(policy, state string) string {
	switch {
	case state == "":
		return "f-hatch"
	case state == traffic.Rest(policy):
		return "f-closed"
	case state == "open":
		return "f-open"
	}
	return "f-half"
}

func (s *Server) breakers(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	a, _, links := v.trafficRange()
	page := breakersView{Ranges: links, Take: map[string]Take{}}
	for _, t := range []string{"states", "spans", "transitions", "limits", "refusals"} {
		page.Take[t] = take(r, t)
	}
	t := s.cfg.Traffic
	var turns []retrylog.Transition
	var lives []traffic.Life
	var served []traffic.Served
	var refused []traffic.Refusal
	var errs [4]error
	together(
		func() { turns, errs[0] = t.PolicyTurns(r.Context(), a.from, a.to) },
		func() { lives, errs[1] = t.Lives(r.Context(), a.from, a.to) },
		func() { served, errs[2] = t.Served(r.Context(), a.from) },
		func() { refused, errs[3] = t.Refusals(r.Context(), a.from, a.to) })
	page.Trouble = s.read(v, "What policies did", errors.Join(errs[:]...))
	var known []traffic.Key
	var limits []traffic.Limit
	for _, c := range served {
		keys, set := c.Policies()
		known, limits = append(known, keys...), append(limits, set...)
	}
	covers := func(service string) bool { return service == "" || s.cfg.Covers(r, service) }
	turns = slices.DeleteFunc(turns, func(x retrylog.Transition) bool { return !covers(x.Service) })
	known = slices.DeleteFunc(known, func(k traffic.Key) bool { return !covers(k.Service) })
	refused = slices.DeleteFunc(refused, func(x traffic.Refusal) bool { return !covers(x.Service) })
	bands := traffic.Bands(turns, lives, known, a.from, a.to)
	if s.exported(w, v, trafficSheets(bands, turns, limits, refused)...) {
		return
	}
	gateways := map[string]bool{}
	for _, b := range bands {
		gateways[b.Env+"/"+b.Gateway] = true
	}
	many := len(gateways) > 1
	page.Sub = v.text(v.standing(bands), v.say("Last %s.", v.lasting(a.to.Sub(a.from))))
	page.Empty = len(bands) == 0 && page.Trouble == ""
	page.Bands = v.bands(a, bands, many)
	for _, b := range bands {
		if len(page.Now) == 30 {
			page.More = len(bands) - len(page.Now)
			break
		}
		page.Now = append(page.Now, v.lampRow(b))
	}
	within := 0
	for _, x := range slices.Backward(turns) {
		if x.At.Before(a.from) {
			continue
		}
		if within++; len(page.Turns) < 40 {
			k := traffic.Key{Service: x.Service, Upstream: x.Upstream, Endpoint: x.Endpoint}
			page.Turns = append(page.Turns, TurnRow{Time: v.short(x.At), Name: k.Name(), Kind: v.of("policy", x.Policy), Gateway: x.Gateway, From: v.of("breaker", strings.ReplaceAll(x.From, "_", "-")), Lamp: lamp(x.Policy, x.To), Reason: v.tell(x.Reason)})
		}
	}
	page.TurnsSub = v.say("stored events, newest first")
	if within > len(page.Turns) {
		page.TurnsSub = v.say("last %s of %s", slo.Count(int64(len(page.Turns))), slo.Count(int64(within)))
	}
	page.Limits = limitRows(limits)
	for i, l := range page.Limits {
		page.Limits[i].Kind, page.Limits[i].Text = v.of("policy", l.Kind), v.tell(l.Text)
	}
	var top int64
	for _, x := range refused {
		top = max(top, x.Count)
	}
	for _, x := range refused[:min(len(refused), 20)] {
		page.Refused = append(page.Refused, RefusedRow{Service: x.Service, Href: serviceHref(x.Service), Policy: v.of("policy", x.Policy), Reason: v.of("refused", strings.ReplaceAll(x.Reason, "_", " ")), Count: slo.Count(x.Count),
			Bar: Bar{Class: "f-c1", Size: "thin", Width: pos(100 * float64(x.Count) / float64(max(top, 1))), Label: v.say("%s refused", slo.Count(x.Count))}})
	}
	s.show(w, v, http.StatusOK, "breakers", Page{Title: "Breakers and limits", Crumbs: []Link{{Name: "Breakers and limits"}}}, page)
}

// standing counts breakers by state: "23 breakers: 1 open, 22 closed."
func (l lang) standing(bands []traffic.Band) string {
	count := map[string]int{}
	n := 0
	for _, b := range bands {
		if b.Policy == "breaker" {
			count[b.State]++
			n++
		}
	}
	if n == 0 {
		return l.say("No breaker is known.")
	}
	var parts []string
	for _, state := range []string{"open", "half_open", "closed", ""} {
		if count[state] > 0 {
			parts = append(parts, l.say("%s %s", slo.Count(int64(count[state])), l.of("breaker", lamp("breaker", state).Text)))
		}
	}
	return l.say("%s: %s.", l.count(n, "breaker", "breakers"), l.list(parts...))
}

// bands draws the policies that moved or of which nobody reports; the others are said.
func (v view) bands(a axis, all []traffic.Band, many bool) *Bands {
	var drawn []traffic.Band
	still := 0
	for _, b := range all {
		silent := slices.ContainsFunc(b.Spans, func(s traffic.Span) bool { return s.State == "" })
		if (b.Turns > 0 || b.Out > 0 || silent && b.Policy == "breaker" && b.Service != "") && len(drawn) < mostLanes {
			drawn = append(drawn, b)
		} else {
			still++
		}
	}
	if len(all) == 0 {
		return nil
	}
	for _, b := range all { // with nothing to show, some that are at rest show what rest looks like
		if len(drawn) < 3 && !slices.ContainsFunc(drawn, func(d traffic.Band) bool { return d.Key == b.Key }) {
			drawn = append(drawn, b)
			still--
		}
	}
	out := &Bands{Label: v.say("State of policies over the last %s", v.lasting(a.to.Sub(a.from))), X: v.times(a), Height: laneHeight(len(drawn))}
	if still > 0 {
		out.Rest = v.say("%s; the table has them.", v.count(still, "other stayed at rest, or is the smaller", "others stayed at rest, or are smaller"))
	}
	for _, run := range v.runs {
		if from, to := faultTime(run, v.now); !from.IsZero() && to.After(a.from) && from.Before(a.to) {
			out.Faults = append(out.Faults, a.stretch(from, to))
		}
	}
	each := 100 / float64(len(drawn))
	for i, b := range drawn {
		top := each * float64(i)
		lane := BandLane{Name: b.Name(), Full: v.say("%s of %s at %s", v.of("policy", b.Policy), b.Name(), b.Gateway), Y: pos(top + each/2)}
		if b.Policy != "breaker" {
			lane.Name = v.say("%s, %s", lane.Name, v.of("policy", b.Policy))
		}
		if many {
			lane.Name += " @" + b.Gateway
		}
		lane.Name = short(lane.Name, 24)
		for _, sp := range b.Spans {
			// At rest a band is thin, so that what is not can be told without colour.
			height, y := each*0.26, top+each*0.37
			if sp.State != traffic.Rest(b.Policy) {
				height, y = each*0.66, top+each*0.17
			}
			st := a.stretch(sp.From, sp.To)
			lane.Spans = append(lane.Spans, BandSpan{Class: bandClass(b.Policy, sp.State), X: st.X, W: st.W, Y: pos(y), H: pos(height),
				Title: v.say("%s %s to %s", v.of("breaker", lamp(b.Policy, sp.State).Text), v.clock(sp.From).Text, v.clock(sp.To).Text)})
		}
		out.Lanes = append(out.Lanes, lane)
	}
	return out
}

func short(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n-1]) + "…"
	}
	return s
}

func laneHeight(n int) string {
	switch {
	case n <= 3:
		return "h96"
	case n <= 5:
		return "h160"
	case n <= 7:
		return "h200"
	case n <= 10:
		return "h264"
	}
	return "h440"
}

func (v view) lampRow(b traffic.Band) LampRow {
	row := LampRow{Name: b.Name(), Kind: v.of("policy", b.Policy), Gateway: b.Gateway, Lamp: lamp(b.Policy, b.State), Reason: cmp.Or(v.tell(b.Reason), "–"), Out: "–", Turns: slo.Count(int64(b.Turns))}
	if b.Service != "" {
		row.Href = serviceHref(b.Service)
		row.Kind = v.say("%s of the service", row.Kind)
	} else if b.Endpoint != "" {
		row.Kind = v.say("%s of an endpoint", row.Kind)
	}
	if !b.Since.IsZero() {
		row.Since = v.short(b.Since)
	}
	if b.Out > 0 {
		row.Out = v.lasting(b.Out.Truncate(time.Second))
	}
	return row
}

// limitRows joins gateways that set the same.
func limitRows(limits []traffic.Limit) (out []LimitRow) {
	at := map[string]int{}
	gateways := map[string]int64{}
	for _, l := range limits {
		key := l.Policy + "\x00" + l.Name() + "\x00" + l.Route + "\x00" + l.Text
		gateways[key]++
		if _, ok := at[key]; !ok {
			at[key] = len(out)
			out = append(out, LimitRow{Name: l.Name(), Kind: l.Policy, Route: l.Route, Text: l.Text})
		}
		out[at[key]].Gateways = slo.Count(gateways[key])
	}
	return out
}

// trafficSheets are the tables of the page as files.
func trafficSheets(bands []traffic.Band, turns []retrylog.Transition, limits []traffic.Limit, refused []traffic.Refusal) []sheet {
	key := func(k traffic.Key) []field {
		return []field{txt(k.Policy), txt(k.Env), txt(k.Gateway), txt(k.Service), txt(k.Upstream), txt(k.Endpoint)}
	}
	names := []string{"policy", "env", "gateway", "service", "upstream", "endpoint"}
	states := sheet{name: "states", columns: append(slices.Clone(names), "state", "since", "reason", "transitions", "not_at_rest_ms")}
	spans := sheet{name: "spans", columns: append(slices.Clone(names), "state", "from", "to")}
	for _, b := range bands {
		states.rows = append(states.rows, append(key(b.Key), txt(b.State), instant(b.Since), txt(b.Reason), num(int64(b.Turns)), num(b.Out.Milliseconds())))
		for _, s := range b.Spans {
			spans.rows = append(spans.rows, append(key(b.Key), txt(s.State), instant(s.From), instant(s.To)))
		}
	}
	moves := sheet{name: "transitions", columns: append([]string{"at"}, append(slices.Clone(names), "from", "to", "reason")...)}
	for _, t := range turns {
		k := key(traffic.Key{Policy: t.Policy, Env: t.Env, Gateway: t.Gateway, Service: t.Service, Upstream: t.Upstream, Endpoint: t.Endpoint})
		moves.rows = append(moves.rows, append(append([]field{instant(t.At)}, k...), txt(t.From), txt(t.To), txt(t.Reason)))
	}
	set := sheet{name: "limits", columns: append(slices.Clone(names), "route", "text")}
	for _, l := range limits {
		set.rows = append(set.rows, append(key(l.Key), txt(l.Route), txt(l.Text)))
	}
	no := sheet{name: "refusals", columns: []string{"service", "env", "policy", "reason", "count"}}
	for _, x := range refused {
		no.rows = append(no.rows, []field{txt(x.Service), txt(x.Env), txt(x.Policy), txt(x.Reason), num(x.Count)})
	}
	return []sheet{states, spans, moves, set, no}
}
