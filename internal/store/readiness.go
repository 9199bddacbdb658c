package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector/readiness"
)

const (
	answersSQL = `
select distinct on (item) item, evidence, actor, yes, at from readiness_answer where service = @service order by item, id desc`
	addAnswerSQL = `
insert into readiness_answer (service, item, yes, evidence, actor, at) values (@service, @item, @yes, @evidence, @actor, @at)`
	provenSQL = `
select id as run, inject_at as at from run
where service = @service and inject_at is not null and exists (
    select from jsonb_array_elements(assertions) a
    where a->>'Phase' = 'during' and a->>'Result' = 'pass' and a->>'Expected' like 'opened%')
order by inject_at desc limit 1`
	completedSQL = `select max(ended_at) from run where service = @service and state = 'completed' and inject_at is not null`
	markedSQL    = `select count(*) from slo_cause where kind = 'incident' and service = @service and from_at >= @since`
)

// Answers are the newest of each question that people gave for a service.
func (s *Store) Answers(ctx context.Context, service string) ([]readiness.Given, error) {
	rows, err := s.db.Query(ctx, answersSQL, pgx.StrictNamedArgs{"service": service})
	if err != nil {
		return nil, fmt.Errorf("read answers for %s: %w", service, err)
	}
	return pgx.CollectRows(rows, pgx.RowToStructByName[readiness.Given])
}

// AddAnswer keeps one.
func (s *Store) AddAnswer(ctx context.Context, service string, g readiness.Given) error {
	_, err := s.db.Exec(ctx, addAnswerSQL, pgx.StrictNamedArgs{"service": service, "item": g.Item, "yes": g.Yes, "evidence": g.Evidence, "actor": g.Actor, "at": g.At})
	if err != nil {
		return fmt.Errorf("keep an answer for %s: %w", service, err)
	}
	return nil
}

// Drilled reads what drills of a service have shown: where its breaker opened as
// expected, and when the newest was completed.
func (s *Store) Drilled(ctx context.Context, service string) (opened *readiness.Proof, held time.Time, err error) {
	args := pgx.StrictNamedArgs{"service": service}
	rows, err := s.db.Query(ctx, provenSQL, args)
	if err != nil {
		return nil, held, fmt.Errorf("read drills of %s: %w", service, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[readiness.Proof])
	if err != nil {
		return nil, held, fmt.Errorf("read drills of %s: %w", service, err)
	}
	for _, p := range found {
		opened = &p
	}
	var last *time.Time
	if err := s.db.QueryRow(ctx, completedSQL, args).Scan(&last); err != nil {
		return nil, held, fmt.Errorf("read drills of %s: %w", service, err)
	}
	return opened, utc(last), nil
}

// Marked counts the incidents that were marked for a service since then.
func (s *Store) Marked(ctx context.Context, service string, since time.Time) (n int, err error) {
	if err := s.db.QueryRow(ctx, markedSQL, pgx.StrictNamedArgs{"service": service, "since": since}).Scan(&n); err != nil {
		return 0, fmt.Errorf("count incidents of %s: %w", service, err)
	}
	return n, nil
}
