package retry

// State is what all retries to one upstream share. It outlives snapshots and is
// safe for concurrent use.
type State struct {
	Budget *Budget
	Rates  *Rates
}

// NewState returns a state with an empty budget.
func NewState(cfg BudgetConfig) *State { return &State{NewBudget(cfg), NewRates()} }
