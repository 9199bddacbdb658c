package store

import (
	"context"
	"encoding/json"
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
	Terms     []byte
	CountedAt *time.Time `db:"counted_at"`
}

const objectiveColumns = `
select o.id, o.service, o.title, o.owner, o.target_ppb, o.window_s, o.since, o.revision, o.text, o.terms, o.counted_at`

func (r objectiveRow) value() (slo.Objective, error) {
	terms, err := termsOf(r.Terms)
	if err != nil {
		return slo.Objective{}, fmt.Errorf("objective %s: %w", r.ID, err)
	}
	return slo.Objective{ID: r.ID, Service: r.Service, Title: r.Title, Owner: r.Owner, TargetPPB: r.TargetPPB,
		Window: time.Duration(r.WindowS) * time.Second, Since: r.Since.UTC(), Counted: timeOf(r.CountedAt), Revision: r.Revision, Text: r.Text, Terms: terms}, nil
}

const objectivesSQL = objectiveColumns + `
from objective o where o.retired_at is null order by o.service, o.id`

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
		if out[i], err = r.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// A revision rises only with the text or the terms, so that importing the same
// directory at every start changes nothing. since stays: coverage is counted from
// the first day. counted_at moves with a latency limit: what was counted by another
// limit says nothing of this one.
const importObjectiveSQL = `
insert into objective (id, service, title, owner, target_ppb, window_s, since, revision, text, source, terms, counted_at)
values (@id, @service, @title, @owner, @target_ppb, @window_s, @since, 1, @text, @source, @terms, @counted_at)
on conflict (id) do update set
    service = excluded.service, title = excluded.title, owner = excluded.owner,
    target_ppb = excluded.target_ppb, window_s = excluded.window_s, text = excluded.text,
    source = excluded.source, retired_at = null, terms = excluded.terms,
    counted_at = case when objective.terms #> '{indicator,limit_ns}' is not distinct from excluded.terms #> '{indicator,limit_ns}'
        and objective.terms #> '{indicator,kind}' is not distinct from excluded.terms #> '{indicator,kind}'
        then objective.counted_at else excluded.counted_at end,
    revision = objective.revision + (objective.text <> excluded.text or objective.terms is distinct from excluded.terms)::int
where (objective.text, objective.source, objective.service, objective.owner, objective.retired_at is null, objective.terms)
    is distinct from (excluded.text, excluded.source, excluded.service, excluded.owner, true, excluded.terms)
returning revision`

// Revisions are kept: what was decided under one is told with it.
const keepRevisionSQL = `
insert into objective_revision (id, revision, service, target_ppb, window_s, terms, text, source, at)
select id, revision, service, target_ppb, window_s, terms, text, source, @now from objective where id = @id
on conflict (id, revision) do nothing`

// Slices are made from minutes anew where the terms changed; what is there of
// former terms is no longer true.
const forgetSlicesSQL = `delete from slo_slice where objective = @id`

const markHoursSQL = `
insert into slo_dirty (service, env, at)
select service, env, at from service_hour where service = @service and at >= @since`

const retireObjectivesSQL = `
update objective set retired_at = @now
where source = @source and retired_at is null and id <> all(@ids::text[])`

// ImportObjectives makes source's objectives the ones given: new ones begin at
// now, changed ones get a revision, missing ones are retired. It reports how many
// were touched.
func (s *Store) ImportObjectives(ctx context.Context, source string, objectives []slo.Objective, now time.Time) (int64, error) {
	var touched int64
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		touched = 0
		ids := make([]string, 0, len(objectives))
		for _, o := range objectives {
			ids = append(ids, o.ID)
			changed, err := importObjective(ctx, tx, source, o, now)
			if err != nil {
				return fmt.Errorf("objective %s: %w", o.ID, err)
			}
			if changed {
				touched++
			}
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

// settling is how long a new latency limit may take to reach those who count.
const settling = 10 * time.Second

func importObjective(ctx context.Context, tx pgx.Tx, source string, o slo.Objective, now time.Time) (changed bool, err error) {
	since, counted := o.Since, o.Counted
	if since.IsZero() {
		since = now
	}
	if counted.IsZero() && o.Limit() > 0 {
		counted = now.Add(settling)
	}
	var terms []byte
	if o.Terms != nil {
		if terms, err = json.Marshal(o.Terms); err != nil {
			return false, fmt.Errorf("write terms: %w", err)
		}
	}
	var revision int64
	err = tx.QueryRow(ctx, importObjectiveSQL, pgx.StrictNamedArgs{
		"id": o.ID, "service": o.Service, "title": o.Title, "owner": o.Owner, "target_ppb": o.TargetPPB,
		"window_s": int64(o.Window / time.Second), "since": since, "text": o.Text, "source": source, "terms": terms, "counted_at": timeOrNull(counted),
	}).Scan(&revision)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil // as it was
	}
	if err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, keepRevisionSQL, pgx.StrictNamedArgs{"id": o.ID, "now": now}); err != nil {
		return false, fmt.Errorf("keep revision %d: %w", revision, err)
	}
	if o.Sliced() {
		if _, err := tx.Exec(ctx, forgetSlicesSQL, pgx.StrictNamedArgs{"id": o.ID}); err != nil {
			return false, fmt.Errorf("forget slices: %w", err)
		}
		back := now.Add(-o.Window - 72*time.Hour - o.Spec().Indicator.Limit)
		if _, err := tx.Exec(ctx, markHoursSQL, pgx.StrictNamedArgs{"service": o.Service, "since": back}); err != nil {
			return false, fmt.Errorf("mark hours: %w", err)
		}
	}
	return true, nil
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
	return auditIn(ctx, tx, e)
}
