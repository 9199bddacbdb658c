package gameday

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
)

// Story is all there is to tell of a game day.
type Story struct {
	Held      Held
	Day       scenario.GameDay
	Runs      []injector.Run
	Timeline  []Note
	Checklist []Check
	Findings  []finding.Finding // that its runs found, closed or looked at
	Courses   []Course
	Now       time.Time
}

// Check is the readiness of one service.
type Check struct {
	Service string
	Answers []readiness.Answer
}

// Course is what one run did to a service: its traffic from the baseline on.
type Course struct {
	Run, Service string
	From, Until  time.Time
	Hit, Back    time.Time // the injection
	Points       []injector.Point
}

func (d *Desk) story(ctx context.Context, id string) (Story, error) {
	h, notes, err := d.find(ctx, id)
	if err != nil {
		return Story{}, err
	}
	s := Story{Held: h, Timeline: notes}
	if s.Day, err = parse(h.Text); err != nil {
		return s, err
	}
	if s.Now, err = d.cfg.Ledger.Now(ctx); err != nil {
		return s, err
	}
	services, _, err := d.content(ctx, s.Day)
	if err != nil {
		return s, err
	}
	slices.Sort(services)
	if !h.StartedAt.IsZero() {
		if s.Runs, err = d.cfg.Ledger.DayRuns(ctx, h.Name, h.PlannedAt); err != nil {
			return s, err
		}
	}
	for _, r := range s.Runs {
		if err := d.tell(ctx, &s, r); err != nil {
			return s, err
		}
	}
	for _, service := range services {
		if d.cfg.Readiness != nil {
			all, err := d.cfg.Readiness(ctx, service)
			if err != nil {
				return s, err
			}
			s.Checklist = append(s.Checklist, Check{service, all})
		}
	}
	slices.SortStableFunc(s.Timeline, func(a, b Note) int { return a.At.Compare(b.At) })
	return s, d.findings(ctx, &s)
}

// tell adds one run to the timeline and the charts.
func (d *Desk) tell(ctx context.Context, s *Story, r injector.Run) error {
	events, err := d.cfg.Runs.Events(ctx, r.ID)
	if err != nil {
		return err
	}
	for _, e := range events {
		s.Timeline = append(s.Timeline, Note{At: e.At, Actor: e.Actor, Kind: e.Kind, Text: r.Scenario + ": " + e.Text, Run: r.ID})
	}
	if r.BaselineAt.IsZero() {
		return nil
	}
	until := r.EndedAt
	if until.IsZero() {
		until = s.Now
	}
	services := []string{r.Service}
	if sc, err := injector.ParseText(r.Text); err == nil {
		services = sc.Services() // the target first
	}
	for _, service := range services[:min(len(services), 3)] {
		points, err := d.cfg.Runs.Tallies(ctx, service, "", r.BaselineAt, until)
		if err != nil {
			return err
		}
		s.Courses = append(s.Courses, Course{r.ID, service, r.BaselineAt, until, r.InjectAt, cmp.Or(r.RecoverAt, until), points})
	}
	return nil
}

func (d *Desk) findings(ctx context.Context, s *Story) error {
	if d.cfg.Findings == nil {
		return nil
	}
	ids := map[string]bool{}
	for _, r := range s.Runs {
		ids[r.ID] = true
	}
	all, err := d.cfg.Findings(ctx, finding.Filter{Now: s.Now})
	for _, f := range all {
		if ids[f.Run] || ids[f.LastRun] {
			s.Findings = append(s.Findings, f)
		}
	}
	return err
}

// Debrief are the lines people wrote when it was over.
func (s Story) Debrief() []Note { return s.of("debrief") }

func (s Story) of(kind string) (out []Note) {
	for _, n := range s.Timeline {
		if n.Kind == kind {
			out = append(out, n)
		}
	}
	return out
}

// Verdict sums up all runs in one word and one sentence: what failed counts most.
func (s Story) Verdict() (word, why string) {
	rank := map[injector.Verdict]int{injector.Failed: 3, injector.Inconclusive: 2, injector.NotEvaluated: 2, injector.Passed: 1}
	worst := injector.Verdict("")
	var whys []string
	for _, r := range s.Runs {
		if rank[r.Verdict] > rank[worst] {
			worst, whys = r.Verdict, nil
		}
		if r.Verdict == worst && r.Verdict != injector.Passed {
			whys = append(whys, r.Scenario+": "+cmp.Or(r.Why, r.Reason, string(r.State)))
		}
	}
	switch {
	case len(s.Runs) == 0:
		return "not begun", s.Held.Stopped
	case worst == injector.Passed:
		return "passed", "everything held"
	}
	return strings.ReplaceAll(string(worst), "_", " "), strings.Join(whys, "; ")
}
