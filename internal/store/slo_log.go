package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

const noteworthySQL = `
select at, kind, service, gateway, experiment, request_id, body
from event
where (@service = '' or service = @service) and at < @before and (@kind = '' or kind = @kind)
order by at desc limit @limit`

type noteworthyRow struct {
	At         time.Time
	Kind       string
	Service    string
	Gateway    string
	Experiment string
	RequestID  string `db:"request_id"`
	Body       []byte
}

// Noteworthy returns the latest events worth looking at, newest first; service
// and kind may be empty for all.
func (s *Store) Noteworthy(ctx context.Context, service, kind string, before time.Time, limit int) ([]slo.Noteworthy, error) {
	rows, err := s.db.Query(ctx, noteworthySQL, pgx.StrictNamedArgs{"service": service, "kind": kind, "before": before, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("events of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[noteworthyRow])
	if err != nil {
		return nil, fmt.Errorf("events of %s: %w", service, err)
	}
	out := make([]slo.Noteworthy, len(found))
	for i, r := range found {
		out[i] = slo.Noteworthy(r)
		out[i].At = r.At.UTC()
	}
	return out, nil
}

const transitionsSQL = `
select service, objective, env, at, from_level, to_level, reason, revision, data_until, good, bad, coverage_ppm
from slo_transition
where (@service = '' or service = @service) and at >= @since
order by at desc, objective, env limit @limit`

type transitionRow struct {
	Service     string
	Objective   string
	Env         string
	At          time.Time
	FromLevel   string `db:"from_level"`
	ToLevel     string `db:"to_level"`
	Reason      string
	Revision    int64
	DataUntil   *time.Time `db:"data_until"`
	Good        int64
	Bad         int64
	CoveragePPM int64 `db:"coverage_ppm"`
}

// Transitions returns changes of level since an instant, newest first; service
// may be empty for all.
func (s *Store) Transitions(ctx context.Context, service string, since time.Time, limit int) ([]slo.Transition, error) {
	rows, err := s.db.Query(ctx, transitionsSQL, pgx.StrictNamedArgs{"service": service, "since": since, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("transitions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[transitionRow])
	if err != nil {
		return nil, fmt.Errorf("transitions: %w", err)
	}
	out := make([]slo.Transition, len(found))
	for i, r := range found {
		out[i] = slo.Transition{Service: r.Service, Objective: r.Objective, Env: r.Env, At: r.At.UTC(), From: slo.Level(r.FromLevel),
			To: slo.Level(r.ToLevel), Reason: r.Reason, Revision: r.Revision, DataUntil: timeOf(r.DataUntil), Good: r.Good, Bad: r.Bad, CoveragePPM: r.CoveragePPM}
	}
	return out, nil
}
