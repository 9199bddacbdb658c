package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
)

// lateness is an experiment that the budget does not feel: it would freeze the
// service at once, in a ledger without history, and stop itself.
const lateness = `
apiVersion: breakwater/v1
kind: Scenario
id: half-of-inventory
title: Every other read of the inventory is late
target: {service: inventory, routes: [inventory-get]}
sample: {percent: "50%", key: attempt, seed: auto}
phases: {baseline: 12s, inject: 5m, recover: 5s}
faults:
  - {id: late, latency: {dist: fixed, value: 200ms}, toothless: allowed}
hypothesis:
  steady:
    - {id: s1, sli: order.success, op: ">=", value: "50%", min_requests: 30}
  during:
    - {id: d1, sli: order.success, op: ">=", value: "50%", min_requests: 30}
stop:
  - {sli: order.error_rate, op: ">", value: "90%", for: 60s}
`

// TestControlKilledWhileInjecting kills control in the middle of an injection,
// once for good and once with its successor there at once.
func TestControlKilledWhileInjecting(t *testing.T) {
	if slow(t) {
		return
	}
	w := newWorld(t, worldConfig{oneIn: -1})
	defer w.traffic("drill", 80)()
	for _, tt := range []struct {
		name string
		back time.Duration // after the kill
	}{
		{"control comes back after 20 s", 20 * time.Second},
		{"another control is there at once", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := w.injected()
			status, text := w.request("POST", "control", "/api/v1/experiments", lateness, nil)
			if status != 201 && status != 200 {
				t.Fatalf("start answered %d %s", status, text)
			}
			id := w.newest()
			w.await("faults are injected", 60*time.Second, func() bool {
				if r := w.run(id); r.Verdict != "not_evaluated" {
					w.t.Fatalf("the run is over: %+v", r)
				}
				return w.injected() > before+20
			})
			killed := time.Now()
			w.control.kill()
			if tt.back == 0 {
				w.control.start()
			}
			pause(t, time.Until(killed.Add(15*time.Second)))
			last := w.injected()
			pause(t, time.Until(killed.Add(20*time.Second)))
			if n := w.injected(); n != last {
				t.Errorf("%d tries were injected between 15 and 20 s after control was killed", n-last)
			}
			if tt.back > 0 {
				w.control.start()
			}
			w.await("the run is over", 40*time.Second, func() bool { return w.run(id).State == "aborted" })
			r := w.run(id)
			if r.Verdict != "inconclusive" || r.Reason != "engine_lost" {
				t.Errorf("the run is %s, %s (%s): %s; want aborted, inconclusive (engine_lost)", r.State, r.Verdict, r.Reason, r.Why)
			}
			pause(t, 6*time.Second) // more than a poll: nothing may resume it
			if n := w.injected(); n != last {
				t.Errorf("%d more tries were injected after the run had been aborted", n-last)
			}
			if again := w.run(id).State; again != "aborted" {
				t.Errorf("the run went on to %s", again)
			}
		})
	}
}

// run reads one run from control; a control that is away gives an empty one.
func (w *world) run(id string) drill {
	var r drill
	if status, text := w.request("GET", "control", "/api/v1/experiments/"+id, "", nil); status == 200 {
		w.request("GET", "control", "/api/v1/experiments/"+id, "", &r)
	} else if status != 0 && status != 503 {
		w.t.Errorf("run %s: %d %s", id, status, text)
	}
	return r
}

func (w *world) newest() string {
	w.t.Helper()
	var list struct {
		Experiments []drill `json:"experiments"`
	}
	w.request("GET", "control", "/api/v1/experiments", "", &list)
	if len(list.Experiments) == 0 {
		w.t.Fatal("no experiment is listed")
	}
	return list.Experiments[0].ID
}

// injected is how many tries the gateway has hit since it started.
func (w *world) injected() (n int64) {
	var stats struct {
		Faults struct {
			Tallies []struct {
				Injected int64 `json:"injected"`
			} `json:"tallies"`
		} `json:"faults"`
	}
	w.request("GET", "admin", "/stats", "", &stats)
	for _, t := range stats.Faults.Tallies {
		n += t.Injected
	}
	return n
}

// The form of the test below: with the flags it is the whole one, twenty schedules over
// ten minutes of four controls.
var (
	dueSchedules = flag.Int("due-schedules", 10, "schedules that are due each minute")
	dueMinutes   = flag.Int("due-minutes", 4, "for so many minutes")
	dueControls  = flag.Int("due-controls", 2, "controls on one database")
)

// TestEveryDueInstantStartsOnce runs controls on one database, their clocks up to 50
// ms off, with schedules that are due each minute, for real minutes of kill -9. Where the
// kills, or a busy machine, keep a run from ending before the next one is due, that one is
// skipped for overlap, as forbid says: the test asks that this is true of each that was.
func TestEveryDueInstantStartsOnce(t *testing.T) {
	if slow(t) {
		return
	}
	schedules, minutes := *dueSchedules, *dueMinutes
	w := newWorld(t, worldConfig{oneIn: -1, docs: func(docs map[string][]byte) {
		docs["drills.yaml"] = []byte(everyMinute(schedules))
		docs["gateway.yaml"] = append(docs["gateway.yaml"], []byte(quietServices(schedules))...)
	}})
	controls := []*process{w.control}
	for n := 1; n < *dueControls; n++ {
		controls = append(controls, w.another(n, *dueControls))
	}
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	first := time.Now().UTC().Truncate(time.Minute).Add(time.Minute)
	last := first.Add(time.Duration(minutes-1) * time.Minute)
	kills := 0
	for end := last.Add(25 * time.Second); time.Now().Before(end); {
		pause(t, time.Duration(2000+rnd.IntN(5000))*time.Millisecond)
		// Now one, now all at once; never for longer than 3 s. More often, and no run
		// would end within its minute.
		hit := controls
		if rnd.IntN(3) > 0 {
			n := rnd.IntN(len(controls))
			hit = controls[n : n+1]
		}
		for _, c := range hit {
			c.kill()
			kills++
		}
		pause(t, time.Duration(rnd.IntN(3000))*time.Millisecond)
		for _, c := range hit {
			c.start()
		}
		for _, c := range hit { // a busy machine takes its time, and that is not time to live
			if err := awaitOK(t.Context(), "http://"+c.listeners["control"].Addr().String()+"/readyz"); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			w.dumpOccurrences()
		}
	})
	// Whatever was due is decided while one of them lives.
	w.await("the last instants are decided", 60*time.Second, func() bool {
		d := w.decided(first)[last]
		return d.started+d.overlapped >= schedules
	})

	started, all := 0, schedules*minutes
	decided := w.decided(first)
	for at := first; !at.After(last); at = at.Add(time.Minute) {
		d := decided[at]
		started += d.started
		if d.started+d.overlapped != schedules || d.other > 0 {
			t.Errorf("due at %s: of %d schedules %d started, %d waited for the run before, %d neither", at, schedules, d.started, d.overlapped, d.other)
		}
	}
	t.Logf("%d kills, %d due instants, %d started", kills, all, started)
	if 2*started < all {
		t.Errorf("%d of %d started: too few to tell anything", started, all)
	}
	rows, err := w.db.Query(context.Background(), `
		select gameday, planned_at, count(*) from run group by gameday, planned_at having count(*) > 1`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var day string
		var at time.Time
		var n int
		if err := rows.Scan(&day, &at, &n); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s started %d times at %s", day, n, at)
	}
}

// another starts one more control, the nth of all. It has a state directory of its own,
// as on another machine; the gateway's token is in the database already.
func (w *world) another(n, all int) *process {
	w.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = l.Close() })
	state := filepath.Join(w.dir, fmt.Sprintf("state%d", n+1))
	if err := os.MkdirAll(state, 0o755); err != nil {
		w.t.Fatal(err)
	}
	secret, err := os.ReadFile(auth.GatewayTokenFile(filepath.Join(w.dir, "state")))
	if err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(auth.GatewayTokenFile(state), secret, 0o600); err != nil {
		w.t.Fatal(err)
	}
	p := w.process(fmt.Sprintf("control-%d", n+1), map[string]net.Listener{"control": l},
		"control", "--open-loopback", "--control", l.Addr().String(), "--state-dir", state, "--env", "test", "--config", filepath.Join(w.dir, "config"))
	// Spread from -50 to 50 ms, the first control being the clock of all.
	off := -50*time.Millisecond + time.Duration(n-1)*100*time.Millisecond/time.Duration(max(all-2, 1))
	p.env = append(p.env, skewEnv+"="+off.String())
	p.start()
	return p
}

// dumpOccurrences shows what was decided, for a failed test.
func (w *world) dumpOccurrences() {
	rows, err := w.db.Query(context.Background(), `
		select o.scheduled_for::text, o.skipped, coalesce(r.state, '-'), coalesce(r.reason, '-'), count(*), max(o.decided_at)::text
		from occurrence o left join run r on r.schedule = o.schedule and r.planned_at = o.scheduled_for
		group by 1, 2, 3, 4 order by 1, 2`)
	if err != nil {
		w.t.Log(err)
		return
	}
	defer rows.Close()
	for rows.Next() {
		var at, skipped, state, reason, decided string
		var n int
		if err := rows.Scan(&at, &skipped, &state, &reason, &n, &decided); err != nil {
			w.t.Log(err)
			return
		}
		w.t.Logf("due %s, skipped %q, run %s (%s): %d, decided %s", at, skipped, state, reason, n, decided)
	}
}

// decisions counts what came of the schedules due at one instant.
type decisions struct {
	started    int // a run began
	overlapped int // skipped, and the run before was not over when that was decided
	other      int
}

// decided counts decisions by due instant. A transaction sees what was committed when
// it began, so a run that ended less than a second before still counts as not over.
func (w *world) decided(since time.Time) map[time.Time]decisions {
	w.t.Helper()
	rows, err := w.db.Query(context.Background(), `
		select o.scheduled_for, r.started_at is not null, o.skipped = 'overlap' and exists (
			select from run b where b.schedule = o.schedule and b.planned_at < o.scheduled_for
			and (b.ended_at is null or b.ended_at > o.decided_at - interval '1 second'))
		from occurrence o left join run r on r.schedule = o.schedule and r.planned_at = o.scheduled_for
		where o.scheduled_for >= $1`, since)
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	out := map[time.Time]decisions{}
	for rows.Next() {
		var at time.Time
		var started, overlapped bool
		if err := rows.Scan(&at, &started, &overlapped); err != nil {
			w.t.Fatal(err)
		}
		d := out[at.UTC()]
		switch {
		case started:
			d.started++
		case overlapped:
			d.overlapped++
		default:
			d.other++
		}
		out[at.UTC()] = d
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// everyMinute is n game days due each minute, each a short control run on a
// service of its own.
func everyMinute(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, `apiVersion: breakwater/v1
kind: Scenario
id: quiet-%[1]d
title: Nothing is injected into quiet-%[1]d
target: {service: quiet-%[1]d}
sample: {percent: "0%%", key: attempt, seed: auto}
phases: {baseline: 1s, inject: 1s, recover: 1s}
faults:
  - {id: none, error: {status: 503, body: "no"}}
hypothesis:
  during:
    - {id: d1, sli: quiet-%[1]d.success, op: ">=", value: "50%%", min_requests: 1}
stop:
  - {sli: quiet-%[1]d.error_rate, op: ">", value: "90%%", for: 60s}
---
apiVersion: breakwater/v1
kind: GameDay
name: day-%[1]d
title: Each minute, on quiet-%[1]d
scenarios: [quiet-%[1]d]
schedule: {cron: "* * * * *", zone: UTC}
`, i)
	}
	return b.String()
}

func quietServices(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `
---
apiVersion: breakwater/v1
kind: Upstream
name: quiet-%[1]d
endpoints: [{address: "127.0.0.1:9"}]
---
apiVersion: breakwater/v1
kind: Service
name: quiet-%[1]d
---
apiVersion: breakwater/v1
kind: Route
name: quiet-%[1]d
service: quiet-%[1]d
match: {methods: [GET], path: /quiet-%[1]d}
upstream: quiet-%[1]d
timeout: 3s
`, i)
	}
	return b.String()
}
