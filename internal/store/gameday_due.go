package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/finding"
)

const approvedSQL = `
select a.gameday as day, a.actor, a.hash, a.owns, a.at
from gameday_approval a join gameday g on g.id = a.gameday
where g.ended_at is null and a.at > @since order by a.gameday, a.actor`

const calledOffSQL = `select id from gameday where ended_at is null and started_at is null and stopped <> '' order by id`

// What claims to be mended, and what is overdue, is looked at again by the text
// that found it.
const reverifySQL = `
select service, text, array_agg(id order by id) as findings from finding
where state in ('claimed_fixed', 'verifying') or state in ('open', 'reopened') and due_at < @now
   or state = 'accepted_risk' and risk_until < @now
group by service, text order by service, min(opened_at), text`

// forDays reads what decides about game days, whatever is due: all of a Due but its
// schedule. The injector is locked, so that what another control has just started is
// in it.
func forDays(ctx context.Context, tx pgx.Tx, now time.Time) (due injector.Due, err error) {
	if due.Halted, err = lockState(ctx, tx); err != nil {
		return due, err
	}
	if due.Active, err = activeRuns(ctx, tx); err != nil {
		return due, err
	}
	if due.Documents, err = documents(ctx, tx); err != nil {
		return due, err
	}
	if due.Traffic, err = flows(ctx, tx, now); err != nil {
		return due, err
	}
	rows, err := tx.Query(ctx, approvedSQL, pgx.StrictNamedArgs{"since": now.Add(-injector.ApprovalFor)})
	if err != nil {
		return due, fmt.Errorf("read approvals: %w", err)
	}
	if due.Approved, err = pgx.CollectRows(rows, pgx.RowToStructByName[injector.Approved]); err != nil {
		return due, fmt.Errorf("read approvals: %w", err)
	}
	if rows, err = tx.Query(ctx, calledOffSQL); err != nil {
		return due, fmt.Errorf("read what was called off: %w", err)
	}
	if due.CalledOff, err = pgx.CollectRows(rows, pgx.RowTo[string]); err != nil {
		return due, fmt.Errorf("read what was called off: %w", err)
	}
	if rows, err = tx.Query(ctx, reverifySQL, pgx.StrictNamedArgs{"now": now}); err != nil {
		return due, fmt.Errorf("read what to look at again: %w", err)
	}
	if due.Reverify, err = pgx.CollectRows(rows, pgx.RowToStructByName[injector.Reverify]); err != nil {
		return due, fmt.Errorf("read what to look at again: %w", err)
	}
	return due, nil
}

// ofLate is the traffic by which it is told how much a run would hit.
const ofLate = 10 * time.Minute

const flowsSQL = `
select service, route, sum(good + bad)::bigint as requests from rollup_minute
where at >= @since and at < @until group by service, route order by service, route`

// Flows is what came in of late up to now, by route.
func (s *Store) Flows(ctx context.Context, now time.Time) ([]injector.Flow, error) {
	return flows(ctx, s.db, now)
}

func flows(ctx context.Context, q querier, now time.Time) ([]injector.Flow, error) {
	until := now.Truncate(time.Minute)
	rows, err := q.Query(ctx, flowsSQL, pgx.StrictNamedArgs{"since": until.Add(-ofLate), "until": until})
	if err != nil {
		return nil, fmt.Errorf("count traffic by route: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[injector.Flow])
	if err != nil {
		return nil, fmt.Errorf("count traffic by route: %w", err)
	}
	return out, nil
}

const (
	holdDaySQL = `
insert into gameday (id, name, title, planned_at, actor, text, hash, needs, owners, started_at)
values (@id, @name, @title, @at, @actor, @text, @hash, @needs, @owners, @now)
on conflict (id) do update set text = excluded.text, hash = excluded.hash, needs = excluded.needs, owners = excluded.owners, started_at = excluded.started_at`
	skipDaySQL  = `update gameday set stopped = case when stopped = '' then @why else stopped end, ended_at = @now where name = @name and planned_at = @at and ended_at is null`
	verifySQL   = `update finding set state = 'verifying' where id = any(@ids) and state = 'claimed_fixed' returning id`
	dayTitleSQL = `select title from schedule where id = @name`
)

// holdDay writes how a game day is held, or, where it was announced, that it is not.
func holdDay(ctx context.Context, tx pgx.Tx, name string, o injector.Decided, now time.Time) error {
	if len(o.Runs) == 0 {
		_, err := tx.Exec(ctx, skipDaySQL, pgx.StrictNamedArgs{"name": name, "at": o.ScheduledFor, "now": now, "why": o.Skipped + ": " + o.Detail})
		if err != nil {
			return fmt.Errorf("skip game day %s: %w", name, err)
		}
		return nil
	}
	title := name
	if err := tx.QueryRow(ctx, dayTitleSQL, pgx.StrictNamedArgs{"name": name}).Scan(&title); err != nil {
		return fmt.Errorf("game day %s: %w", name, err)
	}
	return writeDay(ctx, tx, name, title, o.Runs[0].Actor, o.ScheduledFor, now, o.Day)
}

func writeDay(ctx context.Context, tx pgx.Tx, name, title, actor string, at, now time.Time, d injector.DayHeld) error {
	_, err := tx.Exec(ctx, holdDaySQL, pgx.StrictNamedArgs{"id": d.ID, "name": name, "title": title, "at": at, "actor": actor,
		"text": d.Text, "hash": d.Hash, "needs": d.Needs, "owners": append([]string{}, d.Owners...), "now": now})
	if err != nil {
		return fmt.Errorf("hold game day %s: %w", d.ID, err)
	}
	if len(d.Verifies) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, verifySQL, pgx.StrictNamedArgs{"ids": d.Verifies})
	if err != nil {
		return fmt.Errorf("findings of game day %s: %w", d.ID, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("findings of game day %s: %w", d.ID, err)
	}
	for _, id := range ids {
		e := finding.Event{At: now, Actor: actor, Kind: string(finding.Verifying), Text: "looked at again by game day " + d.ID}
		if err := addFindingEvent(ctx, tx, id, e); err != nil {
			return err
		}
	}
	return nil
}
