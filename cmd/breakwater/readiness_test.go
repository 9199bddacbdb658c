package main

import (
	"strings"
	"testing"
	"time"

	"breakwater/injector/readiness"
	"breakwater/internal/pgtest"
)

// The verb shows how it went day by day, and an answer that a person gives is in the
// day at once.
func TestReadinessDayByDay(t *testing.T) {
	d := newDesk(t, pgtest.DSN(t), controlOptions{openLoopback: true})
	now, err := d.c.store.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := []string{"--control", d.url}
	verb(t, "", append([]string{"readiness", "points", "--days", "30"}, at...)...).want(t, exitUnknown)

	before := map[string]readiness.State{}
	for _, id := range readiness.Items() {
		before[id] = readiness.No
	}
	before["slo"], before["versions"] = readiness.Yes, readiness.Unknown
	if err := d.c.store.KeepReadyDay(t.Context(), "points", readiness.Counted(before, now.Add(-72*time.Hour))); err != nil {
		t.Fatal(err)
	}
	verb(t, "", append([]string{"readiness", "points", "--answer", "versions", "--evidence", "wiki/versions"}, at...)...).want(t, exitNo)
	r := verb(t, "", append([]string{"readiness", "points", "--days", "30"}, at...)...)
	r.want(t, exitOK)
	for _, want := range []string{"points: +0 in 2 days", now.Add(-72 * time.Hour).UTC().Format(time.DateOnly), "1 of 15", "versions yes (was unknown)", "slo no (was yes)"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("%q is not said in\n%s", want, r.out)
		}
	}
	r = verb(t, "", append([]string{"readiness", "points", "--days", "30", "-o", "json"}, at...)...)
	r.want(t, exitOK)
	if !strings.Contains(r.out, `"item": "versions"`) && !strings.Contains(r.out, `"item":"versions"`) {
		t.Errorf("got %s", r.out)
	}
	verb(t, "", append([]string{"readiness", "points", "--days", "900"}, at...)...).want(t, exitUsage)
	verb(t, "", append([]string{"readiness", "points", "--days", "9", "--answer", "versions"}, at...)...).want(t, exitUsage)
}
