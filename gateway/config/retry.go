package config

import (
	"slices"
	"strings"
	"time"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

const (
	codeEnabled = "E-ENABLED"
	textEnabled = "must be given, true or false"
)

// sixKeys are the fields of a ponytail file.
func sixKeys() []string {
	return []string{"enabled", "max_retries", "per_try_timeout", "retry_on_status", "backoff_base", "fallback_strategy"}
}

// policy is a retry policy as it was read, with the places that are spoken of when
// all that belongs to it is known.
type policy struct {
	cfg       retry.Config
	per, base conf.Node
	perOK     bool // both times are well written
	list      conf.Node
	wants429  conf.Node // the 429 in the list
	tenants   []conf.Entry
	class     bool // per is the route's own, for its class of requests
}

// barePonytail reads a file of the six keys: the policy of routes without one.
func (p *parser) barePonytail(root conf.Node) {
	if p.ponytail != nil {
		root.Errorf("must be the only retry policy without a route, got another").
			Hint("the first stands at %s:%d", p.ponytailAt.File(), p.ponytailAt.Line())
	}
	own := parseSix(root)
	p.ponytail, p.ponytailAt = &own, root
	p.late = append(p.late, func() { p.checkTimes(&own) })
}

// parseSix reads the six fields and nothing else.
func parseSix(n conf.Node) policy {
	if !n.IsMap() {
		return policy{}
	}
	m := n.Map()
	own := readSix(m, retry.Ponytail(), true)
	foreign(m)
	m.Done()
	return own
}

// parseRetry reads the retry of a route: the name of a preset, or the six fields
// and what may be switched beside them.
func parseRetry(n conf.Node) policy {
	if !n.IsMap() {
		cfg, _ := retry.Preset(n.Enum("ponytail", retry.Presets()...))
		return policy{cfg: cfg, per: n, base: n, perOK: true, list: n}
	}
	m := n.Map()
	preset := m.Get("preset")
	from, _ := retry.Preset(preset.Enum("ponytail", retry.Presets()...))
	own := readSix(m, from, !preset.Present())
	readSwitches(m, &own)
	foreign(m)
	m.Done()
	return own
}

// foreign tells where conditions belong that are written among the six keys, as the
// text itself has them once.
func foreign(m *conf.Map) {
	for _, key := range m.Keys() {
		if slices.Contains(triggers(), key) {
			m.Get(key).Errorf("must be a known field, got %s", key).Hint("conditions stand beside the policy: conditions: {secondary: [{%s: ...}]}", key).Coded("E-UNKNOWN")
		}
	}
}

// readSix reads the six fields. One that is absent has the value of from, and is
// warned of where strict.
func readSix(m *conf.Map, from retry.Config, strict bool) policy {
	own := policy{cfg: from, per: m.Get("per_try_timeout"), base: m.Get("backoff_base"), list: m.Get("retry_on_status")}
	cfg := &own.cfg
	switch enabled := m.Get("enabled"); {
	case !enabled.Present() && strict:
		enabled.Errorf(textEnabled).Hint("without it a policy is on").Coded(codeEnabled)
	case !enabled.Present():
	case enabled.IsBool():
		cfg.Enabled, _ = enabled.Bool(true)
	default:
		enabled.Errorf("must be true or false, got %s", enabled.Got()).Coded(codeEnabled)
	}
	for _, key := range sixKeys()[1:] {
		if at := m.Get(key); !at.Present() && cfg.Enabled && strict {
			at.Warnf("is not given: %s holds", defaultOf(key)).Coded("W-MISSING")
		}
	}
	retries := m.Get("max_retries")
	cfg.MaxRetries = int(retries.Int(int64(cfg.MaxRetries), 0, 5))
	if cfg.MaxRetries > 2 {
		retries.Warnf("is more than 2: when the upstream is down, %d calls come for each request", cfg.MaxRetries+1).Coded("W-RETRIES")
	}
	perOK, baseOK := true, true
	cfg.PerTry, perOK = duration(own.per, cfg.PerTry)
	cfg.BackoffBase, baseOK = duration(own.base, cfg.BackoffBase)
	own.perOK = perOK && baseOK
	if own.list.Present() {
		cfg.OnStatus, own.wants429 = statuses(own.list)
	}
	cfg.Fallback = strategyOf(m.Get("fallback_strategy"), cfg.Fallback)
	return own
}

func strategyOf(n conf.Node, def retry.Strategy) retry.Strategy {
	return retry.Strategy(n.Enum(string(def), string(retry.PassThrough), string(retry.Return503)))
}

// duration reads a time; ok is false where it is mistaken, so that it is not
// compared with another.
func duration(n conf.Node, def time.Duration) (d time.Duration, ok bool) {
	if !n.Present() {
		return def, true
	}
	d = n.Duration(0, time.Millisecond, 10*time.Minute)
	return d, d != 0
}

func defaultOf(key string) string {
	switch key {
	case "max_retries":
		return "2"
	case "per_try_timeout":
		return "800ms"
	case "retry_on_status":
		return "[502, 503, 504]"
	case "backoff_base":
		return "250ms"
	}
	return "pass_through"
}

// checkTimes holds the waits against the tries. A wait as long as a try would let
// a retry begin after the request that caused it is long forgotten.
func (p *parser) checkTimes(own *policy) {
	if !own.perOK || !own.cfg.Enabled && !own.per.Present() {
		return
	}
	at := own.base
	if own.class {
		if base := own.cfg.BackoffBase; base >= own.cfg.PerTry && p.once(own.per, "E-BACKOFF") {
			own.per.Errorf("must be more than backoff_base (%s), got %s", conf.FormatDuration(base), own.per.Got()).Coded("E-BACKOFF")
		}
		p.checkTenants(own)
		return
	}
	if !at.Present() || at.Path() == own.per.Path() {
		at = own.per // the default does not fit: the field that is written is the one to change
	}
	p.checkBase(at, own.cfg.BackoffBase, own.cfg.PerTry)
	if u, v := own.per.Unit(), own.base.Unit(); u != "" && v != "" && u != v && at.Path() != own.per.Path() {
		text := "is in %s where per_try_timeout is in %s: easy to misread"
		if p.cfg.Gateway.StrictUnits {
			own.base.Errorf("must be in %s as per_try_timeout is, got %s", u, own.base.Got()).Hint("strict_units asks for one unit").Coded("E-UNIT")
		} else {
			own.base.Warnf(text, v, u).Coded("W-UNIT")
		}
	}
	p.checkTenants(own)
}

func (p *parser) checkTenants(own *policy) {
	for _, e := range own.tenants {
		if t, ok := own.cfg.Tenants[e.Key]; ok {
			p.checkBase(e.Value, t.BackoffBase, own.cfg.PerTry)
		}
	}
}

func (p *parser) checkBase(at conf.Node, base, per time.Duration) {
	if base >= per && p.once(at, "E-BACKOFF") {
		at.Errorf("must be less than per_try_timeout (%s), got %s", conf.FormatDuration(per), conf.FormatDuration(base)).Coded("E-BACKOFF")
	}
}

// once reports whether a mistake of that code is new at n: a policy that several
// routes share is told of once.
func (p *parser) once(n conf.Node, code string) bool {
	if p.told == nil {
		p.told = map[place]bool{}
	}
	at := place{n.File(), n.Line(), n.Col(), code}
	was := p.told[at]
	p.told[at] = true
	return !was
}

type place struct {
	file      string
	line, col int
	code      string
}

// statuses reads retry_on_status; wants429 is where a 429 stands in it, which is
// good only with a condition that confirms it.
func statuses(list conf.Node) (out []int, wants429 conf.Node) {
	if list.IsList() && len(list.List()) == 0 {
		list.Errorf("must list at least one status, got none").Hint("to switch retries off, set enabled: false")
	}
	for _, item := range list.List() {
		v := int(item.Int(0, 400, 599))
		switch {
		case v == 0:
		case slices.Contains(out, v):
			item.Errorf("must stand once, got %d again", v)
		default:
			if v == 429 {
				wants429 = item
			}
			out = append(out, v)
		}
	}
	return out, wants429
}

func refuse429(at conf.Node) {
	at.Errorf("must not hold 429, which says that asking again is wrong").
		Hint("unless a secondary condition confirms it, or the action is never or fallback").Coded("E-429")
}

// rules are what a route says about retries beside its policy.
type rules struct{ idempotent, trustKey, bare503 bool }

func parseRules(m *conf.Map) rules {
	var r rules
	r.idempotent, _ = m.Get("idempotent").Bool(false)
	r.trustKey, _ = m.Get("trust_idempotency_key").Bool(false)
	signal, _ := m.Get("require_signal_on_503").Bool(true)
	r.bare503 = !signal
	return r
}

func (r rules) apply(cfg *retry.Config) {
	cfg.Idempotent, cfg.TrustKey, cfg.BareOn503 = r.idempotent, r.trustKey, r.bare503
}

// retryPlaces is what a route says of retries.
type retryPlaces struct {
	own        *policy // nil: it has none of its own
	rules      rules
	perTry     conf.Node
	conditions conf.Node
	inline     *conditions
}

// routeRetry reads it.
func (p *parser) routeRetry(m *conf.Map) (at retryPlaces) {
	if own := m.Get("retry"); own.Present() {
		read := parseRetry(own)
		at.own = &read
	}
	at.rules = parseRules(m)
	at.perTry, at.conditions = m.Get("per_try_timeout"), m.Get("conditions")
	if at.conditions.IsMap() {
		inline := parseConditions(at.conditions.Map())
		at.inline = &inline
	}
	return at
}

// settle makes the policy of a route out of all that speaks of it.
func (p *parser) settle(r *Route, at *retryPlaces, timeout conf.Node) {
	var own policy
	switch {
	case at.own != nil:
		own = *at.own
	case p.ponytail != nil:
		own = *p.ponytail
	}
	if at.perTry.Present() { // the class of the request goes before the policy of all
		var ok bool
		own.per, own.class = at.perTry, true
		own.cfg.PerTry, ok = duration(at.perTry, own.cfg.PerTry)
		own.perOK = ok && (own.perOK || !own.cfg.Enabled)
	}
	if own.cfg.Enabled {
		p.checkTimes(&own)
	}
	p.applyConditions(&own, p.conditionsOf(at))
	r.Retry = own.cfg
	at.rules.apply(&r.Retry)
	if worst := retry.WorstCase(r.Retry); r.Retry.Enabled && r.Timeout < worst {
		timeout.Warnf("leaves no room for all tries: %s is less than %s", conf.FormatDuration(r.Timeout), conf.FormatDuration(worst)).
			Hint("that is (1 + max_retries) x per_try_timeout and the waits").Coded("W-DEADLINE")
	}
}

// conditionsOf finds the conditions a route goes by; nil: those of its policy.
func (p *parser) conditionsOf(at *retryPlaces) *conditions {
	switch {
	case at.inline != nil:
		return at.inline
	case !at.conditions.Present():
		if at.own == nil {
			return p.companion // of the bare file, as the policy itself
		}
		return nil
	}
	name := at.conditions.Name()
	if name == "" {
		return nil // said already
	}
	i := slices.IndexFunc(p.conditions, func(c conditions) bool { return c.name == name })
	if i < 0 {
		e := at.conditions.Errorf("must be the name of a RetryConditions document, got %s", name).Coded("E-CONDITIONS")
		if len(p.conditions) > 0 {
			var names []string
			for _, c := range p.conditions {
				names = append(names, c.name)
			}
			slices.Sort(names)
			e.Hint("there are %s", strings.Join(slices.Compact(names), ", "))
		}
		return nil
	}
	return &p.conditions[i]
}
