package scenario

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/injector/cron"
	"breakwater/internal/conf"
)

// GameDay runs scenarios in order, by itself where it has a schedule.
type GameDay struct {
	Name  string
	Title string
	// Scenarios are all of Waves, in order.
	Scenarios []string
	Waves     []Wave
	Schedule  *Schedule
	Roles     Roles
	// GrantPPM is the share of the window's budget that a run may spend without
	// anybody's approval; 0: no grant.
	GrantPPM int64
	// LeftPPM guards its start: each of its services must have more of its budget left;
	// 0: not asked.
	LeftPPM int64
	// Approvals is how many people have to agree; -1: by environment and class.
	Approvals int
	// Remind is how long before the start people are reminded; 0: never.
	Remind time.Duration
	// Deadline is how long after its planned time it is over, whatever still runs;
	// 0: when its runs are.
	Deadline time.Duration
	// Stop ends all of it at once.
	Stop []Stop
	// Reverify adds a run of what a finding of its services was found by.
	Reverify bool

	Text string
	File string
	Line int
}

// Wave is what runs together; the next one waits until all of it has recovered.
type Wave struct {
	Name      string
	Scenarios []string
}

// Roles are the people of a game day.
type Roles struct {
	Commander, Scribe string
	Observers         []string
}

// Schedule says when: cron text in a zone, narrowed to one weekday of the month
// and to quarters where asked, less the days of Blackout and what lies outside
// Hours.
type Schedule struct {
	Cron, Zone string
	NthWeek    int    // 0: every
	NthDay     string // mon, tue ...
	Quarterly  bool
	Blackout   []Days
	Hours      *Hours // nil: at any time
	// Allow lets it start although an earlier one of its own has not ended; runs
	// against one target never overlap.
	Allow bool
	// StartDeadline is how late a due instant may still start; 0: the engine's.
	StartDeadline time.Duration
}

// Days is a span of local dates, both included, each 2006-01-02.
type Days struct{ From, To string }

// Hours are those of an office, in minutes of the local day; To is not included.
type Hours struct {
	Days     [7]bool // by time.Weekday
	From, To int
}

// DecodeGameDay reads one document of kind GameDay; mistakes go to log.
func DecodeGameDay(d conf.Document, log *conf.Log) GameDay {
	m := d.Root.Map()
	g := GameDay{File: d.Root.File(), Line: d.Root.Line()}
	m.Need("apiVersion").Enum("", apiVersion)
	m.Need("kind").Enum("", "GameDay")
	g.Name = m.Need("name").Name()
	g.Title = m.Get("title").Str(g.Name)
	g.Waves = waves(m)
	for _, w := range g.Waves {
		g.Scenarios = append(g.Scenarios, w.Scenarios...)
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
	if n := m.Get("guards"); n.Present() {
		guards := n.Map()
		g.LeftPPM = guards.Need("budget_left").PPM(0)
		if g.LeftPPM == million {
			guards.Get("budget_left").Errorf("must be below 100%%, got 100%%").Hint("it begins only with more than that left")
		}
		guards.Done()
	}
	g.Roles = roles(m.Get("roles"))
	g.Approvals = int(m.Get("approvals").Int(-1, 0, 5))
	g.Remind = m.Get("remind").Span(DefaultRemind, 0, 30*24*time.Hour)
	g.Deadline = m.Get("deadline").Span(0, time.Minute, 7*24*time.Hour)
	if n := m.Get("stop"); n.Present() {
		g.Stop = stops(n)
	}
	g.Reverify, _ = m.Get("reverify").Bool(true)
	m.Done()
	return g
}

const million = 1_000_000

// DefaultRemind is how long before a game day people are reminded of it.
const DefaultRemind = 15 * time.Minute

// waves reads a game day's scenarios: each alone in its order, or in waves.
func waves(m *conf.Map) []Wave {
	alone, together := m.Get("scenarios"), m.Get("waves")
	switch {
	case alone.Present() && together.Present():
		together.Errorf("must stand alone, got scenarios beside it").Hint("scenarios is the short form of one wave each")
	case !together.Present():
		m.Need("scenarios")
	}
	var out []Wave
	for _, item := range filled(alone) {
		if id := item.Name(); id != "" {
			out = append(out, Wave{Name: id, Scenarios: []string{id}})
		}
	}
	for i, item := range filled(together) {
		w := item.Map()
		wave := Wave{Name: w.Get("name").Str(fmt.Sprintf("wave %d", i+1))}
		for _, item := range filled(w.Need("scenarios")) {
			if id := item.Name(); id != "" {
				wave.Scenarios = append(wave.Scenarios, id)
			}
		}
		w.Done()
		out = append(out, wave)
	}
	return out
}

// filled are the items of a list that must have some.
func filled(n conf.Node) []conf.Node {
	list := n.List()
	if n.IsList() && len(list) == 0 {
		n.Errorf("must name at least one scenario")
	}
	return list
}

func roles(n conf.Node) Roles {
	if !n.Present() {
		return Roles{}
	}
	m := n.Map()
	r := Roles{Commander: m.Get("commander").Str(""), Scribe: m.Get("scribe").Str(""), Observers: m.Get("observers").Strs()}
	m.Done()
	if r.Commander != "" && r.Commander == r.Scribe {
		m.Get("scribe").Errorf("must be somebody else than the commander, got %s twice", r.Scribe)
	}
	return r
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
	if h := m.Get("hours"); h.Present() {
		s.Hours = hours(h)
	}
	s.Allow = m.Get("concurrency").Enum("forbid", "forbid", "allow") == "allow"
	s.StartDeadline = m.Get("start_deadline").Span(0, time.Minute, maxDeadline)
	if m.Get("missed").Enum("newest", "newest", "skip") == "skip" {
		if s.StartDeadline > 0 {
			m.Get("start_deadline").Errorf("must be left out where missed is skip")
		}
		s.StartDeadline = time.Minute // two looks of a scheduler that lives
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

// maxDeadline is the engine's own start deadline: a run that waits for longer
// would be started under conditions that nobody looked at.
const maxDeadline = 15 * time.Minute

func hours(n conf.Node) *Hours {
	m := n.Map()
	h := &Hours{From: clock(m.Need("from")), To: clock(m.Need("to"))}
	days := weekdays()[1:6]
	if d := m.Get("days"); d.Present() {
		days = d.Enums(weekdays()...)
		if d.IsList() && len(days) == 0 && len(d.List()) == 0 {
			d.Errorf("must name some days, got an empty list").Hint("leave it out to mean monday to friday")
		}
	}
	for _, name := range days {
		h.Days[slices.Index(weekdays(), name)] = true
	}
	m.Done()
	if m.Get("from").Present() && m.Get("to").Present() && h.From >= h.To && h.To >= 0 {
		n.Errorf("must end after they begin").Hint("a window over midnight is two game days")
	}
	return h
}

func weekdays() []string { return []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"} }

// clock reads a wall time in minutes; 24:00 is the end of the day.
func clock(n conf.Node) int {
	text := n.Str("")
	if text == "24:00" {
		return 24 * 60
	}
	t, err := time.Parse("15:04", text)
	if err != nil {
		if text != "" {
			n.Errorf("must be a time of day such as \"09:00\", got %q", text)
		}
		return -1
	}
	return t.Hour()*60 + t.Minute()
}

// Open reports whether at lies in h, by the wall clock of loc.
func (h *Hours) Open(at time.Time, loc *time.Location) bool {
	if h == nil {
		return true
	}
	local := at.In(loc)
	minute := local.Hour()*60 + local.Minute()
	return h.Days[local.Weekday()] && h.From <= minute && minute < h.To
}

// Closed says why nothing starts at an instant although it is due; "": it may.
func (s Schedule) Closed(at time.Time, loc *time.Location) string {
	switch {
	case s.Blacked(at, loc):
		return "blackout"
	case !s.Hours.Open(at, loc):
		return "outside_hours"
	}
	return ""
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
		for i, w := range g.Waves {
			held := map[string]string{}
			for _, id := range w.Scenarios {
				service := scenarios[id].Target.Service
				if other, twice := held[service]; twice && service != "" {
					log.Add(g.File, g.Line, 1, "waves[%d]: must aim at one service once, got %s by %s and %s", i, service, other, id).
						Hint("what they break could not be told apart")
				}
				held[service] = id
			}
		}
	}
}

func placeOf(file string, line int) string { return fmt.Sprintf("first at %s:%d", file, line) }
