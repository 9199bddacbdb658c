package web

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/gameday"
	"breakwater/slo"
)

// happenings are all due instants of a span, what became of them and what will, with
// what people hold by hand.
func (d daybook) happenings(c calSpan) []happening {
	var out []happening
	known := map[string]bool{}
	within := func(at time.Time) bool { return !at.Before(c.from) && at.Before(c.until) }
	for _, occ := range d.decided {
		id := injector.DayID(occ.Schedule, occ.ScheduledFor)
		known[id] = true
		if !within(occ.ScheduledFor) {
			continue
		}
		h := happening{at: occ.ScheduledFor, key: occ.Schedule, href: dayHref(id), title: d.titleOf(occ.Schedule), service: d.serviceOf(occ.Schedule)}
		if occ.Skipped != "" {
			x := d.decision(h.title, occ)
			h.chip, h.why, h.cut, h.href = x.Mark, x.Text, true, "#decisions"
		} else {
			h.chip, h.why = d.outcome(occ.Schedule, occ.ScheduledFor)
		}
		out = append(out, h)
	}
	for _, held := range d.held {
		if known[held.ID] || held.StartedAt.IsZero() || !within(held.PlannedAt) {
			continue
		}
		chip, why := d.outcome(held.Name, held.PlannedAt)
		out = append(out, happening{at: held.PlannedAt, key: held.Name, href: dayHref(held.ID), title: held.Title, service: d.serviceOf(held.Name), chip: chip, why: cmp.Or(held.Stopped, why)})
	}
	for _, a := range d.ahead {
		for _, x := range a.Coming {
			if known[x.ID] || !within(x.UTC) {
				continue
			}
			h := happening{at: x.UTC, key: a.Schedule.ID, href: dayHref(a.Schedule.ID), title: cmp.Or(a.Schedule.Title, a.Schedule.ID), service: d.serviceOf(a.Schedule.ID), chip: Chip{"chaos", "s-chaos", "planned"}}
			if why := d.barred(a, x); why != "" {
				h.chip, h.why, h.cut = Chip{"fg-unknown", "s-nodata", "will be skipped"}, why, true
			}
			out = append(out, h)
		}
	}
	return out
}

func (d daybook) serviceOf(schedule string) string {
	for _, a := range d.ahead {
		if a.Schedule.ID == schedule && len(a.Services) > 0 {
			return a.Services[0]
		}
	}
	return ""
}

// outcome is how the runs of one game day ended, by the word of its report.
func (d daybook) outcome(name string, at time.Time) (Chip, string) {
	var story gameday.Story
	for _, r := range d.runs {
		if r.GameDay == name && r.PlannedAt.Equal(at) {
			story.Runs = append(story.Runs, r)
		}
	}
	return storyChip(story)
}

// storyChip is a game day in a chip: what runs before what was seen.
func storyChip(s gameday.Story) (Chip, string) {
	if len(s.Runs) == 0 {
		return Chip{"unknown", "e-log", "held"}, ""
	}
	for _, r := range s.Runs {
		if r.State.Active() {
			return Chip{"chaos", "s-chaos", "running"}, ""
		}
	}
	if i := slices.IndexFunc(s.Runs, func(r injector.Run) bool { return !r.State.Ended() }); i >= 0 {
		return runChip(s.Runs[i]), ""
	}
	word, why := s.Verdict()
	chip := verdictChip(injector.Verdict(strings.ReplaceAll(word, " ", "_")), word)
	if word == string(injector.Passed) {
		why = ""
	}
	return chip, why
}

// bars are what keeps game days from beginning: freezes of what they aim at, and the
// days on which a schedule rests.
func (d daybook) bars(c calSpan) []stretch {
	var out []stretch
	aimed := map[string]bool{}
	type days struct{ from, to, zone string }
	rests := map[days][]string{}
	var order []days
	for _, a := range d.ahead {
		if !a.Schedule.Enabled {
			continue
		}
		for _, name := range a.Services {
			aimed[name] = true
		}
		if a.Day.Schedule == nil {
			continue
		}
		for _, b := range a.Day.Schedule.Blackout {
			key := days{b.From, b.To, a.Zone.String()}
			if rests[key] == nil {
				order = append(order, key)
			}
			rests[key] = append(rests[key], cmp.Or(a.Schedule.Title, a.Schedule.ID))
		}
	}
	for _, svc := range d.services {
		st := svc.worst()
		if st.Level != slo.Frozen {
			break // worst first
		}
		if !aimed[svc.Name] {
			continue
		}
		b := stretch{from: st.FrozenAt, until: st.ThawAt, text: svc.Name, href: "/gate"}
		if b.from.IsZero() {
			b.from = st.Since
		}
		b.note = d.say("frozen since %s, no thaw in sight", d.day(b.from).Text)
		if !st.ThawAt.IsZero() {
			b.note = d.say("frozen since %s, thaws %s at best", d.day(b.from).Text, d.day(st.ThawAt).Text)
		}
		if b.until.IsZero() {
			b.until, b.open = c.until, true
		}
		out = append(out, b)
	}
	for _, f := range d.frozen {
		// One by hand holds up releases, and no drill; one that goes on is drawn above.
		if f.To == nil || f.By != "" || !aimed[f.Service] || !f.From.Before(c.until) || !f.To.After(c.from) {
			continue
		}
		note := d.say("was frozen from %s to %s", d.day(f.From).Text, d.day(*f.To).Text)
		if f.Earlier {
			note = d.say("was frozen until %s", d.day(*f.To).Text)
		}
		out = append(out, stretch{from: f.From, until: *f.To, text: f.Service, href: "/gate#past", note: note})
	}
	for _, key := range order {
		from, errFrom := time.Parse(time.DateOnly, key.from)
		to, errTo := time.Parse(time.DateOnly, key.to)
		zone, errZone := time.LoadLocation(key.zone)
		if cmp.Or(errFrom, errTo, errZone) != nil {
			continue
		}
		fy, fm, fd := from.Date()
		ty, tm, td := to.Date()
		out = append(out, stretch{from: midnightOf(fy, fm, fd, zone), until: midnightOf(ty, tm, td+1, zone), text: "blackout", href: "#schedules",
			note: d.say("%s to %s, %s: %s", d.written(from, "2 Jan"), d.written(to, "2 Jan 2006"), key.zone, strings.Join(rests[key], ", "))})
	}
	slices.SortStableFunc(out, func(a, b stretch) int { return a.from.Compare(b.from) })
	return out
}

// conflicts are the next runs that will not begin, and when the one after comes.
func (d daybook) conflicts() (out []Conflict) {
	type timed struct {
		at time.Time
		Conflict
	}
	var all []timed
	for _, a := range d.ahead {
		for i, c := range a.Next {
			why := d.barred(a, c)
			if why == "" {
				continue
			}
			x := Conflict{When: d.day(c.UTC).Text, Title: cmp.Or(a.Schedule.Title, a.Schedule.ID), Why: why + "."}
			for _, next := range a.Next[i+1:] {
				if d.barred(a, next) == "" {
					x.Then = d.say("Next: %s.", d.day(next.UTC).Text)
					break
				}
			}
			all = append(all, timed{c.UTC, x})
			break // the first of each: the calendar has all of them
		}
	}
	slices.SortStableFunc(all, func(a, b timed) int { return a.at.Compare(b.at) })
	for _, x := range all[:min(len(all), 6)] {
		out = append(out, x.Conflict)
	}
	return out
}

// waiting are the game days that people have to do with now.
func (d daybook) waiting() (out []DayRow) {
	for _, h := range slices.Backward(d.held) {
		if !h.EndedAt.IsZero() || h.Stopped != "" && h.StartedAt.IsZero() {
			continue
		}
		row := DayRow{Title: cmp.Or(h.Title, h.Name), Href: dayHref(h.ID), Time: d.day(h.PlannedAt), Chip: dayChip(h, d.now), Note: d.in(h.PlannedAt)}
		if h.Needs > 0 {
			row.Agreed = d.agreedWords(h, d.now)
		}
		out = append(out, row)
	}
	return out[:min(len(out), 6)]
}

// dayChip is where a game day stands.
func dayChip(h gameday.Held, now time.Time) Chip {
	if h.Stopped != "" && h.StartedAt.IsZero() && h.EndedAt.IsZero() {
		return Chip{"unknown", "s-nodata", "called off"}
	}
	switch state := h.State(now); state {
	case "running":
		return Chip{"chaos", "s-chaos", "running"}
	case "waiting_for_approval":
		return Chip{"warn", "s-warn", "waits for approval"}
	case "stopping":
		return Chip{"emergency", "s-emergency", "stopping"}
	case "coming":
		return Chip{"unknown", "s-unknown", "coming"}
	case "skipped":
		return Chip{"unknown", "s-nodata", "not held"}
	default:
		return Chip{"unknown", "e-log", spaced(state)}
	}
}

// sheets are the tables of the page.
func (d daybook) sheets(all []happening) []sheet {
	cal := sheet{name: "calendar", columns: []string{"at", "gameday", "title", "service", "state", "reason"}}
	for _, h := range slices.SortedStableFunc(slices.Values(all), func(a, b happening) int { return a.at.Compare(b.at) }) {
		cal.rows = append(cal.rows, []field{instant(h.at), txt(h.key), txt(h.title), txt(h.service), txt(h.chip.Text), txt(h.why)})
	}
	plans := sheet{name: "schedules", columns: []string{"name", "title", "cron", "zone", "enabled", "scenarios", "services", "next_at", "will_be_skipped"}}
	for _, a := range d.ahead {
		row := []field{txt(a.Schedule.ID), txt(a.Schedule.Title), txt(a.Schedule.Cron), txt(a.Zone.String()), txt(strconv.FormatBool(a.Schedule.Enabled)), txt(strings.Join(a.Schedule.Scenarios, " ")), txt(strings.Join(a.Services, " ")), {}, {}}
		if len(a.Next) > 0 {
			row[7], row[8] = instant(a.Next[0].UTC), txt(d.barred(a, a.Next[0]))
		}
		plans.rows = append(plans.rows, row)
	}
	decided := sheet{name: "decisions", columns: []string{"schedule", "scheduled_for", "decided_at", "skipped", "detail", "runs"}}
	for _, o := range d.decided {
		decided.rows = append(decided.rows, []field{txt(o.Schedule), instant(o.ScheduledFor), instant(o.DecidedAt), txt(o.Skipped), txt(o.Detail), txt(strings.Join(o.Runs, " "))})
	}
	runs := sheet{name: "runs", columns: []string{"id", "gameday", "scenario", "service", "state", "verdict", "reason", "planned_at", "started_at", "ended_at", "failed_requests", "requests", "budget_spent_ppm"}}
	for _, r := range d.runs {
		if r.GameDay != "" {
			runs.rows = append(runs.rows, []field{txt(r.ID), txt(r.GameDay), txt(r.Scenario), txt(r.Service), txt(string(r.State)), txt(string(r.Verdict)), txt(r.Reason), instant(r.PlannedAt), instant(r.StartedAt), instant(r.EndedAt),
				num(r.Bad), num(r.Good + r.Bad), num(r.BudgetSpentPPM)})
		}
	}
	return []sheet{cal, plans, decided, runs}
}
