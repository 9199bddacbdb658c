package web

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/slo"
)

// RunRow is one run in a list.
type RunRow struct {
	Time                        Time
	Title, Href, Service, Shown string
	ServiceHref                 string
	Chip                        Chip
	Failures, Budget, Origin    string
}

type runsView struct {
	Sub, Trouble, Said string
	Rows               []RunRow
	Filters            []Link
	Filtered           bool
	Take               Take
}

func (v view) runRow(r injector.Run) RunRow {
	row := RunRow{Title: r.Title, Href: runHref(r.ID), Service: r.Service, ServiceHref: serviceHref(r.Service), Chip: runChip(r),
		Time: v.short(r.PlannedAt), Shown: v.tell(r.Why), Failures: "–", Budget: "–", Origin: r.Actor}
	if !r.StartedAt.IsZero() {
		row.Time = v.short(r.StartedAt)
		row.Failures, row.Budget = slo.Count(r.Bad), slo.SpentPercent(r.BudgetSpentPPM)
	}
	if row.Title == "" {
		row.Title = r.Scenario
	}
	switch {
	case r.State.Active():
		row.Shown = v.phase(r)
	case row.Shown == "":
		row.Shown = v.word(spaced(r.Reason))
	}
	if r.GameDay != "" {
		row.Origin = r.GameDay
	}
	return row
}

func spaced(word string) string { return strings.ReplaceAll(word, "_", " ") }

func (s *Server) runs(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	o := runsView{Trouble: s.read(v, "Runs", v.runsErr)}
	asked := r.URL.Query().Get("state")
	counts := map[string]int{}
	var shown []injector.Run
	for _, run := range v.runs {
		group := runGroup(run)
		counts[group]++
		if asked == "" || asked == group {
			shown = append(shown, run)
			o.Rows = append(o.Rows, v.runRow(run))
		}
	}
	if s.exported(w, v, runSheet(shown)) {
		return
	}
	o.Take = take(r, "runs")
	o.Filtered = asked != ""
	o.Filters = []Link{{Name: "All", Href: with(r, "state", ""), Here: asked == ""}}
	for _, g := range []string{"running", "passed", "failed", "inconclusive"} {
		o.Filters = append(o.Filters, Link{Name: sentenceCase(v.word(g)), Href: with(r, "state", g), Here: asked == g, Count: some(counts[g])})
	}
	o.Sub = v.say("%s, newest first.", v.count(len(v.runs), "run", "runs"))
	if n := counts["running"]; n > 0 {
		o.Sub = v.text(v.say("%s running.", slo.Count(int64(n))), o.Sub)
	}
	if r.URL.Query().Get("said") == "halted" {
		o.Said = v.say("All experiments were told to stop. A fault is gone when its gateway gives a receipt, or at the latest when its lease ends, 15 s after its last renewal.")
	}
	if r.URL.Query().Get("said") == "lifted" && v.halt.At.IsZero() {
		o.Said = v.say("The halt is lifted: experiments may start again. What was stopped stays stopped.")
	}
	s.show(w, v, http.StatusOK, "runs", Page{Title: "Runs", Crumbs: []Link{{Name: "Runs"}}}, o)
}

func runGroup(r injector.Run) string {
	if r.State.Active() {
		return "running"
	}
	return string(r.Verdict)
}

// Phase is one part of the player.
type Phase struct {
	Name, Text, Class string
	Bar               Bar
	On                bool
}

// Count is one line of what was hit.
type Count struct {
	Name, Note, Value string
	Bar               Bar
}

// Check is one expectation beside what was seen.
type Check struct {
	Phase, ID, Text, Expected, Seen, N string
	Mark                               Chip
	Weakness, Right                    string // what a failure shows, and what would be right
	Evidence                           string // address of what it rests on; "" while it waits
	Rows                               []LogLine
}

// Cohort is what was counted of one part of the target's traffic in one phase.
type Cohort struct {
	Phase, Name, Good, Bad, Degraded string
}

// Proof is one gateway's word on a fault.
type Proof struct {
	Gateway, Fault, Hash string
	Armed, Removed       Time
	How                  Chip
}

// LogLine is one event of a run.
type LogLine struct {
	Time              Time
	Class, Icon, Text string
	Actor             string
}

type runView struct {
	ID, Title, Sub, Why, Reason string
	Chip                        Chip
	Abort                       string // address of the form; "" when nothing is left to stop
	Phases                      []Phase
	Live, Tries                 *Chart
	LiveTrouble, BandTrouble    string
	Amplified                   *Chart // tries a request, on the axis of Live
	Bands                       *Bands // of the target's policies, on the same axis
	Hit                         []Count
	Facts                       []Fact
	Checks                      []Check
	Passed                      string
	Cohorts                     []Cohort
	Receipts                    []Proof
	ReceiptNote                 string
	Log                         []LogLine
	LogTrouble                  string
	Document, Hash              string
	Take                        map[string]Take
	Said                        string
	Day                         *Link // the game day it belongs to
	Findings                    []FindingRow
}

func (s *Server) run(w http.ResponseWriter, r *http.Request) {
	v := s.look(r)
	id := chi.URLParam(r, "id")
	run, err := s.cfg.Drills.Run(r.Context(), id)
	if errors.Is(err, injector.ErrNotFound) {
		s.trouble(w, v, http.StatusNotFound, v.say("No run %s", id), "There is no run of this name. The list of runs has them all.")
		return
	}
	if text := s.read(v, "The run", err); err != nil {
		s.trouble(w, v, http.StatusServiceUnavailable, v.say("Run %s", id), v.text(text, v.say("Faults are leased: without control they end by themselves within 15 s.")))
		return
	}
	o := runView{ID: id, Title: run.Title, Chip: runChip(run), Why: v.tell(run.Why), Reason: v.word(spaced(run.Reason)), Document: run.Text, Hash: run.Hash}
	if o.Title == "" {
		o.Title = run.Scenario
	}
	o.Sub = v.say("Run %s. Started by %s, target %s.", id, run.Actor, run.Service)
	if run.GameDay != "" {
		o.Sub = v.say("Run %s, game day %s. Started by %s, target %s.", id, run.GameDay, run.Actor, run.Service)
	}
	if !run.State.Ended() {
		o.Abort = runHref(id) + "/abort"
	}
	if r.URL.Query().Get("said") == "aborted" {
		o.Said = v.say("This run was told to stop. The receipts below say when each gateway gave the fault back.")
	}
	o.Phases = v.phases(run)
	o.Hit = v.hits(run)
	o.Facts = v.runFacts(run)
	o.Checks, o.Passed = v.checks(run)
	o.Cohorts = v.cohorts(run)
	o.Receipts, o.ReceiptNote = v.proofs(run)
	events, err := s.cfg.Drills.Events(r.Context(), id)
	o.LogTrouble = s.read(v, "The log", err)
	if s.exported(w, v, runSheets(run, events)...) {
		return
	}
	o.Take = map[string]Take{}
	for _, t := range []string{"expectations", "cohorts", "receipts", "log"} {
		o.Take[t] = take(r, t)
	}
	for i := range events {
		o.Log = append(o.Log, v.logLine(events[len(events)-1-i])) // newest first
	}
	o.Day, o.Findings = dayOfRun(run), s.runFindings(r, v, run)
	s.live(r, v, run, &o)
	s.show(w, v, http.StatusOK, "run", Page{Title: o.Title, Topics: topicDrills, Crumbs: []Link{{Name: "Runs", Href: "/runs"}, {Name: o.Title}}}, o)
}

// phases are the player: what is over is full, what runs is in part.
func (v view) phases(r injector.Run) []Phase {
	end := func(candidates ...time.Time) time.Time {
		for _, t := range candidates {
			if !t.IsZero() {
				return t
			}
		}
		return time.Time{}
	}
	phase := func(name, class string, began, ended time.Time, length time.Duration) Phase {
		p := Phase{Name: name, Text: clock(length), Class: class, Bar: Bar{Class: class, Width: "0", Label: v.say("%s: %s", name, v.say("not yet"))}}
		switch {
		case began.IsZero():
			if r.State.Ended() {
				p.Text = v.say("not reached")
			}
		case ended.IsZero():
			done := v.now.Sub(began)
			p.On = true
			p.Text = v.say("%s of %s, ends %s", clock(done), clock(length), v.clock(began.Add(length)).Text)
			p.Bar.Width = pos(clamp(100 * float64(done) / float64(max(length, 1))))
			p.Bar.Label = v.say("%s: %s", name, p.Text)
		default:
			took := ended.Sub(began)
			p.Text = clock(took)
			p.Bar.Width = "100"
			if took < length-time.Second {
				p.Text = v.say("%s of %s", clock(took), clock(length))
				p.Bar.Width = pos(clamp(100 * float64(took) / float64(length)))
			}
			p.Bar.Label = v.say("%s: %s", name, p.Text)
		}
		return p
	}
	return []Phase{
		phase(v.say("Baseline"), "f-c4", r.BaselineAt, end(r.InjectAt, r.RecoverAt, r.EndedAt), r.BaselineFor),
		phase(v.say("Inject"), "f-chaos", r.InjectAt, end(r.RecoverAt, r.EndedAt), r.InjectFor),
		phase(v.say("Recover and verify"), "f-c4", r.RecoverAt, r.EndedAt, r.RecoverFor),
	}
}

func (v view) checks(r injector.Run) (out []Check, passed string) {
	n := map[injector.Result]int{}
	for _, a := range r.Assertions {
		n[a.Result]++
		c := Check{Phase: v.word(a.Phase), ID: a.ID, Text: v.tell(a.Text), Expected: v.tell(a.Expected), Seen: v.tell(a.Seen), Mark: resultMark(a.Result),
			Weakness: v.word(spaced(a.Weakness)), Right: v.tell(a.Right)}
		if a.Result != injector.Pending {
			c.Evidence = "/api/v1/experiments/" + url.PathEscape(r.ID) + "/evidence/" + url.PathEscape(a.ID)
		}
		for _, x := range a.Rows {
			c.Rows = append(c.Rows, LogLine{Time: v.clock(x.At), Text: v.tell(x.Text)})
		}
		if c.Seen == "" {
			c.Seen = "–"
		}
		if a.N > 0 {
			c.N = "n = " + slo.Count(a.N)
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, ""
	}
	passed = v.say("%s of %s pass", slo.Count(int64(n[injector.Pass])), slo.Count(int64(len(out))))
	if f := n[injector.Fail]; f > 0 {
		passed = v.say("%s of %s pass, %s fail", slo.Count(int64(n[injector.Pass])), slo.Count(int64(len(out))), slo.Count(int64(f)))
	}
	return out, passed
}

// cohorts are the parts of the target: who was hit, who was spared by the share, and
// whom the fault did not aim at.
func (l lang) cohorts(r injector.Run) (out []Cohort) {
	for _, p := range r.Cohorts {
		c := Cohort{Phase: l.word(p.Phase), Name: l.word(string(p.Cohort)), Good: slo.Count(p.Good), Bad: slo.Count(p.Bad), Degraded: slo.Count(p.Degraded)}
		if p.Cohort == scenario.Exposed {
			c.Degraded = "–" // who was hit and got a fallback is good or bad by what came of it
		}
		out = append(out, c)
	}
	return out
}

func (v view) proofs(r injector.Run) (out []Proof, note string) {
	removed := 0
	for _, rc := range r.Receipts {
		p := Proof{Gateway: rc.Gateway, Fault: rc.Fault, Hash: rc.Hash, How: Chip{"fg-chaos", "s-chaos", "armed"}}
		if !rc.ArmedAt.IsZero() {
			p.Armed = v.short(rc.ArmedAt)
		}
		if !rc.RemovedAt.IsZero() {
			removed++
			p.Removed, p.How = v.short(rc.RemovedAt), Chip{"fg-normal", "s-normal", "removed"}
			if rc.ByLease {
				p.How = Chip{"fg-warn", "s-warn", "lease ended"}
			}
		}
		out = append(out, p)
	}
	if len(out) > 0 {
		note = v.say("%s of %s removed", slo.Count(int64(removed)), slo.Count(int64(len(out))))
	}
	return out, note
}

func (v view) logLine(e injector.Event) LogLine {
	l := LogLine{Time: v.clock(e.At), Text: v.tell(e.Text), Class: "fg-unknown", Icon: "e-log", Actor: e.Actor}
	switch {
	case e.Kind == "guard":
		l.Class, l.Icon = "fg-warn", "s-warn"
	case strings.Contains(strings.ToLower(e.Text), "abort"):
		l.Class, l.Icon = "fg-emergency", "s-emergency"
	case e.Kind == "state" && strings.Contains(strings.ToLower(e.Text), "inject"):
		l.Class, l.Icon = "fg-chaos", "s-chaos"
	case e.Kind == "receipt", e.Kind == "state" && strings.Contains(e.Text, "passed"):
		l.Class, l.Icon = "fg-normal", "s-normal"
	}
	return l
}
