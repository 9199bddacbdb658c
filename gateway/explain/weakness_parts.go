package explain

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

func (f *finder) route(r *config.Route) {
	at := func(path ...string) conf.Node { return f.place("Route", r.Name, path...) }
	show := conf.FormatDuration
	if !at("timeout").Present() {
		at("timeout").Warnf("is not given: a request may take %s, whatever its callers wait for", show(r.Timeout)).
			Hint("give each route the time after which nobody waits any more").Coded(NoTotal)
	}
	if r.Retry.Active() {
		if r.Retry.PerTry >= r.Timeout {
			at("retry", "per_try_timeout").Warnf("gives one try %s, and the whole request has %s: a slow try leaves no time for another", show(r.Retry.PerTry), show(r.Timeout)).
				Hint("at most %s leaves room for %d tries", show((r.Timeout / time.Duration(r.Retry.MaxRetries+1)).Truncate(time.Millisecond)), r.Retry.MaxRetries+1).Coded(TryOverTotal)
		}
		if r.Retry.After == retry.SignalOnly {
			at("retry", "retry_after_mode").Warnf("takes Retry-After for leave to ask again, and not for when: an upstream that asks for a pause gets none").
				Hint("retry_after_mode: wait").Coded(AfterIgnored)
		}
	}
	f.degrade(r, at)
	f.mirror(r, at("mirror", "upstream"))
	if r.Limit.Active() && r.Limit.Quota != "" && r.Limit.Rate.Tokens > 0 {
		// Rates are compared as tokens times the other's span: whole numbers.
		if q, ok := f.cfg.Quota(r.Limit.Quota); ok && r.Limit.Key == q.Key &&
			r.Limit.Rate.Tokens*int64(q.Rate.Per/time.Millisecond) > q.Rate.Tokens*int64(r.Limit.Rate.Per/time.Millisecond) {
			at("limit", "rate").Warnf("lets this gateway alone pass more than quota %s allows all of them: the bucket holds nothing back", q.Name).
				Hint("the share of one gateway, or no rate beside the quota").Coded(LimitAbove)
		}
	}
	for _, p := range []struct {
		field string
		on    bool
	}{{"retry", r.Retry.Active() && r.Retry.Observe}, {"degrade", r.Degrade.Observe}, {"limit", r.Limit.Active() && r.Limit.Observe}} {
		if p.on {
			f.observed(at(p.field, "observe"), p.field)
		}
	}
}

func (f *finder) observed(n conf.Node, what string) {
	n.Warnf("has %s count and decide, and do nothing: nobody is protected by it", what).Hint("observe: false, once its numbers are what they should be").Coded(OnlyObserved)
}

func (f *finder) degrade(r *config.Route, at func(...string) conf.Node) {
	d := r.Degrade
	methods := r.Match.Methods
	kept := len(methods) == 0 || slices.Contains(methods, "GET") || slices.Contains(methods, "HEAD")
	if d.Action == fallback.LastGood && !kept {
		at("degrade", "action").Warnf("keeps answers to GET and HEAD alone, and the route takes %s: there will never be a last good one", strings.Join(methods, ", ")).
			Hint("return_default has an answer from the start; fail_fast says honestly that there is none").Coded(NeverFilled)
	}
	if d.Action == "" || d.Action == fallback.PassThrough || d.OnFailure {
		return
	}
	s := f.serviceOf(r.Service)
	off := func(b breaker.Config) bool { return b.Disabled || b.Observe }
	if off(s.BreakerConfig()) && !s.Concurrency.Enabled() && !slices.ContainsFunc(f.behind(r.Service), func(u config.Upstream) bool { return !off(u.BreakerConfig()) || u.Ejection != nil }) {
		at("degrade").Warnf("answers while a breaker is open, and those of %s are switched off: it never will", r.Service).
			Hint("switch a breaker on, or degrade on: [failure] too").Coded(FallbackNever)
	}
}

func (f *finder) serviceOf(name string) config.Service {
	all := f.cfg.AllServices()
	return all[slices.IndexFunc(all, func(s config.Service) bool { return s.Name == name })]
}

// mirror: what an upstream answers to a copy nobody sees, but it acts on it.
func (f *finder) mirror(r *config.Route, at conf.Node) {
	if r.Mirror == nil {
		return
	}
	copies, _ := f.cfg.Upstream(r.Mirror.Upstream)
	for _, u := range f.cfg.Upstreams {
		if len(f.askers(u.Name)) == 0 {
			continue
		}
		for _, e := range u.Endpoints {
			if slices.ContainsFunc(copies.Endpoints, func(o config.Endpoint) bool { return o.Address == e.Address }) {
				at.Warnf("sends copies of requests to %s, which serves %s for real: each is done twice", e.Address, u.Name).
					Hint("mirror to endpoints that no route uses").Coded(MirrorLive)
				return
			}
		}
	}
}

func (f *finder) upstream(u *config.Upstream) {
	at := func(path ...string) conf.Node { return f.place("Upstream", u.Name, path...) }
	askers := f.askers(u.Name)
	if len(askers) == 0 {
		return // copies alone, or nothing at all
	}
	least, retries := time.Duration(0), false
	for _, r := range askers {
		per := r.Timeout
		if r.Retry.Active() {
			per, retries = min(per, r.Retry.PerTry), true
		}
		if least == 0 || per < least {
			least = per
		}
	}
	if u.ConnectTimeout >= least {
		at("connect_timeout").Warnf("is %s, and a try may take %s: that nobody listens is never told from that nobody answers, and no other endpoint is asked", conf.FormatDuration(u.ConnectTimeout), conf.FormatDuration(least)).
			Hint("connecting takes milliseconds where it works: a quarter of a try is plenty").Coded(SlowConnect)
	}
	if b := u.Budget(); retries && (b.Off || b.Kind != retry.Concurrency && b.RatioMilli >= 1000) {
		at("retry_budget").Warnf("lets every request be retried: when %s is down its load is multiplied at the worst time", u.Name).
			Hint("ratio: 0.2 is one retry for five requests").Coded(NoBudget)
	}
	if e := u.Ejection; e != nil && e.MaxPPM == 1_000_000 && len(u.Endpoints) > 1 {
		at("ejection", "max_percent").Warnf("lets all %d endpoints be thrown out at once: a fault of callers then takes %s away altogether", len(u.Endpoints), u.Name).
			Hint(`max_percent: "50%%"`).Coded(EjectAll)
	}
	b := u.BreakerConfig()
	f.breaker(&b, at, askers, u.Name)
	if u.Concurrency.Enabled() && u.Concurrency.Observe {
		f.observed(at("concurrency", "observe"), "concurrency")
	}
}

func (f *finder) service(s *config.Service) {
	at := func(path ...string) conf.Node { return f.place("Service", s.Name, path...) }
	routes, ups := f.routesOf(s.Name), f.behind(s.Name)
	if len(routes) == 0 {
		return
	}
	b := s.BreakerConfig()
	f.breaker(&b, at, routes, s.Name)
	if s.Core || s.Tier == 1 {
		for _, u := range ups {
			if len(u.Endpoints) == 1 {
				f.place("Upstream", u.Name, "endpoints").Warnf("is one alone, and %s is what users need: its restart is an outage, and a retry has nowhere to go", s.Name).
					Hint("two endpoints that do not share a machine").Coded(OneEndpoint)
			}
		}
	}
	if s.Concurrency.Enabled() && s.Concurrency.Observe {
		f.observed(at("concurrency", "observe"), "concurrency")
	}
	bounded := s.Concurrency.Enabled() || !slices.ContainsFunc(ups, func(u config.Upstream) bool { return !u.Concurrency.Enabled() })
	if !bounded && slices.ContainsFunc(routes, func(r *config.Route) bool { return !r.Limit.Active() && !r.NoFaults }) {
		at("concurrency").Warnf("is not given, and neither is a limit of its endpoints or routes: when %s slows down, all that comes waits, without end", s.Name).
			Hint("concurrency: {kind: vegas, max: 200} finds the number itself").Coded(Unlimited)
	}
	room := int64(0)
	for _, u := range ups {
		if u.Concurrency.Kind != concurrency.Fixed {
			return // moves by itself, or is not bounded
		}
		room += u.Concurrency.Max * int64(len(u.Endpoints))
	}
	if s.Concurrency.Kind == concurrency.Fixed && s.Concurrency.Max > room {
		at("concurrency", "max").Warnf("lets %d requests in, and the endpoints behind it take %d: the rest is let in only to be refused", s.Concurrency.Max, room).
			Hint("at most %d", room).Coded(LimitAbove)
	}
}

// breaker looks at what b sees, and how it lets calls in again.
func (f *finder) breaker(b *breaker.Config, at func(...string) conf.Node, routes []*config.Route, name string) {
	if b.Disabled {
		return
	}
	if b.Observe {
		f.observed(at("breaker", "observe"), "the breaker")
	}
	longest := time.Duration(0)
	for _, r := range routes {
		longest = max(longest, r.Timeout)
	}
	if b.SlowPPM > 0 && b.SlowAfter >= longest {
		at("breaker", "slow_after").Warnf("is %s, and no request of %s may take longer than %s: none is ever slow", conf.FormatDuration(b.SlowAfter), name, conf.FormatDuration(longest)).
			Hint("the time after which an answer is of no use to callers").Coded(SlowUnseen)
	}
	if !b.UnlistedFail || len(b.Ignore) > 0 {
		for _, status := range []int{500, 502, 503, 504} {
			if slices.Contains(b.Count, status) || b.UnlistedFail && !slices.Contains(b.Ignore, status) {
				continue
			}
			field := "count_statuses"
			if slices.Contains(b.Ignore, status) {
				field = "ignore_statuses"
			}
			at("breaker", field).Warnf("leaves %d out: %s may answer nothing else and the breaker stays closed", status, name).
				Hint("500, 502, 503 and 504 are how an upstream fails").Coded(BlindTo)
			break
		}
	}
	const crowd = 10
	if h := b.HalfOpen; h.Probes > crowd {
		at("breaker", "half_open", "probes").Warnf("lets %d calls try out %s while it recovers: what is just getting up is knocked down again", h.Probes, name).
			Hint("5 tell as much").Coded(ProbeStorm)
	}
}
