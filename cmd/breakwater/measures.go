package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector"
	"breakwater/slo/freeze"
)

// planMeasures are the protective measures as gateways get them with the plan.
func (c *control) planMeasures(ctx context.Context) ([]plan.Measure, error) {
	all, err := c.releases.protector.Ordered(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	return obeyedByGateways(all), nil
}

// obeyedByGateways leaves out what the release gate obeys: a gateway knows no deploys.
func obeyedByGateways(all []freeze.Measure) []plan.Measure {
	out := []plan.Measure{}
	for _, m := range all {
		if m.Kind != freeze.CapDeploys {
			out = append(out, planMeasure(m))
		}
	}
	return out
}

func planMeasure(m freeze.Measure) plan.Measure {
	x := plan.Measure{ID: m.ID, Kind: string(m.Kind), Service: m.Service, Env: m.Env, Reason: m.Reason, TTLMS: plan.MeasureTTLMS, Lowest: m.Keep}
	if l := m.Limit; l != nil {
		x.Direction, x.FactorPPM, x.Tokens, x.PerMS, x.Burst = string(l.Direction), l.FactorPPM, l.Tokens, l.Per.Milliseconds(), l.Burst
	}
	return x
}

// barred are budgets with what keeps experiments from a service beside them: a
// measure of a policy, or an alert that fires.
type barred struct {
	injector.Budgets
	protector *freeze.Protector
	firing    func(service string) string
}

func (c *control) barred() barred {
	return barred{budgets{c.slo}, c.releases.protector, c.releases.firing.on}
}

// Budget implements injector.Budgets.
func (b barred) Budget(service string) injector.Budget {
	out := b.Budgets.Budget(service)
	out.Stop, out.Refuse = b.protector.Bars(service, time.Now())
	if out.Refuse == "" {
		out.Refuse = b.firing(service)
	}
	return out
}

// measuresTable prints the measures that hold.
func measuresTable(io streams, all []freeze.Shown) error {
	var rows [][]string
	for _, m := range all {
		if m.EndedAt != nil {
			continue
		}
		state := "in force"
		switch {
		case m.DryRun:
			state = "dry run"
		case !m.Live:
			state = "lapsed"
		}
		rows = append(rows, []string{m.Service, m.Env, m.Text, state, shortTime(m.From), strings.Join(m.Policies, ", ")})
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(io.out)
	return table(io.out, []string{"SERVICE", "ENV", "MEASURE", "STATE", "SINCE", "POLICY"}, rows)
}
