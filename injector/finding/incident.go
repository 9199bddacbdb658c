package finding

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Incident is what the retry log holds of a bad time of one service, without what
// faults of ours did.
type Incident struct {
	Service     string
	From, Until time.Time
	Tries       int64 // all that were sent
	Failed      []Trouble
}

// Trouble is one way in which tries failed, as often as the log kept it.
type Trouble struct {
	Route, Kind, Cause  string // as in the log's tries
	Status              int
	N                   int64
	P50US, P95US, MaxUS int64
}

// ErrNothing means that no try failed, or none was kept.
var ErrNothing = fmt.Errorf("no failed try is in the retry log")

// fault is t as a scenario's fault: a line of YAML, and a name for it.
func (t Trouble) fault() (name, line string) {
	switch {
	case t.Kind == "dial" || t.Kind == "connect_timeout" || t.Kind == "tls" || t.Kind == "write":
		return "refused", "refuse: {}"
	case strings.HasSuffix(t.Kind, "timeout"):
		// What was cut off at its timeout would have taken longer; a fault must too,
		// and 2.5 times is beyond doubt.
		ms := (t.MaxUS*5/2/1000 + 99) / 100 * 100
		return "late", fmt.Sprintf("latency: {dist: fixed, value: %dms}", min(max(ms, 100), 600_000))
	case t.Kind == "body_cut" || t.Kind == "reset_after_first_byte":
		return "cut", `truncate: {at: "50%", mode: dirty}`
	case t.Kind != "":
		return "reset", "reset: {phase: before_upstream}"
	}
	return "error", fmt.Sprintf("error: {status: %d}", min(max(t.Status, 400), 599))
}

// Scenario writes a scenario that does to a service again what happened to it: the
// most frequent failure, at its share, on its routes. What was worse than ever
// before is worth being tried before it comes back.
func (i Incident) Scenario(owner string) (string, error) {
	total, by := int64(0), map[string]int64{}
	for _, t := range i.Failed {
		name, _ := t.fault()
		by[name] += t.N
		total += t.N
	}
	if total == 0 {
		return "", ErrNothing
	}
	var names []string
	for n := range by {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(by[b], by[a]), cmp.Compare(a, b)) })
	main := names[0]
	var routes []string
	var worst Trouble
	var out strings.Builder
	fmt.Fprintf(&out, "# Drawn from the retry log: %s, %s to %s.\n", i.Service, i.From.UTC().Format(time.RFC3339), i.Until.UTC().Format(time.RFC3339))
	fmt.Fprintf(&out, "# %d tries were sent; %d failed ones were kept:\n", i.Tries, total)
	for _, t := range i.Failed {
		what := t.Kind
		if what == "" {
			what = fmt.Sprintf("status %d", t.Status)
		}
		fmt.Fprintf(&out, "#   %d on %s: %s, p50 %d ms, p95 %d ms, at most %d ms\n", t.N, t.Route, what, t.P50US/1000, t.P95US/1000, t.MaxUS/1000)
		if name, _ := t.fault(); name == main {
			if worst.N < t.N {
				worst.Status, worst.N, worst.Kind = t.Status, t.N, t.Kind
			}
			worst.MaxUS = max(worst.MaxUS, t.MaxUS)
			if !slices.Contains(routes, t.Route) && t.Route != "" {
				routes = append(routes, t.Route)
			}
		}
	}
	slices.Sort(routes)
	share := by[main] * 1_000_000 / max(i.Tries, by[main])
	share = min(max(share, 10_000), 1_000_000) // less than a hundredth shows nothing in ten minutes
	_, line := worst.fault()
	id := fmt.Sprintf("incident-%s-%s", i.Service, i.From.UTC().Format("2006-01-02-1504"))
	fmt.Fprintf(&out, `apiVersion: breakwater/v1
kind: Scenario
id: %s
title: What happened to %s on %s
tags: [incident]
target: {service: %s, routes: [%s]}
sample: {percent: "%d.%04d%%", key: attempt, seed: auto}
phases: {baseline: 2m, inject: 5m, recover: 2m}
faults:
  - {id: %s, %s}
hypothesis:
  steady:
    - {id: s1, sli: %s.success, op: ">=", value: "99%%", min_requests: 100}
  during:
    - {id: d1, sli: %s.error_rate, op: "<=", value: "3%%"}
    - {id: d2, amplification: %s, op: "<=", value: 1.2}
  after:
    - {id: a1, sli: %s.success, op: ">=", value: "99%%", window: 1m, within: 5m}
stop:
  - {sli: %s.error_rate, op: ">", value: "20%%", for: 30s}
on_fail: {finding: {severity: high, owner: %s, due: 14d}}
`, id, i.Service, i.From.UTC().Format(time.DateOnly), i.Service, strings.Join(routes, ", "), share/10_000, share%10_000, main, line,
		i.Service, i.Service, i.Service, i.Service, i.Service, owner)
	return out.String(), nil
}
