package slo

import (
	"math"
	"math/big"
	"math/bits"
	"time"
)

// Weigh turns counts of o into a budget. It decides on integers alone; negative
// counts, which only a damaged ledger could hold, weigh as none.
func Weigh(o Objective, t Tally) Budget {
	return weigh(o.TargetPPB, max(t.Good, 0), max(t.Bad, 0), t, 0)
}

// WeighPeriod is Weigh for the part of a calendar period that is over: elapsed of
// o.Window. The budget is that of the whole period, so that it does not grow back
// as traffic comes: of planned events, or of as many as there will be if the rest
// goes on like what is over.
func WeighPeriod(o Objective, t Tally, elapsed time.Duration) Budget {
	base, estimate := o.base(t, elapsed)
	b := weigh(o.TargetPPB, max(t.Good, 0), max(t.Bad, 0), t, base)
	b.IsEstimate = estimate
	return b
}

// base is how many events a calendar period of o is reckoned on.
func (o Objective) base(t Tally, elapsed time.Duration) (n int64, estimate bool) {
	valid := max(t.Good, 0) + max(t.Bad, 0)
	if planned := o.terms().Planned; planned > 0 {
		return max(planned, valid), false
	}
	if elapsed <= 0 || elapsed >= o.Window {
		return valid, false
	}
	return mulDiv(valid, int64(o.Window), int64(elapsed)), true
}

// Slices is the budget of an objective that counts spans of time instead of
// events. A slice without traffic is good by absence, and counted apart.
type Slices struct {
	Total, Bad, Measured int64
	BadUS                int64 // of RatioTimeslices: bad time, in microseconds
}

// Unmeasured is how many slices had no traffic or are still to come.
func (s Slices) Unmeasured() int64 { return max(s.Total-s.Measured, 0) }

// MeasuredPPM is the share of slices that had traffic.
func (s Slices) MeasuredPPM() int64 { return ratio(s.Measured, s.Total, million) }

// Tally is what of s is good and bad: slices, or microseconds where shares are
// budgeted. The whole window is there, so that missing data neither shrinks it nor
// counts as failure.
func (s Slices) Tally(o Objective) Tally {
	if t := o.terms(); t.Method == RatioTimeslices {
		all := s.Total * t.Slice.Microseconds()
		return Tally{Good: max(all-s.BadUS, 0), Bad: max(s.BadUS, 0)}
	}
	return Tally{Good: s.Total - s.Bad, Bad: s.Bad}
}

// WeighSlices is Weigh for slices.
func WeighSlices(o Objective, s Slices) Budget {
	t := s.Tally(o)
	b := weigh(o.TargetPPB, max(t.Good, 0), max(t.Bad, 0), t, 0)
	b.Slices = s
	return b
}

// weigh reckons on base events, on all that came where base is 0.
func weigh(target, good, bad int64, t Tally, base int64) Budget {
	b := Budget{Tally: t, Valid: good + bad}
	if b.Valid == 0 {
		b.NoData = true
		return b
	}
	b.Base = max(base, b.Valid)
	b.Allowed = mulDiv(b.Base, whole-target, whole)
	b.Remaining = b.Allowed - bad
	b.SpentPPM = spentUp(target, bad, b.Base)
	b.RemainingPPM = million - b.SpentPPM
	b.SoFar, b.SoFarPPM = b.Allowed, b.RemainingPPM
	if b.Base != b.Valid {
		b.SoFar, b.SoFarPPM = mulDiv(b.Valid, whole-target, whole), million-spentUp(target, bad, b.Valid)
	}
	return b
}

// spentUp is bad/(b*base) in ppm, rounded up, so that what is left is rounded down.
func spentUp(target, bad, base int64) int64 {
	if room, ok := times(base, whole-target); ok && bad >= 0 {
		if hi, lo := bits.Mul64(uint64(bad), whole*million); hi < uint64(room) {
			if n, rest := bits.Div64(hi, lo, uint64(room)); n < math.MaxInt64 {
				if rest > 0 {
					n++
				}
				return int64(n)
			}
		}
	}
	spent := new(big.Int).Mul(big.NewInt(bad), big.NewInt(whole*million))
	room := new(big.Int).Mul(big.NewInt(base), big.NewInt(whole-target))
	rest := new(big.Int)
	spent.QuoRem(spent, room, rest)
	n := spent.Int64()
	if rest.Sign() > 0 {
		n++
	}
	return n
}

// Met reports whether the objective is kept: G*10^9 >= t*N, so a service at
// exactly its target keeps it. Without data there is nothing to break.
func Met(o Objective, t Tally) bool {
	return !Over(o.TargetPPB, t.Bad, t.Good+t.Bad)
}

// Over reports whether more than the whole budget is spent: c > 1.
func Over(target, bad, valid int64) bool {
	return compare(bad, whole, valid, whole-target) > 0
}

// SpentAtLeast reports whether c >= ppm/10^6, exactly. With no valid event
// nothing is spent.
func SpentAtLeast(target, bad, valid, ppm int64) bool {
	if valid <= 0 {
		return ppm <= 0
	}
	return compare(bad, whole*million, valid, (whole-target)*ppm) >= 0
}

// SpentBy is which part of the window's budget so many failures are, in ppm: the
// figure that stays right when traffic is uneven (valid is of the whole window).
func SpentBy(target, bad, valid int64) int64 {
	if valid <= 0 {
		return 0
	}
	n := new(big.Int).Mul(big.NewInt(bad), big.NewInt(whole*million))
	return n.Quo(n, new(big.Int).Mul(big.NewInt(valid), big.NewInt(whole-target))).Int64()
}

// compare compares a*b with c*d in 128 bits. Negative factors weigh as zero.
func compare(a, b, c, d int64) int {
	h1, l1 := bits.Mul64(uint64(max(a, 0)), uint64(max(b, 0)))
	h2, l2 := bits.Mul64(uint64(max(c, 0)), uint64(max(d, 0)))
	switch {
	case h1 != h2 && h1 < h2, h1 == h2 && l1 < l2:
		return -1
	case h1 == h2 && l1 == l2:
		return 0
	}
	return 1
}

// mulDiv is floor(a*b/c) for a, b >= 0 and a quotient that fits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(q)
}

// ratio is floor(part/all*unit), 0 when there is nothing.
func ratio(part, all, unit int64) int64 {
	if all <= 0 || part <= 0 {
		return 0
	}
	if part >= all {
		return unit
	}
	return mulDiv(part, unit, all)
}

// Part is part of all in parts per million, rounded down; 0 when there is nothing.
func Part(part, all int64) int64 { return ratio(part, all, million) }
