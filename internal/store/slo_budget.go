package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// silence is how long a gateway may say nothing before the watermark goes on
// without it; from then on it costs coverage.
const silence = 2 * time.Minute

// A service counts in every environment it was ever seen in. The watermark is
// the last instant all live gateways of the environment have reported; with none
// alive, the furthest any did.
const budgetsSQL = `
select o.id, o.service, o.title, o.owner, o.target_ppb, o.window_s, o.since, o.revision, o.text,
    coalesce(e.env, '') as env, e.env is not null as seen, w.until_at,
    s.level, s.measured, s.since as state_since, s.frozen_at, s.good_since, s.at as state_at, s.reason
from objective o
left join lateral (
    select env from slo_scope where service = o.service
    union
    select env from slo_dirty where service = o.service
) e on true
left join lateral (
    select coalesce(min(until_at) filter (where not stopped and last_ack >= @alive), max(until_at)) as until_at
    from gateway where env = e.env
) w on true
left join slo_state s on s.service = o.service and s.objective = o.id and s.env = e.env
where o.retired_at is null
order by o.service, o.id, e.env`

type budgetRow struct {
	objectiveRow
	Env        string
	Seen       bool
	UntilAt    *time.Time `db:"until_at"`
	Level      *string
	Measured   *string
	StateSince *time.Time `db:"state_since"`
	FrozenAt   *time.Time `db:"frozen_at"`
	GoodSince  *time.Time `db:"good_since"`
	StateAt    *time.Time `db:"state_at"`
	Reason     *string
}

func (r budgetRow) state() slo.State {
	if r.Level == nil {
		return slo.State{}
	}
	return slo.State{Level: slo.Level(*r.Level), Measured: slo.Level(*r.Measured), Since: timeOf(r.StateSince).UTC(),
		FrozenAt: timeOf(r.FrozenAt), GoodSince: timeOf(r.GoodSince), At: timeOf(r.StateAt), Reason: *r.Reason}
}

// ReadBudgets answers q from one snapshot: counts of windows that end at the
// same watermark, and the states they are to move, cannot disagree.
func (s *Store) ReadBudgets(ctx context.Context, q slo.Question) ([]slo.Measured, error) {
	var out []slo.Measured
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, budgetsSQL, pgx.StrictNamedArgs{"alive": q.Now.Add(-silence)})
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[budgetRow])
		if err != nil {
			return err
		}
		out = make([]slo.Measured, len(found))
		var sums, running asks
		for i, r := range found {
			m := slo.Measured{Objective: r.value(), Env: r.Env, Seen: r.Seen, DataUntil: timeOf(r.UntilAt), State: r.state()}
			out[i] = m
			closed, open := m.DataUntil.Truncate(time.Minute), ceilMinute(m.DataUntil)
			sums.add(ask{r.Service, r.Env, closed.Add(-m.Objective.Window), closed})
			sums.add(ask{r.Service, r.Env, open.Add(-m.Objective.Window), open})
			running.add(ask{r.Service, r.Env, open.Add(-m.Objective.Window), open})
			for _, w := range q.Burns {
				sums.add(ask{r.Service, r.Env, open.Add(-w), open})
			}
		}
		counted, err := tallies(ctx, tx, &sums)
		if err != nil {
			return err
		}
		each := 2 + len(q.Burns)
		for i := range out {
			mine := counted[i*each : (i+1)*each]
			out[i].Closed, out[i].Running, out[i].Burns = mine[0], mine[1], mine[2:]
		}
		if !q.Whole {
			return nil
		}
		slots, err := hours(ctx, tx, &running)
		if err != nil {
			return err
		}
		for i := range out {
			out[i].Hours = slots[i]
			if err := coverage(ctx, tx, &out[i], q.Now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read budgets: %w", err)
	}
	return out, nil
}

const coverageSQL = `select measured_us, expected_us, lost from gateway_coverage(@env, @since, @until)`

// Hours are exact enough here: they were rolled up a moment ago, and the share
// lost is compared with a limit of ten percent.
const exchangesSQL = `
select coalesce(sum(exchanges), 0)::bigint from slo_hour
where env = @env and at >= date_trunc('hour', @since::timestamptz, 'UTC') and at < @until`

// coverage sets what share of the gateway-time since the objective began was
// reported, less the events known to be lost. Silence lowers it only once a
// gateway has left the watermark: a second of delay is not a hole.
func coverage(ctx context.Context, tx pgx.Tx, m *slo.Measured, now time.Time) error {
	until := m.DataUntil
	if quiet := now.Add(-silence); until.Before(quiet) {
		until = quiet
	}
	since := until.Add(-m.Objective.Window)
	if since.Before(m.Objective.Since) {
		since = m.Objective.Since
	}
	var measured, expected, lost int64
	err := tx.QueryRow(ctx, coverageSQL, pgx.StrictNamedArgs{"env": m.Env, "since": since, "until": until}).Scan(&measured, &expected, &lost)
	if err != nil {
		return fmt.Errorf("coverage of %s: %w", m.Env, err)
	}
	m.CoveragePPM = slo.Part(measured, expected)
	m.Running.Lost = lost
	m.Running.MeasuredMins, m.Running.ExpectedMins = measured/60_000_000, (expected+59_999_999)/60_000_000
	if lost > 0 {
		// What was lost had no service, so it is weighed against all traffic.
		var counted int64
		err := tx.QueryRow(ctx, exchangesSQL, pgx.StrictNamedArgs{"env": m.Env, "since": since, "until": until}).Scan(&counted)
		if err != nil {
			return fmt.Errorf("exchanges of %s: %w", m.Env, err)
		}
		m.CoveragePPM = m.CoveragePPM * slo.Part(counted, counted+lost) / 1_000_000
	}
	return nil
}

func ceilMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }
