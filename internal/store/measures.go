package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/internal/retrylog"
	"breakwater/slo/freeze"
)

// measureLock serialises who decides on measures: two controls that see a budget go
// at the same moment begin one measure and not two.
const measureLock = 0x6d656173

const (
	measureLockSQL  = `select pg_advisory_xact_lock(@lock)`
	measuresLiveSQL = `
select body, seen_at, ended_at, ended from measure where ended_at is null order by service, env, kind`
	measuresSinceSQL = `
select body, seen_at, ended_at, ended from measure
where (@service = '' or service = @service) and (ended_at is null or ended_at > @since) order by started_at desc, id limit @limit`
	startMeasureSQL = `
insert into measure (id, service, env, kind, dry_run, state, reason, body, started_at, seen_at)
values (@id, @service, @env, @kind, @dry_run, @state, @reason, @body, @started_at, @seen_at)`
	endMeasureSQL  = `update measure set ended_at = @at, ended = @why where id = @id and ended_at is null`
	seenMeasureSQL = `update measure set seen_at = @at where id = @id and ended_at is null`
)

type measureRow struct {
	Body    []byte
	SeenAt  time.Time  `db:"seen_at"`
	EndedAt *time.Time `db:"ended_at"`
	Ended   string
}

func (r measureRow) value() (freeze.Measure, error) {
	var m freeze.Measure
	if err := json.Unmarshal(r.Body, &m); err != nil {
		return m, err
	}
	m.SeenAt, m.EndedAt, m.Ended = r.SeenAt.UTC(), inUTC(r.EndedAt), r.Ended
	return m, nil
}

// Protect has decide compare the measures that hold with those that are wanted, and
// keeps what it says, each beginning and end with its row of the audit.
func (s *Store) Protect(ctx context.Context, now time.Time, decide func(live []freeze.Measure) freeze.Turn) (freeze.Turn, error) {
	var turn freeze.Turn
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, measureLockSQL, pgx.StrictNamedArgs{"lock": int64(measureLock)}); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, measuresLiveSQL)
		if err != nil {
			return err
		}
		live, err := measuresOf(rows)
		if err != nil {
			return err
		}
		turn = decide(live)
		for _, m := range turn.End {
			if err := auditMeasure(ctx, tx, now, m, "measure.end", m.Ended); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, endMeasureSQL, pgx.StrictNamedArgs{"id": m.ID, "at": m.EndedAt, "why": m.Ended}); err != nil {
				return err
			}
		}
		for _, m := range turn.Start {
			body, err := json.Marshal(m)
			if err != nil {
				return err
			}
			if err := auditMeasure(ctx, tx, now, m, "measure.start", m.Reason); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, startMeasureSQL, pgx.StrictNamedArgs{"id": m.ID, "service": m.Service, "env": m.Env, "kind": string(m.Kind), "dry_run": m.DryRun,
				"state": string(m.State), "reason": m.Reason, "body": body, "started_at": m.From, "seen_at": m.SeenAt}); err != nil {
				return err
			}
		}
		for _, m := range turn.Seen {
			if _, err := tx.Exec(ctx, seenMeasureSQL, pgx.StrictNamedArgs{"id": m.ID, "at": m.SeenAt}); err != nil {
				return err
			}
		}
		if len(turn.Start)+len(turn.End) == 0 {
			return nil
		}
		return hint(ctx, tx) // gateways that wait for the plan get it now
	})
	if err != nil {
		return freeze.Turn{}, fmt.Errorf("protective measures: %w", err)
	}
	return turn, nil
}

func auditMeasure(ctx context.Context, tx pgx.Tx, at time.Time, m freeze.Measure, action, why string) error {
	text := m.Text()
	if m.DryRun {
		text += " (dry run: nothing is done)"
	}
	return auditIn(ctx, tx, auth.Entry{At: at, Actor: "system", Action: action, Object: m.Service + slashed(m.Env), Detail: fmt.Sprintf("%s %s: %s; %s", m.ID, m.Kind, text, why)})
}

// LiveMeasures lists those that hold, dry runs too.
func (s *Store) LiveMeasures(ctx context.Context) ([]freeze.Measure, error) {
	rows, err := s.db.Query(ctx, measuresLiveSQL)
	if err != nil {
		return nil, fmt.Errorf("measures: %w", err)
	}
	return measuresOf(rows)
}

// Measures lists those that hold or ended since an instant, the latest first;
// service may be empty for all.
func (s *Store) Measures(ctx context.Context, service string, since time.Time, limit int) ([]freeze.Measure, error) {
	rows, err := s.db.Query(ctx, measuresSinceSQL, pgx.StrictNamedArgs{"service": service, "since": since, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("measures: %w", err)
	}
	return measuresOf(rows)
}

func measuresOf(rows pgx.Rows) ([]freeze.Measure, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[measureRow])
	if err != nil {
		return nil, fmt.Errorf("measures: %w", err)
	}
	out := make([]freeze.Measure, len(found))
	for i, r := range found {
		if out[i], err = r.value(); err != nil {
			return nil, fmt.Errorf("measures: %w", err)
		}
	}
	return out, nil
}

// What gateways did about measures, as far back as a measure can last.
const measureTurnsSQL = `
select at, gateway, env, service, coalesce(body #>> '{transition,from}', '') as from_state,
    coalesce(body #>> '{transition,to}', '') as to_state, coalesce(body #>> '{transition,reason}', '') as reason
from event where kind = 'transition' and at >= @since and body #>> '{transition,policy}' = 'measure'
order by at desc limit 5000`

type measureTurnRow struct {
	At                    time.Time
	Gateway, Env, Service string
	FromState             string `db:"from_state"`
	ToState               string `db:"to_state"`
	Reason                string
}

// MeasureTurns lists what gateways told of measures since an instant, ascending.
func (s *Store) MeasureTurns(ctx context.Context, since time.Time) ([]retrylog.Transition, error) {
	rows, err := s.db.Query(ctx, measureTurnsSQL, pgx.StrictNamedArgs{"since": since})
	if err != nil {
		return nil, fmt.Errorf("measures of gateways: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[measureTurnRow])
	if err != nil {
		return nil, fmt.Errorf("measures of gateways: %w", err)
	}
	out := make([]retrylog.Transition, 0, len(found))
	for _, r := range slices.Backward(found) {
		out = append(out, retrylog.Transition{At: r.At.UTC(), Gateway: r.Gateway, Env: r.Env, Policy: "measure", Service: r.Service, From: r.FromState, To: r.ToState, Reason: r.Reason})
	}
	return out, nil
}
