package freeze

import (
	"regexp"
	"slices"
	"strconv"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// acts reads the measures of a policy.
func acts(n conf.Node) []Act {
	var out []Act
	for _, item := range n.List() {
		m := item.Map()
		from := m.Need("from")
		a := Act{From: slo.Level(from.Enum("", string(slo.Normal), string(slo.Warn), string(slo.Emergency), string(slo.Frozen)))}
		keep, limit, drills, deploys := m.Get("shed_below"), m.Get("limit"), m.Get("experiments"), m.Get("deploys")
		a.Keep = keep.Enum("", KeepDefault, KeepCritical)
		a.Drills = Drills(drills.Enum("", string(RefuseDrills), string(StopDrills)))
		if limit.Present() {
			a.Limit = limitChange(limit)
		}
		if deploys.Present() {
			a.Deploys = capOf(deploys)
		}
		users := keep.Present() || limit.Present() || drills.Present()
		if !users && !deploys.Present() {
			item.Errorf("must say what is done: shed_below, limit, experiments or deploys")
		}
		if users && a.From == slo.Normal {
			from.Errorf("must be warn, emergency or frozen beside shed_below, limit and experiments, got normal").Hint("only deploys may be capped whatever the budget is")
		}
		if slices.ContainsFunc(out, func(b Act) bool { return b.From == a.From && a.From != "" }) {
			from.Errorf("must stand once, got %s again", a.From)
		}
		m.Done()
		out = append(out, a)
	}
	return out
}

var rateText = regexp.MustCompile(`^([1-9][0-9]{0,6})/([1-9][0-9]{0,4})?([smhd])$`)

// Bounds of a rate: those of a route's limit.
const (
	maxTokens = 1_000_000
	maxPer    = 24 * time.Hour
)

func limitChange(n conf.Node) *LimitChange {
	m := n.Map()
	direction := m.Get("direction")
	if !direction.Present() && n.IsMap() {
		n.Errorf("must say its direction, tighten or relax").Hint("to change a limit has been read both ways")
	}
	c := LimitChange{Direction: Direction(direction.Enum("", string(Tighten), string(Relax)))}
	factor, rate, burst := m.Get("factor"), m.Get("rate"), m.Get("burst")
	c.FactorPPM = factorOf(factor, c.Direction)
	if rate.Present() {
		c.Tokens, c.Per = rateOf(rate)
	} else if burst.Present() {
		burst.Errorf("must stand beside a rate, got none")
	}
	c.Burst = burst.Int(0, 1, maxTokens)
	if n.IsMap() && !factor.Present() && !rate.Present() {
		n.Errorf("must have a factor, a rate or both, got neither")
	}
	m.Done()
	return &c
}

// factorOf reads a share of each rate: 1 % to less than 100 % to tighten, more than
// 100 % up to 1000 % to relax.
func factorOf(n conf.Node, d Direction) int64 {
	if !n.Present() {
		return 0
	}
	m := factorText.FindStringSubmatch(n.Str(""))
	if m == nil {
		n.Errorf(`must be a share such as "50%%" or "150%%", got %s`, n.Got())
		return 0
	}
	percent, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		percent = 1 << 20
	}
	switch {
	case d == Relax && (percent <= 100 || percent > 1000):
		n.Errorf("must be more than 100%% and at most 1000%% to relax, got %s", n.Got())
		return 0
	case d != Relax && (percent < 1 || percent >= 100):
		n.Errorf("must be 1%% to 99%% to tighten, got %s", n.Got())
		return 0
	}
	return percent * 10_000
}

var factorText = regexp.MustCompile(`^([0-9]{1,6})%$`)

func rateOf(n conf.Node) (tokens int64, per time.Duration) {
	parts := rateText.FindStringSubmatch(n.Str(""))
	if parts == nil {
		n.Errorf("must be a rate such as 100/s, 6/m or 50/10s, got %s", n.Got())
		return 0, 0
	}
	tokens, _ = strconv.ParseInt(parts[1], 10, 64) // seven digits fit
	count := int64(1)
	if parts[2] != "" {
		count, _ = strconv.ParseInt(parts[2], 10, 64) // five digits fit
	}
	per = time.Duration(count) * map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[parts[3]]
	if tokens > maxTokens || per > maxPer {
		n.Errorf("must be of 1 to %d in at most 24 h, got %s", maxTokens, n.Got())
		return 0, 0
	}
	return tokens, per
}
