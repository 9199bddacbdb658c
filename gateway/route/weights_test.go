package route_test

import (
	"errors"
	"strconv"
	"testing"

	"breakwater/gateway/route"
)

func weights(t testing.TB, ws ...int64) route.Weights {
	t.Helper()
	w, err := route.NewWeights(ws)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// R61: a weight of 0 is no traffic at all, not a little and not the default.
func TestPolicies_R61(t *testing.T) {
	for _, ws := range [][]int64{{100, 0}, {0, 100}, {0, 100, 0}} {
		w := weights(t, ws...)
		for i := range 100_000 {
			if got := w.Pick(route.Hash("r", strconv.Itoa(i))); ws[got] == 0 {
				t.Fatalf("weights %v: key %d went to branch %d", ws, i, got)
			}
		}
		for _, hash := range []uint64{0, 1, 1<<64 - 1} {
			if got := w.Pick(hash); ws[got] == 0 {
				t.Errorf("weights %v: hash %d went to branch %d", ws, hash, got)
			}
		}
	}
	if _, err := route.NewWeights([]int64{0, 0}); !errors.Is(err, route.ErrNoWeight) {
		t.Errorf("all 0: got %v, want %v", err, route.ErrNoWeight)
	}
}

func TestWeightsShare(t *testing.T) {
	const n = 100_000
	w := weights(t, 90, 9, 1)
	var seen [3]int
	for i := range n {
		seen[w.Pick(route.Hash("checkout", "caller-"+strconv.Itoa(i)))]++
	}
	for i, want := range []int{90_000, 9_000, 1_000} {
		if off := seen[i] - want; off > 400 || off < -400 {
			t.Errorf("branch %d got %d of %d, want about %d", i, seen[i], n, want)
		}
		if got := w.Share(i); got != int64(want)*10 {
			t.Errorf("share %d is %d ppm", i, got)
		}
	}
	if w.Heaviest() != 0 || weights(t, 1, 3, 3).Heaviest() != 1 {
		t.Error("the heaviest is the first of the largest")
	}
}

// A canary that grows keeps the callers it had, and another route's canary does
// not have the same ones.
func TestWeightsStick(t *testing.T) {
	small, large := weights(t, 95, 5), weights(t, 80, 20)
	both, one := 0, 0
	for i := range 10_000 {
		key := strconv.Itoa(i)
		before := small.Pick(route.Hash("a", key))
		if before == 1 && large.Pick(route.Hash("a", key)) != 1 {
			t.Fatalf("%s left the canary when it grew", key)
		}
		if before == 1 {
			one++
			if small.Pick(route.Hash("b", key)) == 1 {
				both++
			}
		}
	}
	if both > one/4 {
		t.Errorf("%d of %d canary callers of one route are those of another too", both, one)
	}
}

func BenchmarkPick(b *testing.B) {
	w := weights(b, 95, 5)
	b.ReportAllocs()
	for b.Loop() {
		w.Pick(route.Hash("order-get", "f3b1c9a0d2e4f6a8b0c1d2e3"))
	}
}
