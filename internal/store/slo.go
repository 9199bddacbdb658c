package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// Rows of the slo domain are read by name; times become UTC on the way out.

type objectiveRow struct {
	ID        string
	Service   string
	Title     string
	Owner     string
	TargetPPB int64 `db:"target_ppb"`
	WindowS   int64 `db:"window_s"`
	Since     time.Time
	Revision  int64
	Text      string
}

func (r objectiveRow) value() slo.Objective {
	return slo.Objective{ID: r.ID, Service: r.Service, Title: r.Title, Owner: r.Owner, TargetPPB: r.TargetPPB,
		Window: time.Duration(r.WindowS) * time.Second, Since: r.Since.UTC(), Revision: r.Revision, Text: r.Text}
}

const objectivesSQL = `
select id, service, title, owner, target_ppb, window_s, since, revision, text
from objective where retired_at is null order by service, id`

// Objectives lists the promises in force.
func (s *Store) Objectives(ctx context.Context) ([]slo.Objective, error) {
	rows, err := s.db.Query(ctx, objectivesSQL)
	if err != nil {
		return nil, fmt.Errorf("list objectives: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[objectiveRow])
	if err != nil {
		return nil, fmt.Errorf("list objectives: %w", err)
	}
	out := make([]slo.Objective, len(found))
	for i, r := range found {
		out[i] = r.value()
	}
	return out, nil
}

// A revision rises only with the text, so that importing the same directory at
// every start changes nothing. since stays: coverage is counted from the first day.
const importObjectiveSQL = `
insert into objective (id, service, title, owner, target_ppb, window_s, since, revision, text, source)
values (@id, @service, @title, @owner, @target_ppb, @window_s, @since, 1, @text, @source)
on conflict (id) do update set
    service = excluded.service, title = excluded.title, owner = excluded.owner,
    target_ppb = excluded.target_ppb, window_s = excluded.window_s, text = excluded.text,
    source = excluded.source, retired_at = null,
    revision = objective.revision + (objective.text <> excluded.text)::int
where (objective.text, objective.source, objective.service, objective.owner, objective.retired_at is null)
    is distinct from (excluded.text, excluded.source, excluded.service, excluded.owner, true)`

const retireObjectivesSQL = `
update objective set retired_at = @now
where source = @source and retired_at is null and id <> all(@ids::text[])`

// ImportObjectives makes source's objectives the ones given: new ones begin at
// now, changed ones get a revision, missing ones are retired. It reports how many
// were touched.
func (s *Store) ImportObjectives(ctx context.Context, source string, objectives []slo.Objective, now time.Time) (int64, error) {
	var touched int64
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		ids := make([]string, 0, len(objectives))
		for _, o := range objectives {
			since := o.Since
			if since.IsZero() {
				since = now
			}
			tag, err := tx.Exec(ctx, importObjectiveSQL, pgx.StrictNamedArgs{
				"id": o.ID, "service": o.Service, "title": o.Title, "owner": o.Owner, "target_ppb": o.TargetPPB,
				"window_s": int64(o.Window / time.Second), "since": since, "text": o.Text, "source": source,
			})
			if err != nil {
				return fmt.Errorf("objective %s: %w", o.ID, err)
			}
			touched += tag.RowsAffected()
			ids = append(ids, o.ID)
		}
		tag, err := tx.Exec(ctx, retireObjectivesSQL, pgx.StrictNamedArgs{"now": now, "source": source, "ids": ids})
		touched += tag.RowsAffected()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("import objectives from %s: %w", source, err)
	}
	return touched, nil
}

const writeStateSQL = `
insert into slo_state (service, objective, env, level, measured, since, frozen_at, good_since, at, reason)
values (@service, @objective, @env, @level, @measured, @since, @frozen_at, @good_since, @at, @reason)
on conflict (service, objective, env) do update set
    level = excluded.level, measured = excluded.measured, since = excluded.since, frozen_at = excluded.frozen_at,
    good_since = excluded.good_since, at = excluded.at, reason = excluded.reason
where slo_state.level = @from_level and slo_state.at = @from_at::timestamptz`

const writeTransitionSQL = `
insert into slo_transition (service, objective, env, at, from_level, to_level, reason, revision, data_until, good, bad, coverage_ppm)
values (@service, @objective, @env, @at, @from_level, @to_level, @reason, @revision, @data_until, @good, @bad, @coverage_ppm)`

// WriteBudgets stores states, and a transition where a level moved, in one
// transaction. A state that another replica has moved meanwhile is left alone.
func (s *Store) WriteBudgets(ctx context.Context, changes []slo.Change) error {
	if len(changes) == 0 {
		return nil
	}
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		batch := &pgx.Batch{}
		var failed error
		for _, c := range changes {
			batch.Queue(writeStateSQL, pgx.StrictNamedArgs{
				"service": c.Service, "objective": c.Objective, "env": c.Env,
				"level": string(c.To.Level), "measured": string(c.To.Measured), "since": c.To.Since,
				"frozen_at": timeOrNull(c.To.FrozenAt), "good_since": timeOrNull(c.To.GoodSince),
				"at": c.To.At, "reason": c.To.Reason,
				"from_level": string(c.From.Level), "from_at": timeOrNull(c.From.At),
			})
		}
		// Which states were ours to move is known only from the first results, so
		// transitions are a second batch.
		var moved []slo.Change
		results := tx.SendBatch(ctx, batch)
		for _, c := range changes {
			tag, err := results.Exec()
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("state of %s: %w", c.Objective, err))
			} else if tag.RowsAffected() == 1 && c.Moved() {
				moved = append(moved, c)
			}
		}
		if err := errors.Join(failed, results.Close()); err != nil {
			return err
		}
		for _, c := range moved {
			t := c.Status.Budget.Tally
			from := c.From.Level
			if from == "" {
				from = slo.Unknown
				if c.To.Level == slo.Unknown {
					continue // the first look at a service that has no data is no event
				}
			}
			if _, err := tx.Exec(ctx, writeTransitionSQL, pgx.StrictNamedArgs{
				"service": c.Service, "objective": c.Objective, "env": c.Env, "at": c.To.At,
				"from_level": string(from), "to_level": string(c.To.Level), "reason": c.To.Reason,
				"revision": c.Status.Objective.Revision, "data_until": timeOrNull(c.Status.DataUntil),
				"good": t.Good, "bad": t.Bad, "coverage_ppm": c.Status.CoveragePPM,
			}); err != nil {
				return fmt.Errorf("transition of %s: %w", c.Objective, err)
			}
			if err := auditFreeze(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
}

// auditFreeze enters the beginning and the end of a freeze into the chain, in the
// transaction that makes it so: a release was stopped, and somebody will ask.
func auditFreeze(ctx context.Context, tx pgx.Tx, c slo.Change) error {
	e := auth.Entry{At: c.To.At, Actor: "system", Object: c.Service + "/" + c.Objective + "/" + c.Env, Detail: c.To.Reason}
	switch slo.Frozen {
	case c.To.Level:
		e.Action = "freeze.begin"
	case c.From.Level:
		e.Action = "freeze.end"
	default:
		return nil
	}
	if _, err := tx.Exec(ctx, auditLockSQL, pgx.StrictNamedArgs{"lock": int64(auditLock)}); err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	var seq int64
	var hash string
	if err := tx.QueryRow(ctx, auditHeadSQL).Scan(&seq, &hash); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	r := auth.Next(seq, hash, e)
	if _, err := tx.Exec(ctx, auditAddSQL, pgx.StrictNamedArgs{"seq": r.Seq, "at": r.At, "actor": r.Actor, "action": r.Action,
		"object": r.Object, "detail": r.Detail, "prev": r.Prev, "hash": r.Hash}); err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	return nil
}
