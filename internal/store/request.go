package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/internal/retrylog"
	"breakwater/slo/request"
)

// Rows are looked through from the newest on, in the order of an index, and never more
// than @reach of them: what a rare value costs is bounded, and the place where the
// search stopped is told, to go on from.
const (
	requestsSQL = `
with looked as materialized (
    select at, request_id, gateway, body
    from event
    where kind = 'exchange' and service = @service and at >= @from and at < @to
      and at <= @before_at and (at, request_id, gateway) < (@before_at, @before_id, @before_gateway)
    order by at desc, request_id desc, gateway desc limit @reach
)` + requestsFit
	// Another text and not "or @service = ''", so that each has a plan of its own.
	anyRequestsSQL = `
with looked as materialized (
    select at, request_id, gateway, body
    from event
    where kind = 'exchange' and @service = '' and at >= @from and at < @to
      and at <= @before_at and (at, request_id, gateway) < (@before_at, @before_id, @before_gateway)
    order by at desc, request_id desc, gateway desc limit @reach
)` + requestsFit
	// The row that does not fit is the last one that was looked at.
	requestsFit = `, fit as (
    select at, request_id, gateway, body
    from looked
    where (@route = '' or body #>> '{exchange,route}' = @route)
      and (@status_to = 0 or (body #>> '{exchange,status}')::int between @status_from and @status_to)
      and (@reason = '' or body #>> '{exchange,decision_reason}' = @reason or body #>> '{exchange,skip_reason}' = @reason)
      and (@outcome = '' or body #>> '{exchange,outcome}' = @outcome)
      and (not @recovered::boolean or body #>> '{exchange,outcome}' = 'ok' and jsonb_array_length(coalesce(body #> '{exchange,tries}', '[]')) > 1)
    order by at desc, request_id desc, gateway desc limit @limit
)
select true as fits, at, request_id, gateway, body, 0::bigint as looked from fit
union all
(select false, at, request_id, gateway, null::jsonb, (select count(*) from looked)
 from looked order by at, request_id, gateway limit 1)
order by fits desc, at desc, request_id desc, gateway desc`

	requestSQL = `
select at, request_id, gateway, body from event
where kind = 'exchange' and request_id = @id order by at desc, gateway limit 20`
)

type requestRow struct {
	Fits      bool
	At        time.Time
	RequestID string `db:"request_id"`
	Gateway   string
	Body      []byte
	Looked    int64
}

// Requests searches the rows of single exchanges, the newest first.
func (s *Store) Requests(ctx context.Context, q request.Query) (request.Page, error) {
	if q.ID != "" {
		rows, err := s.Request(ctx, q.ID)
		return request.Page{Rows: rows, Looked: int64(len(rows))}, err
	}
	before := q.Before
	if before.At.IsZero() {
		before.At = q.To.Add(time.Hour)
	}
	reach := request.Reach
	if q.Route == "" && q.StatusTo == 0 && q.Reason == "" && q.Outcome == "" {
		reach = q.Limit + 1 // all of them fit; one more tells whether there are more
	}
	args := pgx.StrictNamedArgs{"service": q.Service, "route": q.Route, "status_from": q.StatusFrom, "status_to": q.StatusTo, "reason": q.Reason, "outcome": q.Outcome,
		"recovered": q.Outcome == request.Recovered, "from": q.From, "to": q.To, "before_at": before.At, "before_id": before.ID, "before_gateway": before.Gateway,
		"reach": reach, "limit": q.Limit}
	if q.Outcome == request.Recovered {
		args["outcome"] = ""
	}
	sql := requestsSQL
	if q.Service == "" {
		sql = anyRequestsSQL
	}
	rows, err := s.db.Query(ctx, sql, args)
	if err != nil {
		return request.Page{}, fmt.Errorf("requests: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[requestRow])
	if err != nil {
		return request.Page{}, fmt.Errorf("requests: %w", err)
	}
	var page request.Page
	var last request.Mark
	for _, r := range found {
		mark := request.Mark{At: r.At.UTC(), ID: r.RequestID, Gateway: r.Gateway}
		if !r.Fits {
			page.Looked, last = r.Looked, mark
			continue
		}
		x, err := exchangeOf(r.Body)
		if err != nil {
			return request.Page{}, fmt.Errorf("request %s: %w", r.RequestID, err)
		}
		page.Rows = append(page.Rows, request.Row{Mark: mark, Exchange: x})
	}
	switch {
	case len(page.Rows) == q.Limit && page.Rows[q.Limit-1].Mark != last:
		page.Next, page.Full = page.Rows[q.Limit-1].Mark, true
	case page.Looked == request.Reach:
		page.Next = last
	}
	return page, nil
}

func exchangeOf(body []byte) (retrylog.Exchange, error) {
	var r retrylog.Record
	if err := json.Unmarshal(body, &r); err != nil {
		return retrylog.Exchange{}, err
	}
	if r.Exchange == nil {
		return retrylog.Exchange{}, fmt.Errorf("it is no exchange")
	}
	return *r.Exchange, nil
}

type oneRequestRow struct {
	At        time.Time
	RequestID string `db:"request_id"`
	Gateway   string
	Body      []byte
}

// Request returns every row of a request id, the newest first: one for each gateway
// that kept one.
func (s *Store) Request(ctx context.Context, id string) ([]request.Row, error) {
	rows, err := s.db.Query(ctx, requestSQL, pgx.StrictNamedArgs{"id": id})
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", id, err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByName[oneRequestRow])
	if err != nil {
		return nil, fmt.Errorf("request %s: %w", id, err)
	}
	out := make([]request.Row, len(found))
	for i, r := range found {
		x, err := exchangeOf(r.Body)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", id, err)
		}
		out[i] = request.Row{Mark: request.Mark{At: r.At.UTC(), ID: r.RequestID, Gateway: r.Gateway}, Exchange: x}
	}
	return out, nil
}

const (
	countedSQL = `
select coalesce(sum(exchanges), 0)::bigint from service_minute
where (@service = '' or service = @service) and at >= @from and at < @to`
	countedRouteSQL = `
select coalesce(sum(exchanges), 0)::bigint from rollup_minute
where (@service = '' or service = @service) and route = @route and at >= @from and at < @to`
	unkeptSQL = `
select coalesce(sum(unkept), 0)::bigint from batch where until_at > @from and until_at <= @to and unkept > 0`
)

// Counted adds up what the minutes of q's range hold, of its service and route. A long
// range is not added up: it is Known only up to request.Addable.
func (s *Store) Counted(ctx context.Context, q request.Query) (c request.Counted, err error) {
	if q.To.Sub(q.From) > request.Addable {
		return c, nil
	}
	from, to := q.From.Truncate(time.Minute), q.To.Add(time.Minute-1).Truncate(time.Minute)
	args := pgx.StrictNamedArgs{"service": q.Service, "from": from, "to": to}
	sql := countedSQL
	if q.Route != "" {
		sql, args["route"] = countedRouteSQL, q.Route
	}
	if err := s.db.QueryRow(ctx, sql, args).Scan(&c.Exchanges); err != nil {
		return c, fmt.Errorf("requests that were counted: %w", err)
	}
	if err := s.db.QueryRow(ctx, unkeptSQL, pgx.StrictNamedArgs{"from": q.From, "to": q.To.Add(time.Minute)}).Scan(&c.Unkept); err != nil {
		return c, fmt.Errorf("rows that found no room: %w", err)
	}
	c.Known = true
	return c, nil
}
