package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/finding"
)

// findingRow is a finding as the table holds it.
type findingRow struct {
	ID, Service, Scenario, Assertion, Title, Expected, Seen, Severity, Owner, State string
	DueAt                                                                           time.Time `db:"due_at"`
	OpenedAt                                                                        time.Time `db:"opened_at"`
	ClosedAt                                                                        *time.Time
	Reopened                                                                        int
	Text, Hash, Config, Run                                                         string
	LastRun                                                                         string     `db:"last_run"`
	SeenFrom                                                                        *time.Time `db:"seen_from"`
	SeenUntil                                                                       *time.Time `db:"seen_until"`
	ClaimedBy                                                                       string     `db:"claimed_by"`
	ClaimedAt                                                                       *time.Time `db:"claimed_at"`
	RiskBy                                                                          string     `db:"risk_by"`
	RiskUntil                                                                       *time.Time `db:"risk_until"`
	EscalatedAt                                                                     *time.Time `db:"escalated_at"`
}

func (r findingRow) finding() finding.Finding {
	return finding.Finding{
		ID: r.ID, Service: r.Service, Scenario: r.Scenario, Assertion: r.Assertion, Title: r.Title, Expected: r.Expected, Seen: r.Seen,
		Severity: r.Severity, Owner: r.Owner, State: finding.State(r.State), DueAt: r.DueAt.UTC(), OpenedAt: r.OpenedAt.UTC(), ClosedAt: utc(r.ClosedAt),
		Reopened: r.Reopened, Text: r.Text, Hash: r.Hash, Config: r.Config, Run: r.Run, LastRun: r.LastRun,
		SeenFrom: utc(r.SeenFrom), SeenUntil: utc(r.SeenUntil), ClaimedBy: r.ClaimedBy, ClaimedAt: utc(r.ClaimedAt),
		RiskBy: r.RiskBy, RiskUntil: utc(r.RiskUntil), EscalatedAt: utc(r.EscalatedAt),
	}
}

func findings(rows pgx.Rows, err error) ([]finding.Finding, error) {
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[findingRow])
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	out := make([]finding.Finding, len(found))
	for i, r := range found {
		out[i] = r.finding()
	}
	return out, nil
}

const findingColumns = `id, service, scenario, assertion, title, expected, seen, severity, owner, state, due_at, opened_at, closed_at, reopened,
    text, hash, config, run, last_run, seen_from, seen_until, claimed_by, claimed_at, risk_by, risk_until, escalated_at`

const (
	findingsOfSQL = `select ` + findingColumns + ` from finding where service = @service and scenario = @scenario order by id for update`
	findingSQL    = `select ` + findingColumns + ` from finding where id = @id`
	lockOneSQL    = findingSQL + ` for update`
	findingsSQL   = `select ` + findingColumns + ` from finding
where (@service = '' or service = @service) and (@state = '' or state = @state) and (not @open or state <> 'verified')
  and (not @overdue or state in ('open', 'reopened') and due_at < @now or state = 'accepted_risk' and risk_until < @now)
order by state = 'verified', due_at, id`
	saveFindingSQL = `
insert into finding (` + findingColumns + `)
values (@id, @service, @scenario, @assertion, @title, @expected, @seen, @severity, @owner, @state, @due, @opened, @closed, @reopened,
    @text, @hash, @config, @run, @last_run, @from, @until, @claimed_by, @claimed_at, @risk_by, @risk_until, @escalated)
on conflict (id) do update set title = excluded.title, expected = excluded.expected, seen = excluded.seen, severity = excluded.severity,
    owner = excluded.owner, state = excluded.state, due_at = excluded.due_at, closed_at = excluded.closed_at, reopened = excluded.reopened,
    text = excluded.text, hash = excluded.hash, config = excluded.config, last_run = excluded.last_run, seen_from = excluded.seen_from,
    seen_until = excluded.seen_until, claimed_by = excluded.claimed_by, claimed_at = excluded.claimed_at, risk_by = excluded.risk_by,
    risk_until = excluded.risk_until, escalated_at = excluded.escalated_at`
	filedSQL           = `update run set filed_at = @now where id = @run and ended_at is not null and filed_at is null`
	addFindingEventSQL = `insert into finding_event (finding, at, actor, kind, run, text) values (@finding, @at, @actor, @kind, @run, @text)`
	storySQL           = `select at, actor, kind, run, text from finding_event where finding = @id order by id`
	unfiledSQL         = `select id from run where ended_at is not null and filed_at is null order by ended_at, id limit @limit`
	badTriesSQL        = `
select coalesce(e.body->'exchange'->>'route', '') as route, coalesce(t->>'kind', '') as kind, coalesce(t->>'cause', '') as cause,
    coalesce((t->>'status')::int, 0) as status, count(*) as n,
    percentile_disc(0.5) within group (order by (t->>'latency_us')::bigint) as p50us,
    percentile_disc(0.95) within group (order by (t->>'latency_us')::bigint) as p95us, max((t->>'latency_us')::bigint) as max_us
from event e, jsonb_array_elements(e.body->'exchange'->'tries') t
where e.service = @service and e.kind = 'exchange' and e.experiment = '' and e.at >= @from and e.at < @until
  and (coalesce(t->>'kind', '') not in ('', 'canceled') or coalesce((t->>'status')::int, 0) >= 500)
group by 1, 2, 3, 4 order by n desc, route, kind, cause, status limit 100`
	sentTriesSQL = `
select coalesce(sum(attempts), 0)::bigint from rollup_minute
where service = @service and experiment = '' and at >= date_trunc('minute', @from::timestamptz) and at < @until`
)

func saveFinding(ctx context.Context, tx pgx.Tx, c finding.Change) error {
	f := c.Finding
	_, err := tx.Exec(ctx, saveFindingSQL, pgx.StrictNamedArgs{
		"id": f.ID, "service": f.Service, "scenario": f.Scenario, "assertion": f.Assertion, "title": f.Title, "expected": f.Expected, "seen": f.Seen,
		"severity": f.Severity, "owner": f.Owner, "state": string(f.State), "due": f.DueAt, "opened": f.OpenedAt, "closed": timeOrNull(f.ClosedAt),
		"reopened": f.Reopened, "text": f.Text, "hash": f.Hash, "config": f.Config, "run": f.Run, "last_run": f.LastRun,
		"from": timeOrNull(f.SeenFrom), "until": timeOrNull(f.SeenUntil), "claimed_by": f.ClaimedBy, "claimed_at": timeOrNull(f.ClaimedAt),
		"risk_by": f.RiskBy, "risk_until": timeOrNull(f.RiskUntil), "escalated": timeOrNull(f.EscalatedAt),
	})
	if err != nil {
		return fmt.Errorf("save finding %s: %w", f.ID, err)
	}
	return addFindingEvent(ctx, tx, f.ID, c.Event)
}

func addFindingEvent(ctx context.Context, tx pgx.Tx, id string, e finding.Event) error {
	_, err := tx.Exec(ctx, addFindingEventSQL, pgx.StrictNamedArgs{"finding": id, "at": e.At, "actor": e.Actor, "kind": e.Kind, "run": e.Run, "text": e.Text})
	if err != nil {
		return fmt.Errorf("finding %s: %w", id, err)
	}
	return nil
}

// FileRun keeps what draw makes of a run, once.
func (s *Store) FileRun(ctx context.Context, r injector.Run, now time.Time, draw func([]finding.Finding) []finding.Change) ([]finding.Change, error) {
	var out []finding.Change
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		out = nil
		done, err := tx.Exec(ctx, filedSQL, pgx.StrictNamedArgs{"run": r.ID, "now": now})
		if err != nil || done.RowsAffected() == 0 {
			return err // drawn from before, or gone
		}
		known, err := findings(tx.Query(ctx, findingsOfSQL, pgx.StrictNamedArgs{"service": r.Service, "scenario": r.Scenario}))
		if err != nil {
			return err
		}
		out = draw(known)
		for _, c := range out {
			if err := saveFinding(ctx, tx, c); err != nil {
				return err
			}
		}
		return hint(ctx, tx)
	})
	return out, err
}

// Unfiled lists runs that have ended and that nothing was drawn from yet.
func (s *Store) Unfiled(ctx context.Context, limit int) ([]injector.Run, error) {
	rows, err := s.db.Query(ctx, unfiledSQL, pgx.StrictNamedArgs{"limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list runs without findings: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("list runs without findings: %w", err)
	}
	var out []injector.Run
	for _, id := range ids {
		r, err := s.Run(ctx, id)
		if err != nil && !errors.Is(err, injector.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			out = append(out, r)
		}
	}
	return out, nil
}

// Findings lists what f lets through, what is due first on top.
func (s *Store) Findings(ctx context.Context, f finding.Filter) ([]finding.Finding, error) {
	return findings(s.db.Query(ctx, findingsSQL, pgx.StrictNamedArgs{"service": f.Service, "state": string(f.State), "open": f.Open, "overdue": f.Overdue, "now": f.Now}))
}

// Finding returns one with its story, or injector.ErrNotFound.
func (s *Store) Finding(ctx context.Context, id string) (finding.Finding, []finding.Event, error) {
	found, err := findings(s.db.Query(ctx, findingSQL, pgx.StrictNamedArgs{"id": id}))
	if err != nil {
		return finding.Finding{}, nil, err
	}
	if len(found) == 0 {
		return finding.Finding{}, nil, fmt.Errorf("finding %s: %w", id, injector.ErrNotFound)
	}
	rows, err := s.db.Query(ctx, storySQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return found[0], nil, fmt.Errorf("read the story of %s: %w", id, err)
	}
	story, err := pgx.CollectRows(rows, pgx.RowToStructByName[finding.Event])
	return found[0], story, err
}

// Turn changes one finding under its lock.
func (s *Store) Turn(ctx context.Context, id string, turn func(finding.Finding) (finding.Change, error)) (finding.Finding, error) {
	var out finding.Finding
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		found, err := findings(tx.Query(ctx, lockOneSQL, pgx.StrictNamedArgs{"id": id}))
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return fmt.Errorf("finding %s: %w", id, injector.ErrNotFound)
		}
		c, err := turn(found[0])
		if err != nil {
			return err
		}
		out = c.Finding
		return errors.Join(saveFinding(ctx, tx, c), hint(ctx, tx))
	})
	return out, err
}

// BadTime reads from the retry log how tries of a service failed in [from, until).
func (s *Store) BadTime(ctx context.Context, service string, from, until time.Time) (finding.Incident, error) {
	out := finding.Incident{Service: service, From: from, Until: until}
	args := pgx.StrictNamedArgs{"service": service, "from": from, "until": until}
	if err := s.db.QueryRow(ctx, sentTriesSQL, args).Scan(&out.Tries); err != nil {
		return out, fmt.Errorf("read the log of %s: %w", service, err)
	}
	rows, err := s.db.Query(ctx, badTriesSQL, args)
	if err != nil {
		return out, fmt.Errorf("read the log of %s: %w", service, err)
	}
	out.Failed, err = pgx.CollectRows(rows, pgx.RowToStructByPos[finding.Trouble])
	return out, err
}
