package retry

import (
	"math"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/internal/window"
	"breakwater/internal/retrylog"
)

// BudgetKind is what a budget bounds.
type BudgetKind string

// The kinds.
const (
	// Ratio bounds the retries of a span by its first tries.
	Ratio BudgetKind = "ratio"
	// Concurrency bounds the retries under way by the requests under way.
	Concurrency BudgetKind = "concurrency"
)

// BudgetConfig bounds the share of retries. The zero value never allows one;
// DefaultBudget is what ships.
type BudgetConfig struct {
	Kind BudgetKind `json:"kind,omitempty"` // "" is ratio
	// RatioMilli: ratio: retries per thousand first tries, 0 to 1,000,000;
	// concurrency: retries under way per thousand requests under way.
	RatioMilli int64         `json:"ratio_milli"`
	MinPerSec  int64         `json:"min_per_second"` // ratio
	TTL        time.Duration `json:"ttl"`            // ratio: 1 s to 60 s
	// Sum adds the floor to the share (as Finagle and Linkerd do) where
	// otherwise the greater of the two holds.
	Sum bool `json:"sum,omitempty"`
	// OnSuccess has only requests that end well earn retries (as Finagle does).
	OnSuccess bool `json:"on_success,omitempty"`
	// MinActive: concurrency: as many retries may be under way in any case.
	MinActive int64 `json:"min_active,omitempty"`
	// Off bounds nothing.
	Off bool `json:"off,omitempty"`
}

// DefaultBudget is one retry for five requests, and ten a second in any case.
func DefaultBudget() BudgetConfig {
	return BudgetConfig{RatioMilli: 200, MinPerSec: 10, TTL: 10 * time.Second}
}

// DefaultConcurrency is one retry under way for five requests under way, and
// three in any case.
func DefaultConcurrency() BudgetConfig {
	return BudgetConfig{Kind: Concurrency, RatioMilli: 200, MinActive: 3}
}

const slots = 10

// Budget is the retry budget of one upstream: requests arriving earn, retries
// sent spend, and both are forgotten after the TTL. It outlives snapshots and is
// safe for concurrent use.
//
// Requests earn when they arrive and not when they succeed: an upstream that
// fails altogether would else leave nothing but the floor.
type Budget struct {
	shape atomic.Pointer[shape]
	mu    sync.Mutex // of withdrawals

	active, retrying atomic.Int64 // of the concurrency kind
}

type shape struct {
	cfg  BudgetConfig
	span *span // Total: earned, Failed: spent
}

// NewBudget returns an empty budget.
func NewBudget(cfg BudgetConfig) *Budget {
	b := &Budget{}
	b.shape.Store(&shape{cfg, newSpan(cfg.TTL, slots)})
	return b
}

// Reconfigure takes cfg over. What was earned and spent stays, but where the TTL
// changes: the slots then have another width.
func (b *Budget) Reconfigure(cfg BudgetConfig) {
	old := b.shape.Load()
	s := &shape{cfg, old.span}
	if cfg.TTL != old.cfg.TTL {
		s.span = newSpan(cfg.TTL, slots)
	}
	b.shape.Store(s)
}

// Config is what is in force.
func (b *Budget) Config() BudgetConfig { return b.shape.Load().cfg }

var earned = window.Counts{Total: 1}

// Deposit counts the first try of a request.
func (b *Budget) Deposit(now time.Time) { b.shape.Load().span.add(now, earned) }

// arrived deposits for a request that comes, ended for one that ended well; each
// request earns in one of them.
func (b *Budget) arrived(now time.Time) {
	if s := b.shape.Load(); !s.cfg.OnSuccess && s.cfg.Kind != Concurrency {
		s.span.add(now, earned)
	}
}

func (b *Budget) ended(now time.Time) {
	if s := b.shape.Load(); s.cfg.OnSuccess && s.cfg.Kind != Concurrency {
		s.span.add(now, earned)
	}
}

// Withdraw takes one retry, or reports that none is left. Nothing is ever given back.
func (b *Budget) Withdraw(now time.Time) bool {
	s := b.shape.Load()
	if s.cfg.Off {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	limit, spent, _ := s.limitMilli(now)
	if (spent+1)*1000 > limit {
		return false
	}
	s.span.add(now, window.Counts{Failed: 1})
	return true
}

// limitMilli is in thousandths of a retry, so that a ratio of 0.3 is exact.
func (s *shape) limitMilli(now time.Time) (limit, spent, earned int64) {
	c := s.span.sum(now)
	floor := s.cfg.MinPerSec * s.cfg.TTL.Milliseconds()
	share := s.cfg.RatioMilli * c.Total
	if s.cfg.Sum {
		return floor + share, c.Failed, c.Total
	}
	return max(floor, share), c.Failed, c.Total
}

// take begins a retry of the concurrency kind, which give ends.
func (b *Budget) take() bool {
	cfg := b.Config()
	if cfg.Off {
		b.retrying.Add(1)
		return true
	}
	for {
		// The request whose try has failed is one of those under way, so a lone
		// one may retry though all fail.
		n, most := b.retrying.Load(), max(cfg.MinActive*1000, cfg.RatioMilli*b.active.Load())
		if (n+1)*1000 > most {
			return false
		}
		if b.retrying.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Left is how many retries would be allowed at now, if nothing else came.
func (b *Budget) Left(now time.Time) int64 {
	st := b.Stats(now)
	if st.Off {
		return math.MaxInt64
	}
	return max(st.Limit-st.Spent, 0)
}

// BudgetStats is the state of a budget, for people. With the concurrency kind
// Limit and Spent are of retries under way.
type BudgetStats struct {
	Kind  BudgetKind `json:"kind"`
	Limit int64      `json:"limit"`
	Spent int64      `json:"spent"`
	// Earned are the first tries that count.
	Earned int64 `json:"earned,omitempty"`
	Active int64 `json:"active,omitempty"`
	Off    bool  `json:"off,omitempty"`
}

// Stats returns the state at now.
func (b *Budget) Stats(now time.Time) BudgetStats {
	s := b.shape.Load()
	st := BudgetStats{Kind: Ratio, Off: s.cfg.Off}
	if s.cfg.Kind == Concurrency {
		st.Kind, st.Active, st.Spent = Concurrency, b.active.Load(), b.retrying.Load()
		st.Limit = max(s.cfg.MinActive*1000, s.cfg.RatioMilli*st.Active) / 1000
		return st
	}
	limit, spent, earned := s.limitMilli(now)
	st.Limit, st.Spent, st.Earned = limit/1000, spent, earned
	return st
}

// request and retried end what a budget of the concurrency kind counts: a request
// under way, and a retry.
type (
	request Budget
	retried Budget
)

// End implements exchange.Ender.
func (b *request) End(*exchange.Exchange, retrylog.Outcome) { (*Budget)(b).active.Add(-1) }

// End implements exchange.Ender.
func (b *retried) End(*exchange.Exchange, retrylog.Outcome) { (*Budget)(b).retrying.Add(-1) }
