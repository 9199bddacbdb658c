package report

import (
	"time"

	"breakwater/slo"
)

// Correction is one on the wire.
type Correction struct {
	ID           string             `json:"id"`
	Service      string             `json:"service,omitempty"`
	SLO          string             `json:"slo,omitempty"` // "" for all of the service
	WholeService bool               `json:"whole_service,omitempty"`
	Env          string             `json:"env,omitempty"` // "" for all
	From         time.Time          `json:"from"`
	To           time.Time          `json:"to"`
	Mode         slo.CorrectionMode `json:"mode"` // remove, up; as asked for, "" is the method's default
	Reason       string             `json:"reason"`
	Ticket       string             `json:"ticket,omitempty"`
	Author       string             `json:"author,omitempty"`
	At           *time.Time         `json:"at,omitempty"`
	RevokedAt    *time.Time         `json:"revoked_at,omitempty"`
	RevokedBy    string             `json:"revoked_by,omitempty"`
}

func correction(c slo.Correction) Correction {
	return Correction{ID: c.ID, Service: c.Service, SLO: c.Objective, WholeService: c.Objective == "", Env: c.Env, From: c.From.UTC(), To: c.To.UTC(),
		Mode: c.Mode, Reason: c.Reason, Ticket: c.Ticket, Author: c.Author, At: instant(c.At), RevokedAt: instant(c.RevokedAt), RevokedBy: c.RevokedBy}
}

func corrections(list []slo.Correction) []Correction {
	out := make([]Correction, len(list))
	for i, c := range list {
		out[i] = correction(c)
	}
	return out
}

// Rule is a burn rule on the wire.
type Rule struct {
	Name          string `json:"name"`
	Long          string `json:"long"`
	Short         string `json:"short"`
	SpendPPM      int64  `json:"spends_ppm"`
	RateMilli     int64  `json:"threshold_milli"`
	Severity      string `json:"severity"`
	Reason        string `json:"reason"`
	Rescaled      bool   `json:"rescaled"`
	Firing        bool   `json:"firing"`
	DetectsOutage int64  `json:"total_outage_detected_after_seconds"`
}

func rules(s slo.Status) []Rule {
	firing := map[string]bool{}
	for _, p := range s.Firing() {
		firing[p.Name] = true
	}
	out := []Rule{}
	for _, p := range s.Objective.Rules() {
		after, _ := p.Detects(s.Objective, 1_000_000)
		out = append(out, Rule{p.Name, slo.Window(p.Long), slo.Window(p.Short()), p.SpendPPM, p.ThresholdMilli(s.Objective), p.Severity, p.Reason, p.Rescaled, firing[p.Name],
			int64((after + time.Second - 1) / time.Second)})
	}
	return out
}

// Group is a part of a grouped SLO on the wire.
type Group struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Budget Budget `json:"budget"`
}

// Move is a change of level on the wire.
type Move struct {
	At       time.Time `json:"at"`
	From     slo.Level `json:"from"`
	To       slo.Level `json:"to"`
	SpentPPM int64     `json:"spent_ppm"`
	Reason   string    `json:"reason"`
}

// Fire is a span in which a rule would have fired, on the wire.
type Fire struct {
	Rule     string     `json:"rule"`
	Severity string     `json:"severity"`
	From     time.Time  `json:"from"`
	To       *time.Time `json:"to"`
	Bad      int64      `json:"bad_events"`
}

// Test is a backtest on the wire.
type Test struct {
	TargetPercent string              `json:"target_percent"`
	WindowSeconds int64               `json:"window_seconds"`
	From          time.Time           `json:"from"`
	To            time.Time           `json:"to"`
	StepSeconds   int64               `json:"step_seconds"`
	Valid         int64               `json:"valid_events"`
	Bad           int64               `json:"bad_events"`
	Freezes       int                 `json:"freezes"`
	WorstPPM      int64               `json:"worst_spent_ppm"`
	Levels        map[slo.Level]int64 `json:"seconds_in_state"`
	End           Budget              `json:"end"`
	Moves         []Move              `json:"moves"`
	Fires         []Fire              `json:"alerts"`
	Skipped       []string            `json:"rules_too_fine_for_what_is_kept"`
}

// TestOf renders a backtest of o.
func TestOf(o slo.Objective, b slo.Backtest) Test {
	out := Test{TargetPercent: slo.TargetPercent(o.TargetPPB), WindowSeconds: int64(o.Window / time.Second), From: b.From.UTC(), To: b.To.UTC(),
		StepSeconds: int64(b.Step / time.Second), Valid: b.Valid, Bad: b.Bad, Freezes: b.Freezes, WorstPPM: b.WorstPPM,
		Levels: map[slo.Level]int64{}, End: budget(o, b.End), Moves: []Move{}, Fires: []Fire{}, Skipped: []string{}}
	for l, d := range b.Levels {
		out.Levels[l] = int64(d / time.Second)
	}
	for _, m := range b.Moves {
		out.Moves = append(out.Moves, Move{m.At.UTC(), m.From, m.To, m.SpentPPM, m.Reason})
	}
	for _, f := range b.Fires {
		out.Fires = append(out.Fires, Fire{f.Rule, f.Severity, f.From.UTC(), instant(f.To), f.Bad})
	}
	for _, p := range b.Skipped {
		out.Skipped = append(out.Skipped, p.Name)
	}
	return out
}

// Recomputed is a recomputation on the wire.
type Recomputed struct {
	ID        string       `json:"id"`
	Env       string       `json:"env"`
	DryRun    bool         `json:"dry_run"`
	Minutes   int64        `json:"minutes"`
	Wrong     []Difference `json:"wrong_sums"`
	Decisions []Redecided  `json:"decisions_that_would_differ"`
	Shown     Budget       `json:"budget_shown"`
	Fresh     Budget       `json:"budget_recomputed"`
	Changes   bool         `json:"changes"`
}

// Difference is a wrong sum on the wire.
type Difference struct {
	Span       string    `json:"span"`
	At         time.Time `json:"at"`
	StoredGood int64     `json:"stored_good"`
	Good       int64     `json:"good"`
	StoredBad  int64     `json:"stored_bad"`
	Bad        int64     `json:"bad"`
}

// Redecided is a decision beside the figures of today, on the wire.
type Redecided struct {
	At            time.Time `json:"at"`
	From          slo.Level `json:"from"`
	To            slo.Level `json:"to"`
	ThenGood      int64     `json:"good_then"`
	ThenBad       int64     `json:"bad_then"`
	Good          int64     `json:"good_now"`
	Bad           int64     `json:"bad_now"`
	Measured      slo.Level `json:"measured_now"`
	ThenRevision  int64     `json:"revision_then"`
	TodayRevision int64     `json:"revision_now"`
}

// RecomputedOf renders a recomputation beside what s shows.
func RecomputedOf(s slo.Status, c slo.Recomputation) Recomputed {
	out := Recomputed{ID: s.Objective.ID, Env: s.Env, DryRun: c.DryRun, Minutes: c.Minutes, Wrong: []Difference{}, Decisions: []Redecided{},
		Shown: budget(s.Objective, s.Budget), Fresh: budget(s.Objective, c.Budget)}
	for _, d := range c.Sums {
		out.Wrong = append(out.Wrong, Difference(d))
	}
	for _, d := range c.Decisions {
		t := d.Transition
		out.Decisions = append(out.Decisions, Redecided{t.At, t.From, t.To, t.Good, t.Bad, d.Good, d.Bad, d.Measured, t.Revision, d.Revision})
	}
	out.Changes = len(out.Wrong)+len(out.Decisions) > 0 || out.Shown.Good != out.Fresh.Good || out.Shown.Bad != out.Fresh.Bad
	return out
}
