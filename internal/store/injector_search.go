package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"breakwater/injector"
	"breakwater/injector/finding"
)

// searchBody is a search as its row keeps it: with what pages do not show.
type searchBody struct {
	injector.Search
	Text string `json:"text"`
}

type searchRow struct {
	Owner, Stop string
	Body        []byte
}

func (r searchRow) search() (injector.Search, error) {
	var b searchBody
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return injector.Search{}, fmt.Errorf("a search as it is kept: %w", err)
	}
	s := b.Search
	s.Text, s.Owner, s.Stop = b.Text, r.Owner, r.Stop
	return s, nil
}

func searches(rows pgx.Rows) ([]injector.Search, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[searchRow])
	if err != nil {
		return nil, err
	}
	out := make([]injector.Search, len(found))
	for i, r := range found {
		if out[i], err = r.search(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const addSearchSQL = `
insert into search (id, scenario, service, owner, lease_until, started_at, body)
values (@id, @scenario, @service, @owner, @until, @at, @body::jsonb)`

// AddSearch adds one, unless its service has another under way.
func (s *Store) AddSearch(ctx context.Context, x injector.Search, now time.Time) error {
	body, err := json.Marshal(searchBody{x, x.Text})
	if err != nil {
		return fmt.Errorf("search %s: %w", x.ID, err)
	}
	_, err = s.db.Exec(ctx, addSearchSQL, pgx.StrictNamedArgs{"id": x.ID, "scenario": x.Scenario, "service": x.Service, "owner": x.Owner,
		"until": now.Add(injector.LeaseFor), "at": x.StartedAt, "body": string(body)})
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.ConstraintName == "search_open" {
		return fmt.Errorf("a search on %s is under way: %w", x.Service, injector.ErrOverlap)
	}
	if err != nil {
		return fmt.Errorf("add search %s: %w", x.ID, err)
	}
	return nil
}

const saveSearchSQL = `
update search set body = @body::jsonb, ended_at = @ended where id = @id and owner = @owner and ended_at is null`

// SaveSearch writes x where its owner still holds it, or returns injector.ErrFenced.
func (s *Store) SaveSearch(ctx context.Context, x injector.Search) error {
	body, err := json.Marshal(searchBody{x, x.Text})
	if err != nil {
		return fmt.Errorf("search %s: %w", x.ID, err)
	}
	var ended *time.Time
	if x.Ended() {
		ended = &x.EndedAt
	}
	done, err := s.db.Exec(ctx, saveSearchSQL, pgx.StrictNamedArgs{"id": x.ID, "owner": x.Owner, "body": string(body), "ended": ended})
	if err != nil {
		return fmt.Errorf("save search %s: %w", x.ID, err)
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("search %s: %w", x.ID, injector.ErrFenced)
	}
	return nil
}

const (
	renewSearchesSQL = `
update search set lease_until = @until where owner = @owner and ended_at is null and lease_until > @now
returning owner, stop, body`
	leftSearchesSQL = `
update search set owner = @owner, lease_until = @until where ended_at is null and (lease_until <= @now or lease_until > @insane)
returning owner, stop, body`
)

// HoldSearches renews what owner drives, and takes what a control left behind.
func (s *Store) HoldSearches(ctx context.Context, owner string, now time.Time) (mine, left []injector.Search, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		until := now.Add(injector.LeaseFor)
		rows, err := tx.Query(ctx, leftSearchesSQL, pgx.StrictNamedArgs{"owner": owner, "now": now, "until": until, "insane": now.Add(leaseSane)})
		if err != nil {
			return fmt.Errorf("take searches: %w", err)
		}
		if left, err = searches(rows); err != nil {
			return err
		}
		if rows, err = tx.Query(ctx, renewSearchesSQL, pgx.StrictNamedArgs{"owner": owner, "now": now, "until": until}); err != nil {
			return fmt.Errorf("renew searches: %w", err)
		}
		all, err := searches(rows)
		if err != nil {
			return err
		}
		taken := map[string]bool{}
		for _, x := range left {
			taken[x.ID] = true
		}
		mine = nil
		for _, x := range all {
			if !taken[x.ID] {
				mine = append(mine, x)
			}
		}
		return nil
	})
	return mine, left, err
}

const stopSearchSQL = `update search set stop = @reason where id = @id and ended_at is null`

// StopSearch asks the owner of a search to end it.
func (s *Store) StopSearch(ctx context.Context, id, reason string) error {
	done, err := s.db.Exec(ctx, stopSearchSQL, pgx.StrictNamedArgs{"id": id, "reason": reason})
	if err != nil {
		return fmt.Errorf("stop search %s: %w", id, err)
	}
	if done.RowsAffected() == 0 {
		return fmt.Errorf("search %s has ended: %w", id, injector.ErrStep)
	}
	return nil
}

const searchSQL = `select owner, stop, body from search where id = @id`

// Search returns one, or injector.ErrNotFound.
func (s *Store) Search(ctx context.Context, id string) (injector.Search, error) {
	rows, err := s.db.Query(ctx, searchSQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return injector.Search{}, fmt.Errorf("read search %s: %w", id, err)
	}
	found, err := searches(rows)
	if err != nil {
		return injector.Search{}, fmt.Errorf("read search %s: %w", id, err)
	}
	if len(found) == 0 {
		return injector.Search{}, fmt.Errorf("search %s: %w", id, injector.ErrNotFound)
	}
	return found[0], nil
}

const searchesSQL = `
select owner, stop, body from search where @scenario = '' or scenario = @scenario order by started_at desc, id limit @limit`

// Searches lists them, the newest first.
func (s *Store) Searches(ctx context.Context, scenario string, limit int) ([]injector.Search, error) {
	rows, err := s.db.Query(ctx, searchesSQL, pgx.StrictNamedArgs{"scenario": scenario, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("list searches: %w", err)
	}
	return searches(rows)
}

const (
	addApprovalSQL = `
insert into run_approval (run, actor, hash, owner, at) values (@run, @actor, @hash, @owner, @at)
on conflict (run, actor) do update set hash = excluded.hash, owner = excluded.owner, at = excluded.at`
	approvalsSQL = `select run, actor, hash, owner, at from run_approval where run = any(@runs) order by run, at, actor`
)

// AddApproval writes that somebody agrees, and returns everybody who does.
func (s *Store) AddApproval(ctx context.Context, run string, a injector.Approval) ([]injector.Approval, error) {
	_, err := s.db.Exec(ctx, addApprovalSQL, pgx.StrictNamedArgs{"run": run, "actor": a.Actor, "hash": a.Hash, "owner": a.Owner, "at": a.At})
	if err != nil {
		return nil, fmt.Errorf("approve run %s: %w", run, err)
	}
	all, err := approvals(ctx, s.db, []string{run})
	return all[run], err
}

// approvals are those of runs, by run.
func approvals(ctx context.Context, q querier, runs []string) (map[string][]injector.Approval, error) {
	rows, err := q.Query(ctx, approvalsSQL, pgx.StrictNamedArgs{"runs": runs})
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	out := map[string][]injector.Approval{}
	var run string
	var a injector.Approval
	_, err = pgx.ForEachRow(rows, []any{&run, &a.Actor, &a.Hash, &a.Owner, &a.At}, func() error {
		a.At = a.At.UTC()
		out[run] = append(out[run], a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	return out, nil
}

// FileBoundary keeps what draw makes of a boundary that has moved.
func (s *Store) FileBoundary(ctx context.Context, service, scenario string, draw func([]finding.Finding) []finding.Change) ([]finding.Change, error) {
	var out []finding.Change
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		known, err := findings(tx.Query(ctx, findingsOfSQL, pgx.StrictNamedArgs{"service": service, "scenario": scenario}))
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
