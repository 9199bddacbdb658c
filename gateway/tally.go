package gateway

import (
	"cmp"
	"slices"
	"sync"

	"breakwater/gateway/plan"
	"breakwater/internal/retrylog"
)

// tallies count client requests by service and run since the start: what
// control's guard reads from receipts, earlier than any minute row.
type tallies struct {
	mu   sync.Mutex
	byID map[tallyKey]*plan.Tally
}

type tallyKey struct{ run, service string }

func (t *tallies) init() { t.byID = map[tallyKey]*plan.Tally{} }

// count takes ev in where its outcome says something about the service.
func (t *tallies) count(ev *retrylog.Exchange) {
	if ev.Service == "" {
		return
	}
	good, bad := int64(0), int64(0)
	switch ev.Outcome {
	case retrylog.UpstreamFailure, retrylog.Timeout, retrylog.Panicked:
		bad = 1
	case retrylog.OK, retrylog.LocalRefusal:
		switch {
		case ev.Status >= 500:
			bad = 1
		case ev.Status < 400:
			good = 1
		}
	}
	if ev.Degraded != "" && ev.Status < 400 {
		good, bad = 1, 0 // a fallback is an answer
	}
	if good+bad == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(tallyKey{"", ev.Service}, good, bad)
	if ev.Experiment != "" {
		t.add(tallyKey{ev.Experiment, ev.Service}, good, bad)
	}
}

func (t *tallies) add(key tallyKey, good, bad int64) {
	tally := t.byID[key]
	if tally == nil {
		tally = &plan.Tally{Run: key.run, Service: key.service}
		t.byID[key] = tally
	}
	tally.Good += good
	tally.Bad += bad
}

// Tallies are the client requests by service, and by run and service, since the
// start; tries are counted by the fault table.
func (g *Gateway) Tallies() []plan.Tally {
	t := &g.tallies
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]plan.Tally, 0, len(t.byID))
	for _, tally := range t.byID {
		out = append(out, *tally)
	}
	slices.SortFunc(out, func(a, b plan.Tally) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Run, b.Run))
	})
	return out
}
