package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
)

type personRow struct {
	Name, Role      string
	Services        []string
	Password        string
	MustChange      bool
	Issuer, Subject string
	CreatedBy       string
	CreatedAt       time.Time
	PasswordAt      *time.Time
	SignedInAt      *time.Time
	DisabledAt      *time.Time
}

func (r personRow) user() auth.User {
	return auth.User{Name: r.Name, Role: auth.Role(r.Role), Services: r.Services, Password: r.Password, MustChange: r.MustChange,
		Issuer: r.Issuer, Subject: r.Subject, CreatedBy: r.CreatedBy, CreatedAt: r.CreatedAt.UTC(),
		PasswordAt: timeOf(r.PasswordAt), SignedInAt: timeOf(r.SignedInAt), DisabledAt: timeOf(r.DisabledAt)}
}

const personColumns = `name, role, services, password, must_change, issuer, subject, created_by, created_at, password_at, signed_in_at, disabled_at`

const peopleSQL = `select ` + personColumns + ` from person order by name`

// Users lists everybody, who is disabled too.
func (s *Store) Users(ctx context.Context) ([]auth.User, error) {
	rows, err := s.db.Query(ctx, peopleSQL)
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[personRow])
	if err != nil {
		return nil, fmt.Errorf("list users: %w", err)
	}
	out := make([]auth.User, len(found))
	for i, r := range found {
		out[i] = r.user()
	}
	return out, nil
}

const userSQL = `select ` + personColumns + ` from person where name = @name`

// User finds one person; false where nobody has the name.
func (s *Store) User(ctx context.Context, name string) (auth.User, bool, error) {
	return s.onePerson(ctx, userSQL, pgx.StrictNamedArgs{"name": textOf(name)})
}

const userOfSQL = `select ` + personColumns + ` from person where issuer = @issuer and subject = @subject and issuer <> ''`

// UserOf finds who a provider's subject is.
func (s *Store) UserOf(ctx context.Context, issuer, subject string) (auth.User, bool, error) {
	return s.onePerson(ctx, userOfSQL, pgx.StrictNamedArgs{"issuer": textOf(issuer), "subject": textOf(subject)})
}

func (s *Store) onePerson(ctx context.Context, sql string, args pgx.StrictNamedArgs) (auth.User, bool, error) {
	rows, err := s.db.Query(ctx, sql, args)
	if err != nil {
		return auth.User{}, false, fmt.Errorf("find a user: %w", err)
	}
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[personRow])
	if errors.Is(err, pgx.ErrNoRows) {
		return auth.User{}, false, nil
	}
	if err != nil {
		return auth.User{}, false, fmt.Errorf("find a user: %w", err)
	}
	return r.user(), true, nil
}

// peopleLock serialises changes of who there is, across processes: two admins who
// disable one another at once must not leave nobody. The number is "people" in ASCII.
const peopleLock = 0x70656f706c65

const addUserSQL = `
insert into person (name, role, services, password, must_change, issuer, subject, created_by, created_at, password_at)
select @name::text, @role::text, @services::text[], @password::text, @must_change::boolean, @issuer::text, @subject::text, @created_by::text,
       @created_at::timestamptz, @password_at::timestamptz
where not exists (select from token where name = @name)
on conflict do nothing`

// AddUser adds u, or reports false where a person or a token had its name, or
// somebody is its subject.
func (s *Store) AddUser(ctx context.Context, u auth.User) (bool, error) {
	added := false
	err := s.lockedPeople(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, addUserSQL, pgx.StrictNamedArgs{"name": u.Name, "role": string(u.Role), "services": listOf(u.Services),
			"password": u.Password, "must_change": u.MustChange, "issuer": u.Issuer, "subject": u.Subject,
			"created_by": u.CreatedBy, "created_at": u.CreatedAt, "password_at": timeOrNull(u.PasswordAt)})
		added = tag.RowsAffected() == 1
		return err
	})
	if err != nil {
		return false, fmt.Errorf("add user: %w", err)
	}
	return added, nil
}

func (s *Store) lockedPeople(ctx context.Context, do func(pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, auditLockSQL, pgx.StrictNamedArgs{"lock": int64(peopleLock)}); err != nil {
			return err
		}
		return do(tx)
	})
}

const (
	saveUserSQL = `
update person set role = @role, services = @services, disabled_at = @disabled_at where name = @name`
	adminsSQL = `
select count(*) from person where role = 'admin' and services = '{}' and disabled_at is null`
	endSessionsOfSQL = `delete from session where name = @name`
)

// SaveUser writes role, services and whether the person is disabled, and signs out
// who is. An admin of some services is nobody who could administer.
func (s *Store) SaveUser(ctx context.Context, u auth.User) error {
	return s.lockedPeople(ctx, func(tx pgx.Tx) error {
		var before, after int
		if err := tx.QueryRow(ctx, adminsSQL).Scan(&before); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, saveUserSQL, pgx.StrictNamedArgs{"name": u.Name, "role": string(u.Role), "services": listOf(u.Services),
			"disabled_at": timeOrNull(u.DisabledAt)})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return auth.ErrNoUser
		}
		if err := tx.QueryRow(ctx, adminsSQL).Scan(&after); err != nil {
			return err
		}
		if before > 0 && after == 0 {
			return auth.ErrLastAdmin
		}
		if u.Live() {
			return nil
		}
		_, err = tx.Exec(ctx, endSessionsOfSQL, pgx.StrictNamedArgs{"name": u.Name})
		return err
	})
}

const savePasswordSQL = `
update person set password = @password, must_change = @must_change, password_at = @at where name = @name`

// SavePassword writes a password's hash and ends all sessions of the person.
func (s *Store) SavePassword(ctx context.Context, name, hash string, mustChange bool, at time.Time) error {
	return s.lockedPeople(ctx, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, savePasswordSQL, pgx.StrictNamedArgs{"name": name, "password": hash, "must_change": mustChange, "at": at})
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return auth.ErrNoUser
		}
		_, err = tx.Exec(ctx, endSessionsOfSQL, pgx.StrictNamedArgs{"name": name})
		return err
	})
}

const rehashSQL = `update person set password = @password where name = @name and password = @old`

// Rehash replaces one hash of a password by another, unless the password was
// changed meanwhile.
func (s *Store) Rehash(ctx context.Context, name, old, hash string) error {
	if _, err := s.db.Exec(ctx, rehashSQL, pgx.StrictNamedArgs{"name": name, "old": old, "password": hash}); err != nil {
		return fmt.Errorf("rehash: %w", err)
	}
	return nil
}

func listOf(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
