// Package concurrency bounds how many requests are under way at once: by a fixed
// number, or by one that follows what latencies and drops say of the upstream. A
// limit that is full refuses at once, before any work is queued.
package concurrency

import (
	"sync"
	"sync/atomic"
	"time"

	"breakwater/internal/retrylog"
)

// Kind is how a limit moves.
type Kind string

// The kinds. All but Fixed fall to nine tenths after a window with drops.
const (
	Fixed     Kind = "fixed"     // stays at Max
	Gradient  Kind = "gradient"  // Envoy's: by the ratio of the least latency, probed now and then, to that of now
	Gradient2 Kind = "gradient2" // Netflix's: by the ratio of a long average to the latency of now; never probes
	Vegas     Kind = "vegas"     // TCP Vegas: by the length of the queue that latencies show
	AIMD      Kind = "aimd"      // by drops alone
)

// Config of one limit. The zero Config limits nothing.
type Config struct {
	Kind Kind `json:"kind"`
	// Max is the most there may be; Min the floor under which no adaptive kind
	// falls; Initial where it begins. 0: 1000, 3 and 20.
	Max     int64 `json:"max"`
	Min     int64 `json:"min,omitempty"`
	Initial int64 `json:"initial,omitempty"`
	// Window is how often a decision is made; 0: 100 ms. One with fewer than ten
	// answers and no drop goes on until it has them.
	Window time.Duration `json:"window,omitempty"`
	// Gradient and Vegas measure the least latency anew each ProbeEvery, from
	// ProbeSamples answers at no more than ProbeConcurrency requests at once, which
	// is no matter of the floor. 0: 60 s, 20 and 3.
	ProbeEvery       time.Duration `json:"probe_every,omitempty"`
	ProbeSamples     int64         `json:"probe_samples,omitempty"`
	ProbeConcurrency int64         `json:"probe_concurrency,omitempty"`
	// Queue is how many critical requests may wait for a place, each for QueueWait
	// at most; 0: nobody waits. Limits of endpoints have no queue.
	Queue     int64         `json:"queue,omitempty"`
	QueueWait time.Duration `json:"queue_wait,omitempty"`
	// Observe counts refusals and makes none.
	Observe bool `json:"observe,omitempty"`
}

// Enabled reports whether cfg limits anything.
func (c Config) Enabled() bool { return c.Kind != "" }

func (c Config) filled() Config {
	fill(&c.Max, 1000)
	fill(&c.Min, 3)
	c.Min = min(c.Min, c.Max)
	fill(&c.Initial, 20)
	c.Initial = min(max(c.Initial, c.Min), c.Max)
	fill(&c.ProbeSamples, 20)
	fill(&c.ProbeConcurrency, 3)
	if c.Window <= 0 {
		c.Window = 100 * time.Millisecond
	}
	if c.ProbeEvery <= 0 {
		c.ProbeEvery = 60 * time.Second
	}
	if c.Kind == Fixed || c.Kind == "" {
		c.Initial = c.Max
	}
	return c
}

func fill(v *int64, standard int64) {
	if *v <= 0 {
		*v = standard
	}
}

// Deps are what a limit needs beside its Config.
type Deps struct {
	// Changed is told when a limit begins and ends to refuse; nil: nobody is. It
	// is called under no lock that requests take.
	Changed func(retrylog.Transition)
	// Endpoint stands in those transitions.
	Endpoint string
}

// Limit is the state of one limit. It outlives snapshots, and is safe for
// concurrent use: what requests touch are atomics, and its lock is taken once a
// window.
type Limit struct {
	base time.Time
	deps Deps

	inFlight atomic.Int64
	allowed  atomic.Int64 // as it holds now: the limit, or less while a probe lasts
	peak     atomic.Int64 // most in flight in this window
	refused  atomic.Int64
	dropped  atomic.Int64
	due      atomic.Int64 // when the window may be judged, in ns after base
	epoch    atomic.Int64 // samples of requests sent before it are not looked at
	adaptive atomic.Bool
	lowered  atomic.Bool  // a probe lasts
	judged   atomic.Int64 // refusals as of the last judgement; -1 while full
	window   window
	waiting  queue

	mu          sync.Mutex // of what follows
	cfg         Config
	limitMilli  int64
	least, long time.Duration // latencies: the least, and the long average
	probing     bool
	probedAt    int64
	calmAt      int64 // no growth before it, because of drops
	waryAt      int64 // growth by one only before it
	full        bool
	lastRefused int64 // count at the last judgement
	fullAt      int64 // when a refusal was last seen
	counted     int64 // drops at the last judgement
}

// New returns a limit with nothing under way.
func New(cfg Config, now time.Time, d Deps) *Limit {
	l := &Limit{base: now, deps: d}
	l.waiting.limit = l
	l.configure(cfg.filled(), 0)
	return l
}

// Reconfigure takes cfg over. What is under way stays counted; a limit that has
// found its level keeps it, within the new bounds, as long as its kind is the same.
func (l *Limit) Reconfigure(cfg Config, now time.Time) {
	cfg = cfg.filled()
	l.mu.Lock()
	defer l.mu.Unlock()
	if cfg != l.cfg {
		l.configure(cfg, int64(now.Sub(l.base)))
	}
}

// configure is called with the lock held, or before anybody else has l.
func (l *Limit) configure(cfg Config, at int64) {
	same := cfg.Kind == l.cfg.Kind
	l.cfg = cfg
	if same && cfg.adapts() {
		l.limitMilli = min(max(l.limitMilli, cfg.Min*milli), cfg.Max*milli)
	} else {
		l.limitMilli, l.least, l.long, l.probing, l.waryAt, l.calmAt = cfg.Initial*milli, 0, 0, false, 0, 0
		if cfg.probes() {
			l.probe(at)
		}
	}
	l.adaptive.Store(cfg.adapts())
	l.due.Store(at + int64(cfg.Window))
	l.waiting.configure(cfg.Queue)
	l.publish()
}

func (c Config) adapts() bool { return c.Kind != Fixed && c.Kind != "" }

func (c Config) probes() bool { return c.Kind == Gradient || c.Kind == Vegas }

// publish makes what is decided hold. The lock is held.
func (l *Limit) publish() {
	n := l.limitMilli / milli
	if !l.cfg.Enabled() {
		n = 0 // and nobody asks for a place
	}
	if l.probing {
		n = min(n, l.cfg.ProbeConcurrency)
	}
	l.lowered.Store(l.probing)
	l.allowed.Store(n)
}

// TryAcquire takes a place, or reports that there is none. Each place taken is
// given back by Release, once.
func (l *Limit) TryAcquire(time.Time) bool {
	if l.try() {
		return true
	}
	l.refused.Add(1)
	return false
}

func (l *Limit) try() bool {
	for {
		n := l.inFlight.Load()
		if n >= l.allowed.Load() {
			return false
		}
		if l.inFlight.CompareAndSwap(n, n+1) {
			l.note(n + 1)
			return true
		}
	}
}

// Take takes a place whether there is one or not: for who only observes.
func (l *Limit) Take() { l.note(l.inFlight.Add(1)) }

func (l *Limit) note(n int64) {
	for {
		peak := l.peak.Load()
		if n <= peak || l.peak.CompareAndSwap(peak, n) {
			return
		}
	}
}

// Release gives a place back, to who waits for one first.
func (l *Limit) Release() {
	if l.waiting.hand() {
		return
	}
	l.inFlight.Add(-1)
	if l.waiting.n.Load() > 0 { // who began to wait between the two
		l.waiting.wake()
	}
}

// Ready reports whether TryAcquire would find a place; it counts nothing.
func (l *Limit) Ready() bool { return l.inFlight.Load() < l.allowed.Load() }

// Load is how many are under way, and how many may be, 0 where nothing is limited;
// steady is false while that number is lowered for a probe.
func (l *Limit) Load() (inFlight, allowed int64, steady bool) {
	return l.inFlight.Load(), l.allowed.Load(), !l.lowered.Load()
}

// curious reports whether Observe would do anything with what it is told: a limit
// that does not move has only to know when it is full, and when no more.
func (l *Limit) curious() bool {
	return l.adaptive.Load() || l.refused.Load() != l.judged.Load()
}

// Result is how a request that had a place went, as its head told.
type Result struct {
	Outcome retrylog.Outcome
	Status  int
	Took    time.Duration // to the head
}

// Observe takes in how a request went that ended at now.
func (l *Limit) Observe(now time.Time, r Result) {
	at := int64(now.Sub(l.base))
	switch {
	case r.Outcome == retrylog.Timeout, r.Status == 429, r.Status == 503:
		// An upstream that refuses is quick: its latency would ask for more.
		l.dropped.Add(1)
	case r.Outcome == retrylog.OK && l.adaptive.Load() && at-int64(r.Took) >= l.epoch.Load():
		l.window.add(r.Took)
	}
	if due := l.due.Load(); at >= due {
		l.judge(at, due)
	}
}

// Stats is the state of a limit, for people.
type Stats struct {
	Kind     Kind
	InFlight int64
	Allowed  int64 // now: less than Limit while a probe lasts
	Limit    int64
	Waiting  int64
	Refused  int64 // since the start
	Dropped  int64 // answers that told of overload, since the start
	Probing  bool
	Full     bool          // refused within the last seconds
	Least    time.Duration // least latency known; 0: none, or of no interest to the kind
	Long     time.Duration // long average of gradient2
}

// Stats returns the state at now and changes nothing.
func (l *Limit) Stats(now time.Time) Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := int64(now.Sub(l.base))
	refused := l.refused.Load()
	full := refused > l.lastRefused || l.full && at-l.fullAt < int64(quiet)
	return Stats{
		Kind: l.cfg.Kind, InFlight: l.inFlight.Load(), Allowed: l.allowed.Load(), Limit: l.limitMilli / milli,
		Waiting: l.waiting.n.Load(), Refused: refused, Dropped: l.dropped.Load(), Probing: l.probing, Full: full,
		Least: l.least, Long: l.long,
	}
}
