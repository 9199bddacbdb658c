package store

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

func TestCausesOfAService(t *testing.T) {
	s := New(pgtest.Pool(t))
	note := func(c slo.Cause) {
		t.Helper()
		if err := s.AddCause(t.Context(), c, sloNoon); err != nil {
			t.Fatal(err)
		}
	}
	hour := func(n int) time.Time { return sloNoon.Add(time.Duration(n) * time.Hour) }
	note(slo.Cause{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v2", From: hour(-2), Actor: "ci"})
	note(slo.Cause{Kind: slo.ByDeploy, Service: "points", Env: "prod", Ref: "v9", From: hour(-2), Actor: "ci"})
	note(slo.Cause{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v1", From: hour(-9), Actor: "ci"}) // suspect no longer
	note(slo.Cause{Kind: slo.ByIncident, Service: "order", Env: "", Ref: "INC-1", Title: "vault", From: hour(-8), Actor: "anna"})
	got, err := s.Causes(t.Context(), "order", "prod", hour(-3), hour(0))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0].Ref != "INC-1" || !got[0].To.IsZero() || got[1].Ref != "v2" || got[1].Actor != "ci" {
		t.Errorf("got %+v, want the incident that goes on and the deploy within reach", got)
	}
}
