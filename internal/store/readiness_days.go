package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector/readiness"
)

// readyDaysKept is how long days of readiness are kept: two years are enough to
// compare a quarter with the same one before.
const readyDaysKept = 800 * 24 * time.Hour

const (
	// A control that was held up must not put an old look over a newer one.
	keepReadyDaySQL = `
insert into readiness_day (service, day, states, at) values (@service, @day, @states, @at)
on conflict (service, day) do update set states = excluded.states, at = excluded.at where readiness_day.at <= excluded.at`
	dropReadyDaysSQL = `delete from readiness_day where day < @before`
	readyDaysSQL     = `
select service, states, at from readiness_day where (@service = '' or service = @service) and day >= @since order by service, day`
)

// KeepReadyDay keeps how ready service was.
func (s *Store) KeepReadyDay(ctx context.Context, service string, d readiness.Day) error {
	states, err := json.Marshal(d.States)
	if err != nil {
		return fmt.Errorf("keep the readiness of %s: %w", service, err)
	}
	at := d.At.UTC()
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, keepReadyDaySQL, pgx.StrictNamedArgs{"service": service, "day": at, "states": states, "at": at}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, dropReadyDaysSQL, pgx.StrictNamedArgs{"before": at.Add(-readyDaysKept)})
		return err
	})
	if err != nil {
		return fmt.Errorf("keep the readiness of %s: %w", service, err)
	}
	return nil
}

// ReadyDays are the days since then, oldest first; service "" means all.
func (s *Store) ReadyDays(ctx context.Context, service string, since time.Time) (map[string][]readiness.Day, error) {
	rows, err := s.db.Query(ctx, readyDaysSQL, pgx.StrictNamedArgs{"service": service, "since": since.UTC()})
	if err != nil {
		return nil, fmt.Errorf("read days of readiness: %w", err)
	}
	out := map[string][]readiness.Day{}
	var name string
	var states []byte
	var at time.Time
	if _, err := pgx.ForEachRow(rows, []any{&name, &states, &at}, func() error {
		held := map[string]readiness.State{}
		if err := json.Unmarshal(states, &held); err != nil {
			return err
		}
		out[name] = append(out[name], readiness.Counted(held, at))
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read days of readiness: %w", err)
	}
	return out, nil
}
