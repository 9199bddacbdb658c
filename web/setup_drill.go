package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// suggestion is a drill that is safe to begin with: of reads alone, a small share of
// tries is lost, so that another try hides it; three brakes end it early.
type suggestion struct {
	ID, Service, Title string
	PPM                int64
	Inject             string
	Accept             []string
}

func starter(service string, ppm int64) suggestion {
	return suggestion{ID: clipName("first-drill-" + service), Service: service, PPM: ppm, Inject: "5m",
		Title: sharePPM(ppm) + " of the reads of " + service + " are lost once; another try should hide it"}
}

func (g suggestion) text() string {
	q := yamlFlow
	percent := strings.ReplaceAll(sharePPM(g.PPM), "\u202f", "")
	title := strings.ReplaceAll(g.Title, "\u202f", "")
	text := fmt.Sprintf(`apiVersion: breakwater/v1
kind: Scenario
id: %s
title: %s
tags: [weekly]
target: {service: %s, methods: [GET]}
sample: {percent: %s, key: attempt, seed: auto}
phases: {baseline: 2m, inject: %s, recover: 2m}
faults:
  - {id: lost, error: {status: 502}}
hypothesis:
  steady:
    - {id: s1, sli: %s, op: ">=", value: "98%%", min_requests: 100}
  during:
    - {id: d1, sli: %s, op: "<=", value: "2%%"}
    - {id: d2, amplification: %s, op: "<=", value: 1.2}
  after:
    - {id: a1, sli: %s, op: ">=", value: "98%%", window: 30s, within: 5m}
stop:
  - {sli: %s, op: ">", value: "8%%", for: 30s}
  - {amplification: %s, op: ">", value: 2, for: 30s}
  - {budget_spent: "2%%"}
`, q(g.ID), q(title), q(g.Service), q(percent), g.Inject, q(g.Service+".success"), q(g.Service+".error_rate"), q(g.Service), q(g.Service+".success"), q(g.Service+".error_rate"), q(g.Service))
	if len(g.Accept) > 0 {
		text += "accept: [" + strings.Join(g.Accept, ", ") + "]\n"
	}
	return text
}

// setupDrill is the third step.
type setupDrill struct {
	Service, Title string
	Services       []Choice
	Days, Hours    []Choice
	Zone, Cron     string
	Words          string
	Next           []NextRun
	Wrong          string // of the time
	Preview        PreviewView
	// Accepts are refusals that the author may mean: each is told, and agreed to.
	Accepts []AcceptRow
	Blocked bool // what is refused cannot be accepted
}

// AcceptRow is one refusal with whether it is meant.
type AcceptRow struct {
	Code, Text string
	Chosen     bool
}

// weekSlot is a weekly time as it was chosen.
type weekSlot struct{ day, at, zone string }

func (s *Server) slotOf(r *http.Request) weekSlot {
	return weekSlot{cmp.Or(r.FormValue("day"), "2"), cmp.Or(r.FormValue("at"), "10:30"), cmp.Or(strings.TrimSpace(r.FormValue("zone")), s.cfg.Zone.String())}
}

// cron is the slot as a schedule has it; "" where the time is none.
func (x weekSlot) cron() string {
	at, err := time.Parse("15:04", x.at)
	if err != nil || !slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6"}, x.day) {
		return ""
	}
	return fmt.Sprintf("%d %d * * %s", at.Minute(), at.Hour(), x.day)
}

// setupDrill offers a drill and a weekly time for it.
func (s *Server) setupDrill(r *http.Request, v view, o *setupView) {
	d := &setupDrill{Service: v.someService(r.FormValue("service"))}
	o.Drill, o.Service = d, d.Service
	for i := range v.services {
		name := v.services[len(v.services)-1-i].Name // the healthiest first
		if s.cfg.Covers(r, name) {
			d.Services = append(d.Services, Choice{name, name, name == d.Service})
		}
	}
	accepted := r.Form["accept"]
	g, preview, refused := s.suggest(r, v, d.Service, accepted)
	d.Title, d.Preview = v.say("%s of the reads of %s are lost once; another try should hide it", strings.ReplaceAll(sharePPM(g.PPM), "\u202f", " "), g.Service), preview
	for _, w := range refused {
		if !slices.Contains(scenario.Refusals(), w.Code) {
			d.Blocked = true
			continue
		}
		// Two reasons of one code are agreed to together.
		if i := slices.IndexFunc(d.Accepts, func(a AcceptRow) bool { return a.Code == w.Code }); i >= 0 {
			d.Accepts[i].Text = v.clauses(d.Accepts[i].Text, v.tell(w.Text))
			continue
		}
		d.Accepts = append(d.Accepts, AcceptRow{w.Code, sentenceCase(v.tell(w.Text)), slices.Contains(accepted, w.Code)})
	}
	// What can be agreed to stands once, beside its box.
	d.Preview.Objections = slices.DeleteFunc(d.Preview.Objections, func(o Objection) bool {
		return slices.ContainsFunc(d.Accepts, func(a AcceptRow) bool { return a.Code == o.Code })
	})
	x := s.slotOf(r)
	d.Zone, d.Cron = x.zone, x.cron()
	d.Days, d.Hours = v.weekChoices(x)
	plan := scenario.Schedule{Cron: d.Cron, Zone: d.Zone}
	calendar, err := plan.Compile(v.now)
	if err != nil || d.Cron == "" {
		d.Wrong = v.say("The zone must be an IANA name such as Europe/Berlin, and the time one such as 10:30; got %s, %s.", x.at, x.zone)
		return
	}
	d.Words = v.cronWords(d.Cron)
	for _, due := range calendar.Preview(v.now, 5) {
		d.Next = append(d.Next, v.nextRun(due))
	}
	o.Document = g.text() + "---\n" + g.gameDay(x)
	o.File = "drill-" + g.Service + ".yaml"
}

// gameDay holds the drill each week.
func (g suggestion) gameDay(x weekSlot) string {
	return fmt.Sprintf("apiVersion: breakwater/v1\nkind: GameDay\nname: %s\ntitle: %s\nscenarios: [%s]\nschedule: {cron: %s, zone: %s}\nauto_approve: {budget_spent: \"2%%\"}\n",
		yamlFlow(clipName("weekly-"+g.ID)), yamlFlow("Weekly drill of "+g.Service), yamlFlow(g.ID), yamlQuoted(x.cron()), yamlQuoted(x.zone))
}

// suggest tries the smallest share that shows something at today's traffic. What
// preflight refuses is told, as it would be without anything accepted.
func (s *Server) suggest(r *http.Request, v view, service string, accepted []string) (g suggestion, shown PreviewView, refused []scenario.Warning) {
	for _, ppm := range []int64{10_000, 20_000, 50_000} {
		g = starter(service, ppm)
		p, err := s.cfg.Scenarios.Preview(r.Context(), "", g.text())
		if err != nil {
			return g, s.noPreview(v, err), nil
		}
		few := false
		refused = nil
		for _, w := range p.Warnings {
			few = few || w.Code == scenario.FewHits
			if w.Refuse {
				refused = append(refused, w)
			}
		}
		for _, w := range refused {
			if slices.Contains(accepted, w.Code) && slices.Contains(scenario.Refusals(), w.Code) && !slices.Contains(g.Accept, w.Code) {
				g.Accept = append(g.Accept, w.Code)
			}
		}
		if len(g.Accept) > 0 {
			if p, err = s.cfg.Scenarios.Preview(r.Context(), "", g.text()); err != nil {
				return g, s.noPreview(v, err), refused
			}
		}
		if shown = v.previewView(p); !few {
			break
		}
	}
	return g, shown, refused
}

// writeSetup puts a document in its place, in the name of who sent the form. It shows
// what was wrong and the document itself where that cannot be.
func (s *Server) writeSetup(w http.ResponseWriter, r *http.Request, service, file, text, said string) {
	var o setupView
	l := s.lang(r)
	if !s.cfg.Covers(r, service) {
		o.Trouble = l.say("Service %s is outside the scope of this account.", service)
		s.setupPage(w, r, http.StatusForbidden, o)
		return
	}
	path, err := s.cfg.Setup.Write(r.Context(), s.cfg.Actor(r), file, text)
	if err != nil {
		if mistakesListed(err) {
			o.Problems = setupProblems(err)
			o.Trouble = l.say("Nothing was written: the documents would have mistakes.")
		} else {
			o.Trouble = l.say("Nothing was written: %s. The document stands below: put it there yourself, and restart control.", err)
		}
		s.setupPage(w, r, http.StatusUnprocessableEntity, o)
		return
	}
	s.cfg.Log.Info("setup wrote a document", "path", path)
	s.Changed(topicSetup, topicLedger, topicDrills)
	leave(w, r, "/setup?said="+said)
}

// mistakesListed reports whether err is a list of mistakes, each at its place.
func mistakesListed(err error) bool {
	_, ok := err.(conf.Mistakes)
	return ok
}

// setupProblems are mistakes with the files they stand in.
func setupProblems(err error) (out []Problem) {
	for _, m := range mistakesOf(err) {
		p := problemOf(m)
		if p.Place != "" && m.File != "" {
			p.Place = m.File + ":" + p.Place
		}
		out = append(out, p)
	}
	return out
}

// setupGateway makes a token for a gateway and shows the command with it, this once.
func (s *Server) setupGateway(w http.ResponseWriter, r *http.Request) {
	if !s.setupAllowed(w, r, true) {
		return
	}
	form := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	o := setupView{GatewayName: strings.ToLower(form("name")), Serves: form("service"), Address: form("address")}
	if err := s.cfg.Setup.Check("gw.yaml", gatewayDocument(o.Serves, o.Address)); err != nil {
		o.Trouble, o.Problems = s.lang(r).say("No token was made: with these the gateway could not begin."), setupProblems(err)
		s.setupPage(w, r, http.StatusUnprocessableEntity, o)
		return
	}
	secret, err := s.cfg.Setup.Issue(r.Context(), s.cfg.Actor(r), o.GatewayName)
	if err != nil {
		o.Trouble = s.lang(r).say("No token was made: %s.", err)
		s.setupPage(w, r, http.StatusUnprocessableEntity, o)
		return
	}
	o.Secret = secret
	s.setupPage(w, r, http.StatusOK, o)
}

// setupAllowed refuses who may only look; tokens take an admin of everything.
func (s *Server) setupAllowed(w http.ResponseWriter, r *http.Request, admin bool) bool {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		s.trouble(w, s.look(r), http.StatusBadRequest, "Not read", s.lang(r).say("The form cannot be read: %s.", err))
		return false
	}
	if admin && !mayIssue(r) {
		s.trouble(w, s.look(r), http.StatusForbidden, "No token was made", "Tokens are made by admins of all services.")
		return false
	}
	return admin || s.operator(w, r, "Nothing was written")
}

func (s *Server) setupSLO(w http.ResponseWriter, r *http.Request) {
	if !s.setupAllowed(w, r, false) {
		return
	}
	service, target := r.PostFormValue("service"), strings.TrimSpace(r.PostFormValue("target"))
	text := promiseText(service, target, strings.TrimSpace(r.PostFormValue("owner")))
	if text == "" {
		s.setupPage(w, r, http.StatusUnprocessableEntity, setupView{Trouble: s.lang(r).say("The target must be a percentage such as 99.9, at least 50 and below 100; got %s.", target)})
		return
	}
	s.writeSetup(w, r, service, "slo-"+service+".yaml", text, "promised")
}

func (s *Server) setupGameDay(w http.ResponseWriter, r *http.Request) {
	if !s.setupAllowed(w, r, false) {
		return
	}
	var o setupView
	v := s.look(r)
	s.setupDrill(r, v, &o)
	if o.Document == "" || o.Drill.Preview.Refused {
		wrong := v.say("Nothing was written: what is refused below would never start. Agree to it, or choose another service.")
		if o.Document == "" {
			wrong = v.text(v.say("Nothing was written."), o.Drill.Wrong)
		}
		s.setupPage(w, r, http.StatusUnprocessableEntity, setupView{Trouble: wrong})
		return
	}
	s.writeSetup(w, r, o.Service, o.File, o.Document, "drilled")
}
