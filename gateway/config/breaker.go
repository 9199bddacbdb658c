package config

import (
	"slices"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/conf"
)

// bareBreakerKeys are the fields of a circuitbreaker file as service meshes keep
// them in etcd: JSON in camel case, without a head.
func bareBreakerKeys() []string {
	return []string{
		"windowSeconds", "bucketSizeMs", "errorRateThreshold", "minRequestCount", "openRecoverySeconds",
		"halfOpenMaxCalls", "degradeAction", "countErrorStatusCodes", "ignoreStatusCodes",
	}
}

// isBareBreaker reports whether one of those fields stands in n.
func isBareBreaker(n conf.Node) bool {
	return n.IsMap() && slices.ContainsFunc(n.Map().Keys(), func(k string) bool { return slices.Contains(bareBreakerKeys(), k) })
}

// parseBreaker reads the breaker of a service or of endpoints, in our form or in
// that of a circuitbreaker file. What is absent is as in def. degrade is where the
// latter says what is answered while it is open.
func parseBreaker(n conf.Node, def breaker.Config) (cfg breaker.Config, degrade conf.Node) {
	if !n.Present() {
		return def, degrade
	}
	if isBareBreaker(n) {
		return bareBreaker(n, def)
	}
	p := breakerParser{m: n.Map(), cfg: def}
	if !n.IsMap() {
		return def, degrade
	}
	enabled, _ := p.m.Get("enabled").Bool(true)
	p.cfg.Disabled = !enabled
	p.cfg.Observe, _ = p.m.Get("observe").Bool(false)
	p.rule()
	p.window()
	p.slow()
	p.open()
	p.trial()
	p.outcomes()
	p.m.Done()
	return p.cfg, degrade
}

type breakerParser struct {
	m   *conf.Map
	cfg breaker.Config
}

const longestWindow = 10 * time.Minute

// rule reads what makes it trip.
func (p *breakerParser) rule() {
	c := &p.cfg
	c.Rule = breaker.Rule(p.m.Get("rule").Enum(string(breaker.Windows), string(breaker.Windows), string(breaker.Dual)))
	windows, kind := p.m.Get("windows"), p.m.Get("two_windows")
	mode, row, rate := p.m.Get("mode"), p.m.Get("consecutive"), p.m.Get("error_rate")
	c.Windows = windows.Int(c.Windows, 1, 2)
	c.Sliding = kind.Enum("tumbling", "tumbling", "sliding") == "sliding"
	c.Mode = breaker.Mode(mode.Enum("", string(breaker.And), string(breaker.Or)))
	c.Consecutive = row.Int(0, 1, 100_000)
	c.ErrorPPM = rate.PPM(c.ErrorPPM)
	const only = "must not stand with rule: %s, got %s"
	if c.Rule == breaker.Windows {
		for _, n := range []conf.Node{mode, row} {
			if n.Present() {
				n.Errorf(only, c.Rule, n.Got()).Hint("failures in a row belong to rule: dual")
			}
		}
		if kind.Present() && c.Windows != 2 {
			kind.Errorf("must not stand with windows: 1, got %s", kind.Got())
		}
		if c.ErrorPPM == 0 {
			rate.Errorf("must be more than 0%%, got %s", rate.Got()).Hint("to switch the breaker off, set enabled: false")
		}
		c.Mode, c.Consecutive = "", 0
	} else {
		for _, n := range []conf.Node{windows, kind} {
			if n.Present() {
				n.Errorf(only, c.Rule, n.Got()).Hint("it has one sliding window")
			}
		}
		c.Windows, c.Sliding, c.Window, c.Above = 0, false, 30*time.Second, true
		p.dual(mode, row, rate)
	}
	above := p.m.Get("threshold")
	standard := "reach"
	if c.Above {
		standard = "exceed"
	}
	c.Above = above.Enum(standard, "reach", "exceed") == "exceed"
	if c.Above && c.ErrorPPM == 1_000_000 {
		rate.Errorf("must be less than 100%% where the threshold is to be exceeded, got %s", rate.Got()).
			Hint("it could never trip; threshold: reach trips at it")
	}
}

func (p *breakerParser) dual(mode, row, rate conf.Node) {
	c := &p.cfg
	if !mode.Present() {
		mode.Errorf(`must be given: "and" or "or"`).Coded("E-MODE").
			Hint("with and, half of all calls failing at random hardly ever make so many in a row; with or, the row alone trips")
	}
	if !row.Present() {
		row.Errorf("must be given").Coded("E-MISSING")
	}
	if !rate.Present() {
		c.ErrorPPM = 0
	}
	if c.Mode == breaker.And && c.ErrorPPM == 0 {
		rate.Errorf("must be more than 0%% with mode: and, got %s", rate.Got())
	}
	if c.Mode == breaker.And && c.Consecutive > 20 {
		row.Warnf("is a row that half of all calls failing at random never make").
			Hint("it trips only where nearly everything fails; rule: windows trips by the share alone").Coded("W-TRIP")
	}
}

func (p *breakerParser) window() {
	c := &p.cfg
	window, bucket := p.m.Get("window"), p.m.Get("bucket")
	c.Window = window.Duration(c.Window, time.Second, longestWindow)
	c.Bucket = bucket.Duration(c.Bucket, 200*time.Millisecond, time.Minute)
	checkBuckets(window, bucket, c)
	c.MinRequests = p.m.Get("min_requests").Int(c.MinRequests, 1, 1_000_000)
}

func checkBuckets(window, bucket conf.Node, c *breaker.Config) {
	at := bucket
	if !at.Present() {
		at = window
	}
	switch {
	case c.Window%c.Bucket != 0:
		at.Errorf("must make a whole number of buckets: a window of %s has no whole number of %s",
			conf.FormatDuration(c.Window), conf.FormatDuration(c.Bucket)).Coded("E-BUCKET")
	case c.Window/c.Bucket > 600:
		at.Errorf("must make at most 600 buckets, got %d", c.Window/c.Bucket).Coded("E-BUCKET")
	}
}

func (p *breakerParser) slow() {
	c := &p.cfg
	after, rate := p.m.Get("slow_after"), p.m.Get("slow_rate")
	c.SlowAfter = after.Duration(0, 10*time.Millisecond, 10*time.Minute)
	c.SlowPPM = rate.PPM(0)
	switch {
	case after.Present() && !rate.Present():
		after.Errorf("must stand beside a slow_rate, got none").Hint(`such as slow_rate: "50%%"`)
	case rate.Present() && !after.Present():
		rate.Errorf("must stand beside a slow_after, got none").Hint("such as slow_after: 2s")
	case rate.Present() && c.SlowPPM == 0:
		rate.Errorf("must be more than 0%%, got %s", rate.Got())
	}
}

func (p *breakerParser) open() {
	c := &p.cfg
	most := p.m.Get("max_open")
	c.OpenFor = p.m.Get("open").Duration(c.OpenFor, 100*time.Millisecond, time.Hour)
	c.MaxOpen = most.Duration(max(c.MaxOpen, c.OpenFor), 100*time.Millisecond, 24*time.Hour)
	if c.MaxOpen < c.OpenFor {
		most.Errorf("must be at least open (%s), got %s", conf.FormatDuration(c.OpenFor), most.Got())
	}
	c.Decay = p.m.Get("level_decay").Duration(c.Decay, time.Second, time.Hour)
}

// trial reads how it is tried out: a preset's name, or what differs from it.
func (p *breakerParser) trial() {
	n := p.m.Get("half_open")
	h := &p.cfg.HalfOpen
	if n.Present() && !n.IsMap() {
		h.Simple = n.Enum("paced", "paced", "simple") == "simple"
		return
	}
	m := n.Map()
	h.Simple = m.Get("preset").Enum("paced", "paced", "simple") == "simple"
	h.Probes = m.Get("probes").Int(h.Probes, 1, 100)
	h.Stuck = m.Get("stuck").Duration(h.Stuck, time.Second, 10*time.Minute)
	window, share, strict, windows := m.Get("window"), m.Get("pass_rate"), m.Get("pass"), m.Get("windows")
	h.Window = window.Duration(h.Window, time.Second, 5*time.Minute)
	h.PassPPM = share.PPM(h.PassPPM)
	h.PassAbove = strict.Enum("reach", "reach", "exceed") == "exceed"
	h.PassWindows = windows.Int(h.PassWindows, 1, 100)
	if h.PassPPM == 0 || h.PassAbove && h.PassPPM == 1_000_000 {
		share.Errorf("must be more than 0%%, and less than 100%% where it is to be exceeded, got %s", share.Got())
	}
	for _, of := range []conf.Node{window, share, strict, windows} {
		if h.Simple && of.Present() {
			of.Errorf("must not stand with preset: simple, got %s", of.Got()).Hint("there all probes go at once, and all must succeed")
		}
	}
	m.Done()
}

func (p *breakerParser) outcomes() {
	c := &p.cfg
	count, ignore := p.m.Get("count_statuses"), p.m.Get("ignore_statuses")
	c.Count, c.Ignore = breakerStatuses(count, c.Count), breakerStatuses(ignore, c.Ignore)
	disjoint(count, ignore, c)
	c.UnlistedFail = p.m.Get("unlisted_5xx").Enum("success", "success", "failure") == "failure"
	header, read := p.m.Get("outcome_header"), p.m.Get("read_outcome")
	c.OutcomeHeader = headerName(header, c.OutcomeHeader)
	if wanted, written := read.Bool(true); written && !wanted {
		if header.Present() {
			header.Errorf("must not stand with read_outcome: false, got %s", header.Got())
		}
		c.OutcomeHeader = ""
	}
}

func breakerStatuses(n conf.Node, def []int) []int {
	if !n.Present() {
		return def
	}
	out := []int{}
	for _, item := range n.List() {
		switch v := int(item.Int(0, 100, 599)); {
		case v == 0:
		case slices.Contains(out, v):
			item.Errorf("must stand once, got %d again", v)
		default:
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// disjoint: a status cannot be a failure and nothing at once. The list that is
// written gives way to no default.
func disjoint(count, ignore conf.Node, c *breaker.Config) {
	for _, s := range c.Ignore {
		if !slices.Contains(c.Count, s) {
			continue
		}
		switch {
		case ignore.Present() && count.Present():
			ignore.Errorf("must not hold %d, which is counted", s)
		case ignore.Present():
			c.Count = slices.DeleteFunc(slices.Clone(c.Count), func(v int) bool { return v == s })
		}
	}
	if count.Present() && !ignore.Present() {
		c.Ignore = slices.DeleteFunc(slices.Clone(c.Ignore), func(v int) bool { return slices.Contains(c.Count, v) })
	}
}

// bareBreaker reads a circuitbreaker file. It knows one way to be tried out: some
// calls at once.
func bareBreaker(n conf.Node, def breaker.Config) (cfg breaker.Config, degrade conf.Node) {
	m, c := n.Map(), def
	seconds := func(at conf.Node, def time.Duration, most int64) time.Duration {
		return time.Duration(at.Int(int64(def/time.Second), 1, most)) * time.Second
	}
	window, bucket := m.Get("windowSeconds"), m.Get("bucketSizeMs")
	c.Window = seconds(window, c.Window, int64(longestWindow/time.Second))
	c.Bucket = time.Duration(bucket.Int(c.Bucket.Milliseconds(), 200, 60_000)) * time.Millisecond
	checkBuckets(window, bucket, &c)
	c.ErrorPPM = m.Get("errorRateThreshold").Decimal(c.ErrorPPM, 6, 1, 1_000_000)
	c.MinRequests = m.Get("minRequestCount").Int(c.MinRequests, 1, 1_000_000)
	c.OpenFor = seconds(m.Get("openRecoverySeconds"), c.OpenFor, 3600)
	c.MaxOpen = max(c.MaxOpen, c.OpenFor)
	if calls := m.Get("halfOpenMaxCalls"); calls.Present() {
		c.HalfOpen.Simple = true
		c.HalfOpen.Probes = calls.Int(c.HalfOpen.Probes, 1, 100)
	}
	count, ignore := m.Get("countErrorStatusCodes"), m.Get("ignoreStatusCodes")
	c.Count, c.Ignore = breakerStatuses(count, c.Count), breakerStatuses(ignore, c.Ignore)
	disjoint(count, ignore, &c)
	degrade = m.Get("degradeAction")
	m.Done()
	return c, degrade
}

// meshDegrade reads the degradeAction of a circuitbreaker file: a type, and for
// return_default the value that is answered as JSON.
func meshDegrade(n conf.Node) fallback.Config {
	m := n.Map()
	c := fallback.Config{OnOpen: true, Action: fallback.Action(m.Need("type").Enum("",
		string(fallback.ReturnDefault), string(fallback.LastGood), string(fallback.FailFast)))}
	value := m.Get("value")
	switch {
	case c.Action != fallback.ReturnDefault:
	case !value.Present():
		value.Errorf("must be given with type: return_default").Coded("E-MISSING")
	default:
		c.Default = fallback.Answer{
			Status: 200, Body: value.JSON(), Head: []exchange.Field{{Name: "Content-Type", Value: "application/json"}},
		}
		if len(c.Default.Body) > maxDefault {
			value.Errorf("must have at most %d KiB, got %d bytes", maxDefault>>10, len(c.Default.Body))
		}
	}
	m.Done()
	return c
}
