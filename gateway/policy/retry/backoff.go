package retry

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Backoff is the wait before retry n, counted from 1: the base doubled n-1 times,
// plus up to 0.3 of the base, and in all at most the cap.
func Backoff(cfg Config, n int, rand float64) time.Duration {
	most := cfg.Longest()
	if cfg.BackoffBase <= 0 || n < 1 {
		return 0
	}
	// The shift saturates: retry 60 must wait as long as the cap, and not wrap.
	if n-1 >= 62 || cfg.BackoffBase > most>>(n-1) {
		return most
	}
	jitter := time.Duration(rand * 0.3 * float64(cfg.BackoffBase))
	return min(cfg.BackoffBase<<(n-1)+jitter, most)
}

// Longest is the cap of the wait: MaxBackoff, or ten times the base.
func (cfg Config) Longest() time.Duration {
	if cfg.MaxBackoff > 0 {
		return cfg.MaxBackoff
	}
	return min(cfg.BackoffBase, math.MaxInt64/10) * 10
}

// WorstCase is how long all tries and waits can take: what the route's timeout
// has to leave room for. It saturates.
func WorstCase(cfg Config) time.Duration {
	if !cfg.Enabled || cfg.MaxRetries <= 0 {
		return cfg.PerTry
	}
	total := cfg.PerTry
	for n := 1; n <= cfg.MaxRetries; n++ {
		add := cfg.PerTry + Backoff(cfg, n, 1)
		if total > math.MaxInt64-add {
			return math.MaxInt64
		}
		total += add
	}
	return total
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
