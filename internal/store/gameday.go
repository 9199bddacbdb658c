package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/gameday"
	"breakwater/slo/alert"
)

const (
	saveDayDocSQL = `
insert into gameday_document (name, title, text, file, present) values (@name, @title, @text, @file, true)
on conflict (name) do update set title = excluded.title, text = excluded.text, file = excluded.file, present = true`
	dropDayDocsSQL = `update gameday_document set present = false where present and not name = any(@names)`
	dayDocsSQL     = `select name, title, text, file from gameday_document where present order by name`
)

// SaveGameDays makes docs the only ones.
func (s *Store) SaveGameDays(ctx context.Context, docs []gameday.Document) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		if _, err := lockState(ctx, tx); err != nil {
			return err
		}
		names := []string{}
		for _, d := range docs {
			_, err := tx.Exec(ctx, saveDayDocSQL, pgx.StrictNamedArgs{"name": d.Name, "title": d.Title, "text": d.Text, "file": d.File})
			if err != nil {
				return fmt.Errorf("save game day %s: %w", d.Name, err)
			}
			names = append(names, d.Name)
		}
		if _, err := tx.Exec(ctx, dropDayDocsSQL, pgx.StrictNamedArgs{"names": names}); err != nil {
			return fmt.Errorf("drop game days: %w", err)
		}
		return nil
	})
}

// GameDays lists the documents of game days.
func (s *Store) GameDays(ctx context.Context) ([]gameday.Document, error) {
	rows, err := s.db.Query(ctx, dayDocsSQL)
	if err != nil {
		return nil, fmt.Errorf("list game days: %w", err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[gameday.Document])
}

const announceSQL = `
insert into gameday (id, name, title, planned_at, actor, text, hash, needs, owners) values (@id, @name, @title, @at, @actor, @text, @hash, @needs, @owners)
on conflict (id) do update set title = excluded.title, text = excluded.text, hash = excluded.hash, needs = excluded.needs, owners = excluded.owners
where gameday.started_at is null and gameday.ended_at is null`

// Announce writes that h comes.
func (s *Store) Announce(ctx context.Context, h gameday.Held) error {
	_, err := s.db.Exec(ctx, announceSQL, pgx.StrictNamedArgs{"id": h.ID, "name": h.Name, "title": h.Title, "at": h.PlannedAt, "actor": h.Actor,
		"text": h.Text, "hash": h.Hash, "needs": h.Needs, "owners": append([]string{}, h.Owners...)})
	if err != nil {
		return fmt.Errorf("announce game day %s: %w", h.ID, err)
	}
	return nil
}

// Begin makes the runs of a game day that somebody starts.
func (s *Store) Begin(ctx context.Context, d gameday.Document, actor string, at time.Time, plan func(injector.Due) ([]injector.Run, injector.DayHeld, error)) (gameday.Held, error) {
	var id string
	err := pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		due, err := forDays(ctx, tx, at)
		if err != nil {
			return err
		}
		runs, held, err := plan(due)
		if err != nil {
			return err
		}
		for _, r := range runs {
			if err := insertRun(ctx, tx, r, at); err != nil {
				return err
			}
		}
		id = held.ID
		return errors.Join(writeDay(ctx, tx, d.Name, d.Title, actor, at, at, held), hint(ctx, tx))
	})
	if err != nil {
		return gameday.Held{}, err
	}
	h, _, err := s.HeldDay(ctx, id)
	return h, err
}

type heldRow struct {
	ID, Name, Title, Actor, Text, Hash string
	Needs                              int
	Owners                             []string
	PlannedAt                          time.Time  `db:"planned_at"`
	RemindedAt                         *time.Time `db:"reminded_at"`
	StartedAt                          *time.Time `db:"started_at"`
	EndedAt                            *time.Time `db:"ended_at"`
	Stopped                            string
}

const (
	heldDaysSQL = `
select id, name, title, actor, text, hash, needs, owners, planned_at, reminded_at, started_at, ended_at, stopped from gameday
where not @open or ended_at is null order by planned_at desc, id limit @limit`
	heldDaySQL = `
select id, name, title, actor, text, hash, needs, owners, planned_at, reminded_at, started_at, ended_at, stopped from gameday where id = @id`
	approvalsOfSQL = `select gameday as day, actor, hash, owns, at from gameday_approval where gameday = any(@ids) order by at, actor`
	notesOfSQL     = `select at, actor, kind, text, '' as run from gameday_note where gameday = @id order by id`
)

func (s *Store) held(ctx context.Context, rows pgx.Rows, err error) ([]gameday.Held, error) {
	if err != nil {
		return nil, fmt.Errorf("read game days: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[heldRow])
	if err != nil {
		return nil, fmt.Errorf("read game days: %w", err)
	}
	out, ids, place := []gameday.Held{}, []string{}, map[string]int{}
	for i, r := range found {
		out = append(out, gameday.Held{ID: r.ID, Name: r.Name, Title: r.Title, Actor: r.Actor, Text: r.Text, Hash: r.Hash, Needs: r.Needs, Owners: r.Owners,
			PlannedAt: r.PlannedAt.UTC(), RemindedAt: utc(r.RemindedAt), StartedAt: utc(r.StartedAt), EndedAt: utc(r.EndedAt), Stopped: r.Stopped})
		ids, place[r.ID] = append(ids, r.ID), i
	}
	rows, err = s.db.Query(ctx, approvalsOfSQL, pgx.StrictNamedArgs{"ids": ids})
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	agreed, err := pgx.CollectRows(rows, pgx.RowToStructByName[injector.Approved])
	if err != nil {
		return nil, fmt.Errorf("read approvals: %w", err)
	}
	for _, a := range agreed {
		a.At = a.At.UTC()
		out[place[a.Day]].Approvals = append(out[place[a.Day]].Approvals, a)
	}
	return out, nil
}

// HeldDays lists game days, the newest first.
func (s *Store) HeldDays(ctx context.Context, open bool, limit int) ([]gameday.Held, error) {
	rows, err := s.db.Query(ctx, heldDaysSQL, pgx.StrictNamedArgs{"open": open, "limit": limit})
	return s.held(ctx, rows, err)
}

// HeldDay returns one with what was written down, or injector.ErrNotFound.
func (s *Store) HeldDay(ctx context.Context, id string) (gameday.Held, []gameday.Note, error) {
	rows, err := s.db.Query(ctx, heldDaySQL, pgx.StrictNamedArgs{"id": id})
	found, err := s.held(ctx, rows, err)
	if err != nil {
		return gameday.Held{}, nil, err
	}
	if len(found) == 0 {
		return gameday.Held{}, nil, fmt.Errorf("game day %s: %w", id, injector.ErrNotFound)
	}
	rows, err = s.db.Query(ctx, notesOfSQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return found[0], nil, fmt.Errorf("read the notes of %s: %w", id, err)
	}
	notes, err := pgx.CollectRows(rows, pgx.RowToStructByName[gameday.Note])
	return found[0], notes, err
}

const dayRunsSQL = `select id from run where schedule = @name and planned_at = @at order by seq`

// DayRuns lists the runs of a game day in order.
func (s *Store) DayRuns(ctx context.Context, name string, at time.Time) ([]injector.Run, error) {
	rows, err := s.db.Query(ctx, dayRunsSQL, pgx.StrictNamedArgs{"name": name, "at": at})
	if err != nil {
		return nil, fmt.Errorf("read the runs of %s: %w", name, err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("read the runs of %s: %w", name, err)
	}
	var out []injector.Run
	for _, id := range ids {
		r, err := s.Run(ctx, id)
		if err != nil && !errors.Is(err, injector.ErrNotFound) {
			return nil, err
		}
		if err == nil {
			out = append(out, r)
		}
	}
	return out, nil
}

const (
	agreeSQL = `
insert into gameday_approval (gameday, actor, hash, owns, at) values (@day, @actor, @hash, @owns, @at)
on conflict (gameday, actor, hash) do update set owns = excluded.owns, at = excluded.at`
	writeNoteSQL = `insert into gameday_note (gameday, at, actor, kind, text) values (@day, @at, @actor, @kind, @text)`
	remindSQL    = `update gameday set reminded_at = @at where id = @day and reminded_at is null`
	unremindSQL  = `update gameday set reminded_at = null where id = @day`
	stopDaySQL   = `update gameday set stopped = @why where id = @day and stopped = '' and ended_at is null`
	endDaySQL    = `update gameday set ended_at = @at where id = @day and ended_at is null`
)

func (s *Store) day(ctx context.Context, statement string, args pgx.StrictNamedArgs) (bool, error) {
	done, err := s.db.Exec(ctx, statement, args)
	if err != nil {
		return false, fmt.Errorf("game day %v: %w", args["day"], err)
	}
	return done.RowsAffected() > 0, nil
}

// Agree keeps one person's approval.
func (s *Store) Agree(ctx context.Context, a injector.Approved) error {
	_, err := s.day(ctx, agreeSQL, pgx.StrictNamedArgs{"day": a.Day, "actor": a.Actor, "hash": a.Hash, "owns": append([]string{}, a.Owns...), "at": a.At})
	return err
}

// Write adds a line to the timeline of a game day.
func (s *Store) Write(ctx context.Context, day string, n gameday.Note) error {
	_, err := s.day(ctx, writeNoteSQL, pgx.StrictNamedArgs{"day": day, "at": n.At, "actor": n.Actor, "kind": n.Kind, "text": n.Text})
	return err
}

// Remind marks that people are being reminded; false: they were.
func (s *Store) Remind(ctx context.Context, day string, at time.Time) (bool, error) {
	return s.day(ctx, remindSQL, pgx.StrictNamedArgs{"day": day, "at": at})
}

// Unremind takes the mark back.
func (s *Store) Unremind(ctx context.Context, day string) error {
	_, err := s.day(ctx, unremindSQL, pgx.StrictNamedArgs{"day": day})
	return err
}

// StopDay writes why a game day ends early; the first word stays.
func (s *Store) StopDay(ctx context.Context, day, why string) error {
	_, err := s.day(ctx, stopDaySQL, pgx.StrictNamedArgs{"day": day, "why": why})
	return err
}

// EndDay writes that a game day is over.
func (s *Store) EndDay(ctx context.Context, day string, at time.Time) error {
	_, err := s.day(ctx, endDaySQL, pgx.StrictNamedArgs{"day": day, "at": at})
	return err
}

// Enqueue puts messages into the outbox of alerts.
func (s *Store) Enqueue(ctx context.Context, all []alert.Delivery) error {
	return pgx.BeginFunc(ctx, s.db, func(tx pgx.Tx) error {
		for _, d := range all {
			if err := enqueue(ctx, tx, d); err != nil {
				return fmt.Errorf("enqueue %s: %w", d.ID, err)
			}
		}
		return nil
	})
}
