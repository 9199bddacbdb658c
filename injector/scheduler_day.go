package injector

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
)

// The reasons why a game day, or a run of it, is not begun or not gone on with.
const (
	OutsideHours Reason = "outside_hours"
	DayStopped   Reason = "gameday_stopped" // something ended all of it
	DayOver      Reason = "gameday_over"    // its deadline passed
)

func closed(r Reason) string {
	if r == OutsideHours {
		return "the time lies outside the hours that are allowed"
	}
	return "the day lies in a blackout"
}

// Approved is one person's agreement to one content of a game day as held once. Owns
// are those of its services that they speak for.
type Approved struct {
	Day, Actor, Hash string
	Owns             []string
	At               time.Time
}

// Reverify is a scenario as it was when it found something. Findings names what
// has to be looked at again by it.
type Reverify struct {
	Service, Text string
	Findings      []string
}

// DayHeld is a game day as it is held once.
type DayHeld struct {
	ID, Text, Hash string
	Needs          int // approvals
	// Owners are the services whose owners have to be among those who agree.
	Owners []string
	// Verifies names findings that its runs look at again.
	Verifies []string
}

// DayID is the same on every control for one game day at one planned time.
func DayID(name string, at time.Time) string {
	return "g" + strings.TrimPrefix(runID(at, hashText(fmt.Sprintf("%s %d day", name, at.UnixNano()))), "r")
}

// DayHash is what an approval is bound to: the document and every scenario it runs.
func DayHash(day scenario.GameDay, docs []Document) string {
	var all strings.Builder
	all.WriteString(day.Text)
	for _, id := range day.Scenarios {
		all.WriteString("\x00" + id + "\x00")
		if n := slices.IndexFunc(docs, func(x Document) bool { return x.ID == id }); n >= 0 {
			all.WriteString(docs[n].Text)
		}
	}
	return hashText(all.String())
}

// classOf is the class of a run of a game day. Elsewhere than where users are real
// days are rehearsed side by side, and none is of class C.
func (s *Scheduler) classOf(sc scenario.Scenario, traffic []Flow) Class {
	if s.Env != "prod" {
		return ""
	}
	service := sc.Target.Service
	return classOf(sc, scenario.Facts{Core: s.Core != nil && s.Core(service), SharePPM: shareOf(sc, traffic)})
}

// shareOf is the share of all traffic that sc would hit. Routes that have no names
// yet may be any of the service.
func shareOf(sc scenario.Scenario, traffic []Flow) int64 {
	t := sc.Target
	every := len(t.Routes) == 0 || len(t.Calls) > 0
	var hit, all int64
	for _, f := range traffic {
		all += f.Requests
		if f.Service == t.Service && (every || slices.Contains(t.Routes, f.Route)) {
			hit += f.Requests
		}
	}
	if all == 0 {
		return 0
	}
	return hit * sc.Sample.PPM / all
}

// Needs is how many people have to agree before day may run, and the services whose
// owners have to be among them. Where users are real nobody goes below the rule: two
// for class C, none within a grant, else one.
func (s *Scheduler) Needs(day scenario.GameDay, docs []Document, traffic []Flow) (n int, owners []string) {
	for _, id := range day.Scenarios {
		at := slices.IndexFunc(docs, func(x Document) bool { return x.ID == id })
		if at < 0 {
			continue // it will not be held, and say why
		}
		if sc, err := ParseText(docs[at].Text); err == nil && s.classOf(sc, traffic) == ClassC {
			owners = append(owners, sc.Target.Service)
		}
	}
	return s.needs(day, owners)
}

func (s *Scheduler) needs(day scenario.GameDay, grave []string) (n int, owners []string) {
	slices.Sort(grave)
	owners = slices.Compact(grave)
	n = max(day.Approvals, 0)
	switch {
	case s.Env != "prod":
	case len(owners) > 0:
		n = max(n, 2)
	case day.GrantPPM == 0:
		n = max(n, 1)
	}
	return n, owners
}

// Plan makes the runs of day at a planned time, or says why there are none. It is
// the same for what is due and for what a person starts.
func (s *Scheduler) Plan(d Due, day scenario.GameDay, at, now time.Time) ([]Run, DayHeld, Stop) {
	if d.Halted {
		return nil, DayHeld{}, Stop{Halted, "all experiments are halted"}
	}
	held := DayHeld{ID: DayID(day.Name, at), Text: day.Text, Hash: DayHash(day, d.Documents)}
	if slices.Contains(d.CalledOff, held.ID) {
		return nil, held, Stop{ByUser, "it was called off"}
	}
	own := day.Name
	if day.Schedule != nil && day.Schedule.Allow {
		own = ""
	}
	var runs []Run
	var services, grave []string
	add := func(sc scenario.Scenario, wave int) Stop {
		if by := holder(d.Active, sc.Target.Service, own); by != "" {
			return Stop{Overlap, by + " has not ended"}
		}
		if no := grant(s.Budgets, sc.Target.Service, day.GrantPPM); no.Reason != "" {
			return no
		}
		if no := Left(s.Budgets, sc.Target.Service, day.LeftPPM); no.Reason != "" {
			return no
		}
		class := s.classOf(sc, d.Traffic)
		if by := graver(d.Active, class); by != "" {
			return Stop{Overlap, by + " is of class C too, and has not ended"}
		}
		r := NewRun(sc, at)
		r.ID, r.Class = occurrenceID(day.Name, at, len(runs)), class
		r.Schedule, r.GameDay, r.Seq, r.Wave = day.Name, day.Name, len(runs), wave
		r.CapPPM, r.State = day.GrantPPM, Scheduled
		runs, services = append(runs, r), append(services, sc.Target.Service)
		if class == ClassC {
			grave = append(grave, sc.Target.Service)
		}
		return Stop{}
	}
	for wave, w := range day.Waves {
		for _, id := range w.Scenarios {
			n := slices.IndexFunc(d.Documents, func(x Document) bool { return x.ID == id })
			if n < 0 {
				return nil, held, Stop{NoDocument, "scenario " + id + " is not there"}
			}
			sc, err := ParseText(d.Documents[n].Text)
			if err != nil {
				return nil, held, Stop{BadText, fmt.Sprintf("scenario %s: %v", id, err)}
			}
			if no := add(sc, wave); no.Reason != "" {
				return nil, held, no
			}
		}
	}
	s.reverify(d, day, services, runs, &held, func(sc scenario.Scenario, wave int) bool {
		if add(sc, wave).Reason != "" {
			return false
		}
		runs[len(runs)-1].Title = "Looked at again: " + sc.Title
		return true
	})
	held.Needs, held.Owners = s.needs(day, grave)
	if held.WaitsFor(d.Approved, now) != "" {
		for i := range runs {
			runs[i].State = PendingApproval
		}
	}
	return runs, held, Stop{}
}

// reverify adds what findings of the day's services have to be looked at again by,
// at the intensity that found them, after all else and each alone.
func (s *Scheduler) reverify(d Due, day scenario.GameDay, services []string, runs []Run, held *DayHeld, add func(scenario.Scenario, int) bool) {
	if !day.Reverify {
		return
	}
	wave := len(day.Waves)
	for _, v := range d.Reverify {
		if !slices.Contains(services, v.Service) {
			continue
		}
		hash := hashText(v.Text)
		if !slices.ContainsFunc(runs, func(r Run) bool { return r.Hash == hash }) {
			sc, err := ParseText(v.Text)
			if err != nil || !add(sc, wave) {
				continue // an older grammar, or the target is held: it stays as it is
			}
			wave++
		}
		held.Verifies = append(held.Verifies, v.Findings...)
	}
}

// graver names a run that keeps one of class from being planned: of class C there is
// one undertaking at a time. What waits for people holds nobody up.
func graver(active []Active, class Class) string {
	for _, a := range active {
		if class == ClassC && a.Class == ClassC && a.State != PendingApproval {
			return a.ID
		}
	}
	return ""
}

// WaitsFor says whose agreement to this very content is missing at now, or "".
func (h DayHeld) WaitsFor(all []Approved, now time.Time) string {
	who := map[string]bool{}
	owners := slices.Clone(h.Owners)
	for _, a := range all {
		if a.Day == h.ID && a.Hash == h.Hash && now.Sub(a.At) < ApprovalFor {
			who[a.Actor] = true
			owners = slices.DeleteFunc(owners, func(service string) bool { return slices.Contains(a.Owns, service) })
		}
	}
	owner := ""
	if len(owners) > 0 {
		owner = "the owner of " + strings.Join(owners, ", and of ")
	}
	switch missing := h.Needs - len(who); {
	case missing > 1 && owner != "":
		return fmt.Sprintf("%d more, among them %s", missing, owner)
	case owner != "":
		return owner
	case missing > 0:
		return fmt.Sprintf("%d more", missing)
	}
	return ""
}

// Ends says why what comes after a run in its game day may not begin; "": it may.
func (m Move) Ends() string {
	if m.To != Completed {
		return "was not completed"
	}
	for _, a := range m.Assertions {
		if a.Phase == "after" && a.Result != Pass && !a.Optional {
			return "has not recovered: " + a.ID + ": expected " + a.Expected + ", saw " + a.Seen
		}
	}
	return ""
}
