package scenario

import (
	"errors"
	"fmt"
	"time"

	"breakwater/injector/cron"
	"breakwater/internal/conf"
)

// DecodeGameDay reads one document of kind GameDay; mistakes go to log.
func DecodeGameDay(d conf.Document, log *conf.Log) GameDay {
	m := d.Root.Map()
	g := GameDay{File: d.Root.File(), Line: d.Root.Line()}
	m.Need("apiVersion").Enum("", apiVersion)
	m.Need("kind").Enum("", "GameDay")
	g.Name = m.Need("name").Name()
	g.Title = m.Get("title").Str(g.Name)
	list := m.Need("scenarios")
	for _, item := range list.List() {
		if id := item.Name(); id != "" {
			g.Scenarios = append(g.Scenarios, id)
		}
	}
	if list.IsList() && len(list.List()) == 0 {
		list.Errorf("must name at least one scenario")
	}
	if n := m.Get("schedule"); n.Present() {
		g.Schedule = schedule(n)
	}
	if n := m.Get("auto_approve"); n.Present() {
		grant := n.Map()
		g.GrantPPM = grant.Need("budget_spent").PPM(0)
		if grant.Get("budget_spent").Present() && g.GrantPPM == 0 {
			grant.Get("budget_spent").Errorf("must be above 0%%, got 0%%")
		}
		grant.Done()
	}
	m.Done()
	return g
}

func schedule(n conf.Node) *Schedule {
	m := n.Map()
	s := &Schedule{Cron: m.Need("cron").Str(""), Zone: m.Get("zone").Str("UTC")}
	if nth := m.Get("nth"); nth.Present() {
		week := nth.Map()
		s.NthWeek = int(week.Need("week").Int(0, 1, 5))
		s.NthDay = week.Need("day").Enum("", "mon", "tue", "wed", "thu", "fri", "sat", "sun")
		week.Done()
	}
	s.Quarterly, _ = m.Get("quarterly").Bool(false)
	for _, item := range m.Get("blackout").List() {
		days := item.Map()
		d := Days{From: day(days.Need("from")), To: day(days.Need("to"))}
		if d.From > d.To {
			item.Errorf("must end on or after %s, got %s", d.From, d.To)
		}
		days.Done()
		s.Blackout = append(s.Blackout, d)
	}
	m.Done()
	// Whether it can ever happen must not depend on the day it is read, beyond
	// the horizon's eight years: so any fixed instant does.
	if _, err := s.Compile(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)); err != nil && s.Cron != "" {
		for _, e := range flatten(err) {
			at := n
			if fe, ok := errors.AsType[*cron.FieldError](e); ok {
				if f := m.Get(fe.Field); f.Present() {
					at = f
				}
				mistake := at.Errorf("%s", fe.Text)
				if fe.Hint != "" {
					mistake.Hint("%s", fe.Hint)
				}
				continue
			}
			at.Errorf("%v", e)
		}
	}
	return s
}

func flatten(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

func day(n conf.Node) string {
	text := n.Str("")
	if _, err := time.Parse(time.DateOnly, text); err != nil && text != "" {
		n.Errorf("must be a date such as 2026-12-24, got %q", text)
		return ""
	}
	return text
}

// Compile makes s computable; from is the instant from which it must happen.
func (s Schedule) Compile(from time.Time) (cron.Schedule, error) {
	return cron.Parse(cron.Spec{Cron: s.Cron, Zone: s.Zone, Week: s.NthWeek, Day: s.NthDay, Quarterly: s.Quarterly}, from)
}

// Blacked reports whether at lies on a day of the blackout, by the zone's own dates.
func (s Schedule) Blacked(at time.Time, loc *time.Location) bool {
	date := at.In(loc).Format(time.DateOnly)
	for _, d := range s.Blackout {
		if d.From <= date && date <= d.To {
			return true
		}
	}
	return false
}

// check reports what no document can see alone: ids given twice, game days that
// name a scenario nobody wrote.
func (set *Set) check(log *conf.Log) {
	scenarios := map[string]Scenario{}
	for _, s := range set.Scenarios {
		if first, twice := scenarios[s.ID]; twice && s.ID != "" {
			log.Add(s.File, s.Line, 1, "must have an id of its own, got %s again", s.ID).Hint("%s", placeOf(first.File, first.Line))
		}
		scenarios[s.ID] = s
	}
	days := map[string]GameDay{}
	for _, g := range set.GameDays {
		if first, twice := days[g.Name]; twice && g.Name != "" {
			log.Add(g.File, g.Line, 1, "must have a name of its own, got %s again", g.Name).Hint("%s", placeOf(first.File, first.Line))
		}
		days[g.Name] = g
		for _, id := range g.Scenarios {
			if _, known := scenarios[id]; !known {
				log.Add(g.File, g.Line, 1, "scenarios: must be known, got %s", id)
			}
		}
	}
}

func placeOf(file string, line int) string { return fmt.Sprintf("first at %s:%d", file, line) }
