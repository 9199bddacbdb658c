package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/alert"
)

const (
	// Of a message that arrives late, an end stays an end.
	hearSQL = `
insert into foreign_alert (source, fingerprint, service, env, name, tier, text, url, started_at, ended_at, heard_at)
values (@source, @fingerprint, @service, @env, @name, @tier, @text, @url, @started_at, @ended_at, @now)
on conflict (source, fingerprint, started_at) do update set text = excluded.text, heard_at = excluded.heard_at,
    ended_at = coalesce(excluded.ended_at, foreign_alert.ended_at)`
	foreignWasSQL    = `select ended_at from foreign_alert where source = @source and fingerprint = @fingerprint and started_at = @started_at for update`
	foreignFiringSQL = `
select source, fingerprint, service, env, name, tier, text, url, started_at, ended_at from foreign_alert
where ended_at is null and heard_at > @since order by service, started_at, fingerprint`
)

type foreignRow struct {
	Source, Fingerprint, Service, Env, Name, Tier, Text, URL string
	StartedAt                                                time.Time  `db:"started_at"`
	EndedAt                                                  *time.Time `db:"ended_at"`
}

func (r foreignRow) value() alert.Foreign {
	return alert.Foreign{Source: r.Source, Fingerprint: r.Fingerprint, Service: r.Service, Env: r.Env, Name: r.Name, Tier: alert.Tier(r.Tier),
		Text: r.Text, URL: r.URL, From: r.StartedAt.UTC(), To: timeOf(r.EndedAt)}
}

// HearAlerts keeps alerts of others. What begins or ends has a row in the audit; what
// is only said again has none.
func (s *Store) HearAlerts(ctx context.Context, all []alert.Foreign, by string, now time.Time) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, f := range all {
			if err := hear(ctx, tx, f, by, now); err != nil {
				return fmt.Errorf("%s of %s: %w", f.Name, f.Service, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("hear alerts: %w", err)
	}
	return nil
}

func hear(ctx context.Context, tx pgx.Tx, f alert.Foreign, by string, now time.Time) error {
	id := pgx.StrictNamedArgs{"source": f.Source, "fingerprint": f.Fingerprint, "started_at": f.From}
	rows, err := tx.Query(ctx, foreignWasSQL, id)
	if err != nil {
		return err
	}
	was, err := pgx.CollectRows(rows, pgx.RowTo[*time.Time])
	if err != nil {
		return err
	}
	known, over := len(was) > 0, len(was) > 0 && was[0] != nil
	action := ""
	switch {
	case !known:
		action = "alert.hear"
	case !over && !f.To.IsZero():
		action = "alert.over"
	}
	if over {
		f.To = *was[0] // said late, or again: it is over
	}
	if action != "" {
		if err := auditIn(ctx, tx, auth.Entry{At: now, Actor: by, Action: action, Object: f.Service + slashed(f.Env), Detail: fmt.Sprintf("%s %s %s: %s", f.Source, f.Tier, f.Name, f.Text)}); err != nil {
			return err
		}
	}
	if _, err := tx.Exec(ctx, hearSQL, pgx.StrictNamedArgs{"source": f.Source, "fingerprint": f.Fingerprint, "service": f.Service, "env": f.Env, "name": f.Name,
		"tier": string(f.Tier), "text": f.Text, "url": f.URL, "started_at": f.From, "ended_at": timeOrNull(f.To), "now": now}); err != nil {
		return err
	}
	if f.Tier == alert.L1 {
		// Told again it changes nothing; told that it is over, its end.
		_, err := tx.Exec(ctx, addCauseSQL, pgx.StrictNamedArgs{"service": f.Service, "env": f.Env, "kind": string(slo.ByIncident), "ref": f.Name + " " + f.Fingerprint,
			"title": f.Text, "from": f.From, "to": timeOrNull(f.To), "actor": by, "at": now})
		return err
	}
	until := now.Add(alert.Lapse)
	if !f.To.IsZero() {
		until = now
	}
	_, err = tx.Exec(ctx, addFactSQL, pgx.StrictNamedArgs{"service": f.Service, "env": f.Env, "key": f.Source + ":" + f.Fingerprint, "text": f.Name + ": " + f.Text,
		"by": by, "at": f.From, "until": until})
	return err
}

// Firing lists the alerts of others that fire at now.
func (s *Store) Firing(ctx context.Context, now time.Time) ([]alert.Foreign, error) {
	rows, err := s.db.Query(ctx, foreignFiringSQL, pgx.StrictNamedArgs{"since": now.Add(-alert.Lapse)})
	if err != nil {
		return nil, fmt.Errorf("alerts of others: %w", err)
	}
	return foreignOf(rows)
}

func foreignOf(rows pgx.Rows) ([]alert.Foreign, error) {
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[foreignRow])
	if err != nil {
		return nil, fmt.Errorf("alerts of others: %w", err)
	}
	var out []alert.Foreign
	for _, r := range found {
		out = append(out, r.value())
	}
	return out, nil
}
