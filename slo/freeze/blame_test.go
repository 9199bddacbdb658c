package freeze

import (
	"strings"
	"testing"

	"breakwater/slo"
)

// An error in a shared dependency is its owner's from half of the failures on.
func TestFailuresAreTheirOwners(t *testing.T) {
	p := Default()
	p.Name, p.Owning = "shop", Owning{SharePPM: 500_000, Upstreams: map[string]string{"points-pool": "points", "points-cache": "points", "order-db": "order"}}
	known := func(service string) bool { return service == "points" || service == "order" || service == "coupon" }
	fails := func(list ...Failures) []Failures {
		total := int64(0)
		for _, f := range list {
			total += f.Bad
		}
		for i := range list {
			list[i].Service, list[i].Env, list[i].Total = "order", "prod", total
		}
		return list
	}
	for _, tt := range []struct {
		name     string
		failures []Failures
		owner    string
	}{
		{"exactly half", fails(Failures{Upstream: "points-pool", Bad: 50}, Failures{Upstream: "order-db", Bad: 50}), "points"},
		{"less than half", fails(Failures{Upstream: "points-pool", Bad: 49}, Failures{Upstream: "order-db", Bad: 51}), ""},
		{"two upstreams of one owner", fails(Failures{Upstream: "points-pool", Bad: 30}, Failures{Upstream: "points-cache", Bad: 31}, Failures{Upstream: "order-db", Bad: 39}), "points"},
		{"an upstream of the owner's name", fails(Failures{Upstream: "coupon", Bad: 60}, Failures{Upstream: "order-db", Bad: 40}), "coupon"},
		{"its own upstream", fails(Failures{Upstream: "order-db", Bad: 100}), ""},
		{"an owner who promises nothing", fails(Failures{Upstream: "mainframe", Bad: 100}), ""},
		{"refusals of ours have no upstream", fails(Failures{Upstream: "", Bad: 100}), ""},
		{"half each", fails(Failures{Upstream: "points-pool", Bad: 50}, Failures{Upstream: "coupon", Bad: 50}), "coupon"},
		{"none", nil, ""},
	} {
		got := Blames([]Policy{p}, []slo.Status{at("order", slo.Frozen, 0)}, tt.failures, known)
		k := Known{Blames: got}
		b, ok := k.BlameOf("order", "prod")
		if ok != (tt.owner != "") || b.Owner != tt.owner || len(got) > 1 {
			t.Errorf("%s: %+v, want %q", tt.name, got, tt.owner)
		}
		if back, owns := k.BlamedFor(tt.owner, "prod"); ok && (!owns || back.Service != "order" || !strings.Contains(b.Text(), "frozen in its place")) {
			t.Errorf("%s: the owner is not known by %+v", tt.name, got)
		}
	}
	if got := Blames([]Policy{Default()}, []slo.Status{at("order", slo.Frozen, 0)}, fails(Failures{Upstream: "points", Bad: 9}), known); len(got) != 0 {
		t.Errorf("without the field in a policy %+v", got)
	}
	docs, err := parse("apiVersion: breakwater/v1\nkind: FreezePolicy\nname: a\nowner: {share: 60%, upstreams: {points-pool: points}}\n")
	if err != nil || docs[0].Owning.SharePPM != 600_000 || docs[0].Owning.Upstreams["points-pool"] != "points" {
		t.Errorf("%+v, %v", docs, err)
	}
	if _, err := parse("apiVersion: breakwater/v1\nkind: FreezePolicy\nname: a\nowner: {share: 49%}\n"); err == nil || !strings.Contains(err.Error(), "f.yaml:4:16: owner.share: must be at least 50%") {
		t.Error(err)
	}
}

// The closure freezes callers of callers, each once, however they call.
func TestClosureOfDependants(t *testing.T) {
	docs, err := parse("apiVersion: breakwater/v1\nkind: FreezePolicy\nname: core\nservices: [ledger]\ndependants: closure\n")
	if err != nil || len(docs) != 1 || !docs[0].Closure || !docs[0].Observed {
		t.Fatal(docs, err)
	}
	k := Known{Policies: docs, Callers: map[string][]string{"ledger": {"order"}, "order": {"web", "ledger"}, "web": {"app", "order"}, "app": {"web"}}}
	frozen := []slo.Status{at("ledger", slo.Frozen, 0)}
	for service, want := range map[string]int{"order": 1, "web": 1, "app": 1, "ledger": 0, "points": 0} {
		if got := k.Owners(service, frozen); len(got) != want {
			t.Errorf("%s freezes with %d services, want %d", service, len(got), want)
		}
	}
	k.Policies[0].Closure = false
	if len(k.Owners("order", frozen)) != 1 || len(k.Owners("web", frozen)) != 0 {
		t.Error("observed dependants are those that call, and no more")
	}
	if got := k.Owners("order", []slo.Status{at("points", slo.Frozen, 0)}); len(got) != 0 {
		t.Errorf("a service without the field freezes others: %+v", got)
	}
}
