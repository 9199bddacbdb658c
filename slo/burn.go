package slo

import (
	"math/big"
	"time"
)

// Pair is one burn rule: it fires while both windows burn faster than the rate
// that spends SpendPPM of the budget within the long one.
type Pair struct {
	Name     string
	Long     time.Duration
	SpendPPM int64
	Severity string // page, ticket
	Reason   string
}

// Short is the window that ends an alert soon after the trouble ends.
func (p Pair) Short() time.Duration { return p.Long / 12 }

// Pairs returns the burn rules with the reason of each.
func Pairs() []Pair {
	return []Pair{
		{"1h", time.Hour, 20_000, "page", "2 % of the budget within an hour: somebody must look now"},
		{"6h", 6 * time.Hour, 50_000, "page", "5 % within six hours: too slow for the first rule, too fast to sleep on"},
		{"1d", 24 * time.Hour, 100_000, "ticket", "10 % within a day: to be repaired in working hours"},
		{"3d", 72 * time.Hour, 100_000, "ticket", "10 % within three days: the budget will not last the window"},
	}
}

// BurnWindows returns the windows whose burn rate is always shown: the four long
// ones of Pairs, and the shortest, which says what happens now.
func BurnWindows() []time.Duration {
	return []time.Duration{5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}
}

// allWindows are BurnWindows and the short halves of Pairs, ascending.
func allWindows() []time.Duration {
	return []time.Duration{5 * time.Minute, 30 * time.Minute, time.Hour, 2 * time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}
}

// Burning is the burn rate over window.
func Burning(o Objective, window time.Duration, t Tally) Burn {
	b := Burn{Window: window, Bad: max(t.Bad, 0), Valid: max(t.Good, 0) + max(t.Bad, 0)}
	if b.Valid == 0 {
		b.NoData = true
		return b
	}
	n := new(big.Int).Mul(big.NewInt(b.Bad), big.NewInt(whole*1000))
	b.RateMilli = n.Quo(n, new(big.Int).Mul(big.NewInt(b.Valid), big.NewInt(whole-o.TargetPPB))).Int64()
	return b
}

// ThresholdMilli is the rate p must exceed for o: SpendPPM * window / long,
// floored; only for showing, Exceeds does not round.
func (p Pair) ThresholdMilli(o Objective) int64 {
	return mulDiv(p.SpendPPM*1000, int64(o.Window/time.Second), int64(p.Long/time.Second)) / million
}

// Exceeds reports whether bad of valid burns faster than p's threshold for o.
// Equality does not.
func (p Pair) Exceeds(o Objective, bad, valid int64) bool {
	return compareRate(p, o, bad, valid) > 0
}

// Reachable reports whether p can fire at all: even a total outage burns only at
// 1/(1-target).
func (p Pair) Reachable(o Objective) bool { return compareRate(p, o, 1, 1) > 0 }

// Unreachable returns the rules that can never fire for o.
func Unreachable(o Objective) []Pair {
	var never []Pair
	for _, p := range Pairs() {
		if !p.Reachable(o) {
			never = append(never, p)
		}
	}
	return never
}

// compareRate compares bad/(b*valid) with spend*window/long, in integers.
func compareRate(p Pair, o Objective, bad, valid int64) int {
	left := product(bad, whole, million, int64(p.Long/time.Second))
	right := product(valid, whole-o.TargetPPB, p.SpendPPM, int64(o.Window/time.Second))
	return left.Cmp(right)
}

func product(factors ...int64) *big.Int {
	n := big.NewInt(1)
	for _, f := range factors {
		n.Mul(n, big.NewInt(f))
	}
	return n
}

// Detects is how long a failure of errPPM of even traffic lasts before p's long
// window crosses the threshold; false: never. It needs no data, so it also tells
// a user what a rule is worth before an outage does.
func (p Pair) Detects(o Objective, errPPM int64) (time.Duration, bool) {
	if compareRate(p, o, errPPM, million) <= 0 {
		return 0, false
	}
	// threshold * b * long / err, and threshold * long is spend * window.
	n := product(p.SpendPPM, int64(o.Window), whole-o.TargetPPB)
	return time.Duration(n.Quo(n, product(errPPM, whole)).Int64()), true
}

// Clears is how long p's short window stays over the threshold once a failure of
// errPPM has ended.
func (p Pair) Clears(o Objective, errPPM int64) time.Duration {
	short := p.Short()
	n := product(int64(short), p.SpendPPM, int64(o.Window), whole-o.TargetPPB)
	quiet := time.Duration(n.Quo(n, product(int64(p.Long), errPPM, whole)).Int64())
	return max(short-quiet, 0)
}

// Exhausts is how long a whole budget lasts at a constant burn rate; 0: for ever.
func Exhausts(o Objective, rateMilli int64) time.Duration {
	if rateMilli <= 0 {
		return 0
	}
	return time.Duration(mulDiv(int64(o.Window), 1000, rateMilli))
}

// minBad is how many failures a long window must hold before a rule may fire: at
// ten requests an hour a single failure burns at 100 and means nothing.
const minBad = 3

// Firing returns the rules of which both windows exceed the threshold.
func (s Status) Firing() []Pair {
	at := map[time.Duration]Burn{}
	for _, b := range s.Burns {
		at[b.Window] = b
	}
	var firing []Pair
	for _, p := range Pairs() {
		long, short := at[p.Long], at[p.Short()]
		if long.Bad >= minBad && p.Exceeds(s.Objective, long.Bad, long.Valid) && p.Exceeds(s.Objective, short.Bad, short.Valid) {
			firing = append(firing, p)
		}
	}
	return firing
}
