package web

import (
	"net/http"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/gate"
)

type serviceView struct {
	Name, Sub, Away string
	Chip            Chip
	Banner          *Notice
	Objectives      []Link // tabs, where there is more than one
	Left, LeftText  string
	LeftMute        bool
	Bar             Bar
	Facts           []Fact
	Ranges          []Link
	Burndown        *Chart
	ChartTrouble    string
	Burns           []BurnRow
	BurnNote        string
	Bars            *EventBars
	Failures        []Failure
	FailTrouble     string
	Explain         []slo.Line
	ExplainOf       string
	API, CLI        string
	Runs            []RunRow
	RunTrouble      string
	Document        string
	More            serviceMore
	Practice        []Fact
	Take            map[string]Take
}

// Fact is a number with its sentence.
type Fact struct {
	Name, Value, Unit, Text, Class string
	Mark                           *Chip
	Link                           *Link
}

// BurnRow is one pair of burn windows.
type BurnRow struct {
	Long, Short, Limit, State string
	LongRate, ShortRate       string
	LongBar, ShortBar         Bar
	Hot                       bool
}

// Failure is one client request that was bad.
type Failure struct {
	Time                                       Time
	Route, Status, What, Caller, Tries, ID     string
	Latency, Experiment, ExperimentHref, Count string
	Href                                       string // of the request
}

func (s *Server) service(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	name := chi.URLParam(r, "service")
	i := slices.IndexFunc(v.services, func(svc service) bool { return svc.Name == name })
	if i < 0 {
		s.trouble(w, v, http.StatusNotFound, v.say("No service %s", name), "No objective names a service of this name. Services appear once an OpenSLO document names them.")
		return
	}
	svc := v.services[i]
	st := svc.worst()
	for _, other := range slices.Backward(svc.Statuses) { // of several environments the worst
		if other.Objective.ID == r.URL.Query().Get("slo") {
			st = other
		}
	}
	o := st.Objective
	page := serviceView{Name: name, Chip: statusChip(st), Bar: v.budgetBar(st, "tall"), Explain: st.Explain(), Document: o.Text,
		API: "GET /api/v1/slos/" + o.ID + "/budget", CLI: "breakwater slo show " + o.ID}
	page.Sub = v.say("%s of requests good over %s, rolling.", slo.Target(o.TargetPPB), v.lasting(o.Window))
	if o.Owner != "" {
		page.Sub = v.text(page.Sub, v.say("Owner %s.", o.Owner))
	}
	if len(svc.Statuses) > 1 {
		for _, other := range svc.Statuses {
			page.Objectives = append(page.Objectives, Link{Name: title(other.Objective), Href: with(r, "slo", other.Objective.ID), Here: other.Objective.ID == o.ID})
		}
	}
	page.Left, page.LeftText, page.LeftMute = v.leftSentence(st)
	page.ExplainOf = page.Left
	page.Banner = v.banner(st)
	page.Facts = append(v.facts(st), s.gateFact(r, v, svc.worst()))
	page.Burns, page.BurnNote = v.burnRows(st)

	runs := v.runsOf(name)
	s.history(r, v, st, runs, &page)
	page.More = s.more(r, v, st)
	page.Practice = s.practiceFacts(r, v, name)
	recent, err := s.cfg.Ledger.Recent(r.Context(), name, 20)
	if s.exported(w, v, failureSheet(recent), rateSheet(st), runSheet(runs)) {
		return
	}
	page.Take = map[string]Take{"failures": take(r, "failures"), "burn_rates": take(r, "burn_rates"), "runs": take(r, "runs")}
	page.FailTrouble = s.read(v, "Recent failures", err)
	for _, x := range recent {
		page.Failures = append(page.Failures, v.failure(x))
	}
	for _, run := range runs[:min(len(runs), 8)] {
		page.Runs = append(page.Runs, v.runRow(run))
	}
	page.RunTrouble = s.read(v, "Runs", v.runsErr)
	s.show(w, v, http.StatusOK, "service", Page{Title: name, Crumbs: []Link{{Name: "Overview", Href: "/"}, {Name: name}}}, page)
}

func title(o slo.Objective) string {
	if o.Title != "" {
		return o.Title
	}
	return o.ID
}

// leftSentence is the answer of the page: the number and of what it is.
func (l lang) leftSentence(st *slo.Status) (big, text string, mute bool) {
	b := st.Budget
	switch {
	case b.NoData:
		return l.say("no data"), l.say("No valid request in %s. Nothing is assumed: neither kept nor broken.", l.lasting(st.Objective.Window)), true
	case b.Remaining < 0 && st.Objective.Sliced():
		o := st.Objective
		return slo.Percent(b.RemainingPPM), l.say("%s over the %s that were allowed.", l.amount(o, -b.Remaining), l.amount(o, b.Allowed)), false
	case b.Remaining < 0:
		return slo.Percent(b.RemainingPPM), l.say("%s failures, %s were allowed: %s over.", slo.Count(b.Tally.Bad), slo.Count(b.Allowed), slo.Count(-b.Remaining)), false
	}
	if o := st.Objective; o.Sliced() {
		return slo.Percent(b.RemainingPPM), l.say("%s of %s left.", l.amount(o, b.Remaining), l.amount(o, b.Allowed)), false
	}
	return slo.Percent(b.RemainingPPM), l.say("%s of %s failures left.", slo.Count(b.Remaining), slo.Count(b.Allowed)), false
}

// banner says the state in one sentence where there is something to say.
func (v view) banner(st *slo.Status) *Notice {
	chip := statusChip(st)
	if chip.Text == "normal" {
		return nil
	}
	n := &Notice{Class: chip.Class, Icon: chip.Icon, Lead: v.say("No data."), Text: v.reason(st)}
	switch st.Level {
	case slo.Frozen:
		n.Lead, n.Text = v.say("Frozen since %s.", v.short(st.Since).Text), v.text(v.reason(st), v.thaw(st))
	case slo.Warn:
		n.Lead = v.say("Warn since %s.", v.short(st.Since).Text)
	case slo.Emergency:
		n.Lead = v.say("Emergency since %s.", v.short(st.Since).Text)
	case slo.Unknown:
		if !st.Budget.NoData {
			n.Lead = v.say("State unknown.")
		}
	}
	return n
}

// reason says why a promise is in its level: in English as the core says it, in other
// languages of what that is made of.
func (l lang) reason(st *slo.Status) string {
	b := st.Budget
	switch {
	case l.words == nil:
		return st.Reason
	case b.NoData || st.Blind == "no_data":
		return l.say("No request has been counted in the window.")
	case st.Blind == "low_coverage":
		return l.say("Only %s of the gateway-minutes were reported.", slo.Percent(st.CoveragePPM))
	case st.Blind != "":
		return l.tell(st.Reason)
	case st.Level == slo.Frozen && b.Remaining < 0:
		return l.say("%s of the error budget is spent: %s failed, %s were allowed.", slo.SpentPercent(b.SpentPPM), slo.Count(b.Tally.Bad), slo.Count(b.Allowed))
	case st.Level != st.Measured && st.Measured != "":
		return l.text(l.say("%s of the error budget is spent.", slo.SpentPercent(b.SpentPPM)), l.say("%s is held until more of it is left.", l.word(string(st.Level))))
	}
	return l.say("%s of the error budget is spent.", slo.SpentPercent(b.SpentPPM))
}

func (v view) facts(st *slo.Status) []Fact {
	b := st.Budget
	var facts []Fact
	pace := Fact{Name: "Pace of the last hour", Value: v.say("holds"), Text: v.say("The budget does not run out within the window.")}
	switch {
	case b.NoData:
		pace.Value, pace.Class, pace.Text = "–", "mute", v.say("Nothing to project from.")
	case b.Remaining < 0:
		pace.Value, pace.Text = v.say("spent"), v.say("Nothing is left to spend.")
		if !st.ThawAt.IsZero() {
			pace = Fact{Name: "Thaws at best", Value: v.in(st.ThawAt), Text: v.say("%s, if nothing else fails.", v.day(st.ThawAt).Text)}
		}
	case !st.EmptyAt.IsZero():
		pace.Value, pace.Class, pace.Text = v.in(st.EmptyAt), "fg-warn", v.say("Empty %s, old failures expiring on the way.", v.day(st.EmptyAt).Text)
	}
	facts = append(facts, pace)

	hour := Fact{Name: "Burn, last hour", Value: "–", Class: "mute", Text: v.say("No request in the last hour.")}
	if burn, ok := burn(st, time.Hour); ok && !burn.NoData {
		hour.Value, hour.Class = slo.Rate(burn), ""
		hour.Text = v.say("%s failures of %s. At 1× a budget lasts %s.", slo.Count(burn.Bad), slo.Count(burn.Valid), v.lasting(st.Objective.Window))
		if burn.RateMilli > 1000 {
			hour.Class = "fg-warn"
		}
	}
	facts = append(facts, hour)

	good := Fact{Name: "Good (first try)", Value: "–", Class: "mute", Text: v.say("No valid request yet.")}
	if !b.NoData {
		good.Value, good.Class = slo.Share(b.Tally.Good, b.Valid), ""
		good.Unit = "(" + slo.Share(b.Tally.Exchanges-b.Tally.FirstTryBad, b.Tally.Exchanges) + ")"
		good.Text = v.say("%s good, %s bad; %s of those by experiments.", slo.Count(b.Tally.Good), slo.Count(b.Tally.Bad), slo.Count(b.Tally.ChaosBad))
	}
	return append(facts, good)
}

func (s *Server) gateFact(r *http.Request, v view, st *slo.Status) Fact {
	f := Fact{Name: "Gate", Link: &Link{Name: v.say("All verdicts"), Href: "/gate"}}
	d, err := s.cfg.Gate.Decide(r.Context(), st.Objective.Service)
	if f.Text = s.read(v, "The gate's answer", err); err != nil {
		f.Mark = v.marked(verdictMark(""))
		return f
	}
	f.Mark = v.marked(verdictMark(d.Decision))
	f.Text = v.tell(verdictText(d, st))
	if d.Decision == gate.Deny && d.ThawAt != nil {
		f.Text = v.text(f.Text, v.thaw(&slo.Status{ThawAt: *d.ThawAt}))
	}
	return f
}

// marked is a mark whose word stands in the language already.
func (l lang) marked(c Chip) *Chip {
	c.Text = l.word(c.Text)
	return &c
}

// burnRows pairs the windows as the burn rules do.
func (l lang) burnRows(st *slo.Status) (rows []BurnRow, note string) {
	firing := st.Firing()
	for _, p := range st.Objective.Rules() {
		long, okLong := burn(st, p.Long)
		short, okShort := burn(st, p.Short())
		if !okLong || !okShort {
			continue
		}
		limit := p.ThresholdMilli(st.Objective)
		row := BurnRow{Long: l.lasting(p.Long), Short: l.lasting(p.Short()), Limit: slo.RateMilli(limit), State: l.say("quiet"),
			LongRate: l.word(slo.Rate(long)), ShortRate: l.word(slo.Rate(short)), LongBar: l.burnBar(long, limit), ShortBar: l.burnBar(short, limit)}
		if slices.ContainsFunc(firing, func(f slo.Pair) bool { return f.Name == p.Name }) {
			row.State, row.Hot = l.word(p.Severity), true
			note = l.say("Both windows of %s exceed their limit: %s.", row.Long, l.tell(p.Reason))
		} else if long.NoData && short.NoData {
			row.State = l.say("no data")
		}
		rows = append(rows, row)
	}
	if note == "" && len(rows) > 0 {
		note = l.say("A rule fires when both its windows exceed the limit; the short one ends it soon after the trouble ends.")
	}
	return rows, note
}

// burnBar puts the limit at 62.5 % of the bar, so that crossing it can be seen.
func (l lang) burnBar(b slo.Burn, limit int64) Bar {
	bar := Bar{Class: "f-c1", Width: "0", Label: l.say("burn %s, limit %s", l.word(slo.Rate(b)), slo.RateMilli(limit))}
	if b.NoData || limit <= 0 {
		bar.Class, bar.Width = "f-hatch", "100"
		return bar
	}
	bar.Width = pos(clamp(62.5 * float64(b.RateMilli) / float64(limit)))
	if b.RateMilli > limit {
		bar.Class = "f-emergency"
	}
	return bar
}

func (v view) runsOf(service string) []injector.Run {
	var out []injector.Run
	for _, r := range v.runs {
		if r.Service == service {
			out = append(out, r)
		}
	}
	return out
}

func (v view) failure(x retrylog.Exchange) Failure {
	f := Failure{Time: v.short(x.End), Route: x.Route, What: v.outcomeWords(x), Caller: x.Caller, ID: x.RequestID, Href: requestHref(x.RequestID),
		Tries: slo.Count(int64(len(x.Tries))), Latency: slo.Count(x.LatencyUS/1000) + "\u202fms", Status: v.say("none")}
	if x.Status > 0 {
		f.Status = http.StatusText(x.Status)
		f.Status = slo.Count(int64(x.Status)) + " " + f.Status
	}
	if x.Count > 1 {
		f.Count = slo.Count(x.Count)
	}
	if x.Experiment != "" {
		f.Experiment, f.ExperimentHref = x.Experiment, runHref(x.Experiment)
	}
	return f
}

func (l lang) outcomeWords(x retrylog.Exchange) string {
	switch {
	case x.Refusal != "":
		return l.say("refused by %s", x.Refusal)
	case x.Outcome == retrylog.Timeout && x.Timeout != "":
		return l.say("%s timeout", x.Timeout)
	case x.Outcome == retrylog.Timeout:
		return l.say("timeout")
	case x.Outcome == retrylog.UpstreamFailure:
		if n := len(x.Tries); n > 0 && x.Tries[n-1].Kind != "" {
			return l.say("upstream: %s", l.word(spaced(x.Tries[n-1].Kind)))
		}
		return l.say("upstream failure")
	}
	return l.word(spaced(string(x.Outcome)))
}
