package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
)

type correctionRow struct {
	ID           string
	Service      string
	Objective    string
	Env          string
	FromAt       time.Time `db:"from_at"`
	ToAt         time.Time `db:"to_at"`
	Mode         string
	Reason       string
	Ticket       string
	Author       string
	At           time.Time
	RevokedAt    *time.Time `db:"revoked_at"`
	RevokedBy    string     `db:"revoked_by"`
	RevokeReason string     `db:"revoke_reason"`
}

func (r correctionRow) value() slo.Correction {
	return slo.Correction{ID: r.ID, Service: r.Service, Objective: r.Objective, Env: r.Env, From: r.FromAt.UTC(), To: r.ToAt.UTC(),
		Mode: slo.CorrectionMode(r.Mode), Reason: r.Reason, Ticket: r.Ticket, Author: r.Author, At: r.At.UTC(),
		RevokedAt: timeOf(r.RevokedAt), RevokedBy: r.RevokedBy, Revoke: r.RevokeReason}
}

const correctionColumns = `
select id, service, objective, env, from_at, to_at, mode, reason, ticket, author, at, revoked_at, revoked_by, revoke_reason
from slo_correction `

const activeCorrectionsSQL = correctionColumns + `where revoked_at is null order by from_at, id`

const correctionsSQL = correctionColumns + `
where (@service = '' or service = @service) order by from_at desc, id limit @limit`

func corrections(ctx context.Context, q querier, sql string, args pgx.StrictNamedArgs) ([]slo.Correction, error) {
	rows, err := q.Query(ctx, sql, args)
	if err != nil {
		return nil, fmt.Errorf("read corrections: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[correctionRow])
	if err != nil {
		return nil, fmt.Errorf("read corrections: %w", err)
	}
	out := make([]slo.Correction, len(found))
	for i, r := range found {
		out[i] = r.value()
	}
	return out, nil
}

func activeCorrections(ctx context.Context, q querier) ([]slo.Correction, error) {
	return corrections(ctx, q, activeCorrectionsSQL, pgx.StrictNamedArgs{})
}

// Corrections lists a service's corrections, the latest first, revoked ones too;
// service may be empty for all.
func (s *Store) Corrections(ctx context.Context, service string, limit int) ([]slo.Correction, error) {
	return corrections(ctx, s.db, correctionsSQL, pgx.StrictNamedArgs{"service": service, "limit": limit})
}

const addCorrectionSQL = `
insert into slo_correction (id, service, objective, env, from_at, to_at, mode, reason, ticket, author, at)
values (@id, @service, @objective, @env, @from, @to, @mode, @reason, @ticket, @author, @at)`

// AddCorrection puts a correction in force, and into the audit with it: neither
// is there without the other.
func (s *Store) AddCorrection(ctx context.Context, c slo.Correction) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, addCorrectionSQL, pgx.StrictNamedArgs{"id": c.ID, "service": c.Service, "objective": c.Objective, "env": c.Env,
			"from": c.From, "to": c.To, "mode": string(c.Mode), "reason": c.Reason, "ticket": c.Ticket, "author": c.Author, "at": c.At})
		if err != nil {
			return err
		}
		return auditIn(ctx, tx, auth.Entry{At: c.At, Actor: c.Author, Action: "correction.add", Object: c.ID,
			Detail: fmt.Sprintf("%s%s %s to %s, %s: %s %s", c.Service, slashed(c.Objective), c.From.UTC().Format(time.RFC3339), c.To.UTC().Format(time.RFC3339), c.Mode, c.Reason, c.Ticket)})
	})
	if err != nil {
		return fmt.Errorf("add correction %s: %w", c.ID, err)
	}
	return nil
}

func slashed(s string) string {
	if s == "" {
		return ""
	}
	return "/" + s
}

const revokeCorrectionSQL = `
update slo_correction set revoked_at = @at, revoked_by = @actor, revoke_reason = @reason where id = @id and revoked_at is null`

// RevokeCorrection takes a correction back; what was corrected counts again. It
// reports whether there was one in force.
func (s *Store) RevokeCorrection(ctx context.Context, id, actor, reason string, at time.Time) (bool, error) {
	done := false
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, revokeCorrectionSQL, pgx.StrictNamedArgs{"id": id, "actor": actor, "reason": reason, "at": at})
		if err != nil {
			return err
		}
		if done = tag.RowsAffected() == 1; !done {
			return nil
		}
		return auditIn(ctx, tx, auth.Entry{At: at, Actor: actor, Action: "correction.revoke", Object: id, Detail: reason})
	})
	if err != nil {
		return false, fmt.Errorf("revoke correction %s: %w", id, err)
	}
	return done, nil
}

// auditIn adds e to the chain within tx, so that what it tells of cannot be
// without it.
func auditIn(ctx context.Context, tx pgx.Tx, e auth.Entry) error {
	if _, err := tx.Exec(ctx, auditLockSQL, pgx.StrictNamedArgs{"lock": int64(auditLock)}); err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	var seq int64
	var hash string
	if err := tx.QueryRow(ctx, auditHeadSQL).Scan(&seq, &hash); err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	r := auth.Next(seq, hash, e)
	if _, err := tx.Exec(ctx, auditAddSQL, pgx.StrictNamedArgs{"seq": r.Seq, "at": r.At, "actor": r.Actor, "action": r.Action,
		"object": r.Object, "detail": r.Detail, "prev": r.Prev, "hash": r.Hash}); err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	return nil
}
