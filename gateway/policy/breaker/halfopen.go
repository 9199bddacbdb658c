package breaker

import (
	"fmt"
	"sync/atomic"
	"time"
)

// half is what is known while half-open; the breaker's lock guards it.
type half struct {
	since, latest int64
	windows       []probeWindow // not judged yet, the oldest first
	flying        []flight
	next          int64 // the next probe is not let out before
	credit        int64 // turns of probes that came back without a word
	passed        int64 // windows in a row
	finished      bool  // some probe was
	judgedAt      int64
}

// probeWindow counts the probes let out within it, whenever they came back.
type probeWindow struct {
	index                           int64
	admitted, out, finished, failed int64
	last                            int64 // when the last of them came back
}

// flight is a probe on its way.
type flight struct{ number, at, window int64 }

// change is what has been decided; its zero value: nothing.
type change struct {
	to     State
	at     int64
	deeper int64 // levels
	reason string
}

// admit lets a probe out at t, if it is its turn.
func (h *half) admit(v *view, t int64, probes *atomic.Int64) (p Permit, ok bool) {
	cfg := &v.cfg.HalfOpen
	h.latest = max(h.latest, t, h.since) // a clock that goes back reopens no window
	t = h.latest
	w := h.window(cfg, t)
	if w.admitted >= cfg.Probes {
		return p, false
	}
	if !cfg.Simple {
		switch {
		case t >= h.next:
			h.next = t + int64(cfg.Window)/cfg.Probes
		case h.credit > 0:
			h.credit--
		default:
			return p, false
		}
	}
	w.admitted++
	w.out++
	p = Permit{gen: v.gen, at: t, probe: probes.Add(1)}
	h.flying = append(h.flying, flight{p.probe, t, w.index})
	return p, true
}

// window is the window of t. The simple preset has only one.
func (h *half) window(cfg *Trial, t int64) *probeWindow {
	index := int64(0)
	if !cfg.Simple {
		index = (t - h.since) / int64(cfg.Window)
	}
	if n := len(h.windows); n > 0 && h.windows[n-1].index >= index {
		return &h.windows[n-1]
	}
	h.windows = append(h.windows, probeWindow{index: index})
	h.credit = 0
	return &h.windows[len(h.windows)-1]
}

// end of a window; the one of the simple preset has none.
func (h *half) end(cfg *Trial, w *probeWindow) int64 {
	if cfg.Simple {
		return never
	}
	return h.since + (w.index+1)*int64(cfg.Window)
}

// finish takes in what a probe said at t.
func (h *half) finish(v *view, t, number int64, r Result) change {
	for i, f := range h.flying {
		if f.number == number {
			if c := h.settle(v, i, t, r); c.to != "" {
				return c
			}
			return h.advance(v, t)
		}
	}
	return change{} // counted without it
}

// settle ends the i-th flight.
func (h *half) settle(v *view, i int, t int64, r Result) change {
	cfg := &v.cfg.HalfOpen
	f := h.flying[i]
	h.flying = append(h.flying[:i], h.flying[i+1:]...)
	var w *probeWindow
	for j := range h.windows {
		if h.windows[j].index == f.window {
			w = &h.windows[j]
		}
	}
	if w == nil {
		return change{}
	}
	w.out--
	w.last = max(w.last, t)
	if r == Ignored { // its turn goes to another
		w.admitted--
		if w == &h.windows[len(h.windows)-1] && !cfg.Simple {
			h.credit++
		}
		return change{}
	}
	h.finished = true
	w.finished++
	if r == Failure {
		w.failed++
		// Lost, whatever the others will say.
		if cfg.Simple || !cfg.passes(cfg.Probes-w.failed, cfg.Probes) {
			return change{Open, t, 1, fmt.Sprintf("%d of %d probes failed", w.failed, w.finished)}
		}
		return change{}
	}
	if cfg.Simple && w.finished >= cfg.Probes {
		return change{Closed, t, 0, fmt.Sprintf("%d probes succeeded", w.finished)}
	}
	return change{}
}

func (c *Trial) passes(good, of int64) bool { return reaches(good, c.PassPPM, of, c.PassAbove) }

// advance lets happen what time alone decides, up to t, in its order.
func (h *half) advance(v *view, t int64) change {
	cfg := &v.cfg.HalfOpen
	for {
		at, i, slow := h.soonest(v)
		judged := h.verdictAt(cfg)
		switch {
		case min(at, judged) > t:
			return change{}
		case judged <= at:
			if c := h.judge(cfg, judged); c.to != "" {
				return c
			}
		case slow:
			if c := h.settle(v, i, at, Failure); c.to != "" {
				return c
			}
		case !h.finished:
			return change{Open, at, 0, fmt.Sprintf("a probe has been out for %s, and none came back", cfg.Stuck)}
		default: // it would hold up its window for ever
			h.settle(v, i, at, Ignored)
		}
	}
}

// soonest is the first moment at which a flight has taken too long: slow where
// slow calls count, else as long as any is waited for.
func (h *half) soonest(v *view) (at int64, i int, slow bool) {
	at = never
	for j, f := range h.flying {
		limit, isSlow := int64(v.cfg.HalfOpen.Stuck), false
		if v.cfg.SlowPPM > 0 && int64(v.cfg.SlowAfter) < limit {
			limit, isSlow = int64(v.cfg.SlowAfter), true
		}
		if f.at+limit < at {
			at, i, slow = f.at+limit, j, isSlow
		}
	}
	return at, i, slow
}

// verdictAt is when the oldest window can be judged: at its end, once all its
// probes are back.
func (h *half) verdictAt(cfg *Trial) int64 {
	if len(h.windows) == 0 || h.windows[0].out > 0 {
		return never
	}
	return max(h.end(cfg, &h.windows[0]), h.windows[0].last, h.judgedAt)
}

// judge closes the oldest window.
func (h *half) judge(cfg *Trial, at int64) change {
	w := h.windows[0]
	h.windows = h.windows[1:]
	h.judgedAt = at
	if w.finished == 0 {
		return change{} // nobody asked, or nobody said anything
	}
	if !cfg.passes(w.finished-w.failed, w.finished) {
		return change{Open, at, 1, fmt.Sprintf("%d of %d probes failed", w.failed, w.finished)}
	}
	if h.passed++; h.passed >= cfg.PassWindows {
		return change{Closed, at, 0, fmt.Sprintf("%d windows of %s in a row passed", h.passed, cfg.Window)}
	}
	return change{}
}

// due is when time has the next word.
func (h *half) due(v *view) int64 {
	at, _, _ := h.soonest(v)
	return min(at, h.verdictAt(&v.cfg.HalfOpen))
}

// admitFrom is when the next probe may go, as far as is known.
func (h *half) admitFrom(v *view) int64 {
	cfg := &v.cfg.HalfOpen
	if len(h.windows) == 0 {
		return h.next
	}
	w := &h.windows[len(h.windows)-1]
	switch {
	case w.admitted >= cfg.Probes:
		return max(h.next, h.end(cfg, w))
	case cfg.Simple || h.credit > 0:
		return h.since
	}
	return h.next
}

// untilProbe is how long until the next probe may go.
func (b *Breaker) untilProbe(t int64) time.Duration { return max(time.Duration(b.admit.Load()-t), 0) }
