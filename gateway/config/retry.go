package config

import (
	"slices"
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

// parseRetry reads the six fields, from a ponytail file or the retry of a route.
// A field that is absent has the default of the text, and is warned of.
func parseRetry(n conf.Node) retry.Config {
	m := n.Map()
	cfg := retry.Config{
		Enabled: true, MaxRetries: 2, PerTry: 800 * time.Millisecond, OnStatus: []int{502, 503, 504},
		BackoffBase: 250 * time.Millisecond, Fallback: retry.PassThrough,
	}
	if !n.IsMap() {
		return retry.Config{}
	}
	enabled := m.Get("enabled")
	if !enabled.Present() {
		enabled.Errorf(textEnabled).Hint("without it a policy is on").Coded(codeEnabled)
	} else if enabled.IsBool() {
		cfg.Enabled, _ = enabled.Bool(true)
	} else {
		enabled.Errorf("must be true or false, got %s", enabled.Got()).Coded(codeEnabled)
	}
	for _, key := range sixKeys()[1:] {
		if at := m.Get(key); !at.Present() && cfg.Enabled {
			at.Warnf("is not given: %s holds", defaultOf(key)).Coded("W-MISSING")
		}
	}
	retries := m.Get("max_retries")
	cfg.MaxRetries = int(retries.Int(int64(cfg.MaxRetries), 0, 5))
	if cfg.MaxRetries > 2 {
		retries.Warnf("is more than 2: when the upstream is down, %d calls come for each request", cfg.MaxRetries+1).Coded("W-RETRIES")
	}
	per, base := m.Get("per_try_timeout"), m.Get("backoff_base")
	p, perOK := duration(per, cfg.PerTry)
	b, baseOK := duration(base, cfg.BackoffBase)
	cfg.PerTry, cfg.BackoffBase = p, b
	if perOK && baseOK {
		checkBackoff(per, base, cfg)
	}
	if list := m.Get("retry_on_status"); list.Present() {
		cfg.OnStatus = statuses(list)
	}
	cfg.Fallback = retry.Strategy(m.Get("fallback_strategy").Enum(string(cfg.Fallback), string(retry.PassThrough), string(retry.Return503)))
	m.Done()
	return cfg
}

// duration reads one of the two times; ok is false where it is mistaken, so that
// they are not compared.
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

// checkBackoff: a wait as long as a try would let a retry begin after the
// request that caused it is long forgotten.
func checkBackoff(per, base conf.Node, cfg retry.Config) {
	if cfg.BackoffBase >= cfg.PerTry {
		at := base
		if !at.Present() {
			at = per // the default does not fit: the field that is written is the one to change
		}
		at.Errorf("must be less than per_try_timeout (%s), got %s", conf.FormatDuration(cfg.PerTry), conf.FormatDuration(cfg.BackoffBase)).
			Coded("E-BACKOFF")
	}
	if u, v := per.Unit(), base.Unit(); u != "" && v != "" && u != v {
		base.Warnf("is in %s where per_try_timeout is in %s: easy to misread", v, u).Coded("W-UNIT")
	}
}

func statuses(list conf.Node) []int {
	var out []int
	if list.IsList() && len(list.List()) == 0 {
		list.Errorf("must list at least one status, got none").Hint("to switch retries off, set enabled: false")
	}
	for _, item := range list.List() {
		v := int(item.Int(0, 400, 599))
		switch {
		case v == 0:
		case v == 429:
			item.Errorf("must not hold 429, which says that asking again is wrong").Coded("E-429")
		case slices.Contains(out, v):
			item.Errorf("must stand once, got %d again", v)
		default:
			out = append(out, v)
		}
	}
	return out
}

// rules are what a route says about retries beside the six fields.
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
