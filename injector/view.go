package injector

import (
	"time"

	"breakwater/injector/scenario"
)

// The forms of the JSON API. Times are RFC 3339 in UTC, absent where they have
// not come.

// RunView is a run as the API shows it.
type RunView struct {
	ID          string    `json:"id"`
	Scenario    string    `json:"scenario"`
	Title       string    `json:"title"`
	Service     string    `json:"service"`
	GameDay     string    `json:"gameday,omitempty"`
	State       State     `json:"state"`
	Reason      string    `json:"reason,omitempty"`
	Verdict     Verdict   `json:"verdict,omitempty"`
	Why         string    `json:"why,omitempty"`
	Hash        string    `json:"hash"`
	Actor       string    `json:"actor"`
	PlannedAt   time.Time `json:"planned_at,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	BaselineAt  time.Time `json:"baseline_at,omitzero"`
	InjectAt    time.Time `json:"inject_at,omitzero"`
	RecoverAt   time.Time `json:"recover_at,omitzero"`
	EndedAt     time.Time `json:"ended_at,omitzero"`
	BaselineMS  int64     `json:"baseline_ms"`
	InjectMS    int64     `json:"inject_ms"`
	RecoverMS   int64     `json:"recover_ms"`
	Attempts    int64     `json:"attempts"`
	Injected    int64     `json:"injected"`
	ExpectedPPM int64     `json:"expected_ppm"`
	Good        int64     `json:"good"`
	Bad         int64     `json:"bad"`
	SpentPPM    int64     `json:"budget_spent_ppm"`
	// What was done to tries, and what users saw of it.
	InjectedPPM int64           `json:"injected_ppm"`
	VisiblePPM  int64           `json:"user_visible_ppm"`
	Score       *int            `json:"score,omitempty"`
	Receipts    []receiptJSON   `json:"receipts,omitempty"`
	Assertions  []assertionJSON `json:"assertions,omitempty"`
	Cohorts     []partJSON      `json:"cohorts,omitempty"`
	// Search and Knob are those of a probe; Class, Needs and Approvals say who has to
	// agree, and who does.
	Search    string     `json:"search,omitempty"`
	Knob      int64      `json:"knob,omitempty"`
	Class     Class      `json:"class,omitempty"`
	Needs     int        `json:"needs_approvals,omitempty"`
	Approvals []Approval `json:"approvals,omitempty"`
}

type partJSON struct {
	Phase    string          `json:"phase"`
	Cohort   scenario.Cohort `json:"cohort"`
	Good     int64           `json:"good"`
	Bad      int64           `json:"bad"`
	Degraded int64           `json:"degraded"`
}

type receiptJSON struct {
	Gateway   string    `json:"gateway"`
	Fault     string    `json:"fault"`
	Hash      string    `json:"hash"`
	PPM       int64     `json:"ppm"`
	ArmedAt   time.Time `json:"armed_at,omitzero"`
	RemovedAt time.Time `json:"removed_at,omitzero"`
	ByLease   bool      `json:"by_lease,omitempty"`
}

type assertionJSON struct {
	ID       string `json:"id"`
	Phase    string `json:"phase"`
	Text     string `json:"text"`
	Expected string `json:"expected"`
	Seen     string `json:"seen"`
	N        int64  `json:"n"`
	Result   Result `json:"result"`
	Optional bool   `json:"optional,omitempty"`
	// Weakness names what a failure shows, Right says what would be right.
	Weakness string `json:"weakness,omitempty"`
	Right    string `json:"right,omitempty"`
	// Evidence is where to look for what the result rests on.
	Evidence string    `json:"evidence"`
	From     time.Time `json:"from,omitzero"`
	Until    time.Time `json:"until,omitzero"`
	Rows     []rowJSON `json:"rows,omitempty"`
}

type rowJSON struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

type eventJSON struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Text  string    `json:"text"`
	Actor string    `json:"actor"`
}

type stripJSON struct {
	Service string      `json:"service"`
	StepMS  int64       `json:"step_ms"`
	Points  []pointJSON `json:"points"`
}

type pointJSON struct {
	At       time.Time `json:"at"`
	Good     int64     `json:"good"`
	Bad      int64     `json:"bad"`
	Attempts int64     `json:"attempts"`
	Injected int64     `json:"injected"`
	Degraded int64     `json:"degraded"`
}

type scheduleJSON struct {
	Name      string           `json:"name"`
	Title     string           `json:"title"`
	Scenarios []string         `json:"scenarios"`
	Cron      string           `json:"cron"`
	Zone      string           `json:"zone"`
	Enabled   bool             `json:"enabled"`
	GrantPPM  int64            `json:"auto_approve_budget_spent_ppm,omitempty"`
	NextAt    time.Time        `json:"next_at,omitzero"`
	LastRun   string           `json:"last_run,omitempty"`
	Next      []dueJSON        `json:"next,omitempty"`
	Last      []occurrenceJSON `json:"last,omitempty"`
}

type dueJSON struct {
	UTC   time.Time `json:"utc"`
	Local string    `json:"local"`
	Note  string    `json:"note,omitempty"`
}

type occurrenceJSON struct {
	ScheduledFor time.Time `json:"scheduled_for"`
	DecidedAt    time.Time `json:"decided_at"`
	Skipped      string    `json:"skipped,omitempty"`
	Detail       string    `json:"detail,omitempty"`
	Runs         []string  `json:"runs,omitempty"`
}

// RunViews shows runs.
func RunViews(runs []Run) []RunView {
	out := []RunView{}
	for _, r := range runs {
		out = append(out, showRun(r))
	}
	return out
}

func showRun(r Run) RunView {
	out := RunView{
		ID: r.ID, Scenario: r.Scenario, Title: r.Title, Service: r.Service, GameDay: r.GameDay,
		State: r.State, Reason: r.Reason, Verdict: r.Verdict, Why: r.Why, Hash: r.Hash, Actor: r.Actor,
		PlannedAt: r.PlannedAt, StartedAt: r.StartedAt, BaselineAt: r.BaselineAt, InjectAt: r.InjectAt,
		RecoverAt: r.RecoverAt, EndedAt: r.EndedAt,
		BaselineMS: r.BaselineFor.Milliseconds(), InjectMS: r.InjectFor.Milliseconds(), RecoverMS: r.RecoverFor.Milliseconds(),
		Attempts: r.Attempts, Injected: r.Injected, ExpectedPPM: r.ExpectedPPM, Good: r.Good, Bad: r.Bad, SpentPPM: r.BudgetSpentPPM,
		Search: r.Search, Knob: r.Knob, Class: r.Class, Needs: r.Needs, Approvals: r.Approvals,
	}
	for _, x := range r.Receipts {
		out.Receipts = append(out.Receipts, receiptJSON{x.Gateway, x.Fault, x.Hash, x.PPM, x.ArmedAt, x.RemovedAt, x.ByLease})
	}
	if r.Attempts > 0 {
		out.InjectedPPM = r.Injected * 1_000_000 / r.Attempts
	}
	if n := r.Good + r.Bad; n > 0 {
		out.VisiblePPM = r.Bad * 1_000_000 / n
	}
	if r.State.Ended() && len(r.Assertions) > 0 {
		score := Score(r.Assertions)
		out.Score = &score
	}
	for _, a := range r.Assertions {
		out.Assertions = append(out.Assertions, showAssertion(r.ID, a))
	}
	for _, p := range r.Cohorts {
		out.Cohorts = append(out.Cohorts, partJSON(p))
	}
	return out
}

func showAssertion(run string, a Assertion) assertionJSON {
	out := assertionJSON{
		ID: a.ID, Phase: a.Phase, Text: a.Text, Expected: a.Expected, Seen: a.Seen, N: a.N, Result: a.Result, Optional: a.Optional,
		Weakness: a.Weakness, Right: a.Right, From: a.From, Until: a.Until, Evidence: "/api/v1/experiments/" + run + "/evidence/" + a.ID,
	}
	for _, r := range a.Rows {
		out.Rows = append(out.Rows, rowJSON(r))
	}
	return out
}

func showSchedule(s Schedule, now time.Time) scheduleJSON {
	out := scheduleJSON{
		Name: s.ID, Title: s.Title, Scenarios: s.Scenarios, Cron: s.Cron, Zone: s.Zone,
		Enabled: s.Enabled, GrantPPM: s.GrantPPM, NextAt: s.NextAt, LastRun: s.LastRun,
	}
	if !s.Enabled {
		out.NextAt = time.Time{}
	} else if day, err := dayOf(s); err == nil {
		if calendar, err := day.Schedule.Compile(now); err == nil {
			for _, d := range calendar.Preview(now, 5) {
				note := d.Note
				if day.Schedule.Blacked(d.UTC, calendar.Location()) {
					note = "in a blackout: will be skipped"
				}
				out.Next = append(out.Next, dueJSON{d.UTC, d.Local.Format("Mon 2006-01-02 15:04 MST"), note})
			}
		}
	}
	for _, o := range s.Last {
		out.Last = append(out.Last, occurrenceJSON{o.ScheduledFor, o.DecidedAt, o.Skipped, o.Detail, o.Runs})
	}
	return out
}
