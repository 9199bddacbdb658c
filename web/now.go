package web

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/now"
)

// Situations answers who suffers now, by which measure, and what protects.
type Situations interface {
	// Answer is about one service, or about the worst one where service is "".
	Answer(ctx context.Context, service, env string, covers func(service string) bool) now.Answer
}

type nowView struct {
	Title, Sub, Env          string
	Chip                     Chip
	Empty                    bool
	Incident                 *IncidentLine
	Who, Measure, Protection Answer
	Causes                   []CauseRow
	NoCause                  string
	Acts                     []ActRow
	Chart                    *Chart
	ChartTrouble             string
	Shares                   []ShareTable
	Log                      []LogLine
	Others                   []SituationRow
	More                     Link
	Explain                  []slo.Line
	API, CLI                 string
	Take                     map[string]Take
}

// Answer is one of the three that come first.
type Answer struct {
	Big, Small, Class, Lead string
	Text                    []string
}

// IncidentLine is the open incident of a service, to be looked after with one click.
type IncidentLine struct {
	ID, Href, Text string
	Ack            string // where the form posts; "": somebody has it, or one may not
}

// CauseRow is a likely cause and where to go from it.
type CauseRow struct {
	Rank, Kind, Text string
	Details          []string
	Explains         string
	Bar              Bar
	Link             *Link
	Stop             string // where the form that ends an experiment posts
}

// ActRow is one protection.
type ActRow struct {
	Chip
	Name, What string
}

// ShareTable says in which values of one dimension failures lie.
type ShareTable struct {
	Name string
	Rows []ShareRow
}

// ShareRow is one value's part of the failures and of the traffic.
type ShareRow struct {
	Name, Failures, Traffic, Own string
	Bar                          Bar
}

// SituationRow is one service in the list of all.
type SituationRow struct {
	Name, Href, Env string
	State, Level    Chip
	Bad, Valid      string
	Here            bool
}

func (s *Server) nowPage(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	q := r.URL.Query()
	if id := q.Get("incident"); id != "" {
		// Messages link here: whoever is called needs the answers first.
		if i, _, err := s.cfg.Alerts.Incident(r.Context(), id); err == nil {
			q.Set("service", i.Service)
			q.Set("env", i.Env)
		}
	}
	answer := s.cfg.Situations.Answer(r.Context(), q.Get("service"), q.Get("env"), func(service string) bool { return s.cfg.Covers(r, service) })
	if name := q.Get("service"); name != "" && !s.cfg.Covers(r, name) {
		s.trouble(w, v, http.StatusForbidden, "Not your service", v.say("Your token does not cover %s.", name))
		return
	}
	if s.exported(w, v, nowSheets(answer)...) {
		return
	}
	page := nowView{Title: v.say("Nothing is watched yet"), Empty: answer.Situation == nil, API: "GET /api/v1/now", CLI: "breakwater now",
		Take: map[string]Take{"services": take(r, "services"), "causes": take(r, "causes"), "shares": take(r, "shares")}}
	few, more := bounded(v, answer.Services, mostListed)
	page.More = more
	for _, b := range few {
		row := SituationRow{Name: b.Service, Env: b.Env, Href: "/now?" + url.Values{"service": {b.Service}, "env": {b.Env}}.Encode(), State: stateChip(b.State),
			Level: levelChip(b.Level, b.State == now.NoData), Bad: slo.Count(b.Bad), Valid: slo.Count(b.Valid)}
		row.Here = answer.Situation != nil && answer.Situation.Service == b.Service && answer.Situation.Env == b.Env
		page.Others = append(page.Others, row)
	}
	title, head := v.say("Now"), v.say("%s now", v.say("Now"))
	if sit := answer.Situation; sit != nil {
		title, head = sit.Service, v.say("%s now", sit.Service)
		s.situation(r, v, *sit, &page)
	}
	s.show(w, v, http.StatusOK, "now", Page{Title: head, Crumbs: []Link{{Name: "Now", Href: "/now"}, {Name: title}}}, page)
}

func (s *Server) situation(r *http.Request, v view, sit now.Situation, page *nowView) {
	page.Title, page.Sub = v.headline(sit)
	page.Env = sit.Env
	page.Chip = levelChip(sit.Measure.Level, sit.State == now.NoData)
	page.API += "?service=" + url.QueryEscape(sit.Service)
	page.CLI += " --service " + sit.Service
	page.Who, page.Measure, page.Protection = v.whoAnswer(sit), v.measureAnswer(sit), v.protectAnswer(sit)
	page.Incident = s.openIncident(r, v, sit)
	runs := map[string]bool{}
	for _, run := range v.active {
		runs[run.ID] = true
	}
	for _, c := range sit.Causes {
		page.Causes = append(page.Causes, v.causeRow(c, runs))
	}
	if len(sit.Causes) == 0 {
		page.NoCause = v.say("Nobody is hit, so there is nothing to explain.")
		if sit.State == now.Hit || sit.State == now.Covered {
			page.NoCause = v.say("Nothing stands out: failures are spread over all that is known.")
		} else if sit.State == now.NoData {
			page.NoCause = v.say("Without data nothing is concluded, neither good nor bad.")
		}
	}
	acts, idle := sit.Acting()
	for _, p := range acts {
		page.Acts = append(page.Acts, v.actRow(p, Chip{Class: "fg-normal", Icon: "s-normal", Text: v.say("acts")}))
	}
	for _, p := range idle {
		page.Acts = append(page.Acts, v.actRow(p, Chip{Class: "fg-unknown", Icon: "s-nodata", Text: v.say("not protected")}))
	}
	for _, t := range []struct {
		name string
		list []now.Share
	}{{v.say("Callers"), sit.Who.Callers}, {v.say("Routes"), sit.Who.Routes}, {v.say("Tenants"), sit.Who.Tenants}} {
		if rows := v.shareRows(t.list); len(rows) > 0 {
			page.Shares = append(page.Shares, ShareTable{t.name, rows})
		}
	}
	for _, h := range sit.Happened {
		icon, class := happenedIcon(h.Kind)
		page.Log = append(page.Log, LogLine{Time: v.clock(h.At), Icon: icon, Class: class, Text: v.tell(h.Text)})
	}
	page.Explain = v.explainNow(sit)
	page.Chart, page.ChartTrouble = s.failing(r, v, sit.Service, 30*time.Minute, sit.Since)
}

func stateChip(st now.State) Chip {
	switch st {
	case now.Hit:
		return Chip{"fg-emergency", "s-emergency", "users are hit"}
	case now.Covered:
		return Chip{"fg-warn", "s-warn", "covered"}
	case now.Fine:
		return Chip{"fg-normal", "s-normal", "fine"}
	}
	return Chip{"fg-unknown", "s-nodata", "no data"}
}

func (v view) whoAnswer(sit now.Situation) Answer {
	w := sit.Who
	if w.HitPPM == nil {
		return Answer{Big: v.say("no data"), Class: "mute", Lead: v.say("Nobody knows who is hit"), Text: []string{v.say("No request was reported; neither good nor bad is assumed.")}}
	}
	a := Answer{Big: slo.Percent(*w.HitPPM), Lead: v.say("of the requests of %s are hit", sit.Service)}
	if sit.State == now.Hit {
		a.Class = "fg-emergency"
		a.Lead = v.say("of the requests of %s are hit, %s a minute", sit.Service, slo.Count(w.PerMinute))
	}
	text := v.say("%s of %s", slo.Count(w.Hits), slo.Count(w.Asked))
	if sit.Since != nil {
		text = v.say("%s of %s since %s", slo.Count(w.Hits), slo.Count(w.Asked), v.short(*sit.Since).Text)
	}
	if w.WasPPM != nil {
		text = v.clauses(text, v.say("before that %s", slo.Percent(*w.WasPPM)))
	}
	a.Text = append(a.Text, v.say("%s.", text))
	if w.Throttled > 0 {
		a.Text = append(a.Text, v.say("%s of them were told to come later.", slo.Count(w.Throttled)))
	}
	if sit.State == now.Hit {
		a.Text = append(a.Text, v.mostHit(w.Callers)...)
		if w.Works != "" {
			a.Text = append(a.Text, v.say("Works: %s.", w.Works))
		}
	}
	return a
}

func (l lang) mostHit(callers []now.Share) []string {
	var parts []string
	for _, c := range callers[:min(len(callers), 3)] {
		if c.Hits > 0 {
			parts = append(parts, cmp.Or(c.Value, l.say("without a name"))+" "+slo.Percent(c.HitsPPM))
		}
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{l.say("Of the failures: %s.", l.list(parts...))}
}

func (v view) measureAnswer(sit now.Situation) Answer {
	m := sit.Measure
	a := Answer{Big: v.say("no data"), Class: "mute", Lead: v.say("No request to measure")}
	if m.SuccessPPM != nil {
		a.Big, a.Class, a.Lead = slo.Share(*m.SuccessPPM, 1_000_000), "", v.say("success")
		if m.FirstTryPPM != nil && *m.FirstTryPPM != *m.SuccessPPM {
			a.Small, a.Lead = "("+slo.Share(*m.FirstTryPPM, 1_000_000)+")", v.say("success (at the first try)")
		}
		if m.TargetPPB > 0 && *m.SuccessPPM*1000 < m.TargetPPB && sit.State == now.Hit {
			a.Class = "fg-emergency"
		}
	}
	if m.Objective == "" {
		a.Text = append(a.Text, v.say("Nothing is promised for %s.", sit.Service))
		return a
	}
	a.Lead = v.say("%s, target %s", a.Lead, slo.Target(m.TargetPPB))
	if m.RemainingPPM != nil {
		text := v.say("Budget %s left.", slo.Percent(*m.RemainingPPM))
		if m.EmptyAt != nil {
			text = v.text(text, v.say("Empty %s.", v.soon(*m.EmptyAt)))
		}
		if m.ThawAt != nil {
			text = v.text(text, v.say("Thaws %s.", v.soon(*m.ThawAt)))
		}
		a.Text = append(a.Text, text)
	}
	var burns []string
	if m.BurnMilli != nil {
		burns = append(burns, v.say("%s over 5\u202fmin", slo.RateMilli(*m.BurnMilli)))
	}
	if m.BurnHour != nil {
		burns = append(burns, v.say("%s over 1\u202fh", slo.RateMilli(*m.BurnHour)))
	}
	if len(burns) > 0 {
		a.Text = append(a.Text, v.say("Burns at %s.", v.list(burns...)))
	}
	return a
}

func (l lang) protectAnswer(sit now.Situation) Answer {
	acts, idle := sit.Acting()
	a := Answer{Big: slo.Count(int64(len(acts))), Small: l.say("of %s act", slo.Count(int64(len(acts)+len(idle)))), Lead: l.say("Nothing needs to act")}
	switch {
	case len(acts) > 0:
		a.Lead = sentence(l.tell(acts[0].Text))
		for _, p := range acts[1:min(len(acts), 3)] {
			a.Text = append(a.Text, sentence(l.tell(p.Text)))
		}
	case sit.State == now.Hit:
		a.Lead, a.Class = l.say("Nothing acts now"), "fg-emergency"
	case sit.State == now.NoData:
		a.Lead = l.say("Nothing is known to act")
	}
	if len(idle) > 0 {
		a.Text = append(a.Text, sentence(l.tell(idle[0].Text)))
	}
	if len(acts)+len(idle) == 0 {
		a.Big, a.Small = l.say("none"), ""
	}
	return a
}

func (l lang) causeRow(c now.Cause, running map[string]bool) CauseRow {
	row := CauseRow{Rank: slo.Count(int64(c.Rank)), Kind: l.word(strings.ReplaceAll(string(c.Kind), "_", " ")), Text: l.tell(c.Text), Details: l.tellAll(c.Details),
		Explains: slo.Percent(c.ExplainedPPM), Bar: Bar{Class: "f-c1", Size: "thin", Width: pos(clamp(float64(c.ExplainedPPM) / 10_000)), Label: l.say("%s of the failures", slo.Percent(c.ExplainedPPM))}}
	switch c.Kind {
	case now.AnExperiment:
		row.Link = &Link{Name: l.say("Run %s", c.Subject), Href: runHref(c.Subject)}
		row.Bar.Class = "f-chaos"
		if running[c.Subject] {
			row.Stop = runHref(c.Subject) + "/abort"
		}
	case now.ADependency:
		row.Link = &Link{Name: c.Subject, Href: "/now?service=" + url.QueryEscape(c.Subject)}
	case now.ALimit, now.AConcurrency, now.AShed, now.AMeasure:
		row.Link = &Link{Name: l.say("Limits"), Href: "/breakers#limits"}
	case now.AStorm:
		row.Link = &Link{Name: l.say("Retries"), Href: "/retries"}
	case now.AnInstance, now.ARack, now.AZone, now.AnUpstream:
		row.Link = &Link{Name: l.say("Breakers"), Href: "/breakers"}
	case now.ACode, now.ARoute, now.ACaller, now.ATenant:
		row.Link = &Link{Name: l.say("Failures"), Href: serviceHref(c.Service) + "#recent"}
	}
	return row
}

func (l lang) actRow(p now.Protection, chip Chip) ActRow {
	kind := strings.ReplaceAll(p.Kind, "_", " ")
	what := strings.TrimPrefix(strings.TrimPrefix(p.Text, kind), " ")
	if told := l.tell(p.Text); told != p.Text {
		what = told // which names it in its own order of words
	}
	return ActRow{Chip: chip, Name: sentenceCase(l.word(kind)), What: what}
}

func sentenceCase(s string) string {
	if s == "" || s[0] >= utf8.RuneSelf || strings.ContainsFunc(s, han) {
		return s // a name that begins a sentence of another language stays as it is
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// shareRows leaves out a dimension that has one value alone: it says nothing.
func (l lang) shareRows(list []now.Share) (out []ShareRow) {
	if len(list) < 2 {
		return nil
	}
	for _, sh := range list {
		out = append(out, ShareRow{Name: cmp.Or(sh.Value, l.say("without a name")), Failures: slo.Percent(sh.HitsPPM), Traffic: slo.Percent(sh.TrafficPPM), Own: slo.Percent(sh.OwnPPM),
			Bar: Bar{Class: "f-emergency", Size: "thin", Width: pos(clamp(float64(sh.HitsPPM) / 10_000)), Label: l.say("%s of the failures", slo.Percent(sh.HitsPPM))}})
	}
	return out
}

func happenedIcon(kind string) (icon, class string) {
	switch kind {
	case "onset":
		return "s-emergency", "fg-emergency"
	case "experiment":
		return "s-chaos", "fg-chaos"
	case "breaker":
		return "b-open", "fg-emergency"
	case "config":
		return "e-config", "fg-unknown"
	case "deploy":
		return "e-deploy", "fg-unknown"
	case "incident":
		return "s-warn", "fg-warn"
	}
	return "e-log", "fg-unknown"
}

// openIncident is the most urgent open incident of the service.
func (s *Server) openIncident(r *http.Request, v view, sit now.Situation) *IncidentLine {
	list, err := s.cfg.Alerts.Incidents(r.Context(), alert.Question{Service: sit.Service, Open: true, Before: v.now.Add(time.Hour), Limit: 20})
	if s.read(v, "Incidents", err) != "" || len(list) == 0 {
		return nil
	}
	i := list[0]
	for _, other := range list[1:] {
		if other.Tier < i.Tier {
			i = other // L1 before L2
		}
	}
	line := &IncidentLine{ID: i.ID, Href: "/alerts/" + url.PathEscape(i.ID)}
	switch {
	case i.AckedBy != "":
		line.Text = v.say("%s, %s, %s looks after it.", string(i.Tier), v.word(string(i.Severity)), i.AckedBy)
	default:
		line.Text = v.say("%s, %s, not acknowledged.", string(i.Tier), v.word(string(i.Severity)))
		if s.cfg.MayLift(r) {
			line.Ack = line.Href + "/ack"
		}
	}
	return line
}
