package histogram

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSLO_T26(t *testing.T) {
	for _, tt := range []struct {
		x, index int64
		value    float64
	}{{100, 213, 99.77}, {250, 255, 247.80}, {300, 264, 301.14}, {2000, 351, 1982.41}} {
		if got := Index(tt.x); int64(got) != tt.index {
			t.Errorf("Index(%d) = %d, want %d", tt.x, got, tt.index)
		}
		if got := Value(int(tt.index)); math.Abs(got-tt.value) > 0.005 {
			t.Errorf("Value(%d) = %.3f, want %.2f", tt.index, got, tt.value)
		}
	}
}

func TestSLO_T26_SplitsAndOrdersAddUpToTheSameBins(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	values := make([]int64, 5000)
	for i := range values {
		values[i] = int64(math.Exp(r.Float64() * 21))
	}
	var whole Bins
	for _, v := range values {
		whole.Add(v, 1)
	}
	for range 20 {
		r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		parts := make([]Bins, 1+r.IntN(7))
		for _, v := range values {
			parts[r.IntN(len(parts))].Add(v, 1)
		}
		var sum Bins
		for _, p := range parts {
			sum.Merge(p)
		}
		if !slices.Equal(sum, whole) {
			t.Fatal("a split stream gave other bins")
		}
	}
}

// Powers of the edges are compared as exact integers, so no bin is off by one
// through rounding.
func TestEdgesAreExact(t *testing.T) {
	pow := func(x uint64) *big.Int {
		return new(big.Int).Exp(new(big.Int).SetUint64(x), big.NewInt(32), nil)
	}
	for i, e := range edges {
		bound := new(big.Int).Lsh(big.NewInt(1), uint(62*32+i+1))
		if pow(e).Cmp(bound) > 0 || pow(e+1).Cmp(bound) <= 0 {
			t.Errorf("edge %d is not the floor of 2^(62+%d/32)", i, i+1)
		}
	}
}

func TestIndexAtTheEndsOfTheRange(t *testing.T) {
	for _, tt := range []struct {
		us   int64
		want int
	}{{-5, 0}, {0, 0}, {1, 0}, {2, 32}, {3, 51}, {4, 64}, {300_000_000, Last}, {310_000_000, Overflow}, {math.MaxInt64, Overflow}} {
		if got := Index(tt.us); got != tt.want {
			t.Errorf("Index(%d) = %d, want %d", tt.us, got, tt.want)
		}
	}
}

func TestValueIsWithinItsPromise(t *testing.T) {
	for us := int64(64); us < 300_000_000; us += 1 + us/97 {
		if off := math.Abs(Value(Index(us))-float64(us)) / float64(us); off > 0.0109 {
			t.Fatalf("%d us reads as %.1f, %.4f off", us, Value(Index(us)), off)
		}
	}
}

func TestSLO_T25(t *testing.T) {
	var a, b Bins
	a.Add(100_000, 1000)
	b.Add(2_000_000, 10)
	a.Merge(b)
	if got := a.Quantile(0.95, 0); math.Abs(got.US-100_000) > 1_100 {
		t.Errorf("P95 of both minutes = %.0f, want 100000 +- 1.1 %%", got.US)
	}
}

func TestSLO_S43(t *testing.T) {
	var b Bins
	b.Add(1000, 26)
	b.Add(3000, 11)
	b.Add(9000, 2)
	for _, tt := range []struct{ q, want float64 }{{0.95, 9000}, {0.90, 3000}} {
		if got := b.Quantile(tt.q, 0); math.Abs(got.US-tt.want) > tt.want*0.011 {
			t.Errorf("Quantile(%v) = %.0f, want %.0f +- 1.1 %%", tt.q, got.US, tt.want)
		}
	}
}

func TestSLO_S46(t *testing.T) {
	var b Bins
	b.Add(10_000, 99)
	b.Add(400_000_000, 1)
	if got := b.Quantile(0.9999, 400_000_000); !got.Over || got.US != 400_000_000 {
		t.Errorf("P99.99 = %+v, want the recorded 400 s, flagged as over the range", got)
	}
	if got := b.Quantile(0.9999, 0); !got.Over {
		t.Errorf("P99.99 without a recorded maximum = %+v, want it flagged", got)
	}
	if got := b.Quantile(0.99, 400_000_000); got.Over || math.Abs(got.US-10_000) > 110 {
		t.Errorf("P99 = %+v, want 10 ms", got)
	}
}

func TestRankIsNotARoundingError(t *testing.T) {
	for _, tt := range []struct {
		q       float64
		n, want int64
	}{{0.95, 20, 19}, {0.9, 10, 9}, {0, 5, 1}, {1, 5, 5}, {0.5, 1, 1}, {0.999, 1000, 999}, {1, math.MaxInt64, math.MaxInt64}} {
		if got := rankOf(tt.q, tt.n); got != tt.want {
			t.Errorf("rank of %v in %d = %d, want %d", tt.q, tt.n, got, tt.want)
		}
	}
}

func TestAboveAndEmpty(t *testing.T) {
	var b Bins
	if !b.Quantile(0.5, 0).Empty || b.Above(0) != 0 {
		t.Error("no values must read as empty")
	}
	b.Add(100, 3)
	b.Add(5000, 4)
	if got := b.Above(300); got != 4 {
		t.Errorf("Above(300) = %d, want 4", got)
	}
	if got := b.Above(400_000_000); got != 0 {
		t.Errorf("Above(over the range) = %d, want 0", got)
	}
}

func FuzzSLO_S45_QuantilesNeverFall(f *testing.F) {
	f.Add(uint64(1), uint16(40))
	f.Add(uint64(93), uint16(97))
	f.Fuzz(func(t *testing.T, seed uint64, n uint16) {
		r := rand.New(rand.NewPCG(seed, 7))
		var b Bins
		var greatest int64
		for range int(n)%2000 + 1 {
			v := int64(math.Exp(r.Float64() * 22))
			greatest = max(greatest, v)
			b.Add(v, 1+r.Int64N(3))
		}
		before := -1.0
		for q := 0.0; q <= 1; q += 0.01 {
			got := b.Quantile(q, greatest)
			if got.US < before {
				t.Fatalf("quantile %v is %v, below %v of a smaller one", q, got.US, before)
			}
			before = got.US
		}
	})
}

func BenchmarkAdd(b *testing.B) {
	bins := make(Bins, Size)
	b.ReportAllocs()
	v := int64(1)
	for b.Loop() {
		bins.Add(v, 1)
		v = v*31%300_000_000 + 1
	}
}

// S45: whatever is measured, a greater q never has a lesser value.
func TestSLO_S45(t *testing.T) {
	rnd := rand.New(rand.NewPCG(45, 0))
	for round := range 300 {
		var b Bins
		var most int64
		for range 1 + rnd.IntN(400) {
			// Few values and many alike, spread over all orders of magnitude.
			us := int64(math.Exp(rnd.Float64() * math.Log(float64(1+rnd.IntN(2_000_000_000)))))
			most = max(most, us)
			b.Add(us, 1+rnd.Int64N(5)*rnd.Int64N(5))
		}
		var last Reading
		for permille := range int64(1001) {
			r := b.Quantile(float64(permille)/1000, most)
			if r.US < last.US {
				t.Fatalf("round %d: q %d/1000 is %.2f µs, after %.2f µs", round, permille, r.US, last.US)
			}
			last = r
		}
	}
}
