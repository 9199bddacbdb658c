package main

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/store"
	"breakwater/slo"
)

// countedRow is one minute row of a random ledger.
type countedRow struct {
	service, env, experiment string
	at                       time.Time
	good, bad                int64
}

// randomLedger is what gateways might have reported, and what was promised of it.
type randomLedger struct {
	rnd        *rand.Rand
	name       string
	now, until time.Time
	objectives []slo.Objective
	envs       map[string][]string // service -> environments it was seen in
	rows       []countedRow
}

func draws[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// drawLedger draws promises of every kind and rows that are likely to stand at an
// edge: of a window, of a level, of what an integer holds.
func drawLedger(rnd *rand.Rand, name string, now time.Time) *randomLedger {
	l := &randomLedger{rnd: rnd, name: name, now: now, envs: map[string][]string{}}
	l.until = now.Add(-time.Duration(rnd.IntN(95_000)) * time.Millisecond).Truncate(time.Microsecond)
	if rnd.IntN(6) == 0 { // gateways have been silent for a while
		l.until = l.until.Add(-time.Duration(5+rnd.IntN(50)) * time.Minute)
	}
	for i := range 1 + rnd.IntN(3) {
		service := fmt.Sprintf("%s-s%d", name, i)
		l.envs[service] = draws(rnd, []string{"prod"}, []string{"prod"}, []string{"prod", "stage"})
		for j := range 1 + rnd.IntN(3) {
			l.objectives = append(l.objectives, l.objective(service, fmt.Sprintf("%s-o%d", service, j)))
		}
		for _, env := range l.envs[service] {
			l.traffic(service, env)
		}
	}
	if n := len(l.objectives); n > 1 && rnd.IntN(3) == 0 {
		o := l.objective(l.objectives[0].Service, name+"-all")
		o.Terms = &slo.Terms{Indicator: slo.Indicator{Kind: slo.Composite, Members: []slo.Member{{Objective: l.objectives[0].ID, WeightPPM: 300_000}, {Objective: l.objectives[1].ID, WeightPPM: 700_000}}}}
		if plainEvents(l.objectives[0]) && plainEvents(l.objectives[1]) {
			l.objectives = append(l.objectives, o)
		}
	}
	return l
}

// plainEvents reports whether o counts events over a window that slides.
func plainEvents(o slo.Objective) bool {
	t := o.Spec()
	return !o.Sliced() && t.Calendar == nil && t.Indicator.Kind != slo.Composite
}

func (l *randomLedger) objective(service, id string) slo.Objective {
	rnd := l.rnd
	o := slo.Objective{ID: id, Service: service, Owner: "team", Text: "kind: SLO", Since: l.now.Add(-100 * time.Minute),
		TargetPPB: draws(rnd, 900_000_000, 990_000_000, 999_000_000, 999_500_000, 999_900_000, 999_999_000, 999_999_999, 1, 1+rnd.Int64N(999_999_999)),
		Window:    draws(rnd, 30*24*time.Hour, 28*24*time.Hour, 7*24*time.Hour, 24*time.Hour, time.Hour, 90*24*time.Hour, time.Duration(10+rnd.IntN(43_000))*time.Minute)}
	switch rnd.IntN(14) {
	case 0:
		o.Terms = &slo.Terms{Chaos: slo.ChaosExclude}
	case 1:
		o.Terms = &slo.Terms{Chaos: slo.ChaosCap, ChaosCapPPM: 100_000}
	case 2:
		o.Terms = &slo.Terms{Calendar: &slo.Calendar{Unit: slo.Month, Count: 1, Start: "2020-01-01 00:00:00", Zone: "UTC"}}
		o.Window = 30 * 24 * time.Hour
	case 3:
		o.Terms = &slo.Terms{Indicator: slo.Indicator{Kind: slo.Latency, Limit: 300 * time.Millisecond}}
		o.Counted = l.now.Add(-400 * 24 * time.Hour)
	case 4:
		o.Terms = &slo.Terms{Indicator: slo.Indicator{Kind: slo.DepTimeout}}
	case 5:
		o.Terms, o.Window = &slo.Terms{Method: slo.Timeslices, Slice: 5 * time.Minute}, draws(rnd, 24*time.Hour, time.Hour)
	case 6:
		o.Terms, o.Window = &slo.Terms{Method: slo.RatioTimeslices, Slice: time.Minute}, draws(rnd, 24*time.Hour, time.Hour)
	case 7:
		o.Terms = &slo.Terms{Informational: true}
	}
	return o
}

// traffic draws the rows of a service: none, one, or many with gaps between them.
func (l *randomLedger) traffic(service, env string) {
	rnd := l.rnd
	open := l.until.Add(time.Minute - 1).Truncate(time.Minute) // where windows end
	var windows []time.Duration
	for _, o := range l.objectives {
		if o.Service == service {
			windows = append(windows, append(o.Windows(), o.Window)...)
		}
	}
	seen := map[time.Time]bool{}
	for range draws(rnd, 0, 1, 1, 3, 12, 40) {
		at := open.Add(-time.Duration(1+rnd.IntN(60)) * time.Minute)
		switch rnd.IntN(4) {
		case 0: // at the edge of a window, on either side of it
			at = open.Add(-draws(rnd, windows...) + time.Duration(rnd.IntN(3)-1)*time.Minute)
		case 1:
			at = open.Add(-time.Duration(1+rnd.IntN(35*24*60)) * time.Minute)
		}
		if at = at.Truncate(time.Minute); seen[at] || !at.Before(open) {
			continue
		}
		seen[at] = true
		r := countedRow{service: service, env: env, at: at}
		if rnd.IntN(5) == 0 {
			r.experiment = "r-1"
		}
		r.good, r.bad = l.counts(service)
		l.rows = append(l.rows, r)
	}
}

// counts are zero, tiny, plain, huge, or exactly what brings a level.
func (l *randomLedger) counts(service string) (good, bad int64) {
	rnd := l.rnd
	switch rnd.IntN(6) {
	case 0:
		return 0, 0
	case 1:
		return rnd.Int64N(4), rnd.Int64N(4)
	case 2:
		return rnd.Int64N(1_000_000_000_000), rnd.Int64N(1 + draws(rnd, int64(0), 1_000_000, 10_000_000_000))
	case 3, 4:
		for _, o := range l.objectives {
			if o.Service != service {
				continue
			}
			valid := 1_000_000_000 * (1 + rnd.Int64N(50))
			allowed := (1_000_000_000 - o.TargetPPB) * (valid / 1_000_000_000)
			bad = min(max(allowed*draws(rnd, int64(40), 80, 100)/100+rnd.Int64N(3)-1, 0), valid)
			return valid - bad, bad
		}
	}
	n := rnd.Int64N(100_000)
	return n, rnd.Int64N(1 + n/50)
}

const forgetLedgerSQL = `truncate rollup_minute, service_minute, facet_minute, retry_minute, service_hour, service_day, slo_dirty, rollup_dirty, slo_scope, slo_state,
    slo_transition, slo_slice, objective, objective_revision, gateway, gateway_boot, gateway_minute`

const addCountedSQL = `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad, neutral, chaos_good, chaos_bad, first_try_bad, over_limit, dep_timeouts, dep_timeout_calls, exchanges, attempts, hist)
select service, env, 'r', 'up-' || service, experiment, at, good, bad, n, case when experiment = '' then 0 else good end, case when experiment = '' then 0 else bad end,
    bad + good / 7, (good + bad) / 3, bad / 2, bad, good + bad + n, good + bad + n + good / 5, '{}'
from unnest(@service::text[], @env::text[], @experiment::text[], @at::timestamptz[], @good::bigint[], @bad::bigint[]) as m (service, env, experiment, at, good, bad),
    lateral (select good % 13 as n) as x`

const addReporterSQL = `
with boot as (
    insert into gateway_boot (env, gateway, boot, from_at, until_at, seq, batches, stopped) values (@env, 'gw', 'b1', @from, @until, 1, 1, false)
), minutes as (
    insert into gateway_minute (env, gateway, at, covered_us, lost)
    select @env, 'gw', m, 60000000, 0 from generate_series(date_trunc('minute', @from::timestamptz), @until::timestamptz, interval '1 minute') as m where extract(epoch from m)::bigint / 60 % 100 >= @hole
)
insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack) values (@env, 'gw', 'b1', 1, @until, false, @until)`

const addHeldSQL = `
insert into slo_state (service, objective, env, level, measured, since, frozen_at, good_since, at, reason)
values (@service, @objective, @env, @level, @level, @since, case when @level = 'frozen' then @since::timestamptz end, @good, @since, 'held from before')`

// write makes l the whole ledger of the database.
func (l *randomLedger) write(t *testing.T, db *pgxpool.Pool, s *store.Store) {
	t.Helper()
	do := func(sql string, args pgx.StrictNamedArgs) {
		t.Helper()
		if _, err := db.Exec(t.Context(), sql, args); err != nil {
			t.Fatal(err)
		}
	}
	do(forgetLedgerSQL, nil)
	if _, err := s.ImportObjectives(t.Context(), l.name, l.objectives, l.now.Add(-50*24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	var service, env, experiment []string
	var at []time.Time
	var good, bad []int64
	for _, r := range l.rows {
		service, env, experiment = append(service, r.service), append(env, r.env), append(experiment, r.experiment)
		at, good, bad = append(at, r.at), append(good, r.good), append(bad, r.bad)
	}
	do(addCountedSQL, pgx.StrictNamedArgs{"service": service, "env": env, "experiment": experiment, "at": at, "good": good, "bad": bad})
	for _, name := range []string{"prod", "stage"} {
		do(addReporterSQL, pgx.StrictNamedArgs{"env": name, "from": l.until.Add(-2 * time.Hour), "until": l.until, "hole": draws(l.rnd, 0, 0, 0, 5, 30)})
	}
	for _, o := range l.objectives {
		for _, name := range l.envs[o.Service] {
			if l.rnd.IntN(2) == 0 {
				continue // never judged before
			}
			var since any
			if l.rnd.IntN(3) == 0 {
				since = l.now.Add(-time.Hour)
			}
			do(addHeldSQL, pgx.StrictNamedArgs{"service": o.Service, "objective": o.ID, "env": name, "since": l.now.Add(-time.Duration(2+l.rnd.IntN(200)) * time.Minute), "good": since,
				"level": string(draws(l.rnd, slo.Normal, slo.Warn, slo.Emergency, slo.Frozen, slo.Unknown))})
		}
	}
	if l.rnd.IntN(2) == 0 { // else hours stand in the marks still
		if err := s.RollUp(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
