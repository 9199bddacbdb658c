package histogram

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// distributions are a hundred shapes of latencies, in microseconds from 100 us to 250 s.
func distributions(r *rand.Rand, each int) [][]int64 {
	shapes := []func(scale float64) float64{
		func(s float64) float64 { return s },
		func(s float64) float64 { return s * (0.5 + r.Float64()) },
		func(s float64) float64 { return s * math.Exp(r.NormFloat64()) },
		func(s float64) float64 { return s * math.Exp(2*r.NormFloat64()) },
		func(s float64) float64 { return s * r.ExpFloat64() },
		func(s float64) float64 { return s * math.Pow(1-r.Float64(), -0.7) }, // a heavy tail
		func(s float64) float64 { return s * (1 + 40*math.Floor(r.Float64()*1.02)) },
		func(s float64) float64 { return s * float64(1+r.IntN(3)) },
		func(s float64) float64 { return s * math.Abs(1+0.05*r.NormFloat64()) },
		func(s float64) float64 { return s * math.Pow(10, 3*r.Float64()) },
	}
	var out [][]int64
	for i := range 100 {
		shape, scale := shapes[i%len(shapes)], math.Pow(10, 2.5+float64(i/len(shapes))*0.35)
		values := make([]int64, each)
		for j := range values {
			values[j] = min(max(int64(shape(scale)), 100), 250_000_000)
		}
		out = append(out, values)
	}
	return out
}

func TestSLO_T26_QuantilesOfAHundredDistributionsAreWithinElevenPerMille(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	worst := 0.0
	for d, values := range distributions(r, 3_000) {
		var l List
		for _, v := range values {
			l.Add(v, 1)
		}
		bins := l.Bins()
		sorted := slices.Sorted(slices.Values(values))
		for _, q := range []float64{0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999, 1} {
			exact := float64(sorted[rankOf(q, int64(len(sorted)))-1])
			got := bins.Quantile(q, sorted[len(sorted)-1])
			off := math.Abs(got.US-exact) / exact
			worst = max(worst, off)
			if got.Over || got.Empty || off > 0.011 {
				t.Errorf("distribution %d: quantile %v reads %.1f, exactly %.0f (%.4f off)", d, q, got.US, exact, off)
			}
		}
	}
	t.Logf("worst error %.4f", worst)
}

func TestSLO_T26_ListsInAnyOrderPackToTheSame(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 1))
	for _, values := range distributions(r, 300) {
		var whole List
		var bins Bins
		for _, v := range values {
			whole.Add(v, 1)
			bins.Add(v, 1)
		}
		whole.Pack()
		parts := make([]List, 1+r.IntN(9))
		r.Shuffle(len(values), func(i, j int) { values[i], values[j] = values[j], values[i] })
		for _, v := range values {
			parts[r.IntN(len(parts))].Add(v, 1)
		}
		var sum List
		for _, p := range parts {
			sum.Merge(p)
		}
		sum.Pack()
		if !slices.Equal(sum, whole) || !slices.Equal(whole.Bins(), bins) || !slices.Equal(bins.List(), whole) {
			t.Fatal("another split or order gave another histogram")
		}
	}
}

// Two minutes of different size: the mean of their P95s lies, their sum does not.
func TestSLO_T25_ListsAreAddedAndNeverAveraged(t *testing.T) {
	var a, b List
	a.Add(100_000, 1000)
	b.Add(2_000_000, 10)
	averaged := (a.Bins().Quantile(0.95, 0).US + b.Bins().Quantile(0.95, 0).US) / 2
	a.Merge(b)
	added := a.Bins().Quantile(0.95, 0).US
	if math.Abs(averaged-1_050_000) > 11_550 || math.Abs(added-100_000) > 1_100 {
		t.Errorf("averaged %.0f, added %.0f, want about 1050000 and 100000", averaged, added)
	}
}

func TestAListStaysShort(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var l List
	for range 100_000 {
		l.Add(1000+r.Int64N(1<<20), 1)
	}
	if len(l) > longList || l.Bins().Count() != 100_000 {
		t.Errorf("%d elements for %d values", len(l), l.Bins().Count())
	}
}

// Whatever stands in the database, reading it neither fails nor reaches beyond the bins.
func FuzzListBins(f *testing.F) {
	f.Add(int64(1<<10), int64(5<<10|1023), int64(-1))
	f.Fuzz(func(t *testing.T, a, b, c int64) {
		l := List{a, b, c}
		before := l.Bins()
		l.Pack()
		if after := l.Bins(); len(before) > Size || fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%v, then %v", before, after)
		}
	})
}

func BenchmarkListAdd(b *testing.B) {
	b.ReportAllocs()
	l := make(List, 0, longList)
	v := int64(1)
	for b.Loop() {
		l.Add(v, 1)
		v = v*31%300_000_000 + 1
	}
}
