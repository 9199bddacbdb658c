package retry

import (
	"sync"
	"sync/atomic"
	"time"
)

// BudgetConfig bounds the share of retries. The zero value never allows one;
// DefaultBudget is what ships.
type BudgetConfig struct {
	RatioMilli int64         `json:"ratio_milli"` // retries per thousand first tries, 0 to 1000
	MinPerSec  int64         `json:"min_per_second"`
	TTL        time.Duration `json:"ttl"` // 1 s to 60 s
	// Sum adds the floor to the share (as Finagle and Linkerd do) where
	// otherwise the greater of the two holds.
	Sum bool `json:"sum,omitempty"`
}

// DefaultBudget is one retry for five requests, and ten a second in any case.
func DefaultBudget() BudgetConfig {
	return BudgetConfig{RatioMilli: 200, MinPerSec: 10, TTL: 10 * time.Second}
}

const slots = 10

// Budget is the retry budget of one upstream: requests arriving earn, retries
// sent spend, and both are forgotten after the TTL. It is safe for concurrent use.
//
// Requests earn when they arrive and not when they succeed: an upstream that
// fails altogether would else leave nothing but the floor.
type Budget struct {
	cfg   BudgetConfig
	width time.Duration // of a slot

	base atomic.Pointer[time.Time] // the first instant seen: slots are counted from it
	slot atomic.Int64              // number of the running slot
	ring [slots]struct {
		earned atomic.Int64
		spent  int64 // guarded by mu
	}

	mu sync.Mutex // of whatever is rarer than a deposit: a new slot, a retry
}

// NewBudget returns an empty budget.
func NewBudget(cfg BudgetConfig) *Budget {
	b := &Budget{cfg: cfg, width: cfg.TTL / slots}
	if b.width <= 0 {
		b.width = time.Second
	}
	return b
}

// Deposit counts the first try of a request. Every request passes here, so there
// is no lock but at the edge of a slot; one that is overtaken by that edge counts
// in the slot before.
func (b *Budget) Deposit(now time.Time) {
	base := b.base.Load()
	if base == nil || b.at(*base, now) > b.slot.Load() {
		b.mu.Lock()
		b.advance(now)
		b.mu.Unlock()
	}
	b.ring[b.slot.Load()%slots].earned.Add(1)
}

// Withdraw takes one retry, or reports that none is left. Nothing is ever given back.
func (b *Budget) Withdraw(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	limit, spent := b.limitMilli()
	if (spent+1)*1000 > limit {
		return false
	}
	b.ring[b.slot.Load()%slots].spent++
	return true
}

// Left is how many retries Withdraw would allow at now, if nothing else came.
func (b *Budget) Left(now time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	limit, spent := b.limitMilli()
	return max(limit/1000-spent, 0)
}

// limitMilli is in thousandths of a retry, so that a ratio of 0.3 is exact.
func (b *Budget) limitMilli() (limit, spent int64) {
	var earned int64
	for i := range b.ring {
		earned += b.ring[i].earned.Load()
		spent += b.ring[i].spent
	}
	floor := b.cfg.MinPerSec * b.cfg.TTL.Milliseconds()
	share := b.cfg.RatioMilli * earned
	if b.cfg.Sum {
		return floor + share, spent
	}
	return max(floor, share), spent
}

// at is the number of the slot that now lies in. Slots lie on fixed multiples of
// a tenth of the TTL from the first instant: measured from the last call instead,
// calls 1.9 slots apart would age by one slot each time.
func (b *Budget) at(base, now time.Time) int64 { return int64(now.Sub(base) / b.width) }

// advance empties the slots that time has passed. mu is held.
func (b *Budget) advance(now time.Time) {
	base := b.base.Load()
	if base == nil {
		first := now // for this call alone it lies on the heap
		base = &first
		b.base.Store(base)
	}
	at, slot := b.at(*base, now), b.slot.Load()
	if at <= slot { // a reading taken before another's: no time has passed
		return
	}
	for n := min(at-slot, slots); n > 0; n-- {
		s := &b.ring[(at-n+1)%slots]
		s.earned.Store(0)
		s.spent = 0
	}
	b.slot.Store(at)
}
