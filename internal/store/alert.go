package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo/alert"
)

// alertLock lets one control at a time decide about incidents: "alert" in ASCII.
const alertLock = 0x616c657274

const (
	tryAlertSQL  = `select pg_try_advisory_xact_lock(@lock)`
	rememberSQL  = `select body from alert_incident where closed_at is null or closed_at > @since order by opened_at, id`
	factsSQL     = `select service, env, key, text from alert_fact where until_at > @now and at <= @now order by service, env, key`
	saveAlertSQL = `
insert into alert_incident (id, service, env, class, tier, severity, title, opened_at, closed_at, body)
values (@id, @service, @env, @class, @tier, @severity, @title, @opened, @closed, @body)
on conflict (id) do update set severity = excluded.severity, title = excluded.title, closed_at = excluded.closed_at, body = excluded.body`
	// An update that was not sent yet is replaced by the newer one.
	supersedeSQL = `
update alert_outbox set done_at = @at, outcome = 'superseded'
where incident = @incident and receiver = @receiver and kind = 'update' and done_at is null and lease is null`
	enqueueSQL = `
insert into alert_outbox (message, incident, receiver, kind, body, created_at, due_at)
values (@message, @incident, @receiver, @kind, @body, @at, @at)`
	whySQL = `
insert into alert_why (incident, at, kind, receiver, outcome, text, took_ms) values (@incident, @at, @kind, @receiver, @outcome, @text, @took)`
	noteAgainSQL = `
update alert_note set last_at = @at, count = count + 1, text = @text
where id = (select id from alert_note where service = @service and env = @env and key = @key and last_at > @since order by last_at desc limit 1)`
	noteSQL = `
insert into alert_note (service, env, key, text, first_at, last_at, count) values (@service, @env, @key, @text, @at, @at, 1)`
)

// reopenable is how long a closed incident may still be the same trouble.
const reopenable = 2 * time.Hour

// Alerting lets step decide, and keeps what it decides. Where another control is at
// it, nothing is done: its look is as good as ours.
func (s *Store) Alerting(ctx context.Context, now time.Time, step func(alert.State, []alert.Symptom) alert.Outcome, notes []alert.Jotting) error {
	// Before the transaction, or Evidence, which has one of its own, would not see it.
	if err := s.noteConfigured(ctx); err != nil {
		return fmt.Errorf("note what was configured: %w", err)
	}
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, tryAlertSQL, pgx.StrictNamedArgs{"lock": int64(alertLock)}).Scan(&mine); err != nil || !mine {
			return err
		}
		state, facts, err := remember(ctx, tx, now)
		if err != nil {
			return err
		}
		out := step(state, facts)
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
		if err := sayWhy(ctx, tx, out.Whys...); err != nil {
			return err
		}
		return jot(ctx, tx, notes, now)
	})
	if err != nil {
		return fmt.Errorf("decide about incidents: %w", err)
	}
	return nil
}

// noteConfigured keeps what configurations say of endpoints, and when they began.
func (s *Store) noteConfigured(ctx context.Context) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, note := range []string{noteLabelsSQL, noteConfigsSQL} {
			if _, err := tx.Exec(ctx, note); err != nil {
				return err
			}
		}
		return nil
	})
}

type factRow struct{ Service, Env, Key, Text string }

func remember(ctx context.Context, tx pgx.Tx, now time.Time) (alert.State, []alert.Symptom, error) {
	var state alert.State
	rows, err := tx.Query(ctx, rememberSQL, pgx.StrictNamedArgs{"since": now.Add(-reopenable)})
	if err != nil {
		return state, nil, err
	}
	bodies, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil {
		return state, nil, err
	}
	if state.Incidents, err = incidents(bodies); err != nil {
		return state, nil, err
	}
	if state.Silences, err = silences(ctx, tx, now); err != nil {
		return state, nil, err
	}
	if rows, err = tx.Query(ctx, factsSQL, pgx.StrictNamedArgs{"now": now}); err != nil {
		return state, nil, err
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[factRow])
	if err != nil {
		return state, nil, err
	}
	if rows, err = tx.Query(ctx, turnsSQL, pgx.StrictNamedArgs{"since": now.Add(-turnsFor), "now": now}); err != nil {
		return state, nil, err
	}
	turns, err := pgx.CollectRows(rows, pgx.RowToStructByName[turnRow])
	if err != nil {
		return state, nil, err
	}
	var facts []alert.Symptom
	for _, t := range turns {
		if t.Service != "" && t.standing() && !t.byMeasure() {
			facts = append(facts, alert.Symptom{Service: t.Service, Env: t.Env, Class: alert.Causes, Tier: alert.L2, Severity: alert.Note,
				Key: t.Policy + ":" + t.Upstream + t.Endpoint, Text: t.text()})
		}
	}
	for _, f := range found {
		facts = append(facts, alert.Symptom{Service: f.Service, Env: f.Env, Class: alert.Causes, Tier: alert.L2, Key: f.Key, Severity: alert.Note, Text: f.Text})
	}
	return state, facts, nil
}

func incidents(bodies [][]byte) ([]alert.Incident, error) {
	out := make([]alert.Incident, len(bodies))
	for k, b := range bodies {
		if err := json.Unmarshal(b, &out[k]); err != nil {
			return nil, fmt.Errorf("read incident: %w", err)
		}
	}
	return out, nil
}

func saveIncident(ctx context.Context, tx pgx.Tx, i alert.Incident) error {
	body, err := json.Marshal(i)
	if err != nil {
		return fmt.Errorf("write incident %s: %w", i.ID, err)
	}
	_, err = tx.Exec(ctx, saveAlertSQL, pgx.StrictNamedArgs{"id": i.ID, "service": i.Service, "env": i.Env, "class": string(i.Class), "tier": string(i.Tier),
		"severity": string(i.Severity), "title": i.Title, "opened": i.OpenedAt, "closed": i.ClosedAt, "body": body})
	return err
}

func enqueue(ctx context.Context, tx pgx.Tx, d alert.Delivery) error {
	body, err := json.Marshal(d.Message)
	if err != nil {
		return fmt.Errorf("write message %s: %w", d.ID, err)
	}
	if d.Kind == alert.Update {
		if _, err := tx.Exec(ctx, supersedeSQL, pgx.StrictNamedArgs{"at": d.At, "incident": d.Incident.ID, "receiver": d.Receiver}); err != nil {
			return err
		}
	}
	_, err = tx.Exec(ctx, enqueueSQL, pgx.StrictNamedArgs{"message": d.ID, "incident": d.Incident.ID, "receiver": d.Receiver, "kind": string(d.Kind), "body": body, "at": d.At})
	return err
}

func sayWhy(ctx context.Context, tx pgx.Tx, whys ...alert.Why) error {
	for _, y := range whys {
		if _, err := tx.Exec(ctx, whySQL, pgx.StrictNamedArgs{"incident": y.Incident, "at": y.At, "kind": string(y.Kind), "receiver": y.Receiver,
			"outcome": y.Outcome, "text": y.Text, "took": int64(0)}); err != nil {
			return err
		}
	}
	return nil
}

// jot writes down L3. What is noted again within the hour is one row.
func jot(ctx context.Context, tx pgx.Tx, notes []alert.Jotting, now time.Time) error {
	for _, n := range notes {
		args := pgx.StrictNamedArgs{"service": n.Service, "env": n.Env, "key": n.Key, "text": n.Text, "at": now, "since": now.Add(-time.Hour)}
		tag, err := tx.Exec(ctx, noteAgainSQL, args)
		if err != nil {
			return err
		}
		if tag.RowsAffected() > 0 {
			continue
		}
		delete(args, "since")
		if _, err := tx.Exec(ctx, noteSQL, args); err != nil {
			return err
		}
	}
	return nil
}

const (
	takeSQL = `
update alert_outbox o set lease = @lease from (
    select id from alert_outbox p
    where done_at is null and due_at <= @now and (lease is null or lease <= @now)
      and not exists (select from alert_outbox q where q.incident = p.incident and q.receiver = p.receiver and q.done_at is null and q.id < p.id)
    order by due_at, id limit @limit for update skip locked
) due
where o.id = due.id
returning o.id, o.attempts, o.created_at, o.receiver, o.body`
	doneSQL = `
update alert_outbox set attempts = attempts + 1, lease = null, error = @text,
    done_at = case when @outcome = 'failed' then null else @at::timestamptz end,
    outcome = case when @outcome = 'failed' then '' else @outcome end,
    due_at = coalesce(@next, due_at)
where id = @id`
)

type jobRow struct {
	ID        int64
	Attempts  int64
	CreatedAt time.Time `db:"created_at"`
	Receiver  string
	Body      []byte
}

// TakeMessages takes messages that are due, for as long as lease: of one incident to one
// receiver the first alone, since its end must not overtake its beginning.
func (s *Store) TakeMessages(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]alert.Job, error) {
	rows, err := s.db.Query(ctx, takeSQL, pgx.StrictNamedArgs{"now": now, "lease": now.Add(lease), "limit": limit})
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[jobRow])
	if err != nil {
		return nil, fmt.Errorf("outbox: %w", err)
	}
	out := make([]alert.Job, len(found))
	for i, r := range found {
		out[i] = alert.Job{ID: r.ID, Attempts: r.Attempts, Created: r.CreatedAt.UTC(), Delivery: alert.Delivery{Receiver: r.Receiver}}
		if err := json.Unmarshal(r.Body, &out[i].Delivery.Message); err != nil {
			return nil, fmt.Errorf("read message: %w", err)
		}
	}
	return out, nil
}

// MessageDone keeps what came of an attempt, and writes it into the delivery log.
func (s *Store) MessageDone(ctx context.Context, j alert.Job, r alert.Result) error {
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, doneSQL, pgx.StrictNamedArgs{"id": j.ID, "at": r.At, "outcome": r.Outcome, "text": r.Text, "next": timeOrNull(r.NextAt)}); err != nil {
			return err
		}
		if j.Delivery.Kind == alert.Update && r.Outcome == "sent" {
			return nil // each minute again: no line worth reading
		}
		text := r.Text
		if r.Outcome == "failed" {
			text = fmt.Sprintf("attempt %d: %s; again at %s", j.Attempts+1, r.Text, r.NextAt.UTC().Format(time.RFC3339))
		}
		_, err := tx.Exec(ctx, whySQL, pgx.StrictNamedArgs{"incident": j.Delivery.Incident.ID, "at": r.At, "kind": string(j.Delivery.Kind), "receiver": j.Delivery.Receiver,
			"outcome": r.Outcome, "text": text, "took": r.Took.Milliseconds()})
		return err
	})
	if err != nil {
		return fmt.Errorf("keep a delivery: %w", err)
	}
	return nil
}
