package store_test

import (
	"strings"
	"testing"
	"time"
)

// Pages read of all schedules at once what each one's ledger says.
func TestDayDecisions(t *testing.T) {
	d := newDrill(t)
	d.load(day("svc0", "* * * * *"), strings.Replace(day("svc1", "* * * * *"), "zone: UTC", "zone: UTC, blackout: [{from: 2000-01-01, to: 2100-01-01}]", 1))
	from := d.at
	for range 3 {
		d.pass(time.Minute)
		_, err := d.engine(nil).Scheduler().Tick(t.Context())
		d.must(err)
	}
	all, err := d.DayDecisions(t.Context(), from, d.at.Add(time.Minute))
	d.must(err)
	n := map[string]int{}
	for i, o := range all {
		if i > 0 && o.ScheduledFor.After(all[i-1].ScheduledFor) {
			t.Errorf("%v comes after %v", o.ScheduledFor, all[i-1].ScheduledFor)
		}
		n[o.Schedule+o.Skipped]++
		if (o.Skipped == "") != (len(o.Runs) > 0) || o.Skipped == "blackout" && o.Detail == "" {
			t.Errorf("%+v", o)
		}
	}
	if n["svc1blackout"] != 3 || n["svc0"] < 1 || len(all) != 6 {
		t.Errorf("%v, want three of each", n)
	}
	if none, err := d.DayDecisions(t.Context(), d.at.Add(time.Hour), d.at.Add(2*time.Hour)); err != nil || len(none) != 0 {
		t.Errorf("%d decisions to come, %v", len(none), err)
	}
}
