package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/injector/cron"
	"breakwater/injector/scenario"
	"breakwater/slo"
)

func asDocument(err error) (*injector.DocumentError, bool) {
	return errors.AsType[*injector.DocumentError](err)
}

// Objection is one thing that preflight says against a run.
type Objection struct {
	Mark       Chip
	Code, Text string
}

// PreviewView is what a run would most likely do, and what speaks against it: all of
// it from the code that judges a start.
type PreviewView struct {
	Verdict    Chip
	Lead       string
	Reach      string // blast radius in one sentence
	Facts      []Fact
	Objections []Objection
	Trouble    string
	At         Time
	Refused    bool
}

// FaultLine is one fault in words.
type FaultLine struct{ ID, Kind, Text, Share string }

// ExpectLine is one expectation in words.
type ExpectLine struct {
	Phase, ID, Text, Expected string
	Optional                  bool
}

type scenarioView struct {
	ID, Title, Sub, Wrong string
	Last                  *RunRow
	Service, ServiceHref  string
	Target, Share         string
	Length                string
	Faults                []FaultLine
	Expects               []ExpectLine
	Stops, Guards         []string
	Incident              *Link
	Plans                 []DrillPlan
	Preview               PreviewView
	Run, Edit             string // address of the form; "" where who looks may not
	RunTrouble            string
	Runs                  []RunRow
	RunsTrouble           string
	Document, File        string
	Refusal, Said         string
	Plan                  *PlanForm // nil: who looks may not plan
	Take                  Take
}

func (s *Server) scenario(w http.ResponseWriter, r *http.Request) {
	s.scenarioPage(w, r, http.StatusOK, "")
}

// scenarioPage shows one scenario; refusal says why a run was not started.
func (s *Server) scenarioPage(w http.ResponseWriter, r *http.Request, status int, refusal string) {
	s.scenarioWith(w, r, status, refusal, nil)
}

// scenarioWith shows it with the form of a weekly plan as it was sent.
func (s *Server) scenarioWith(w http.ResponseWriter, r *http.Request, status int, refusal string, plan *PlanForm) {
	v, id := s.lookAtRuns(r), chi.URLParam(r, "name")
	d, docs, err := s.findDrill(r, id)
	if err != nil {
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Scenario %s", id), s.read(v, "The scenarios of control", err))
		return
	}
	if d == nil {
		s.trouble(w, v, http.StatusNotFound, v.say("No scenario %s", id), "There is no scenario of this name, neither here nor in the library. The list of scenarios has them all.")
		return
	}
	o := v.scenarioView(*d)
	o.Refusal = refusal
	o.Incident = s.incidentsOf(r.Context(), v, docs)[id]
	if schedules, err := s.cfg.Drills.Schedules(r.Context()); err == nil {
		for _, sc := range schedules {
			if slices.Contains(namesOf(sc), id) {
				o.Plans = append(o.Plans, v.drillPlan(sc))
			}
		}
	}
	o.RunsTrouble = s.read(v, "Runs", v.runsErr)
	for _, run := range v.runs {
		if run.Scenario != id {
			continue
		}
		if o.Last == nil {
			o.Last = new(v.runRow(run))
		}
		if len(o.Runs) < 20 {
			o.Runs = append(o.Runs, v.runRow(run))
		}
	}
	table := sheet{name: "runs", columns: []string{"run", "state", "result", "planned_at", "ended_at", "failures", "budget_spent_ppm"}}
	for _, run := range v.runs {
		if run.Scenario == id {
			table.rows = append(table.rows, []field{txt(run.ID), txt(string(run.State)), txt(string(run.Verdict)), instant(run.PlannedAt), instant(run.EndedAt), num(run.Bad), num(run.BudgetSpentPPM)})
		}
	}
	if s.exported(w, v, table) {
		return
	}
	o.Take, o.Edit = take(r, "runs"), "/experiments/new?from="+strings.ReplaceAll(scenarioHref(id), "/scenarios/", "")
	if o.Plan = plan; plan == nil {
		o.Plan = s.planForm(r, id, d.Service)
	}
	if r.URL.Query().Get("said") == "planned" && len(o.Plans) > 0 {
		o.Said = v.say("It is planned each week. Its next runs stand beside it.")
	}
	if d.Wrong == "" {
		o.Preview = s.preview(r, v, *d)
		if s.cfg.MayLift(r) {
			o.Run = scenarioHref(id) + "/run"
		}
	}
	s.show(w, v, status, "scenario", Page{Title: o.Title, Topics: topicDrills, Crumbs: []Link{{Name: "Scenarios", Href: "/scenarios"}, {Name: o.Title}}}, o)
}

// findDrill returns the scenario of an id that who asks may see; nil: there is none.
func (s *Server) findDrill(r *http.Request, id string) (*drillDoc, []drillDoc, error) {
	docs, err := s.drillDocs(r.Context())
	i := slices.IndexFunc(docs, func(d drillDoc) bool { return d.ID == id && s.cfg.Covers(r, d.Service) })
	if i < 0 {
		return nil, docs, err
	}
	return &docs[i], docs, nil // the library is there while the database is away
}

func (v view) scenarioView(d drillDoc) scenarioView {
	sc := d.Scenario
	o := scenarioView{ID: d.ID, Title: d.Title, Wrong: d.Wrong, Service: d.Service, ServiceHref: serviceHref(d.Service), Document: d.Text, File: d.File}
	if o.Title == "" {
		o.Title = d.ID
	}
	o.Sub = v.say("%s, from %s.", d.ID, d.File)
	if d.Library {
		o.Sub = v.say("%s, from the library.", d.ID)
	}
	if len(sc.Tags) > 0 {
		o.Sub = v.text(o.Sub, v.say("%s.", sentenceCase(v.list(sc.Tags...))))
	}
	if d.Wrong != "" {
		return o
	}
	o.Target, o.Share = v.targetWords(sc.Target), v.sampleWords(sc.Sample)
	o.Length = v.say("%s baseline, %s inject, %s recover", clock(sc.Phases.Baseline), clock(sc.Phases.Inject), clock(sc.Phases.Recover))
	for _, f := range sc.Faults {
		o.Faults = append(o.Faults, FaultLine{f.ID, v.faultName(f.Rule.Kind), v.faultWords(f), o.Share})
	}
	for _, p := range []struct {
		name string
		list []scenario.Assertion
	}{{"steady", sc.Steady}, {"during", sc.During}, {"after", sc.After}} {
		for _, a := range p.list {
			text, short := v.expectation(a)
			o.Expects = append(o.Expects, ExpectLine{v.word(p.name), a.ID, text, short, a.Optional})
		}
	}
	for _, x := range sc.Stop {
		o.Stops = append(o.Stops, sentenceCase(v.brakeWords(x)))
	}
	for _, g := range v.limitWords(sc) {
		o.Guards = append(o.Guards, sentenceCase(g))
	}
	return o
}

// preview asks what a run of d would do now.
func (s *Server) preview(r *http.Request, v view, d drillDoc) PreviewView {
	id, text := d.ID, ""
	if d.Library {
		text = d.Text
	}
	p, err := s.cfg.Scenarios.Preview(r.Context(), id, text)
	if err != nil {
		return s.noPreview(v, err)
	}
	return v.previewView(p)
}

func (s *Server) noPreview(v view, err error) PreviewView {
	out := PreviewView{Refused: true, Verdict: Chip{"unknown", "s-unknown", "not known"}, Lead: v.say("Whether it could start is not known.")}
	if doc, ok := asDocument(err); ok {
		out.Verdict, out.Lead = Chip{"emergency", "s-emergency", "cannot start"}, v.say("It cannot be read as it stands.")
		out.Trouble = sentence(doc.Error())
		return out
	}
	out.Trouble = s.read(v, "What preflight needs", err)
	return out
}

func (v view) previewView(p injector.Preview) PreviewView {
	out := PreviewView{At: v.clock(v.now)}
	for _, w := range p.Warnings {
		o := Objection{Mark: Chip{"fg-warn", "s-warn", "doubtful"}, Code: w.Code, Text: sentenceCase(v.tell(w.Text))}
		if w.Refuse {
			o.Mark, out.Refused = Chip{"fg-emergency", "s-emergency", "refused"}, true
		}
		out.Objections = append(out.Objections, o)
	}
	// What is refused stands first.
	slices.SortStableFunc(out.Objections, func(a, b Objection) int { return strings.Compare(b.Mark.Text, a.Mark.Text) })
	switch {
	case out.Refused:
		out.Verdict, out.Lead = Chip{"emergency", "s-emergency", "would be refused"}, v.say("It would not start as it is.")
	case len(out.Objections) > 0:
		out.Verdict, out.Lead = Chip{"warn", "s-warn", "could start"}, v.say("It could start; read what is doubtful first.")
	default:
		out.Verdict, out.Lead = Chip{"normal", "s-normal", "could start"}, v.say("It could start; nothing speaks against it.")
	}
	f, service := p.Forecast, p.Scenario.Target.Service
	known := func(n int64, text string) string {
		if n < 0 {
			return v.say("not known")
		}
		return text
	}
	t, seen := p.Facts.Traffic[service]
	out.Reach = v.say("No request of %s was counted in the last 10\u202fmin, so its reach is not known.", service)
	if seen {
		out.Reach = v.say("At the traffic of the last %s (%s of %s, %s of them aimed at) it would touch %s tries of %s.", v.lasting(t.Span), v.count(int(t.Requests), "request", "requests"), service,
			slo.Count(t.Matched), slo.Count(f.Hits), v.count(int(f.Requests), "request", "requests"))
	}
	fact := func(name, text string) { out.Facts = append(out.Facts, Fact{Name: name, Text: text}) }
	if !seen { // no reading is not zero
		f.Requests, f.Hits = -1, -1
	}
	fact(v.say("Requests that match"), known(f.Requests, slo.Count(f.Requests)))
	fact(v.say("Tries that are hit"), known(f.Hits, slo.Count(f.Hits)))
	fact(v.say("Tries a request"), fmtMilli(f.AmplificationMilli))
	fact(v.say("Fail after retries"), sharePPM(f.FinalPPM))
	fact(v.say("Users see fail"), v.say("%s, %s", sharePPM(f.UserFailPPM), known(f.Failures, v.count(int(f.Failures), "request", "requests"))))
	fact(v.say("Of the budget of %s", service), known(f.BudgetPPM, slo.SpentPercent(max(f.BudgetPPM, 0))))
	fact(v.say("Tenants or callers hit"), known(f.Users, slo.Count(f.Users)))
	return out
}

func fmtMilli(milli int64) string {
	return strings.TrimSuffix(strings.TrimRight(itoa(milli/1000)+"."+strings.Repeat("0", 3-len(itoa(milli%1000)))+itoa(milli%1000), "0"), ".")
}

// runScenario starts a run now, as the API does.
func (s *Server) runScenario(w http.ResponseWriter, r *http.Request) {
	if !s.operator(w, r, "Not started") {
		return
	}
	id := chi.URLParam(r, "name")
	d, _, err := s.findDrill(r, id)
	if err != nil || d == nil {
		s.scenarioPage(w, r, http.StatusNotFound, "")
		return
	}
	kind, body := "application/json", []byte(nil)
	if d.Library {
		kind, body = "application/yaml", []byte(d.Text)
	} else if body, err = json.Marshal(map[string]string{"scenario": id}); err != nil {
		s.scenarioPage(w, r, http.StatusInternalServerError, err.Error())
		return
	}
	status, where, wrong := s.start(r, kind, body)
	if wrong != "" {
		s.scenarioPage(w, r, status, wrong)
		return
	}
	leave(w, r, where)
}

// start asks the API to start a run in the name of who sent the form; where is the
// page of the run.
func (s *Server) start(r *http.Request, kind string, body []byte) (status int, where, wrong string) {
	r2, err := http.NewRequestWithContext(r.Context(), http.MethodPost, "/api/v1/experiments", bytes.NewReader(body))
	if err != nil {
		return http.StatusInternalServerError, "", err.Error()
	}
	r2.Header.Set("Content-Type", kind)
	r2.RemoteAddr, r2.Host = r.RemoteAddr, r.Host
	a := &answer{head: http.Header{}, status: http.StatusOK}
	s.cfg.Scenarios.Create(a, r2)
	if a.status >= 300 {
		var problem struct{ Detail string }
		if err := json.Unmarshal(a.body.Bytes(), &problem); err != nil || problem.Detail == "" {
			problem.Detail = http.StatusText(a.status)
		}
		return a.status, "", problem.Detail
	}
	var run struct{ ID string }
	if err := json.Unmarshal(a.body.Bytes(), &run); err != nil || run.ID == "" {
		return http.StatusInternalServerError, "", "the run was started, and its name cannot be read: see the list of runs"
	}
	s.Changed(topicDrills)
	return http.StatusSeeOther, runHref(run.ID), ""
}

// DrillPlan is one schedule that runs a scenario, with its next runs.
type DrillPlan struct {
	Title, Words, Zone string
	Off                bool
	Next               []NextRun
}

// NextRun is a future run in the three ways people ask for it.
type NextRun struct {
	Local, UTC Time
	In, Note   string
}

func (v view) drillPlan(sc injector.Schedule) DrillPlan {
	p := DrillPlan{Title: sc.Title, Words: v.cronWords(sc.Cron), Zone: sc.Zone, Off: !sc.Enabled}
	if p.Title == "" {
		p.Title = sc.GameDay
	}
	if p.Zone == "" {
		p.Zone = "UTC"
	}
	if p.Off || sc.NextAt.IsZero() {
		return p
	}
	// What the scheduler has stored is the truth; the ones after it are its calendar's.
	calendar, err := cron.Parse(cron.Spec{Cron: sc.Cron, Zone: sc.Zone}, v.now)
	if err == nil {
		for i, d := range calendar.Preview(sc.NextAt.Add(-1), 5) {
			if i > 0 && d.UTC.Sub(v.now) > 366*24*time.Hour {
				break // the next years of a yearly schedule tell nobody anything
			}
			p.Next = append(p.Next, v.nextRun(d))
		}
	}
	if len(p.Next) == 0 || p.Next[0].UTC.ISO != v.iso(sc.NextAt) {
		p.Next = []NextRun{v.nextRun(cron.Due{UTC: sc.NextAt, Local: sc.NextAt.In(v.zone)})}
	}
	return p
}

func (v view) nextRun(d cron.Due) NextRun {
	layout := "Mon 2 Jan 15:04"
	if d.Local.Year() != v.now.In(d.Local.Location()).Year() {
		layout = "Mon 2 Jan 2006 15:04"
	}
	return NextRun{Local: Time{v.iso(d.UTC), v.written(d.Local, layout)}, UTC: Time{v.iso(d.UTC), d.UTC.UTC().Format("15:04Z")}, In: v.in(d.UTC), Note: d.Note}
}
