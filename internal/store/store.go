// Package store is the only SQL in Go. Domains declare the interfaces they need;
// Store implements them. Every instant is an argument: where the database's
// clock must rule, Now is asked once a tick.
package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Store reads and writes one PostgreSQL database. It is safe for concurrent use.
type Store struct{ db *pgxpool.Pool }

// New returns a Store over db; the caller closes db.
func New(db *pgxpool.Pool) *Store { return &Store{db: db} }

// Now is the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var at time.Time
	if err := s.db.QueryRow(ctx, `select clock_timestamp()`).Scan(&at); err != nil {
		return time.Time{}, fmt.Errorf("read the database clock: %w", err)
	}
	return at.UTC(), nil
}
