package main

import (
	"fmt"

	"breakwater/internal/demo"
)

// plantedKind is one kind of planted weakness: what is changed in a sound shop, and
// the name by which it must be found.
type plantedKind struct {
	kind string
	code string
	// by is where it can be found: in documents (validate), by documents and traffic
	// before a drill (preflight), or by a drill alone.
	by string
	// plant changes s, and says where.
	plant func(s *weakShop) string
	// scenario is the drill of the library that finds it, and target its service.
	scenario, target string
	// between is what stands before the service and does to requests or answers.
	between string
}

// What may stand between a gateway and a service.
const (
	renamesStatus = "renames a field of answers"
	dropsKey      = "drops the Idempotency-Key of requests"
	hidesFailures = "answers in the place of a service that fails, and does not say so"
)

const (
	byDocuments = "documents"
	byPreflight = "preflight"
	byDrill     = "drill"
)

// pickRoute is any route of s, or one of a method.
func (s *weakShop) pickRoute(method string) *shopDoc {
	for {
		if op := one(s.rnd, s.operations()...); method == "" || op.Method == method {
			return s.doc("Route", op.Route)
		}
	}
}

func (s *weakShop) pick(kind string) *shopDoc { return s.doc(kind, one(s.rnd, s.services()...)) }

// weaknesses are all kinds.
func weaknesses() []plantedKind {
	return []plantedKind{
		// Timeouts.
		{kind: "timeout inversion: the whole is shorter than its tries", code: "W-DEADLINE", by: byDocuments, plant: func(s *weakShop) string {
			return s.pickRoute("").set("timeout", ms(s.per*between(s.rnd, 11, 16)/10)).name
		}},
		{kind: "per-try timeout longer than the total", code: "W-PER-TRY", by: byDocuments, plant: func(s *weakShop) string {
			return s.pickRoute("").set("retry.per_try_timeout", ms(s.per*between(s.rnd, 5, 9))).name
		}},
		{kind: "no total timeout", code: "W-NO-TOTAL", by: byDocuments, plant: func(s *weakShop) string { return s.pickRoute("").drop("timeout").name }},
		{kind: "connecting may take as long as a try", code: "W-CONNECT", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Upstream").set("connect_timeout", ms(s.per*between(s.rnd, 10, 30)/10)).name
		}},
		// Retries.
		{kind: "nested retries", code: "W-AMPLIFICATION", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Upstream").set("retries_behind", fmt.Sprint(between(s.rnd, 1, 3))).name
		}},
		{kind: "too many retries", code: "W-RETRIES", by: byDocuments, plant: func(s *weakShop) string {
			n := between(s.rnd, 3, 5)
			return s.pickRoute("").set("retry.max_retries", fmt.Sprint(n)).set("timeout", ms((n+1)*s.per+10_000)).name
		}},
		{kind: "retry without budget", code: "W-BUDGET", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Upstream").set("retry_budget", one(s.rnd, "off", "{ratio: 1}", "{ratio: 5}")).name
		}},
		{kind: "Retry-After ignored", code: "W-RETRY-AFTER", by: byDocuments, plant: func(s *weakShop) string {
			return s.pickRoute("").set("retry.retry_after_mode", "signal_only").name
		}},
		{kind: "503 and 429 asked again without their condition", code: "W-ANNOTATE", by: byDocuments, plant: func(s *weakShop) string {
			return s.pickRoute("").set("conditions", "{secondary_mode: annotate, secondary: [{x_backend_status: overloaded}]}").name
		}},
		{kind: "a header value that HTTP never delivers", code: "W-BLANK", by: byDocuments, plant: func(s *weakShop) string {
			return s.pickRoute("").set("conditions", `{secondary: [{header_value_match: {key: X-Backend-Status, value: "overloaded "}}]}`).name
		}},
		// Breakers.
		{kind: "a breaker that wants a row of failures", code: "W-TRIP", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Service").drop("breaker.windows").set("breaker.rule", "dual").set("breaker.mode", "and").set("breaker.consecutive", fmt.Sprint(between(s.rnd, 40, 120))).name
		}},
		{kind: "a breaker blind to slow calls (slow only when over)", code: "W-SLOW", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Service").set("breaker.slow_after", ms(between(s.rnd, 20, 60)*1000)).name
		}},
		{kind: "a breaker blind to how the upstream fails", code: "W-BLIND", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Service").set("breaker.count_statuses", one(s.rnd, "[500, 502]", "[500, 502, 503]", "[502, 503, 504]")).name
		}},
		{kind: "half-open storm", code: "W-HALF-OPEN", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Service").set("breaker.half_open.probes", fmt.Sprint(between(s.rnd, 30, 100))).name
		}},
		{kind: "a breaker that only watches", code: "W-OBSERVE", by: byDocuments, plant: func(s *weakShop) string { return s.pick("Service").set("breaker.observe", "true").name }},
		{kind: "a fallback that only watches", code: "W-OBSERVE", by: byDocuments, plant: func(s *weakShop) string { return s.pickRoute("").set("degrade.observe", "true").name }},
		{kind: "a breaker that cannot trip at this traffic", code: "cannot_trip", by: byPreflight, scenario: "points-low-traffic-night", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).set("breaker.min_requests", fmt.Sprint(s.rps[demo.Points]*between(s.rnd, 8, 20))).name
		}},
		{kind: "a breaker that asks for more failures than there are", code: "cannot_trip", by: byPreflight, scenario: "points-half-open-pierce", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).set("breaker.error_rate", one(s.rnd, `"60%"`, `"75%"`, `"90%"`)).name
		}},
		{kind: "a breaker blind to slow calls (counts none)", code: "slow_blind", by: byPreflight, scenario: "points-slow-unseen", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).drop("breaker.slow_after").drop("breaker.slow_rate").name
		}},
		// Fallbacks.
		{kind: "missing fallback", code: "no_fallback", by: byPreflight, scenario: "points-slow-5s", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Route", "points-deduct").drop("degrade").name
		}},
		{kind: "a fallback that is a failure itself", code: "no_fallback", by: byPreflight, scenario: "inventory-conn-refused", target: demo.Inventory, plant: func(s *weakShop) string {
			return s.doc("Route", "inventory-get").drop("degrade").set("degrade", one(s.rnd, "{action: fail_fast}", "{action: pass_through}")).name
		}},
		{kind: "last_good never filled", code: "W-LAST-GOOD", by: byDocuments, plant: func(s *weakShop) string { return s.pickRoute("POST").set("degrade.action", "last_good").name }},
		{kind: "a fallback that nothing brings about", code: "W-FALLBACK-NEVER", by: byDocuments, plant: func(s *weakShop) string {
			name := one(s.rnd, s.services()...)
			s.doc("Upstream", name).set("breaker.enabled", "false")
			return s.doc("Service", name).drop("concurrency").drop("breaker").set("breaker.enabled", "false").name
		}},
		// Limits.
		{kind: "unlimited queue", code: "W-NO-LIMIT", by: byDocuments, plant: func(s *weakShop) string {
			name := one(s.rnd, s.services()...)
			s.doc("Upstream", name).drop("concurrency")
			return s.doc("Service", name).drop("concurrency").name
		}},
		{kind: "limiter above capacity", code: "W-LIMIT-ABOVE", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Service").set("concurrency", fmt.Sprintf("{kind: fixed, max: %d}", between(s.rnd, 3, 40)*100)).name
		}},
		{kind: "a bucket above the quota it is asked before", code: "W-LIMIT-ABOVE", by: byDocuments, plant: func(s *weakShop) string {
			q := s.add("breakwater/v1", "Quota", s.svc("tenants")).set("rate", "600/m").set("key", "tenant").set("replicas", "2").set("store", `{url: "redis://10.0.0.9:6379/0"}`)
			return s.pickRoute("").set("limit", fmt.Sprintf("{rate: %d/s, key: tenant, quota: %s}", between(s.rnd, 20, 90), q.name)).name
		}},
		// Endpoints and copies.
		{kind: "one endpoint only", code: "W-ONE-ENDPOINT", by: byDocuments, plant: func(s *weakShop) string {
			return s.doc("Upstream", one(s.rnd, demo.Order, till)).set("endpoints", fmt.Sprintf("[{address: \"10.%d.9.9:8080\"}]", s.n)).set("concurrency", "{kind: fixed, max: 2000}").name
		}},
		{kind: "every endpoint may be ejected", code: "W-EJECT", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("Upstream").set("ejection", fmt.Sprintf(`{after: %d, for: 10s, max_percent: "100%%"}`, between(s.rnd, 2, 9))).name
		}},
		{kind: "mirror to production", code: "W-MIRROR", by: byDocuments, plant: func(s *weakShop) string {
			other := s.svc(one(s.rnd, s.services()...))
			return s.pickRoute("").set("mirror", fmt.Sprintf(`{upstream: %s, percent: "%d%%"}`, other, between(s.rnd, 5, 100))).name
		}},
		// Promises and alerts.
		{kind: "an alert that cannot fire (switched off)", code: "W-ALERT-NEVER", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("SLO").set("metadata.annotations.breakwater/alerts", `"off"`).name
		}},
		{kind: "an alert that nobody hears", code: "W-ALERT-NEVER", by: byDocuments, plant: func(s *weakShop) string {
			return "no alert way of " + s.svc(one(s.rnd, s.services()...))
		}},
		{kind: "an alert that fires wrongly", code: "W-ALERT-WRONG", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("SLO").set("metadata.annotations.breakwater/guard", one(s.rnd, `"off"`, `"min_bad=1 z=0"`)).name
		}},
		{kind: "SLO unreachable: not one failure is allowed", code: "W-SLO-UNREACHABLE", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("SLO").set("spec.timeWindow", "[{duration: 1M, isRolling: false, calendar: {startTime: \"2026-01-01 00:00:00\", timeZone: UTC}}]").
				set("metadata.annotations.breakwater/planned-events", fmt.Sprintf(`"%d"`, between(s.rnd, 10, 90))).name
		}},
		{kind: "SLO of a service without routes", code: "W-SLO-NO-ROUTE", by: byDocuments, plant: func(s *weakShop) string {
			return s.pick("SLO").set("spec.service", s.svc("ordres")).name
		}},
		{kind: "what users need is promised nothing", code: "W-SLO-NONE", by: byDocuments, plant: func(s *weakShop) string {
			name := s.svc(one(s.rnd, demo.Order, till))
			for i, d := range s.docs {
				if d.kind == "SLO" && d.name == name {
					s.docs = append(s.docs[:i:i], s.docs[i+1:]...)
					break
				}
			}
			return name
		}},
		{kind: "nobody answers for a service", code: "no_owner", by: byPreflight, scenario: "points-slow-5s", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).drop("owner").name
		}},
		{kind: "no drill reaches what users use", code: "exempt", by: byPreflight, scenario: "points-slow-5s", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Route", "points-deduct").set("no_faults", "true").name
		}},
		// What only shows when it is tried.
		{kind: "retry on POST", code: "retry_unsafe", by: byDrill, scenario: "payment-lost-reply", target: till, plant: func(s *weakShop) string {
			return s.doc("Route", "payment-charge").set("idempotent", "true").drop("retry.error_rate_gate").name
		}},
		{kind: "asked again where that cannot help", code: "retry_hopeless", by: byDrill, scenario: "inventory-503-auth", target: demo.Inventory, plant: func(s *weakShop) string {
			return s.doc("Route", "inventory-get").set("require_signal_on_503", "false").drop("retry.error_rate_gate").name
		}},
		{kind: "a breaker that trusts a lucky probe", code: "flapping", by: byDrill, scenario: "points-half-open-pierce", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).set("breaker.half_open.probes", "1").set("breaker.half_open.pass_rate", `"10%"`).set("breaker.half_open.windows", "1").
				set("breaker.open", "1s").set("breaker.max_open", "1s").set("breaker.window", "2s").set("breaker.min_requests", "15").name
		}},
		{kind: "a breaker that stays open after all is well", code: "slow_recovery", by: byDrill, scenario: "points-half-open-pierce", target: demo.Points, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Points).set("breaker.open", ms(between(s.rnd, 5, 9)*60_000)).set("breaker.max_open", "30m").name
		}},
		{kind: "throttling taken for failure", code: "trips_wrongly", by: byDrill, scenario: "coupon-429-retry-after", target: demo.Coupon, plant: func(s *weakShop) string {
			return s.doc("Service", demo.Coupon).set("breaker.count_statuses", "[429, 500, 502, 503, 504]").set("breaker.error_rate", `"20%"`).name
		}},
		{kind: "key dropped on the way", code: "key_lost", by: byDrill, scenario: "order-lost-reply", target: demo.Order, between: dropsKey, plant: func(s *weakShop) string {
			return s.doc("Upstream", demo.Order).name // what stands before it drops it
		}},
		{kind: "fallback unmarked", code: "fallback", by: byDrill, target: demo.Inventory, between: hidesFailures, plant: func(s *weakShop) string {
			// The same substitute here and there, as teams agree on one; only ours has the mark.
			s.doc("Route", "inventory-get").set("degrade.action", "return_default")
			return s.doc("Upstream", demo.Inventory).name
		}},
		{kind: "header renamed on the way", code: "headers", by: byDrill, target: demo.Inventory, between: renamesStatus, plant: func(s *weakShop) string {
			return s.doc("Upstream", demo.Inventory).name // what stands before it renames, see weakDrills
		}},
	}
}
