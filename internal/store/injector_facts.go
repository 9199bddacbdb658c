package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
)

const firstDaySQL = `select min(at) from service_day where service = @service and good + bad > 0`

// MeasuredSince is the first day on which something was counted of a service; zero:
// none is summed up yet.
func (s *Store) MeasuredSince(ctx context.Context, service string) (time.Time, error) {
	var at *time.Time
	if err := s.db.QueryRow(ctx, firstDaySQL, pgx.StrictNamedArgs{"service": service}).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("since when %s is measured: %w", service, err)
	}
	return utc(at), nil
}

const allRequestsSQL = `select coalesce(sum(good + bad), 0)::bigint from rollup_minute where at >= @since and at < @until`

// AllRequests counts what came in for all services over the minutes within
// [since, until).
func (s *Store) AllRequests(ctx context.Context, since, until time.Time) (n int64, err error) {
	if err := s.db.QueryRow(ctx, allRequestsSQL, pgx.StrictNamedArgs{"since": since, "until": until}).Scan(&n); err != nil {
		return 0, fmt.Errorf("count all traffic: %w", err)
	}
	return n, nil
}

const foreignAlertsSQL = `
select name, service, tier, started_at, ended_at from foreign_alert
where started_at <= @until and (ended_at is null or ended_at > @since) order by started_at, source, fingerprint limit 10000`

// ForeignAlerts are those of others that were told here and fired in (since, until],
// or before and still did.
func (s *Store) ForeignAlerts(ctx context.Context, since, until time.Time) ([]injector.Alert, error) {
	rows, err := s.db.Query(ctx, foreignAlertsSQL, pgx.StrictNamedArgs{"since": since, "until": until})
	if err != nil {
		return nil, fmt.Errorf("alerts of others: %w", err)
	}
	var out []injector.Alert
	var a injector.Alert
	var from time.Time
	var to *time.Time
	_, err = pgx.ForEachRow(rows, []any{&a.Name, &a.Service, &a.Level, &from, &to}, func() error {
		a.From, a.To = from.UTC(), utc(to)
		out = append(out, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("alerts of others: %w", err)
	}
	return out, nil
}
