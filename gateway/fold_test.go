package gateway

import (
	"testing"

	"breakwater/internal/histogram"
)

func TestAlikeLatenciesAreOfOneBinAndOnOneSideOfEveryLimit(t *testing.T) {
	type group struct {
		bin  int
		over int64 // the least limit in whole milliseconds that holds it
	}
	seen, ids := map[int64]group{}, map[group]int64{}
	for us := int64(0); us < 400_000_000; us += 1 + us/997 {
		g := group{histogram.Index(us), (us + 999) / 1000}
		id := alike(us)
		if was, ok := seen[id]; ok && was != g || id == 0 {
			t.Fatalf("%d us: %+v and %+v are both %d", us, was, g, id)
		}
		if was, ok := ids[g]; ok && was != id {
			t.Fatalf("%d us: %+v is %d and %d", us, g, was, id)
		}
		seen[id], ids[g] = g, id
	}
}
