package store

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
)

const (
	deployLockSQL  = `select one from deploy_lock for update`
	lapseDeploySQL = `
update deploy set ended_at = until_at, outcome = 'lapsed', ended_by = 'system' where ended_at is null and until_at <= @now
returning id, service, env, ref, key, kind, by_whom, decision, begun_at, until_at, ended_at, outcome`
	liveDeploysSQL = `
select id, service, env, ref, key, kind, by_whom, decision, begun_at, until_at, ended_at, outcome from deploy
where ended_at is null and until_at > @now order by begun_at, id`
	deploysSQL = `
select id, service, env, ref, key, kind, by_whom, decision, begun_at, until_at, ended_at, outcome from deploy
where (@service = '' or service = @service) and (ended_at is null or begun_at > @since) order by begun_at desc, id limit @limit`
	renewDeploySQL = `update deploy set until_at = greatest(until_at, @until) where id = @id and ended_at is null`
	addDeploySQL   = `
insert into deploy (id, service, env, ref, key, kind, by_whom, decision, begun_at, until_at)
values (@id, @service, @env, @ref, @key, @kind, @by, @decision, @begun, @until)`
	endDeploySQL = `
update deploy set ended_at = @at, outcome = @outcome, ended_by = @by
where ended_at is null and service = @service and (@env = '' or env = '' or env = @env) and (ref = @ref and @ref <> '' or key = @key and @key <> '')
returning id, service, env, ref, key, kind, by_whom, decision, begun_at, until_at, ended_at, outcome`
	// What is told of a deploy from its beginning is one row; where it was let out and
	// not told of, its end makes the row.
	noteDeploySQL = `
insert into slo_cause (service, env, kind, ref, title, from_at, to_at, actor, at, outcome)
values (@service, @env, 'deploy', @ref, @title, @from, @to, @actor, @at, @outcome)
on conflict (service, env, kind, ref, from_at) do update set to_at = excluded.to_at, outcome = excluded.outcome,
    title = case when excluded.title = '' then slo_cause.title else excluded.title end`
)

type deployRow struct {
	ID, Service, Env, Ref, Key, Kind string
	ByWhom                           string `db:"by_whom"`
	Decision                         string
	BegunAt                          time.Time  `db:"begun_at"`
	UntilAt                          time.Time  `db:"until_at"`
	EndedAt                          *time.Time `db:"ended_at"`
	Outcome                          string
}

func deploysOf(rows pgx.Rows, err error) ([]slo.Deploy, error) {
	if err != nil {
		return nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[deployRow])
	if err != nil {
		return nil, err
	}
	out := make([]slo.Deploy, len(found))
	for i, r := range found {
		out[i] = slo.Deploy{ID: r.ID, Service: r.Service, Env: r.Env, Ref: r.Ref, Key: r.Key, Kind: r.Kind, By: r.ByWhom, Decision: r.Decision,
			Begun: r.BegunAt.UTC(), Until: r.UntilAt.UTC(), Ended: inUTC(r.EndedAt), Outcome: slo.DeployOutcome(r.Outcome)}
	}
	return out, nil
}

// deploysUnderWay lists those that hold their leases at now.
func deploysUnderWay(ctx context.Context, tx pgx.Tx, now time.Time) ([]slo.Deploy, error) {
	rows, err := tx.Query(ctx, liveDeploysSQL, pgx.StrictNamedArgs{"now": now})
	return deploysOf(rows, err)
}

// Deploys lists those under way and those begun since an instant, the latest first;
// service may be empty for all.
func (s *Store) Deploys(ctx context.Context, service string, since time.Time, limit int) ([]slo.Deploy, error) {
	rows, err := s.db.Query(ctx, deploysSQL, pgx.StrictNamedArgs{"service": service, "since": since, "limit": limit})
	out, err := deploysOf(rows, err)
	if err != nil {
		return nil, fmt.Errorf("deploys: %w", err)
	}
	return out, nil
}

// BeginDeploy gives d a slot until d.Until, or renews the one that the same change
// holds, unless full says that none is free beside those under way; nil: nobody is
// asked. Whoever gives slots holds one row, so no two callers see the same slot free.
func (s *Store) BeginDeploy(ctx context.Context, d slo.Deploy, full func(live []slo.Deploy) bool, now time.Time) (slo.Deploy, bool, error) {
	begun := false
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, deployLockSQL); err != nil {
			return err
		}
		if err := lapseDeploys(ctx, tx, now); err != nil {
			return err
		}
		live, err := deploysUnderWay(ctx, tx, now)
		if err != nil {
			return err
		}
		for _, l := range live {
			if l.Same(d) {
				begun = true
				if d.Until.After(l.Until) {
					l.Until = d.Until
				}
				d = l
				_, err := tx.Exec(ctx, renewDeploySQL, pgx.StrictNamedArgs{"id": l.ID, "until": l.Until})
				return err
			}
		}
		if full != nil && full(live) {
			return nil
		}
		begun, d.Begun = true, now
		d.ID = newDeployID()
		why := "told of"
		if d.Decision != "" {
			why = "decision " + d.Decision
		}
		if err := auditIn(ctx, tx, auth.Entry{At: now, Actor: d.By, Action: "deploy.begin", Object: d.Service + slashed(d.Env),
			Detail: fmt.Sprintf("%s %s, %s; holds its slot until %s", d.ID, d.Ref, why, d.Until.UTC().Format(time.RFC3339))}); err != nil {
			return err
		}
		if d.Decision == "" { // what a gate lets out is no deploy before somebody says so
			if err := noteDeploy(ctx, tx, d, "", nil, "begun", now); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, addDeploySQL, pgx.StrictNamedArgs{"id": d.ID, "service": d.Service, "env": d.Env, "ref": d.Ref, "key": d.Key, "kind": d.Kind,
			"by": d.By, "decision": d.Decision, "begun": d.Begun, "until": d.Until})
		return err
	})
	if err != nil {
		return slo.Deploy{}, false, fmt.Errorf("begin a deploy of %s: %w", d.Service, err)
	}
	return d, begun, nil
}

func noteDeploy(ctx context.Context, tx pgx.Tx, d slo.Deploy, title string, to *time.Time, outcome string, now time.Time) error {
	if d.Ref == "" {
		return nil // what has no name is no mark
	}
	_, err := tx.Exec(ctx, noteDeploySQL, pgx.StrictNamedArgs{"service": d.Service, "env": d.Env, "ref": d.Ref, "title": title, "from": d.Begun, "to": to,
		"actor": d.By, "at": now, "outcome": outcome})
	return err
}

func newDeployID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return "dp-" + hex.EncodeToString(b)
}

func lapseDeploys(ctx context.Context, tx pgx.Tx, now time.Time) error {
	rows, err := tx.Query(ctx, lapseDeploySQL, pgx.StrictNamedArgs{"now": now})
	lapsed, err := deploysOf(rows, err)
	if err != nil {
		return err
	}
	for _, d := range lapsed {
		if err := auditIn(ctx, tx, auth.Entry{At: now, Actor: "system", Action: "deploy.lapse", Object: d.Service + slashed(d.Env),
			Detail: fmt.Sprintf("%s %s of %s: nobody told of its end until %s", d.ID, d.Ref, d.By, d.Until.Format(time.RFC3339))}); err != nil {
			return err
		}
	}
	return nil
}

// endDeploys ends those that e names.
func endDeploys(ctx context.Context, tx pgx.Tx, e slo.DeployEnd, now time.Time) ([]slo.Deploy, error) {
	rows, err := tx.Query(ctx, endDeploySQL, pgx.StrictNamedArgs{"at": now, "outcome": string(e.Outcome), "by": e.By, "service": e.Service, "env": e.Env, "ref": e.Ref, "key": e.Key})
	ended, err := deploysOf(rows, err)
	if err != nil {
		return nil, err
	}
	for _, d := range ended {
		if err := auditIn(ctx, tx, auth.Entry{At: now, Actor: e.By, Action: "deploy.end", Object: d.Service + slashed(d.Env),
			Detail: fmt.Sprintf("%s %s %s after %s", d.ID, d.Ref, e.Outcome, slo.Span(now.Sub(d.Begun)))}); err != nil {
			return nil, err
		}
	}
	return ended, nil
}

// endedBy ends the deploy that c says is done; told: its beginning was told of, so it
// is a mark already.
func endedBy(ctx context.Context, tx pgx.Tx, c slo.Cause, now time.Time) (told bool, err error) {
	if c.Kind != slo.ByDeploy {
		return false, nil
	}
	ended, err := endDeploys(ctx, tx, slo.DeployEnd{Service: c.Service, Env: c.Env, Ref: c.Ref, Outcome: slo.DeploySucceeded, By: c.Actor}, now)
	for _, d := range ended {
		if d.Decision == "" && err == nil {
			told, err = true, noteDeploy(ctx, tx, d, c.Title, &now, string(slo.DeploySucceeded), now)
		}
	}
	return told, err
}

// EndDeploy ends the deploys that e names, and notes them for whoever asks later what
// changed; none may be under way, and then it is noted as a deploy of this instant.
func (s *Store) EndDeploy(ctx context.Context, e slo.DeployEnd, now time.Time) (int, error) {
	n := 0
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		ended, err := endDeploys(ctx, tx, e, now)
		if err != nil {
			return err
		}
		if n = len(ended); e.Outcome == slo.DeployRefused || e.IfHeld && n == 0 {
			return nil
		}
		if n == 0 {
			ended = []slo.Deploy{{Service: e.Service, Env: e.Env, Ref: e.Ref, By: e.By, Begun: now}}
			if err := auditIn(ctx, tx, auth.Entry{At: now, Actor: e.By, Action: "deploy.note", Object: e.Service + "/" + e.Ref, Detail: string(e.Outcome)}); err != nil {
				return err
			}
		}
		title := ""
		if e.Outcome == slo.DeployFailed {
			title = "failed"
		}
		for _, d := range ended {
			if err := noteDeploy(ctx, tx, d, title, &now, string(e.Outcome), now); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("end a deploy of %s: %w", e.Service, err)
	}
	return n, nil
}

// CloseDeploys writes down which deploys nobody told of the end of.
func (s *Store) CloseDeploys(ctx context.Context, now time.Time) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error { return lapseDeploys(ctx, tx, now) })
	if err != nil {
		return fmt.Errorf("close deploys: %w", err)
	}
	return nil
}
