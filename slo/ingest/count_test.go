package ingest

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

// one folds exchanges that make a single row.
func one(t *testing.T, xs ...retrylog.Exchange) Row {
	t.Helper()
	f := Fold(records(xs...), noon, nil)
	if len(f.Rows) != 1 {
		t.Fatalf("got %d rows, want 1", len(f.Rows))
	}
	return f.Rows[0]
}

// times repeats x under ids of its own.
func times(n int, x retrylog.Exchange) []retrylog.Exchange {
	out := make([]retrylog.Exchange, n)
	for i := range out {
		out[i] = x
		out[i].RequestID = fmt.Sprintf("%s-%d-%d", x.RequestID, x.Status, i)
	}
	return out
}

func sampled(ppm int64) func(*retrylog.Exchange) {
	return func(x *retrylog.Exchange) { x.SamplePPM = ppm }
}

// A tenth of a million requests has lines, 60 of them bad: what the row holds is
// enough to say 600 +- 144 bad, which cannot decide 99.95 %.
func TestSLO_T16_ASampleSaysHowFarItCanBeTrusted(t *testing.T) {
	good, bad := with(answered(200), sampled(100_000)), with(answered(503), sampled(100_000))
	good.Count, bad.Count = 99_940, 60
	r := one(t, good, bad)
	if r.Good != 999_400 || r.Bad != 600 || r.Exchanges != 1_000_000 || r.Sampled != 100_000 || r.Hist.Bins().Count() != 1_000_000 {
		t.Errorf("got %+v", r)
	}
	ratio := float64(r.Bad) / float64(r.Good+r.Bad)
	// Horvitz-Thompson, of a ratio: the residuals' variance.
	se := math.Sqrt((1-ratio)*(1-ratio)*float64(r.VarBad)+ratio*ratio*float64(r.VarGood)) / float64(r.Good+r.Bad)
	if ratio != 6e-4 || math.Abs(se-7.35e-5) > 5e-8 {
		t.Errorf("ratio %v, standard error %.3e, want 6e-4 and 7.35e-5", ratio, se)
	}
	if low, high := ratio-1.96*se, ratio+1.96*se; math.Abs(low-4.56e-4) > 5e-7 || math.Abs(high-7.44e-4) > 5e-7 {
		t.Errorf("from %.3e to %.3e, want 4.56e-4 to 7.44e-4", low, high)
	}
}

func TestSLO_T17_ASampleWithoutFailuresSaysHowManyItSaw(t *testing.T) {
	good := with(answered(200), sampled(100_000))
	good.Count = 6000
	r := one(t, good)
	// The upper bound is 3/n of what was seen, and not of the 60 000 it stands for.
	if r.Sampled != 6000 || r.Good != 60_000 || r.VarBad != 0 || 3_000_000/r.Sampled != 500 {
		t.Errorf("got %+v", r)
	}
}

func TestSLO_T18_KeptFailuresAndSampledSuccessesAreWeighted(t *testing.T) {
	bad, good := answered(503), with(answered(200), sampled(100_000))
	bad.Count, good.Count = 100, 9990
	r := one(t, bad, good)
	if r.Bad != 100 || r.Good != 99_900 || r.VarBad != 0 {
		t.Errorf("got good %d bad %d: unweighted this reads as ten times the failures", r.Good, r.Bad)
	}
	if unweighted := 100.0 / (100 + 9990); math.Abs(unweighted-0.00991) > 1e-5 || float64(r.Bad)/float64(r.Good+r.Bad) != 0.001 {
		t.Errorf("ratio %v", float64(r.Bad)/float64(r.Good+r.Bad))
	}
}

// Where 1/p is no whole number the sum is right all the same, whole, and the same
// in any order and split.
func TestWeightsOfAnyShareAddUpToTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(4, 4))
	for _, ppm := range []int64{1_000_000, 300_000, 70_000, 999_999, 333_333} {
		xs := times(8_000, with(answered(200), sampled(ppm)))
		r := one(t, xs...)
		want := float64(len(xs)) * 1e6 / float64(ppm)
		if off := math.Abs(float64(r.Good)-want) / want; off > 0.02 {
			t.Errorf("%d ppm: %d lines stand for %d, want about %.0f", ppm, len(xs), r.Good, want)
		}
		rnd.Shuffle(len(xs), func(i, j int) { xs[i], xs[j] = xs[j], xs[i] })
		a, b := Fold(records(xs[:3000]...), noon, nil), Fold(records(xs[3000:]...), noon, nil)
		if sum := Sum(a, b); len(sum.Rows) != 1 || sum.Rows[0].Good != r.Good || sum.Rows[0].VarGood != r.VarGood {
			t.Errorf("%d ppm: in parts %+v, at once %+v", ppm, sum.Rows[0].Tally, r.Tally)
		}
	}
}

func TestSLO_T23_DependencyTimeoutsAreCountedBothWays(t *testing.T) {
	timeouts := func(n int) func(*retrylog.Exchange) {
		return func(x *retrylog.Exchange) { x.DepTimeouts = n }
	}
	xs := slices.Concat(times(991, answered(200)), times(7, with(answered(200), timeouts(1))), times(2, with(answered(503), timeouts(3))),
		times(5, with(answered(404), timeouts(1)))) // not valid: in no ratio
	r := one(t, xs...)
	valid := r.Good + r.Bad
	if valid != 1000 || r.DepTimeouts != 9 || r.DepTimeoutCalls != 13 {
		t.Errorf("%d of %d with a timeout, %d timeouts; want 9 of 1000 and 13", r.DepTimeouts, valid, r.DepTimeoutCalls)
	}
}

// Latency: who gave up past the limit did find it slow; who gave up before did not.
func TestSLO_T21_AbortedExchangesCountForLatencyPastTheLimit(t *testing.T) {
	took := func(us int64) func(*retrylog.Exchange) {
		return func(x *retrylog.Exchange) { x.LatencyUS = us }
	}
	limit := func(string, string) time.Duration { return 300 * time.Millisecond }
	f := Fold(records(
		with(answered(200), took(300_000)), // inclusive
		with(answered(200), took(300_001)),
		with(answered(408), took(400_000)),
		with(answered(499), took(100_000)),
		with(answered(404), took(900_000)),
		with(answered(200), func(x *retrylog.Exchange) { x.Synthetic, x.LatencyUS = "probe", 900_000 }),
	), noon, limit)
	if r := f.Rows[0]; r.OverLimit != 2 || r.AbortedOver != 1 || r.Aborted != 2 || r.LimitUS != 300_000 {
		t.Errorf("got %+v", r)
	}
}

func TestSLO_T21_CountersBesideTheClasses(t *testing.T) {
	degraded := with(refused("breaker:open", 200), func(x *retrylog.Exchange) { x.Degraded = "return_default" })
	synthetic := with(answered(503), func(x *retrylog.Exchange) { x.Synthetic, x.DepTimeouts = "probe", 1 })
	chaos := func(x *retrylog.Exchange) { x.Experiment = "run-1" }
	rows := Fold(records(degraded, refused("breaker:open", 503), refused("concurrency:limit", 503), refused("limiter:rate", 429),
		answered(503), answered(408), synthetic, with(answered(503), chaos), with(answered(200), chaos)), noon, nil).Rows
	if len(rows) != 2 {
		t.Fatalf("got %d rows, want those with and without the experiment", len(rows))
	}
	r, c := rows[0], rows[1]
	if r.Good != 1 || r.Degraded != 1 || r.Bad != 3 || r.BadLocal != 2 || r.Throttled != 1 || r.Aborted != 1 || r.Synthetic != 1 ||
		r.Neutral != 3 || r.Exchanges != 7 || r.Hist.Bins().Count() != 4 || r.DepTimeouts != 0 {
		t.Errorf("without the experiment %+v", r)
	}
	if c.Experiment != "run-1" || c.ChaosBad != 1 || c.ChaosGood != 1 || c.Bad != 1 || c.Good != 1 {
		t.Errorf("with it %+v", c)
	}
}

// Whatever an exchange is, it is in one class, and the counters of a class are
// never more than the class.
func TestCountersAddUpForAnyExchange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	pick := func(s ...string) string { return s[rnd.IntN(len(s))] }
	for range 3000 {
		x := answered([]int{0, 101, 200, 302, 400, 401, 408, 429, 499, 500, 503, 504}[rnd.IntN(12)])
		x.Outcome = retrylog.Outcome(pick("ok", "upstream_failure", "local_refusal", "timeout", "client_abort", "panic"))
		x.Origin, x.Degraded, x.Experiment, x.Synthetic = pick("gateway", "upstream"), pick("", "", "last_good"), pick("", "run-1"), pick("", "", "", "probe")
		x.BodyComplete, x.DepTimeouts, x.LatencyUS = rnd.IntN(4) > 0, rnd.IntN(3), rnd.Int64N(1e6)
		x.Count, x.SamplePPM = 1+rnd.Int64N(3), []int64{0, 500_000}[rnd.IntN(2)]
		for range rnd.IntN(3) {
			x.Tries = append(x.Tries, retrylog.Try{Status: 503})
		}
		f := Fold(records(x), noon, func(string, string) time.Duration { return time.Second / 2 })
		r := f.Rows[0]
		valid := r.Good + r.Bad
		if valid+r.Neutral != r.Exchanges || r.Throttled+r.Aborted+r.Synthetic > r.Neutral || r.BadLocal+0 > r.Bad || r.Degraded > r.Good ||
			r.ChaosGood > r.Good || r.ChaosBad > r.Bad || r.FirstTryBad > valid || r.DepTimeouts > valid || r.OverLimit-r.AbortedOver > valid ||
			r.Hist.Bins().Count() != valid || r.Recovered > r.Retried {
			t.Fatalf("%+v\ncounts as %+v", x, r)
		}
		for _, rt := range f.Retries {
			if rt.Succeeded+rt.Failed > rt.Retried || rt.Retried > rt.Retries || rt.Retried != r.Retried {
				t.Fatalf("%+v\nretried as %+v", x, rt)
			}
		}
	}
}

// Integers of each reason add up to the upstream's; an exchange belongs to the
// reason of its first retry. 890 of 1000 and 12 of 100 are 902 of 1100.
func TestSLO_T28_RetriesAddUpOverReasons(t *testing.T) {
	retried := func(reason string, status int) retrylog.Exchange {
		x := answered(status)
		x.Upstream, x.FirstStatus, x.Reason = "auth-service", 503, reason
		x.Tries = []retrylog.Try{{Status: 503}, {Status: status}}
		return x
	}
	f := Fold(records(slices.Concat(
		times(890, retried("overloaded", 200)), times(110, retried("overloaded", 503)),
		times(12, retried("throttled", 200)), times(88, retried("throttled", 503)))...), noon, nil)
	if len(f.Retries) != 2 {
		t.Fatalf("got %+v", f.Retries)
	}
	over, thr := f.Retries[0], f.Retries[1]
	if over.Reason != "overloaded" || over.Status != 503 || over.Retried != 1000 || over.Succeeded != 890 || over.Failed != 110 || over.Retries != 1000 {
		t.Errorf("got %+v", over)
	}
	if thr.Retried != 100 || thr.Succeeded != 12 || thr.Failed != 88 {
		t.Errorf("got %+v", thr)
	}
	if s, n := over.Succeeded+thr.Succeeded, over.Retried+thr.Retried; s != 902 || n != 1100 || f.Rows[0].Retried != n {
		t.Errorf("%d of %d, rows say %d retried", s, n, f.Rows[0].Retried)
	}
}

func TestFacetsKeepTheWorstAndTheRestAsOther(t *testing.T) {
	var xs []retrylog.Exchange
	for i := range 200 {
		x := answered(200)
		if i < 60 {
			x = answered(503)
		}
		x.Count, x.BusinessCode, x.Caller, x.Tenant = int64(1+i%3), "50003", fmt.Sprintf("caller-%03d", i), "t"
		xs = append(xs, x)
	}
	f := Fold(records(xs...), noon, nil)
	sums := map[string]Facet{}
	callers := 0
	for _, v := range f.Facets {
		s := sums[v.Dimension]
		s.add(&v)
		sums[v.Dimension] = s
		if v.Dimension == "caller" {
			callers++
		}
		if v.Dimension == "code" && (v.Value != "50003" || v.Total != 399) {
			t.Errorf("got %+v", v)
		}
	}
	if callers != maxValues+1 {
		t.Errorf("%d callers, want %d and %s", callers, maxValues, Other)
	}
	r := f.Rows[0]
	for _, dim := range []string{"status", "code", "caller", "tenant"} {
		if s := sums[dim]; s.Good != r.Good || s.Bad != r.Bad || s.Total != r.Exchanges {
			t.Errorf("by %s %+v, the row says %+v", dim, s, r.Tally)
		}
	}
}

// Names that are the same once they fit the database are one row, or the
// statement that adds them would name a row twice.
func TestNamesThatAreAlikeOnceCleanAreOneRow(t *testing.T) {
	var xs []retrylog.Exchange
	for i, name := range []string{"a\x00b", "a\ufffdb", "a\xffb", "a\x00b"} {
		x := answered(200)
		x.Route, x.Caller = name, name
		for m := range 3 {
			x.End = noon.Add(-time.Duration((i+m)%3) * time.Minute)
			xs = append(xs, x)
		}
	}
	f := Fold(records(xs...), noon, nil)
	if len(f.Rows) != 3 {
		t.Errorf("%d rows, want one a minute", len(f.Rows))
	}
	seen := map[FacetKey]bool{}
	for _, v := range f.Facets {
		if seen[v.FacetKey] {
			t.Errorf("facet %+v twice", v.FacetKey)
		}
		seen[v.FacetKey] = true
	}
}

// A limit that was changed within a minute leaves a count that means neither.
func TestRowsHeldAgainstTwoLimitsSaySo(t *testing.T) {
	limited := func(d time.Duration) Folded {
		return Fold(records(with(answered(200), func(x *retrylog.Exchange) { x.LatencyUS = 250_000 })), noon, func(string, string) time.Duration { return d })
	}
	same := Sum(limited(200*time.Millisecond), limited(200*time.Millisecond)).Rows[0]
	if same.LimitUS != 200_000 || same.OverLimit != 2 {
		t.Errorf("one limit: %+v", same)
	}
	two := Sum(limited(200*time.Millisecond), limited(300*time.Millisecond), limited(200*time.Millisecond)).Rows[0]
	if two.LimitUS != Mixed || two.Good != 3 || two.Hist.Bins().Count() != 3 {
		t.Errorf("two limits: %+v", two)
	}
}
