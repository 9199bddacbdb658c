package web

import (
	"cmp"
	"context"
	"io/fs"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/scenarios"
	"breakwater/slo"
	"breakwater/slo/alert"
)

// Scenarios is what the pages of scenarios and their editor need.
type Scenarios interface {
	// Documents are the scenarios that control runs.
	Documents(ctx context.Context) ([]injector.Document, error)
	// Preview says what a run would do, and what speaks against it. A document wins
	// over an id.
	Preview(ctx context.Context, id, document string) (injector.Preview, error)
	// Create starts a run: the handler of the API, so that a form is judged, audited
	// and bounded by scope as a call is.
	Create(w http.ResponseWriter, r *http.Request)
}

// drillDoc is one scenario of the library or of control.
type drillDoc struct {
	injector.Document
	Library  bool
	Scenario scenario.Scenario
	Wrong    string // why it cannot be read
}

// drillDocs are the library and what control runs, by id. Where both have an id,
// control's counts: it is what runs.
func (s *Server) drillDocs(ctx context.Context) ([]drillDoc, error) {
	by := map[string]drillDoc{}
	files, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		text, err := fs.ReadFile(scenarios.Files, name)
		if err != nil {
			return nil, err
		}
		d := s.readDrill(injector.Document{File: "scenarios/" + name, Text: string(text), Hash: name})
		d.ID, d.Title, d.Service, d.Library, d.Hash = d.Scenario.ID, d.Scenario.Title, d.Scenario.Target.Service, true, ""
		by[d.ID] = d
	}
	docs, err := s.cfg.Scenarios.Documents(ctx)
	for _, doc := range docs {
		by[doc.ID] = s.readDrill(doc)
	}
	var out []drillDoc
	for _, d := range by {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b drillDoc) int {
		if a.Library != b.Library {
			return map[bool]int{true: 1, false: -1}[a.Library] // what runs here comes first
		}
		return cmp.Compare(a.ID, b.ID)
	})
	return out, err
}

// readDrill reads a document once: each has a hash, and texts do not change under it.
func (s *Server) readDrill(doc injector.Document) drillDoc {
	d := drillDoc{Document: doc}
	sc, _, err := s.drills.get(doc.ID+"\x00"+doc.Hash, s.cfg.Now(), func() (scenario.Scenario, error) { return injector.ParseText(doc.Text) })
	if d.Scenario = sc; err != nil {
		d.Wrong = err.Error()
	}
	return d
}

// drawnFrom finds what a scenario says of the bad time it was made of.
var drawnFrom = regexp.MustCompile(`(?m)^# Drawn from the retry log: (\S+), (\S+) to (\S+)\.$`)

// drawn is the bad time that a scenario was made of; zero: it was not.
func drawn(text string) (service string, from, until time.Time) {
	m := drawnFrom.FindStringSubmatch(text)
	if m == nil {
		return "", from, until
	}
	from, errFrom := time.Parse(time.RFC3339, m[2])
	until, errUntil := time.Parse(time.RFC3339, m[3])
	if errFrom != nil || errUntil != nil {
		return "", time.Time{}, time.Time{}
	}
	return m[1], from, until
}

// ScenarioRow is one scenario in the library.
type ScenarioRow struct {
	ID, Title, Href, Service, ServiceHref string
	Faults, Share, Target                 string
	Expects, Stops                        string
	Origin, Wrong, Tags                   string
	Unknown                               bool // no such service is known here
	Incident                              *Link
	Last                                  *Chip
	LastHref, LastAge                     string
	Next                                  Time
	NextIn                                string

	kinds, result string
}

type scenariosView struct {
	Sub, Trouble, RunTrouble string
	Rows                     []ScenarioRow
	Filters                  []Link
	Kinds, Services          []Choice
	Find, State              string
	Filtered                 bool
	Take                     Take
}

// lastRuns are the newest runs of each scenario, of those that are listed.
func (v view) lastRuns() map[string]injector.Run {
	out := map[string]injector.Run{}
	for _, r := range v.runs {
		if _, ok := out[r.Scenario]; !ok {
			out[r.Scenario] = r
		}
	}
	return out
}

// nextRuns are the next due instants by scenario.
func nextRuns(schedules []injector.Schedule) map[string]time.Time {
	out := map[string]time.Time{}
	for _, sc := range schedules {
		if !sc.Enabled || sc.NextAt.IsZero() {
			continue
		}
		for _, id := range namesOf(sc) {
			if at, ok := out[id]; !ok || sc.NextAt.Before(at) {
				out[id] = sc.NextAt
			}
		}
	}
	return out
}

func namesOf(sc injector.Schedule) []string {
	if len(sc.Scenarios) == 0 && sc.Scenario != "" {
		return []string{sc.Scenario}
	}
	return sc.Scenarios
}

func scenarioHref(id string) string { return "/scenarios/" + url.PathEscape(id) }

func (s *Server) scenarios(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	docs, err := s.drillDocs(r.Context())
	o := scenariosView{Trouble: s.read(v, "Scenarios of control", err), RunTrouble: s.read(v, "Runs", v.runsErr)}
	schedules, err := s.cfg.Drills.Schedules(r.Context())
	if o.Trouble == "" {
		o.Trouble = s.read(v, "Schedules", err)
	}
	incidents := s.incidentsOf(r.Context(), v, docs)
	last, next := v.lastRuns(), nextRuns(schedules)
	q := r.URL.Query()
	find, kind, service, state := strings.ToLower(strings.TrimSpace(q.Get("q"))), q.Get("kind"), q.Get("service"), q.Get("state")
	o.Find, o.State, o.Filtered = q.Get("q"), state, find+kind+service+state != ""
	counts, kinds, services := map[string]int{}, map[string]bool{}, map[string]bool{}
	table := sheet{name: "scenarios", columns: []string{"id", "title", "service", "target", "faults", "share_ppm", "expectations", "stop_conditions", "tags", "origin", "file",
		"last_run", "last_result", "last_at", "next_at", "drawn_from", "drawn_until"}}
	all := 0
	for _, d := range docs {
		if !s.cfg.Covers(r, d.Service) {
			continue
		}
		all++
		row := v.scenarioRow(d, last, next, incidents)
		counts[row.result]++
		services[d.Service] = true
		for _, f := range d.Scenario.Faults {
			kinds[string(f.Rule.Kind)] = true
		}
		text := strings.ToLower(strings.Join([]string{d.ID, d.Title, d.Service, row.Tags}, "\n"))
		if !strings.Contains(text, find) || kind != "" && !slices.Contains(strings.Fields(row.kinds), kind) || service != "" && service != d.Service || state != "" && state != row.result {
			continue
		}
		o.Rows = append(o.Rows, row)
		table.rows = append(table.rows, v.scenarioFields(d, row, last[d.ID], next[d.ID]))
	}
	if s.exported(w, v, table) {
		return
	}
	o.Take = take(r, "scenarios")
	o.Filters = []Link{{Name: "All", Href: with(r, "state", ""), Here: state == ""}}
	for _, g := range []string{"running", "passed", "failed", "inconclusive", "never run"} {
		o.Filters = append(o.Filters, Link{Name: sentenceCase(v.word(g)), Href: with(r, "state", g), Here: state == g, Count: some(counts[g])})
	}
	o.Kinds, o.Services = filterChoices(kinds, kind, v.say("any fault"), v.faultKindName), filterChoices(services, service, v.say("any target"), func(s string) string { return s })
	o.Sub = v.say("%s: those that control runs first, then the library.", v.count(all, "scenario", "scenarios"))
	if o.Filtered {
		o.Sub = v.say("%s.", v.say("%s of %s", v.count(len(o.Rows), "scenario", "scenarios"), slo.Count(int64(all))))
	}
	s.show(w, v, http.StatusOK, "scenarios", Page{Title: "Scenarios", Topics: topicDrills, Crumbs: []Link{{Name: "Scenarios"}}}, o)
}

// filterChoices are the options of a filter, with one for no filter.
func filterChoices(set map[string]bool, chosen, none string, name func(string) string) []Choice {
	out := []Choice{{Text: none, Chosen: chosen == ""}}
	var keys []string
	for k := range set {
		if k != "" {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	for _, k := range keys {
		out = append(out, Choice{k, name(k), k == chosen})
	}
	return out
}

func (v view) scenarioRow(d drillDoc, last map[string]injector.Run, next map[string]time.Time, incidents map[string]*Link) ScenarioRow {
	sc := d.Scenario
	row := ScenarioRow{ID: d.ID, Title: d.Title, Href: scenarioHref(d.ID), Service: d.Service, ServiceHref: serviceHref(d.Service), Origin: v.say("library"), Wrong: d.Wrong,
		Tags: strings.Join(sc.Tags, ", "), Incident: incidents[d.ID], result: "never run"}
	if !d.Library {
		row.Origin = d.File
	}
	row.Unknown = !slices.ContainsFunc(v.services, func(s service) bool { return s.Name == d.Service })
	var faults, kinds []string
	for _, f := range sc.Faults {
		faults, kinds = append(faults, v.faultName(f.Rule.Kind)), append(kinds, string(f.Rule.Kind))
	}
	row.Faults, row.kinds = v.list(faults...), strings.Join(kinds, " ")
	if d.Wrong == "" {
		row.Share, row.Target = v.sampleWords(sc.Sample), v.targetWords(sc.Target)
		row.Expects = v.count(len(sc.Steady)+len(sc.During)+len(sc.After), "expectation", "expectations")
		row.Stops = v.count(len(sc.Stop), "stop condition", "stop conditions")
	}
	if run, ok := last[d.ID]; ok {
		row.Last, row.LastHref, row.result = new(runChip(run)), runHref(run.ID), runGroup(run)
		at := run.EndedAt
		if at.IsZero() {
			at = run.PlannedAt
		}
		row.LastAge = v.in(at)
	}
	if at, ok := next[d.ID]; ok {
		row.Next, row.NextIn = v.day(at), v.in(at)
	}
	return row
}

func (v view) scenarioFields(d drillDoc, row ScenarioRow, run injector.Run, next time.Time) []field {
	sc := d.Scenario
	said := func(list []scenario.Assertion) (out []string) {
		for _, a := range list {
			text, _ := injector.Said(a)
			out = append(out, text)
		}
		return out
	}
	var faults, stops []string
	for _, f := range sc.Faults {
		faults = append(faults, f.ID+": "+v.faultWords(f))
	}
	for _, x := range sc.Stop {
		stops = append(stops, v.brakeWords(x))
	}
	expects := slices.Concat(said(sc.Steady), said(sc.During), said(sc.After))
	_, from, until := drawn(d.Text)
	out := []field{txt(d.ID), txt(d.Title), txt(d.Service), txt(row.Target), txt(strings.Join(faults, "; ")), num(sc.Sample.PPM), txt(strings.Join(expects, "; ")),
		txt(strings.Join(stops, "; ")), txt(row.Tags), txt(map[bool]string{true: "library", false: "control"}[d.Library]), txt(d.File), txt(run.ID)}
	result, at := "", run.EndedAt
	if run.ID != "" {
		result = row.result
	}
	return append(out, txt(result), instant(at), instant(next), instant(from), instant(until))
}

// incidentsOf finds the incidents that scenarios were drawn from: those of the
// service that were open in the span, as far as they are kept.
func (s *Server) incidentsOf(ctx context.Context, v view, docs []drillDoc) map[string]*Link {
	out := map[string]*Link{}
	var list []alert.Incident
	for _, d := range docs {
		service, from, until := drawn(d.Text)
		if service == "" {
			continue
		}
		if list == nil {
			list, _ = s.cfg.Alerts.Incidents(ctx, alert.Question{Before: v.now.Add(time.Hour), Limit: 500}) // without them the span is told
		}
		link := &Link{Name: v.say("%s, %s to %s", service, v.day(from).Text, from.Add(until.Sub(from)).In(v.zone).Format("15:04"))}
		for _, i := range list {
			over := v.now
			if i.ClosedAt != nil {
				over = *i.ClosedAt
			}
			if i.Service == service && i.OpenedAt.Before(until) && over.After(from) {
				link.Name, link.Href = v.say("%s, %s", i.ID, v.day(i.OpenedAt).Text), alertHref(i.ID)
				break
			}
		}
		out[d.ID] = link
	}
	return out
}

// mistakesOf are the places of what is wrong with a document.
func mistakesOf(err error) conf.Mistakes {
	if doc, ok := asDocument(err); ok {
		err = doc.Err
	}
	if all, ok := err.(conf.Mistakes); ok {
		return all
	}
	if err == nil {
		return nil
	}
	return conf.Mistakes{{Text: err.Error()}}
}

// drillPages are the templates of scenarios, their editor and the setup.
func drillPages() []string { return []string{"scenarios", "scenario", "editor", "setup"} }

// drillRoutes are where they stand. An address that takes a form answers a question
// too: a page that was made by a form is asked for again by its address.
func (s *Server) drillRoutes(r chi.Router) {
	r.Get("/scenarios", s.scenarios)
	r.Get("/scenarios/{name}", s.scenario)
	r.Get("/scenarios/{name}/run", s.scenario)
	r.Post("/scenarios/{name}/run", s.runScenario)
	r.Get("/scenarios/{name}/plan", s.scenario)
	r.Post("/scenarios/{name}/plan", s.planScenario)
	r.Get("/experiments/new", s.editor)
	for path, take := range map[string]http.HandlerFunc{"check": s.checkExperiment, "start": s.startExperiment} {
		r.Get("/experiments/"+path, s.editor)
		r.Post("/experiments/"+path, take)
	}
	r.Get("/setup", s.setup)
	for path, take := range map[string]http.HandlerFunc{"gateway": s.setupGateway, "slo": s.setupSLO, "drill": s.setupGameDay} {
		r.Get("/setup/"+path, s.setup)
		r.Post("/setup/"+path, take)
	}
}
