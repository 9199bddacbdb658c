// Package breaker stops calls to a service that keeps failing, and lets a few
// through after a while to see whether it has recovered.
package breaker

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/internal/window"
	"breakwater/internal/retrylog"
)

// State is whether calls may pass.
type State string

// The states.
const (
	Closed   State = "closed"
	Open     State = "open"
	HalfOpen State = "half_open"
)

// States lists them, for series that exist from the start.
func States() []State { return []State{Closed, Open, HalfOpen} }

// Result is what a call said about the upstream.
type Result uint8

// The results. An Ignored one is neither good nor bad: it gives its permit back,
// and leaves everything else as it was.
const (
	Ignored Result = iota
	Success
	Failure
)

// Deps are what a Breaker needs beside its Config.
type Deps struct {
	// Endpoint is the address it stands before; "": it is a service's.
	Endpoint string
	// Changed is told of every change of state, under no lock; nil: nobody is.
	// Policy, Endpoint, At, From, To and Reason are filled.
	Changed func(retrylog.Transition)
	// Hold is asked before a closed breaker opens, and may say no: too many of its
	// kind are out already. Free is told when it has closed again. Both are called
	// under the breaker's lock, and must not ask it anything but Shut.
	Hold func() bool
	Free func()
	// Shards is over how many cells calls are counted; 0: as there are cores.
	Shards int
}

// Breaker is the state of one breaker. It outlives snapshots, and is safe for
// concurrent use: what passes while it is closed takes no lock but twice a second.
//
// Whatever time alone decides happened when it was due, not when somebody came to
// look: reading never changes what the breaker does next.
type Breaker struct {
	deps Deps
	base time.Time // instants are nanoseconds from here, by the monotonic clock

	view atomic.Pointer[view]
	// due is when the clock has something to decide; admit when the next probe may go.
	due, admit atomic.Int64
	row        atomic.Int64 // failures in a row
	refused    atomic.Int64
	asked      atomic.Int64 // Hold said no: it is not asked again before
	probes     atomic.Int64 // number of the last probe: never starts anew
	calls      sync.Pool
	made       atomic.Int64 // calls made for the pool

	mu sync.Mutex // of changes, and of everything while half-open
	machine
	told []retrylog.Transition // to be told once mu is free
}

// view is what the passing path reads, replaced at every change.
type view struct {
	cfg   *Config
	state State
	gen   uint64 // a call of another generation says nothing any more
	until int64  // of Open
	ring  *window.Ring
	slow  *flights // nil: slow calls are not counted

	closed bool // state is Closed
	dual   bool // the rule is
	weighs bool // a result alone may trip
}

// show makes v what everybody reads. What the passing path asks is worked out once.
func (b *Breaker) show(v view) {
	v.closed = v.state == Closed
	v.dual = v.cfg.Rule == Dual
	v.weighs = v.dual || v.cfg.Windows == 1
	b.view.Store(&v)
}

// machine is the part under the lock.
type machine struct {
	since  int64 // of the state
	level  int64 // how often in a row it opened, as of the last close
	ended  int64 // when it was closed last
	streak int64 // windows in a row that breached
	judged int64 // windows before this one are judged; with Sliding buckets
	breach int64 // Sliding: since when the window breaches; 0: it does not
	held   bool
	half   half
	spent  [3]time.Duration // in states that are over, as States lists them
	turns  [3][3]int64      // changes, from and to
}

// Permit is leave for one call; it ends with Done.
type Permit struct {
	gen   uint64
	at    int64
	probe int64 // its number; 0: no probe

	slow    *flights // it is watched there
	slot    int64
	counted bool // as slow, and thereby as a call
}

// Probe is the number of the probe that the call is, from 1; 0: it is none.
func (p *Permit) Probe() int64 { return p.probe }

const never = math.MaxInt64

// New returns a closed breaker that has counted nothing.
func New(cfg Config, d Deps, now time.Time) *Breaker {
	if d.Shards <= 0 {
		d.Shards = min(runtime.GOMAXPROCS(0), 16)
	}
	b := &Breaker{deps: d, base: now}
	filled := cfg.filled()
	b.show(view{cfg: &filled, state: Closed, ring: b.ring(&filled), slow: b.flights(&filled, 0)})
	b.due.Store(b.next())
	return b
}

func (b *Breaker) ring(cfg *Config) *window.Ring {
	return window.New(window.Config{Span: cfg.Window, Bucket: cfg.Bucket, Shards: b.deps.Shards}, b.base)
}

func (b *Breaker) tick(now time.Time) int64 { return max(int64(now.Sub(b.base)), 0) }

func (b *Breaker) time(tick int64) time.Time { return b.base.Add(time.Duration(tick)) }

// Allow asks for a call at now; ok is false where it must not be made. shard is
// any number; callers that run at once should have different ones.
func (b *Breaker) Allow(now time.Time, shard uint) (p Permit, ok bool) {
	t := b.tick(now)
	v := b.view.Load()
	if v.closed && t < b.due.Load() {
		return v.pass(t, shard), true
	}
	switch {
	case v.state == Open && t < v.until,
		v.state == HalfOpen && t < b.admit.Load() && t < b.due.Load():
		b.refused.Add(1)
		return Permit{}, false
	}
	b.mu.Lock()
	defer b.unlock(now)
	b.catchUp(t)
	v = b.view.Load()
	if v.state == Open && t >= v.until {
		b.turn(HalfOpen, t, "it was open for "+b.openFor().String())
		v = b.view.Load()
	}
	switch v.state {
	case Closed:
		return v.pass(t, shard), true
	case HalfOpen:
		p, ok = b.half.admit(v, t, &b.probes)
		b.schedule()
	}
	if !ok {
		b.refused.Add(1)
	}
	return p, ok
}

func (v *view) pass(t int64, shard uint) Permit {
	p := Permit{gen: v.gen, at: t}
	if v.slow != nil {
		v.slow.start(&p, shard)
	}
	return p
}

// Answered notes that the head of the answer is there: from now on the call is not
// slow any more, however long its body takes.
func (b *Breaker) Answered(now time.Time, shard uint, p *Permit) {
	if p.slow == nil {
		return
	}
	b.at(now, p) // what was due before it came back, came before
	fresh := p.slow.finish(p, shard)
	slow := p.slow
	p.slow = nil
	switch {
	case !fresh: // counted at its moment
		p.counted = true
	case b.tick(now)-p.at >= slow.after:
		if v := b.at(now, p); v != nil && v.slow == slow {
			v.ring.Put(shard, window.Counts{Total: 1, Slow: 1})
			p.counted = true
			b.weigh(now, v)
		}
	}
}

// Done ends the call with what it said. Calls of an earlier generation only give
// their permit back.
func (b *Breaker) Done(now time.Time, shard uint, p Permit, r Result) {
	if p.probe != 0 {
		b.mu.Lock()
		defer b.unlock(now)
		t := b.tick(now)
		b.catchUp(t)
		if v := b.view.Load(); v.gen == p.gen {
			b.follow(b.half.finish(v, t, p.probe, r), t)
		}
		return
	}
	b.Answered(now, shard, &p)
	if r == Ignored {
		return
	}
	v := b.at(now, &p)
	if v == nil {
		return
	}
	failed := int64(0)
	if r == Failure {
		failed = 1
	}
	if v.dual {
		if r == Failure {
			b.row.Add(1)
		} else if b.row.Load() != 0 {
			b.row.Store(0)
		}
	}
	switch {
	case !p.counted:
		v.ring.Put(shard, window.Counts{Total: 1, Failed: failed})
	case failed == 0:
		return
	default: // it was counted when it became slow, and is forgotten with that
		b.mu.Lock()
		v.ring.Amend(b.time(v.slowAt(&p)), window.Counts{Failed: 1})
		b.mu.Unlock()
	}
	b.weigh(now, v)
}

// at brings the breaker up to now and returns what holds, or nil where p is of
// another generation.
func (b *Breaker) at(now time.Time, p *Permit) *view {
	v := b.view.Load()
	if v.gen == p.gen {
		if t := b.tick(now); t >= b.due.Load() {
			b.mu.Lock()
			b.catchUp(t)
			b.unlock(now)
			v = b.view.Load()
		}
	}
	if v.gen != p.gen || !v.closed {
		return nil
	}
	return v
}

// unlock frees the lock and tells of the changes made under it. Their instants are
// told by the clock of now: the wall may have been set since the breaker was made.
func (b *Breaker) unlock(now time.Time) {
	told := b.told
	b.told = nil
	b.mu.Unlock()
	if b.deps.Changed == nil {
		return
	}
	for _, t := range told {
		t.At = now.Add(t.At.Sub(now))
		b.deps.Changed(t)
	}
}

// State at now.
func (b *Breaker) State(now time.Time) State {
	b.mu.Lock()
	defer b.unlock(now)
	return b.state(b.tick(now))
}

// state is the state at t; an open breaker whose time is up is half-open, though
// it will only turn when a call comes.
func (b *Breaker) state(t int64) State {
	b.catchUp(t)
	v := b.view.Load()
	if v.state == Open && t >= v.until {
		return HalfOpen
	}
	return v.state
}

// Shut reports whether a call could not pass at now. It takes no lock.
func (b *Breaker) Shut(now time.Time) bool {
	v := b.view.Load()
	switch v.state {
	case Open:
		return b.tick(now) < v.until
	case HalfOpen:
		return b.tick(now) < b.admit.Load()
	}
	return false
}

// Wait is how long no call can pass; at least a second, where there is none.
func (b *Breaker) Wait(now time.Time) time.Duration {
	v := b.view.Load()
	until := v.until
	if v.state == HalfOpen {
		until = b.admit.Load()
	}
	return max(time.Duration(until-b.tick(now)), time.Second)
}

// Config is what it goes by.
func (b *Breaker) Config() Config { return *b.view.Load().cfg }

// Reconfigure goes by cfg from now on. State, level and the time it opened stay; a
// window of another shape begins empty.
func (b *Breaker) Reconfigure(cfg Config, now time.Time) {
	b.mu.Lock()
	defer b.unlock(now)
	t := b.tick(now)
	b.catchUp(t)
	before := b.view.Load()
	next := *before
	filled := cfg.filled()
	next.cfg = &filled
	if !filled.sameWindow(before.cfg) {
		next.ring = b.ring(&filled)
		next.ring.Advance(now)
	}
	if !filled.sameWindow(before.cfg) || filled.Rule != before.cfg.Rule || filled.Windows != before.cfg.Windows || filled.Sliding != before.cfg.Sliding {
		b.streak, b.breach = 0, 0
		b.judged = b.evaluation(&filled, t)
	}
	if filled.SlowAfter != before.cfg.SlowAfter {
		next.slow = b.flights(&filled, t)
	}
	if before.state == Open {
		next.until = b.since + int64(filled.openFor(b.level))
	}
	if before.state == HalfOpen && filled.HalfOpen != before.cfg.HalfOpen {
		b.half = half{since: t} // tried out anew, by the new rules
		next.gen++
	}
	b.show(next)
	switch {
	case before.state == Closed:
	case filled.Disabled:
		b.turn(Closed, t, "it was switched off")
	case filled.Observe:
		b.free()
	case !b.held && b.deps.Hold != nil: // it only observed so far
		if b.held = b.deps.Hold(); !b.held {
			b.turn(Closed, t, "it is to act now, and too many are out already")
		}
	}
	b.schedule()
}
