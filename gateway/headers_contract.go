package gateway

import (
	"slices"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/contract"
	"breakwater/gateway/exchange"
)

// contracts are the watches over what upstreams have agreed, by upstream. They
// outlive snapshots for as long as the contract says the same.
type contracts struct {
	mu   sync.Mutex
	of   map[string]*contract.Watch // of what serves
	next *terms                     // of the snapshot that is being built
}

func newContracts() *contracts {
	return &contracts{of: map[string]*contract.Watch{}, next: &terms{}}
}

// terms are the contracts of one snapshot. An answer that fits one is marked in
// its try's entry with the number of its term, so that what was made of it can be
// held against that once the request is through.
type terms struct {
	watches map[string]*contract.Watch
	base    map[string]int32
	list    []term
}

type term struct {
	watch  *contract.Watch
	answer int
}

// begin starts a snapshot with these contracts. One build at a time calls it.
func (c *contracts) begin(list []contract.Resilience) {
	c.mu.Lock()
	defer c.mu.Unlock()
	t := &terms{watches: map[string]*contract.Watch{}, base: map[string]int32{}}
	for _, r := range list {
		w := c.of[r.Upstream]
		if w == nil || !same(w.Contract(), r) {
			w = contract.NewWatch(r)
		}
		t.watches[r.Upstream], t.base[r.Upstream] = w, int32(len(t.list))
		for i := range r.Answers {
			t.list = append(t.list, term{w, i})
		}
	}
	c.next = t
}

// terms are those of the snapshot that is being built.
func (c *contracts) terms() *terms {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.next
}

// applied makes what was built last what serves.
func (c *contracts) applied() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.of = c.next.watches
}

func same(a, b contract.Resilience) bool {
	return a.Name == b.Name && a.Upstream == b.Upstream && slices.Equal(a.Answers, b.Answers)
}

// stats are the watches by upstream, for /stats.
func (c *contracts) stats() map[string]contract.Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := map[string]contract.Stats{}
	for name, w := range c.of {
		out[name] = w.Stats()
	}
	return out
}

// head is the head of an answer as contracts ask for it.
type head exchange.Head

// Holds implements contract.Head. Any of several fields of a name may have the value.
func (h *head) Holds(name, value string) bool {
	fields := (*exchange.Head)(h).Fields()
	for i := range fields {
		f := &fields[i]
		if len(f.Name) == len(name) && (value == "" || f.Value == value) && strings.EqualFold(f.Name, name) {
			return true
		}
	}
	return false
}

// answers looks at what comes from the wire. It stands under the faults: what a
// drill makes up was never agreed with anybody.
func (t *terms) answers(upstream, route string) exchange.Layer {
	upstream, _, _ = strings.Cut(upstream, "/") // a subset has agreed to what the whole has
	w, base := t.watches[upstream], t.base[upstream]
	return func(next exchange.Service) exchange.Service {
		if w == nil {
			return next
		}
		return exchange.Func(func(x *exchange.Exchange) error {
			err := next.Serve(x)
			if err != nil {
				return err
			}
			i := w.Answer(x.Response.Judged(), (*head)(&x.Response.Head), route, time.Now)
			if try := x.Try(); try != nil && i != contract.Unlisted {
				try.Agreed = base + int32(i) + 1
			}
			return nil
		})
	}
}

// reactions holds what became of each try against what was agreed. It stands
// outside all that retries or answers in the upstream's place.
func (t *terms) reactions(route string) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if len(t.list) == 0 {
			return next
		}
		return exchange.Func(func(x *exchange.Exchange) error {
			err := next.Serve(x)
			for i := range x.Event.Tries {
				if n := int(x.Event.Tries[i].Agreed); n > 0 && n <= len(t.list) {
					a := t.list[n-1]
					a.watch.Reacted(a.answer, contract.React(&x.Event, i), route, time.Now)
				}
			}
			return err
		})
	}
}
