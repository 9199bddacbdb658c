package concurrency

import (
	"math"
	"testing"
	"time"
)

const ms = time.Millisecond

// Two decimal places, as the vectors have them.
func hundredths(limit int64) float64 { return math.Round(float64(limit)/10) / 100 }

func TestPolicies_V73(t *testing.T) {
	if got := hundredths(gradient(100*milli, 10*ms, 25*ms)); got != 57.07 {
		t.Errorf("sample 25: %v, want 57.07", got)
	}
	if got := hundredths(gradient(100*milli, 10*ms, 12500*time.Microsecond)); got != 110 {
		t.Errorf("sample 12.5: %v, want 110", got)
	}
	// The ratio is bounded on both sides.
	if got := hundredths(gradient(100*milli, 10*ms, time.Second)); got != 57.07 {
		t.Errorf("a very slow sample: %v, want 57.07", got)
	}
	if got := hundredths(gradient(100*milli, 10*ms, ms)); got != 214.14 {
		t.Errorf("a very fast sample: %v, want 214.14", got)
	}
}

func TestPolicies_V74(t *testing.T) {
	if got := hundredths(gradient2(100*milli, 20*ms, 40*ms)); got != 95.8 {
		t.Errorf("got %v, want 95.8", got)
	}
	if got := hundredths(gradient2(100*milli, 20*ms, 20*ms)); got != 100.8 {
		t.Errorf("at the average: %v, want 100.8 (no more than the queue, smoothed)", got)
	}
}

func TestPolicies_V75(t *testing.T) {
	tests := []struct {
		sample time.Duration
		want   float64
	}{
		{12500 * time.Microsecond, 98}, // queue 20 is over beta, which is 12
		{10 * ms, 102},                 // no queue
		{10900 * time.Microsecond, 100},
	}
	for _, tt := range tests {
		if got := hundredths(vegas(100*milli, 10*ms, tt.sample)); got != tt.want {
			t.Errorf("sample %v: %v, want %v", tt.sample, got, tt.want)
		}
	}
}

func TestIntegerArithmetic(t *testing.T) {
	for _, v := range []int64{0, 1, 2, 3, 4, 8, 9, 99, 100, 50_000_000, 1e12, 1<<62 - 1} {
		if r := root(v); r*r > v || (r+1)*(r+1) <= v {
			t.Errorf("root(%d) = %d", v, r)
		}
	}
	for limit := int64(1); limit < 1_000_000; limit = limit*11/10 + 1 {
		want := int64(math.Round(max(math.Log10(float64(limit)), 1) * milli))
		if got := log10(limit * milli); got < want-1 || got > want+1 {
			t.Errorf("log10(%d) = %d thousandths, want %d", limit, got, want)
		}
	}
	for _, exact := range []int64{10, 100, 1000, 100_000} {
		if got, want := log10(exact*milli), int64(math.Round(math.Log10(float64(exact))))*milli; got != want {
			t.Errorf("log10(%d) = %d, want %d", exact, got, want)
		}
	}
	if got := mulDiv(1<<62, 1<<62, 1); got != 1<<63-1 {
		t.Errorf("mulDiv beyond int64 = %d", got)
	}
}

// The median of a window is right to a sixteenth, from nanoseconds to minutes.
func TestWindow(t *testing.T) {
	for d := time.Duration(16); d < 2*time.Minute; d += d / 7 {
		if got := middle(bin(d)); got < d-d/16 || got > d+d/16 {
			t.Errorf("%v stands as %v", d, got)
		}
	}
	var w window
	for i := range 99 {
		w.add(time.Duration(i+1) * ms)
	}
	w.add(time.Hour)
	if n, median := w.take(); n != 100 || median < 47*ms || median > 54*ms {
		t.Errorf("%d of a median of %v, want 100 of 50 ms", n, median)
	}
	if n, median := w.take(); n != 0 || median != 0 {
		t.Errorf("taken, it has %d of %v", n, median)
	}
}

// Whatever is measured, a step stays finite and moves no more than twofold and its
// root upwards, and no more than to a half downwards.
func FuzzSteps(f *testing.F) {
	f.Add(int64(100), int64(10_000_000), int64(25_000_000))
	f.Add(int64(1), int64(0), int64(0))
	f.Add(int64(1_000_000), int64(1), int64(68_000_000_000))
	f.Fuzz(func(t *testing.T, limit, least, sample int64) {
		limit = 1 + abs(limit)%1_000_000
		a, b := time.Duration(abs(least)%int64(2*time.Minute)), time.Duration(abs(sample)%int64(2*time.Minute))
		from := limit * milli
		for name, got := range map[string]int64{"gradient": gradient(from, a, b), "gradient2": gradient2(from, a, b), "vegas": vegas(from, a, b)} {
			if got < from/2-milli-10*milli || got > 2*from+root(2*from*milli)+milli {
				t.Errorf("%s(%d, %v, %v) = %d", name, from, a, b, got)
			}
		}
	})
}

func abs(v int64) int64 {
	if v < 0 {
		return -(v + 1)
	}
	return v
}
