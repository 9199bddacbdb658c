package fault

import (
	"math/bits"
	"strconv"
)

// Hit reports whether the unit called key is hit by a fault of the given seed
// and share in parts per million. It depends on nothing else, so control can say
// afterwards which tries had to be hit.
//
// The key of a try is the request id, '#', and its number from 1; of a request
// its id alone.
func Hit(seed, key string, ppm int64) bool { return under(hash(seed, key), ppm) }

// Unit draws from [0, 1) for the nth of something: always the same.
func Unit(seed string, n int64) float64 { return unit(hash(seed, strconv.FormatInt(n, 10))) }

// hashTry hashes the key of a try without building it.
func hashTry(seed, id string, try int) uint64 {
	h := add(begin(seed), id)
	h = addByte(h, '#')
	var buf [20]byte
	i := len(buf)
	for n := try; ; n /= 10 {
		i--
		buf[i] = byte('0' + n%10)
		if n < 10 {
			break
		}
	}
	for _, c := range buf[i:] {
		h = addByte(h, c)
	}
	return mix(h)
}

// under scales h to [0, 1e6) by one multiplication: exact to 1e-6, no modulo bias
// worth a name.
func under(h uint64, ppm int64) bool {
	at, _ := bits.Mul64(h, 1_000_000)
	return ppm > 0 && at < uint64(ppm)
}

func hash(seed, key string) uint64 { return mix(add(begin(seed), key)) }

// begin hashes the seed and a separator: ("ab", "c") must not be ("a", "bc").
func begin(seed string) uint64 { return addByte(add(14695981039346656037, seed), 0xff) }

// add is FNV-1a.
func add(h uint64, s string) uint64 {
	for i := range len(s) {
		h = addByte(h, s[i])
	}
	return h
}

func addByte(h uint64, c byte) uint64 { return (h ^ uint64(c)) * 1099511628211 }

// mix spreads the low bits of FNV over the high ones, which decide (the finish
// of murmur3): ids that differ in the last digit alone must fall anywhere.
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
