package store_test

import (
	"reflect"
	"testing"
	"time"

	"breakwater/injector/readiness"
)

// Of a day the newest look is kept, whoever brings it last; days come back in order,
// and what is older than two years goes.
func TestReadyDays(t *testing.T) {
	d := newDrill(t)
	ctx := t.Context()
	keep := func(service string, at time.Time, state readiness.State) {
		t.Helper()
		d.must(d.KeepReadyDay(ctx, service, readiness.Counted(map[string]readiness.State{"slo": state, "sli": readiness.Yes}, at)))
	}
	noon := time.Date(2026, 3, 3, 12, 0, 0, 0, time.UTC)
	keep("points", noon, readiness.No)
	keep("points", noon.Add(11*time.Hour), readiness.Yes)
	keep("points", noon.Add(time.Hour), readiness.Unknown) // a control that was held up
	keep("points", noon.Add(12*time.Hour), readiness.No)   // the next day
	keep("points", noon.Add(-48*time.Hour), readiness.No)
	keep("order", noon, readiness.Yes)

	all, err := d.ReadyDays(ctx, "", noon.AddDate(0, 0, -2))
	d.must(err)
	trend := readiness.TrendOf("points", all["points"])
	if len(all) != 2 || len(trend.Days) != 3 || trend.Days[0].Day != "2026-03-01" || trend.Days[1].Day != "2026-03-03" || trend.Days[1].Ready != 2 || trend.Days[2].Ready != 1 {
		t.Errorf("%+v", all)
	}
	if len(trend.Changes) != 2 || trend.Changes[0] != (readiness.Change{Day: "2026-03-04", Item: "slo", From: readiness.Yes, To: readiness.No}) {
		t.Errorf("changes %+v", trend.Changes)
	}
	counts, err := d.ReadyCounts(ctx, noon.AddDate(0, 0, -2))
	d.must(err)
	for name, days := range all {
		for i, want := range days {
			if i < len(days)-1 {
				want.States = nil // of the last alone
			}
			if got := counts[name][i]; !reflect.DeepEqual(got, want) {
				t.Errorf("counted %+v of %s, want %+v", got, name, want)
			}
		}
	}
	one, err := d.ReadyDays(ctx, "points", noon)
	d.must(err)
	if len(one) != 1 || len(one["points"]) != 2 {
		t.Errorf("of one service since a day: %+v", one)
	}
	keep("order", noon.AddDate(3, 0, 0), readiness.Yes)
	if left, err := d.ReadyDays(ctx, "", time.Time{}); err != nil || len(left["points"]) != 0 || len(left["order"]) != 1 {
		t.Errorf("three years later there are %+v, %v", left, err)
	}
}
