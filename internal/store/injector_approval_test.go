package store_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"breakwater/injector"
)

// Class C needs two people, one of whom speaks for the service, and none of them the
// author; what they agree to is one content.
func TestApprovalsOfClassC(t *testing.T) {
	d := newDrill(t)
	var who string
	e := injector.New(injector.Config{Ledger: d, Env: "prod", Log: slog.New(slog.DiscardHandler), Core: func(s string) bool { return s == "points" },
		Actor: func(context.Context) string { return who }, Owns: func(context.Context, string) bool { return who == "olga" }})
	g := newGateway("gw")
	d.poll(e, g)
	m := mux(e)
	begin := func(document string) injector.Run {
		t.Helper()
		r, _, err := e.Desk().Start(t.Context(), "", document, "anna")
		d.must(err)
		return r
	}
	agree := func(id, by, hash string) int {
		who = by
		return ask(m, "POST", "/api/v1/experiments/"+id+"/approve", "application/json", fmt.Sprintf(`{"hash":%q}`, hash)).Code
	}
	agreed := strings.Replace(slowPoints, `"30%"`, `"5%"`, 1) + "accept: [no_match, no_baseline]\n"
	r := begin(agreed)
	if r.State != injector.PendingApproval || r.Class != injector.ClassC || r.Needs != 2 {
		t.Fatalf("%s, class %q, needs %d; want it to wait for two", r.State, r.Class, r.Needs)
	}
	for _, step := range []struct {
		by, hash string
		code     int
		state    injector.State
	}{
		{"anna", r.Hash, http.StatusForbidden, injector.PendingApproval},
		{"bert", "0123456789abcdef", http.StatusConflict, injector.PendingApproval},
		{"bert", r.Hash, http.StatusOK, injector.PendingApproval},
		{"bert", r.Hash, http.StatusOK, injector.PendingApproval}, // once more is not two
		{"carl", r.Hash, http.StatusOK, injector.PendingApproval}, // two, and none speaks for the service
		{"olga", r.Hash, http.StatusOK, injector.Scheduled},
	} {
		if code := agree(r.ID, step.by, step.hash); code != step.code || d.run(r.ID).State != step.state {
			t.Errorf("%s with %s: %d and %s, want %d and %s", step.by, step.hash, code, d.run(r.ID).State, step.code, step.state)
		}
	}
	if got := d.run(r.ID).Approvals; len(got) != 3 {
		t.Errorf("approvals %+v", got)
	}
	// One of class C at a time, over the organisation.
	d.until(e, r.ID, injector.Injecting, g)
	coreToo := strings.ReplaceAll(agreed, "points", "coupon")
	e2 := injector.New(injector.Config{Ledger: d, Env: "prod", Log: quiet(), Core: func(string) bool { return true }})
	if _, _, err := e2.Desk().Start(t.Context(), "", coreToo, "anna"); !errors.Is(err, injector.ErrOverlap) {
		t.Errorf("a second of class C gave %v", err)
	}
}
