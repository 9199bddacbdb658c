package main

import (
	"testing"

	"breakwater/gateway/policy/retry"
	"breakwater/slo/traffic"
)

// Pages must not know another default than gateways have, and control may not import
// the policies that have it.
func TestPagesKnowTheRetryBudgetOfGateways(t *testing.T) {
	if got := retry.DefaultBudget(); got.RatioMilli != traffic.DefaultRatioMilli || got.Kind != "" {
		t.Errorf("gateways grant %+v, pages say %d", got, traffic.DefaultRatioMilli)
	}
}
