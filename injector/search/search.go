// Package search finds how much of one fault a system bears: the shock first, then
// the boundary between the largest amount that it stood and the smallest that it
// did not, by halving.
//
// It decides what to probe next from what was probed so far, and nothing else: who
// makes the probes, and when the system has calmed down between two, is the
// engine's business.
package search

import (
	"fmt"
	"math/bits"
)

// Spec is what is looked for: on one knob between Hard, which is expected to fail,
// and Soft, which is expected to be borne.
type Spec struct {
	Hard, Soft int64
	// Resolution is how near the two sides of the boundary have to come; at least 1.
	Resolution int64
}

// Result is what a probe showed.
type Result string

// The results. None is that of a probe that proved nothing.
const (
	Pass Result = "pass"
	Fail Result = "fail"
	None Result = "none"
)

// Probe is one amount that was tried.
type Probe struct {
	Value  int64
	Result Result
}

// Verdict is what a search ended with.
type Verdict string

// The verdicts.
const (
	Holds  Verdict = "holds"  // the shock was borne: there is no boundary up to it
	Found  Verdict = "found"  // the boundary lies between Pass and Fail
	Undone Verdict = "undone" // inconclusive, and Reason says why
)

// The reasons of an inconclusive search that lie in its own probes.
const (
	// NonMonotonic: the system did not bear at last what it had to bear, or bore what
	// it had failed at. More of the fault is not worse, or something else moves.
	NonMonotonic = "non_monotonic"
	NoAnswer     = "probe_without_answer"
)

// Step is what follows: a probe of Value, or the end with Verdict.
type Step struct {
	Done    bool
	Value   int64
	Verdict Verdict
	Reason  string
	// Pass is the hardest amount that was borne, Fail the softest that was not; only
	// where Verdict is Found.
	Pass, Fail int64
}

const (
	// votes of one border point: two of three agree.
	votes = 3
	// tries is how often a probe that proved nothing is made again.
	tries = 3
)

// Steps is how often the interval is halved at most.
func (s Spec) Steps() int {
	width := uint64(max(s.Hard, s.Soft) - min(s.Hard, s.Soft))
	parts := (width + uint64(max(s.Resolution, 1)) - 1) / uint64(max(s.Resolution, 1))
	if parts <= 1 {
		return 0
	}
	return bits.Len64(parts - 1)
}

// Most is how many probes a search makes at most, those without an answer included.
func (s Spec) Most() int { return (1 + s.Steps() + 2*votes) * tries }

// Next decides from the probes so far, in their order.
//
// One probe of a point decides where to look next; at the end both border points are
// asked again until two of three answers agree. Without that, one unlucky probe would
// be a boundary.
func Next(s Spec, probes []Probe) Step {
	if step, ended := unanswered(probes); ended {
		return step
	}
	all := answered(probes)
	if len(all) == 0 {
		return Step{Value: s.Hard}
	}
	// The shock is borne: there is nothing to halve. What is borne twice is borne.
	if all[0].Result == Pass {
		switch r := vote(all, s.Hard); {
		case r == Pass:
			return Step{Done: true, Verdict: Holds}
		case r == None:
			return Step{Value: s.Hard}
		}
	}
	soft, hard := s.Soft, s.Hard
	for far(soft, hard, s.Resolution) {
		mid := middle(soft, hard)
		i := first(all, mid)
		if i < 0 {
			return Step{Value: mid}
		}
		if all[i].Result == Pass {
			soft = mid
		} else {
			hard = mid
		}
	}
	for _, border := range []struct {
		value int64
		want  Result
	}{{soft, Pass}, {hard, Fail}} {
		switch r := vote(all, border.value); {
		case r == None:
			return Step{Value: border.value}
		case r != border.want:
			return Step{Done: true, Verdict: Undone, Reason: NonMonotonic}
		}
	}
	return Step{Done: true, Verdict: Found, Pass: soft, Fail: hard}
}

// unanswered ends a search whose last probe proved nothing once too often.
func unanswered(probes []Probe) (Step, bool) {
	n := 0
	for i := len(probes) - 1; i >= 0 && probes[i].Result == None; i-- {
		n++
	}
	if n < tries {
		return Step{}, false
	}
	return Step{Done: true, Verdict: Undone, Reason: NoAnswer}, true
}

func answered(probes []Probe) []Probe {
	var out []Probe
	for _, p := range probes {
		if p.Result != None {
			out = append(out, p)
		}
	}
	return out
}

func first(all []Probe, value int64) int {
	for i, p := range all {
		if p.Value == value {
			return i
		}
	}
	return -1
}

// vote is what two answers at value agree on; None: they do not yet.
func vote(all []Probe, value int64) Result {
	count := map[Result]int{}
	for _, p := range all {
		if p.Value == value {
			if count[p.Result]++; count[p.Result] == votes/2+1 {
				return p.Result
			}
		}
	}
	return None
}

func far(a, b, resolution int64) bool {
	return uint64(max(a, b)-min(a, b)) > uint64(max(resolution, 1))
}

func middle(a, b int64) int64 {
	low, high := min(a, b), max(a, b)
	return low + int64(uint64(high-low)/2)
}

// Boundary is what two searches are compared by.
type Boundary struct {
	Verdict    Verdict
	Pass, Fail int64
	// Settings name what the system was set to: timeouts, retries, breaker.
	Settings string
}

// Change is how a boundary has moved since the search before.
type Change string

// The changes.
const (
	Fresh  Change = "first" // there was none to compare with
	Same   Change = "same"  // within the resolution
	Better Change = "better"
	Worse  Change = "worse"
)

// Compare says how now stands to before, which must both have an outcome. A boundary
// that moved by no more than the resolution has not moved.
func Compare(s Spec, before, now Boundary) Change {
	// How hard the amount is that was borne, counted from the soft end.
	borne := func(b Boundary) int64 {
		at := b.Pass
		if b.Verdict == Holds {
			at = s.Hard
		}
		if s.Hard < s.Soft {
			return s.Soft - at
		}
		return at - s.Soft
	}
	switch moved := borne(now) - borne(before); {
	case moved > max(s.Resolution, 1):
		return Better
	case moved < -max(s.Resolution, 1):
		return Worse
	}
	return Same
}

// String names the result in words, with show for amounts.
func (b Boundary) String(show func(int64) string) string {
	switch b.Verdict {
	case Holds:
		return "holds at the hardest amount"
	case Found:
		return fmt.Sprintf("bears %s, fails at %s", show(b.Pass), show(b.Fail))
	}
	return "no boundary was found"
}
