package config

import (
	"strings"
	"time"

	"breakwater/internal/conf"
)

// Health is how the endpoints of an upstream are probed.
type Health struct {
	Path     string        `json:"path"`
	Interval time.Duration `json:"interval"`
	Timeout  time.Duration `json:"timeout"`
	// HealthyAfter and UnhealthyAfter are how many probes in a row bring an
	// endpoint back, and take it out.
	HealthyAfter   int64 `json:"healthy_after"`
	UnhealthyAfter int64 `json:"unhealthy_after"`
}

// Ejection is when an endpoint that fails under traffic is left out for a while.
type Ejection struct {
	After  int64         `json:"after"` // failures in a row
	For    time.Duration `json:"for"`
	MaxPPM int64         `json:"max_ppm"` // share of the endpoints that may be out at once
}

func parseHealth(n conf.Node) *Health {
	if !n.Present() {
		return nil
	}
	m := n.Map()
	path, timeout := m.Need("path"), m.Get("timeout")
	h := &Health{Path: path.Str("")}
	if h.Path != "" && (h.Path[0] != '/' || strings.ContainsFunc(h.Path, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '#' })) {
		path.Errorf("must be a path such as /healthz, got %s", path.Got())
	}
	h.Interval = m.Get("interval").Duration(5*time.Second, 100*time.Millisecond, 10*time.Minute)
	h.Timeout = timeout.Duration(min(time.Second, h.Interval), time.Millisecond, time.Minute)
	if h.Timeout > h.Interval {
		timeout.Errorf("must be at most interval (%s), got %s", conf.FormatDuration(h.Interval), timeout.Got())
	}
	h.HealthyAfter = m.Get("healthy_after").Int(2, 1, 100)
	h.UnhealthyAfter = m.Get("unhealthy_after").Int(3, 1, 100)
	m.Done()
	return h
}

func parseEjection(n conf.Node) *Ejection {
	if !n.Present() {
		return nil
	}
	m := n.Map()
	e := &Ejection{After: m.Get("after").Int(5, 1, 1000), For: m.Get("for").Duration(10*time.Second, time.Millisecond, 5*time.Minute)}
	most := m.Get("max_percent")
	if e.MaxPPM = most.PPM(500_000); e.MaxPPM == 0 {
		most.Errorf("must be more than 0%%, got %s", most.Got()).Hint("without an ejection block nothing is ejected")
	}
	m.Done()
	return e
}
