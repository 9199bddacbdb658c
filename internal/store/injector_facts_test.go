package store_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/injector"
	"breakwater/injector/scenario"
)

func TestFactsOfAService(t *testing.T) {
	d := newDrill(t)
	if at, err := d.MeasuredSince(t.Context(), "points"); err != nil || !at.IsZero() {
		t.Errorf("a service that was never measured is known since %s, %v", at, err)
	}
	first := d.at.Truncate(24*time.Hour).AddDate(0, 0, -20)
	d.measured("points", first)
	d.measured("points", first.AddDate(0, 0, 3))
	if at, err := d.MeasuredSince(t.Context(), "points"); err != nil || !at.Equal(first) {
		t.Errorf("since %s, %v, want %s", at, err, first)
	}
	minute := d.at.Truncate(time.Minute).Add(-2 * time.Minute)
	d.minute("points", "a", "", minute, 30, 10, 0)
	d.minute("order", "b", "", minute, 60, 0, 0)
	d.minute("order", "b", "", minute.Add(time.Minute), 500, 0, 0)
	if n, err := d.AllRequests(t.Context(), minute, minute.Add(time.Minute)); err != nil || n != 100 {
		t.Errorf("%d requests, %v, want 100", n, err)
	}
	ended := d.at.Add(-time.Minute)
	for i, end := range []*time.Time{nil, &ended} {
		_, err := d.db.Exec(t.Context(), `
insert into foreign_alert (source, fingerprint, service, env, name, tier, text, url, started_at, ended_at, heard_at)
values ('am', @print, 'order', 'test', @name, 'L1', '', '', @from, @to, @from)`, pgx.StrictNamedArgs{
			"print": string(rune('a' + i)), "name": []string{"Fires", "Over"}[i], "from": d.at.Add(-10 * time.Minute), "to": end})
		d.must(err)
	}
	for since, want := range map[time.Time]string{d.at.Add(-5 * time.Minute): "Fires Over", ended: "Fires"} {
		all, err := d.ForeignAlerts(t.Context(), since, d.at)
		d.must(err)
		var names []string
		for _, a := range all {
			names = append(names, a.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("since %s: %v, want %s", since, names, want)
		}
	}
}

// measured says that a service had traffic on a day.
func (d *drill) measured(service string, day time.Time) {
	d.t.Helper()
	_, err := d.db.Exec(d.t.Context(), `
insert into service_day (service, env, at, good, bad, neutral, throttled, aborted, synthetic, bad_local, degraded, chaos_good, chaos_bad, first_try_bad,
    dep_timeouts, dep_timeout_calls, over_limit, aborted_over, exchanges, attempts, retried, recovered, sampled, sample_var_good, sample_var_bad)
values (@service, 'test', @at, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 5, 0, 0, 0, 0, 0)`, pgx.StrictNamedArgs{"service": service, "at": day})
	d.must(err)
}

// Chaos last: in prod nothing is drilled that was not measured for 14 days, and has no
// owner and no way for alarms. Elsewhere it is told.
func TestChaos_B5_readinessGate(t *testing.T) {
	for _, tt := range []struct {
		name string
		days int // since the first day
		core bool
		all  int64 // requests of other services beside 100 of the target
		want []string
	}{
		{"never measured", -1, false, 900, []string{scenario.Young}},
		{"13 days", 13, false, 900, []string{scenario.Young}},
		{"14 days", 14, false, 900, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t)
			today := d.at.Truncate(24 * time.Hour)
			if tt.days >= 0 {
				d.measured("points", today.AddDate(0, 0, -tt.days))
			}
			minute := d.at.Truncate(time.Minute).Add(-2 * time.Minute)
			d.minute("points", "a", "", minute, 100, 0, 0)
			d.minute("order", "a", "", minute, tt.all, 0, 0)
			known := func(context.Context, scenario.Scenario) scenario.Facts {
				return scenario.Facts{Readied: true, Owner: "team", Alerted: true}
			}
			for _, env := range []string{"prod", "test"} {
				e := injector.New(injector.Config{Ledger: d, Env: env, Log: quiet(), Preflight: known})
				p, err := e.Desk().Preview(t.Context(), "", slowPoints)
				d.must(err)
				var got []string
				for _, w := range p.Warnings {
					if w.Code == scenario.Young {
						got = append(got, w.Code)
						if w.Refuse != (env == "prod") {
							t.Errorf("in %s it is refused: %v", env, w.Refuse)
						}
					}
				}
				if strings.Join(got, " ") != strings.Join(tt.want, " ") {
					t.Errorf("in %s: %v, want %v", env, got, tt.want)
				}
				// 30 % of one in ten requests is 3 % of all traffic.
				if p.Facts.SharePPM != 30_000 {
					t.Errorf("share of all traffic %d ppm", p.Facts.SharePPM)
				}
			}
		})
	}
}
