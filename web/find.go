package web

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"breakwater/slo"
	"breakwater/slo/alert"
)

type findView struct {
	Query, Sub, Trouble string
	Groups              []Found
}

// Found is what was found of one kind.
type Found struct {
	Name string
	Rows []FoundRow
	More string
}

// FoundRow is one thing and where it stands.
type FoundRow struct {
	Name, Href, Note string
	Chip             *Chip
}

const mostFound = 12

// find looks for services, objectives, runs and incidents by a part of their name, id,
// owner or title.
func (s *Server) find(w http.ResponseWriter, r *http.Request) {
	v := s.lookAtRuns(r)
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	page := findView{Query: query}
	if query == "" {
		page.Sub = v.say("A part of the name of a service, an objective, a run, an incident or an owner.")
		s.show(w, v, http.StatusOK, "find", Page{Title: "Find", Crumbs: []Link{{Name: "Find"}}}, page)
		return
	}
	needle := strings.ToLower(query)
	has := func(texts ...string) bool {
		return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), needle)
	}
	add := func(name, more string, rows []FoundRow) {
		if len(rows) == 0 {
			return
		}
		g := Found{Name: name, Rows: rows[:min(len(rows), mostFound)]}
		if len(rows) > mostFound {
			g.More = more
		}
		page.Groups = append(page.Groups, g)
		page.Sub = "" // something was found
	}
	page.Sub = v.say("Nothing has “%s” in its name, id, title or owner.", query)
	var services, objectives, runs, incidents []FoundRow
	for _, svc := range v.services {
		if st := svc.worst(); has(svc.Name, st.Objective.Owner) && s.cfg.Covers(r, svc.Name) {
			chip := statusChip(st)
			services = append(services, FoundRow{Name: svc.Name, Href: serviceHref(svc.Name), Note: st.Objective.Owner, Chip: &chip})
		}
		for _, st := range svc.Statuses {
			if has(st.Objective.ID, st.Objective.Title) && s.cfg.Covers(r, svc.Name) {
				chip := statusChip(st)
				objectives = append(objectives, FoundRow{Name: title(st.Objective), Href: sloHref(st), Note: v.say("%s over %s", slo.Target(st.Objective.TargetPPB), v.lasting(st.Objective.Window)), Chip: &chip})
			}
		}
	}
	for _, run := range v.runs {
		if has(run.ID, run.Title, run.Scenario, run.GameDay) && s.cfg.Covers(r, run.Service) {
			chip := runChip(run)
			runs = append(runs, FoundRow{Name: run.Title, Href: runHref(run.ID), Note: run.ID + ", " + v.day(run.PlannedAt).Text, Chip: &chip})
		}
	}
	list, err := s.cfg.Alerts.Incidents(r.Context(), alert.Question{Before: v.now.Add(time.Hour), Limit: 200})
	page.Trouble = s.read(v, "Incidents", err)
	for _, i := range list {
		if has(i.ID, i.Title) && s.cfg.Covers(r, i.Service) {
			chip := severityChip(i.Severity)
			incidents = append(incidents, FoundRow{Name: sentenceCase(v.tell(i.Title)), Href: alertHref(i.ID), Note: i.ID + ", " + v.day(i.OpenedAt).Text, Chip: &chip})
		}
	}
	q := url.QueryEscape(query)
	add(v.say("Services"), "/?q="+q, services)
	add(v.say("Objectives"), "/slos?q="+q, objectives)
	add(v.say("Runs"), "/runs", runs)
	add(v.say("Incidents"), "/alerts?view=all", incidents)
	findings, days := s.foundPractice(r, v, has)
	add(v.say("Findings"), "/findings?view=all", findings)
	add(v.say("Game days"), "/gamedays", days)
	s.show(w, v, http.StatusOK, "find", Page{Title: v.say("Find %s", query), Crumbs: []Link{{Name: "Find"}}}, page)
}
