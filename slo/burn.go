package slo

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"time"
)

// Pair is one burn rule: it fires while both windows burn faster than the rate
// that spends SpendPPM of the budget within the long one.
type Pair struct {
	Name     string        `json:"name"`
	Long     time.Duration `json:"long_ns"`
	SpendPPM int64         `json:"spend_ppm"`
	Severity string        `json:"severity"` // page, ticket
	Reason   string        `json:"reason"`
	// Rescaled: it asks for less than the table does, since what the table asks
	// for could never be reached under the objective's target.
	Rescaled bool `json:"rescaled,omitempty"`
}

// Short is the window that ends an alert soon after the trouble ends.
func (p Pair) Short() time.Duration { return p.Long / 12 }

// Pairs returns the burn rules with the reason of each.
func Pairs() []Pair {
	return []Pair{
		{Name: "1h", Long: time.Hour, SpendPPM: 20_000, Severity: "page", Reason: "2 % of the budget within an hour: somebody must look now"},
		{Name: "6h", Long: 6 * time.Hour, SpendPPM: 50_000, Severity: "page", Reason: "5 % within six hours: too slow for the first rule, too fast to sleep on"},
		{Name: "1d", Long: 24 * time.Hour, SpendPPM: 100_000, Severity: "ticket", Reason: "10 % within a day: to be repaired in working hours"},
		{Name: "3d", Long: 72 * time.Hour, SpendPPM: 100_000, Severity: "ticket", Reason: "10 % within three days: the budget will not last the window"},
	}
}

// Rules are the burn rules of o: its own, or those of Pairs. One of Pairs that
// could never fire under o's target is made to ask for less; one that reaches
// further back than o's window has nothing to say. An objective without alerts has
// none.
func (o Objective) Rules() []Pair {
	t := o.terms()
	if t.AlertsOff {
		return nil
	}
	if t.Pairs != nil {
		return slices.Clone(t.Pairs)
	}
	var out []Pair
	for _, p := range Pairs() {
		if p.Long > o.Window {
			continue
		}
		if !p.Reachable(o) {
			p = p.rescaled(o)
		}
		out = append(out, p)
	}
	return out
}

// rescaled is p asking for what a total outage spends in half its long window:
// enough to be reached, and soon.
func (p Pair) rescaled(o Objective) Pair {
	n := product(int64(p.Long), whole, million)
	p.SpendPPM = n.Quo(n, product(2, int64(o.Window), whole-o.TargetPPB)).Int64()
	p.Reason = fmt.Sprintf("%s of the budget within %s, which a total outage spends in half that time", Percent(p.SpendPPM), Span(p.Long))
	p.Rescaled = true
	return p
}

// reach is the burn rate of a total outage, in thousandths.
func reach(o Objective) int64 { return whole * 1000 / (whole - o.TargetPPB) }

// BurnWindows returns the windows whose burn rate is always shown: the four long
// ones of Pairs, and the shortest, which says what happens now.
func BurnWindows() []time.Duration {
	return []time.Duration{5 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 72 * time.Hour}
}

// Windows are the windows o's burn rate is measured over: BurnWindows and both of
// each rule, ascending.
func (o Objective) Windows() []time.Duration {
	all := BurnWindows()
	for _, p := range o.Rules() {
		all = append(all, p.Long, p.Short())
	}
	slices.Sort(all)
	return slices.Compact(all)
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

// ThresholdMilli is the rate p must exceed for o: SpendPPM * window / long, to the
// nearest thousandth; only for showing, Exceeds does not round.
func (p Pair) ThresholdMilli(o Objective) int64 {
	return (mulDiv(p.SpendPPM*1000, int64(o.Window/time.Second), int64(p.Long/time.Second)) + million/2) / million
}

// Exceeds reports whether bad of valid burns faster than p's threshold for o.
// Equality does not.
func (p Pair) Exceeds(o Objective, bad, valid int64) bool {
	return compareRate(p, o, bad, valid) > 0
}

// Reachable reports whether p can fire at all: even a total outage burns only at
// 1/(1-target).
func (p Pair) Reachable(o Objective) bool { return compareRate(p, o, 1, 1) > 0 }

// Unreachable returns the rules that can never fire for o: what a user is told
// when an objective is saved. Of Pairs they are re-scaled, one's own are refused.
func Unreachable(o Objective) []Pair {
	var never []Pair
	pairs := Pairs()
	if t := o.terms(); t.Pairs != nil {
		pairs = t.Pairs
	}
	for _, p := range pairs {
		if !p.Reachable(o) {
			never = append(never, p)
		}
	}
	return never
}

// compareRate compares bad/(b*valid) with spend*window/long, in integers.
func compareRate(p Pair, o Objective, bad, valid int64) int {
	// A replay asks a million times: two numbers of 128 bits do, but for traffic that
	// nobody has.
	a, okA := times(bad, int64(p.Long/time.Second))
	b, okB := times(valid, int64(o.Window/time.Second))
	c, okC := times(whole-o.TargetPPB, p.SpendPPM)
	if okA && okB && okC {
		return compare(a, whole*million, b, c)
	}
	left := product(bad, whole, million, int64(p.Long/time.Second))
	right := product(valid, whole-o.TargetPPB, p.SpendPPM, int64(o.Window/time.Second))
	return left.Cmp(right)
}

// times is a*b, where both are no less than 0 and it fits.
func times(a, b int64) (int64, bool) {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int64(lo), a >= 0 && b >= 0 && hi == 0 && lo <= math.MaxInt64
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

// Guard keeps a rule quiet where there is too little traffic to tell a failure
// from an accident: at ten requests an hour a single one burns at 100. Both
// conditions must hold in the long window for a rule to fire.
type Guard struct {
	// MinBad is how many failures there must be; 0: no such condition.
	MinBad int64 `json:"min_bad"`
	// ZMilli is how sure it must be that the true ratio is above the threshold: the
	// one-sided Wilson lower bound at this many standard deviations, in thousandths.
	// 0: no such condition.
	ZMilli int64 `json:"z_milli"`
}

// DefaultGuard asks for three failures and 95 % certainty.
func DefaultGuard() Guard { return Guard{MinBad: 3, ZMilli: 1645} }

// Guard is the guard of o's rules.
func (o Objective) Guard() Guard {
	if o.Terms != nil && o.Terms.Guard != nil {
		return *o.Terms.Guard
	}
	return DefaultGuard()
}

// Lets reports whether bad of valid events are enough for p to fire on.
func (g Guard) Lets(p Pair, o Objective, bad, valid int64) bool {
	if bad < g.MinBad || bad > valid || valid <= 0 {
		return false
	}
	return g.ZMilli <= 0 || g.surely(p, o, bad, valid)
}

// surely reports whether the Wilson lower bound of bad/valid lies above p's
// threshold r. The bound is the least L with (x-L)^2 <= z^2 L(1-L)/n, so it is
// above r exactly if x > r and (x-r)^2 > z^2 r(1-r)/n: no root is taken, and
// nothing is rounded.
func (g Guard) surely(p Pair, o Objective, bad, valid int64) bool {
	if !p.Exceeds(o, bad, valid) {
		return false
	}
	// r = spend * window * b / long, as a fraction.
	rn := product(p.SpendPPM, int64(o.Window/time.Second), whole-o.TargetPPB)
	rd := product(int64(p.Long/time.Second), million, whole)
	if rn.Cmp(rd) >= 0 {
		return false
	}
	n := big.NewInt(valid)
	// (bad/n - rn/rd)^2 * n * 10^6 > z^2 * rn (rd-rn) / rd^2, times n^2 rd^2 / n:
	// (bad*rd - rn*n)^2 * 10^6 > z^2 * rn * (rd-rn) * n.
	d := new(big.Int).Sub(new(big.Int).Mul(big.NewInt(bad), rd), new(big.Int).Mul(rn, n))
	left := new(big.Int).Mul(d, d)
	left.Mul(left, big.NewInt(million))
	right := new(big.Int).Mul(rn, new(big.Int).Sub(rd, rn))
	right.Mul(right, n).Mul(right, product(g.ZMilli, g.ZMilli))
	return left.Cmp(right) > 0
}

// WilsonPPM is the one-sided lower bound of bad/valid in ppm, to be shown beside
// a rule that keeps quiet; surely decides.
func (g Guard) WilsonPPM(bad, valid int64) int64 {
	if valid <= 0 || bad <= 0 {
		return 0
	}
	n, z := float64(valid), float64(g.ZMilli)/1000
	x := float64(bad) / n
	low := (x + z*z/(2*n) - z*math.Sqrt(x*(1-x)/n+z*z/(4*n*n))) / (1 + z*z/n)
	return int64(low * million)
}

// Firing returns the rules of which both windows exceed the threshold, and the
// long one surely.
func (s Status) Firing() []Pair {
	at := map[time.Duration]Burn{}
	for _, b := range s.Burns {
		at[b.Window] = b
	}
	var firing []Pair
	guard := s.Objective.Guard()
	for _, p := range s.Objective.Rules() {
		long, short := at[p.Long], at[p.Short()]
		if guard.Lets(p, s.Objective, long.Bad, long.Valid) && p.Exceeds(s.Objective, long.Bad, long.Valid) && p.Exceeds(s.Objective, short.Bad, short.Valid) {
			firing = append(firing, p)
		}
	}
	return firing
}
