package fault

import "time"

// Caps are what no fault may pass, whoever asks for it.
type Caps struct {
	MaxPPM     int64         `json:"max_ppm"`     // 0: a million, which is no cap
	MaxLatency time.Duration `json:"max_latency"` // 0: 30 s
	MaxSleeps  int64         `json:"max_sleeps"`  // tries asleep at once; 0: 1000
}

// Lease is a fault and how long it may live.
type Lease struct {
	Fault Fault
	Hash  string
	Until time.Time // with a monotonic reading
}

// State is what the table says of a fault.
type State struct {
	Run, Fault, Hash string
	PPM              int64
	Reason           string // why it was refused; "" where it is armed
}

// Tally counts, since the process started, what one run did to one service.
type Tally struct {
	Run, Service string
	Attempts     int64 // tries that reached the layer while the run was armed, and that it could have hit
	Injected     int64
}

// Table holds the live faults of a gateway. It is safe for concurrent use.
type Table struct{}

// NewTable returns a table without faults.
func NewTable(caps Caps) *Table { return &Table{} }

// Replace makes leases the whole of what is armed, as of now: a fault that is
// not named is gone at once, and what sleeps for it wakes; one that is the same
// by run, id and hash is renewed.
func (t *Table) Replace(now time.Time, leases []Lease) (armed, refused []State) { return nil, nil }

// Halt disarms everything, and refuses whatever comes until Resume.
func (t *Table) Halt() {}

// Resume lets the next Replace arm again.
func (t *Table) Resume() {}

// Halted reports whether Halt holds.
func (t *Table) Halted() bool { return false }

// Armed lists the faults alive at now.
func (t *Table) Armed(now time.Time) []State { return nil }

// Tallies lists the counts of all runs since the process started.
func (t *Table) Tallies() []Tally { return nil }

// SetCaps changes the caps; faults beyond them go at the next Replace.
func (t *Table) SetCaps(caps Caps) {}
