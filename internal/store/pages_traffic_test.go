package store

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/traffic"
)

func TestWhatPoliciesDid(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	event := func(at time.Time, kind, service string, r retrylog.Record) {
		t.Helper()
		body, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		exec(`insert into event (service, env, at, kind, gateway, experiment, request_id, body) values ($1, 'prod', $2, $3, 'gw-1', '', '', $4)`, service, at, kind, body)
	}
	turn := func(minutes int, from, to string) {
		at := sloNoon.Add(time.Duration(minutes) * time.Minute)
		event(at, "transition", "points", retrylog.Record{Transition: &retrylog.Transition{At: at, Gateway: "gw-1", Env: "prod", Policy: "breaker", Service: "points", From: from, To: to, Reason: "because"}})
	}
	turn(-200, "closed", "open")
	turn(-90, "open", "half_open")
	turn(-30, "half_open", "closed")
	turn(10, "closed", "open")
	from, to := sloNoon.Add(-time.Hour), sloNoon
	turns, err := s.PolicyTurns(t.Context(), from, to)
	if err != nil || len(turns) != 2 || turns[0].To != "half_open" || turns[1].To != "closed" || turns[1].Reason != "because" || turns[1].Service != "points" {
		t.Fatalf("turns %+v, %v; want the last before the range and the one within", turns, err)
	}

	exec(`insert into gateway_boot (env, gateway, boot, from_at, until_at, seq, batches, stopped) values ('prod', 'gw-1', 'b', $1, $2, 1, 1, false), ('prod', 'gw-2', 'b', $3, $3, 1, 1, true)`,
		sloNoon.Add(-5*time.Hour), sloNoon, sloNoon.Add(-5*time.Hour))
	lives, err := s.Lives(t.Context(), from, to)
	if err != nil || len(lives) != 1 || lives[0].Gateway != "gw-1" || !lives[0].To.Equal(sloNoon) {
		t.Fatalf("lives %+v, %v", lives, err)
	}
	bands := traffic.Bands(turns, lives, nil, from, to)
	if len(bands) != 1 || bands[0].Out != 30*time.Minute || bands[0].State != "closed" {
		t.Errorf("bands %+v", bands)
	}

	exec(`insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack) values ('prod', 'gw-1', 'b', 1, $1, false, $1)`, sloNoon)
	for i, doc := range []string{`{"services":[{"name":"old"}]}`, `{"services":[{"name":"points"}]}`} {
		at := sloNoon.Add(time.Duration(i-3) * time.Hour)
		event(at, "config", "", retrylog.Record{Config: &retrylog.Config{At: at, Gateway: "gw-1", Env: "prod", Revision: "r", Effective: doc}})
	}
	served, err := s.Served(t.Context(), from)
	if err != nil || len(served) != 1 {
		t.Fatalf("served %+v, %v", served, err)
	}
	if keys, _ := served[0].Policies(); len(keys) != 1 || keys[0].Service != "points" {
		t.Errorf("breakers %+v", keys)
	}
	// What was read is kept until the gateway says more; what it refused is not served.
	for _, more := range []struct{ doc, refused, serves string }{{`{"services":[{"name":"new"}]}`, "", "new"}, {`{"services":[{"name":"bad"}]}`, "no such field", "new"}} {
		at := time.Now()
		event(at, "config", "", retrylog.Record{Config: &retrylog.Config{At: at, Gateway: "gw-1", Env: "prod", Revision: "r", Effective: more.doc, Error: more.refused}})
		for range 2 {
			if served, err = s.Served(t.Context(), from); err != nil || len(served) != 1 {
				t.Fatalf("served %+v, %v", served, err)
			}
			if keys, _ := served[0].Policies(); len(keys) != 1 || keys[0].Service != more.serves {
				t.Errorf("after %s: breakers %+v, want of %s", more.doc, keys, more.serves)
			}
		}
	}
}

func TestFatesAndRefusals(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	at := sloNoon.Add(-10 * time.Minute)
	exec(`insert into retry_minute (service, env, upstream, status, reason, experiment, at, retried, retries, succeeded, failed) values
		('order', 'prod', 'stock', 503, 'status_code_match=503', '', $1, 10, 14, 7, 2), ('points', 'prod', 'vault', 503, 'status_code_match=503', '', $1, 1, 1, 1, 0)`, at)
	exec(`insert into facet_minute (service, env, dimension, value, at, total) values ('order', 'prod', 'skip', 'non_idempotent', $1, 5),
		('order', 'prod', 'kind', 'breaker:open', $1, 40), ('order', 'prod', 'kind', 'status_503', $1, 9)`, at)
	addMinutes(t, db, minute{service: "order", route: "a", at: at, good: 90, bad: 10}, minute{service: "points", route: "b", at: at, good: 5})

	fates, err := s.Fates(t.Context(), "order", sloNoon.Add(-time.Hour), sloNoon)
	if err != nil || len(fates) != 2 || fates[0].Count != 10 || fates[0].Retries != 14 || fates[0].Neither != 1 || fates[1].Reason != "non_idempotent" || fates[1].Retried {
		t.Errorf("fates %+v, %v", fates, err)
	}
	refused, err := s.Refusals(t.Context(), sloNoon.Add(-time.Hour), sloNoon)
	if err != nil || len(refused) != 1 || refused[0] != (traffic.Refusal{Service: "order", Env: "prod", Policy: "breaker", Reason: "open", Count: 40}) {
		t.Errorf("refusals %+v, %v", refused, err)
	}
	routes, err := s.RetryRoutes(t.Context(), sloNoon.Add(-time.Hour), sloNoon)
	if err != nil || len(routes) != 2 || routes[0].Service != "order" || routes[0].Tally.Exchanges != 100 {
		t.Errorf("routes %+v, %v", routes, err)
	}
	steps, err := s.RetrySteps(t.Context(), "", sloNoon.Add(-time.Hour), sloNoon, 5*time.Minute)
	if err != nil || len(steps) != 1 || steps[0].Tally.Exchanges != 105 || !steps[0].At.Equal(at.Truncate(5*time.Minute)) {
		t.Errorf("steps %+v, %v", steps, err)
	}
}

// Whole hours are read from their sums, those that have changed since and both edges
// minute by minute: it comes to the same as all minutes.
func TestRoutesOfRetriesAreSummedFromHours(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	rnd := rand.New(rand.NewPCG(3, 4))
	all := func(n int) (out []minute) {
		for range n {
			out = append(out, minute{service: []string{"order", "points"}[rnd.IntN(2)], route: []string{"a", "b", ""}[rnd.IntN(3)], experiment: []string{"", "x"}[rnd.IntN(2)],
				at: sloNoon.Add(-time.Duration(1+rnd.IntN(8*60)) * time.Minute), good: rnd.Int64N(9), bad: rnd.Int64N(3)})
		}
		return out
	}
	counted := all(400)
	addMinutes(t, db, counted...)
	var k Kept
	if err := s.roll(t.Context(), sloNoon, &k); err != nil || k.Hours == 0 {
		t.Fatalf("%d hours summed, %v", k.Hours, err)
	}
	late := all(40) // whose hours are to be summed anew
	addMinutes(t, db, late...)
	counted = append(counted, late...)
	for range 30 {
		from := sloNoon.Add(-time.Duration(rnd.IntN(8*60)) * time.Minute)
		to := from.Add(time.Duration(1+rnd.IntN(7*60)) * time.Minute)
		want := map[string]slo.Tally{}
		for _, m := range counted {
			if m.route != "" && !m.at.Before(from) && m.at.Before(to) {
				w := want[m.service+m.route]
				w.Good, w.Bad, w.Exchanges = w.Good+m.good, w.Bad+m.bad, w.Exchanges+m.good+m.bad
				want[m.service+m.route] = w
			}
		}
		routes, err := s.RetryRoutes(t.Context(), from, to)
		if err != nil || len(routes) != len(want) {
			t.Fatalf("%d routes from %v to %v, want %d, %v", len(routes), from, to, len(want), err)
		}
		for _, r := range routes {
			if w, g := want[r.Service+r.Route], r.Tally; g.Good != w.Good || g.Bad != w.Bad || g.Exchanges != w.Exchanges {
				t.Errorf("%s %s from %v to %v: %+v, want %+v", r.Service, r.Route, from, to, g, w)
			}
		}
	}
}
