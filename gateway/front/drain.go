package front

import (
	"context"
	"sync"
)

// group are those that net/http does not know of, and who is still at work.
type group struct {
	mu     sync.Mutex
	open   map[member]bool
	closed bool
	empty  chan struct{} // closed by the last one, once somebody waits
}

// member ends at once, from another goroutine, when it is cut.
type member interface{ cut() }

// add reports false where m comes too late.
func (g *group) add(m member) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == nil {
		g.open = map[member]bool{}
	}
	g.open[m] = true
	return !g.closed
}

func (g *group) remove(m member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, m)
	if len(g.open) == 0 && g.empty != nil {
		close(g.empty)
		g.empty = nil
	}
}

func (g *group) each(do func(member)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for m := range g.open {
		do(m)
	}
}

// wait returns when all have ended, and cuts those that are left when ctx ends.
func (g *group) wait(ctx context.Context) {
	for {
		g.mu.Lock()
		if len(g.open) == 0 {
			g.closed = g.closed || ctx.Err() != nil
			g.mu.Unlock()
			return
		}
		if g.empty == nil {
			g.empty = make(chan struct{})
		}
		empty := g.empty
		g.closed = g.closed || ctx.Err() != nil
		if g.closed {
			for m := range g.open {
				m.cut()
			}
		}
		g.mu.Unlock()
		if ctx.Err() != nil {
			<-empty // what was cut is on its way out
			continue
		}
		select {
		case <-empty:
		case <-ctx.Done():
		}
	}
}

// Drain waits for the tunnels and for the requests of the fast face to end, and cuts
// those that are left when ctx ends.
func (f *Front) Drain(ctx context.Context) {
	f.tunnels.wait(ctx)
	f.quick.wait(ctx)
}
