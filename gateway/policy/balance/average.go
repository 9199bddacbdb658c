package balance

import (
	"math"
	"sync/atomic"
	"time"
)

// Average is a peak-sensitive moving average: up at once, down with time. The
// zero value knows nothing.
type Average struct {
	value float64 // nanoseconds
	at    time.Time
}

// Read is the average decayed to now. It changes nothing: how often an endpoint
// is looked at must not matter.
func (a Average) Read(tau time.Duration, now time.Time) float64 {
	dt := max(now.Sub(a.at), 0)
	return a.value * math.Exp(-float64(dt)/float64(tau))
}

// Observe takes a sample in at now.
func (a *Average) Observe(tau time.Duration, now time.Time, sample time.Duration) {
	w := math.Exp(-float64(max(now.Sub(a.at), 0)) / float64(tau))
	decayed, rtt := a.value*w, float64(sample)
	if rtt > decayed {
		a.value = rtt
	} else {
		a.value = decayed + rtt*(1-w)
	}
	a.at = now
}

// raise takes in a sample that is only a lower bound.
func (a *Average) raise(tau time.Duration, now time.Time, sample time.Duration) {
	if float64(sample) > a.Read(tau, now) {
		a.value, a.at = float64(sample), now
	}
}

// cell holds an Average in one word, so that picks read it and results change it
// without a lock: nanoseconds as float32 above the millisecond it is of.
// Milliseconds wrap after 24 days of silence; what was known then is of no use
// anyway.
type cell struct {
	base time.Time // milliseconds count from here
	word atomic.Uint64
}

// whole cuts now to a millisecond of c: samples of one millisecond are as one in
// time, and none decays for having been rounded.
func (c *cell) whole(now time.Time) time.Time {
	return c.base.Add(now.Sub(c.base).Truncate(time.Millisecond))
}

func (c *cell) pack(a Average) uint64 {
	ms := uint32(a.at.Sub(c.base) / time.Millisecond) // wraps on purpose
	return uint64(math.Float32bits(float32(a.value)))<<32 | uint64(ms)
}

// unpack finds the instant that is nearest to now among those the word may mean.
func (c *cell) unpack(word uint64, now time.Time) Average {
	ms := uint32(now.Sub(c.base) / time.Millisecond)
	age := int32(ms - uint32(word))
	return Average{float64(math.Float32frombits(uint32(word >> 32))), now.Add(-time.Duration(age) * time.Millisecond)}
}

// read is Average.Read without the detour over instants: every pick does it twice.
func (c *cell) read(tau time.Duration, now time.Time) float64 {
	word := c.word.Load()
	age := max(int32(uint32(now.Sub(c.base)/time.Millisecond)-uint32(word)), 0)
	value := float64(math.Float32frombits(uint32(word >> 32)))
	return value * math.Exp(-float64(age)*float64(time.Millisecond)/float64(tau))
}

// observe takes a sample in; one that is only a lower bound never lowers.
func (c *cell) observe(tau time.Duration, now time.Time, sample time.Duration, bound bool) {
	now = c.whole(now)
	for {
		before := c.word.Load()
		a := c.unpack(before, now)
		if bound {
			a.raise(tau, now, sample)
		} else {
			a.Observe(tau, now, sample)
		}
		if c.word.CompareAndSwap(before, c.pack(a)) {
			return
		}
	}
}
