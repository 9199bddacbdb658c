package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/gateway/config"
	"breakwater/injector/readiness"
	"breakwater/internal/auth"
	"breakwater/internal/conf"
	"breakwater/internal/store"
)

// crowd is an installation of many services with a history, as gateways, pipelines
// and people would have left it.
type crowd struct {
	services, routes, days int
	until                  time.Time // a whole minute
	hours                  int       // of minutes; 0: all the days. Of the days before, two services have minutes, and the others hours
	much                   int64     // of each kind of row that does not come with minutes, in hundredths of what a busy month leaves
}

func (c crowd) name(i int) string { return fmt.Sprintf("service-%03d", i) }

// documents are those of the services, as files of a directory.
func (c crowd) documents(t testing.TB) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var gateway, promises, drills strings.Builder
	gateway.WriteString("apiVersion: breakwater/v1\nkind: Gateway\nname: gw-0\nenv: prod\n")
	for i := range c.services {
		name := c.name(i)
		fmt.Fprintf(&gateway, "---\napiVersion: breakwater/v1\nkind: Service\nname: %s\nowner: team-%d\ntier: 2\ncore: %v\n", name, i%17, i%10 == 0)
		fmt.Fprintf(&gateway, "---\napiVersion: breakwater/v1\nkind: Upstream\nname: %s\nendpoints:\n  - {address: \"10.0.%d.1:8080\"}\n  - {address: \"10.0.%d.2:8080\"}\n", name, i, i)
		for r := range c.routes {
			fmt.Fprintf(&gateway, "---\napiVersion: breakwater/v1\nkind: Route\nname: %s-r%d\nservice: %s\nmatch: {methods: [GET], path: \"/%s/%d\"}\nupstream: %s\ntimeout: 3s\nretry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502, 503, 504]}\n", name, r, name, name, r, name)
		}
		for _, o := range []struct{ name, target string }{{"availability", "0.999"}, {"goal", "0.99"}}[:1+i%2] {
			fmt.Fprintf(&promises, "---\napiVersion: openslo/v1\nkind: SLO\nmetadata: {name: %s-%s, displayName: %s is there, labels: {owner: team-%d}}\nspec:\n  service: %s\n  budgetingMethod: Occurrences\n  timeWindow: [{duration: 30d, isRolling: true}]\n"+
				"  indicator: {metadata: {name: %s-requests}, spec: {ratioMetric: {counter: true, good: {metricSource: {type: breakwater, spec: {class: good}}}, total: {metricSource: {type: breakwater, spec: {class: valid}}}}}}\n  objectives: [{displayName: available, target: %s}]\n",
				name, o.name, name, i%17, name, name, o.target)
		}
	}
	for i := range min(60, c.services) {
		fmt.Fprintf(&drills, "---\n%s", c.scenario(i))
	}
	for i := range min(12, c.services) {
		fmt.Fprintf(&drills, "---\napiVersion: breakwater/v1\nkind: GameDay\nname: day-%d\ntitle: Drill %d\nscenarios: [drill-%d, drill-%d]\nschedule: {cron: \"%d %d * * %d\", zone: Europe/Berlin}\nauto_approve: {budget_spent: \"5%%\"}\n", i, i, i%min(60, c.services), (i+1)%min(60, c.services), i*5, 9+i%8, 1+i%5)
	}
	for name, text := range map[string]string{"gateway.yaml": gateway.String(), "slo.yaml": promises.String()[4:], "drills.yaml": drills.String()[4:]} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (c crowd) scenario(i int) string {
	name := c.name(i)
	return fmt.Sprintf("apiVersion: breakwater/v1\nkind: Scenario\nid: drill-%d\ntitle: %s loses some of its answers\ntags: [weekly]\ntarget: {service: %s}\nsample: {percent: \"10%%\", key: attempt, seed: auto}\nphases: {baseline: 1m, inject: 2m, recover: 1m}\n"+
		"faults:\n  - {id: lose, error: {status: 503}}\nhypothesis:\n  steady:\n    - {id: s1, sli: %s.success, op: \">=\", value: \"98%%\"}\n  during:\n    - {id: d1, sli: %s.success, op: \">=\", value: \"98%%\"}\n  after:\n    - {id: a1, sli: %s.success, op: \">=\", value: \"98%%\"}\nstop:\n  - {budget_spent: \"5%%\"}\n",
		i, name, name, name, name, name)
}

// effective is what a gateway says it serves.
func (c crowd) effective(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "gateway.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "gateway.yaml", Data: text}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// fill writes all of c but its documents.
func (c crowd) fill(t testing.TB, db *pgxpool.Pool, s *store.Store, dir string) {
	t.Helper()
	do := func(sql string, args pgx.StrictNamedArgs) {
		t.Helper()
		if args == nil {
			args = pgx.StrictNamedArgs{}
		}
		all := pgx.StrictNamedArgs{}
		for k, v := range args {
			all[k] = v
		}
		for k, v := range map[string]any{"services": c.services, "routes": c.routes, "until": c.until, "days": c.days, "much": c.much} {
			if strings.Contains(sql, "@"+k) && all[k] == nil {
				all[k] = v
			}
		}
		began := time.Now()
		if _, err := db.Exec(t.Context(), sql, all); err != nil {
			t.Fatalf("%v in %.300s", err, sql)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Logf("%v: %.60q", took.Round(time.Second), sql)
		}
	}
	for _, table := range []string{"rollup_minute", "service_minute", "facet_minute", "retry_minute", "event"} {
		do(`alter table `+table+` disable trigger user`, nil)
		for d := c.days + 1; d >= -2; d-- {
			from := c.until.Truncate(24*time.Hour).AddDate(0, 0, -d)
			do(`select ledger_partition(@table, @suffix, @from, @to, 70)`, pgx.StrictNamedArgs{"table": table, "suffix": from.Format("20060102"), "from": from, "to": from.AddDate(0, 0, 1)})
		}
	}
	first := c.until.AddDate(0, 0, -c.days)
	if c.hours > 0 {
		first = c.until.Add(-time.Duration(c.hours) * time.Hour)
	}
	for d := c.days; d >= 0; d-- {
		from, to := c.until.AddDate(0, 0, -d-1), c.until.AddDate(0, 0, -d)
		if from.Before(first) && c.days > 1 {
			do(crowdMinutesSQL, pgx.StrictNamedArgs{"from": from, "to": earlier(first, to), "services": wholeServices})
			from = first
		}
		if from = later(from, first); from.Before(to) {
			do(crowdMinutesSQL, pgx.StrictNamedArgs{"from": from, "to": to})
		}
	}
	if c.hours > 0 && c.days > 1 {
		do(crowdHoursSQL, pgx.StrictNamedArgs{"first": first, "whole": wholeServices})
	}
	for _, sql := range crowdSQL {
		do(sql, nil)
	}
	do(crowdConfigsSQL, pgx.StrictNamedArgs{"effective": c.effective(t, dir)})
	for _, table := range []string{"rollup_minute", "service_minute", "facet_minute", "retry_minute", "event"} {
		do(`alter table `+table+` enable trigger user`, nil)
	}
	c.looks(t, db)
	c.chain(t, db)
	do(`insert into slo_dirty (service, env, at) select distinct service, env, date_trunc('hour', at, 'UTC') from service_minute where at >= @until::timestamptz - interval '1 hour'`, nil)
	do(`analyze`, nil)
}

// wholeServices have minutes of all days: what looks back a month looks at one service.
const wholeServices = 2

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// looks are the days on which somebody saw how ready each service was.
func (c crowd) looks(t testing.TB, db *pgxpool.Pool) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	var rows [][]any
	for i := range c.services {
		for d := range min(90, int(c.much)) {
			states := map[string]readiness.State{}
			for _, item := range readiness.Items() {
				states[item] = []readiness.State{readiness.Yes, readiness.No, readiness.State("unknown")}[rnd.IntN(3)]
			}
			text, err := json.Marshal(states)
			if err != nil {
				t.Fatal(err)
			}
			at := c.until.AddDate(0, 0, -d)
			day := readiness.Counted(states, at)
			rows = append(rows, []any{c.name(i), at.Truncate(24 * time.Hour), string(text), day.Ready, day.No, day.Of, at})
		}
	}
	if _, err := db.CopyFrom(t.Context(), pgx.Identifier{"readiness_day"}, []string{"service", "day", "states", "yes", "no", "items", "at"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
}

// chain is the audit, each row with the hash of the one before.
func (c crowd) chain(t testing.TB, db *pgxpool.Pool) {
	t.Helper()
	var rows [][]any
	seq, hash := int64(0), ""
	for i := range 200 * c.much {
		r := auth.Next(seq, hash, auth.Entry{At: c.until.Add(-time.Duration(200*c.much-i) * time.Minute), Actor: fmt.Sprintf("person-%d", i%40), Action: []string{"gate.ask", "run.start", "alert.ack", "freeze.on"}[i%4],
			Object: c.name(int(i) % c.services), Detail: "because of what was seen"})
		seq, hash = r.Seq, r.Hash
		rows = append(rows, []any{r.Seq, r.At, r.Actor, r.Action, r.Object, r.Detail, r.Prev, r.Hash})
	}
	if _, err := db.CopyFrom(t.Context(), pgx.Identifier{"audit"}, []string{"seq", "at", "actor", "action", "object", "detail", "prev", "hash"}, pgx.CopyFromRows(rows)); err != nil {
		t.Fatal(err)
	}
}
