package store

import (
	"fmt"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo/alert"
)

// A drill asks which alerts there were while it went: what was over before is not read.
func TestIncidentsSince(t *testing.T) {
	db := pgtest.Pool(t)
	for i, ends := range []string{"null", "$1::timestamptz - interval '2 minutes'", "$1::timestamptz + interval '2 minutes'", "$1::timestamptz"} {
		if _, err := db.Exec(t.Context(), `insert into alert_incident (id, service, env, class, tier, severity, title, opened_at, closed_at, body)
			select 'i-`+fmt.Sprint(i)+`', 'order', 'prod', 'errors', 'L1', 'page', 'errors', $1::timestamptz - interval '1 hour', `+ends+`, jsonb_build_object('id', 'i-`+fmt.Sprint(i)+`')`, sloNoon); err != nil {
			t.Fatal(err)
		}
	}
	for since, want := range map[time.Time]string{{}: "[i-0 i-1 i-2 i-3]", sloNoon: "[i-0 i-2]"} {
		found, err := New(db).Incidents(t.Context(), alert.Question{Since: since, Before: sloNoon.Add(time.Hour), Limit: 10})
		var ids []string
		for _, i := range found {
			ids = append(ids, i.ID)
		}
		if got := fmt.Sprint(ids); err != nil || got != want {
			t.Errorf("since %s: %s, %v, want %s", since, got, err, want)
		}
	}
}
