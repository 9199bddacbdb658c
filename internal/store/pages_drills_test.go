package store_test

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
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

func TestDayMarks(t *testing.T) {
	d := newDrill(t)
	at := d.at.Truncate(time.Hour)
	for i, c := range []slo.Cause{
		{Kind: slo.ByDeploy, Service: "order", Ref: "v1", From: at.Add(-25 * time.Hour), Actor: "bot"}, {Kind: slo.ByDeploy, Service: "order", Ref: "v2", From: at, Actor: "bot"},
		{Kind: slo.ByIncident, Service: "points", Ref: "INC-1", Title: "late", From: at.Add(time.Minute), To: at.Add(time.Hour), Actor: "ann"}, {Kind: slo.ByConfig, Ref: "r9", From: at, Actor: "gateway"},
	} {
		if err := d.AddCause(t.Context(), c, at); err != nil {
			t.Fatal(i, err)
		}
	}
	got, err := d.DayMarks(t.Context(), at.Add(-time.Hour), at.Add(time.Hour))
	d.must(err)
	if len(got) != 2 || got[0].Ref != "INC-1" || !got[0].To.Equal(at.Add(time.Hour)) || got[1].Ref != "v2" || got[1].Service != "order" {
		t.Errorf("%+v", got)
	}
}
