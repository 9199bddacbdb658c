package gateway

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/retrylog"
)

// degradedField marks an answer that takes the place of the real one.
const degradedField = "X-Breakwater-Degraded"

// byUpstream is the action of an answer that an upstream, or a gateway before it,
// degraded and marked itself.
const byUpstream = "upstream"

// What it takes to call answers of an upstream substitutes. A route's default is often
// also what an upstream says by itself now and then, an empty list say: so a share
// proves nothing. But an upstream that had answers of its own and then, for a while,
// gives nearly nothing but ours has begun to make them up.
const (
	substituteSlot   = 10 * time.Second
	substituteLeast  = 20  // answers of a slot; fewer say nothing
	substituteLooks  = 100 // answers of unknown length looked at in a slot, at the least
	substituteBody   = 8   // bytes; "{}" and "[]" are nobody's fingerprint
	substituteTenths = 9   // of a slot, to be all substitutes; the rest, to be none
)

// substitutes are by route what stands in for an upstream without saying so. They
// outlive snapshots.
type substitutes struct {
	mu sync.Mutex
	of map[string]*substitute
}

func newSubstitutes() *substitutes { return &substitutes{of: map[string]*substitute{}} }

// substitute counts answers of one route's upstream that are, to the byte, what the
// route gives in place of a failure. It is safe for concurrent use.
type substitute struct {
	route, upstream string
	status          int
	body            string

	passed atomic.Int64 // of unknown length, and not looked at
	slot   atomic.Int64 // number of the one that goes on
	alike  atomic.Int64 // in it
	other  atomic.Int64
	well   atomic.Int64 // slots in which the upstream had answers of its own
	stood  atomic.Int64 // answers of slots in which it had none
	told   atomic.Bool
}

// route returns what watches r; nil: it has no answer that could be known again.
func (s *substitutes) route(r config.Route) *substitute {
	d := r.Degrade
	if d.Action != fallback.ReturnDefault || len(d.Default.Body) < substituteBody {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.of[r.Name]
	if w == nil || w.status != d.Default.Status || w.body != d.Default.Body || w.upstream != r.Upstream {
		w = &substitute{route: r.Name, upstream: r.Upstream, status: d.Default.Status, body: d.Default.Body}
		s.of[r.Name] = w
	}
	return w
}

// apply forgets routes that cfg has not.
func (s *substitutes) apply(cfg *config.Config) {
	named := map[string]bool{}
	for _, r := range cfg.Routes {
		named[r.Name] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.of {
		if !named[name] {
			delete(s.of, name)
		}
	}
}

// watch looks at an answer of the upstream while it is sent. One whose length tells it
// apart is only counted; of those of unknown length some are looked at.
func (w *substitute) watch(x *exchange.Exchange) {
	res := &x.Response
	if res.Status != w.status || res.Body == nil || res.Tunnel != nil || x.Request.Method == "HEAD" {
		return
	}
	switch res.Length {
	case int64(len(w.body)):
	case -1:
		if w.alike.Load()+w.other.Load() >= substituteLooks && w.passed.Add(1)%lookAtEvery != 0 {
			return
		}
	default:
		w.count(false, time.Now())
		return
	}
	res.Body = &likeness{ReadCloser: res.Body, of: w, same: true}
}

// likeness compares a body with that of a fallback while it passes.
type likeness struct {
	io.ReadCloser
	of   *substitute
	at   int
	same bool
	done bool
}

func (l *likeness) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if l.same {
		rest := l.of.body[l.at:]
		l.same = n <= len(rest) && string(p[:n]) == rest[:n]
		l.at += n
	}
	if err == io.EOF {
		l.end(l.same && l.at == len(l.of.body))
	}
	return n, err
}

// Close judges what was read of the body: who knows its length stops there.
func (l *likeness) Close() error {
	l.end(l.same && l.at == len(l.of.body))
	return l.ReadCloser.Close()
}

func (l *likeness) end(alike bool) {
	if !l.done {
		l.done = true
		l.of.count(alike, time.Now())
	}
}

// count notes an answer of now. Whoever is first in a new slot judges the old one; a
// few answers that are counted meanwhile fall to the wrong side, and change nothing.
func (w *substitute) count(alike bool, now time.Time) {
	slot := now.UnixNano() / int64(substituteSlot)
	if old := w.slot.Load(); old != slot && w.slot.CompareAndSwap(old, slot) {
		w.judge(w.alike.Swap(0), w.other.Swap(0))
	}
	if alike {
		w.alike.Add(1)
	} else {
		w.other.Add(1)
	}
}

func (w *substitute) judge(alike, other int64) {
	switch all := alike + other; {
	case all < substituteLeast:
	case alike*10 >= all*substituteTenths:
		// Before anything was heard of it that was its own, nobody knows what is.
		if w.well.Load() > 0 {
			w.stood.Add(alike)
		}
	case other*10 >= all*substituteTenths:
		w.well.Add(1)
	}
}

// finding says what is wrong; "": nothing is known to be.
func (w *substitute) finding() string {
	n := w.stood.Load()
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %d answers on route %s were, to the byte, what the route gives in place of a failure, for whole stretches of %s, and did not say so in %s: they count as real ones",
		w.upstream, n, w.route, substituteSlot, degradedField)
}

// SubstituteStats is what is known about the upstream of a route that has a fallback.
type SubstituteStats struct {
	Upstream string `json:"upstream"`
	// Own is in how many stretches it had answers of its own, and Unmarked how many
	// answers came in stretches in which it had none.
	Own      int64  `json:"stretches_of_its_own"`
	Unmarked int64  `json:"unmarked"`
	Text     string `json:"text,omitempty"` // "": nothing is wrong, as far as anybody knows
}

// stats are what is known by route, for /stats.
func (s *substitutes) stats() map[string]SubstituteStats {
	out := map[string]SubstituteStats{}
	for _, w := range s.all() {
		out[w.route] = SubstituteStats{Upstream: w.upstream, Own: w.well.Load(), Unmarked: w.stood.Load(), Text: w.finding()}
	}
	return out
}

func (s *substitutes) all() []*substitute {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*substitute
	for _, w := range s.of {
		out = append(out, w)
	}
	return out
}

// tick writes a notice of each finding that is new, once.
func (s *substitutes) tick(notice func(retrylog.Notice)) {
	for _, w := range s.all() {
		if text := w.finding(); text != "" && w.told.CompareAndSwap(false, true) {
			notice(retrylog.Notice{Kind: "fallback_unmarked", Count: w.stood.Load(), Detail: text})
		}
	}
}
