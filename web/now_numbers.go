package web

import (
	"fmt"
	"net/http"
	"time"

	"breakwater/injector"
	"breakwater/slo"
	"breakwater/slo/now"
)

// explainNow says how the numbers of the three answers come about.
func (l lang) explainNow(sit now.Situation) []slo.Line {
	var out []slo.Line
	add := func(id, label, value, formula, meaning string) {
		out = append(out, slo.Line{ID: id, Label: label, Value: value, Formula: formula, Meaning: meaning})
	}
	w, m := sit.Who, sit.Measure
	since := l.say("the last ten minutes")
	if sit.Since != nil {
		since = l.say("since %s", sit.Since.UTC().Format("15:04:05Z"))
	}
	if w.HitPPM != nil {
		add("hit", l.say("Hit"), slo.Percent(*w.HitPPM), fmt.Sprintf("%s hit / %s asked", slo.Count(w.Hits), slo.Count(w.Asked)),
			l.say("Requests that failed or were told to come later, of all that were asked, %s.", since))
	}
	if m.SuccessPPM != nil {
		add("success", l.say("Success"), slo.Share(*m.SuccessPPM, 1_000_000), "good / (good + bad)", l.say("Valid requests that were answered well in the end, %s. Those told to come later count in neither.", since))
	}
	if m.FirstTryPPM != nil {
		add("first", l.say("First try"), slo.Share(*m.FirstTryPPM, 1_000_000), "(valid − bad at the first try) / valid", l.say("What it would have been without any retry."))
	}
	if m.BurnMilli != nil {
		add("burn5", l.say("Burn, 5\u202fmin"), slo.RateMilli(*m.BurnMilli), "(bad / valid) / (1 − target)", l.say("At 1× a budget lasts exactly its window."))
	}
	if m.BurnHour != nil {
		add("burn60", l.say("Burn, 1\u202fh"), slo.RateMilli(*m.BurnHour), "(bad / valid) / (1 − target)", l.say("The same over an hour."))
	}
	if m.RemainingPPM != nil {
		add("left", l.say("Budget left"), slo.Percent(*m.RemainingPPM), "1 − bad / allowed", l.say("Of %s; its page gives the integers.", m.Objective))
	}
	return out
}

// nowSheets are the tables of the page as files.
func nowSheets(a now.Answer) []sheet {
	services := sheet{name: "services", columns: []string{"service", "env", "state", "level", "bad_events", "valid_events"}}
	for _, b := range a.Services {
		services.rows = append(services.rows, []field{txt(b.Service), txt(b.Env), txt(string(b.State)), txt(string(b.Level)), num(b.Bad), num(b.Valid)})
	}
	causes := sheet{name: "causes", columns: []string{"rank", "kind", "subject", "service", "score_ppm", "explained_ppm", "failures", "text"}}
	shares := sheet{name: "shares", columns: []string{"dimension", "value", "hits", "asked", "failures_ppm", "traffic_ppm", "hit_ppm"}}
	if a.Situation != nil {
		for _, c := range a.Situation.Causes {
			causes.rows = append(causes.rows, []field{num(int64(c.Rank)), txt(string(c.Kind)), txt(c.Subject), txt(c.Service), num(c.Score), num(c.ExplainedPPM), num(c.Failures), txt(c.Text)})
		}
		w := a.Situation.Who
		for _, d := range []struct {
			name string
			list []now.Share
		}{{"caller", w.Callers}, {"tenant", w.Tenants}, {"route", w.Routes}} {
			for _, sh := range d.list {
				shares.rows = append(shares.rows, []field{txt(d.name), txt(sh.Value), num(sh.Hits), num(sh.Asked), num(sh.HitsPPM), num(sh.TrafficPPM), num(sh.OwnPPM)})
			}
		}
	}
	return []sheet{services, causes, shares}
}

// failing draws the share of failing requests of a service over the last while,
// with experiments behind it and a line where it began.
func (s *Server) failing(r *http.Request, v view, service string, back time.Duration, onset *time.Time) (*Chart, string) {
	to := v.now
	from := to.Add(-back)
	points, err := s.cfg.Drills.Series(r.Context(), service, "", from, to)
	if trouble := s.read(v, "The series", err); trouble != "" {
		return nil, trouble
	}
	points = merged(points, from, to)
	if len(points) == 0 {
		return nil, v.say("No gateway has reported a request of it in the last %s.", v.lasting(back))
	}
	points = padded(points, from, to)
	var marks []specMark
	if onset != nil && onset.After(from) {
		marks = append(marks, specMark{At: onset.Unix(), Text: v.say("first failures")})
	}
	c := v.failingChart(axis{from: from, to: to}, service, v.runsOf(service), marks, points)
	c.Label = v.say("Share of failing requests of %s over the last %s", service, v.lasting(back))
	return c, ""
}

// padded adds the steps without a report before the first point and after the last.
func padded(points []injector.Point, from, to time.Time) []injector.Point {
	const step = 15 * time.Second
	var out []injector.Point
	for at := from.Add(step); at.Add(step).Before(points[0].At); at = at.Add(step) {
		out = append(out, injector.Point{At: at})
	}
	out = append(out, points...)
	for at := points[len(points)-1].At.Add(step); at.Before(to.Add(-step)); at = at.Add(step) {
		out = append(out, injector.Point{At: at})
	}
	return out
}
