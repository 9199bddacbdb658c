package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Backoff is the wait before retry n, counted from 1: the base doubled n-1 times,
// with jitter, and in all at most the cap. last is the wait before, which
// decorrelated jitter goes by (Brooker, Exponential Backoff And Jitter).
func Backoff(cfg Config, n int, last time.Duration, rand float64) time.Duration {
	most, base := cfg.Longest(), cfg.BackoffBase
	if base <= 0 || n < 1 {
		return 0
	}
	if cfg.Jitter == Decorrelated {
		last = max(last, base)
		top := most
		if last <= most/3 {
			top = 3 * last
		}
		return min(base+part(rand, top-base), most)
	}
	// The shift saturates: retry 60 must wait as long as the cap, and not wrap.
	step := most
	if n-1 < 62 && base <= most>>(n-1) {
		step = base << (n - 1)
	}
	switch cfg.Jitter {
	case Full:
		return part(rand, step)
	case Proportional:
		return min(saturating(step, part(rand, tenths(step))), most)
	}
	return min(saturating(step, part(rand, tenths(base))), most)
}

// part is rand's part of d.
func part(rand float64, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return min(time.Duration(rand*float64(d)), d)
}

// tenths is three of ten parts of d.
func tenths(d time.Duration) time.Duration { return d/10*3 + d%10*3/10 }

func saturating(a, b time.Duration) time.Duration {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// Longest is the cap of the wait: MaxBackoff, or ten times the base.
func (cfg Config) Longest() time.Duration {
	if cfg.MaxBackoff > 0 {
		return cfg.MaxBackoff
	}
	return min(cfg.BackoffBase, math.MaxInt64/10) * 10
}

// WorstCase is how long all tries and waits can take: what the route's timeout
// has to leave room for. It saturates. What an upstream asks for by Retry-After
// comes on top of it.
func WorstCase(cfg Config) time.Duration {
	if !cfg.Active() {
		return cfg.PerTry
	}
	for _, own := range cfg.Tenants {
		cfg.BackoffBase = max(cfg.BackoffBase, own.BackoffBase)
	}
	total, wait := cfg.PerTry, time.Duration(0)
	for n := 1; n <= cfg.MaxRetries; n++ {
		wait = Backoff(cfg, n, wait, 1)
		total = saturating(total, saturating(cfg.PerTry, wait))
	}
	return total
}

// Amplification is how many calls one request can become.
func Amplification(cfg Config) int {
	if !cfg.Active() {
		return 1
	}
	return 1 + cfg.MaxRetries
}

// ParseRetryAfter reads a Retry-After: seconds, or one of the three dates of
// HTTP. ok is false for anything else, which counts as no header at all. What
// overflows is the longest duration there is; a date gone by is 0.
func ParseRetryAfter(v string, now time.Time) (d time.Duration, ok bool) {
	v = strings.Trim(v, " \t")
	if v == "" {
		return 0, false
	}
	if digits(v) {
		secs, err := strconv.ParseInt(v, 10, 64)
		if err != nil || secs > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(secs) * time.Second, true
	}
	if v[0] == '-' || v[0] == '+' || len(v) > 40 {
		return 0, false
	}
	at, err := http.ParseTime(v)
	if err != nil {
		return 0, false
	}
	return max(at.Sub(now), 0), true
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func decimal(n int) string { return strconv.Itoa(n) }
