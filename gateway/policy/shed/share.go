package shed

import (
	"fmt"
	"time"

	"breakwater/internal/retrylog"
)

// Who is shed. The callers of a tier lie, by the hash of their names, in buckets
// on a line, and all whose place is below the edge are shed. The edge is where as
// much of the tier's traffic lies below it as has to go: whole buckets, and of the
// last one a part of its requests, so that a single caller can be shed by a share
// too. As long as the share stays, the same callers are shed.
const (
	buckets  = 64
	interval = 250 * time.Millisecond
	enough   = 20 // requests that a judgement needs
)

// A tier's places found full by more than raise of the requests, over a second or
// so, mean that a larger share of the tier has to go by caller, by less than lower
// that it may be smaller; between the two nothing moves. Not much less than half
// is aimed at: full places are no waste, and where few find them full, many are
// idle.
const (
	raise  = 550_000
	aim    = 450_000
	lower  = 350_000
	idle   = 50_000
	back   = million / 50 // of the share, each interval
	quick  = million / 8  // where the places are idle: the load has gone
	settle = time.Second  // for which a share stays after it was raised
	// quiet is for how long nothing may be shed of a tier that is not being shed.
	quiet = 5 * time.Second
)

// share is what is known of one tier.
type share struct {
	ppm     int64          // of its traffic that is shed by caller
	weights [buckets]int64 // where its traffic lies: an average over some intervals
	full    int64          // of its requests, on average, that found its places taken; ppm
	raised  int64          // when it last had to grow
	counted int64          // shed at the last look
	lastAt  int64          // when something was last shed
	active  bool
}

// judge closes the interval that was due, unless another does.
func (s *Shedder) judge(at, due, inFlight, allowed int64) {
	s.mu.Lock()
	if s.due.Load() != due {
		s.mu.Unlock()
		return
	}
	s.due.Store(at + int64(interval))
	if seen := s.seen.Load(); seen >= enough {
		s.seen.Store(0)
		for i := range s.tiers {
			t := &s.tiers[i]
			t.move(at, s.above[i].Swap(0)*million/seen)
			for b := range t.weights {
				t.weights[b] += s.offered[i][b].Swap(0)*16 - t.weights[b]/4
			}
			s.edges[i].Store(t.edge())
		}
	}
	change := s.changed(at, fmt.Sprintf("%d of %d places taken", inFlight, allowed))
	s.mu.Unlock()
	s.tell(change)
}

// move sets the share anew where full, the part of the requests that found the
// tier's places taken, is too large or too small.
func (t *share) move(at, full int64) {
	t.full += (full - t.full) / 4
	settled := at-t.raised >= int64(settle)
	switch {
	case t.full > raise && full > raise:
		t.ppm += (million - t.ppm) * (t.full - aim) / million
		t.raised = at
	case full < idle && settled:
		t.ppm = max(t.ppm-quick, 0)
	case t.full < lower && settled:
		t.ppm = max(t.ppm-back, 0)
	}
}

// edge is the place on the line below which ppm of the traffic lies.
func (t *share) edge() int64 {
	total := int64(0)
	for _, w := range t.weights {
		total += w
	}
	if t.ppm == 0 || total == 0 {
		return t.ppm * buckets
	}
	if t.ppm >= million-million/100 {
		return buckets * million // who comes anew is shed too
	}
	left := total * t.ppm / million
	for b, w := range t.weights {
		if w > left {
			return int64(b)*million + left*million/w
		}
		left -= w
	}
	return buckets * million
}

// look notes what a measure has changed.
func (s *Shedder) look(at int64) {
	s.mu.Lock()
	change := s.changed(at, "a measure")
	s.mu.Unlock()
	s.tell(change)
}

func (s *Shedder) tell(change *retrylog.Transition) {
	if change != nil && s.deps.Changed != nil {
		s.deps.Changed(*change)
	}
}

// changed notes the highest tier that is being shed, and returns the change to be
// told. The lock is held.
func (s *Shedder) changed(at int64, why string) *retrylog.Transition {
	level := 0
	for i := range s.tiers {
		t := &s.tiers[i]
		if n := s.shed[i].Load(); n != t.counted {
			t.counted, t.lastAt, t.active = n, at, true
		}
		if t.active = t.active && at-t.lastAt < int64(quiet); t.active || s.floors[i].Load() > at {
			level = i + 1
		}
	}
	if level == s.level {
		return nil
	}
	t := &retrylog.Transition{Policy: "shed", From: levelName(s.level), To: levelName(level), Reason: why}
	s.level = level
	return t
}

func levelName(level int) string {
	if level == 0 {
		return "none"
	}
	return string(tierOf(level - 1))
}

// Stats is the state of a service, for people.
type Stats struct {
	// Level is the highest tier that is being shed; "none".
	Level string
	// By tier, sheddable and default:
	SharePPM [critical]int64         // of the traffic, shed by caller
	Shed     [critical]int64         // requests, since the start
	Floor    [critical]time.Duration // how long a measure still sheds it
}

// Stats returns the state at now and changes nothing.
func (s *Shedder) Stats(now time.Time) Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := int64(now.Sub(s.base))
	level := 0
	out := Stats{}
	for i := range s.tiers {
		t := &s.tiers[i]
		pressed := s.shed[i].Load()
		out.SharePPM[i], out.Shed[i] = t.ppm, pressed+s.ordered[i].Load()
		out.Floor[i] = time.Duration(max(s.floors[i].Load()-at, 0))
		if out.Floor[i] > 0 || pressed != t.counted || t.active && at-t.lastAt < int64(quiet) {
			level = i + 1
		}
	}
	out.Level = levelName(level)
	return out
}
