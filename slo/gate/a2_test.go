package gate

import (
	"encoding/json"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// The row of the release gate in A2, beside forged and repeated webhooks (X167) and a
// store that is down (X168): no traffic, clocks that differ, break-glass misused.
func TestReliability_A2_TheReleaseGate(t *testing.T) {
	quiet := status(slo.Unknown, 0)
	quiet.Budget, quiet.Blind = slo.Weigh(quiet.Objective, slo.Tally{}), "no_data"
	p := freeze.Default()
	p.Name, p.OnUnknown = "prod", []freeze.Settle{{Envs: []string{"prod"}, Except: []Kind{Rollback}}}
	frozen := []slo.Status{status(slo.Frozen, 60)}
	expired := granted(func(o *freeze.Override) { o.ExpiresAt = noon.Add(-time.Second) })
	for _, tt := range []struct {
		name     string
		kind     Kind
		statuses []slo.Status
		known    freeze.Known
		want     Verdict
		code     string
	}{
		{"no traffic is not 100 %", Feature, []slo.Status{quiet}, freeze.Known{}, Unclear, "no_data"},
		{"no traffic freezes production, where that is written", Feature, []slo.Status{quiet}, freeze.Known{Policies: []freeze.Policy{p}}, Deny, "unknown_denied"},
		{"and lets a rollback out", Rollback, []slo.Status{quiet}, freeze.Known{Policies: []freeze.Policy{p}}, Allow, "unknown_allowed"},
		{"break-glass ends", Feature, frozen, freeze.Known{Overrides: []freeze.Override{expired}}, Deny, "override_expired"},
		{"break-glass for one's own", Feature, frozen, freeze.Known{Overrides: []freeze.Override{granted(func(o *freeze.Override) { o.GrantedBy = "ada" })}}, Deny, "override_self_approval"},
	} {
		d := Judge(Request{Service: "order", Env: "prod", Kind: tt.kind, Ref: "sha-a"}, Facts{Statuses: tt.statuses, Known: tt.known}, noon)
		if d.Decision != tt.want || d.ReasonCode != tt.code {
			t.Errorf("%s: %s %s, want %s %s", tt.name, d.Decision, d.ReasonCode, tt.want, tt.code)
		}
	}
	for name, change := range map[string]func(*freeze.Override){
		"without a reason": func(o *freeze.Override) { o.Reason = "x" }, "without an end": func(o *freeze.Override) { o.ExpiresAt = noon.Add(25 * time.Hour) },
		"that is over": func(o *freeze.Override) { o.ExpiresAt = noon }, "for anything": func(o *freeze.Override) { o.Ref = " " }, "without a ticket": func(o *freeze.Override) { o.Ticket = "" },
	} {
		if err, _ := granted(change).Check(noon).(*freeze.Refusal); err == nil || err.Code != freeze.CodeBad {
			t.Errorf("break-glass %s can be asked for: %v", name, err)
		}
	}
	// A kept answer from a clock that runs ahead, or is too old, stands in for nothing.
	key, err := freeze.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	m := Memory{Dir: t.TempDir(), Key: key.Public()}
	r := Request{Service: "order", Env: "prod", Kind: Feature, Ref: "sha-a"}
	d := New(Config{Source: fixed{status(slo.Normal, 1)}, Book: &book{key: &key}, Now: func() time.Time { return noon }}).Answer(t.Context(), r)
	if d.raw, err = json.Marshal(d); err != nil {
		t.Fatal(err)
	}
	if err := m.Keep(d); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		now  time.Time
		want bool
	}{"now": {noon, true}, "a clock a minute behind": {noon.Add(-time.Minute), true}, "a clock an hour behind": {noon.Add(-time.Hour), false}, "after its time": {d.FallbackUntil, false}} {
		if _, err := m.Last(r, tt.now); (err == nil) != tt.want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
