package limiter

import (
	"math/bits"
	"time"
)

// Rate is the rate that r becomes under c. It stays a rate in whole tokens, unlike the
// pace of a bucket here, since the store of a quota counts in larger ticks. A bucket
// holds at least what one request may cost.
func (c Change) Rate(r Rate, least int64) Rate {
	if r.Tokens <= 0 || r.Per <= 0 || c == (Change{}) {
		return r
	}
	var next Rate
	if c.FactorPPM > 0 {
		factor := min(max(c.FactorPPM, MinFactorPPM), MaxFactorPPM)
		next = Rate{r.Tokens, max(time.Duration(mulDiv(int64(r.Per), million, factor)), time.Microsecond), mulDiv(r.Burst, factor, million)}
	}
	if c.To.Tokens > 0 && (next.Tokens == 0 || slower(c.To, next)) {
		next = c.To
	}
	switch {
	case next.Tokens == 0, c.Relax && slower(next, r), !c.Relax && slower(r, next):
		return r
	}
	if c.Relax {
		next.Burst = max(next.Burst, r.Burst)
	} else {
		next.Burst = min(next.Burst, r.Burst)
	}
	next.Burst = min(max(next.Burst, least, 1), MaxBurst)
	return next
}

// slower reports whether tokens of a come more slowly than those of b.
func slower(a, b Rate) bool {
	aHi, aLo := bits.Mul64(uint64(a.Per), uint64(b.Tokens))
	bHi, bLo := bits.Mul64(uint64(b.Per), uint64(a.Tokens))
	return aHi > bHi || aHi == bHi && aLo > bLo
}

// Rate is the rate that rules.
func (s *Shared) Rate() Rate { return s.now.Load().cfg.Rate }
