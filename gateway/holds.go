package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/histogram"
	"breakwater/internal/retrylog"
)

// holdings are how long requests hold a connection of each upstream, which is what
// a limit for a pool is computed from. The zero value is ready.
type holdings struct {
	mu sync.Mutex
	of map[string]*holds
}

// holdWindow is after what time the figures begin anew; those before are kept as long.
const holdWindow = 5 * time.Minute

// holds of one upstream. One try of four is measured: the choice lies in its
// request's start, so it costs no look at the clock and prefers nobody.
type holds struct {
	now, before atomic.Pointer[held]
	mu          sync.Mutex // of the turn of a window
	spare       sync.Pool  // of *holding
}

type held struct {
	start time.Time
	sumUS atomic.Int64
	bins  [histogram.Size]atomic.Int64
}

func (h *holdings) upstream(name string) *holds {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of == nil {
		h.of = map[string]*holds{}
	}
	if h.of[name] == nil {
		own := &holds{}
		own.now.Store(&held{start: time.Now()})
		h.of[name] = own
	}
	return h.of[name]
}

// keep forgets upstreams that s does not name.
func (h *holdings) keep(s *snapshot) {
	named := map[string]bool{}
	for _, up := range s.cfg.Pools() {
		named[up.Name] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	forget(h.of, named)
}

// layer measures from the moment a try goes to the wire until its connection is free.
func (h *holds) layer(next exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		if x.Event.Start.Nanosecond()>>10&3 == 0 {
			one, _ := h.spare.Get().(*holding)
			if one == nil {
				one = &holding{of: h}
			}
			one.start = time.Now()
			x.OnEnd(one)
		}
		return next.Serve(x)
	})
}

// holding is one try that is measured.
type holding struct {
	of    *holds
	start time.Time
}

// End implements exchange.Ender.
func (o *holding) End(*exchange.Exchange, retrylog.Outcome) {
	now := time.Now()
	o.of.add(now, now.Sub(o.start))
	o.of.spare.Put(o)
}

func (h *holds) add(now time.Time, took time.Duration) {
	w := h.turn(now)
	us := max(took.Microseconds(), 0)
	w.sumUS.Add(us)
	w.bins[histogram.Index(us)].Add(1)
}

// turn returns the window of now.
func (h *holds) turn(now time.Time) *held {
	w := h.now.Load()
	if now.Sub(w.start) < holdWindow {
		return w
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if w = h.now.Load(); now.Sub(w.start) >= holdWindow {
		next := &held{start: now}
		if now.Sub(w.start) >= 2*holdWindow {
			w = nil // nothing came for so long that it says nothing about now
		}
		h.before.Store(w)
		h.now.Store(next)
		w = next
	}
	return w
}

// holdStats are the hold times of the last five to ten minutes.
type holdStats struct {
	Measured int64 `json:"measured"` // tries
	MeanUS   int64 `json:"mean_us"`
	P50US    int64 `json:"p50_us"`
	P95US    int64 `json:"p95_us"`
	// OverMS is how far back the figures go.
	OverMS int64 `json:"over_ms"`
}

func (h *holds) stats(now time.Time) holdStats {
	current, before := h.now.Load(), h.before.Load()
	if now.Sub(current.start) >= 2*holdWindow {
		return holdStats{} // the last try is too long ago
	}
	var bins histogram.Bins
	var out holdStats
	var sum int64
	for _, w := range []*held{before, current} {
		if w == nil {
			continue
		}
		if out.OverMS == 0 {
			out.OverMS = now.Sub(w.start).Milliseconds()
		}
		sum += w.sumUS.Load()
		part := make(histogram.Bins, histogram.Size)
		for i := range w.bins {
			part[i] = w.bins[i].Load()
		}
		bins.Merge(part)
	}
	if out.Measured = bins.Count(); out.Measured == 0 {
		return out
	}
	out.MeanUS = sum / out.Measured
	out.P50US, out.P95US = int64(bins.Quantile(.5, 0).US), int64(bins.Quantile(.95, 0).US)
	return out
}
