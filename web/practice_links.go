package web

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/slo"
)

// practiceFacts are how well a service is drilled, for its own page: how ready it is,
// what drills found, and when the next one comes.
func (s *Server) practiceFacts(r *http.Request, v view, service string) []Fact {
	ready := Fact{Name: "Readiness", Value: v.say("no data"), Class: "mute", Text: v.say("It was not looked at yet."), Link: &Link{Name: v.say("The fifteen questions"), Href: readyHref(service)}}
	trends, err := s.cfg.Readiness.Look(r.Context(), service, v.now.AddDate(0, 0, -2))
	if text := s.read(v, "Readiness", err); text != "" {
		ready.Text = text
	} else if len(trends) > 0 && newest(trends[0]).Of > 0 {
		d := newest(trends[0])
		ready.Value, ready.Class = v.say("%s of %s", slo.Count(int64(d.Ready)), slo.Count(int64(d.Of))), ""
		ready.Text = v.say("%s, %s", v.count(d.No, "is no", "are no"), v.count(d.Unknown, "is unknown.", "are unknown."))
	}
	found := Fact{Name: "Findings", Value: v.say("none open"), Text: v.say("Nothing that a drill has shown stands open."), Link: &Link{Name: v.say("All of them"), Href: "/findings?" + url.Values{"service": {service}, "view": {"all"}}.Encode()}}
	all, err := s.cfg.Findings.Findings(r.Context(), finding.Filter{Service: service, Open: true, Now: v.now})
	if text := s.read(v, "Findings", err); text != "" {
		found.Value, found.Class, found.Text = v.say("no data"), "mute", text
	}
	open, late := 0, 0
	for _, f := range all {
		if f.State != finding.Verified {
			open++
			if f.Overdue(v.now) {
				late++
			}
		}
	}
	if open > 0 {
		found.Value, found.Text, found.Link.Name, found.Link.Href = v.say("%s open", slo.Count(int64(open))), v.say("%s overdue.", slo.Count(int64(late))), v.say("Which"), "/findings?"+url.Values{"service": {service}}.Encode()
		if late > 0 {
			found.Class = "fg-emergency"
		}
	}
	next := Fact{Name: "Next game day", Value: v.say("none"), Class: "mute", Text: v.say("No schedule drills it."), Link: &Link{Name: v.say("Game days"), Href: "/gamedays"}}
	ahead, err := s.cfg.Days.Ahead(r.Context(), v.now, v.now)
	if text := s.read(v, "Game days", err); text != "" {
		next.Value, next.Text = v.say("no data"), text
	}
	var at time.Time
	d := daybook{view: v, ahead: ahead}
	for _, a := range ahead {
		if len(a.Next) == 0 || !slices.Contains(a.Services, service) || !at.IsZero() && !a.Next[0].UTC.Before(at) {
			continue
		}
		at = a.Next[0].UTC
		next.Value, next.Class, next.Text = v.in(at), "", v.say("%s.", v.day(at).Text)
		next.Link = &Link{Name: cmp.Or(a.Schedule.Title, a.Schedule.ID), Href: dayHref(a.Schedule.ID)}
		if why := d.barred(a, a.Next[0]); why != "" {
			next.Text = v.text(next.Text, v.say("Will be skipped: %s.", why))
		}
	}
	return []Fact{ready, found, next}
}

// runFindings are what a run found, looked at again or closed.
func (s *Server) runFindings(r *http.Request, v view, run injector.Run) (out []FindingRow) {
	all, err := s.cfg.Findings.Findings(r.Context(), finding.Filter{Service: run.Service, Now: v.now})
	_ = s.read(v, "Findings", err) // the page of findings says so
	for _, f := range all {
		if (f.Run == run.ID || f.LastRun == run.ID) && s.cfg.Covers(r, f.Service) {
			out = append(out, v.findingRow(f))
		}
	}
	return out
}

// dayOfRun leads to the game day that a run belongs to; nil: to none.
func dayOfRun(run injector.Run) *Link {
	if run.GameDay == "" {
		return nil
	}
	name := cmp.Or(run.Schedule, run.GameDay)
	return &Link{Name: run.GameDay, Href: dayHref(injector.DayID(name, run.PlannedAt))}
}

// foundPractice are findings and game days by a part of their name.
func (s *Server) foundPractice(r *http.Request, v view, has func(...string) bool) (findings, days []FoundRow) {
	all, err := s.cfg.Findings.Findings(r.Context(), finding.Filter{Now: v.now})
	_ = s.read(v, "Findings", err)
	for _, f := range all {
		if has(f.ID, f.Title, f.Owner, f.Scenario) && s.cfg.Covers(r, f.Service) {
			chip := severityOf(f.Severity)
			findings = append(findings, FoundRow{Name: sentenceCase(v.tell(f.Title)), Href: findingHref(f.ID), Note: v.list(f.ID, f.Service, v.word(findingState(f).Text)), Chip: &chip})
		}
	}
	ahead, err := s.cfg.Days.Ahead(r.Context(), v.now, v.now)
	_ = s.read(v, "Game days", err)
	for _, a := range ahead {
		if has(a.Schedule.ID, a.Schedule.Title, a.Day.Roles.Commander) {
			row := FoundRow{Name: cmp.Or(a.Schedule.Title, a.Schedule.ID), Href: dayHref(a.Schedule.ID), Note: v.planWords(a)}
			if !a.Schedule.Enabled {
				row.Href = "/gamedays"
			}
			days = append(days, row)
		}
	}
	return findings, days
}
