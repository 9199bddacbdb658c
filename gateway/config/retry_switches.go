package config

import (
	"strings"
	"time"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

// readSwitches reads what the retry of a route may say beside the six fields.
func readSwitches(m *conf.Map, own *policy) {
	cfg := &own.cfg
	cfg.Jitter = retry.Jitter(m.Get("jitter").Enum(string(cfg.Jitter),
		string(retry.AdditiveBase), string(retry.Proportional), string(retry.Full), string(retry.Decorrelated)))
	longest := m.Get("max_backoff")
	cfg.MaxBackoff = longest.Duration(cfg.MaxBackoff, time.Millisecond, 10*time.Minute)
	if cfg.MaxBackoff > 0 && cfg.MaxBackoff < cfg.BackoffBase {
		longest.Errorf("must be at least backoff_base (%s), got %s", conf.FormatDuration(cfg.BackoffBase), longest.Got())
	}
	cfg.MaxRetryAfter = m.Get("max_retry_after").Duration(cfg.MaxRetryAfter, time.Millisecond, time.Hour)
	cfg.After = retry.AfterMode(m.Get("retry_after_mode").Enum(string(cfg.After), string(retry.Wait), string(retry.SignalOnly)))
	cfg.OnConnect = retry.OnConnect(m.Get("on_connect_timeout").Enum(string(cfg.OnConnect), string(retry.OtherHost), string(retry.Never)))
	cfg.StatusHeader = headerName(m.Get("backend_status_header"), "X-Backend-Status")
	if cfg.StatusHeader == "X-Backend-Status" {
		cfg.StatusHeader = ""
	}
	cfg.ReplayCap = int(m.Get("replay_cap").Size(int64(cfg.ReplayCap), 1<<10, 16<<20))
	cfg.Observe, _ = m.Get("observe").Bool(false)
	if gate := m.Get("error_rate_gate"); gate.Present() {
		cfg.Gate = parseGate(gate)
	}
	tenants := m.Get("tenants")
	if !tenants.Present() {
		return
	}
	cfg.Tenants = map[string]retry.Tenant{}
	for _, e := range tenants.Entries() {
		if e.Key == "" || len(e.Key) > 64 || strings.ContainsFunc(e.Key, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' }) {
			e.Value.Errorf("must be under a tenant's name of 1 to 64 plain characters, got %q", e.Key)
			continue
		}
		tm := e.Value.Map()
		base := tm.Need("backoff_base")
		if d, ok := duration(base, 0); ok && d > 0 {
			cfg.Tenants[e.Key] = retry.Tenant{BackoffBase: d}
			own.tenants = append(own.tenants, conf.Entry{Key: e.Key, Value: base})
		}
		tm.Done()
	}
}

// parseGate reads off, a share such as "5%", or a map.
func parseGate(n conf.Node) retry.ErrorGate {
	g := retry.ErrorGate{MinCount: 20}
	if !n.IsMap() {
		if n.Got() == "off" {
			return retry.ErrorGate{}
		}
		if g.MaxPPM = n.PPM(1); g.MaxPPM == 0 {
			n.Errorf("must be off, or more than 0%%, got %s", n.Got())
		}
		return g
	}
	m := n.Map()
	most := m.Get("threshold")
	if g.MaxPPM = most.PPM(50_000); g.MaxPPM == 0 {
		most.Errorf("must be more than 0%%, got %s", most.Got()).Hint("to switch the gate off: error_rate_gate: off")
	}
	g.MinCount = m.Get("min_requests").Int(20, 1, 1_000_000)
	g.Inclusive = m.Get("shuts").Enum("over", "over", "at") == "at"
	m.Done()
	return g
}

// Budget is the retry budget in force.
func (u Upstream) Budget() retry.BudgetConfig {
	if u.RetryBudget != nil {
		return *u.RetryBudget
	}
	return retry.DefaultBudget()
}

// upstreamRetry reads what an upstream says of retries.
func (p *parser) upstreamRetry(m *conf.Map, u *Upstream) {
	ours, theirs, behind := m.Get("retry_budget"), m.Get("retryBudget"), m.Get("retries_behind")
	if ours.Present() && theirs.Present() {
		theirs.Errorf("must not stand beside retry_budget, got both").Coded("E-BUDGET")
	}
	if !ours.Present() {
		ours = theirs
	}
	u.RetryBudget = parseBudget(ours)
	u.RetriesBehind = behind.Int(0, 0, 20)
	p.behind = append(p.behind, behind)
}

// parseBudget reads off, a map of ours, or one of a Linkerd ServiceProfile; nil
// where there is none.
func parseBudget(n conf.Node) *retry.BudgetConfig {
	switch {
	case !n.Present():
		return nil
	case n.Got() == "off":
		b := retry.DefaultBudget()
		b.Off = true
		return &b
	case !n.IsMap():
		n.Errorf("must be off or a map, got %s", n.Got())
		return nil
	}
	m := n.Map()
	b := retry.DefaultBudget()
	if kind := m.Get("kind").Enum("ratio", "ratio", "concurrency"); kind == "concurrency" {
		b = retry.DefaultConcurrency()
		b.RatioMilli = m.Get("ratio").Decimal(b.RatioMilli, 3, 0, 1_000_000)
		b.MinActive = m.Get("min_concurrency").Int(b.MinActive, 0, 10_000)
		m.Done()
		return &b
	}
	ratio, floor := either(m, "ratio", "retryRatio"), either(m, "min_per_second", "minRetriesPerSecond")
	b.RatioMilli = ratio.Decimal(b.RatioMilli, 3, 0, 1_000_000)
	b.MinPerSec = floor.Int(b.MinPerSec, 0, 100_000)
	b.TTL = m.Get("ttl").Duration(b.TTL, time.Second, time.Minute)
	b.Sum = m.Get("floor_mode").Enum("max", "max", "sum") == "sum"
	b.OnSuccess = m.Get("deposit").Enum("arrival", "arrival", "success") == "success"
	m.Done()
	return &b
}

// either takes the field by the one name or the other.
func either(m *conf.Map, ours, theirs string) conf.Node {
	a, b := m.Get(ours), m.Get(theirs)
	if a.Present() && b.Present() {
		b.Errorf("must not stand beside %s, got both", ours).Coded("E-BUDGET")
	}
	if a.Present() {
		return a
	}
	return b
}

// bareBudget reads a file that holds only a retryBudget: that of upstreams without
// one of their own.
func (p *parser) bareBudget(root conf.Node) {
	m := root.Map()
	at := m.Get("retryBudget")
	b := parseBudget(at)
	m.Done()
	p.late = append(p.late, func() {
		for i := range p.cfg.Upstreams {
			if p.cfg.Upstreams[i].RetryBudget == nil {
				p.cfg.Upstreams[i].RetryBudget = b
			}
		}
	})
}
