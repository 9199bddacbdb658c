package store

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo/freeze"
)

const (
	addSeedSQL = `insert into signing_key (seed, created_at) values (@seed, @at) on conflict do nothing`
	seedSQL    = `select seed from signing_key`
)

// SigningKey returns the key that signs decisions; the first call of all makes it.
func (s *Store) SigningKey(ctx context.Context, now time.Time) (freeze.Key, error) {
	var fresh [32]byte
	_, _ = rand.Read(fresh[:]) // never fails
	if _, err := s.db.Exec(ctx, addSeedSQL, pgx.StrictNamedArgs{"seed": fresh[:], "at": now}); err != nil {
		return freeze.Key{}, fmt.Errorf("signing key: %w", err)
	}
	var seed []byte
	if err := s.db.QueryRow(ctx, seedSQL).Scan(&seed); err != nil {
		return freeze.Key{}, fmt.Errorf("signing key: %w", err)
	}
	return freeze.NewKey(seed)
}

const (
	addOrderSQL = `
insert into freeze_order (id, service, env, reason, ticket, by_whom, at, until_at)
values (@id, @service, @env, @reason, @ticket, @by, @at, @until)`
	endOrderSQL = `update freeze_order set ended_by = @by, ended_at = @at
where id = @id and service = @service and ended_at is null and (until_at is null or until_at > @at)`
	ordersSQL = `
select id, service, env, reason, ticket, by_whom, at, until_at, ended_by, ended_at from freeze_order
where (ended_at is null and coalesce(until_at, 'infinity') > @since) or at > @since order by at desc, id limit @limit`
)

// AddOrder freezes by hand, and says so in the audit.
func (s *Store) AddOrder(ctx context.Context, o freeze.Order) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		until := "until it is taken back"
		if o.Until != nil {
			until = "until " + o.Until.UTC().Format(time.RFC3339)
		}
		if err := auditIn(ctx, tx, auth.Entry{At: o.At, Actor: o.By, Action: "freeze.on", Object: o.Service + slashed(o.Env),
			Detail: fmt.Sprintf("%s, %s: %s %s", o.ID, until, o.Reason, o.Ticket)}); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, addOrderSQL, pgx.StrictNamedArgs{"id": o.ID, "service": o.Service, "env": o.Env, "reason": o.Reason, "ticket": o.Ticket,
			"by": o.By, "at": o.At, "until": o.Until})
		return err
	})
	if err != nil {
		return fmt.Errorf("freeze %s: %w", o.Service, err)
	}
	return nil
}

// EndOrder takes a freeze by hand back; false: none of that id holds.
func (s *Store) EndOrder(ctx context.Context, service, id, by string, at time.Time) (bool, error) {
	return s.change(ctx, endOrderSQL, pgx.StrictNamedArgs{"id": id, "service": service, "by": by, "at": at},
		auth.Entry{At: at, Actor: by, Action: "freeze.off", Object: service, Detail: id})
}

// change runs one statement and audits it, if it changed a row.
func (s *Store) change(ctx context.Context, sql string, args pgx.StrictNamedArgs, e auth.Entry) (done bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, sql, args)
		if err != nil {
			return err
		}
		if done = tag.RowsAffected() > 0; !done {
			return nil
		}
		return auditIn(ctx, tx, e)
	})
	if err != nil {
		return false, fmt.Errorf("%s of %s: %w", e.Action, e.Object, err)
	}
	return done, nil
}

type orderRow struct {
	ID      string
	Service string
	Env     string
	Reason  string
	Ticket  string
	ByWhom  string `db:"by_whom"`
	At      time.Time
	UntilAt *time.Time `db:"until_at"`
	EndedBy string     `db:"ended_by"`
	EndedAt *time.Time `db:"ended_at"`
}

const addOverrideSQL = `
insert into freeze_override (id, service, env, ref, reason, ticket, asked_by, asked_at, expires_at, max_uses, asked_on)
values (@id, @service, @env, @ref, @reason, @ticket, @asked_by, @asked_at, @expires_at, @max_uses, @asked_on)`

// AddOverride keeps that somebody asks.
func (s *Store) AddOverride(ctx context.Context, o freeze.Override) error {
	on, err := json.Marshal(o.AskedOn)
	if err != nil {
		return fmt.Errorf("ask for override: %w", err)
	}
	_, err = s.change(ctx, addOverrideSQL, pgx.StrictNamedArgs{"id": o.ID, "service": o.Service, "env": o.Env, "ref": o.Ref, "reason": o.Reason, "ticket": o.Ticket,
		"asked_by": o.AskedBy, "asked_at": o.AskedAt, "expires_at": o.ExpiresAt, "max_uses": o.MaxUses, "asked_on": on},
		auth.Entry{At: o.AskedAt, Actor: o.AskedBy, Action: "override.ask", Object: o.ID,
			Detail: fmt.Sprintf("%s%s %s, %d uses until %s, %s: %s; budget %s", o.Service, slashed(o.Env), o.Ref, o.MaxUses, o.ExpiresAt.UTC().Format(time.RFC3339), o.Ticket, o.Reason, on)})
	return err
}

// The condition is that of Override.Grantable: between look and grant another
// replica may have revoked it.
const grantOverrideSQL = `
update freeze_override set granted_by = @by, granted_at = @at, granted_on = @on
where id = @id and granted_at is null and revoked_at is null and expires_at > @at and asked_by <> @by`

// GrantOverride grants; false: it cannot be granted any more.
func (s *Store) GrantOverride(ctx context.Context, id, by string, on *freeze.Snapshot, at time.Time) (bool, error) {
	snapshot, err := json.Marshal(on)
	if err != nil {
		return false, fmt.Errorf("grant override: %w", err)
	}
	return s.change(ctx, grantOverrideSQL, pgx.StrictNamedArgs{"id": id, "by": by, "at": at, "on": snapshot},
		auth.Entry{At: at, Actor: by, Action: "override.grant", Object: id, Detail: "budget " + string(snapshot)})
}

const revokeOverrideSQL = `
update freeze_override set revoked_by = @by, revoked_at = @at, closed_at = @at where id = @id and revoked_at is null and expires_at > @at`

// RevokeOverride takes an override back; false: it was over.
func (s *Store) RevokeOverride(ctx context.Context, id, by, reason string, at time.Time) (bool, error) {
	return s.change(ctx, revokeOverrideSQL, pgx.StrictNamedArgs{"id": id, "by": by, "at": at},
		auth.Entry{At: at, Actor: by, Action: "override.revoke", Object: id, Detail: reason})
}

const (
	usedOnceSQL = `select count(*) from freeze_override_use where override = @id and once = @once and once <> ''`
	useSQL      = `
update freeze_override set used = used + 1
where id = @id and used < max_uses and granted_at is not null and revoked_at is null and expires_at > @at`
	noteUseSQL = `insert into freeze_override_use (override, decision, once, at) values (@id, @decision, @once, @at)`
)

// UseOverride uses an override once more; false: it has nothing left. A change
// that is named uses it once, however often it is asked about.
func (s *Store) UseOverride(ctx context.Context, id, once, decision string, at time.Time) (used bool, err error) {
	err = pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		// The row is locked before anything is looked at, or two questions about one
		// change at the same time would each use it.
		tag, err := tx.Exec(ctx, useSQL, pgx.StrictNamedArgs{"id": id, "at": at})
		if err != nil {
			return err
		}
		var before int64
		if err := tx.QueryRow(ctx, usedOnceSQL, pgx.StrictNamedArgs{"id": id, "once": once}).Scan(&before); err != nil {
			return err
		}
		if before > 0 {
			used = true
			return errUsedBefore
		}
		if used = tag.RowsAffected() == 1; !used {
			return nil
		}
		if _, err := tx.Exec(ctx, noteUseSQL, pgx.StrictNamedArgs{"id": id, "decision": decision, "once": once, "at": at}); err != nil {
			return err
		}
		return auditIn(ctx, tx, auth.Entry{At: at, Actor: "gate", Action: "override.use", Object: id, Detail: "decision " + decision + " " + once})
	})
	if err == errUsedBefore {
		return s.overrideLives(ctx, id, at)
	}
	if err != nil {
		return false, fmt.Errorf("use override %s: %w", id, err)
	}
	return used, nil
}

var errUsedBefore = fmt.Errorf("the change has used it before")

const overrideLivesSQL = `select count(*) from freeze_override where id = @id and granted_at is not null and revoked_at is null and expires_at > @at`

func (s *Store) overrideLives(ctx context.Context, id string, at time.Time) (bool, error) {
	var n int64
	if err := s.db.QueryRow(ctx, overrideLivesSQL, pgx.StrictNamedArgs{"id": id, "at": at}).Scan(&n); err != nil {
		return false, fmt.Errorf("use override %s: %w", id, err)
	}
	return n == 1, nil
}

const overridesSQL = `
select id, service, env, ref, reason, ticket, asked_by, asked_at, expires_at, max_uses, used, granted_by, granted_at, revoked_by, revoked_at, asked_on, granted_on
from freeze_override where (@service = '' or service = @service) and asked_at > @since order by asked_at desc, id limit @limit`

type overrideRow struct {
	ID, Service, Env, Ref, Reason, Ticket string
	AskedBy                               string    `db:"asked_by"`
	AskedAt                               time.Time `db:"asked_at"`
	ExpiresAt                             time.Time `db:"expires_at"`
	MaxUses                               int64     `db:"max_uses"`
	Used                                  int64
	GrantedBy                             string     `db:"granted_by"`
	GrantedAt                             *time.Time `db:"granted_at"`
	RevokedBy                             string     `db:"revoked_by"`
	RevokedAt                             *time.Time `db:"revoked_at"`
	AskedOn                               []byte     `db:"asked_on"`
	GrantedOn                             []byte     `db:"granted_on"`
}

func (r overrideRow) value() (freeze.Override, error) {
	o := freeze.Override{ID: r.ID, Service: r.Service, Env: r.Env, Ref: r.Ref, Reason: r.Reason, Ticket: r.Ticket, AskedBy: r.AskedBy, AskedAt: r.AskedAt.UTC(),
		ExpiresAt: r.ExpiresAt.UTC(), MaxUses: r.MaxUses, Used: r.Used, GrantedBy: r.GrantedBy, GrantedAt: inUTC(r.GrantedAt), RevokedBy: r.RevokedBy, RevokedAt: inUTC(r.RevokedAt)}
	for _, f := range []struct {
		from []byte
		into **freeze.Snapshot
	}{{r.AskedOn, &o.AskedOn}, {r.GrantedOn, &o.GrantedOn}} {
		if len(f.from) > 0 {
			if err := json.Unmarshal(f.from, f.into); err != nil {
				return o, fmt.Errorf("read override %s: %w", r.ID, err)
			}
		}
	}
	return o, nil
}

func inUTC(t *time.Time) *time.Time {
	if t == nil {
		return nil
	}
	u := t.UTC()
	return &u
}

// Overrides lists overrides asked for since an instant, the latest first; service
// may be empty for all.
func (s *Store) Overrides(ctx context.Context, service string, since time.Time, limit int) ([]freeze.Override, error) {
	rows, err := s.db.Query(ctx, overridesSQL, pgx.StrictNamedArgs{"service": service, "since": since, "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[overrideRow])
	if err != nil {
		return nil, fmt.Errorf("overrides: %w", err)
	}
	out := make([]freeze.Override, len(found))
	for i, r := range found {
		if out[i], err = r.value(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

const closeOverridesSQL = `
update freeze_override set closed_at = @at where closed_at is null and (expires_at <= @at or used >= max_uses)
returning id, used, max_uses, granted_by`

type closedRow struct {
	ID        string
	Used      int64
	MaxUses   int64  `db:"max_uses"`
	GrantedBy string `db:"granted_by"`
}

// CloseOverrides writes into the audit which overrides have come to their end.
func (s *Store) CloseOverrides(ctx context.Context, at time.Time) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, closeOverridesSQL, pgx.StrictNamedArgs{"at": at})
		if err != nil {
			return err
		}
		closed, err := pgx.CollectRows(rows, pgx.RowToStructByName[closedRow])
		if err != nil {
			return err
		}
		for _, c := range closed {
			why := "it expired"
			switch {
			case c.Used >= c.MaxUses:
				why = "it is used up"
			case c.GrantedBy == "":
				why = "nobody granted it in time"
			}
			if err := auditIn(ctx, tx, auth.Entry{At: at, Actor: "system", Action: "override.close", Object: c.ID, Detail: fmt.Sprintf("%s, used %d of %d times", why, c.Used, c.MaxUses)}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("close overrides: %w", err)
	}
	return nil
}

const callersSQL = `
select distinct service, value as caller from facet_minute
where dimension = 'caller' and at >= @since and value <> 'other' order by 1, 2`

type callerRow struct{ Service, Caller string }

// Known reads what decisions rest on beside the evaluation, all from one snapshot.
func (s *Store) Known(ctx context.Context, now time.Time) (freeze.Known, error) {
	var k freeze.Known
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, ordersSQL, pgx.StrictNamedArgs{"since": now.Add(-30 * 24 * time.Hour), "limit": 1000})
		if err != nil {
			return err
		}
		orders, err := pgx.CollectRows(rows, pgx.RowToStructByName[orderRow])
		if err != nil {
			return err
		}
		for _, r := range orders {
			k.Orders = append(k.Orders, freeze.Order{ID: r.ID, Service: r.Service, Env: r.Env, Reason: r.Reason, Ticket: r.Ticket, By: r.ByWhom, At: r.At.UTC(),
				Until: inUTC(r.UntilAt), EndedBy: r.EndedBy, EndedAt: inUTC(r.EndedAt)})
		}
		if rows, err = tx.Query(ctx, overridesSQL, pgx.StrictNamedArgs{"service": "", "since": now.Add(-2 * freeze.MaxLife), "limit": 1000}); err != nil {
			return err
		}
		overrides, err := pgx.CollectRows(rows, pgx.RowToStructByName[overrideRow])
		if err != nil {
			return err
		}
		for _, r := range overrides {
			o, err := r.value()
			if err != nil {
				return err
			}
			k.Overrides = append(k.Overrides, o)
		}
		if k.Deploys, err = deploysUnderWay(ctx, tx, now); err != nil {
			return err
		}
		k.Causes, err = s.causes.read(ctx, tx, now)
		return err
	})
	if err != nil {
		return freeze.Known{}, fmt.Errorf("what is known of freezes: %w", err)
	}
	return k, nil
}

// Callers lists who was seen to call each service since an instant.
func (s *Store) Callers(ctx context.Context, since time.Time) (map[string][]string, error) {
	rows, err := s.db.Query(ctx, callersSQL, pgx.StrictNamedArgs{"since": since})
	if err != nil {
		return nil, fmt.Errorf("callers: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[callerRow])
	if err != nil {
		return nil, fmt.Errorf("callers: %w", err)
	}
	out := map[string][]string{}
	for _, r := range found {
		out[r.Service] = append(out[r.Service], r.Caller)
	}
	return out, nil
}
