package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/gateway/plan"
	"breakwater/injector"
)

const liveRunsSQL = `
select id, schedule, gameday, scenario, title, service, text, hash, actor, state, reason, verdict, why, seq, wave, starts, epoch,
    cap_ppm, planned_at, due_at, started_at, baseline_at, inject_at, recover_at, ended_at, baseline_ms, inject_ms, recover_ms,
    expected_ppm, attempts, injected, good, bad, budget_spent_ppm, assertions, cohorts, lease_until, search, knob, class, needs
from run where ended_at is null and state in ('arming', 'baseline', 'injecting')
  and lease_until > @now and lease_until <= @insane order by id`

const planStateSQL = `
select greatest(epoch_base, (select coalesce(max(epoch), 0) from run)) as epoch, revision, plan_hash from injector_state`

const lockPlanSQL = `select revision from injector_state for update`

const setRevisionSQL = `update injector_state set revision = revision + 1, plan_hash = @hash returning revision`

// NumberPlan reads the live runs and numbers what compose makes of them. The
// common case, nothing changed, takes no lock: both reads see one snapshot.
func (s *Store) NumberPlan(ctx context.Context, now time.Time, compose func([]injector.Run) string) (injector.Stamped, error) {
	var at injector.Stamped
	same := false
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		kept, runs, err := s.planState(ctx, tx, now, &at)
		if err != nil {
			return err
		}
		same = compose(runs) == kept
		return nil
	})
	if err != nil || same {
		return at, err
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		// The lock comes first: what is read after it is newer than anything
		// that was numbered before.
		if _, err := tx.Exec(ctx, lockPlanSQL); err != nil {
			return fmt.Errorf("lock the plan: %w", err)
		}
		kept, runs, err := s.planState(ctx, tx, now, &at)
		if err != nil {
			return err
		}
		hash := compose(runs)
		if hash == kept {
			return nil
		}
		if err := tx.QueryRow(ctx, setRevisionSQL, pgx.StrictNamedArgs{"hash": hash}).Scan(&at.Revision); err != nil {
			return fmt.Errorf("number the plan: %w", err)
		}
		return hint(ctx, tx)
	})
	return at, err
}

func (s *Store) planState(ctx context.Context, tx pgx.Tx, now time.Time, at *injector.Stamped) (hash string, runs []injector.Run, err error) {
	if err := tx.QueryRow(ctx, planStateSQL).Scan(&at.Epoch, &at.Revision, &hash); err != nil {
		return "", nil, fmt.Errorf("read the plan's number: %w", err)
	}
	rows, err := tx.Query(ctx, liveRunsSQL, pgx.StrictNamedArgs{"now": now, "insane": now.Add(leaseSane)})
	if err != nil {
		return "", nil, fmt.Errorf("read live runs: %w", err)
	}
	runs, err = s.runs(ctx, tx, rows)
	return hash, runs, err
}

const gatewaysSQL = `
select gateway, boot, at, epoch, revision, halted, skew_ms, config_revision, config_hash, armed, refused from gateway_receipt order by gateway`

// Gateways returns the newest word of each gateway.
func (s *Store) Gateways(ctx context.Context) ([]injector.Gateway, error) {
	rows, err := s.db.Query(ctx, gatewaysSQL)
	if err != nil {
		return nil, fmt.Errorf("read gateways: %w", err)
	}
	var out []injector.Gateway
	var g injector.Gateway
	var armed, refused []byte
	_, err = pgx.ForEachRow(rows, []any{&g.Name, &g.Boot, &g.At, &g.Epoch, &g.Revision, &g.Halted, &g.SkewMS, &g.ConfigRevision, &g.ConfigHash, &armed, &refused}, func() error {
		x := g
		x.At = g.At.UTC()
		if err := json.Unmarshal(armed, &x.Armed); err != nil {
			return fmt.Errorf("armed rules of %s: %w", g.Name, err)
		}
		if err := json.Unmarshal(refused, &x.Refused); err != nil {
			return fmt.Errorf("refused rules of %s: %w", g.Name, err)
		}
		out = append(out, x)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read gateways: %w", err)
	}
	return out, nil
}

const bootOfGatewaySQL = `select boot from gateway_receipt where gateway = @gateway for update`

const saveReceiptSQL = `
insert into gateway_receipt (gateway, boot, at, epoch, revision, halted, skew_ms, armed, refused, config_revision, config_hash)
values (@gateway, @boot, @at, @epoch, @revision, @halted, @skew_ms, @armed::jsonb, @refused::jsonb, @config_revision, @config_hash)
on conflict (gateway) do update set boot = excluded.boot, at = excluded.at, epoch = excluded.epoch, revision = excluded.revision,
    halted = excluded.halted, skew_ms = excluded.skew_ms, armed = excluded.armed, refused = excluded.refused,
    config_revision = excluded.config_revision, config_hash = excluded.config_hash`

// Boot and configuration stay those of the first word: a restart or a reload in the
// middle of a run must not look as if they had been there all along.
const armedSQL = `
insert into run_receipt (run, gateway, fault, hash, ppm, boot, config, armed_at)
select id, @gateway, @fault, @hash, @ppm, @boot, @config, @at from run where id = @run and ended_at is null and started_at is not null
on conflict (run, gateway, fault) do update set
    armed_at = case when run_receipt.hash = excluded.hash then run_receipt.armed_at else excluded.armed_at end,
    hash = excluded.hash, ppm = excluded.ppm, removed_at = null, by_lease = false`

const givenBackSQL = `
update run_receipt set removed_at = @at
where gateway = @gateway and removed_at is null and not (run || '/' || fault) = any(@held)`

// SaveReceipt stores a gateway's word and counts what its tallies have gained.
func (s *Store) SaveReceipt(ctx context.Context, now time.Time, r plan.Receipt) error {
	armed, err := json.Marshal(append([]plan.Armed{}, r.Armed...))
	if err != nil {
		return fmt.Errorf("receipt of %s: %w", r.Gateway, err)
	}
	refused, err := json.Marshal(append([]plan.Armed{}, r.Refused...))
	if err != nil {
		return fmt.Errorf("receipt of %s: %w", r.Gateway, err)
	}
	skew := int64(0)
	if r.NowMS != 0 {
		skew = now.UnixMilli() - r.NowMS
	}
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, bootOfGatewaySQL, pgx.StrictNamedArgs{"gateway": r.Gateway})
		if err != nil {
			return err
		}
		before, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, saveReceiptSQL, pgx.StrictNamedArgs{
			"gateway": r.Gateway, "boot": r.Boot, "at": now, "epoch": r.Epoch, "revision": r.Revision, "halted": r.Halted,
			"skew_ms": skew, "armed": string(armed), "refused": string(refused),
			"config_revision": r.ConfigRevision, "config_hash": r.ConfigHash,
		})
		if err != nil {
			return err
		}
		held := []string{}
		for _, a := range r.Armed {
			held = append(held, a.Run+"/"+a.Fault)
			_, err := tx.Exec(ctx, armedSQL, pgx.StrictNamedArgs{
				"run": a.Run, "gateway": r.Gateway, "fault": a.Fault, "hash": a.Hash, "ppm": a.PPM, "boot": r.Boot, "config": r.ConfigHash, "at": now})
			if err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, givenBackSQL, pgx.StrictNamedArgs{"gateway": r.Gateway, "at": now, "held": held}); err != nil {
			return err
		}
		known := len(before) == 1 && before[0] == r.Boot
		return tally(ctx, tx, now, r, known)
	})
	if err != nil {
		return fmt.Errorf("save the receipt of %s: %w", r.Gateway, err)
	}
	return nil
}

const markRemovedSQL = `
update run_receipt set removed_at = @at, by_lease = @by_lease
where run = @run and gateway = @gateway and removed_at is null`

// MarkRemoved writes down that a gateway is proven rid of a run's rules.
func (s *Store) MarkRemoved(ctx context.Context, run, gateway string, at time.Time, byLease bool) error {
	_, err := s.db.Exec(ctx, markRemovedSQL, pgx.StrictNamedArgs{"run": run, "gateway": gateway, "at": at, "by_lease": byLease})
	if err != nil {
		return fmt.Errorf("mark run %s removed at %s: %w", run, gateway, err)
	}
	return nil
}

const listenSQL = `listen breakwater_injector`

// Listen calls wake at every change of a run or the plan, until ctx ends.
func (s *Store) Listen(ctx context.Context, wake func()) error {
	pooled, err := s.db.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	// Never back into the pool: whoever got it next would receive our hints.
	conn := pooled.Hijack()
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	if _, err := conn.Exec(ctx, listenSQL); err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return fmt.Errorf("listen: %w", err)
		}
		wake()
	}
}
