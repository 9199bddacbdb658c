package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// How long the ledger keeps what.
const (
	keepEvents  = 7 * 24 * time.Hour
	keepMinutes = 35 * 24 * time.Hour
	keepHours   = 13 // months
	keepDays    = 5  // years
	// A key may go once every event of its batch would be refused as too late: from
	// then on a second sending counts nothing anyway.
	keepKeys  = 4 * 24 * time.Hour
	keepBoots = keepMinutes + 24*time.Hour
)

// Kept is what one Keep did.
type Kept struct {
	Made, Dropped int   // partitions
	Settled       int   // days that are over for good
	Hours, Days   int64 // rows summed anew
	Deleted       int64 // rows
}

// Keep makes the partitions of the days to come, sums hours and days whose
// minutes have changed, drops what no decision reads any more, and puts an index on
// days that nothing comes to any more. It is to be
// called every minute; most calls find nothing to do. Where another replica is
// at it, it leaves that part out.
func (s *Store) Keep(ctx context.Context, now time.Time) (Kept, error) {
	var k Kept
	err := s.makePartitions(ctx, now, &k)
	rolled := s.roll(ctx, now, &k)
	if rolled == nil { // else minutes could go whose hours are not summed
		err = errors.Join(err, s.dropOld(ctx, now, &k), s.settleDays(ctx, now, &k))
	}
	if err = errors.Join(err, rolled); err != nil {
		return k, fmt.Errorf("keep the ledger: %w", err)
	}
	return k, nil
}

// span is a table that is cut by time.
type span struct {
	table  string
	months bool
	keep   func(now time.Time) time.Time // what ends before goes
	stray  func(now time.Time) time.Time // of what lies in no partition of its own; nil: the same
	fill   int
}

func before(d time.Duration) func(time.Time) time.Time {
	return func(now time.Time) time.Time { return now.Add(-d) }
}

// spans are the partitioned tables. The running minute's rows are updated every
// second: they get room to be so in place.
func spans() []span {
	years := func(now time.Time) time.Time { return now.AddDate(-keepDays, 0, 0) }
	months := func(now time.Time) time.Time { return now.AddDate(0, -keepHours, 0) }
	return []span{
		{table: "rollup_minute", keep: before(keepMinutes), fill: 70},
		{table: "service_minute", keep: before(keepMinutes), fill: 70},
		{table: "facet_minute", keep: before(keepMinutes), fill: 70},
		// What was read in from old files has no day of its own, and its days are summed
		// from it whenever more is read in.
		{table: "retry_minute", keep: before(keepMinutes), stray: years, fill: 90},
		{table: "event", keep: before(keepEvents), fill: 100},
		{table: "rollup_hour", months: true, keep: months, fill: 100},
	}
}

// due are the bounds of the partitions that should be there at now: late rows
// reach two days back, and three ahead are made, so that a ledger nobody looks
// after goes on for some time.
func (p span) due(now time.Time) []time.Time {
	now = now.UTC()
	var out []time.Time
	if p.months {
		first := time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
		for i := range 3 {
			out = append(out, first.AddDate(0, i, 0))
		}
		return out
	}
	for i := -2; i <= 4; i++ {
		out = append(out, now.Truncate(24*time.Hour).AddDate(0, 0, i))
	}
	return out
}

func (p span) suffix(lo time.Time) string {
	if p.months {
		return lo.Format("200601")
	}
	return lo.Format("20060102")
}

// keepLock lets one replica at a time see to the ledger. "keep" in ASCII.
const keepLock = 0x6b656570

const takeKeepSQL = `
select pg_try_advisory_xact_lock(@key) from (select set_config('lock_timeout', '2s', true)) as l`

// alone runs do in a transaction that gives up soon where traffic holds what it
// needs, and not at all where another replica does the same.
func (s *Store) alone(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
		var mine bool
		err := tx.QueryRow(ctx, takeKeepSQL, pgx.StrictNamedArgs{"key": keepLock}).Scan(&mine)
		if err != nil || !mine {
			return err
		}
		return do(tx)
	})
}

const missingSQL = `
select name from unnest(@names::text[]) as name where to_regclass(name) is null`

const partitionSQL = `select ledger_partition(@parent, @suffix, @lo, @hi, @fill)`

// makePartitions makes what is missing, each in a transaction of its own: writers
// wait for one only as long as it takes to hang it in.
func (s *Store) makePartitions(ctx context.Context, now time.Time, k *Kept) error {
	type part struct {
		span
		lo, hi time.Time
	}
	parts := map[string]part{}
	var names []string
	for _, p := range spans() {
		due := p.due(now)
		for i := range len(due) - 1 {
			name := p.table + "_" + p.suffix(due[i])
			parts[name] = part{p, due[i], due[i+1]}
			names = append(names, name)
		}
	}
	rows, err := s.db.Query(ctx, missingSQL, pgx.StrictNamedArgs{"names": names})
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range missing {
		p := parts[name]
		err := s.alone(ctx, func(tx pgx.Tx) error {
			var made bool
			err := tx.QueryRow(ctx, partitionSQL, pgx.StrictNamedArgs{
				"parent": p.table, "suffix": p.suffix(p.lo), "lo": p.lo, "hi": p.hi, "fill": p.fill}).Scan(&made)
			if made {
				k.Made++
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("make partition %s: %w", name, err)
		}
	}
	return nil
}

const dropSQL = `select ledger_drop(@parent, @before, @stray)`

const deleteOldSQL = `
with keys as (
    delete from batch where until_at < @keys and content is null or received_at < @days returning 1
), reports as (
    delete from gateway_minute where at < @minutes returning 1
), boots as (
    delete from gateway_boot where until_at < @boots returning 1
), gateways as (
    delete from gateway where until_at < @boots returning 1
), days as (
    delete from rollup_day where at < @days returning 1
), retries as (
    delete from retry_day where at < @days returning 1
)
select (select count(*) from keys) + (select count(*) from reports) + (select count(*) from boots)
     + (select count(*) from gateways) + (select count(*) from days) + (select count(*) from retries)`

func (s *Store) dropOld(ctx context.Context, now time.Time, k *Kept) error {
	for _, p := range spans() {
		stray := p.keep(now)
		if p.stray != nil {
			stray = p.stray(now)
		}
		err := s.alone(ctx, func(tx pgx.Tx) error {
			var gone int
			err := tx.QueryRow(ctx, dropSQL, pgx.StrictNamedArgs{"parent": p.table, "before": p.keep(now), "stray": stray}).Scan(&gone)
			k.Dropped += gone
			return err
		})
		if err != nil {
			return fmt.Errorf("drop old partitions of %s: %w", p.table, err)
		}
	}
	return s.alone(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, deleteOldSQL, pgx.StrictNamedArgs{
			"keys": now.Add(-keepKeys), "minutes": now.Add(-keepMinutes), "boots": now.Add(-keepBoots), "days": now.AddDate(-keepDays, 0, 0),
		}).Scan(&k.Deleted)
		if err != nil {
			return fmt.Errorf("delete old rows: %w", err)
		}
		return nil
	})
}
