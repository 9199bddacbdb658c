package route

import (
	"errors"
	"math/bits"
)

// Weights share requests out over branches. The zero value has no branch.
type Weights struct {
	ends  []uint64 // of each branch's part of [0, total)
	total uint64
}

// ErrNoWeight says that all weights are 0: nobody would get anything.
var ErrNoWeight = errors.New("all weights are 0")

// NewWeights returns the shares of ws; 0 gets nothing.
func NewWeights(ws []int64) (Weights, error) {
	var w Weights
	for _, v := range ws {
		w.total += uint64(max(v, 0))
		w.ends = append(w.ends, w.total)
	}
	if w.total == 0 {
		return Weights{}, ErrNoWeight
	}
	return w, nil
}

// Pick returns the branch of hash: always the same for the same one. Where a
// weight grows at its neighbour's expense, whoever it had stays.
func (w Weights) Pick(hash uint64) int {
	at, _ := bits.Mul64(hash, w.total)
	for i, end := range w.ends {
		if at < end { // a branch of weight 0 ends where the one before it does
			return i
		}
	}
	return len(w.ends) - 1
}

// Share is the part of branch i, in parts per million, rounded down.
func (w Weights) Share(i int) int64 {
	before := uint64(0)
	if i > 0 {
		before = w.ends[i-1]
	}
	return int64((w.ends[i] - before) * 1_000_000 / w.total)
}

// Heaviest is the first of the branches with the largest weight.
func (w Weights) Heaviest() int {
	best := 0
	for i := range w.ends {
		if w.Share(i) > w.Share(best) {
			best = i
		}
	}
	return best
}

// Hash spreads key over all 64 bits; two salts give two unrelated spreads, or
// the same callers would be the guinea pigs of every canary.
func Hash(salt, key string) uint64 {
	h := uint64(0xcbf29ce484222325) // FNV-1a
	for _, s := range [2]string{salt, key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 0x100000001b3
		}
		h = (h ^ 0xff) * 0x100000001b3 // no two pairs run together
	}
	// FNV leaves the high bits of short keys alike, and Pick reads those.
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}
