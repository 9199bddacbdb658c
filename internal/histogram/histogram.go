// Package histogram counts latencies in bins that add up: any split and any
// order of the same values gives the same bins, so minutes merge into days and
// an audit can be replayed to the bit.
//
// The lattice is base 2 at schema 5, 32 bins an octave, over whole
// microseconds: the value of a bin is at most 1.09 % from anything counted in
// it. It exports as a Prometheus native histogram or an OpenTelemetry
// exponential histogram without counting again.
package histogram

import (
	"math"
	"math/bits"
	"slices"
)

// Schema is the resolution: 2^Schema bins an octave.
const Schema = 5

const (
	// Last is the bin of 300 s, the greatest that is told apart.
	Last = 902
	// Overflow counts everything longer. No quantile may pass its lower edge off
	// as a measurement.
	Overflow = Last + 1
	// Size is the length of Bins that hold every index.
	Size = Overflow + 1
)

// Bins holds counts by Index. Trailing empty bins may be missing, so two of
// different length still add up element by element.
type Bins []int64

// edges[k-1] is 2^(62+k/32), floored: the upper edges of the bins of one octave.
var edges = [32]uint64{
	0x4166c34c5615d0eb, 0x42d561b3e6243d8a, 0x444c0740496d4293, 0x45cae0f1f545eb73,
	0x47521cc5a2e6a9e0, 0x48e1e9b9d588e19b, 0x4a7a77d47f7b84b0, 0x4c1bf828c6dc54b7,
	0x4dc69cdceaa72a9c, 0x4f7a993048d088d6, 0x513821818624b40c, 0x52ff6b54d8a89c75,
	0x54d0ad5a753e077c, 0x56ac1f752150a563, 0x5891fac0e95612c7, 0x5a827999fcef3242,
	0x5c7dd7a3b17dcf74, 0x5e8451cfac061b5f, 0x6096266533384a2b, 0x62b39508aa836d6e,
	0x64dcdec3371793d1, 0x6712460a8fc24071, 0x69540ec8f895722d, 0x6ba27e656b4eb57a,
	0x6dfddbcbed791baa, 0x70666f76154a7088, 0x72dc8373be41a454, 0x75606373ee921c97,
	0x77f25ccdee6d7ae5, 0x7a92be8a92436616, 0x7d41d96db915019d, 0x8000000000000000,
}

// Index is ceil(32 * log2 us), computed on integers: a logarithm in floating
// point puts a value beside an edge into different bins on different machines.
// Anything up to 1 us is bin 0, anything over the range is Overflow.
func Index(us int64) int {
	if us <= 1 {
		return 0
	}
	octave := bits.Len64(uint64(us)) - 1
	mantissa := uint64(us) << (62 - octave)
	i := octave << Schema
	if mantissa != 1<<62 {
		// The first edge not below the mantissa; an edge inside an octave is
		// irrational, so its floor decides exactly.
		k, _ := slices.BinarySearch(edges[:], mantissa)
		i += k + 1
	}
	return min(i, Overflow)
}

// Value is what a bin stands for, in microseconds: the point whose relative
// distance to both edges is the same.
func Value(index int) float64 {
	hi := math.Exp2(float64(index) / 32)
	lo := math.Exp2(float64(index-1) / 32)
	return 2 * lo * hi / (lo + hi)
}

// Add counts n values of us microseconds.
func (b *Bins) Add(us, n int64) {
	i := Index(us)
	b.grow(i + 1)
	(*b)[i] += n
}

// Merge adds the counts of other.
func (b *Bins) Merge(other []int64) {
	b.grow(len(other))
	for i, n := range other {
		(*b)[i] += n
	}
}

// Count is the number of values.
func (b Bins) Count() int64 {
	var n int64
	for _, c := range b {
		n += c
	}
	return n
}

// Above is how many values lie in bins beyond the one of us: those known to
// have taken longer.
func (b Bins) Above(us int64) int64 {
	i := Index(us) + 1
	if i >= len(b) {
		return 0
	}
	return b[i:].Count()
}

// Reading is one quantile.
type Reading struct {
	US float64 // microseconds
	// Over: the value lies beyond the range. US is then its lower edge, unless
	// a greatest value was handed in, and must be shown as "more than".
	Over bool
	// Empty: nothing was counted.
	Empty bool
}

// Quantile reads the q-quantile by nearest rank: the value of which at least
// the share q is not greater. maxUS is the greatest value known, 0 where it is
// not; it stands in for a value over the range and bounds every other.
func (b Bins) Quantile(q float64, maxUS int64) Reading {
	n := b.Count()
	if n <= 0 {
		return Reading{Empty: true}
	}
	rank := rankOf(q, n)
	last := 0
	for i, c := range b {
		if c <= 0 {
			continue
		}
		last = i
		if rank -= c; rank <= 0 {
			break
		}
	}
	if last >= Overflow {
		return Reading{US: math.Max(math.Exp2(float64(Last)/32), float64(maxUS)), Over: true}
	}
	us := Value(last)
	if maxUS > 0 {
		us = math.Min(us, float64(maxUS))
	}
	return Reading{US: us}
}

// rankOf is ceil(q*n) from 1 to n. The share is taken in parts per million
// first: 0.95 is no binary fraction, and its product with 20 must be 19.
func rankOf(q float64, n int64) int64 {
	const million = 1_000_000
	ppm := uint64(math.Round(math.Max(0, math.Min(q, 1)) * million))
	hi, lo := bits.Mul64(ppm, uint64(n))
	rank, rest := bits.Div64(hi, lo, million)
	if rest > 0 {
		rank++
	}
	return max(1, int64(rank))
}

func (b *Bins) grow(n int) {
	if n > len(*b) {
		*b = append(*b, make(Bins, n-len(*b))...)
	}
}
