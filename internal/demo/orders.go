package demo

import "sync"

// keyHeader names one wish: whoever asks again with the same key asks for nothing new.
const keyHeader = "Idempotency-Key"

// keptKeys bounds what the order service remembers; an older key would be a new order.
const keptKeys = 100_000

// orders are the keys under which orders were made. Both instances of the service
// share them, as they would share a database.
type orders struct {
	mu    sync.Mutex
	known map[string]bool
	order []string // in which they came
	again int64
}

// first reports whether an order is made under key, or was made before.
func (o *orders) first(key string) bool {
	if key == "" {
		return true
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.known[key] {
		o.again++
		return false
	}
	if o.known == nil {
		o.known = map[string]bool{}
	}
	if len(o.order) >= keptKeys {
		delete(o.known, o.order[0])
		o.order = o.order[1:]
	}
	o.known[key], o.order = true, append(o.order, key)
	return true
}

// Orders tells how many orders were made under a key, and how often one was asked for
// again and not made twice.
func (s *Shop) Orders() (made, again int64) {
	s.orders.mu.Lock()
	defer s.orders.mu.Unlock()
	return int64(len(s.orders.order)), s.orders.again
}
