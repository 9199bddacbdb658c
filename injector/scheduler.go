package injector

import (
	"context"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// Scheduler turns due instants into runs, or into the reason why there is none.
// Any number of them may work on one ledger.
type Scheduler struct {
	Ledger interface {
		Clock
		ScheduleLedger
	}
	Budgets Budgets // nil: no budget is known
	Env     string
	Core    func(service string) bool // nil: none is
	// Now replaces the ledger's clock in tests.
	Now func(ctx context.Context) (time.Time, error)
}

// maxDecided bounds the rows of one tick: a schedule of every minute that slept
// for a year is worked off in parts, and its rows stay rows.
const maxDecided = 1000

// Tick decides everything that is due. It reads the clock once.
func (s *Scheduler) Tick(ctx context.Context) ([]Occurrence, error) {
	clock := s.Now
	if clock == nil {
		clock = s.Ledger.Now
	}
	now, err := clock(ctx)
	if err != nil {
		return nil, err
	}
	done, err := s.Ledger.TakeDue(ctx, now, func(d Due) Decision { return s.decide(d, now) })
	if err != nil {
		return nil, fmt.Errorf("take what is due: %w", err)
	}
	return done, nil
}

// decide is what becomes of d at now. The newest due instant inside the start
// deadline may start; every other one is written as missed, never caught up.
func (s *Scheduler) decide(d Due, now time.Time) Decision {
	day, err := dayOf(d.Schedule)
	if err != nil {
		return Decision{Occurrences: []Decided{{ScheduledFor: d.Schedule.NextAt, Skipped: string(BadText), Detail: err.Error()}}}
	}
	calendar, err := day.Schedule.Compile(d.Schedule.NextAt.Add(-time.Second))
	if err != nil {
		return Decision{Occurrences: []Decided{{ScheduledFor: d.Schedule.NextAt, Skipped: string(BadText), Detail: err.Error()}}}
	}
	var times []time.Time
	at, more := d.Schedule.NextAt, true
	for more && !at.After(now) && len(times) < maxDecided {
		times = append(times, at)
		at, more = calendar.Next(at)
	}
	out := Decision{}
	if more {
		out.NextAt = at
	}
	last, deadline := len(times)-1, StartDeadline
	if own := day.Schedule.StartDeadline; own > 0 {
		deadline = own
	}
	for i, t := range times {
		late := now.Sub(t)
		// A next one that is due too makes this one stale, however fresh it is.
		stale := i < last || more && !at.After(now)
		switch {
		case late >= deadline || stale:
			out.Occurrences = append(out.Occurrences, Decided{ScheduledFor: t, Skipped: string(Missed),
				Detail: fmt.Sprintf("no control was there in time, decided %d s late", int64(late/time.Second))})
		case day.Schedule.Closed(t, calendar.Location()) != "":
			why := Reason(day.Schedule.Closed(t, calendar.Location()))
			out.Occurrences = append(out.Occurrences, Decided{ScheduledFor: t, Skipped: string(why), Detail: closed(why)})
		default:
			out.Occurrences = append(out.Occurrences, s.start(d, day, t, now))
		}
	}
	return out
}

// start makes the runs of one occurrence, or says why not.
func (s *Scheduler) start(d Due, day scenario.GameDay, at, now time.Time) Decided {
	out := Decided{ScheduledFor: at}
	runs, held, no := s.Plan(d, day, at, now)
	if no.Reason != "" {
		out.Skipped, out.Detail = string(no.Reason), no.Text
		return out
	}
	out.Runs, out.Day = runs, held
	for i := range out.Runs {
		out.Runs[i].Actor = "schedule " + d.Schedule.ID
	}
	return out
}

// holder names a run that keeps another from starting on service: one on the
// same target, or an earlier one of the same schedule.
func holder(active []Active, service, schedule string) string {
	for _, a := range active {
		if a.Service == service && (a.State.Active() || a.State == Scheduled) || schedule != "" && a.Schedule == schedule {
			return a.ID
		}
	}
	return ""
}

// grant says why the budget of a service does not allow a run; a zero Stop is a yes.
func grant(budgets Budgets, service string, ppm int64) Stop {
	var b Budget
	if budgets != nil {
		b = budgets.Budget(service)
	}
	switch {
	case b.Frozen:
		return Stop{ByFreeze, service + " is frozen"}
	case b.Refuse != "":
		return Stop{ByFreeze, b.Refuse}
	case ppm == 0:
		return Stop{}
	case !b.Known:
		return Stop{NoReading, "the budget of " + service + " is not known, so nothing can be granted from it"}
	case b.RemainingPPM < ppm:
		return Stop{NoBudget, fmt.Sprintf("%s has %s of its budget left, the grant is %s",
			service, percent(float64(b.RemainingPPM)/1_000_000), percent(float64(ppm)/1_000_000))}
	}
	return Stop{}
}

// Left says why the budget of a service is not enough for a game day to begin, which asks
// for more than ppm of it; a zero Stop is a yes.
func Left(budgets Budgets, service string, ppm int64) Stop {
	if ppm == 0 {
		return Stop{}
	}
	var b Budget
	if budgets != nil {
		b = budgets.Budget(service)
	}
	switch {
	case !b.Known:
		return Stop{NoReading, "the budget of " + service + " is not known, and more than " + percent(float64(ppm)/1_000_000) + " must be left of it"}
	case b.RemainingPPM <= ppm:
		return Stop{NoBudget, fmt.Sprintf("%s has %s of its budget left, and more than %s must be left",
			service, percent(float64(b.RemainingPPM)/1_000_000), percent(float64(ppm)/1_000_000))}
	}
	return Stop{}
}

// NewRun is a run of sc planned for at, without an identity yet.
func NewRun(sc scenario.Scenario, at time.Time) Run {
	return Run{
		Scenario: sc.ID, Title: sc.Title, Service: sc.Target.Service, Text: sc.Text, Hash: hashText(sc.Text),
		PlannedAt: at, DueAt: at, Verdict: NotEvaluated, ExpectedPPM: sc.Sample.PPM,
		BaselineFor: sc.Phases.Baseline, InjectFor: sc.Phases.Inject, RecoverFor: sc.Phases.Recover,
	}
}

// ParseText reads a scenario as kept with its run.
func ParseText(text string) (scenario.Scenario, error) {
	set, _, err := scenario.Parse(conf.File{Name: "scenario", Data: []byte(text)})
	if err != nil {
		return scenario.Scenario{}, err
	}
	if len(set.Scenarios) != 1 {
		return scenario.Scenario{}, fmt.Errorf("must hold one scenario, got %d", len(set.Scenarios))
	}
	return set.Scenarios[0], nil
}

func dayOf(s Schedule) (scenario.GameDay, error) {
	var log conf.Log
	for _, d := range conf.Split(conf.File{Name: "gameday", Data: []byte(s.Text)}, &log) {
		if g := scenario.DecodeGameDay(d, &log); log.Err() == nil && g.Schedule != nil {
			g.Text = s.Text
			return g, nil
		}
	}
	if err := log.Err(); err != nil {
		return scenario.GameDay{}, err
	}
	return scenario.GameDay{}, fmt.Errorf("game day %s has no schedule", s.ID)
}

// occurrenceID is the same on every control: an occurrence has its run once.
func occurrenceID(schedule string, at time.Time, seq int) string {
	return runID(at, hashText(fmt.Sprintf("%s %d %d", schedule, at.UnixNano(), seq)))
}

// runID sorts by time: seconds first, then what tells two of one second apart.
func runID(at time.Time, salt string) string {
	var seconds [5]byte
	var wide [8]byte
	binary.BigEndian.PutUint64(wide[:], uint64(at.Unix()))
	copy(seconds[:], wide[3:])
	text := base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(seconds[:])
	return "r-" + strings.ToLower(strings.TrimLeft(text, "0")) + "-" + salt[:6]
}
