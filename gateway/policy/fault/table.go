package fault

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// Caps are what no fault may pass, whoever asks for it.
type Caps struct {
	// MaxPPM is for all faults that can hit the same requests together; 0: a million,
	// which is no cap.
	MaxPPM     int64         `json:"max_ppm"`
	MaxLatency time.Duration `json:"max_latency"` // 0: 30 s
	MaxSleeps  int64         `json:"max_sleeps"`  // tries asleep at once; 0: 1000
	// MaxDuration is how long a fault may live, however often its lease is renewed;
	// 0: a day.
	MaxDuration time.Duration `json:"max_duration,omitempty"`
}

func (c Caps) filled() Caps {
	return Caps{cmp.Or(c.MaxPPM, 1_000_000), cmp.Or(c.MaxLatency, 30*time.Second), cmp.Or(c.MaxSleeps, 1000), cmp.Or(c.MaxDuration, 24*time.Hour)}
}

// Lease is a fault and how long it may live.
type Lease struct {
	Fault Fault
	Hash  string
	Until time.Time // with a monotonic reading
}

// State is what the table says of a fault.
type State struct {
	Run    string `json:"run"`
	Fault  string `json:"fault"`
	Hash   string `json:"hash"`
	PPM    int64  `json:"ppm"`
	Reason string `json:"reason,omitempty"` // why it was refused; "" where it is armed
	Note   string `json:"note,omitempty"`   // what it cannot do, or hides behind, where it is armed
}

// Tally counts, since the process started, what one run did to one service.
type Tally struct {
	Run      string `json:"run"`
	Service  string `json:"service"`
	Attempts int64  `json:"attempts"` // tries in the target that reached the layer while the run was armed
	Injected int64  `json:"injected"` // of these, tries that were hit
}

// Table holds the live faults of a gateway. It is safe for concurrent use.
//
// With nothing armed a try pays for one atomic load. Everything here is memory:
// a process that restarts has no faults.
type Table struct {
	base    time.Time // leases are compared on the monotonic clock, from here
	live    atomic.Pointer[snapshot]
	sleeps  atomic.Int64 // tries asleep now
	most    atomic.Int64 // how many may be
	longest atomic.Int64 // nanoseconds that one may sleep
	missed  atomic.Int64 // faults due that were not injected, for want of room
	alarm   exchange.Alarm

	mu     sync.Mutex
	caps   Caps
	halted bool
	stop   chan struct{}         // closed while halted
	counts map[[2]string]*counts // by run and service, kept when the run is over
	born   map[[2]string]int64   // by run and id, since when plans have named it
}

// snapshot is what is armed, by service: never changed, only replaced.
type snapshot struct {
	upstream, edge map[string][]*cell
	delays         bool // one of them is a latency
}

func newSnapshot() *snapshot {
	return &snapshot{upstream: map[string][]*cell{}, edge: map[string][]*cell{}}
}

func (s *snapshot) at(edge bool) map[string][]*cell {
	if edge {
		return s.edge
	}
	return s.upstream
}

func (s *snapshot) add(c *cell) {
	at := s.at(c.Position == AtEdge)
	at[c.Target.Service] = append(at[c.Target.Service], c)
	s.delays = s.delays || c.Kind == Latency
}

func (s *snapshot) all() []*cell {
	var out []*cell
	for _, byService := range []map[string][]*cell{s.upstream, s.edge} {
		for _, cells := range byService {
			out = append(out, cells...)
		}
	}
	return out
}

// cell is one armed fault. Those who sleep for it hold a pointer to it, so that
// disarming reaches requests already under way, and a renewal moves until
// without building a snapshot.
type cell struct {
	Fault
	hash    string
	until   atomic.Int64 // nanoseconds since the table's base
	armed   int64        // since the base: when its ramp began
	wall    int64        // the base by the wall clock, in nanoseconds
	taken   atomic.Int64 // units it claimed of those that First allows
	gone    chan struct{}
	headers []exchange.Field
	counts  *counts
}

type counts struct{ attempts, injected atomic.Int64 }

// NewTable returns a table without faults.
func NewTable(caps Caps) *Table {
	t := &Table{base: clock(), counts: map[[2]string]*counts{}, born: map[[2]string]int64{}, stop: make(chan struct{})}
	t.SetCaps(caps)
	return t
}

// SleepBy has latencies slept by a; to be called before the table is used. By
// default they are slept by the runtime's timers.
func (t *Table) SleepBy(a exchange.Alarm) { t.alarm = a }

// Delays reports whether a latency is armed: then it is worth knowing how late the
// gateway itself is.
func (t *Table) Delays() bool {
	s := t.live.Load()
	return s != nil && s.delays
}

// enter claims room for one more sleeper. Each holds a request's memory: beyond
// the cap a fault is not injected, rather than the gateway brought down by its
// own drill.
func (t *Table) enter() bool {
	if t.sleeps.Add(1) > t.most.Load() {
		t.sleeps.Add(-1)
		return false
	}
	return true
}

func (t *Table) leave() { t.sleeps.Add(-1) }

// SetCaps changes the caps; faults beyond them go at once.
func (t *Table) SetCaps(caps Caps) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.caps = caps.filled()
	t.most.Store(t.caps.MaxSleeps)
	t.longest.Store(int64(t.caps.MaxLatency))
	next, gone := newSnapshot(), []*cell(nil)
	for _, c := range t.cells() {
		if t.beyond(&c.Fault, next.all()) != "" {
			gone = append(gone, c)
			continue
		}
		next.add(c)
	}
	if len(gone) > 0 {
		t.publish(next)
		end(gone)
	}
}

func end(cells []*cell) {
	for _, c := range cells {
		close(c.gone)
	}
}

// Replace makes leases the whole of what is armed, as of now: a fault that is
// not named is gone at once, and what sleeps for it wakes; one that is the same
// by run, id and hash is renewed. Leases that are refused are told with a reason.
func (t *Table) Replace(now time.Time, leases []Lease) (armed, refused []State) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.cells()
	next := newSnapshot()
	kept := map[*cell]bool{}
	seen := map[[2]string]bool{}
	same := true
	for _, l := range leases {
		s := State{Run: l.Fault.Run, Fault: l.Fault.ID, Hash: l.Hash, PPM: l.Fault.PPM}
		id := [2]string{s.Run, s.Fault}
		if _, known := t.born[id]; !known {
			t.born[id] = t.since(now)
		}
		s.Reason = t.refuse(l, now, next.all())
		if seen[id] {
			s.Reason = "named twice in one plan"
		}
		seen[id] = true
		if s.Reason != "" {
			refused = append(refused, s)
			continue
		}
		c := find(old, l)
		if c == nil {
			c, same = t.newCell(l, now), false
		}
		kept[c] = true
		c.until.Store(int64(l.Until.Sub(t.base)))
		next.add(c)
		s.Note = c.note()
		armed = append(armed, s)
	}
	for id := range t.born {
		if !seen[id] {
			delete(t.born, id)
		}
	}
	if same && len(kept) == len(old) {
		return armed, refused // renewals only: those who read keep their snapshot
	}
	t.publish(next)
	end(slices.DeleteFunc(old, func(c *cell) bool { return kept[c] }))
	return armed, refused
}

// publish stores next, or nil where nothing is armed: that is what makes no
// fault cost nothing.
func (t *Table) publish(next *snapshot) {
	if len(next.upstream)+len(next.edge) == 0 {
		t.live.Store(nil)
		return
	}
	t.live.Store(next)
}

// find returns the armed cell that l renews. A rule of the same id but other
// content is another fault: the old one ends.
func find(cells []*cell, l Lease) *cell {
	for _, c := range cells {
		if c.Run == l.Fault.Run && c.ID == l.Fault.ID && c.hash == l.Hash && same(c.Fault, l.Fault) {
			return c
		}
	}
	return nil
}

func (t *Table) newCell(l Lease, now time.Time) *cell {
	c := &cell{Fault: l.Fault, hash: l.Hash, gone: make(chan struct{}), armed: t.since(now), wall: t.base.UnixNano()}
	for name, value := range l.Fault.Headers {
		c.headers = append(c.headers, exchange.Field{Name: name, Value: value})
	}
	slices.SortFunc(c.headers, func(a, b exchange.Field) int { return strings.Compare(a.Name, b.Name) })
	key := [2]string{l.Fault.Run, l.Fault.Target.Service}
	if t.counts[key] == nil {
		t.counts[key] = &counts{}
	}
	c.counts = t.counts[key]
	return c
}

func (t *Table) cells() []*cell {
	if s := t.live.Load(); s != nil {
		return s.all()
	}
	return nil
}

// Halt disarms everything, and refuses whatever comes until Resume. It is the
// kill switch: it needs nobody else, and wins every race.
func (t *Table) Halt() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.halted {
		t.halted = true
		close(t.stop)
	}
	old := t.cells()
	t.live.Store(nil)
	end(old)
}

// Resume lets the next Replace arm again.
func (t *Table) Resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted {
		t.halted, t.stop = false, make(chan struct{})
	}
}

// Stopped returns a channel that is closed once Halt holds; Resume makes another.
func (t *Table) Stopped() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stop
}

// terms are the caps in force and what ends a fault that is no lease; nil while
// there may be none.
func (t *Table) terms() (Caps, chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.halted {
		return t.caps, nil
	}
	return t.caps, t.stop
}

// Caps are the caps in force.
func (t *Table) Caps() Caps {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.caps
}

// Halted reports whether Halt holds.
func (t *Table) Halted() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.halted
}

// Armed lists the faults alive at now, by run and id.
func (t *Table) Armed(now time.Time) []State {
	var out []State
	for _, c := range t.cells() {
		if c.left(t.since(now)) > 0 {
			out = append(out, State{Run: c.Run, Fault: c.ID, Hash: c.hash, PPM: c.PPM, Note: c.note()})
		}
	}
	slices.SortFunc(out, func(a, b State) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Fault, b.Fault))
	})
	return out
}

// Tallies lists the counts of all runs since the process started, by run and service.
func (t *Table) Tallies() []Tally {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]Tally, 0, len(t.counts))
	for key, c := range t.counts {
		out = append(out, Tally{Run: key[0], Service: key[1], Attempts: c.attempts.Load(), Injected: c.injected.Load()})
	}
	slices.SortFunc(out, func(a, b Tally) int {
		return cmp.Or(strings.Compare(a.Run, b.Run), strings.Compare(a.Service, b.Service))
	})
	return out
}

// Missed counts faults that were due and not injected, since too many tries were
// asleep already.
func (t *Table) Missed() int64 { return t.missed.Load() }

// Asleep counts the tries that a fault holds now.
func (t *Table) Asleep() int64 { return t.sleeps.Load() }

func (t *Table) since(now time.Time) int64 { return int64(now.Sub(t.base)) }

// left is what remains of the lease at an instant since the table's base.
func (c *cell) left(at int64) time.Duration {
	select {
	case <-c.gone:
		return 0
	default:
		return time.Duration(c.until.Load() - at)
	}
}
