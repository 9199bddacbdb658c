package web

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/go-chi/chi/v5"

	"breakwater/injector/scenario"
)

// PlanForm is the form that plans a scenario each week.
type PlanForm struct {
	Href        string
	Days, Hours []Choice
	Zone        string
	Approvals   []Choice
	File        string
	Closed      string // why nothing can be written; then there is no form
	Trouble     string
	Problems    []Problem
}

// agreed are the ways to agree to each run, the first the usual one.
func agreed(chosen string) []Choice {
	return []Choice{{"1", phrase("Another person agrees to each"), chosen != "auto"}, {"auto", phrase("None while it spends at most 2\u202f% of the budget"), chosen == "auto"}}
}

// planForm offers a weekly time for a scenario to who may write documents; nil: not to
// who asks.
func (s *Server) planForm(r *http.Request, id string) *PlanForm {
	if !s.cfg.MayLift(r) {
		return nil
	}
	x := s.slotOf(r)
	f := &PlanForm{Href: scenarioHref(id) + "/plan", Zone: x.zone, Approvals: agreed(r.FormValue("approval")), File: "weekly-" + clipName(id) + ".yaml", Closed: s.cfg.Setup.Place().Closed}
	f.Days, f.Hours = s.lang(r).weekChoices(x)
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
	form, x := s.planForm(r, id), s.slotOf(r)
	plan := scenario.Schedule{Cron: x.cron(), Zone: x.zone}
	if _, err := plan.Compile(s.cfg.Now()); err != nil || plan.Cron == "" {
		form.Trouble = s.lang(r).say("The zone must be an IANA name such as Europe/Berlin, and the time one such as 10:30; got %s, %s.", x.at, x.zone)
		s.scenarioWith(w, r, http.StatusUnprocessableEntity, "", form)
		return
	}
	text := weeklyDay(id, d.Title, x, r.FormValue("approval"))
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
func weeklyDay(id, title string, x weekSlot, approval string) string {
	who := "approvals: 1\n"
	if approval == "auto" {
		who = "auto_approve: {budget_spent: \"2%\"}\n"
	}
	return fmt.Sprintf("apiVersion: breakwater/v1\nkind: GameDay\nname: %s\ntitle: %s\nscenarios: [%s]\nschedule: {cron: %s, zone: %s}\n",
		yamlFlow(clipName("weekly-"+id)), yamlQuoted("Weekly: "+title), yamlFlow(id), yamlQuoted(x.cron()), yamlQuoted(x.zone)) + who
}
