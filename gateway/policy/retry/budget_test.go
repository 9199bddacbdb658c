package retry

import (
	"sync"
	"testing"
	"time"
)

func at(d time.Duration) time.Time { return time.Unix(1_700_000_000, 0).Add(d) }

func budget(milli, min int64, sum bool) *Budget {
	return NewBudget(BudgetConfig{RatioMilli: milli, MinPerSec: min, TTL: 10 * time.Second, Sum: sum})
}

// spend withdraws until refused, at most n times.
func spend(b *Budget, now time.Time, n int) (got int) {
	for got < n && b.Withdraw(now) {
		got++
	}
	return got
}

func deposit(b *Budget, now time.Time, n int) {
	for range n {
		b.Deposit(now)
	}
}

func TestPolicies_V30(t *testing.T) {
	for _, tt := range []struct {
		sum  bool
		want int
	}{{false, 100}, {true, 101}} {
		b := budget(200, 10, tt.sum)
		got := 0
		for range 101 {
			b.Deposit(at(0))
		}
		for range 101 {
			if b.Withdraw(at(0)) {
				got++
			}
		}
		if got != tt.want {
			t.Errorf("sum %v: %d retries, want %d", tt.sum, got, tt.want)
		}
	}
}

func TestPolicies_BudgetTable(t *testing.T) {
	for _, tt := range []struct{ deposits, sum, max int }{
		{0, 100, 100}, {20, 104, 100}, {200, 140, 100}, {500, 200, 100}, {1000, 300, 200}, {10000, 2100, 2000},
	} {
		for _, sum := range []bool{true, false} {
			b := budget(200, 10, sum)
			deposit(b, at(0), tt.deposits)
			want := tt.max
			if sum {
				want = tt.sum
			}
			if got := spend(b, at(0), 1<<20); got != want {
				t.Errorf("%d deposits, sum %v: %d retries, want %d", tt.deposits, sum, got, want)
			}
		}
	}
}

// V-31: 1000 requests a second, all of which want three retries.
func TestPolicies_V31(t *testing.T) {
	for _, tt := range []struct {
		sum         bool
		slots, slid float64
	}{{false, .20, .22}, {true, .21, .24}} {
		b := budget(200, 10, tt.sum)
		const seconds = 60
		var sent [seconds * 1000]int
		for i := range sent {
			now := at(time.Duration(i) * time.Millisecond)
			b.Deposit(now)
			sent[i] = spend(b, now, 3)
		}
		share := func(from int) float64 {
			n := 0
			for _, s := range sent[from : from+10_000] {
				n += s
			}
			return float64(n) / 10_000
		}
		// The first ten seconds live on the floor while deposits build up.
		for from := 10_000; from+10_000 <= len(sent); from += 100 {
			most := tt.slid
			if from%1000 == 0 {
				most = tt.slots
			}
			if got := share(from); got > most {
				t.Fatalf("sum %v: from %d ms on %.4f extra, want at most %.2f", tt.sum, from, got, most)
			}
		}
	}
}

func TestPolicies_V32(t *testing.T) {
	b := budget(200, 10, false)
	deposit(b, at(0), 1000)
	if got := b.Left(at(9900 * ms)); got != 200 {
		t.Errorf("at 9.9 s %d, want 200", got)
	}
	if got := b.Left(at(11 * time.Second)); got != 100 {
		t.Errorf("at 11 s %d, want 100", got)
	}
}

func TestPolicies_V33(t *testing.T) {
	for _, tt := range []struct {
		milli          int64
		deposits, want int
	}{{900, 10, 9}, {300, 100, 30}, {600, 10, 6}} {
		b := budget(tt.milli, 0, false)
		deposit(b, at(0), tt.deposits)
		if got := spend(b, at(0), 1000); got != tt.want {
			t.Errorf("ratio %d/1000 of %d gives %d, want %d", tt.milli, tt.deposits, got, tt.want)
		}
	}
}

func TestPolicies_V34(t *testing.T) {
	b := budget(0, 0, false)
	deposit(b, at(0), 1000)
	if b.Withdraw(at(0)) {
		t.Error("a budget of nothing gave a retry")
	}
}

// V-35: calls 1.9 slots apart age the slots by the clock, not by one each.
func TestPolicies_V35(t *testing.T) {
	b := budget(200, 0, false)
	deposit(b, at(0), 1000)
	for i := 1; i <= 1000; i++ {
		now := at(time.Duration(i) * 1900 * ms)
		want := int64(200)
		if i*1900 >= 10_000 {
			want = 0
		}
		if got := b.Left(now); got != want {
			t.Fatalf("after %v %d left, want %d", now.Sub(at(0)), got, want)
		}
	}
}

// Slots begin with the wall clock's, whenever the first call comes.
func TestSlotsLieOnTheWallClock(t *testing.T) {
	b := budget(1000, 0, false)
	deposit(b, at(999*ms), 5)
	if got := b.Left(at(9999 * ms)); got != 5 {
		t.Errorf("within ten seconds %d left, want 5", got)
	}
	if got := b.Left(at(10_000 * ms)); got != 0 {
		t.Errorf("%d left of a slot that is over, want 0", got)
	}
}

// A clock reading that overtook another must neither age nor revive anything.
func TestBudgetTakesTimesOutOfOrder(t *testing.T) {
	b := budget(1000, 0, false)
	for i := range 1000 {
		b.Deposit(at(time.Duration(i%2) * 5 * time.Second))
	}
	if got := b.Left(at(5 * time.Second)); got != 1000 {
		t.Errorf("%d left, want 1000", got)
	}
}

// Deposits from all sides, over the edges of slots, are all counted.
func TestBudgetCountsEveryDeposit(t *testing.T) {
	b := budget(1000, 0, false)
	var group sync.WaitGroup
	const workers, each = 8, 5000
	for range workers {
		group.Go(func() {
			for i := range each {
				b.Deposit(at(time.Duration(i) * ms)) // five of ten slots
			}
		})
	}
	group.Wait()
	if got := b.Left(at(5 * time.Second)); got != workers*each {
		t.Errorf("%d left, want %d", got, workers*each)
	}
}

func BenchmarkDeposit(b *testing.B) {
	bud, now := NewBudget(DefaultBudget()), time.Now()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			bud.Deposit(now)
		}
	})
}

func BenchmarkBudget(b *testing.B) {
	bud := NewBudget(DefaultBudget())
	b.ReportAllocs()
	for b.Loop() {
		now := time.Now()
		bud.Deposit(now)
		bud.Withdraw(now)
	}
}
