package main

import (
	"context"
	"slices"
	"time"

	"breakwater/injector"
	weakness "breakwater/injector/finding" // doctor has findings of its own
	"breakwater/injector/scenario"
	"breakwater/internal/auth"
	"breakwater/slo/alert"
)

// maxIncidents bounds what is read for one look at alerts.
const maxIncidents = 1000

// alerts tells the injector which alerts fired in (since, until], or before and still
// do, and up to when that is known. An alert is known by several names: as the
// service and class of its incident (order.errors), and as each symptom and fact that
// the incident holds is called. One of Alertmanager has the name that it has there.
func (c *control) alerts(ctx context.Context, since, until time.Time) ([]injector.Alert, time.Time, error) {
	heard := c.alertsHeard()
	seen := map[string]bool{}
	var out []injector.Alert
	// The newest of those that were open then, and those that are however old they are.
	for _, open := range []bool{false, true} {
		found, err := c.store.Incidents(ctx, alert.Question{Open: open, Since: since, Before: until.Add(time.Microsecond), Limit: maxIncidents})
		if err != nil {
			return nil, time.Time{}, err
		}
		for _, i := range found {
			if !seen[i.ID] {
				seen[i.ID] = true
				out = append(out, alertsOf(i)...)
			}
		}
		// With more than can be read, what began earlier may be missing.
		if !open && len(found) == maxIncidents && found[len(found)-1].OpenedAt.After(since) {
			heard = time.Time{}
		}
	}
	others, err := c.store.ForeignAlerts(ctx, since, until)
	if err != nil {
		return nil, time.Time{}, err
	}
	out = append(out, others...)
	out = slices.DeleteFunc(out, func(a injector.Alert) bool { return a.From.After(until) || !a.To.IsZero() && !a.To.After(since) })
	return out, heard, nil
}

// alertsOf are the alerts of one incident, by each of their names.
func alertsOf(i alert.Incident) []injector.Alert {
	end := time.Time{}
	if i.ClosedAt != nil {
		end = *i.ClosedAt
	}
	level := string(i.Tier) + " " + string(i.Severity)
	out := []injector.Alert{{Name: i.Service + "." + string(i.Class), Service: i.Service, Level: level, From: i.OpenedAt, To: end}}
	for _, s := range slices.Concat(i.Symptoms, i.Facts) {
		over := end
		if over.IsZero() && s.Last.Before(i.LastSeen) {
			over = s.Last
		}
		out = append(out, injector.Alert{Name: s.Key, Service: i.Service, Level: string(s.Tier) + " " + string(s.Severity), From: s.Since, To: over})
	}
	return out
}

// alertsHeard is up to when alerts are known: as far as they were looked at, as what
// they look at was evaluated, and as gateways have told. Zero: there is no feed.
func (c *control) alertsHeard() time.Time {
	heard, health := c.releases.alerts.Heard(), c.slo.Health()
	data := time.Time{}
	for _, s := range c.slo.Statuses() {
		if s.DataUntil.After(data) {
			data = s.DataUntil
		}
	}
	for _, at := range []time.Time{health.LastAt, data} {
		if at.Before(heard) {
			heard = at
		}
	}
	return heard
}

// owns reports whether whoever asks speaks for a service: their token is limited to
// some, and it is one of them, or they are whom its document names as its owner.
func (c *control) owns(ctx context.Context, service string) bool {
	who := auth.From(ctx)
	if len(who.Services) > 0 && who.Covers(service) {
		return true
	}
	return who.Name != "" && c.ownerOf(service) == who.Name
}

// worse files a boundary that is worse than the one before, though every run of the
// search may have passed.
func (c *control) worse(ctx context.Context, s injector.Search, seen injector.Assertion) error {
	sc, err := injector.ParseText(s.Text)
	if err != nil {
		return err
	}
	if sc.OnFail == nil {
		sc.OnFail = &scenario.Finding{Severity: "medium", Owner: c.ownerOf(s.Service)}
	}
	run := injector.Run{ID: s.ID, Scenario: s.Scenario, Title: s.Title, Service: s.Service, Text: s.Text, Hash: s.Hash,
		State: injector.Completed, Verdict: injector.Failed, InjectAt: s.StartedAt, RecoverAt: s.EndedAt, EndedAt: s.EndedAt, Assertions: []injector.Assertion{seen}}
	changes, err := c.store.FileBoundary(ctx, s.Service, s.Scenario, func(known []weakness.Finding) []weakness.Change {
		// Of its other findings a search says nothing: it means to fail.
		known = slices.DeleteFunc(known, func(f weakness.Finding) bool { return f.Assertion != seen.ID })
		return weakness.Draw(run, sc, known, s.EndedAt)
	})
	for _, x := range changes {
		if f := x.Finding; x.Louder && err == nil {
			err = c.tell(ctx, f.ID, []string{f.Service}, "finding "+f.ID+" of "+f.Service+": "+x.Event.Text)
		}
	}
	return err
}

// unowned stands for the owner of a service that names none.
const unowned = "nobody"

// ownerOf is whom the documents name for a service, or unowned.
func (c *control) ownerOf(service string) string {
	cfg, ok := c.documents()
	if !ok {
		return unowned
	}
	for _, s := range cfg.AllServices() {
		if s.Name == service && s.Owner != "" {
			return s.Owner
		}
	}
	return unowned
}
