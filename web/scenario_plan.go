package web

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"breakwater/injector/scenario"
	"breakwater/slo"
)

// PlanForm is the form that plans a scenario each week.
type PlanForm struct {
	Href, Service string
	Days          []Choice
	At, Zone      string
	Approvals     []Choice
	Left, Office  []Choice // what guards its start, beside what always does
	File          string
	Closed        string // why nothing can be written; then there is no form
	Trouble       string
	Problems      []Problem
}

// planGuards are what a start may be guarded by, as asked for in a form.
type planGuards struct {
	left   string // of the budget, as a document has it; "0": not asked
	office bool
}

func guardsOf(r *http.Request) planGuards {
	g := planGuards{left: "0", office: r.FormValue("office") == "1"}
	if left := r.FormValue("left"); slices.Contains(leftSteps(), left) {
		g.left = left
	}
	return g
}

func leftSteps() []string { return []string{"0", "10%", "30%", "50%"} }

// officeHours are those of whoever says no others.
func officeHours() *scenario.Hours {
	return &scenario.Hours{Days: [7]bool{1: true, 2: true, 3: true, 4: true, 5: true}, From: 9 * 60, To: 17 * 60}
}

// guardChoices are the guards to choose from. Where nothing was chosen yet, those that are
// usual: a third of the budget, of a service that has one.
func (l lang) guardChoices(r *http.Request, budget bool) (left, office []Choice) {
	g := guardsOf(r)
	if r.Method != http.MethodPost {
		g.office = true
		if budget {
			g.left = "30%"
		}
	}
	for _, step := range leftSteps() {
		text := l.say("is not looked at")
		if step != "0" {
			text = l.say("more than %s", strings.TrimSuffix(step, "%")+"\u202f%")
		}
		left = append(left, Choice{step, text, step == g.left})
	}
	office = []Choice{{"1", l.hoursWords(officeHours()), g.office}, {"0", l.say("at any time"), !g.office}}
	return left, office
}

// startWords says in words what has to be so for a game day to begin.
func (l lang) startWords(g scenario.GameDay) (out []string) {
	if g.LeftPPM > 0 {
		out = append(out, l.say("more than %s of the budget is left", slo.Percent(g.LeftPPM)))
	}
	if g.Schedule != nil && g.Schedule.Hours != nil {
		out = append(out, l.say("it is %s", l.hoursWords(g.Schedule.Hours)))
	}
	return append(out, l.say("nothing it aims at is frozen, and no alert of level L1 fires there"))
}

func (l lang) hoursWords(h *scenario.Hours) string {
	days := l.say("Monday to Friday")
	if h.Days != officeHours().Days {
		var names []string
		for i, name := range weekdays[:7] {
			if h.Days[i] {
				names = append(names, l.word(name))
			}
		}
		days = l.list(names...)
	}
	at := func(m int) string { return fmt.Sprintf("%d:%02d", m/60, m%60) }
	return l.say("%s from %s to %s", days, at(h.From), at(h.To))
}

// agreed are the ways to agree to each run, the first the usual one.
func agreed(chosen string) []Choice {
	return []Choice{{"1", phrase("Another person agrees to each"), chosen != "auto"}, {"auto", phrase("None while it spends at most 2\u202f% of the budget"), chosen == "auto"}}
}

// planForm offers a weekly time for a scenario to who may write documents; nil: not to
// who asks.
func (s *Server) planForm(r *http.Request, id, service string) *PlanForm {
	if !s.cfg.MayLift(r) {
		return nil
	}
	x := s.slotOf(r)
	f := &PlanForm{Href: scenarioHref(id) + "/plan", Service: service, At: x.at, Zone: x.zone, Approvals: agreed(r.FormValue("approval")), File: "weekly-" + clipName(id) + ".yaml", Closed: s.cfg.Setup.Place().Closed}
	f.Days, _ = s.lang(r).weekChoices(x)
	f.Left, f.Office = s.lang(r).guardChoices(r, slices.ContainsFunc(s.cfg.Ledger.Statuses(), func(st slo.Status) bool { return st.Objective.Service == service && !st.Budget.NoData }))
	return f
}

// weekChoices are the days and times to choose from; one that was typed otherwise is kept.
func (l lang) weekChoices(x weekSlot) (days, hours []Choice) {
	for i, name := range weekdays[:7] {
		day := itoa(int64(i))
		days = append(days, Choice{day, l.word(name), day == x.day})
	}
	for h := 6; h < 22; h++ {
		for _, m := range []string{"00", "30"} {
			at := fmt.Sprintf("%02d:%s", h, m)
			hours = append(hours, Choice{at, at, at == x.at})
		}
	}
	if !slices.ContainsFunc(hours, func(c Choice) bool { return c.Chosen }) {
		hours = append(hours, Choice{x.at, x.at, true})
	}
	return days, hours
}

// planScenario writes a game day that holds one scenario each week. A scenario of the
// library is written along, since documents name only what stands among them.
func (s *Server) planScenario(w http.ResponseWriter, r *http.Request) {
	small(w, r)
	if !s.operator(w, r, "Not planned") {
		return
	}
	id := chi.URLParam(r, "name")
	d, _, err := s.findDrill(r, id)
	if err != nil || d == nil {
		s.scenarioPage(w, r, http.StatusNotFound, "")
		return
	}
	form, x, guards := s.planForm(r, id, d.Service), s.slotOf(r), guardsOf(r)
	plan := scenario.Schedule{Cron: x.cron(), Zone: x.zone}
	if guards.office {
		plan.Hours = officeHours()
	}
	calendar, err := plan.Compile(s.cfg.Now())
	if err != nil || plan.Cron == "" {
		form.Trouble = s.lang(r).say("The zone must be an IANA name such as Europe/Berlin, and the time one such as 10:30; got %s, %s.", x.at, x.zone)
		s.scenarioWith(w, r, http.StatusUnprocessableEntity, "", form)
		return
	}
	if due := calendar.Preview(s.cfg.Now(), 1); len(due) > 0 && plan.Closed(due[0].UTC, calendar.Location()) != "" {
		form.Trouble = s.lang(r).say("It would never begin: its time lies outside of the hours that guard it, %s.", s.lang(r).hoursWords(plan.Hours))
		s.scenarioWith(w, r, http.StatusUnprocessableEntity, "", form)
		return
	}
	text := weeklyDay(id, d.Title, x, r.FormValue("approval"), guards)
	if d.Library {
		text = d.Text + "\n---\n" + text
	}
	if _, err := s.cfg.Setup.Write(r.Context(), s.cfg.Actor(r), form.File, text); err != nil {
		form.Trouble = s.lang(r).say("Nothing was written: %s.", err)
		if mistakesListed(err) {
			form.Trouble, form.Problems = s.lang(r).say("Nothing was written: the documents would have mistakes."), setupProblems(err)
		}
		s.scenarioWith(w, r, http.StatusUnprocessableEntity, "", form)
		return
	}
	s.Changed(topicSetup, topicDrills)
	leave(w, r, scenarioHref(id)+"?said=planned")
}

// weeklyDay is the document.
func weeklyDay(id, title string, x weekSlot, approval string, guards planGuards) string {
	who := "approvals: 1\n"
	if approval == "auto" {
		who = "auto_approve: {budget_spent: \"2%\"}\n"
	}
	if guards.left != "0" {
		who += "guards: {budget_left: " + yamlQuoted(guards.left) + "}\n"
	}
	hours := ""
	if guards.office {
		hours = `, hours: {from: "09:00", to: "17:00"}`
	}
	return fmt.Sprintf("apiVersion: breakwater/v1\nkind: GameDay\nname: %s\ntitle: %s\nscenarios: [%s]\nschedule: {cron: %s, zone: %s%s}\n",
		yamlFlow(clipName("weekly-"+id)), yamlQuoted("Weekly: "+title), yamlFlow(id), yamlQuoted(x.cron()), yamlQuoted(x.zone), hours) + who
}
