package store

import (
	"encoding/json"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

func TestDecisionsAreKept(t *testing.T) {
	s := New(pgtest.Pool(t))
	at := sloNoon.Add(123 * time.Microsecond)
	key, err := freeze.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	for i, service := range []string{"order", "points", "order"} {
		r := gate.Record{Request: gate.Request{Service: service, Env: "prod", Kind: gate.Rollback, Ref: "abc"}, At: at.Add(time.Duration(i) * time.Second), By: "ci"}
		r.Decision = gate.Decide(r.Request, nil, gate.DefaultPolicy(), r.At)
		r.Decision.DecisionID = "d-" + string(rune('0'+i))
		if r.Decision.Signature, err = key.Sign(r.Decision); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveDecision(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		search gate.Search
		want   string
	}{
		"all, newest first":      {gate.Search{Limit: 10}, "d-2 d-1 d-0 "},
		"no more than asked for": {gate.Search{Limit: 1}, "d-2 "},
		"of a service":           {gate.Search{Service: "points", Limit: 10}, "d-1 "},
		"of one id":              {gate.Search{ID: "d-0", Limit: 10}, "d-0 "},
		"before an instant":      {gate.Search{Before: at.Add(2 * time.Second), Limit: 10}, "d-1 d-0 "},
		"of whose they are":      {gate.Search{Services: []string{"points", "coupon"}, Limit: 10}, "d-1 "},
		"of none of them":        {gate.Search{Service: "order", Services: []string{"points"}, Limit: 10}, ""},
	} {
		list, err := s.Decisions(t.Context(), tt.search)
		got := ""
		for _, r := range list {
			got += r.Decision.DecisionID + " "
			body, _ := json.Marshal(r.Decision)
			if r.By != "ci" || r.Decision.ReasonCode != "unknown_service" || r.Request.Ref != "abc" || freeze.Verify(body, key.Public()) != nil {
				t.Errorf("%s: kept %+v", name, r)
			}
		}
		if err != nil || got != tt.want {
			t.Errorf("%s: %q, %v, want %q", name, got, err, tt.want)
		}
	}
}

// That somebody asks to pass a freeze is kept as an incident, and is over with it.
func TestBrokenGlassIsKept(t *testing.T) {
	s := New(pgtest.Pool(t))
	asked := []alert.Symptom{{Service: "order", Env: "prod", Class: alert.Override, Tier: alert.L2, Key: "override:o-1", Severity: alert.Ticket, Text: "ben asks"}}
	e := alert.New(alert.Config{Source: none{}, Ledger: s, Outbox: s, More: func(time.Time) []alert.Symptom { return asked }})
	list := func() []alert.Incident {
		t.Helper()
		if err := e.Tick(t.Context(), sloNoon); err != nil {
			t.Fatal(err)
		}
		all, err := s.Incidents(t.Context(), alert.Question{Service: "order", Before: sloNoon.Add(time.Hour), Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if all := list(); len(all) != 1 || all[0].Class != alert.Override || all[0].Tier != alert.L2 || !all[0].Open() || all[0].Notified != 1 || all[0].Title != "order (prod): ben asks" {
		t.Fatalf("kept %+v", all)
	}
	asked = nil
	sloNoonLater := sloNoon.Add(time.Second)
	if err := e.Tick(t.Context(), sloNoonLater); err != nil {
		t.Fatal(err)
	}
	if all := list(); len(all) != 1 || all[0].Open() {
		t.Errorf("it goes on: %+v", all)
	}
}

type none struct{}

func (none) Statuses() []slo.Status { return nil }
