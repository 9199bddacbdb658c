package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rows of service_minute come minute by minute, so a month of one service lies in as many
// blocks as it has minutes. Days that no batch reaches any more get an index that holds
// what a forecast and a what-if read of them; while rows are still updated it would cost
// each update one of the index too.
const (
	unsettledSQL = `
select name from unnest(@names::text[]) as name where to_regclass(name) is not null and to_regclass(name || '_whole') is null`
	settleSQL = `select ledger_settle(@name)`
)

// settled is how many days back the first day lies that late rows do not reach.
const settled = 3

// settleDays gives days that are over for good their index, one in a transaction.
func (s *Store) settleDays(ctx context.Context, now time.Time, k *Kept) error {
	var names []string
	for d := now.UTC().AddDate(0, 0, -settled); d.After(now.Add(-keepMinutes)); d = d.AddDate(0, 0, -1) {
		names = append(names, "service_minute_"+d.Format("20060102"))
	}
	rows, err := s.db.Query(ctx, unsettledSQL, pgx.StrictNamedArgs{"names": names})
	if err != nil {
		return err
	}
	missing, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	var all error
	for _, name := range missing { // one that somebody holds does not keep the others waiting
		err := s.alone(ctx, func(tx pgx.Tx) error {
			var made bool
			err := tx.QueryRow(ctx, settleSQL, pgx.StrictNamedArgs{"name": name}).Scan(&made)
			if made {
				k.Settled++
			}
			return err
		})
		if err != nil {
			all = errors.Join(all, fmt.Errorf("settle %s: %w", name, err))
		}
	}
	return all
}
