package retry

import (
	"sync"
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
	cfg BudgetConfig

	mu   sync.Mutex
	base time.Time // the first instant seen: slots are counted from it
	slot int64     // number of the running slot
	ring [slots]struct{ earned, spent int64 }

	earned, spent int64 // sums over the ring
}

// NewBudget returns an empty budget.
func NewBudget(cfg BudgetConfig) *Budget { return &Budget{cfg: cfg} }

// Deposit counts the first try of a request.
func (b *Budget) Deposit(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	b.ring[b.slot%slots].earned++
	b.earned++
}

// Withdraw takes one retry, or reports that none is left. Nothing is ever given back.
func (b *Budget) Withdraw(now time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	if (b.spent+1)*1000 > b.limitMilli() {
		return false
	}
	b.ring[b.slot%slots].spent++
	b.spent++
	return true
}

// Left is how many retries Withdraw would allow at now, if nothing else came.
func (b *Budget) Left(now time.Time) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advance(now)
	return max(b.limitMilli()/1000-b.spent, 0)
}

// limitMilli is in thousandths of a retry, so that a ratio of 0.3 is exact.
func (b *Budget) limitMilli() int64 {
	floor := b.cfg.MinPerSec * b.cfg.TTL.Milliseconds()
	share := b.cfg.RatioMilli * b.earned
	if b.cfg.Sum {
		return floor + share
	}
	return max(floor, share)
}

// advance empties the slots that time has passed. Slots lie on fixed multiples
// of a tenth of the TTL from the first instant: measured from the last call
// instead, calls 1.9 slots apart would age by one slot each time.
func (b *Budget) advance(now time.Time) {
	if b.base.IsZero() {
		b.base = now
	}
	width := b.cfg.TTL / slots
	if width <= 0 {
		width = time.Second
	}
	at := int64(now.Sub(b.base) / width)
	if at <= b.slot { // a reading taken before another's: no time has passed
		return
	}
	for n := min(at-b.slot, slots); n > 0; n-- {
		s := &b.ring[(at-n+1)%slots]
		b.earned -= s.earned
		b.spent -= s.spent
		s.earned, s.spent = 0, 0
	}
	b.slot = at
}
