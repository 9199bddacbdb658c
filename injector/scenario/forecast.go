package scenario

import (
	"math"
	"time"

	"breakwater/gateway/policy/fault"
)

// Forecast is what a run will most likely do, worked out from Facts. It warns and
// is shown; what a run proved is never read from it.
type Forecast struct {
	// Requests that match while injecting, and tries of them that are hit, at the
	// traffic of the last ten minutes.
	Requests, Hits int64
	// TryFailPPM is the share of tries that the faults make fail, FinalPPM that of
	// requests that fail for good, after retries and before any fallback.
	TryFailPPM, FinalPPM int64
	// AmplificationMilli is tries for each request, in thousandths.
	AmplificationMilli int64
	// UserFailPPM is FinalPPM where nothing stands in for a missing answer, else 0.
	UserFailPPM int64
	// Failures that users see, and the share of the budget that is; -1: not known.
	Failures, BudgetPPM int64
	// Users that meet at least one hit; -1: not known.
	Users int64
	// RowChance is that of the failures in a row which the breaker asks for.
	RowChance float64
}

// longest is the longest that a latency can be.
func longest(f fault.Fault) time.Duration {
	ms, d := f.LatencyMS, f.Delay
	if d != nil {
		ms = d.MS
		switch d.Dist {
		case "uniform":
			ms += d.JitterMS
		case "normal":
			ms += 3 * d.JitterMS // all but one in a thousand
		case "pareto":
			ms = d.CapMS
		case "table":
			ms = d.Table[len(d.Table)-1].MS
		}
		if d.CapMS > 0 {
			ms = min(ms, d.CapMS)
		}
	}
	if f.Side == fault.BothSides {
		ms *= 2
	}
	return time.Duration(ms) * time.Millisecond
}

// duty is the part of the time in which some fault of s is there.
func (s Scenario) duty() float64 {
	most := 0.0
	for _, f := range s.Faults {
		if f.Rule.EveryMS == 0 {
			return 1
		}
		most = max(most, float64(f.Rule.ForMS)/float64(f.Rule.EveryMS))
	}
	return most
}

// fails reports whether a try that is hit by f comes to nothing.
func (x Fault) fails(f Facts) bool {
	switch x.Rule.Kind {
	case fault.Error, fault.GRPC, fault.Drop, fault.Refuse, fault.Reset, fault.Blackhole:
		return true
	case fault.Truncate:
		return !x.Rule.Clean
	case fault.Latency:
		return f.PerTry > 0 && longest(x.Rule) > f.PerTry
	}
	return false
}

// Forecast works out what s will do.
func (s Scenario) Forecast(f Facts) Forecast {
	out := Forecast{Failures: -1, BudgetPPM: -1, Users: -1, AmplificationMilli: 1000}
	failing := false
	for _, x := range s.Faults {
		failing = failing || x.fails(f)
	}
	p := float64(s.Sample.PPM) / 1_000_000
	seconds := s.Phases.Inject.Seconds() - s.Sample.Ramp.Seconds()/2
	rate := f.rate(s.Target)
	out.Requests = int64(rate * max(seconds, 0))
	out.Hits = int64(rate * max(seconds, 0) * p * s.duty())
	if failing {
		final, tries := p, 1.0
		// Above the gate no retry is made at all, so none can help.
		if f.Retries > 0 && !(f.GatePPM > 0 && s.Sample.PPM > f.GatePPM) {
			final, tries = retried(p, f.Retries, s.Sample.Key)
		}
		out.TryFailPPM, out.FinalPPM = s.Sample.PPM, int64(math.Round(final*1_000_000))
		out.AmplificationMilli = int64(math.Round(tries * 1000))
		out.Hits = int64(float64(out.Hits) * tries)
		if !f.fallback(s.Target) {
			out.UserFailPPM = out.FinalPPM
		}
		if b := f.Breaker; b != nil && b.Row > 0 {
			out.RowChance = RowChance(final, b.Row, out.Requests)
		}
	}
	if rate > 0 {
		out.Failures = int64(float64(out.Requests) * float64(out.UserFailPPM) / 1_000_000)
		if b, ok := f.Budgets[s.Target.Service]; ok && b.Allowed > 0 {
			out.BudgetPPM = out.Failures * 1_000_000 / b.Allowed
		}
	}
	if t, ok := f.Traffic[s.Target.Service]; ok && len(t.Users) > 0 && t.Span > 0 {
		users := 0.0
		part := f.part(s.Target)
		for _, n := range t.Users {
			met := float64(n) * part * seconds / t.Span.Seconds()
			if s.Sample.Key == fault.KeyTenant {
				met = math.Min(met, 1) // hit wholly or not at all
			}
			users += 1 - math.Pow(1-p, met)
		}
		out.Users = int64(math.Ceil(users))
	}
	return out
}

// retried is the share of requests that fail for good and the tries each takes,
// where tries fail with the share p: anew for each try, or all of a request's alike.
func retried(p float64, retries int, key string) (final, tries float64) {
	if key != fault.KeyAttempt {
		return p, 1 + p*float64(retries)
	}
	for n := range retries + 1 {
		tries += math.Pow(p, float64(n))
	}
	return math.Pow(p, float64(retries+1)), tries
}

// rate is the target's traffic in requests a second; 0: not known.
func (f Facts) rate(t Target) float64 {
	if seen, ok := f.Traffic[t.Service]; ok && seen.Span > 0 {
		return float64(seen.Requests) / seen.Span.Seconds() * f.part(t)
	}
	return float64(f.RPSMilli) / 1000
}

// part is the share of the service's requests that go to the target's routes.
func (f Facts) part(t Target) float64 {
	seen := f.Traffic[t.Service]
	if len(t.Routes) == 0 || seen.Requests == 0 {
		return 1
	}
	return float64(seen.Matched) / float64(seen.Requests)
}

// aimed are the target's routes, as far as the documents have them.
func (f Facts) aimed(t Target) []Route {
	if len(t.Routes) == 0 {
		return f.Routes
	}
	var out []Route
	for _, r := range f.Routes {
		for _, name := range t.Routes {
			if r.Name == name {
				out = append(out, r)
			}
		}
	}
	return out
}

// fallback reports whether every route of the target has one.
func (f Facts) fallback(t Target) bool {
	all := f.aimed(t)
	for _, r := range all {
		if !r.Fallback && !r.NoFaults {
			return false
		}
	}
	return len(all) > 0
}
