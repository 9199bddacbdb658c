package web

import (
	"sync"
	"time"
)

// memo keeps for a while what takes long to look up and is the same for every
// reader: open pages ask again every second, and a month of minutes need not be
// added up each time.
type memo[T any] struct {
	keep time.Duration
	most int

	mu   sync.Mutex
	kept map[string]memory[T]
}

type memory[T any] struct {
	at    time.Time
	value T
}

// get returns what was found at most keep ago, and when. Errors are not kept.
func (m *memo[T]) get(key string, now time.Time, find func() (T, error)) (T, time.Time, error) {
	m.mu.Lock()
	have, ok := m.kept[key]
	m.mu.Unlock()
	if ok && now.Sub(have.at) < m.keep && !now.Before(have.at) {
		return have.value, have.at, nil
	}
	value, err := find()
	if err != nil {
		return value, now, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil || len(m.kept) >= m.most {
		m.kept = map[string]memory[T]{} // rarely, and then each is looked up once more
	}
	m.kept[key] = memory[T]{now, value}
	return value, now, nil
}
