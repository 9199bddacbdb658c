package web

import (
	"fmt"
	"sync"
)

// together looks several things up at once, where each waits for the database. A panic
// of one is the page's, as if it had been looked up here.
func together(looks ...func()) {
	var wg sync.WaitGroup
	ended := make([]any, len(looks))
	for i, look := range looks {
		wg.Go(func() {
			defer func() { ended[i] = recover() }()
			look()
		})
	}
	wg.Wait()
	for _, p := range ended {
		if p != nil {
			panic(fmt.Sprint(p))
		}
	}
}
