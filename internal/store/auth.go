package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
)

type tokenRow struct {
	Name      string
	Role      string
	Services  []string
	Hash      []byte
	CreatedBy string
	CreatedAt time.Time
	ExpiresAt *time.Time
	RevokedAt *time.Time
}

const tokensSQL = `
select name, role, services, hash, created_by, created_at, expires_at, revoked_at
from token order by created_at, name`

// Tokens lists all tokens, ended ones too.
func (s *Store) Tokens(ctx context.Context) ([]auth.Token, error) {
	rows, err := s.db.Query(ctx, tokensSQL)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[tokenRow])
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	tokens := make([]auth.Token, len(found))
	for i, r := range found {
		tokens[i] = auth.Token{Name: r.Name, Role: auth.Role(r.Role), Services: r.Services, Hash: auth.Hash(r.Hash),
			CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(), ExpiresAt: timeOf(r.ExpiresAt), RevokedAt: timeOf(r.RevokedAt)}
	}
	return tokens, nil
}

const addTokenSQL = `
insert into token (name, role, services, hash, created_by, created_at, expires_at)
select @name::text, @role::text, @services::text[], @hash::bytea, @created_by::text, @created_at::timestamptz, @expires_at::timestamptz
where not exists (select from person where name = @name)
on conflict (name) do nothing`

// AddToken adds t, or reports false where its name was used before, for a token or
// a person: the audit speaks of both by name.
func (s *Store) AddToken(ctx context.Context, t auth.Token) (bool, error) {
	services := t.Services
	if services == nil {
		services = []string{}
	}
	tag, err := s.db.Exec(ctx, addTokenSQL, pgx.StrictNamedArgs{"name": t.Name, "role": string(t.Role), "services": services,
		"hash": t.Hash[:], "created_by": t.CreatedBy, "created_at": t.CreatedAt, "expires_at": timeOrNull(t.ExpiresAt)})
	if err != nil {
		return false, fmt.Errorf("add token: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

const revokeTokenSQL = `
update token set revoked_at = @at where name = @name and revoked_at is null`

// RevokeToken ends a token at an instant; false where no unrevoked one has that name.
func (s *Store) RevokeToken(ctx context.Context, name string, at time.Time) (bool, error) {
	tag, err := s.db.Exec(ctx, revokeTokenSQL, pgx.StrictNamedArgs{"name": name, "at": at})
	if err != nil {
		return false, fmt.Errorf("revoke token: %w", err)
	}
	return tag.RowsAffected() == 1, nil
}

// auditLock serialises writers of the chain, across processes. The number is
// "audit" in ASCII.
const auditLock = 0x6175646974

const (
	auditLockSQL = `select pg_advisory_xact_lock(@lock)`
	auditHeadSQL = `select seq, hash from audit order by seq desc limit 1`
	auditAddSQL  = `
insert into audit (seq, at, actor, action, object, detail, prev, hash)
values (@seq, @at, @actor, @action, @object, @detail, @prev, @hash)`
	auditClockSQL = `select clock_timestamp()`
)

// Audit appends e to the chain and returns once it is durable; only then may the
// change it speaks of be made.
func (s *Store) Audit(ctx context.Context, e auth.Entry) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, auditLockSQL, pgx.StrictNamedArgs{"lock": int64(auditLock)}); err != nil {
			return err
		}
		var seq int64
		var hash string
		if err := tx.QueryRow(ctx, auditHeadSQL).Scan(&seq, &hash); err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if e.At.IsZero() {
			if err := tx.QueryRow(ctx, auditClockSQL).Scan(&e.At); err != nil {
				return err
			}
		}
		r := auth.Next(seq, hash, e)
		_, err := tx.Exec(ctx, auditAddSQL, pgx.StrictNamedArgs{"seq": r.Seq, "at": r.At, "actor": r.Actor, "action": r.Action,
			"object": r.Object, "detail": r.Detail, "prev": r.Prev, "hash": r.Hash})
		return err
	})
	if err != nil {
		return fmt.Errorf("audit %s of %s: %w", e.Action, e.Object, err)
	}
	return nil
}

type auditRow struct {
	Seq                           int64
	At                            time.Time
	Actor, Action, Object, Detail string
	Prev, Hash                    string
}

const auditRowsSQL = `
select seq, at, actor, action, object, detail, prev, hash
from audit where seq > @after order by seq limit @limit`

// AuditRows returns up to limit rows after seq, in order.
func (s *Store) AuditRows(ctx context.Context, after int64, limit int) ([]auth.Row, error) {
	rows, err := s.db.Query(ctx, auditRowsSQL, pgx.StrictNamedArgs{"after": after, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[auditRow])
	if err != nil {
		return nil, fmt.Errorf("read the audit: %w", err)
	}
	out := make([]auth.Row, len(found))
	for i, r := range found {
		out[i] = auth.Row{Seq: r.Seq, Prev: r.Prev, Hash: r.Hash,
			Entry: auth.Entry{Actor: r.Actor, Action: r.Action, Object: r.Object, Detail: r.Detail, At: r.At.UTC()}}
	}
	return out, nil
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
