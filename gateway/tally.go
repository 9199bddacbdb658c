package gateway

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"breakwater/gateway/plan"
	"breakwater/internal/retrylog"
)

// tallies count client requests by service, and by run and service, since the
// start: what control's guard reads from receipts, earlier than any minute row.
// A route keeps the counters of its service, so only requests that a fault
// touched look anything up.
type tallies struct {
	mu   sync.Mutex
	byID map[tallyKey]*traffic
}

type tallyKey struct{ run, service string }

// traffic is one set of counters.
type traffic struct{ good, bad, attempts, degraded atomic.Int64 }

func (t *tallies) init() { t.byID = map[tallyKey]*traffic{} }

// of returns the counters of a service, or of one run's part of it.
func (t *tallies) of(run, service string) *traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := tallyKey{run, service}
	c := t.byID[key]
	if c == nil {
		c = &traffic{}
		t.byID[key] = c
	}
	return c
}

// count takes ev in, into all of its service and into its run's part.
func (t *tallies) count(all *traffic, ev *retrylog.Exchange) {
	if ev.Service == "" {
		return
	}
	good, bad := verdict(ev)
	if !good && !bad || ev.Synthetic != "" {
		// What load it made beyond itself says something whatever became of it; its own
		// try would be one too many, since tries are held against good and bad requests.
		all.attempts.Add(max(int64(len(ev.Tries))-1, 0))
		return
	}
	all.attempts.Add(int64(len(ev.Tries)))
	if ev.Degraded != "" {
		all.degraded.Add(1)
	}
	all.add(good)
	if ev.Experiment != "" {
		t.of(ev.Experiment, ev.Service).add(good)
	}
}

func (c *traffic) add(good bool) {
	if good {
		c.good.Add(1)
	} else {
		c.bad.Add(1)
	}
}

// verdict is what ev says about its service; neither: nothing.
func verdict(ev *retrylog.Exchange) (good, bad bool) {
	if ev.Degraded != "" && ev.Status < 400 {
		return true, false // a fallback is an answer
	}
	switch ev.Outcome {
	case retrylog.UpstreamFailure, retrylog.Timeout, retrylog.Panicked:
		return false, true
	case retrylog.OK, retrylog.LocalRefusal:
		return ev.Status < 400, ev.Status >= 500
	}
	return false, false
}

// Tallies are the client requests since the start, with the tries they took; the
// tries that a run's faults saw and hit are counted by the fault table.
func (g *Gateway) Tallies() []plan.Tally {
	t := &g.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]plan.Tally, 0, len(t.byID))
	for key, c := range t.byID {
		out = append(out, plan.Tally{Run: key.run, Service: key.service, Good: c.good.Load(), Bad: c.bad.Load(), Attempts: c.attempts.Load(), Degraded: c.degraded.Load()})
	}
	slices.SortFunc(out, func(a, b plan.Tally) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Run, b.Run))
	})
	return out
}
