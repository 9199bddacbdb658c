package store_test

import (
	"fmt"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
	"breakwater/slo"
	"breakwater/slo/now"
)

// nowRecords is half an hour of a quiet service and a minute in which one of its
// endpoints refuses, as gateways tell of it.
func nowRecords() (records []retrylog.Record) {
	add := func(service, caller string, at time.Time, try retrylog.Try, change func(*retrylog.Exchange)) {
		r := exchange(200, at)
		x := r.Exchange
		x.Service, x.Route, x.Upstream, x.Caller, x.Tries = service, service+"-get", service, caller, []retrylog.Try{try}
		x.RequestID = fmt.Sprintf("%s-%d", service, len(records))
		if try.Kind != "" {
			x.Status, x.Outcome, x.FirstStatus, x.Origin = 502, retrylog.UpstreamFailure, 502, "gateway"
		}
		if change != nil {
			change(x)
		}
		records = append(records, r)
	}
	fine := func(n int) retrylog.Try {
		return retrylog.Try{Endpoint: fmt.Sprintf("10.0.0.%d:80", 1+n%3), Status: 200}
	}
	for m := -30; m < 0; m++ {
		for n := range 12 {
			add("order", []string{"web", "app"}[n%2], noon.Add(time.Duration(m)*time.Minute+time.Duration(n*5)*time.Second), fine(n), nil)
			add("stock", "order", noon.Add(time.Duration(m)*time.Minute+time.Duration(n*5)*time.Second), fine(n), nil)
		}
	}
	for n := range 40 { // from second 10 on
		at := noon.Add(10*time.Second + time.Duration(n)*time.Second)
		try := fine(n)
		if n%3 == 1 {
			try = retrylog.Try{Endpoint: try.Endpoint, Kind: "dial", Cause: "refused"}
		}
		add("order", []string{"web", "app"}[n%2], at, try, nil)
		add("stock", "order", at, fine(n), nil)
	}
	for range 2 {
		add("order", "web", noon.Add(55*time.Second), fine(0), func(x *retrylog.Exchange) {
			x.Tries, x.Status, x.Outcome, x.Refusal, x.Origin = nil, 429, retrylog.LocalRefusal, "limiter:rate", "gateway"
		})
	}
	return records
}

func TestNowEvidenceIsWhatGatewaysTold(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	at := noon.Add(time.Minute)
	records := append(nowRecords(),
		retrylog.Record{Config: &retrylog.Config{At: noon.Add(-2 * time.Hour), Gateway: "gw", Env: "prod", Revision: "r1", Effective: `{"routes":[{"name":"order-get","service":"order","timeout":1}]}`}},
		retrylog.Record{Config: &retrylog.Config{At: noon.Add(8 * time.Second), Gateway: "gw", Env: "prod", Revision: "r2",
			Effective: `{"routes":[{"name":"order-get","service":"order","timeout":1},{"name":"stock-get","service":"stock","timeout":2}]}`}},
		retrylog.Record{Transition: &retrylog.Transition{At: noon.Add(20 * time.Second), Gateway: "gw", Env: "prod", Policy: "breaker", Upstream: "order", Endpoint: "10.0.0.2:80", From: "closed", To: "open", Reason: "5 in a row"}})
	k := key("gw", "b", 1)
	k.From, k.Until = noon.Add(-31*time.Minute), at
	if code, a := deliver(handler(s, at), k, records); code != 200 {
		t.Fatal(code, a)
	}
	if _, err := db.Exec(t.Context(), `insert into endpoint_label (env, address, upstream, instance, rack, zone, at) values
		('prod', '10.0.0.1:80', 'order', 'order-1', 'A', 'z', $1), ('prod', '10.0.0.2:80', 'order', 'order-2', 'A', 'z', $1), ('prod', '10.0.0.3:80', 'order', 'order-3', 'B', 'z', $1)`, noon); err != nil {
		t.Fatal(err)
	}
	for _, c := range []slo.Cause{
		{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v7", From: noon.Add(-20 * time.Minute), Actor: "ci"},
		{Kind: slo.ByDeploy, Service: "coupon", Env: "prod", Ref: "v1", From: noon, Actor: "ci"}, // nobody asked about it
	} {
		if err := s.AddCause(t.Context(), c, noon); err != nil {
			t.Fatal(err)
		}
	}
	e, err := s.NowEvidence(t.Context(), "order", "prod", at)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]now.Facet{}
	for _, f := range e.Facets {
		got[f.Dimension+" "+f.Value] = f
	}
	for key, want := range map[string][4]int64{ // hits, total, before
		"instance order-2":  {13, 13, 0, 120},
		"rack A":            {13, 27, 0, 240},
		"rack B":            {0, 13, 0, 120},
		"caller web":        {8, 22, 0, 180},
		"kind refused":      {13, 13, 0, 0},
		"kind limiter:rate": {2, 2, 0, 0},
		"route order-get":   {15, 42, 0, 360},
	} {
		if f := got[key]; [4]int64{f.Hits, f.Total, f.WasHits, f.WasTotal} != want {
			t.Errorf("%s: %+v, want %v", key, f, want)
		}
	}
	if len(e.Dependencies) != 1 || e.Dependencies[0].Service != "stock" || e.Dependencies[0].Total != 40 || e.Dependencies[0].AllWasTotal != 360 {
		t.Errorf("dependencies %+v", e.Dependencies)
	}
	if len(e.Revisions) != 2 || e.Revisions[0].Name != "r1" || len(e.Marks) != 2 || len(e.Turns) != 1 || !e.Turns[0].Standing || !e.Until.Equal(at) {
		t.Errorf("revisions %+v\nmarks %+v\nturns %+v\nuntil %s", e.Revisions, e.Marks, e.Turns, e.Until)
	}
	a := now.Assess(e, nil, at)
	if a.State != now.Hit || a.Since == nil || !a.Since.Equal(noon.Add(11*time.Second)) {
		t.Errorf("%s since %v", a.State, a.Since)
	}
	if len(a.Causes) == 0 || a.Causes[0].Kind != now.AnInstance || a.Causes[0].Subject != "order-2" {
		t.Errorf("causes %+v", a.Causes)
	}
	for _, c := range a.Causes {
		if c.Kind == now.AConfig || c.Kind == now.ARack && c.Rank == 1 {
			t.Errorf("a revision that says nothing of the service is no cause: %+v", c)
		}
	}
}

// A marker is a cause, with its audit row.
func TestMarkersAreAudited(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	if err := s.AddCause(t.Context(), slo.Cause{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "v8", From: noon, Actor: "ci"}, noon); err != nil {
		t.Fatal(err)
	}
	var e auth.Entry
	if err := db.QueryRow(t.Context(), `select actor, action, object from audit where action = 'deploy.note'`).Scan(&e.Actor, &e.Action, &e.Object); err != nil || e.Actor != "ci" || e.Object != "order/v8" {
		t.Errorf("%+v, %v", e, err)
	}
}
