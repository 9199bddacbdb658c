package store_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector"
)

// outage is a ledger that can be away: refusing, or not answering at all.
type outage struct {
	*drill
	away, hangs atomic.Bool
}

func (o *outage) Now(ctx context.Context) (time.Time, error) {
	switch {
	case o.hangs.Load():
		<-ctx.Done()
		return time.Time{}, ctx.Err()
	case o.away.Load():
		return time.Time{}, errors.New("connection refused")
	}
	return o.drill.Now(ctx)
}

func TestAStopHoldsWithTheLedgerAway(t *testing.T) {
	for _, tt := range []struct {
		name, reason string
		hangs        bool
		path         func(id string) string
	}{
		{"halt", "halt", false, func(string) string { return "/api/v1/halt" }},
		{"abort", "user", false, func(id string) string { return "/api/v1/experiments/" + id + "/abort" }},
		{"halt of a ledger that hangs", "halt", true, func(string) string { return "/api/v1/halt" }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDrill(t)
			o := &outage{drill: d}
			e := injector.New(injector.Config{Ledger: o, Log: slog.New(slog.DiscardHandler), Actor: func(context.Context) string { return "anna" }})
			g := newGateway("gw")
			d.poll(e, g)
			id := d.start(e, slowPoints).ID
			d.until(e, id, injector.Injecting, g)
			d.poll(e, g)
			if len(g.plan.Faults) == 0 {
				t.Fatal("nothing is injected, so nothing can be stopped")
			}
			if tt.hangs {
				o.hangs.Store(true)
			} else {
				o.away.Store(true)
				if rec := look(t, e, g); rec.Code != http.StatusServiceUnavailable {
					t.Fatalf("with the ledger away and nothing stopped the plan is %d, want 503", rec.Code)
				}
			}
			began := time.Now()
			answered := make(chan *httptest.ResponseRecorder, 1)
			go func() { answered <- ask(mux(e), "POST", tt.path(id), "", "") }()
			// What is asked to stop is gone from the plan before the stop is answered for.
			var got plan.Plan
			for len(g.plan.Faults) > 0 && time.Since(began) < 10*time.Second {
				rec := look(t, e, g)
				if rec.Code != http.StatusOK {
					continue
				}
				d.must(json.Unmarshal(rec.Body.Bytes(), &got))
				if got.Epoch < g.plan.Epoch || got.Revision < g.plan.Revision {
					t.Fatalf("plan %d/%d after %d/%d would be refused", got.Epoch, got.Revision, g.plan.Epoch, g.plan.Revision)
				}
				g.plan = got
			}
			if len(g.plan.Faults) > 0 {
				t.Fatal("faults are given out 10 s after the stop")
			}
			rec := <-answered
			for _, want := range []string{"stop_unwritten", "within 15 s", "/faults/halt", "SIGUSR1"} {
				if rec.Code != http.StatusServiceUnavailable || !strings.Contains(rec.Body.String(), want) {
					t.Errorf("the stop gave %d %s, want 503 with %s", rec.Code, rec.Body, want)
				}
			}
			// The ledger comes back and still names the faults.
			o.away.Store(false)
			o.hangs.Store(false)
			if d.poll(e, g); len(g.plan.Faults) != 0 {
				t.Errorf("%d faults are back with the ledger", len(g.plan.Faults))
			}
			d.tick(e)
			if r := d.run(id); r.State != injector.Aborting && r.State != injector.Aborted || r.Reason != tt.reason {
				t.Errorf("the run is %s, %q, want it stopped", r.State, r.Reason)
			}
			halt, err := d.Halt(t.Context())
			d.must(err)
			if halted := !halt.At.IsZero(); halted != (tt.reason == "halt") {
				t.Errorf("halted is %v in the ledger", halted)
			}
			d.until(e, id, injector.Aborted, g)
			d.must(e.Desk().Resume(t.Context(), "anna"))
			d.start(e, slowPoints)
		})
	}
}

func TestAStopOfNothingIsForgotten(t *testing.T) {
	d := newDrill(t)
	o := &outage{drill: d}
	e := injector.New(injector.Config{Ledger: o, Log: slog.New(slog.DiscardHandler)})
	o.away.Store(true)
	if err := e.Desk().Abort(t.Context(), "r-0", "anna"); !errors.Is(err, injector.ErrUnwritten) {
		t.Fatalf("with the ledger away an abort gave %v", err)
	}
	o.away.Store(false)
	d.tick(e)
	o.away.Store(true)
	if rec := look(t, e, newGateway("gw")); rec.Code != http.StatusServiceUnavailable {
		t.Errorf("the plan is %d, want 503: nothing is being stopped any more", rec.Code)
	}
}

// look asks e for the plan as g does, once.
func look(t *testing.T, e *injector.Engine, g *gateway) *httptest.ResponseRecorder {
	t.Helper()
	text, err := json.Marshal(g.receipt())
	if err != nil {
		t.Fatal(err)
	}
	req := httptest.NewRequest(http.MethodGet, pathOf(g.plan), nil)
	req.Header.Set(plan.ReceiptHeader, string(text))
	rec := httptest.NewRecorder()
	e.PlanHandler().ServeHTTP(rec, req)
	return rec
}
