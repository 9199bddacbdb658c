package fault

import (
	"testing"
	"testing/synctest"
	"time"
)

// A service that stalls for 4 s of every 30 s: the fault comes and goes by the wall
// clock, and is counted only while it is there.
func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late, tab := NewTable(Caps{}), (*Table)(nil)
		time.Sleep(7 * time.Second)
		tab = NewTable(Caps{}) // another gateway, started later
		stall := errorFault(1_000_000, func(f *Fault) { f.EveryMS, f.ForMS = 30_000, 4000 })
		hits, quiet := 0, errorFault(1_000_000, func(f *Fault) { f.ID, f.EveryMS, f.ForMS = "two", 30_000, 2000 })
		for second := range 120 {
			arm(t, tab, stall, quiet)
			arm(t, late, stall, quiet)
			want := time.Now().UnixMilli()%30_000 < 4000
			for _, at := range []*Table{tab, late} {
				x := try(time.Now().Format(time.RFC3339Nano))
				if err := Layer(at, Site{Service: "points", Route: "r"})(good).Serve(x); err != nil {
					t.Fatal(err)
				}
				if hit := x.Response.Status == 503; hit != want {
					t.Fatalf("second %d of the clock, %d ms into a turn: hit %v, want %v", second, time.Now().UnixMilli()%30_000, hit, want)
				}
			}
			if want {
				hits++
			}
			time.Sleep(time.Second)
		}
		if hits != 16 {
			t.Fatalf("%d seconds of 120 were stalls, want 16", hits)
		}
		for _, at := range []*Table{tab, late} {
			got := at.Tallies()
			if len(got) != 1 || got[0].Attempts != 16 || got[0].Injected != 16 {
				t.Errorf("counted %+v, want 16 tries while it was there, all hit", got)
			}
		}
	})
	for _, p := range [][2]int64{{1000, 0}, {0, 1000}, {1000, 1000}, {1000, 2000}, {-1, 1}, {90_000_000, 1}} {
		f := errorFault(1, func(f *Fault) { f.EveryMS, f.ForMS = p[0], p[1] })
		if Check(f) == nil {
			t.Errorf("%d ms of every %d ms is taken", p[1], p[0])
		}
	}
}
