package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/retry"
)

// simulation runs a request against the answers of a sample. It keeps the time;
// what follows a try, and when, the serving engine decides.
type simulation struct {
	sample    *Sample
	policy    retry.Config
	endpoints int
	tenant    string
	total     time.Duration // there is for the request
	inbound   int           // retries of the path above
	notes     []string
}

// call is one try of a simulation.
type call struct {
	begins, wait time.Duration
	facts        retry.Facts
	cut          bool // by the deadline of the whole request
	decision     retry.Decision
	steps        []retry.Step
	skip         string
}

// outcome is what a simulation comes to.
type outcome struct {
	calls        []call
	reason, skip string
	status       int
	origin       string
	degraded     string
	ends         time.Duration
}

func newSimulation(cfg *config.Config, r config.Route, endpoints int, s *Sample) *simulation {
	m := &simulation{sample: s, policy: r.Retry, endpoints: endpoints, total: r.Timeout, tenant: s.Headers.Get(cfg.Gateway.TenantHeader)}
	trusted := true
	if peer, err := netip.ParseAddr(s.Peer); err == nil {
		trusted = slices.ContainsFunc(cfg.Gateway.TrustedPeers, func(p netip.Prefix) bool { return p.Contains(peer.Unmap()) })
	}
	m.inbound = exchange.RetryCount(s.Headers.Get("Retry-Count"))
	deadline, told := milliseconds(s.Headers.Get("X-Breakwater-Deadline-Ms"))
	if !trusted && (m.inbound > 0 || told) {
		m.note("%s is not a trusted peer: its Retry-Count and deadline are not believed", s.Peer)
		m.inbound, told = 0, false
	}
	if told {
		m.total = min(m.total, deadline)
	}
	if s.DeadlineMS > 0 {
		m.total = min(m.total, time.Duration(s.DeadlineMS)*time.Millisecond)
	}
	return m
}

func milliseconds(v string) (time.Duration, bool) {
	n, err := strconv.ParseUint(v, 10, 31)
	return time.Duration(n) * time.Millisecond, err == nil
}

func (m *simulation) note(format string, args ...any) {
	m.notes = append(m.notes, fmt.Sprintf(format, args...))
}

// base is the first wait of the request's tenant.
func (m *simulation) base() time.Duration {
	if own, ok := m.policy.Tenants[m.tenant]; ok && own.BackoffBase > 0 {
		return own.BackoffBase
	}
	return m.policy.BackoffBase
}

// run makes the tries, the dice always showing rand.
func (m *simulation) run(rand float64) (o outcome) {
	if m.total <= 0 { // nobody waits any more: nothing is sent
		return outcome{status: 504, origin: "gateway", skip: retry.SkipDeadline}
	}
	now, wait, held := time.Duration(0), time.Duration(0), 0
	for n := 0; ; n++ {
		c := call{begins: now, wait: wait}
		c.facts, c.cut = m.try(n, now, wait)
		now += c.facts.Took
		c.decision, c.steps = retry.Explain(m.policy, c.facts, rand)
		c.skip = c.decision.Skip
		if m.policy.Observe && c.decision.Retry {
			c.skip = retry.SkipObserved
		}
		o.calls = append(o.calls, c)
		if c.facts.Kind == "" {
			held = c.facts.Status
		}
		if c.skip != "" || !c.decision.Retry {
			m.end(&o, c, held)
			if c.skip == retry.SkipBudget { // asked for when the retry would be sent
				f := c.facts
				f.BudgetEmpty = false
				now += retry.Decide(m.policy, f, rand).Wait
			}
			o.ends = now
			return o
		}
		if o.reason == "" {
			o.reason = c.decision.Reason
		}
		wait = c.decision.Wait
		now += wait
	}
}

// end is what the client gets: the last answer that any upstream gave, else what
// stands for the failure, or what the policy puts in its place.
func (m *simulation) end(o *outcome, last call, held int) {
	o.skip = last.skip
	o.status, o.origin = last.facts.StatusOf(), "gateway"
	if held != 0 {
		o.status, o.origin = held, "upstream"
	}
	if last.decision.Fallback == retry.Return503 && !m.policy.Observe {
		o.status, o.origin, o.degraded = 503, "gateway", string(retry.Return503)
	}
}

// try is how try n ends that begins at now, wait after the one before.
func (m *simulation) try(n int, now, wait time.Duration) (f retry.Facts, cut bool) {
	s, reply := m.sample, m.sample.reply(n)
	replay := int64(m.policy.ReplayCap)
	if replay == 0 {
		replay = retry.DefaultReplayCap
	}
	f = retry.Facts{
		Retries: n, Kind: exchange.Kind(reply.Failure), Unprocessed: reply.Unprocessed, Method: s.method(), Tenant: m.tenant,
		HasKey: s.Headers.Get("Idempotency-Key") != "", Replayable: s.BodyBytes >= 0 && s.BodyBytes <= replay,
		InboundRetries: m.inbound, LastWait: wait, TooManyErrors: s.ErrorRateHigh, BudgetEmpty: s.BudgetEmpty,
		OtherHost: n+1+len(s.Tried) < m.endpoints, HasDeadline: true,
	}
	left := m.total - now
	most := min(positive(m.policy.PerTry, left), left)
	if late, can := m.cutAfter(f); can {
		most = min(most, late)
	}
	f.Took = time.Duration(reply.LatencyMS) * time.Millisecond
	if f.Took >= most || f.Kind == exchange.TryTimeout {
		f.Kind, f.Took, f.Unprocessed, cut = exchange.TryTimeout, most, false, most == left
	}
	f.Remaining, f.Now = left-f.Took, s.now().Add(now+f.Took)
	if f.Kind == "" {
		f.Status, f.Head = reply.Status, reply.Headers.Head()
		f.Body, f.BodyHidden = body(reply)
	}
	return f, cut
}

// cutAfter is when a try is cut because a rule takes slowness for a failure and a
// retry may follow: whether it may, the engine is asked as for a try that timed out.
func (m *simulation) cutAfter(f retry.Facts) (late time.Duration, cut bool) {
	most := 0
	for _, r := range m.policy.Rules {
		if r.Primary.Trigger != retry.LatencyExceeds {
			continue
		}
		if late == 0 || r.Primary.Longer < late {
			late = r.Primary.Longer
		}
		if r.Action == retry.Retry || r.Action == "" {
			limit := m.policy.MaxRetries
			if r.MaxRetries > 0 {
				limit = min(limit, r.MaxRetries)
			}
			most = max(most, limit)
		}
	}
	if late == 0 || m.policy.Observe {
		return 0, false
	}
	ask := m.policy
	ask.Rules, ask.OnStatus, ask.MaxRetries = nil, []int{504}, most
	f.Kind, f.HasDeadline, f.OtherHost = exchange.TryTimeout, false, true
	return late, retry.Decide(ask, f, 0).Retry
}

// body is what body_contains would see of an answer.
func body(r Reply) (text []byte, hidden string) {
	kind, coding := r.Headers.Get("Content-Type"), r.Headers.Get("Content-Encoding")
	switch {
	case strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/grpc"):
		return nil, "body_is_stream"
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return nil, "body_is_encoded"
	}
	return []byte(r.Body[:min(len(r.Body), retry.PeekBody)]), ""
}

func positive(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

// fields is a head as contracts ask for it.
type fields struct{ head *exchange.Head }

// Holds reports whether a field called name is there, with value where that is
// not empty.
func (f fields) Holds(name, value string) bool {
	return slices.ContainsFunc(f.head.Fields(), func(field exchange.Field) bool {
		return strings.EqualFold(field.Name, name) && (value == "" || field.Value == value)
	})
}

// base is an upstream's own name, whatever subset of it is spoken of.
func base(upstream string) string {
	name, _, _ := strings.Cut(upstream, "/")
	return name
}
