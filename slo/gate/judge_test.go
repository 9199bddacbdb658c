package gate

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// book is a freeze.Book in memory that counts uses as the store does.
type book struct {
	known freeze.Known
	key   *freeze.Key
	away  error
	once  map[string]bool
}

func (b *book) Known() freeze.Known { k := b.known; k.Overrides = slices.Clone(k.Overrides); return k }
func (b *book) Key() (freeze.Key, bool) {
	if b.key == nil {
		return freeze.Key{}, false
	}
	return *b.key, true
}

func (b *book) Use(_ context.Context, id, once, _ string, now time.Time) (bool, error) {
	if b.away != nil {
		return false, b.away
	}
	for i := range b.known.Overrides {
		o := &b.known.Overrides[i]
		if o.ID != id {
			continue
		}
		if once != "" && b.once[id+once] {
			return true, nil
		}
		if o.Covers(o.Ref, now) != nil {
			return false, nil
		}
		o.Used++
		if once != "" {
			if b.once == nil {
				b.once = map[string]bool{}
			}
			b.once[id+once] = true
		}
		return true, nil
	}
	return false, nil
}

func granted(change func(*freeze.Override)) freeze.Override {
	at := noon.Add(-time.Minute)
	o := freeze.Override{ID: "o-1", Service: "order", Ref: "sha-a", Reason: "customers cannot pay", Ticket: "INC-7", AskedBy: "ada",
		AskedAt: noon.Add(-time.Hour), ExpiresAt: noon.Add(time.Hour), MaxUses: 2, GrantedBy: "bob", GrantedAt: &at}
	if change != nil {
		change(&o)
	}
	return o
}

func TestSLO_T33(t *testing.T) {
	revoked := noon
	tests := []struct {
		name string
		o    freeze.Override
		ref  string
		want []string // reason codes, one a question
	}{
		{"third use", granted(nil), "sha-a", []string{"override", "override", "override_used_up"}},
		{"other sha", granted(nil), "sha-b", []string{"override_other_ref"}},
		{"no sha", granted(nil), "", []string{"override_other_ref"}},
		{"expired", granted(func(o *freeze.Override) { o.ExpiresAt = noon }), "sha-a", []string{"override_expired"}},
		{"not granted", granted(func(o *freeze.Override) { o.GrantedBy, o.GrantedAt = "", nil }), "sha-a", []string{"override_pending"}},
		{"self-approval", granted(func(o *freeze.Override) { o.GrantedBy = "ada" }), "sha-a", []string{"override_self_approval"}},
		{"revoked", granted(func(o *freeze.Override) { o.RevokedBy, o.RevokedAt = "eve", &revoked }), "sha-a", []string{"override_revoked"}},
		{"of another service", granted(func(o *freeze.Override) { o.Service = "points" }), "sha-a", []string{"budget_exhausted"}},
		{"of another environment", granted(func(o *freeze.Override) { o.Env = "test" }), "sha-a", []string{"budget_exhausted"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := &book{known: freeze.Known{Overrides: []freeze.Override{tt.o}}}
			g := New(Config{Source: fixed{status(slo.Frozen, 60)}, Book: b, Now: func() time.Time { return noon }})
			for i, want := range tt.want {
				d := g.Answer(t.Context(), Request{Service: "order", Env: "prod", Kind: Feature, Ref: tt.ref})
				verdict := Deny
				if want == "override" {
					verdict = Allow
				}
				if d.Decision != verdict || d.ReasonCode != want || (d.Override != nil) != (want == "override") {
					t.Errorf("question %d: %s %s, want %s", i+1, d.Decision, d.ReasonCode, want)
				}
			}
		})
	}
	t.Run("nobody grants their own, whatever the role", func(t *testing.T) {
		o := granted(func(o *freeze.Override) { o.GrantedBy, o.GrantedAt = "", nil })
		if err, _ := o.Grantable("ada", noon).(*freeze.Refusal); err == nil || err.Code != freeze.CodeSelfApproval {
			t.Errorf("ada grants what ada asked for: %v", err)
		}
		if err := o.Grantable("bob", noon); err != nil {
			t.Errorf("bob may not: %v", err)
		}
	})
	t.Run("a use that cannot be written down lets nothing out", func(t *testing.T) {
		b := &book{known: freeze.Known{Overrides: []freeze.Override{granted(nil)}}, away: context.DeadlineExceeded}
		d := New(Config{Source: fixed{status(slo.Frozen, 60)}, Book: b, Now: func() time.Time { return noon }}).
			Answer(t.Context(), Request{Service: "order", Env: "prod", Ref: "sha-a"})
		if d.Decision != Unclear || d.ReasonCode != "override_not_recorded" || d.Override != nil {
			t.Errorf("%s %s", d.Decision, d.ReasonCode)
		}
	})
	t.Run("a change asked about again uses it once", func(t *testing.T) {
		b := &book{known: freeze.Known{Overrides: []freeze.Override{granted(nil)}}}
		g := New(Config{Source: fixed{status(slo.Frozen, 60)}, Book: b, Now: func() time.Time { return noon }})
		for range 5 {
			if d := g.Answer(t.Context(), Request{Service: "order", Env: "prod", Ref: "sha-a", Once: "run-9"}); d.ReasonCode != "override" {
				t.Fatal(d.ReasonCode)
			}
		}
		if used := b.known.Overrides[0].Used; used != 1 {
			t.Errorf("used %d times, want once", used)
		}
	})
}

func TestUX_U4(t *testing.T) {
	stale, blind := status(slo.Normal, 1), status(slo.Unknown, 0)
	stale.At = noon.Add(-10 * time.Minute)
	blind.Budget, blind.Blind = slo.Budget{NoData: true}, "no_data"
	sampled := status(slo.Unknown, 3)
	sampled.Blind = "undetermined"
	dim := status(slo.Unknown, 3)
	dim.Blind = "low_coverage"
	writing := func(allow bool) freeze.Policy {
		p := freeze.Default()
		p.Name, p.OnUnknown = "written", []freeze.Settle{{Envs: []string{"prod"}, Allow: allow}}
		return p
	}
	tests := []struct {
		name     string
		statuses []slo.Status
		policies []freeze.Policy
		want     Verdict
		exit     int
		code     string // "": another test's
	}{
		{"the database is down", []slo.Status{stale}, nil, Unclear, 4, ""},
		{"the service was never seen", nil, nil, Unclear, 4, ""},
		{"no data", []slo.Status{blind}, nil, Unclear, 4, "no_data"},
		{"all samples errored", []slo.Status{sampled}, nil, Hold, 3, "undetermined"},
		{"too few reports", []slo.Status{dim}, nil, Hold, 3, "low_coverage"},
		{"a policy asks for allow in writing", []slo.Status{stale}, []freeze.Policy{writing(true)}, Allow, 0, ""},
		{"a policy asks for deny in writing", []slo.Status{stale}, []freeze.Policy{writing(false)}, Deny, 1, ""},
	}
	for _, tt := range tests {
		k := &keeper{}
		g := New(Config{Source: fixed(tt.statuses), Keeper: k, Book: &book{known: freeze.Known{Policies: tt.policies}}, Now: func() time.Time { return noon }})
		w := serve(g, "service=order&env=prod")
		var d Decision
		if err := json.Unmarshal(w.Body.Bytes(), &d); err != nil || w.Code != http.StatusOK {
			t.Fatalf("%s: %d, %v", tt.name, w.Code, err)
		}
		if d.Decision != tt.want || ExitCode(d, nil, "") != tt.exit || len(k.kept) != 1 {
			t.Errorf("%s: %s %s, exit %d, %d kept; want %s", tt.name, d.Decision, d.ReasonCode, ExitCode(d, nil, ""), len(k.kept), tt.want)
		}
		if tt.code != "" && d.ReasonCode != tt.code {
			t.Errorf("%s: reason %s, want %s", tt.name, d.ReasonCode, tt.code)
		}
		if len(tt.policies) > 0 && !strings.Contains(strings.Join(d.Reasons, " "), "policy written asks for "+string(tt.want)) {
			t.Errorf("%s: the answer does not say who asked for it: %q", tt.name, d.Reasons)
		}
	}
}

// With no store of budgets: unknown, which the policy of production maps to a
// freeze that lets a rollback through.
func TestReliability_X168(t *testing.T) {
	stale := status(slo.Normal, 1)
	stale.At = noon.Add(-10 * time.Minute)
	p := freeze.Default()
	p.Name, p.OnUnknown = "prod", []freeze.Settle{{Envs: []string{"prod"}, Except: []Kind{Rollback}}}
	tests := []struct {
		policies []freeze.Policy
		kind     Kind
		want     Verdict
		code     string
	}{
		{nil, Feature, Unclear, "stale_evaluation"},
		{nil, Rollback, Unclear, "stale_evaluation"},
		{[]freeze.Policy{p}, Feature, Deny, "unknown_denied"},
		{[]freeze.Policy{p}, SecurityFix, Deny, "unknown_denied"},
		{[]freeze.Policy{p}, Rollback, Allow, "unknown_allowed"},
	}
	for _, tt := range tests {
		d := Judge(Request{Service: "order", Env: "prod", Kind: tt.kind}, Facts{Statuses: []slo.Status{stale}, Known: freeze.Known{Policies: tt.policies}}, noon)
		if d.Decision != tt.want || d.ReasonCode != tt.code {
			t.Errorf("%s under %d policies: %s %s, want %s %s", tt.kind, len(tt.policies), d.Decision, d.ReasonCode, tt.want, tt.code)
		}
	}
}

func TestSLO_S24_NoEventsIsNoData(t *testing.T) {
	none := status(slo.Unknown, 0)
	none.Budget, none.Blind = slo.Weigh(none.Objective, slo.Tally{}), "no_data"
	d := Judge(Request{Service: "order", Env: "prod"}, Facts{Statuses: []slo.Status{none}}, noon)
	if d.ReasonCode != "no_data" || d.Remaining != nil || d.Decision != Unclear || ExitCode(d, nil, "") != 4 {
		t.Errorf("%s %s, %v left", d.Decision, d.ReasonCode, d.Remaining)
	}
	if _, err := json.Marshal(d); err != nil {
		t.Error(err)
	}
}

func TestKindsAreProven(t *testing.T) {
	cause := func(kind slo.CauseKind, ref string, ago, lasted time.Duration) slo.Cause {
		c := slo.Cause{Kind: kind, Service: "order", Env: "prod", Ref: ref, From: noon.Add(-ago)}
		if lasted > 0 {
			c.To = c.From.Add(lasted)
		}
		return c
	}
	strict := freeze.Default()
	strict.Name, strict.Passes = "strict", []freeze.Pass{{Kind: Rollback, Proofs: []freeze.Proof{freeze.History}}, {Kind: ReliabilityFix, Proofs: []freeze.Proof{freeze.Incident, freeze.Label}}}
	known := freeze.Known{Policies: []freeze.Policy{strict}, Causes: []slo.Cause{
		cause(slo.ByDeploy, "v1", 48*time.Hour, 0), cause(slo.ByDeploy, "v2", time.Hour, 0),
		cause(slo.ByIncident, "inc-1", time.Hour, 0), cause(slo.ByIncident, "inc-0", 72*time.Hour, time.Hour),
		{Kind: slo.ByIncident, Service: "points", Ref: "inc-9", From: noon.Add(-time.Hour)}}}
	tests := []struct {
		r    Request
		want string
	}{
		{Request{Kind: Rollback, Ref: "v1"}, "allowed_kind"},
		{Request{Kind: Rollback, Ref: "v2"}, "kind_not_proven"}, // it runs now
		{Request{Kind: Rollback, Ref: "v3"}, "kind_not_proven"},
		{Request{Kind: Rollback}, "kind_not_proven"},
		{Request{Kind: Rollback, Seen: freeze.History}, "allowed_kind"},
		{Request{Kind: Rollback, Seen: freeze.Label}, "kind_not_proven"},
		{Request{Kind: ReliabilityFix}, "kind_not_proven"},
		{Request{Kind: ReliabilityFix, Incident: "inc-1"}, "allowed_kind"},
		{Request{Kind: ReliabilityFix, Incident: "inc-0"}, "kind_not_proven"}, // long over
		{Request{Kind: ReliabilityFix, Incident: "inc-9"}, "kind_not_proven"}, // another service's
		{Request{Kind: ReliabilityFix, Seen: freeze.Label}, "allowed_kind"},
		{Request{Kind: Scale}, "budget_exhausted"}, // the document does not let it pass
	}
	for _, tt := range tests {
		tt.r.Service, tt.r.Env = "order", "prod"
		if d := Judge(tt.r, Facts{[]slo.Status{status(slo.Frozen, 60)}, known}, noon); d.ReasonCode != tt.want {
			t.Errorf("%s of %q, incident %q, seen %q: %s, want %s", tt.r.Kind, tt.r.Ref, tt.r.Incident, tt.r.Seen, d.ReasonCode, tt.want)
		}
	}
}

func TestAnAttestationProvesOneChange(t *testing.T) {
	key, err := freeze.NewKey(make([]byte, 32))
	if err != nil {
		t.Fatal(err)
	}
	g := New(Config{Source: fixed{status(slo.Frozen, 60)}, Book: &book{key: &key}, Now: func() time.Time { return noon }})
	word, err := key.Attest(freeze.Statement{Service: "order", Env: "prod", Kind: SecurityFix, Ref: "v9", By: "ada", ExpiresAt: noon.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	forger, _ := freeze.NewKey(append(make([]byte, 31), 1))
	forged, _ := forger.Attest(freeze.Statement{Service: "order", Env: "prod", Kind: SecurityFix, Ref: "v9", By: "ada", ExpiresAt: noon.Add(time.Hour)})
	late, _ := key.Attest(freeze.Statement{Service: "order", Env: "prod", Kind: SecurityFix, Ref: "v9", By: "ada", ExpiresAt: noon})
	for name, tt := range map[string]struct {
		r    Request
		want Verdict
	}{
		"the very change":    {Request{Kind: SecurityFix, Ref: "v9", Attestation: word}, Allow},
		"another commit":     {Request{Kind: SecurityFix, Ref: "v8", Attestation: word}, Deny},
		"another kind":       {Request{Kind: ReliabilityFix, Ref: "v9", Attestation: word}, Deny},
		"by another key":     {Request{Kind: SecurityFix, Ref: "v9", Attestation: forged}, Deny},
		"after it expired":   {Request{Kind: SecurityFix, Ref: "v9", Attestation: late}, Deny},
		"not one at all":     {Request{Kind: SecurityFix, Ref: "v9", Attestation: "??"}, Deny},
		"a kind that is not": {Request{Kind: Feature, Ref: "v9", Attestation: word}, Deny},
	} {
		tt.r.Service, tt.r.Env = "order", "prod"
		if d := g.Answer(t.Context(), tt.r); d.Decision != tt.want {
			t.Errorf("%s: %s %s %q, want %s", name, d.Decision, d.ReasonCode, d.Reasons, tt.want)
		}
	}
}

func TestByHandAndByDependency(t *testing.T) {
	until := noon.Add(time.Hour)
	order := freeze.Order{ID: "f-1", Service: "order", Reason: "sale day", By: "ada", At: noon.Add(-time.Hour), Until: &until}
	core := status(slo.Frozen, 60)
	core.Objective.Service, core.Objective.ID = "points", "points-availability"
	closure := freeze.Default()
	closure.Name, closure.Services, closure.Observed = "core", []string{"points"}, true
	callers := map[string][]string{"points": {"order", "other"}}
	watched := freeze.Default()
	watched.Name, watched.DryRun = "watch", true
	tests := []struct {
		name string
		f    Facts
		at   time.Time
		want Verdict
		code string
	}{
		{"frozen by hand with a full budget", Facts{[]slo.Status{status(slo.Normal, 1)}, freeze.Known{Orders: []freeze.Order{order}}}, noon, Deny, "frozen_by_hand"},
		{"by hand, with nothing known at all", Facts{nil, freeze.Known{Orders: []freeze.Order{order}}}, noon, Deny, "frozen_by_hand"},
		{"by hand binds under a policy that only watches", Facts{[]slo.Status{status(slo.Normal, 1)}, freeze.Known{Orders: []freeze.Order{order}, Policies: []freeze.Policy{watched}}}, noon, Deny, "frozen_by_hand"},
		{"over", Facts{[]slo.Status{status(slo.Normal, 1)}, freeze.Known{Orders: []freeze.Order{order}}}, until, Unclear, "stale_evaluation"},
		{"a frozen service that is called", Facts{[]slo.Status{status(slo.Normal, 1), core}, freeze.Known{Policies: []freeze.Policy{closure}, Callers: callers}}, noon, Deny, "dependency_frozen"},
		{"whose policy does not reach so far", Facts{[]slo.Status{status(slo.Normal, 1), core}, freeze.Known{Callers: callers}}, noon, Allow, "budget_ok"},
		{"that is not called", Facts{[]slo.Status{status(slo.Normal, 1), core}, freeze.Known{Policies: []freeze.Policy{closure}}}, noon, Allow, "budget_ok"},
		{"a policy that only watches", Facts{[]slo.Status{status(slo.Frozen, 60)}, freeze.Known{Policies: []freeze.Policy{watched}}}, noon, Allow, "dry_run"},
	}
	for _, tt := range tests {
		d := Judge(Request{Service: "order", Env: "prod"}, tt.f, tt.at)
		if d.Decision != tt.want || d.ReasonCode != tt.code {
			t.Errorf("%s: %s %s, want %s %s", tt.name, d.Decision, d.ReasonCode, tt.want, tt.code)
		}
		if tt.code == "dry_run" && d.Would != Deny {
			t.Errorf("a dry run would have said %q", d.Would)
		}
	}
}
