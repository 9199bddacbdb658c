package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
	"breakwater/slo/gate"
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

const saveDecisionSQL = `
insert into gate_decision (service, id, env, kind, ref, decision, state, reason_code, body, at)
values (@service, @id, @env, @kind, @ref, @decision, @state, @reason_code, @body, @at)`

// SaveDecision keeps what the gate answered, and on what.
func (s *Store) SaveDecision(ctx context.Context, r gate.Record) error {
	body, err := json.Marshal(r.Decision)
	if err != nil {
		return fmt.Errorf("write decision %s: %w", r.Decision.DecisionID, err)
	}
	_, err = s.db.Exec(ctx, saveDecisionSQL, pgx.StrictNamedArgs{
		"service": r.Request.Service, "id": r.Decision.DecisionID, "env": r.Request.Env, "kind": string(r.Request.Kind), "ref": r.Request.Ref,
		"decision": string(r.Decision.Decision), "state": string(r.Decision.State), "reason_code": r.Decision.ReasonCode, "body": body, "at": r.At,
	})
	if err != nil {
		return fmt.Errorf("save decision %s: %w", r.Decision.DecisionID, err)
	}
	return nil
}

const decisionsSQL = `
select service, env, kind, ref, body, at from gate_decision
where (@service = '' or service = @service) order by at desc, id limit @limit`

type decisionRow struct {
	Service string
	Env     string
	Kind    string
	Ref     string
	Body    []byte
	At      time.Time
}

// Decisions returns what the gate answered, newest first; service may be empty.
func (s *Store) Decisions(ctx context.Context, service string, limit int) ([]gate.Record, error) {
	rows, err := s.db.Query(ctx, decisionsSQL, pgx.StrictNamedArgs{"service": service, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("gate decisions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[decisionRow])
	if err != nil {
		return nil, fmt.Errorf("gate decisions: %w", err)
	}
	out := make([]gate.Record, len(found))
	for i, r := range found {
		out[i] = gate.Record{Request: gate.Request{Service: r.Service, Env: r.Env, Kind: gate.Kind(r.Kind), Ref: r.Ref}, At: r.At.UTC()}
		if err := json.Unmarshal(r.Body, &out[i].Decision); err != nil {
			return nil, fmt.Errorf("read decision: %w", err)
		}
	}
	return out, nil
}
