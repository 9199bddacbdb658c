// Package shed refuses the requests that matter least while a service has more of
// them than places: the lowest tier first, and within a tier always the same
// callers, so that the others are served whole.
package shed

import (
	"sync"
	"sync/atomic"
	"time"

	"breakwater/internal/retrylog"
)

// Tier is how much a request matters under pressure.
type Tier string

// The tiers, the highest first.
const (
	Critical  Tier = "critical"
	Default   Tier = "default"
	Sheddable Tier = "sheddable"
)

// rank counts tiers from the lowest; the ranks below critical are those that can
// be shed, and index what is known of them.
func (t Tier) rank() int {
	switch t {
	case Critical:
		return critical
	case Sheddable:
		return 0
	}
	return 1
}

const critical = 2

func tierOf(rank int) Tier { return [...]Tier{Sheddable, Default, Critical}[rank] }

// Effective is the tier of a request: what a trusted peer says of it, else that
// of its route. A request that somebody on its path has retried already loses one:
// retries are what keeps an overload going.
func Effective(route Tier, said string, retries int) Tier {
	r := route.rank()
	switch t := Tier(said); t {
	case Critical, Default, Sheddable:
		r = t.rank()
	}
	if retries > 0 && r > 0 {
		r--
	}
	return tierOf(r)
}

// Config of one service. Zero shares take the standard ones.
type Config struct {
	// DefaultPPM and SheddablePPM are the share of the service's places that
	// requests of a tier may fill; all of them are for critical ones only.
	// 0: 90 % and 75 %.
	DefaultPPM   int64 `json:"default_ppm,omitempty"`
	SheddablePPM int64 `json:"sheddable_ppm,omitempty"`
	// Observe counts and sheds nothing.
	Observe bool `json:"observe,omitempty"`
}

const million = 1_000_000

func (c Config) filled() Config {
	if c.DefaultPPM <= 0 {
		c.DefaultPPM = 900_000
	}
	if c.SheddablePPM <= 0 {
		c.SheddablePPM = min(750_000, c.DefaultPPM)
	}
	return c
}

// Deps are what a Shedder needs beside its Config.
type Deps struct {
	// Pressure is how many requests of the service are under way, and how many may
	// be; steady is false while that number is lowered for a moment only. nil, or 0
	// that may be: there is no limit, and only measures shed.
	Pressure func() (inFlight, allowed int64, steady bool)
	// Changed is told of the highest tier that is being shed; nil: nobody is. It is
	// called under no lock that requests take.
	Changed func(retrylog.Transition)
}

// Shedder is the state of one service. It outlives snapshots and is safe for
// concurrent use; its lock is taken a few times a second.
type Shedder struct {
	base time.Time
	deps Deps

	ceilings [critical]atomic.Int64 // parts per million of the places
	floors   [critical]atomic.Int64 // ns after base until which a measure sheds the tier; 0: none
	edges    [critical]atomic.Int64 // see edge
	shed     [critical]atomic.Int64 // requests, since the start, under pressure
	ordered  [critical]atomic.Int64 // and by a measure
	observe  atomic.Bool
	_        [64]byte // what follows is written by every request

	seen    atomic.Int64           // requests of this interval
	above   [critical]atomic.Int64 // of these, how many saw the tier's places full
	due     atomic.Int64           // end of the interval, in ns after base
	offered [critical][buckets]atomic.Int64

	mu    sync.Mutex // of what follows
	tiers [critical]share
	level int // rank of the highest tier being shed, and 1; 0: none
}

// New returns a shedder that sheds nothing yet.
func New(cfg Config, now time.Time, d Deps) *Shedder {
	s := &Shedder{base: now, deps: d}
	s.due.Store(int64(interval))
	s.Reconfigure(cfg)
	return s
}

// Reconfigure takes cfg over; who is being shed stays so until the next look.
func (s *Shedder) Reconfigure(cfg Config) {
	cfg = cfg.filled()
	s.ceilings[Sheddable.rank()].Store(cfg.SheddablePPM)
	s.ceilings[Default.rank()].Store(cfg.DefaultPPM)
	s.observe.Store(cfg.Observe)
}

// Verdict is what becomes of a request.
type Verdict int

// The verdicts.
const (
	Admitted Verdict = iota
	Full             // the places of its tier are taken
	Share            // its caller is among those that are shed
	Measure          // a measure sheds its tier
)

// Admit says what becomes of a request of tier t that arrives at now. caller is
// whom it comes from, request its id.
func (s *Shedder) Admit(now time.Time, t Tier, caller, request string) Verdict {
	return s.admit(now, t, caller, request, false)
}

// admit is Admit; what comes for a route of tier critical is spared by measures,
// though it may have lost its tier by being retried.
func (s *Shedder) admit(now time.Time, t Tier, caller, request string, spared bool) Verdict {
	rank, at := t.rank(), int64(now.Sub(s.base))
	if rank < critical && !spared {
		if floor := s.floors[rank].Load(); floor > at {
			s.ordered[rank].Add(1)
			return Measure
		} else if floor > 0 && s.floors[rank].CompareAndSwap(floor, 0) {
			s.look(at) // the lease is over
		}
	}
	if s.deps.Pressure == nil {
		return Admitted
	}
	inFlight, allowed, steady := s.deps.Pressure()
	if allowed == 0 {
		return Admitted
	}
	if due := s.due.Load(); at >= due {
		s.judge(at, due, inFlight, allowed)
	}
	full := [critical]bool{}
	for i := range full {
		full[i] = inFlight >= max(allowed*s.ceilings[i].Load()/million, 1)
	}
	if steady {
		s.seen.Add(1)
		for i := range full {
			if full[i] {
				s.above[i].Add(1)
			}
		}
	}
	if rank == critical {
		return Admitted
	}
	h := hash(caller)
	bucket := h >> (64 - 6)
	s.offered[rank][bucket].Add(1)
	if edge := s.edges[rank].Load(); edge > 0 && int64(bucket)*million+int64(hash(request)%million) < edge {
		s.shed[rank].Add(1)
		return Share
	}
	if full[rank] {
		s.shed[rank].Add(1)
		return Full
	}
	return Admitted
}

// busy reports whether Admit could say anything but Admitted: there is a limit, or
// a measure. It spares the others a look at the clock.
func (s *Shedder) busy() bool {
	for i := range s.floors {
		if s.floors[i].Load() > 0 {
			return true
		}
	}
	if s.deps.Pressure == nil {
		return false
	}
	_, allowed, _ := s.deps.Pressure()
	return allowed > 0
}

// SetFloor sheds every tier below lowest until then, whatever the pressure; a
// time that is past, or the lowest tier, lifts it. It is a lease: whoever wants it
// to last sets it again.
func (s *Shedder) SetFloor(lowest Tier, until, now time.Time) {
	for i := range s.floors {
		at := int64(0)
		if i < lowest.rank() {
			at = max(int64(until.Sub(s.base)), 0)
		}
		s.floors[i].Store(at)
	}
	s.look(int64(now.Sub(s.base)))
}

// hash is FNV-1a with its bits mixed, so that names alike in all but a digit lie
// far apart.
func hash(text string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return h ^ h>>33
}
