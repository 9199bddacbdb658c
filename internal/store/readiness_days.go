package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
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
insert into readiness_day (service, day, states, yes, no, items, at) values (@service, @day, @states, @yes, @no, @items, @at)
on conflict (service, day) do update set states = excluded.states, yes = excluded.yes, no = excluded.no, items = excluded.items, at = excluded.at
where readiness_day.at <= excluded.at`
	dropReadyDaysSQL = `delete from readiness_day where day < @before`
	readyDaysSQL     = `
select service, at, yes, no, items, states from readiness_day where (@service = '' or service = @service) and day >= @since order by service, day`
	// A row for each service, since a quarter of days of all is long; its last states are
	// found by the key. Days are sorted by who reads them: to compare names takes longer
	// here than all the rest.
	readyCountsSQL = `
select d.service, d.at, d.yes, d.no, d.items, l.states
from (
    select service, array_agg(at) as at, array_agg(yes) as yes, array_agg(no) as no, array_agg(items) as items
    from readiness_day where day >= @since group by service
) as d cross join lateral (select states from readiness_day r where r.service = d.service order by day desc limit 1) as l`
)

// KeepReadyDay keeps how ready service was.
func (s *Store) KeepReadyDay(ctx context.Context, service string, d readiness.Day) error {
	states, err := json.Marshal(d.States)
	if err != nil {
		return fmt.Errorf("keep the readiness of %s: %w", service, err)
	}
	at := d.At.UTC()
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, keepReadyDaySQL, pgx.StrictNamedArgs{"service": service, "day": at, "states": states, "yes": d.Ready, "no": d.No, "items": d.Of, "at": at}); err != nil {
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

// ReadyDays implements readiness.Days.
func (s *Store) ReadyDays(ctx context.Context, service string, since time.Time) (map[string][]readiness.Day, error) {
	rows, err := s.db.Query(ctx, readyDaysSQL, pgx.StrictNamedArgs{"service": service, "since": since.UTC()})
	if err != nil {
		return nil, fmt.Errorf("read days of readiness: %w", err)
	}
	out := map[string][]readiness.Day{}
	var name string
	var d readiness.Day
	var states []byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &d.At, &d.Ready, &d.No, &d.Of, &states}, func() error {
		d.At, d.States = d.At.UTC(), nil
		d.Day, d.Unknown = d.At.Format(time.DateOnly), d.Of-d.Ready-d.No
		if err := json.Unmarshal(states, &d.States); err != nil {
			return err
		}
		out[name] = append(out[name], d)
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read days of readiness: %w", err)
	}
	return out, nil
}

// ReadyCounts implements readiness.Days.
func (s *Store) ReadyCounts(ctx context.Context, since time.Time) (map[string][]readiness.Day, error) {
	rows, err := s.db.Query(ctx, readyCountsSQL, pgx.StrictNamedArgs{"since": since.UTC()})
	if err != nil {
		return nil, fmt.Errorf("read counts of readiness: %w", err)
	}
	out := map[string][]readiness.Day{}
	var name string
	var at []time.Time
	var yes, no, items []int
	var states []byte
	if _, err := pgx.ForEachRow(rows, []any{&name, &at, &yes, &no, &items, &states}, func() error {
		days := make([]readiness.Day, len(at))
		for i := range at {
			d := readiness.Day{At: at[i].UTC(), Ready: yes[i], No: no[i], Of: items[i]}
			d.Day, d.Unknown = d.At.Format(time.DateOnly), d.Of-d.Ready-d.No
			days[i] = d
		}
		slices.SortFunc(days, func(a, b readiness.Day) int { return a.At.Compare(b.At) })
		out[name] = days
		return json.Unmarshal(states, &days[len(days)-1].States)
	}); err != nil {
		return nil, fmt.Errorf("read counts of readiness: %w", err)
	}
	return out, nil
}
