package concurrency

import (
	"fmt"
	"time"

	"breakwater/internal/retrylog"
)

const (
	enough = 10 // answers that a window needs
	// wary is for how long after a drop a limit grows by one only, and calm apart from
	// the drop and from one another. Growing as fast as else, it would be too high
	// again some windows later, and all that is too much fails, fast.
	wary = 60 * time.Second
	calm = 3 * time.Second
	// quiet is how long there must be no refusal for a limit not to be called full.
	quiet = 5 * time.Second
)

// judge closes the window that was due, unless another does so or it has too few
// answers.
func (l *Limit) judge(at, due int64) {
	l.mu.Lock()
	change := l.close(at, due)
	l.mu.Unlock()
	if change != nil && l.deps.Changed != nil {
		l.deps.Changed(*change)
	}
}

func (l *Limit) close(at, due int64) *retrylog.Transition {
	if l.due.Load() != due {
		return nil
	}
	drops := l.dropped.Load() - l.counted
	least := int64(enough)
	if l.probing {
		least = l.cfg.ProbeSamples
	}
	if drops == 0 && l.window.n.Load() < least && l.cfg.adapts() {
		// A slow upstream gives few answers; asked again when there are more.
		l.due.Store(at + int64(l.cfg.Window)/10)
		return l.toldFull(at)
	}
	l.counted += drops
	l.due.Store(at + int64(l.cfg.Window))
	n, sample := l.window.take()
	peak := l.peak.Swap(l.inFlight.Load())
	if l.cfg.adapts() {
		l.step(at, n, sample, peak, drops)
		l.publish()
		l.waiting.wake()
	}
	return l.toldFull(at)
}

// step moves the limit by what one window told.
func (l *Limit) step(at, n int64, sample time.Duration, peak, drops int64) {
	if drops > 0 {
		l.limitMilli = max(shrink(l.limitMilli), l.cfg.Min*milli)
		l.calmAt, l.waryAt = at+int64(calm), at+int64(wary)
		if !l.probing { // a probe goes on: its samples are of few requests at once
			return
		}
	}
	if l.probing {
		if n >= l.cfg.ProbeSamples {
			l.least, l.probing, l.probedAt = sample, false, at
			l.epoch.Store(at)
		}
		return
	}
	if n < enough {
		return
	}
	next := l.next(sample)
	if next > l.limitMilli {
		switch {
		case 2*peak*milli < l.limitMilli:
			next = l.limitMilli // so few in use that latencies say nothing of more
		case at < l.calmAt:
			next = l.limitMilli
		case at < l.waryAt:
			next = min(next, l.limitMilli+milli)
			l.calmAt = at + int64(calm)
		}
	}
	l.limitMilli = min(max(next, l.cfg.Min*milli), l.cfg.Max*milli)
	if l.cfg.probes() && at-l.probedAt >= int64(l.cfg.ProbeEvery) {
		l.probe(at)
	}
}

func (l *Limit) next(sample time.Duration) int64 {
	switch l.cfg.Kind {
	case Gradient:
		return gradient(l.limitMilli, l.least, sample)
	case Gradient2:
		l.long = average(l.long, sample)
		return gradient2(l.limitMilli, l.long, sample)
	case Vegas:
		l.least = min(l.least, sample)
		return vegas(l.limitMilli, l.least, sample)
	}
	return l.limitMilli + milli
}

// probe begins to measure the least latency anew. Requests sent before belong to
// the load that made the queue: their latencies are not the least.
func (l *Limit) probe(at int64) {
	l.probing = true
	l.epoch.Store(at)
	l.window.take()
}

// toldFull notes whether the limit refuses, and returns the change to be told.
func (l *Limit) toldFull(at int64) *retrylog.Transition {
	refused := l.refused.Load()
	more := refused - l.lastRefused
	l.lastRefused = refused
	if more > 0 {
		l.fullAt = at
	}
	full := more > 0 || l.full && at-l.fullAt < int64(quiet)
	if l.judged.Store(refused); full {
		l.judged.Store(-1) // the end of it is to be told too
	}
	if full == l.full {
		return nil
	}
	l.full = full
	t := &retrylog.Transition{Policy: "concurrency", Endpoint: l.deps.Endpoint, From: "accepting", To: "full",
		Reason: fmt.Sprintf("%d refused; limit %d", more, l.limitMilli/milli)}
	if !full {
		t.From, t.To = "full", "accepting"
		t.Reason = fmt.Sprintf("nothing refused for %s; limit %d", quiet, l.limitMilli/milli)
	}
	return t
}
