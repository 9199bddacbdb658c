package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/alert"
)

const (
	// A partitioned table is the sum of its partitions. Rows are what the statistics
	// have counted since, or the planner's estimate where that is more.
	sizesSQL = `
with recursive part as (
    select c.oid as root, c.oid as leaf from pg_class c
    where c.relnamespace = (select oid from pg_namespace where nspname = current_schema()) and c.relkind in ('r', 'p') and not c.relispartition
    union all
    select p.root, i.inhrelid from part p join pg_inherits i on i.inhparent = p.leaf
)
select r.relname as name, count(*) filter (where l.relkind = 'r')::bigint as parts,
    sum(case when l.relkind = 'r' then pg_relation_size(l.oid) else 0 end)::bigint as table_bytes,
    sum(case when l.relkind = 'r' then pg_indexes_size(l.oid) else 0 end)::bigint as index_bytes,
    sum(case when l.relkind = 'r' then pg_total_relation_size(l.oid) else 0 end)::bigint as total_bytes,
    sum(case when l.relkind = 'r' then greatest(l.reltuples, pg_stat_get_live_tuples(l.oid), 0) else 0 end)::bigint as rows
from part join pg_class r on r.oid = part.root join pg_class l on l.oid = part.leaf
group by 1 order by 5 desc, 1`
	databaseSQL = `select pg_database_size(current_database()), current_setting('server_version')`

	// The newest attempt of each receiver, and what became of messages within a day. A
	// message of an incident that is sent again each minute writes no line of its own.
	deliveriesSQL = `
with recent as (
    select receiver, count(*) filter (where outcome = 'sent')::bigint as sent, count(*) filter (where outcome = 'gave_up')::bigint as gave_up,
        count(*) filter (where done_at is null)::bigint as waiting, max(done_at) filter (where outcome = 'sent') as sent_at
    from alert_outbox where created_at > @since or done_at is null group by receiver
), last as (
    select distinct on (receiver) receiver, at, outcome, text, took_ms from alert_why
    where at > @since and receiver <> '' and outcome in ('sent', 'failed', 'gave_up') order by receiver, at desc, id desc
)
select coalesce(r.receiver, l.receiver) as receiver, coalesce(r.sent, 0) as sent, coalesce(r.gave_up, 0) as gave_up, coalesce(r.waiting, 0) as waiting,
    r.sent_at, l.at as last_at, coalesce(l.outcome, '') as outcome, coalesce(l.text, '') as text, coalesce(l.took_ms, 0) as took_ms
from recent r full join last l on l.receiver = r.receiver order by 1`
)

// TableSize is how much room a table takes, its partitions together.
type TableSize struct {
	Name       string
	Parts      int64
	TableBytes int64 `db:"table_bytes"`
	IndexBytes int64 `db:"index_bytes"`
	TotalBytes int64 `db:"total_bytes"`
	Rows       int64 // about
}

// Sizes tells how large the database and each of our tables are, the largest first.
func (s *Store) Sizes(ctx context.Context) (bytes int64, version string, tables []TableSize, err error) {
	if err := s.db.QueryRow(ctx, databaseSQL).Scan(&bytes, &version); err != nil {
		return 0, "", nil, fmt.Errorf("size of the database: %w", err)
	}
	rows, err := s.db.Query(ctx, sizesSQL)
	if err != nil {
		return 0, "", nil, fmt.Errorf("sizes of tables: %w", err)
	}
	if tables, err = pgx.CollectRows(rows, pgx.RowToStructByName[TableSize]); err != nil {
		return 0, "", nil, fmt.Errorf("sizes of tables: %w", err)
	}
	return bytes, version, tables, nil
}

type deliveryRow struct {
	Receiver      string
	Sent          int64
	GaveUp        int64 `db:"gave_up"`
	Waiting       int64
	SentAt        *time.Time `db:"sent_at"`
	LastAt        *time.Time `db:"last_at"`
	Outcome, Text string
	TookMS        int64 `db:"took_ms"`
}

// Deliveries tells what became of messages to each receiver since an instant.
func (s *Store) Deliveries(ctx context.Context, since time.Time) ([]alert.Delivered, error) {
	rows, err := s.db.Query(ctx, deliveriesSQL, pgx.StrictNamedArgs{"since": since})
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[deliveryRow])
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	out := make([]alert.Delivered, len(found))
	for i, r := range found {
		out[i] = alert.Delivered{Receiver: r.Receiver, Sent: r.Sent, GaveUp: r.GaveUp, Waiting: r.Waiting, SentAt: timeOf(r.SentAt), LastAt: timeOf(r.LastAt),
			Outcome: r.Outcome, Text: r.Text, Took: time.Duration(r.TookMS) * time.Millisecond}
	}
	return out, nil
}
