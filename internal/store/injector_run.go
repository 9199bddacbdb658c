package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/gateway/plan"
	"breakwater/injector"
)

// A lease that ends later than it could have been given was written under a
// clock that has jumped back; it counts as ended, or the run would be stuck.
const leaseSane = 2 * injector.LeaseFor

const renewSQL = `
with mine as (
    select id from run
    where owner = @owner and ended_at is null and lease_until > @now and lease_until <= @stale
    order by id for update
)
update run set lease_until = @until from mine where run.id = mine.id`

const claimSQL = `
with free as (
    select r.id from run r
    where r.ended_at is null and r.due_at <= @now
      and r.state in ('scheduled', 'arming', 'baseline', 'injecting', 'recovering', 'aborting')
      and (r.lease_until is null or r.lease_until <= @now or r.lease_until > @insane)
      and not exists (
          select 1 from run p
          where r.schedule <> '' and p.schedule = r.schedule and p.planned_at = r.planned_at and p.wave < r.wave and p.ended_at is null)
    order by r.id limit 50
    for update of r skip locked
)
update run set owner = @owner, epoch = nextval('run_epoch'), lease_until = case when run.state = 'injecting' then @brief::timestamptz else @until::timestamptz end
from free where run.id = free.id returning run.id`

// brief is the claim on a run whose control died while it injected. It can only be
// stopped, and until it is no plan may renew its faults: a lease ends so much earlier
// than the claim.
const brief = injector.LeaseFor - plan.FaultTTLMS*time.Millisecond

const heldSQL = `
select id, schedule, gameday, scenario, title, service, text, hash, actor, state, reason, verdict, why, seq, wave, starts, epoch,
    cap_ppm, planned_at, due_at, started_at, baseline_at, inject_at, recover_at, ended_at, baseline_ms, inject_ms, recover_ms,
    expected_ppm, attempts, injected, good, bad, budget_spent_ppm, assertions, cohorts, lease_until, search, knob, class, needs
from run where owner = @owner and ended_at is null and lease_until > @now order by due_at, seq`

// Hold renews what owner holds, claims what is due and free, and returns both.
func (s *Store) Hold(ctx context.Context, owner string, now time.Time) ([]injector.Held, error) {
	var out []injector.Held
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		out = nil
		until := now.Add(injector.LeaseFor)
		_, err := tx.Exec(ctx, renewSQL, pgx.StrictNamedArgs{
			"owner": owner, "now": now, "until": until, "stale": until.Add(-injector.HeartbeatEvery)})
		if err != nil {
			return fmt.Errorf("renew: %w", err)
		}
		rows, err := tx.Query(ctx, claimSQL, pgx.StrictNamedArgs{
			"owner": owner, "now": now, "until": until, "brief": now.Add(brief), "insane": now.Add(leaseSane)})
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("claim: %w", err)
		}
		taken := map[string]bool{}
		for _, id := range ids {
			taken[id] = true
		}
		rows, err = tx.Query(ctx, heldSQL, pgx.StrictNamedArgs{"owner": owner, "now": now})
		if err != nil {
			return fmt.Errorf("read held runs: %w", err)
		}
		runs, err := s.runs(ctx, tx, rows)
		if err != nil {
			return err
		}
		for _, r := range runs {
			out = append(out, injector.Held{Run: r, Taken: taken[r.ID]})
		}
		return nil
	})
	return out, err
}

const releaseSQL = `
update run set lease_until = @now where owner = @owner and ended_at is null`

// Release ends the leases of owner at once; who claims next follows the rule of
// the killed process.
func (s *Store) Release(ctx context.Context, owner string, now time.Time) error {
	if _, err := s.db.Exec(ctx, releaseSQL, pgx.StrictNamedArgs{"owner": owner, "now": now}); err != nil {
		return fmt.Errorf("release runs of %s: %w", owner, err)
	}
	return nil
}

// The runs of one game day are locked together and in one order, so that two
// moves cannot wait for each other.
const lockRunsSQL = `
select id from run
where id = @id or schedule <> '' and (schedule, planned_at) in (select r.schedule, r.planned_at from run r where r.id = @id)
order by id for update`

const moveSQL = `
update run set
    state       = @to,
    reason      = case when @reason::text <> '' then @reason else reason end,
    verdict     = case when @verdict::text <> '' then @verdict else verdict end,
    why         = case when @why::text <> '' then @why else why end,
    assertions  = coalesce(@assertions::jsonb, assertions),
    cohorts     = coalesce(@cohorts::jsonb, cohorts),
    starts      = starts + case when @to = 'arming' then 1 else 0 end,
    due_at      = case when @to = 'scheduled' then @at else due_at end,
    started_at  = case when @to = 'arming' then @at else started_at end,
    baseline_at = case when @to = 'baseline' then @at when @to = 'arming' then null else baseline_at end,
    inject_at   = case when @to = 'injecting' then @at else inject_at end,
    recover_at  = case when @to in ('recovering', 'aborting') and recover_at is null and inject_at is not null then @at else recover_at end,
    ended_at    = case when @ended::boolean then @at end,
    attempts    = coalesce(@attempts, attempts),
    injected    = coalesce(@injected, injected),
    good        = coalesce(@good, good),
    bad         = coalesce(@bad, bad),
    budget_spent_ppm = coalesce(@spent, budget_spent_ppm)
where id = @id and state = @from and (@epoch::bigint = 0 or epoch = @epoch)`

const forgetReceiptsSQL = `delete from run_receipt where run = @run`

// What follows in a game day may begin when a run was completed and what it broke
// has recovered; anything else ends the day: the next fault must not meet a system
// that has not.
const nextDueSQL = `
update run set due_at = greatest(run.due_at, @at) from run p
where p.id = @id and run.schedule = p.schedule and run.schedule <> '' and run.planned_at = p.planned_at
  and run.wave > p.wave and run.state in ('scheduled', 'pending_approval')`

const nextSkippedSQL = `
update run set state = 'skipped', reason = 'earlier_run', why = p.id || ' of the game day ' || @how::text, ended_at = @at
from run p
where p.id = @id and run.schedule = p.schedule and run.schedule <> '' and run.planned_at = p.planned_at
  and run.wave > p.wave and run.state in ('scheduled', 'pending_approval')`

// Move makes one transition, or returns injector.ErrFenced.
func (s *Store) Move(ctx context.Context, m injector.Move) error {
	var assertions, cohorts, attempts, injected, good, bad, spent any
	if m.Cohorts != nil {
		text, err := json.Marshal(m.Cohorts)
		if err != nil {
			return fmt.Errorf("cohorts of run %s: %w", m.Run, err)
		}
		cohorts = string(text)
	}
	if m.Assertions != nil {
		text, err := json.Marshal(m.Assertions)
		if err != nil {
			return fmt.Errorf("assertions of run %s: %w", m.Run, err)
		}
		assertions = string(text)
	}
	if c := m.Counts; c != nil {
		attempts, injected, good, bad, spent = c.Attempts, c.Injected, c.Good, c.Bad, c.BudgetSpentPPM
	}
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, lockRunsSQL, pgx.StrictNamedArgs{"id": m.Run}); err != nil {
			return fmt.Errorf("lock run %s: %w", m.Run, err)
		}
		done, err := tx.Exec(ctx, moveSQL, pgx.StrictNamedArgs{
			"id": m.Run, "epoch": m.Epoch, "from": string(m.From), "to": string(m.To), "at": m.At, "ended": m.To.Ended(),
			"reason": m.Reason, "verdict": string(m.Verdict), "why": m.Why, "assertions": assertions, "cohorts": cohorts,
			"attempts": attempts, "injected": injected, "good": good, "bad": bad, "spent": spent,
		})
		if err != nil {
			return fmt.Errorf("move run %s from %s to %s: %w", m.Run, m.From, m.To, err)
		}
		if done.RowsAffected() == 0 {
			return fmt.Errorf("run %s is no longer %s: %w", m.Run, m.From, injector.ErrFenced)
		}
		if m.To == injector.Arming {
			// Receipts of an earlier start prove nothing about this one.
			if _, err := tx.Exec(ctx, forgetReceiptsSQL, pgx.StrictNamedArgs{"run": m.Run}); err != nil {
				return fmt.Errorf("forget receipts of run %s: %w", m.Run, err)
			}
		}
		if m.To.Ended() {
			follow, args := nextDueSQL, pgx.StrictNamedArgs{"id": m.Run, "at": m.At}
			if how := m.Ends(); how != "" {
				follow, args["how"] = nextSkippedSQL, how
			}
			if _, err := tx.Exec(ctx, follow, args); err != nil {
				return fmt.Errorf("what follows run %s: %w", m.Run, err)
			}
		}
		text := string(m.To)
		if m.Text != "" {
			text += ": " + m.Text
		}
		_, err = tx.Exec(ctx, addRunEventSQL, pgx.StrictNamedArgs{"run": m.Run, "at": m.At, "kind": "state", "text": text, "actor": m.Actor})
		return errors.Join(err, hint(ctx, tx))
	})
}

const stopAllSQL = `
with every as (select id, state from run where ended_at is null and state <> 'aborting' order by id for update)
update run set
    state      = case when every.state in ('draft', 'pending_approval', 'scheduled') then 'cancelled' else 'aborting' end,
    reason     = @reason,
    recover_at = case when run.recover_at is null and run.inject_at is not null then @at else run.recover_at end,
    ended_at   = case when every.state in ('draft', 'pending_approval', 'scheduled') then @at::timestamptz end
from every where run.id = every.id
returning run.id`

const setHaltSQL = `
update injector_state set halted_at = coalesce(halted_at, @at), halted_by = case when halted_at is null then @actor else halted_by end`

// StopAll stops every run; halt keeps new ones from starting.
func (s *Store) StopAll(ctx context.Context, now time.Time, actor, reason string, halt bool) (int, error) {
	stopped := 0
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := lockState(ctx, tx); err != nil {
			return err
		}
		if halt {
			if _, err := tx.Exec(ctx, setHaltSQL, pgx.StrictNamedArgs{"at": now, "actor": actor}); err != nil {
				return fmt.Errorf("halt: %w", err)
			}
		}
		rows, err := tx.Query(ctx, stopAllSQL, pgx.StrictNamedArgs{"at": now, "reason": reason})
		if err != nil {
			return fmt.Errorf("stop all runs: %w", err)
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return fmt.Errorf("stop all runs: %w", err)
		}
		for _, id := range ids {
			_, err := tx.Exec(ctx, addRunEventSQL, pgx.StrictNamedArgs{"run": id, "at": now, "kind": "state", "text": "stopped: " + reason, "actor": actor})
			if err != nil {
				return fmt.Errorf("stop run %s: %w", id, err)
			}
		}
		stopped = len(ids)
		return hint(ctx, tx)
	})
	return stopped, err
}

const resumeSQL = `update injector_state set halted_at = null, halted_by = ''`

// Resume lifts a halt.
func (s *Store) Resume(ctx context.Context, _ time.Time, _ string) error {
	if _, err := s.db.Exec(ctx, resumeSQL); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	return nil
}

const expireApprovalsSQL = `
update run set state = 'expired', reason = 'no_approval', ended_at = @now
where state = 'pending_approval' and due_at < @before`

// ExpireApprovals ends what nobody approved in time.
func (s *Store) ExpireApprovals(ctx context.Context, now time.Time) error {
	_, err := s.db.Exec(ctx, expireApprovalsSQL, pgx.StrictNamedArgs{"now": now, "before": now.Add(-injector.ApprovalFor)})
	if err != nil {
		return fmt.Errorf("expire approvals: %w", err)
	}
	return nil
}
