package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
)

const dueSQL = `
select id, title, scenarios, cron, zone, grant_ppm, text, enabled, next_at, last_run
from schedule where enabled and next_at <= @now order by next_at, id limit 50
for update skip locked`

const addOccurrenceSQL = `
insert into occurrence (schedule, scheduled_for, decided_at, skipped, detail)
values (@schedule, @for, @now, @skipped, @detail) on conflict do nothing`

const setNextSQL = `
update schedule set next_at = @next, enabled = @next::timestamptz is not null,
    last_run = case when @run::text <> '' then @run else last_run end
where id = @id`

// TakeDue decides what is due, in one transaction: a control that dies in it has
// decided nothing, one that dies after it has decided all.
func (s *Store) TakeDue(ctx context.Context, now time.Time, decide func(injector.Due) injector.Decision) ([]injector.Occurrence, error) {
	var out []injector.Occurrence
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, dueSQL, pgx.StrictNamedArgs{"now": now})
		if err != nil {
			return fmt.Errorf("read due schedules: %w", err)
		}
		due, err := pgx.CollectRows(rows, pgx.RowToStructByName[scheduleRow])
		if err != nil || len(due) == 0 {
			return err
		}
		all, err := forDays(ctx, tx, now)
		if err != nil {
			return err
		}
		for _, row := range due {
			all.Schedule = row.schedule()
			d := decide(all)
			added, err := takeOne(ctx, tx, row.ID, now, d)
			if err != nil {
				return fmt.Errorf("schedule %s: %w", row.ID, err)
			}
			for _, o := range d.Occurrences {
				for _, r := range o.Runs {
					all.Active = append(all.Active, injector.Active{ID: r.ID, Service: r.Service, Schedule: r.Schedule, State: r.State, Class: r.Class, At: r.PlannedAt})
				}
			}
			out = append(out, added...)
		}
		return hint(ctx, tx)
	})
	return out, err
}

func takeOne(ctx context.Context, tx pgx.Tx, schedule string, now time.Time, d injector.Decision) ([]injector.Occurrence, error) {
	var out []injector.Occurrence
	last := ""
	for _, o := range d.Occurrences {
		done, err := tx.Exec(ctx, addOccurrenceSQL, pgx.StrictNamedArgs{
			"schedule": schedule, "for": o.ScheduledFor, "now": now, "skipped": o.Skipped, "detail": o.Detail})
		if err != nil {
			return nil, fmt.Errorf("write the occurrence: %w", err)
		}
		if done.RowsAffected() == 0 {
			continue // decided before
		}
		added := injector.Occurrence{Schedule: schedule, ScheduledFor: o.ScheduledFor, DecidedAt: now, Skipped: o.Skipped, Detail: o.Detail}
		for _, r := range o.Runs {
			if err := insertRun(ctx, tx, r, now); err != nil {
				return nil, err
			}
			added.Runs = append(added.Runs, r.ID)
			last = r.ID
		}
		if err := holdDay(ctx, tx, schedule, o, now); err != nil {
			return nil, err
		}
		out = append(out, added)
	}
	var next any
	if !d.NextAt.IsZero() {
		next = d.NextAt
	}
	if _, err := tx.Exec(ctx, setNextSQL, pgx.StrictNamedArgs{"id": schedule, "next": next, "run": last}); err != nil {
		return nil, fmt.Errorf("set what is next: %w", err)
	}
	return out, nil
}

type scheduleRow struct {
	ID, Title, Cron, Zone, Text string
	Scenarios                   []string
	GrantPPM                    int64 `db:"grant_ppm"`
	Enabled                     bool
	NextAt                      *time.Time `db:"next_at"`
	LastRun                     string     `db:"last_run"`
}

func (r scheduleRow) schedule() injector.Schedule {
	out := injector.Schedule{
		ID: r.ID, GameDay: r.ID, Title: r.Title, Cron: r.Cron, Zone: r.Zone, NextAt: utc(r.NextAt),
		LastRun: r.LastRun, Enabled: r.Enabled, Scenarios: r.Scenarios, GrantPPM: r.GrantPPM, Text: r.Text,
	}
	if len(r.Scenarios) > 0 {
		out.Scenario = r.Scenarios[0]
	}
	return out
}

const schedulesSQL = `
select id, title, scenarios, cron, zone, grant_ppm, text, enabled, next_at, last_run from schedule order by id`

const lastOccurrencesSQL = `
select o.schedule, o.scheduled_for, o.decided_at, o.skipped, o.detail,
    coalesce((select array_agg(r.id order by r.seq) from run r where r.schedule = o.schedule and r.planned_at = o.scheduled_for), '{}') as runs
from schedule s cross join lateral (
    select schedule, scheduled_for, decided_at, skipped, detail from occurrence
    where schedule = s.id order by scheduled_for desc limit 10
) o order by o.schedule, o.scheduled_for desc`

// Schedules lists every schedule with its ten newest decisions.
func (s *Store) Schedules(ctx context.Context) ([]injector.Schedule, error) {
	rows, err := s.db.Query(ctx, schedulesSQL)
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[scheduleRow])
	if err != nil {
		return nil, fmt.Errorf("list schedules: %w", err)
	}
	rows, err = s.db.Query(ctx, lastOccurrencesSQL)
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	last, err := pgx.CollectRows(rows, pgx.RowToStructByName[occurrenceRow])
	if err != nil {
		return nil, fmt.Errorf("list decisions: %w", err)
	}
	out := make([]injector.Schedule, 0, len(found))
	for _, row := range found {
		x := row.schedule()
		for _, o := range last {
			if o.Schedule == x.ID {
				x.Last = append(x.Last, o.occurrence())
			}
		}
		out = append(out, x)
	}
	return out, nil
}

const occurrencesSQL = `
select o.schedule, o.scheduled_for, o.decided_at, o.skipped, o.detail,
    coalesce((select array_agg(r.id order by r.seq) from run r where r.schedule = o.schedule and r.planned_at = o.scheduled_for), '{}') as runs
from occurrence o where o.schedule = @schedule and o.scheduled_for >= @since and o.scheduled_for < @until
order by o.scheduled_for`

// Occurrences lists what was decided about the due instants of a schedule in
// [since, until), oldest first.
func (s *Store) Occurrences(ctx context.Context, schedule string, since, until time.Time) ([]injector.Occurrence, error) {
	rows, err := s.db.Query(ctx, occurrencesSQL, pgx.StrictNamedArgs{"schedule": schedule, "since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("list decisions of %s: %w", schedule, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[occurrenceRow])
	if err != nil {
		return nil, fmt.Errorf("list decisions of %s: %w", schedule, err)
	}
	out := make([]injector.Occurrence, len(found))
	for i, o := range found {
		out[i] = o.occurrence()
	}
	return out, nil
}

func (o occurrenceRow) occurrence() injector.Occurrence {
	return injector.Occurrence{Schedule: o.Schedule, ScheduledFor: o.ScheduledFor.UTC(),
		DecidedAt: o.DecidedAt.UTC(), Skipped: o.Skipped, Detail: o.Detail, Runs: o.Runs}
}

type occurrenceRow struct {
	Schedule     string
	ScheduledFor time.Time `db:"scheduled_for"`
	DecidedAt    time.Time `db:"decided_at"`
	Skipped      string
	Detail       string
	Runs         []string
}

const documentsSQL = `select id, title, service, text, hash, file from scenario where present order by id`

// Documents lists the scenarios that can be run.
func (s *Store) Documents(ctx context.Context) ([]injector.Document, error) {
	return documents(ctx, s.db)
}

func documents(ctx context.Context, q querier) ([]injector.Document, error) {
	rows, err := q.Query(ctx, documentsSQL)
	if err != nil {
		return nil, fmt.Errorf("list scenarios: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[injector.Document])
}

const saveScenarioSQL = `
insert into scenario (id, title, service, text, hash, file, present) values (@id, @title, @service, @text, @hash, @file, true)
on conflict (id) do update set title = excluded.title, service = excluded.service, text = excluded.text,
    hash = excluded.hash, file = excluded.file, present = true`

const dropScenariosSQL = `update scenario set present = false where present and not id = any(@ids)`

// What is due but not decided yet stays due: a start-up with a changed document
// must not swallow it.
const saveScheduleSQL = `
insert into schedule (id, title, scenarios, cron, zone, grant_ppm, text, enabled, next_at)
values (@id, @title, @scenarios, @cron, @zone, @grant, @text, true, @next)
on conflict (id) do update set title = excluded.title, scenarios = excluded.scenarios, cron = excluded.cron, zone = excluded.zone,
    grant_ppm = excluded.grant_ppm, text = excluded.text, enabled = true,
    next_at = case when schedule.enabled and (schedule.text = excluded.text or schedule.next_at <= @now)
        then schedule.next_at else excluded.next_at end`

const dropSchedulesSQL = `update schedule set enabled = false, next_at = null where enabled and not id = any(@ids)`

// SaveDocuments makes docs and schedules the only ones.
func (s *Store) SaveDocuments(ctx context.Context, now time.Time, docs []injector.Document, schedules []injector.Schedule) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		// Two controls that start together must not meet in the middle.
		if _, err := lockState(ctx, tx); err != nil {
			return err
		}
		ids := []string{}
		for _, d := range docs {
			_, err := tx.Exec(ctx, saveScenarioSQL, pgx.StrictNamedArgs{
				"id": d.ID, "title": d.Title, "service": d.Service, "text": d.Text, "hash": d.Hash, "file": d.File})
			if err != nil {
				return fmt.Errorf("save scenario %s: %w", d.ID, err)
			}
			ids = append(ids, d.ID)
		}
		if _, err := tx.Exec(ctx, dropScenariosSQL, pgx.StrictNamedArgs{"ids": ids}); err != nil {
			return fmt.Errorf("drop scenarios: %w", err)
		}
		ids = []string{}
		for _, x := range schedules {
			_, err := tx.Exec(ctx, saveScheduleSQL, pgx.StrictNamedArgs{
				"id": x.ID, "title": x.Title, "scenarios": x.Scenarios, "cron": x.Cron, "zone": x.Zone,
				"grant": x.GrantPPM, "text": x.Text, "next": x.NextAt, "now": now})
			if err != nil {
				return fmt.Errorf("save schedule %s: %w", x.ID, err)
			}
			ids = append(ids, x.ID)
		}
		if _, err := tx.Exec(ctx, dropSchedulesSQL, pgx.StrictNamedArgs{"ids": ids}); err != nil {
			return fmt.Errorf("drop schedules: %w", err)
		}
		return hint(ctx, tx)
	})
}
