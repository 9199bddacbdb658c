package slo

import (
	"cmp"
	"math/big"
	"slices"
	"time"
)

// HealthCounts are the integers a health score is made of, over some span. Scores
// and ratios are never averaged: counts are added, then scored.
type HealthCounts struct {
	Requests  int64 // R: all client requests, retried ones included
	Retried   int64 // T1: requests with at least one retry sent
	Retries   int64 // K: retries sent
	Recovered int64 // S: retried and good in the end
	Failed    int64 // F: retried and failed all the same
}

// Plus adds counts up.
func (c HealthCounts) Plus(o HealthCounts) HealthCounts {
	return HealthCounts{c.Requests + o.Requests, c.Retried + o.Retried, c.Retries + o.Retries, c.Recovered + o.Recovered, c.Failed + o.Failed}
}

// Scored says whether there is a score, and why not.
type Scored string

// The states of a score.
const (
	HealthScored       Scored = "scored"
	HealthNoData       Scored = "no_data"      // nobody asked: neither healthy nor ill
	HealthInconsistent Scored = "inconsistent" // retries of requests that nobody counted
)

// The lines of a score: below the first it is audited and, twice in a row, told;
// from the second on it is well again. They lie apart so that it does not flap.
const (
	HealthAuditPPM = 850_000
	HealthClearPPM = 880_000
)

// healthSure is how many requests a score needs to be acted upon.
const healthSure = 100

// HealthScore is how well retries serve: 1 000 000 less three deductions, in parts
// per million. A score has no floats in it: the deductions are exact fractions that
// are rounded to be shown.
type HealthScore struct {
	State Scored
	PPM   int64
	// Trigger is what is taken off for how often requests are retried, Useless for
	// retries that do not help, Load for what retries add to the traffic.
	Trigger, Useless, Load int64
	// LowConfidence: too few requests to act on it.
	LowConfidence bool
	// The ratios behind it: T1/(T1+R), S/(S+F), (S+F)/R and K/R. SeedPPM is the
	// published field; where a request is retried twice it hides half of LoadPPM.
	TriggerPPM, SuccessPPM, SeedPPM, LoadPPM int64
	below, well                              bool
}

// Score weighs c: 0.3 for a trigger rate up to a quarter, 0.5 for retries that fail,
// fading in up to a trigger rate of 2 %, and 0.2 for extra load up to a fifth.
func (c HealthCounts) Score() HealthScore {
	h := HealthScore{State: HealthScored, LowConfidence: c.Requests < healthSure}
	switch {
	case c.Requests <= 0 && c.Retried <= 0:
		h.State = HealthNoData
		return h
	case c.Requests <= 0:
		h.State = HealthInconsistent
		return h
	case c.Retried <= 0:
		h.PPM, h.SuccessPPM, h.well = million, million, true
		return h
	}
	asked, ended := c.Retried+c.Requests, c.Recovered+c.Failed
	failed := big.NewRat(1, 1) // nothing ended: nothing was won
	if ended > 0 {
		failed = big.NewRat(c.Failed, ended)
		h.SuccessPPM = ratio(c.Recovered, ended, million)
	}
	h.TriggerPPM, h.SeedPPM, h.LoadPPM = ratio(c.Retried, asked, million), ratio(ended, c.Requests, million), ratio(c.Retries, c.Requests, million)

	trigger := mul(big.NewRat(3, 10), atMostOne(mul(big.NewRat(4, 1), big.NewRat(c.Retried, asked))))
	useless := mul(big.NewRat(1, 2), atMostOne(mul(big.NewRat(50, 1), big.NewRat(c.Retried, asked))), failed)
	load := mul(big.NewRat(1, 5), atMostOne(mul(big.NewRat(5, 1), big.NewRat(c.Retries, c.Requests))))
	h.Trigger, h.Useless, h.Load = nearest(trigger), nearest(useless), nearest(load)
	h.PPM = million - h.Trigger - h.Useless - h.Load

	exact := big.NewRat(1, 1)
	for _, d := range []*big.Rat{trigger, useless, load} {
		exact.Sub(exact, d)
	}
	h.below = exact.Cmp(big.NewRat(HealthAuditPPM, million)) < 0
	h.well = exact.Cmp(big.NewRat(HealthClearPPM, million)) >= 0
	return h
}

// Below reports whether h is to be audited: surely below the line, on which it is
// still healthy.
func (h HealthScore) Below() bool { return h.State == HealthScored && h.below && !h.LowConfidence }

func mul(factors ...*big.Rat) *big.Rat {
	out := big.NewRat(1, 1)
	for _, f := range factors {
		out.Mul(out, f)
	}
	return out
}

func atMostOne(r *big.Rat) *big.Rat {
	if one := big.NewRat(1, 1); r.Cmp(one) > 0 {
		return one
	}
	return r
}

// nearest is a fraction in parts per million, half upwards.
func nearest(r *big.Rat) int64 {
	n := new(big.Int).Mul(r.Num(), big.NewInt(2*million))
	n.Add(n, r.Denom())
	return n.Quo(n, new(big.Int).Mul(r.Denom(), big.NewInt(2))).Int64()
}

// HealthWindow is the span two of which in a row make an alarm.
const HealthWindow = 5 * time.Minute

// HealthRow is what the ledger counted in one HealthWindow: requests of an
// upstream, with no status and reason, or those retried for one reason.
type HealthRow struct {
	Service, Env, Upstream string
	At                     time.Time // the window's begin
	Status                 int64     // of the first try
	Reason                 string    // decision_reason of the first retry
	Counts                 HealthCounts
}

// UpstreamHealth is the score of one upstream, with each reason's part in it.
type UpstreamHealth struct {
	Env, Upstream string
	Counts        HealthCounts
	Score         HealthScore
	Reasons       []ReasonHealth // most taken off first
	// Alarm is on from the second window in a row below the line; Since is when the
	// first of them began, or zero.
	Alarm bool
	Since time.Time
}

// ReasonHealth is the score of what was retried for one reason, by the upstream's
// requests, and what it takes off the upstream's score: these add up to it.
type ReasonHealth struct {
	Status                 int64
	Reason                 string
	Counts                 HealthCounts
	Score                  HealthScore
	Trigger, Useless, Load int64
}

// Healths scores each upstream of rows over [from, to). Alarms look at all rows, so
// rows may begin before from; a window that is not over at to alarms nobody yet.
func Healths(rows []HealthRow, from, to time.Time) []UpstreamHealth {
	type key struct{ env, upstream string }
	type reason struct {
		status int64
		reason string
	}
	byKey := map[key][]HealthRow{}
	for _, r := range rows {
		k := key{r.Env, r.Upstream}
		byKey[k] = append(byKey[k], r)
	}
	out := []UpstreamHealth{}
	for k, list := range byKey {
		h := UpstreamHealth{Env: k.env, Upstream: k.upstream}
		windows, reasons := map[time.Time]HealthCounts{}, map[reason]HealthCounts{}
		for _, r := range list {
			windows[r.At] = windows[r.At].Plus(r.Counts)
			if r.At.Before(from) || !r.At.Before(to) {
				continue
			}
			h.Counts = h.Counts.Plus(r.Counts)
			if r.Counts.Retried > 0 || r.Counts.Retries > 0 {
				w := reason{r.Status, r.Reason}
				reasons[w] = reasons[w].Plus(r.Counts)
			}
		}
		h.Score = h.Counts.Score()
		h.Alarm, h.Since = alarm(windows, to)
		for w, c := range reasons {
			c.Requests = h.Counts.Requests // clean requests have no reason
			h.Reasons = append(h.Reasons, ReasonHealth{Status: w.status, Reason: w.reason, Counts: c, Score: c.Score()})
		}
		h.deduct()
		if h.Counts != (HealthCounts{}) || h.Alarm {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b UpstreamHealth) int {
		return cmp.Or(cmp.Compare(a.Score.PPM, b.Score.PPM), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Env, b.Env))
	})
	return out
}

// deduct shares the upstream's deductions out over its reasons: each by what makes
// it.
func (h *UpstreamHealth) deduct() {
	slices.SortFunc(h.Reasons, func(a, b ReasonHealth) int {
		return cmp.Or(cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason))
	})
	weights := func(of func(HealthCounts) int64) []int64 {
		list := make([]int64, len(h.Reasons))
		for i, r := range h.Reasons {
			list[i] = max(of(r.Counts), 0)
		}
		return list
	}
	useless := func(c HealthCounts) int64 { return c.Failed }
	if h.Counts.Recovered+h.Counts.Failed == 0 {
		useless = func(c HealthCounts) int64 { return c.Retried }
	}
	trigger := shareOut(h.Score.Trigger, weights(func(c HealthCounts) int64 { return c.Retried }))
	lost := shareOut(h.Score.Useless, weights(useless))
	load := shareOut(h.Score.Load, weights(func(c HealthCounts) int64 { return c.Retries }))
	for i := range h.Reasons {
		h.Reasons[i].Trigger, h.Reasons[i].Useless, h.Reasons[i].Load = trigger[i], lost[i], load[i]
	}
	slices.SortStableFunc(h.Reasons, func(a, b ReasonHealth) int {
		return cmp.Compare(b.Trigger+b.Useless+b.Load, a.Trigger+a.Useless+a.Load)
	})
}

// shareOut splits total by weights; what rounding leaves goes to the largest
// remainders, so that parts add up.
func shareOut(total int64, weights []int64) []int64 {
	out := make([]int64, len(weights))
	var sum int64
	for _, w := range weights {
		sum += w
	}
	if sum <= 0 {
		return out
	}
	left := total
	order, rest := make([]int, len(weights)), make([]int64, len(weights))
	for i, w := range weights {
		out[i] = mulDiv(w, total, sum)
		left -= out[i]
		rest[i] = w*total - out[i]*sum // exact in wrap-around, since it is below sum
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		out[i]++
	}
	return out
}

// alarm walks windows that are over, oldest first. Only a score that may be acted
// upon moves it; a window without one breaks the row of bad ones, but does not end
// an alarm: silence is no recovery.
func alarm(windows map[time.Time]HealthCounts, to time.Time) (on bool, since time.Time) {
	var begins []time.Time
	for at := range windows {
		if !at.Add(HealthWindow).After(to) {
			begins = append(begins, at)
		}
	}
	slices.SortFunc(begins, time.Time.Compare)
	var first, last time.Time
	for _, at := range begins {
		s := windows[at].Score()
		if !last.IsZero() && at.Sub(last) != HealthWindow {
			first = time.Time{}
		}
		last = at
		switch {
		case s.State != HealthScored || s.LowConfidence:
			first = time.Time{}
		case s.Below() && first.IsZero():
			first = at
		case s.Below() && !on:
			on, since = true, first
		case s.Below():
		default:
			first = time.Time{}
			if s.well {
				on, since = false, time.Time{}
			}
		}
	}
	return on, since
}
