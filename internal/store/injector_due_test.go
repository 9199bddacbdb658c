package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// day is a game day of one scenario of its own, on a service of its own.
func day(name, cron string) string {
	sc := strings.Replace(slowPoints, "id: slow-points", "id: slow-"+name, 1)
	sc = strings.Replace(sc, "service: points}", "service: "+name+"}", 1)
	return sc + fmt.Sprintf(`---
apiVersion: breakwater/v1
kind: GameDay
name: %s
scenarios: [slow-%s]
schedule: {cron: "%s", zone: UTC}
`, name, name, cron)
}

func (d *drill) load(documents ...string) {
	d.t.Helper()
	var files []conf.File
	for i, text := range documents {
		files = append(files, conf.File{Name: fmt.Sprintf("day%d.yaml", i), Data: []byte(text)})
	}
	set, _, err := scenario.Parse(files...)
	d.must(err)
	d.must(d.engine(nil).Desk().Import(d.t.Context(), set))
}

// decided reads what was written about every due instant of a schedule.
func (d *drill) decided(schedule string) []occurrence {
	d.t.Helper()
	all, err := d.Occurrences(d.t.Context(), schedule, time.Time{}, d.at.Add(time.Hour))
	d.must(err)
	var out []occurrence
	for _, o := range all {
		out = append(out, occurrence{o.ScheduledFor, o.Skipped, len(o.Runs)})
	}
	return out
}

type occurrence struct {
	at      time.Time
	skipped string
	runs    int
}

func count(all []occurrence, skipped string) int {
	n := 0
	for _, o := range all {
		if o.skipped == skipped {
			n++
		}
	}
	return n
}

func TestEachDueInstantStartsOnce(t *testing.T) {
	d := newDrill(t)
	var days []string
	for i := range 10 {
		days = append(days, day(fmt.Sprintf("svc%d", i), "* * * * *"))
	}
	d.load(days...)
	const minutes = 8
	end := d.at.Add(minutes * time.Minute)
	// Two controls, each killed and born again at random: a kill is a context
	// that ends between any two statements.
	var workers sync.WaitGroup
	for n := range 2 {
		workers.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(n)))
			e := d.engine(nil)
			for {
				now, _ := d.Now(t.Context())
				if now.After(end) {
					return
				}
				ctx, kill := context.WithCancel(t.Context())
				if rng.IntN(4) > 0 {
					ctx, kill = context.WithTimeout(t.Context(), time.Duration(rng.IntN(30_000))*time.Microsecond)
				}
				_, err := e.Scheduler().Tick(ctx)
				if err == nil {
					err = e.Tick(ctx, now)
				}
				kill()
				if err != nil {
					e = d.engine(nil)
					continue
				}
				// Time passes only where one lived and nothing is left in the hands
				// of the other, so none may be missed.
				if d.due(now) {
					continue
				}
				d.pass(time.Duration(500+rng.IntN(2000)) * time.Millisecond)
			}
		})
	}
	workers.Wait()
	// One that lives decides what the dead left over.
	d.pass(time.Second)
	_, err := d.engine(nil).Scheduler().Tick(t.Context())
	d.must(err)
	for i := range 10 {
		name := fmt.Sprintf("svc%d", i)
		all := d.decided(name)
		if len(all) < minutes {
			t.Errorf("%s: %d instants decided, want at least %d", name, len(all), minutes)
		}
		for n, o := range all {
			want := d.start0().Add(time.Duration(n+1) * time.Minute)
			if !o.at.Equal(want) || (o.runs == 1) == (o.skipped != "") || o.skipped == "missed" {
				t.Errorf("%s at %v: %d runs, skipped %q; want %v, one run or a reason", name, o.at, o.runs, o.skipped, want)
			}
		}
	}
}

// due reports whether some schedule is due at now and not decided.
func (d *drill) due(now time.Time) bool {
	all, err := d.Schedules(d.t.Context())
	d.must(err)
	return slices.ContainsFunc(all, func(s injector.Schedule) bool { return s.Enabled && !s.NextAt.After(now) })
}

func (d *drill) start0() time.Time { return time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC) }

func TestChaos_C32_nothingRunsOnImport(t *testing.T) {
	d := newDrill(t)
	d.at = time.Date(2026, 3, 3, 10, 7, 0, 0, time.UTC)
	d.load(day("points", "0 0 * * *"))
	e := d.engine(nil)
	for d.pass(10*time.Minute).Day() == 3 {
		done, err := e.Scheduler().Tick(t.Context())
		d.must(err)
		if len(done) > 0 {
			t.Fatalf("at %v: %+v, want nothing before midnight", d.at, done)
		}
	}
	done, err := e.Scheduler().Tick(t.Context())
	d.must(err)
	if len(done) != 1 || len(done[0].Runs) != 1 {
		t.Errorf("after midnight: %+v, want one run", done)
	}
}

func TestChaos_C55_clockJumps(t *testing.T) {
	tests := []struct {
		name        string
		jump        time.Duration
		cron        string
		want        int // runs started by the jump
		wantSkipped int // written as missed
	}{
		{"an hour ahead, every ten minutes", time.Hour, "*/10 * * * *", 1, 5},
		{"three days down, hourly, back at five past", 72*time.Hour + 5*time.Minute, "0 * * * *", 1, 71},
		{"three days down, hourly, back at half past", 72*time.Hour + 30*time.Minute, "0 * * * *", 0, 72},
		{"a day back", -24 * time.Hour, "*/10 * * * *", 0, 0},
		{"two days down, every minute: more than one tick decides", 48 * time.Hour, "* * * * *", 1, 48*60 - 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t)
			d.load(day("points", tt.cron))
			e := d.engine(nil)
			d.pass(tt.jump)
			for range 4 {
				_, err := e.Scheduler().Tick(t.Context())
				d.must(err)
			}
			all := d.decided("points")
			if got, skipped := count(all, ""), count(all, "missed"); got != tt.want || skipped != tt.wantSkipped {
				t.Errorf("%d started and %d missed, want %d and %d", got, skipped, tt.want, tt.wantSkipped)
			}
		})
	}
}

func TestChaos_C31_longRunNeverBlocksTheSchedule(t *testing.T) {
	d := newDrill(t)
	text := strings.Replace(day("points", "0 * * * *"), "inject: 15s", "inject: 100m", 1)
	d.load(text)
	e := d.engine(nil)
	// Runs end 100 min after their start without anybody's help; here by an abort.
	var begun time.Time
	for range 48 * 12 {
		now := d.pass(5 * time.Minute)
		done, err := e.Scheduler().Tick(t.Context())
		d.must(err)
		for _, o := range done {
			if len(o.Runs) > 0 {
				begun = now
			}
		}
		if !begun.IsZero() && now.Sub(begun) >= 100*time.Minute {
			_, err := d.StopAll(t.Context(), now, "test", "over", false)
			d.must(err)
			begun = time.Time{}
		}
	}
	all := d.decided("points")
	if n, skipped := count(all, ""), count(all, "overlap"); n < 23 || n+skipped != len(all) || len(all) != 48 {
		t.Errorf("in 48 h: %d started, %d skipped for overlap, %d decided; want every second hour to start", n, skipped, len(all))
	}
}

func TestChaos_C56_weeklyWithHourlyRestarts(t *testing.T) {
	d := newDrill(t)
	text := day("points", "@every 168h")
	d.load(text)
	for range 3 * 7 * 24 {
		d.pass(time.Hour)
		d.load(text) // a restart imports again
		e := d.engine(nil)
		_, err := e.Scheduler().Tick(t.Context())
		d.must(err)
		_, err = d.StopAll(t.Context(), d.at, "test", "over", false)
		d.must(err)
	}
	if n := count(d.decided("points"), ""); n != 3 {
		t.Errorf("%d runs in three weeks, want 3", n)
	}
}

func TestChaos_C58_theLeaderGoesBeforeTheTick(t *testing.T) {
	d := newDrill(t)
	d.load(day("points", "0 * * * *"))
	first, second := d.engine(nil), d.engine(nil)
	d.pass(time.Hour - 2*time.Second)
	_, err := first.Scheduler().Tick(t.Context())
	d.must(err)
	d.pass(3 * time.Second) // the first is gone
	done, err := second.Scheduler().Tick(t.Context())
	d.must(err)
	if len(done) != 1 || len(done[0].Runs) != 1 {
		t.Errorf("%+v, want the run a second late", done)
	}
}

func TestChaos_C41_removedDocumentStopsItsSchedule(t *testing.T) {
	d := newDrill(t)
	d.load(day("points", "0 * * * *"))
	d.pass(time.Hour - time.Second)
	d.load(day("order", "0 0 1 1 *"))
	d.pass(2 * time.Second)
	done, err := d.engine(nil).Scheduler().Tick(t.Context())
	d.must(err)
	if len(done) != 0 {
		t.Errorf("%+v, want nothing of a schedule whose document is gone", done)
	}
	// Back again, it waits for its next instant and catches nothing up.
	d.load(day("points", "0 * * * *"))
	done, err = d.engine(nil).Scheduler().Tick(t.Context())
	d.must(err)
	if len(done) != 0 {
		t.Errorf("%+v, want nothing before the next hour", done)
	}
}

// budgets answers the same for every service.
type budgets injector.Budget

func (b budgets) Budget(string) injector.Budget { return injector.Budget(b) }

func TestSkipsAreWrittenWithTheirReason(t *testing.T) {
	granted := strings.Replace(day("points", "0 * * * *"), "schedule:", "auto_approve: {budget_spent: \"5%\"}\nschedule:", 1)
	plenty := budgets{Known: true, Allowed: 1000, RemainingPPM: 900_000, TargetPPB: 999_000_000}
	scarce, frozen := plenty, plenty
	scarce.RemainingPPM = 40_000
	frozen.Frozen = true
	tests := []struct {
		name, text string
		budgets    budgets
		before     func(*drill)
		want       string
	}{
		{"enough budget", granted, plenty, nil, ""},
		{"less budget than the grant", granted, scarce, nil, "budget"},
		{"unknown budget", granted, budgets{}, nil, "budget_unknown"},
		{"no grant asks for no budget", day("points", "0 * * * *"), budgets{}, nil, ""},
		{"frozen", day("points", "0 * * * *"), frozen, nil, "freeze"},
		{"halted", granted, plenty, func(d *drill) { d.must(d.engine(nil).Desk().HaltAll(d.t.Context(), "anna")) }, "halted"},
		{"another run holds the target", granted, plenty, func(d *drill) { d.start(d.engine(nil), slowPoints) }, "overlap"},
		{"blackout", strings.Replace(granted, "zone: UTC", "zone: UTC, blackout: [{from: 2026-03-01, to: 2026-03-03}]", 1), plenty, nil, "blackout"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t)
			d.load(tt.text)
			if tt.before != nil {
				tt.before(d)
			}
			d.pass(time.Hour)
			_, err := d.engine(tt.budgets).Scheduler().Tick(t.Context())
			d.must(err)
			all := d.decided("points")
			if len(all) != 1 || all[0].skipped != tt.want || (all[0].runs == 1) != (tt.want == "") {
				t.Errorf("%+v, want one decision, skipped %q", all, tt.want)
			}
		})
	}
}

func TestGameDayRunsInOrder(t *testing.T) {
	d := newDrill(t)
	second := strings.Replace(slowPoints, "id: slow-points", "id: slow-order", 1)
	second = strings.Replace(second, "service: points}", "service: order}", 1)
	d.load(slowPoints + "---\n" + second + `---
apiVersion: breakwater/v1
kind: GameDay
name: both
scenarios: [slow-points, slow-order]
schedule: {cron: "0 * * * *"}
`)
	e, g := d.engine(nil), newGateway("gw")
	d.pass(time.Hour)
	done, err := e.Scheduler().Tick(t.Context())
	d.must(err)
	if len(done) != 1 || len(done[0].Runs) != 2 {
		t.Fatalf("%+v, want two runs", done)
	}
	one, two := done[0].Runs[0], done[0].Runs[1]
	d.poll(e, g)
	d.until(e, one, injector.Injecting, g)
	if r := d.run(two); r.State != injector.Scheduled {
		t.Errorf("the second is %s while the first injects, want scheduled", r.State)
	}
	d.must(e.Desk().Abort(t.Context(), one, "anna"))
	d.until(e, one, injector.Aborted, g)
	if r := d.run(two); r.State != injector.Skipped || r.Reason != "earlier_run" {
		t.Errorf("the second is %s %s after the first was stopped, want skipped", r.State, r.Reason)
	}
}
