package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/gate"
)

const saveDecisionSQL = `
insert into gate_decision (service, id, env, kind, ref, decision, state, reason_code, body, at, asked_by)
values (@service, @id, @env, @kind, @ref, @decision, @state, @reason_code, @body, @at, @asked_by)`

// SaveDecision keeps what the gate answered, whom, and on what.
func (s *Store) SaveDecision(ctx context.Context, r gate.Record) error {
	body, err := json.Marshal(r.Decision)
	if err != nil {
		return fmt.Errorf("write decision %s: %w", r.Decision.DecisionID, err)
	}
	_, err = s.db.Exec(ctx, saveDecisionSQL, pgx.StrictNamedArgs{
		"service": r.Request.Service, "id": r.Decision.DecisionID, "env": r.Request.Env, "kind": string(r.Request.Kind), "ref": r.Request.Ref,
		"decision": string(r.Decision.Decision), "state": string(r.Decision.State), "reason_code": r.Decision.ReasonCode, "body": body, "at": r.At, "asked_by": r.By,
	})
	if err != nil {
		return fmt.Errorf("save decision %s: %w", r.Decision.DecisionID, err)
	}
	return nil
}

const decisionsSQL = `
select service, env, kind, ref, body, at, asked_by from gate_decision
where (@service = '' or service = @service) and (@id = '' or id = @id) and at < @before
    and (cardinality(@services::text[]) = 0 or service = any(@services::text[]))
order by at desc, id limit @limit`

type decisionRow struct {
	Service string
	Env     string
	Kind    string
	Ref     string
	Body    []byte
	At      time.Time
	AskedBy string `db:"asked_by"`
}

// Decisions returns what the gate answered, newest first.
func (s *Store) Decisions(ctx context.Context, q gate.Search) ([]gate.Record, error) {
	before, services := q.Before, q.Services
	if before.IsZero() {
		before = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	if services == nil {
		services = []string{} // null is no empty array
	}
	rows, err := s.db.Query(ctx, decisionsSQL, pgx.StrictNamedArgs{"service": q.Service, "id": q.ID, "before": before, "services": services, "limit": q.Limit})
	if err != nil {
		return nil, fmt.Errorf("gate decisions: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[decisionRow])
	if err != nil {
		return nil, fmt.Errorf("gate decisions: %w", err)
	}
	out := make([]gate.Record, len(found))
	for i, r := range found {
		out[i] = gate.Record{Request: gate.Request{Service: r.Service, Env: r.Env, Kind: gate.Kind(r.Kind), Ref: r.Ref}, At: r.At.UTC(), By: r.AskedBy}
		if err := json.Unmarshal(r.Body, &out[i].Decision); err != nil {
			return nil, fmt.Errorf("read decision: %w", err)
		}
	}
	return out, nil
}
