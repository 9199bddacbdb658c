package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
)

// runRow is a run as the table holds it.
type runRow struct {
	ID, Schedule, Gameday, Scenario, Title, Service, Text, Hash, Actor string
	State, Reason, Verdict, Why                                        string
	Seq, Wave, Starts                                                  int
	Epoch                                                              int64
	CapPPM                                                             int64     `db:"cap_ppm"`
	PlannedAt                                                          time.Time `db:"planned_at"`
	DueAt                                                              time.Time `db:"due_at"`
	StartedAt                                                          *time.Time
	BaselineAt                                                         *time.Time
	InjectAt                                                           *time.Time
	RecoverAt                                                          *time.Time
	EndedAt                                                            *time.Time
	BaselineMS                                                         int64 `db:"baseline_ms"`
	InjectMS                                                           int64 `db:"inject_ms"`
	RecoverMS                                                          int64 `db:"recover_ms"`
	ExpectedPPM                                                        int64 `db:"expected_ppm"`
	Attempts, Injected, Good, Bad                                      int64
	BudgetSpentPPM                                                     int64 `db:"budget_spent_ppm"`
	Assertions, Cohorts                                                []byte
	LeaseUntil                                                         *time.Time `db:"lease_until"`
	Search, Class                                                      string
	Knob                                                               int64
	Needs                                                              int
}

func utc(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func (r runRow) run() (injector.Run, error) {
	out := injector.Run{
		ID: r.ID, Scenario: r.Scenario, Title: r.Title, Service: r.Service, GameDay: r.Gameday,
		State: injector.State(r.State), Reason: r.Reason, Verdict: injector.Verdict(r.Verdict), Why: r.Why,
		Text: r.Text, Hash: r.Hash, Epoch: r.Epoch, Actor: r.Actor,
		Schedule: r.Schedule, Seq: r.Seq, Wave: r.Wave, DueAt: r.DueAt.UTC(), Starts: r.Starts, CapPPM: r.CapPPM,
		PlannedAt: r.PlannedAt.UTC(), StartedAt: utc(r.StartedAt), BaselineAt: utc(r.BaselineAt),
		InjectAt: utc(r.InjectAt), RecoverAt: utc(r.RecoverAt), EndedAt: utc(r.EndedAt),
		BaselineFor: time.Duration(r.BaselineMS) * time.Millisecond,
		InjectFor:   time.Duration(r.InjectMS) * time.Millisecond,
		RecoverFor:  time.Duration(r.RecoverMS) * time.Millisecond,
		ExpectedPPM: r.ExpectedPPM, Attempts: r.Attempts, Injected: r.Injected,
		Good: r.Good, Bad: r.Bad, BudgetSpentPPM: r.BudgetSpentPPM, LeaseUntil: utc(r.LeaseUntil),
		Search: r.Search, Knob: r.Knob, Class: injector.Class(r.Class), Needs: r.Needs,
	}
	if err := json.Unmarshal(r.Assertions, &out.Assertions); err != nil {
		return out, fmt.Errorf("assertions of run %s: %w", r.ID, err)
	}
	if err := json.Unmarshal(r.Cohorts, &out.Cohorts); err != nil {
		return out, fmt.Errorf("cohorts of run %s: %w", r.ID, err)
	}
	return out, nil
}

const receiptsSQL = `
select run, gateway, fault, hash, ppm, boot, config, armed_at, removed_at, by_lease
from run_receipt where run = any(@runs) order by run, gateway, fault`

// runs reads rows into runs with their receipts.
func (s *Store) runs(ctx context.Context, q querier, rows pgx.Rows) ([]injector.Run, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[runRow])
	if err != nil || len(found) == 0 {
		return nil, err
	}
	out := make([]injector.Run, len(found))
	ids := make([]string, len(found))
	place := map[string]int{}
	var agreed []string // of which somebody has to approve
	for i, r := range found {
		if out[i], err = r.run(); err != nil {
			return nil, err
		}
		ids[i], place[r.ID] = r.ID, i
		if r.Needs > 0 {
			agreed = append(agreed, r.ID)
		}
	}
	if len(agreed) > 0 {
		by, err := approvals(ctx, q, agreed)
		if err != nil {
			return nil, err
		}
		for id, all := range by {
			out[place[id]].Approvals = all
		}
	}
	rows, err = q.Query(ctx, receiptsSQL, pgx.StrictNamedArgs{"runs": ids})
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	var run string
	var x injector.Receipt
	var removed *time.Time
	_, err = pgx.ForEachRow(rows, []any{&run, &x.Gateway, &x.Fault, &x.Hash, &x.PPM, &x.Boot, &x.Config, &x.ArmedAt, &removed, &x.ByLease}, func() error {
		x.ArmedAt, x.RemovedAt = x.ArmedAt.UTC(), utc(removed)
		i := place[run]
		out[i].Receipts = append(out[i].Receipts, x)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	return out, nil
}

const runSQL = `
select id, schedule, gameday, scenario, title, service, text, hash, actor, state, reason, verdict, why, seq, wave, starts, epoch,
    cap_ppm, planned_at, due_at, started_at, baseline_at, inject_at, recover_at, ended_at, baseline_ms, inject_ms, recover_ms,
    expected_ppm, attempts, injected, good, bad, budget_spent_ppm, assertions, cohorts, lease_until, search, knob, class, needs
from run where id = @id`

// Run returns one run, or injector.ErrNotFound.
func (s *Store) Run(ctx context.Context, id string) (injector.Run, error) {
	rows, err := s.db.Query(ctx, runSQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return injector.Run{}, fmt.Errorf("read run %s: %w", id, err)
	}
	found, err := s.runs(ctx, s.db, rows)
	if err != nil {
		return injector.Run{}, fmt.Errorf("read run %s: %w", id, err)
	}
	if len(found) == 0 {
		return injector.Run{}, fmt.Errorf("run %s: %w", id, injector.ErrNotFound)
	}
	return found[0], nil
}

const newestRunsSQL = `
select id, schedule, gameday, scenario, title, service, text, hash, actor, state, reason, verdict, why, seq, wave, starts, epoch,
    cap_ppm, planned_at, due_at, started_at, baseline_at, inject_at, recover_at, ended_at, baseline_ms, inject_ms, recover_ms,
    expected_ppm, attempts, injected, good, bad, budget_spent_ppm, assertions, cohorts, lease_until, search, knob, class, needs
from run order by planned_at desc, id desc limit @limit`

// Runs lists the newest runs, newest first.
func (s *Store) Runs(ctx context.Context, limit int) ([]injector.Run, error) {
	rows, err := s.db.Query(ctx, newestRunsSQL, pgx.StrictNamedArgs{"limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	return s.runs(ctx, s.db, rows)
}

const eventsOfRunSQL = `select at, run, kind, text, actor from run_event where run = @run order by id`

// Events returns the log of a run in the order it was written.
func (s *Store) Events(ctx context.Context, run string) ([]injector.Event, error) {
	rows, err := s.db.Query(ctx, eventsOfRunSQL, pgx.StrictNamedArgs{"run": run})
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", run, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[injector.Event])
}

// A control that read the clock a moment before another wrote must not make the
// log of a run go back in time.
const addRunEventSQL = `
insert into run_event (run, at, kind, text, actor)
select @run, greatest(@at::timestamptz, (select e.at from run_event e where e.run = @run order by e.id desc limit 1)), @kind, @text, @actor`

// Note adds one line to the log of a run.
func (s *Store) Note(ctx context.Context, e injector.Event) error {
	_, err := s.db.Exec(ctx, addRunEventSQL, pgx.StrictNamedArgs{"run": e.Run, "at": e.At, "kind": e.Kind, "text": e.Text, "actor": e.Actor})
	if err != nil {
		return fmt.Errorf("note on run %s: %w", e.Run, err)
	}
	return nil
}

const activeRunsSQL = `select id, service, schedule, state, class, planned_at as at from run where ended_at is null order by id`

// ActiveRuns lists every run that has not ended.
func (s *Store) ActiveRuns(ctx context.Context) ([]injector.Active, error) {
	return activeRuns(ctx, s.db)
}

func activeRuns(ctx context.Context, q querier) ([]injector.Active, error) {
	rows, err := q.Query(ctx, activeRunsSQL)
	if err != nil {
		return nil, fmt.Errorf("list active runs: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[injector.Active])
}

const haltSQL = `select halted_at, halted_by from injector_state`

// Halt says since when and by whom everything is halted.
func (s *Store) Halt(ctx context.Context) (injector.Halt, error) {
	var at *time.Time
	var h injector.Halt
	if err := s.db.QueryRow(ctx, haltSQL).Scan(&at, &h.Actor); err != nil {
		return h, fmt.Errorf("read the halt: %w", err)
	}
	h.At = utc(at)
	return h, nil
}

const insertRunSQL = `
insert into run (id, schedule, seq, wave, gameday, scenario, title, service, text, hash, actor, state, cap_ppm, planned_at, due_at,
    baseline_ms, inject_ms, recover_ms, expected_ppm, search, knob, class, needs)
values (@id, @schedule, @seq, @wave, @gameday, @scenario, @title, @service, @text, @hash, @actor, @state, @cap_ppm, @planned_at, @due_at,
    @baseline_ms, @inject_ms, @recover_ms, @expected_ppm, @search, @knob, @class, @needs)`

// insertRun adds r and the first line of its log.
func insertRun(ctx context.Context, tx pgx.Tx, r injector.Run, at time.Time) error {
	_, err := tx.Exec(ctx, insertRunSQL, pgx.StrictNamedArgs{
		"id": r.ID, "schedule": r.Schedule, "seq": r.Seq, "wave": r.Wave, "gameday": r.GameDay, "scenario": r.Scenario, "title": r.Title,
		"service": r.Service, "text": r.Text, "hash": r.Hash, "actor": r.Actor, "state": string(r.State), "cap_ppm": r.CapPPM,
		"planned_at": r.PlannedAt, "due_at": r.DueAt, "baseline_ms": r.BaselineFor.Milliseconds(),
		"inject_ms": r.InjectFor.Milliseconds(), "recover_ms": r.RecoverFor.Milliseconds(), "expected_ppm": r.ExpectedPPM,
		"search": r.Search, "knob": r.Knob, "class": string(r.Class), "needs": r.Needs,
	})
	if err != nil {
		return fmt.Errorf("add run %s: %w", r.ID, err)
	}
	_, err = tx.Exec(ctx, addRunEventSQL, pgx.StrictNamedArgs{"run": r.ID, "at": at, "kind": "state", "text": string(r.State), "actor": r.Actor})
	if err != nil {
		return fmt.Errorf("add run %s: %w", r.ID, err)
	}
	return nil
}

const lockStateSQL = `select halted_at from injector_state for update`

// lockState makes the making of runs one at a time over all controls: whether
// another run holds a target can only be told so.
func lockState(ctx context.Context, tx pgx.Tx) (halted bool, err error) {
	var at *time.Time
	if err := tx.QueryRow(ctx, lockStateSQL).Scan(&at); err != nil {
		return false, fmt.Errorf("lock the injector: %w", err)
	}
	return at != nil, nil
}

// AddRun adds a run that somebody started, unless halted or its target is held.
func (s *Store) AddRun(ctx context.Context, r injector.Run) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		halted, err := lockState(ctx, tx)
		if err != nil {
			return err
		}
		if halted {
			return injector.ErrHalted
		}
		active, err := activeRuns(ctx, tx)
		if err != nil {
			return err
		}
		for _, a := range active {
			if a.Service == r.Service {
				return fmt.Errorf("%s: %w", a.ID, injector.ErrOverlap)
			}
			// What goes wrong in two of the gravest at once could not be told apart.
			if r.Class == injector.ClassC && a.Class == injector.ClassC && a.State != injector.PendingApproval {
				return fmt.Errorf("%s is of class C too: %w", a.ID, injector.ErrOverlap)
			}
		}
		return errors.Join(insertRun(ctx, tx, r, r.PlannedAt), hint(ctx, tx))
	})
}

const hintSQL = `select pg_notify('breakwater_injector', '')`

// hint wakes whoever waits for a change, when the transaction commits.
func hint(ctx context.Context, tx pgx.Tx) error {
	if _, err := tx.Exec(ctx, hintSQL); err != nil {
		return fmt.Errorf("tell of the change: %w", err)
	}
	return nil
}
