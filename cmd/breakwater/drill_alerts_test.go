package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
	"breakwater/slo/alert"
)

// looking is a control that is built and drives nothing.
func looking(t *testing.T) *control {
	t.Helper()
	db := pgtest.Pool(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	c := &control{log: slog.New(slog.DiscardHandler), db: db, store: store.New(db), metrics: prometheus.NewRegistry()}
	if err := c.build(time.UTC, l); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAlertsOfDrills: a drill judges alerts by incidents, by each name that one has,
// and without a word of the feed it knows nothing.
func TestAlertsOfDrills(t *testing.T) {
	c := looking(t)
	at := time.Now().UTC().Truncate(time.Second)
	closed := at.Add(-10 * time.Minute)
	for _, i := range []alert.Incident{
		{ID: "i-1", Service: "order", Env: "test", Class: alert.Errors, Tier: alert.L1, Severity: alert.Page, OpenedAt: at.Add(-time.Hour), LastSeen: at,
			Symptoms: []alert.Lasting{{Symptom: alert.Symptom{Key: "order-good:burn:1h", Tier: alert.L1}, Since: at.Add(-time.Hour), Last: at}},
			Facts:    []alert.Lasting{{Symptom: alert.Symptom{Key: "PointsDependencySlow", Tier: alert.L2}, Since: at.Add(-30 * time.Minute), Last: at.Add(-20 * time.Minute)}}},
		{ID: "i-2", Service: "points", Env: "test", Class: alert.Budget, Tier: alert.L1, Severity: alert.Ticket, OpenedAt: at.Add(-time.Hour), LastSeen: closed, ClosedAt: &closed},
	} {
		body, err := json.Marshal(i)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.db.Exec(t.Context(), `insert into alert_incident (id, service, env, class, tier, severity, title, opened_at, closed_at, body)
values (@id, @service, 'test', @class, 'L1', 'page', '', @opened, @closed, @body::jsonb)`, pgx.StrictNamedArgs{
			"id": i.ID, "service": i.Service, "class": string(i.Class), "opened": i.OpenedAt, "closed": i.ClosedAt, "body": string(body)})
		if err != nil {
			t.Fatal(err)
		}
	}
	for since, want := range map[time.Duration]string{
		-5 * time.Minute:  "order.errors order-good:burn:1h",
		-15 * time.Minute: "order.errors order-good:burn:1h points.budget",
		-25 * time.Minute: "order.errors order-good:burn:1h PointsDependencySlow points.budget",
	} {
		all, heard, err := c.alerts(t.Context(), at.Add(since), at)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for _, a := range all {
			names[a.Name] = true
		}
		for _, name := range strings.Fields(want) {
			if !names[name] {
				t.Errorf("since %v: %s is missing in %v", since, name, names)
			}
		}
		if len(names) != len(strings.Fields(want)) {
			t.Errorf("since %v: %v, want %s", since, names, want)
		}
		// Nothing was evaluated yet: nobody knows that others stayed silent.
		if !heard.IsZero() {
			t.Errorf("the feed was heard at %s", heard)
		}
	}
}

func TestOwnersSpeakForTheirServices(t *testing.T) {
	c := looking(t)
	for _, tt := range []struct {
		who  auth.Principal
		want bool
	}{
		{auth.Principal{Name: "a", Services: []string{"points"}}, true},
		{auth.Principal{Name: "a", Services: []string{"order"}}, false},
		{auth.Principal{Name: "a"}, false}, // may approve everything, and speaks for nobody
	} {
		if got := c.owns(auth.With(context.Background(), tt.who), "points"); got != tt.want {
			t.Errorf("%+v speaks for points: %v", tt.who, got)
		}
	}
}
