package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
)

const (
	addSessionSQL = `
insert into session (id, name, source, created_at, seen_at, expires_at)
values (@id, @name, @source, @created_at, @seen_at, @expires_at)`
	signedInSQL = `update person set signed_in_at = @at where name = @name and disabled_at is null`
)

// AddSession adds a session and notes that its person signed in. Who was disabled
// since the password was compared gets none.
func (s *Store) AddSession(ctx context.Context, v auth.Session) error {
	err := s.lockedPeople(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, signedInSQL, pgx.StrictNamedArgs{"name": v.Name, "at": v.CreatedAt})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return auth.ErrNoUser
		}
		_, err = tx.Exec(ctx, addSessionSQL, pgx.StrictNamedArgs{"id": v.ID[:], "name": v.Name, "source": v.Source,
			"created_at": v.CreatedAt, "seen_at": v.SeenAt, "expires_at": v.ExpiresAt})
		return err
	})
	if err != nil {
		return fmt.Errorf("add a session: %w", err)
	}
	return nil
}

type sessionRow struct {
	Source      string
	SessionFrom time.Time
	SeenAt      time.Time
	ExpiresAt   time.Time
	personRow
}

const sessionSQL = `
select s.source, s.created_at as session_from, s.seen_at, s.expires_at,
       p.name, p.role, p.services, '' as password, p.must_change, p.issuer, p.subject, p.created_by, p.created_at,
       p.password_at, p.signed_in_at, p.disabled_at
from session s join person p on p.name = s.name where s.id = @id`

// Session finds a session and its person, without the password.
func (s *Store) Session(ctx context.Context, id auth.Hash) (auth.Session, auth.User, bool, error) {
	rows, err := s.db.Query(ctx, sessionSQL, pgx.StrictNamedArgs{"id": id[:]})
	if err != nil {
		return auth.Session{}, auth.User{}, false, fmt.Errorf("find a session: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[sessionRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return auth.Session{}, auth.User{}, false, nil
	}
	if err != nil {
		return auth.Session{}, auth.User{}, false, fmt.Errorf("find a session: %w", err)
	}
	return auth.Session{ID: id, Name: r.Name, Source: r.Source, CreatedAt: r.SessionFrom.UTC(), SeenAt: r.SeenAt.UTC(), ExpiresAt: r.ExpiresAt.UTC()},
		r.user(), true, nil
}

const seeSessionSQL = `update session set seen_at = @at where id = @id and seen_at < @at`

// SeeSession notes that a session is used.
func (s *Store) SeeSession(ctx context.Context, id auth.Hash, at time.Time) error {
	if _, err := s.db.Exec(ctx, seeSessionSQL, pgx.StrictNamedArgs{"id": id[:], "at": at}); err != nil {
		return fmt.Errorf("note a session's use: %w", err)
	}
	return nil
}

const endSessionSQL = `delete from session where id = @id`

// EndSession removes a session; where there is none, nothing is to do.
func (s *Store) EndSession(ctx context.Context, id auth.Hash) error {
	if _, err := s.db.Exec(ctx, endSessionSQL, pgx.StrictNamedArgs{"id": id[:]}); err != nil {
		return fmt.Errorf("end a session: %w", err)
	}
	return nil
}

const endSessionsSQL = `delete from session where expires_at <= @expired or seen_at <= @unseen`

// EndSessionsBefore removes sessions that expired, or were not seen since.
func (s *Store) EndSessionsBefore(ctx context.Context, expired, unseen time.Time) error {
	if _, err := s.db.Exec(ctx, endSessionsSQL, pgx.StrictNamedArgs{"expired": expired, "unseen": unseen}); err != nil {
		return fmt.Errorf("end old sessions: %w", err)
	}
	return nil
}

const auditTailSQL = `
select seq, at, actor, action, object, detail, prev, hash
from audit
where seq < @before and (@actor = '' or actor = @actor) and starts_with(action, @action) and (@object = '' or position(@object in object) > 0)
order by seq desc limit @limit`

// AuditTail returns up to limit rows before seq, newest first. Empty fields of
// like mean any; action is a beginning, object a part.
func (s *Store) AuditTail(ctx context.Context, before int64, like auth.Entry, limit int) ([]auth.Row, error) {
	rows, err := s.db.Query(ctx, auditTailSQL, pgx.StrictNamedArgs{"before": before, "limit": limit,
		"actor": textOf(like.Actor), "action": textOf(like.Action), "object": textOf(like.Object)})
	if err != nil {
		return nil, fmt.Errorf("read the end of the audit: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[auditRow])
	if err != nil {
		return nil, fmt.Errorf("read the end of the audit: %w", err)
	}
	out := make([]auth.Row, len(found))
	for i, r := range found {
		out[i] = auth.Row{Seq: r.Seq, Prev: r.Prev, Hash: r.Hash,
			Entry: auth.Entry{Actor: r.Actor, Action: r.Action, Object: r.Object, Detail: r.Detail, At: r.At.UTC()}}
	}
	return out, nil
}

// textOf makes a text that somebody typed one that PostgreSQL takes: a name with a
// NUL in it is nobody's, which is no trouble of the database.
func textOf(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}
