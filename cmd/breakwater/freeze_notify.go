package main

import (
	"fmt"
	"time"

	"breakwater/slo"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
)

// brokenGlass are the overrides that people are to be told of: those that wait for
// somebody to grant them, and those that let something out.
func brokenGlass(all []freeze.Override, now time.Time) []alert.Symptom {
	var out []alert.Symptom
	for _, o := range all {
		s := alert.Symptom{Service: o.Service, Env: o.Env, Class: alert.Override, Tier: alert.L2, Key: "override:" + o.ID, Severity: alert.Ticket}
		if s.Env == "" {
			s.Env = "all"
		}
		why := fmt.Sprintf("%.64s until %s, %s: %s", o.Ref, slo.Clock(o.ExpiresAt), o.Ticket, o.Reason)
		switch o.State(now) {
		case "pending":
			s.Text = fmt.Sprintf("%s asks to pass the freeze with %s. Somebody else has to grant override %s", o.AskedBy, why, o.ID)
		case "granted":
			s.Severity = alert.Freeze
			s.Text = fmt.Sprintf("%s let %s pass the freeze with %s. Whoever may log in can revoke override %s", o.GrantedBy, o.AskedBy, why, o.ID)
		default:
			continue
		}
		out = append(out, s)
	}
	return out
}
