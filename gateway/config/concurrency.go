package config

import (
	"time"

	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/shed"
	"breakwater/internal/conf"
)

// mostPlaces is more than any gateway has requests under way.
const mostPlaces = 100_000

// parseConcurrency reads the limit of each endpoint of an upstream.
func parseConcurrency(n conf.Node) concurrency.Config {
	if !n.IsMap() {
		n.Map()
		return concurrency.Config{}
	}
	m := n.Map()
	c := parseLimits(m)
	m.Done()
	return c
}

// parseServiceConcurrency reads the limit of a service, what part of it each tier
// may fill, and how many critical requests may wait.
func parseServiceConcurrency(n conf.Node) (concurrency.Config, shed.Config) {
	if !n.IsMap() {
		n.Map()
		return concurrency.Config{}, shed.Config{}
	}
	m := n.Map()
	c := parseLimits(m)
	if q := m.Get("queue"); q.Present() {
		queue := q.Map()
		c.Queue = queue.Need("size").Int(0, 1, 1000)
		c.QueueWait = queue.Get("wait").Duration(50*time.Millisecond, time.Millisecond, time.Second)
		queue.Done()
	}
	tiers := parseTiers(m.Get("tiers"), c.Queue > 0)
	tiers.Observe = c.Observe
	m.Done()
	return c, tiers
}

func parseLimits(m *conf.Map) concurrency.Config {
	kind := concurrency.Kind(m.Need("kind").Enum("", string(concurrency.Fixed), string(concurrency.Gradient),
		string(concurrency.Gradient2), string(concurrency.Vegas), string(concurrency.AIMD)))
	c := concurrency.Config{Kind: kind}
	c.Observe, _ = m.Get("observe").Bool(false)
	most, least, initial, window, probe := m.Get("max"), m.Get("min"), m.Get("initial"), m.Get("window"), m.Get("probe")
	c.Max = most.Int(1000, 1, mostPlaces)
	only := func(n conf.Node, what string) {
		if n.Present() {
			n.Errorf("must not stand with kind: %s, got %s", kind, n.Got()).Hint("%s", what)
		}
	}
	switch kind {
	case "":
		return concurrency.Config{} // said already
	case concurrency.Fixed:
		if !most.Present() {
			most.Errorf("must be given with kind: fixed").Coded("E-MISSING")
		}
		for _, n := range []conf.Node{least, initial, window, probe} {
			only(n, "a fixed limit is max, and does not move")
		}
		return c
	}
	c.Min = least.Int(min(3, c.Max), 1, c.Max)
	c.Initial = initial.Int(min(max(20, c.Min), c.Max), c.Min, c.Max)
	c.Window = window.Duration(100*time.Millisecond, 10*time.Millisecond, 10*time.Second)
	if kind == concurrency.Gradient2 || kind == concurrency.AIMD {
		only(probe, "only gradient and vegas probe for the least latency")
		return c
	}
	p := probe.Map()
	c.ProbeEvery = p.Get("every").Duration(time.Minute, time.Second, time.Hour)
	c.ProbeSamples = p.Get("samples").Int(20, 5, 1000)
	c.ProbeConcurrency = p.Get("concurrency").Int(min(3, c.Max), 1, c.Max)
	p.Done()
	return c
}
