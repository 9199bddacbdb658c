package freeze

import (
	"testing"
	"time"

	"breakwater/slo"
)

const caps = `
apiVersion: breakwater/v1
kind: FreezePolicy
name: shop
services: [order, points]
environments: [prod]
measures:
  - {from: normal, deploys: {at_most: 3, over: policy}}
  - {from: emergency, deploys: {at_most: 1, lasts: 45m}}
---
apiVersion: breakwater/v1
kind: FreezePolicy
name: all
measures:
  - {from: warn, deploys: {at_most: 2}}
`

func TestCapsByState(t *testing.T) {
	policies, err := parse(caps)
	if err != nil || len(policies) != 2 {
		t.Fatal(policies, err)
	}
	again, err := parse(policies[0].Document())
	if err != nil || len(again) != 1 || again[0].Revision() != policies[0].Revision() {
		t.Errorf("as a document it says something else: %v\n%s", err, policies[0].Document())
	}
	k := Known{Policies: policies}
	names := func(level slo.Level) (out string) {
		for _, b := range k.Bounds("order", "prod", level) {
			out += b.Policy + " " + b.Text() + "; "
		}
		return out
	}
	const shared, one, two = "shop at most 3 deploys of all services of the policy at the same time; ", "shop at most 1 deploy at the same time; ", "all at most 2 deploys at the same time; "
	for level, want := range map[slo.Level]string{slo.Normal: shared, slo.Warn: shared + two, slo.Emergency: one + two, slo.Frozen: one + two, slo.Unknown: one + two} {
		if got := names(level); got != want {
			t.Errorf("in %s: %q, want %q", level, got, want)
		}
	}
	if got := k.Bounds("order", "test", slo.Normal); len(got) != 0 {
		t.Errorf("elsewhere: %+v", got)
	}
	if got := Lasts(k.Bounds("order", "prod", slo.Emergency)); got != 45*time.Minute {
		t.Errorf("a slot is given for %s", got)
	}
}

func TestWhoHoldsSlots(t *testing.T) {
	policies, err := parse(caps)
	if err != nil {
		t.Fatal(err)
	}
	k := Known{Policies: policies[:1]}
	at := func(service, env, ref string) slo.Deploy {
		return slo.Deploy{Service: service, Env: env, Ref: ref, Key: slo.DeployKey(ref, "")}
	}
	live := []slo.Deploy{at("order", "prod", "v1"), at("points", "", "v2"), at("coupon", "prod", "v3"), at("points", "test", "v4")}
	shared := k.Bounds("order", "prod", slo.Normal)
	if got := shared[0].Holders(live); len(got) != 2 {
		t.Errorf("of the policy: %+v", got)
	}
	if _, full := Full(shared, live, at("order", "prod", "v9")); full {
		t.Error("two of three are taken, and none is free")
	}
	if _, full := Full(shared, append(live, at("points", "prod", "v5")), at("order", "prod", "v9")); !full {
		t.Error("three of three are taken, and one is free")
	}
	own := k.Bounds("order", "prod", slo.Emergency)
	if b, full := Full(own, live, at("order", "prod", "v9")); !full || b.AtMost != 1 {
		t.Error("order has its one slot twice")
	}
	for _, same := range []slo.Deploy{at("order", "prod", "v1"), at("order", "", "v1")} {
		if _, full := Full(own, live, same); full {
			t.Error("what holds the slot waits for it")
		}
	}
	if _, full := Full(own, live[1:], at("order", "prod", "v9")); full {
		t.Error("deploys of others hold a slot of order's own")
	}
}

// A cap is a measure: with its beginning and its end in the audit, and shown.
func TestACapIsAMeasure(t *testing.T) {
	policies, err := parse(caps)
	if err != nil {
		t.Fatal(err)
	}
	of := func(level slo.Level) []Measure {
		got, _ := Wanted(policies, []slo.Status{{Objective: slo.Objective{ID: "o", Service: "order"}, Env: "prod", Level: level, At: noon}}, noon)
		return got
	}
	got := of(slo.Emergency)
	if len(got) != 1 || got[0].Kind != CapDeploys || got[0].Cap.AtMost != 1 || len(got[0].Policies) != 2 || got[0].Text() != "at most 1 deploy at the same time" {
		t.Errorf("%+v", got)
	}
	if milder := of(slo.Warn); len(milder) != 1 || milder[0].content() == got[0].content() {
		t.Errorf("a milder cap is the same measure: %+v", milder)
	}
}
