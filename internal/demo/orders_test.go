package demo

import (
	"fmt"
	"sync"
	"testing"
)

func TestOrdersAreMadeOnceForAKey(t *testing.T) {
	var o orders
	var mu sync.Mutex
	made := 0
	var all sync.WaitGroup
	for i := range 400 {
		all.Go(func() {
			if o.first(fmt.Sprint("k", i%100)) {
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if made != 100 || o.again != 300 {
		t.Errorf("%d made and %d asked again, want 100 and 300", made, o.again)
	}
	for range 2 {
		if !o.first("") {
			t.Error("without a key each is an order of its own")
		}
	}
	for i := range keptKeys {
		o.first(fmt.Sprint("n", i))
	}
	if len(o.order) != keptKeys || len(o.known) != keptKeys {
		t.Errorf("%d keys are kept, at most %d", len(o.known), keptKeys)
	}
}
