package traffic

import (
	"cmp"
	"slices"
	"time"

	"breakwater/slo"
)

// Minute is what one minute, or a longer step, of a route holds.
type Minute struct {
	At    time.Time
	Tally slo.Tally
}

// Route is the tries of one route to one upstream over a range.
type Route struct {
	Service, Env, Route, Upstream string
	Tally                         slo.Tally
}

// Amplified is how many tries were sent a thousand requests, in thousandths of a try
// a request: 1000 is none too many. Requests that never went out have no try, so that
// it may be less. ok is false where nothing was asked.
func Amplified(t slo.Tally) (milli int64, ok bool) {
	if t.Exchanges <= 0 {
		return 0, false
	}
	return t.Attempts * 1000 / t.Exchanges, true
}

// FirstBad is how many valid requests would have been bad without any retry: those whose
// first try failed, and at least those that were bad in the end or saved by a retry. A
// request that was refused had no try that could have failed.
func FirstBad(t slo.Tally) int64 {
	return min(max(t.FirstTryBad, t.Bad+t.Recovered), t.Good+t.Bad)
}

// Fate is what became of requests whose first try failed, by the reason for which they
// were retried or not. Of those that were, Count splits into Recovered, Failed and the
// rest, which was neither: a 4xx, or a client that went away.
type Fate struct {
	Reason                     string // decision_reason, or skip_reason
	Retried                    bool
	Count, Retries             int64
	Recovered, Failed, Neither int64
	PPM                        int64 // of all
}

// Fates are the rows in order: retried ones first, the most frequent first, and each
// one's share of all; shares are rounded down.
func Fates(rows []Fate) []Fate {
	out := slices.Clone(rows)
	var all int64
	for i := range out {
		all += out[i].Count
		out[i].Neither = max(out[i].Count-out[i].Recovered-out[i].Failed, 0)
		if !out[i].Retried {
			out[i].Neither = 0
		}
	}
	for i := range out {
		if all > 0 {
			out[i].PPM = slo.Part(out[i].Count, all)
		}
	}
	slices.SortStableFunc(out, func(a, b Fate) int {
		if a.Retried != b.Retried {
			if a.Retried {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Reason, b.Reason))
	})
	return out
}

// Extra are the tries beyond the first of each request that was sent at all. Requests
// that were refused before any try would hide some of them, so it is a lower bound
// where Exchanges exceed Attempts.
func Extra(t slo.Tally) int64 { return max(t.Attempts-t.Exchanges, 0) }

// Used is which part of a ratio budget the retries of a range took, in ppm, on the
// average of the range: a burst within it may have used all of it.
func Used(t slo.Tally, ratioMilli int64) (ppm int64, ok bool) {
	if t.Exchanges <= 0 || ratioMilli <= 0 {
		return 0, false
	}
	return slo.Part(Extra(t)*1000, t.Exchanges*ratioMilli), true
}

// Sum adds routes up.
func Sum(routes []Route) (t slo.Tally) {
	for _, r := range routes {
		x := r.Tally
		t.Good, t.Bad, t.FirstTryBad, t.Neutral = t.Good+x.Good, t.Bad+x.Bad, t.FirstTryBad+x.FirstTryBad, t.Neutral+x.Neutral
		t.Exchanges, t.Attempts, t.Retried, t.Recovered = t.Exchanges+x.Exchanges, t.Attempts+x.Attempts, t.Retried+x.Retried, t.Recovered+x.Recovered
	}
	return t
}
