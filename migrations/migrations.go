// Package migrations holds the steps that make the schema, and takes a database
// through those it has not seen yet.
package migrations

import (
	"context"
	"embed"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed *.sql
var files embed.FS

// Up applies every step that db lacks. Replicas may call it at the same time:
// one works, the others wait for it and find nothing left to do.
func Up(ctx context.Context, db *pgxpool.Pool) (err error) {
	p, err := provider(db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	if _, err := p.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// Pending reports whether db lacks a step that this binary knows.
func Pending(ctx context.Context, db *pgxpool.Pool) (pending bool, err error) {
	p, err := provider(db)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	pending, err = p.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("look for migrations: %w", err)
	}
	return pending, nil
}

func provider(db *pgxpool.Pool) (*goose.Provider, error) {
	// A second is the shortest wait goose knows; ten minutes are for a step that
	// rewrites a large table in another replica.
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, 600), lock.WithUnlockTimeout(1, 10))
	if err != nil {
		return nil, fmt.Errorf("migration lock: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectPostgres, stdlib.OpenDBFromPool(db), files,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	return p, nil
}
