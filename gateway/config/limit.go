package config

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"breakwater/gateway/policy/limiter"
	"breakwater/internal/conf"
)

// limitPlaces are the nodes of a limit that cross-checks speak of.
type limitPlaces struct{ quota, cost conf.Node }

// parseLimit reads the limit of a route.
func parseLimit(n conf.Node) (cfg limiter.Config, at limitPlaces) {
	if !n.Present() {
		return cfg, at
	}
	m := n.Map()
	rate := m.Get("rate")
	cfg.Rate = parseRate(m, rate)
	key, missing, most := m.Get("key"), m.Get("missing_key"), m.Get("max_keys")
	cfg.Key = parseKey(key, limiter.ByRoute)
	cfg.Missing = limiter.Missing(missing.Enum(string(limiter.PeerIP), string(limiter.PeerIP), string(limiter.Deny)))
	cfg.MaxKeys = int(most.Int(limiter.DefaultMaxKeys, 64, 1<<24))
	at.cost = m.Get("cost")
	cfg.Cost = parseCost(at.cost)
	at.quota = m.Get("quota")
	cfg.Quota = at.quota.Name()
	cfg.Observe, _ = m.Get("observe").Bool(false)
	m.Done()
	if !n.IsMap() {
		return limiter.Config{}, at
	}
	if !rate.Present() {
		if !at.quota.Present() {
			n.Errorf("must have a rate, a quota or both, got neither").Coded("E-MISSING")
		}
		for _, of := range []conf.Node{key, missing, most} {
			if of.Present() {
				of.Errorf("must stand beside a rate, got none").Hint("a quota has a key of its own, in its document")
			}
		}
		cfg.Key, cfg.Missing, cfg.MaxKeys = limiter.Key{By: limiter.ByRoute}, "", 0
	}
	checkCost(at.cost, cfg.Cost, cfg.Rate, "burst")
	return cfg, at
}

var rateText = regexp.MustCompile(`^([1-9][0-9]*)/([1-9][0-9]*)?([smhd])$`)

// parseRate reads a rate with its burst, which is as many tokens as the rate names
// where the document does not say.
func parseRate(m *conf.Map, n conf.Node) limiter.Rate {
	burst, mode := m.Get("burst"), m.Get("burst_mode")
	extra := mode.Enum("total", "total", "extra") == "extra"
	if !n.Present() {
		for _, of := range []conf.Node{burst, mode} {
			if of.Present() {
				of.Errorf("must stand beside a rate, got none")
			}
		}
		return limiter.Rate{}
	}
	r, ok := readRate(n)
	least := int64(1)
	if extra {
		least = 0
	}
	r.Burst = burst.Int(r.Tokens, least, limiter.MaxBurst)
	if extra && burst.Present() {
		r.Burst++ // one at once, and as many more (as throttled and Redis modules count)
	} else if extra {
		mode.Errorf("must stand beside a burst, got none")
	}
	if !ok {
		return limiter.Rate{}
	}
	if r.Burst > int64(limiter.MaxFill/max(r.Per/time.Duration(r.Tokens), 1)) {
		at := n
		if burst.Present() {
			at = burst
		}
		at.Errorf("must fill the bucket within 366 days, got %d at %s", r.Burst, n.Got())
		return limiter.Rate{}
	}
	return r
}

func readRate(n conf.Node) (limiter.Rate, bool) {
	text := n.Str("")
	if text == "" {
		return limiter.Rate{}, false // said already
	}
	parts := rateText.FindStringSubmatch(text)
	if parts == nil {
		n.Errorf("must be a rate such as 100/s, 6/m or 50/10s, got %s", n.Got())
		return limiter.Rate{}, false
	}
	tokens, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil || tokens > limiter.MaxTokens {
		n.Errorf("must be of 1 to %d, got %s", limiter.MaxTokens, n.Got())
		return limiter.Rate{}, false
	}
	count := int64(1)
	if parts[2] != "" {
		count, err = strconv.ParseInt(parts[2], 10, 64)
	}
	unit := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[parts[3]]
	if err != nil || count > int64(limiter.MaxPer/unit) {
		n.Errorf("must be of a time of 1s to 1d, got %s", n.Got())
		return limiter.Rate{}, false
	}
	return limiter.Rate{Tokens: tokens, Per: time.Duration(count) * unit}, true
}

// parseKey reads a kind of key, or the name of a header.
func parseKey(n conf.Node, def limiter.By) limiter.Key {
	if n.IsMap() {
		m := n.Map()
		k := limiter.Key{By: limiter.ByHeader, Header: headerName(m.Need("header"), "X-Key")}
		m.Done()
		return k
	}
	kinds := []string{string(limiter.ByRoute), string(limiter.ByCaller), string(limiter.ByTenant), string(limiter.ByAddress)}
	if def == limiter.ByAll {
		kinds = append(kinds, string(limiter.ByAll))
	}
	return limiter.Key{By: limiter.By(n.Enum(string(def), kinds...))}
}

// parseCost reads a number of tokens, or who says it.
func parseCost(n conf.Node) limiter.Cost {
	if !n.IsMap() {
		return limiter.Cost{Tokens: n.Int(1, 1, limiter.MaxBurst)}
	}
	m := n.Map()
	c := limiter.Cost{Header: headerName(m.Need("header"), "X-Cost"), Tokens: m.Get("default").Int(1, 1, limiter.MaxBurst)}
	most := m.Need("max")
	if c.Max = most.Int(c.Tokens, 1, limiter.MaxBurst); c.Max < c.Tokens {
		most.Errorf("must be at least default (%d), got %d", c.Tokens, c.Max)
	}
	m.Done()
	return c
}

// checkCost: what costs more than a full bucket holds would never pass.
func checkCost(n conf.Node, c limiter.Cost, r limiter.Rate, of string) {
	if most := max(c.Tokens, c.Max); r.Tokens > 0 && most > r.Burst {
		n.Errorf("must be at most %s (%d), got %d", of, r.Burst, most).Hint("a request that costs more would never pass")
	}
}

// checkLimits holds the limits of routes against the quotas there are.
func (p *parser) checkLimits() {
	used := map[string]bool{}
	quotas := names{what: "quota"}
	for i, q := range p.cfg.Quotas {
		quotas.add(q.Name, p.quotas[i])
	}
	for i := range p.cfg.Routes {
		r, at := &p.cfg.Routes[i], p.routes[i].limit
		if r.Limit.Quota == "" {
			continue
		}
		q, ok := p.cfg.Quota(r.Limit.Quota)
		if !ok {
			at.quota.Errorf("must be the name of a Quota document, got %s", r.Limit.Quota).Coded("E-QUOTA")
			continue
		}
		used[q.Name] = true
		if at.cost.Present() {
			checkCost(at.cost, r.Limit.Cost, q.Rate, fmt.Sprintf("the burst of quota %s", q.Name))
		}
	}
	for i, q := range p.cfg.Quotas {
		if q.Name != "" && !used[q.Name] {
			p.quotas[i].Warnf("is used by no route").Coded("W-UNUSED")
		}
	}
}
