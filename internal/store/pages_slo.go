package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// Causes lists the deploys, incidents and configurations that may have made requests of
// a service fail within [from, to), the earliest first.
func (s *Store) Causes(ctx context.Context, service, env string, from, to time.Time) ([]slo.Cause, error) {
	rows, err := s.db.Query(ctx, causesSQL, pgx.StrictNamedArgs{"service": service, "env": env, "since": from, "until": to, "suspect": slo.Suspect})
	if err != nil {
		return nil, fmt.Errorf("causes of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[causeRow])
	if err != nil {
		return nil, fmt.Errorf("causes of %s: %w", service, err)
	}
	out := make([]slo.Cause, len(found))
	for i, r := range found {
		out[i] = slo.Cause{Kind: slo.CauseKind(r.Kind), Service: r.Service, Env: r.Env, Ref: r.Ref, Title: r.Title, From: r.FromAt.UTC(), To: timeOf(r.ToAt), Actor: r.Actor}
	}
	return out, nil
}
