package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/auth"
	"breakwater/slo/alert"
	"breakwater/slo/webhook"
)

const silencesSQL = `
select id, service, env, class, severity, from_at, until_at, by_whom, reason, ended_by, ended_at from alert_silence
where ended_at is null and until_at > @now or @all::boolean and from_at > @now::timestamptz - interval '90 days' order by from_at desc, id limit 1000`

type silenceRow struct {
	ID, Service, Env, Class, Severity string
	FromAt                            time.Time `db:"from_at"`
	UntilAt                           time.Time `db:"until_at"`
	ByWhom                            string    `db:"by_whom"`
	Reason                            string
	EndedBy                           string     `db:"ended_by"`
	EndedAt                           *time.Time `db:"ended_at"`
}

func silences(ctx context.Context, q querier, now time.Time) ([]alert.Silence, error) {
	return listSilences(ctx, q, now, false)
}

func listSilences(ctx context.Context, q querier, now time.Time, all bool) ([]alert.Silence, error) {
	rows, err := q.Query(ctx, silencesSQL, pgx.StrictNamedArgs{"now": now, "all": all})
	if err != nil {
		return nil, fmt.Errorf("silences: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[silenceRow])
	if err != nil {
		return nil, fmt.Errorf("silences: %w", err)
	}
	out := make([]alert.Silence, len(found))
	for i, r := range found {
		out[i] = alert.Silence{ID: r.ID, Service: r.Service, Env: r.Env, Class: alert.Class(r.Class), Severity: alert.Severity(r.Severity), From: r.FromAt.UTC(), Until: r.UntilAt.UTC(),
			By: r.ByWhom, Reason: r.Reason, EndedBy: r.EndedBy, EndedAt: inUTC(r.EndedAt)}
	}
	return out, nil
}

// Silences lists silences, the latest first; all of the last 90 days, or those that
// are not over.
func (s *Store) Silences(ctx context.Context, now time.Time, all bool) ([]alert.Silence, error) {
	return listSilences(ctx, s.db, now, all)
}

const (
	addSilenceSQL = `
insert into alert_silence (id, service, env, class, severity, from_at, until_at, by_whom, reason)
values (@id, @service, @env, @class, @severity, @from, @until, @by, @reason)`
	endSilenceSQL = `update alert_silence set ended_by = @by, ended_at = @at where id = @id and ended_at is null and until_at > @at`
)

// AddSilence puts a silence in force.
func (s *Store) AddSilence(ctx context.Context, x alert.Silence, now time.Time) error {
	_, err := s.change(ctx, addSilenceSQL, pgx.StrictNamedArgs{"id": x.ID, "service": x.Service, "env": x.Env, "class": string(x.Class), "severity": string(x.Severity),
		"from": x.From, "until": x.Until, "by": x.By, "reason": x.Reason},
		auth.Entry{At: now, Actor: x.By, Action: "silence.add", Object: x.ID,
			Detail: fmt.Sprintf("service %q env %q class %q severity %q until %s: %s", x.Service, x.Env, x.Class, x.Severity, x.Until.UTC().Format(time.RFC3339), x.Reason)})
	return err
}

// EndSilence ends one before its time; false: it was over.
func (s *Store) EndSilence(ctx context.Context, id, by string, now time.Time) (bool, error) {
	return s.change(ctx, endSilenceSQL, pgx.StrictNamedArgs{"id": id, "by": by, "at": now}, auth.Entry{At: now, Actor: by, Action: "silence.end", Object: id})
}

const (
	incidentsSQL = `
select body from alert_incident
where (@service = '' or service = @service) and (@tier = '' or tier = @tier) and (not @open::boolean or closed_at is null) and opened_at < @before
  and (@since::timestamptz is null or closed_at is null or closed_at > @since)
order by opened_at desc, id limit @limit`
	incidentSQL     = `select body from alert_incident where id = @id`
	lockIncidentSQL = `select body from alert_incident where id = @id for update`
	whysSQL         = `select incident, at, kind, receiver, outcome, text from alert_why where incident = @id order by id limit 1000`
	notesSQL        = `
select service, env, key, text, first_at as first, last_at as last, count from alert_note
where (@service = '' or service = @service) and (@find = '' or strpos(lower(text), lower(@find)) > 0) and last_at < @before
order by last_at desc, id limit @limit`
)

// Incidents lists incidents, the latest first.
func (s *Store) Incidents(ctx context.Context, q alert.Question) ([]alert.Incident, error) {
	var since *time.Time
	if !q.Since.IsZero() {
		since = &q.Since
	}
	rows, err := s.db.Query(ctx, incidentsSQL, pgx.StrictNamedArgs{"service": q.Service, "tier": string(q.Tier), "open": q.Open, "before": q.Before, "limit": q.Limit, "since": since})
	if err != nil {
		return nil, fmt.Errorf("incidents: %w", err)
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("incidents: %w", err)
	}
	return incidents(bodies)
}

// Incident returns one incident and why people were or were not told of it.
func (s *Store) Incident(ctx context.Context, id string) (alert.Incident, []alert.Why, error) {
	var body []byte
	err := s.db.QueryRow(ctx, incidentSQL, pgx.StrictNamedArgs{"id": id}).Scan(&body)
	if errors.Is(err, pgx.ErrNoRows) {
		return alert.Incident{}, nil, alert.ErrUnknown
	}
	var i alert.Incident
	if err == nil {
		err = json.Unmarshal(body, &i)
	}
	if err != nil {
		return i, nil, fmt.Errorf("incident %s: %w", id, err)
	}
	rows, err := s.db.Query(ctx, whysSQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return i, nil, fmt.Errorf("incident %s: %w", id, err)
	}
	whys, err := pgx.CollectRows(rows, pgx.RowToStructByName[whyRow])
	if err != nil {
		return i, nil, fmt.Errorf("incident %s: %w", id, err)
	}
	out := make([]alert.Why, len(whys))
	for k, y := range whys {
		out[k] = alert.Why{Incident: y.Incident, At: y.At.UTC(), Kind: alert.Kind(y.Kind), Receiver: y.Receiver, Outcome: y.Outcome, Text: y.Text}
	}
	return i, out, nil
}

type whyRow struct {
	Incident                      string
	At                            time.Time
	Kind, Receiver, Outcome, Text string
}

// Notes searches what was only written down, the latest first.
func (s *Store) Notes(ctx context.Context, q alert.Question) ([]alert.Jotting, error) {
	rows, err := s.db.Query(ctx, notesSQL, pgx.StrictNamedArgs{"service": q.Service, "find": q.Find, "before": q.Before, "limit": q.Limit})
	if err != nil {
		return nil, fmt.Errorf("notes: %w", err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByName[alert.Jotting])
	if err != nil {
		return nil, fmt.Errorf("notes: %w", err)
	}
	return out, nil
}

// ChangeIncident lets change change one incident and enqueue what is to be said of
// it, beside the machine, which waits meanwhile.
func (s *Store) ChangeIncident(ctx context.Context, id string, e auth.Entry, change func(alert.Incident) (alert.Outcome, error)) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, auditLockSQL, pgx.StrictNamedArgs{"lock": int64(alertLock)}); err != nil {
			return err
		}
		var body []byte
		err := tx.QueryRow(ctx, lockIncidentSQL, pgx.StrictNamedArgs{"id": id}).Scan(&body)
		if errors.Is(err, pgx.ErrNoRows) {
			return alert.ErrUnknown
		}
		var i alert.Incident
		if err == nil {
			err = json.Unmarshal(body, &i)
		}
		if err != nil {
			return err
		}
		out, err := change(i)
		if err != nil {
			return err
		}
		if err := auditIn(ctx, tx, e); err != nil {
			return err
		}
		for _, i := range out.Changed {
			if err := saveIncident(ctx, tx, i); err != nil {
				return err
			}
		}
		for _, d := range out.Messages {
			if err := enqueue(ctx, tx, d); err != nil {
				return err
			}
		}
		return sayWhy(ctx, tx, out.Whys...)
	})
	if err != nil {
		return fmt.Errorf("incident %s: %w", id, err)
	}
	return nil
}

const addFactSQL = `
insert into alert_fact (service, env, key, text, by_whom, at, until_at) values (@service, @env, @key, @text, @by, @at, @until)
on conflict (service, env, key) do update set text = excluded.text, by_whom = excluded.by_whom, at = excluded.at, until_at = excluded.until_at`

// AddFact takes what somebody else sees of a cause, until an instant.
func (s *Store) AddFact(ctx context.Context, f alert.Fact) error {
	if _, err := s.db.Exec(ctx, addFactSQL, pgx.StrictNamedArgs{"service": f.Service, "env": f.Env, "key": f.Key, "text": f.Text, "by": f.By, "at": f.At, "until": f.Until}); err != nil {
		return fmt.Errorf("take a fact about %s: %w", f.Service, err)
	}
	return nil
}

const pruneAlertsSQL = `
with outbox as (delete from alert_outbox where done_at < @now::timestamptz - interval '7 days' returning 1),
    why as (delete from alert_why where at < @now::timestamptz - interval '90 days' returning 1),
    note as (delete from alert_note where last_at < @now::timestamptz - interval '90 days' returning 1),
    fact as (delete from alert_fact where until_at < @now::timestamptz - interval '1 day' returning 1),
    foreign_one as (delete from foreign_alert where heard_at < @now::timestamptz - interval '90 days' returning 1),
    seen as (delete from webhook_seen where at < @now::timestamptz - interval '1 day' returning 1)
delete from alert_incident where closed_at < @now::timestamptz - interval '400 days'`

// PruneAlerts removes what nobody reads any more.
func (s *Store) PruneAlerts(ctx context.Context, now time.Time) error {
	if _, err := s.db.Exec(ctx, pruneAlertsSQL, pgx.StrictNamedArgs{"now": now}); err != nil {
		return fmt.Errorf("prune alerts: %w", err)
	}
	return nil
}

const (
	takeWebhookSQL = `
insert into webhook_seen (source, id, at) values (@source, @id, @now)
on conflict (source, id) do update set at = excluded.at where webhook_seen.status is null and webhook_seen.at < @now::timestamptz - interval '1 minute'`
	webhookSQL     = `select status, type, body from webhook_seen where source = @source and id = @id`
	keepWebhookSQL = `update webhook_seen set status = @status, type = @type, body = @body where source = @source and id = @id`
)

// SeenWebhook takes a message of others, or returns what it was answered. One that
// nobody answered within a minute is taken anew.
func (s *Store) SeenWebhook(ctx context.Context, source, id string, now time.Time) (first bool, was *webhook.Answer, err error) {
	tag, err := s.db.Exec(ctx, takeWebhookSQL, pgx.StrictNamedArgs{"source": source, "id": id, "now": now})
	if err != nil {
		return false, nil, fmt.Errorf("webhook %s of %s: %w", id, source, err)
	}
	if tag.RowsAffected() == 1 {
		return true, nil, nil
	}
	var status *int64
	var a webhook.Answer
	if err := s.db.QueryRow(ctx, webhookSQL, pgx.StrictNamedArgs{"source": source, "id": id}).Scan(&status, &a.Type, &a.Body); err != nil {
		return false, nil, fmt.Errorf("webhook %s of %s: %w", id, source, err)
	}
	if status == nil {
		return false, nil, nil
	}
	a.Status = int(*status)
	return false, &a, nil
}

// AnsweredWebhook keeps what a message was answered.
func (s *Store) AnsweredWebhook(ctx context.Context, source, id string, a webhook.Answer) error {
	body := a.Body
	if body == nil {
		body = []byte{}
	}
	if _, err := s.db.Exec(ctx, keepWebhookSQL, pgx.StrictNamedArgs{"source": source, "id": id, "status": int64(a.Status), "type": a.Type, "body": body}); err != nil {
		return fmt.Errorf("webhook %s of %s: %w", id, source, err)
	}
	return nil
}
