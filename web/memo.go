package web

import (
	"errors"
	"sync"
	"time"
)

// memo keeps for a while what takes long to look up and is the same for every
// reader: open pages ask again every second, and a month of minutes need not be
// added up each time. Who asks while another one looks the same up waits for that.
type memo[T any] struct {
	keep time.Duration
	most int

	mu      sync.Mutex
	kept    map[string]memory[T]
	looking map[string]*looking[T]
}

// errLooking is what a look that panicked ends with.
var errLooking = errors.New("nothing was found")

// looking is under way; value and err hold once done is closed.
type looking[T any] struct {
	done  chan struct{}
	value T
	at    time.Time
	err   error
}

type memory[T any] struct {
	at    time.Time
	value T
}

// get returns what was found at most keep ago, and when. Errors are not kept, and not
// shared: the one who looked may have left.
func (m *memo[T]) get(key string, now time.Time, find func() (T, error)) (T, time.Time, error) {
	for {
		m.mu.Lock()
		if have, ok := m.kept[key]; ok && now.Sub(have.at) < m.keep && !now.Before(have.at) {
			m.mu.Unlock()
			return have.value, have.at, nil
		}
		other, ok := m.looking[key]
		if !ok {
			break
		}
		m.mu.Unlock()
		<-other.done
		if other.err == nil {
			return other.value, other.at, nil
		}
	}
	mine := &looking[T]{done: make(chan struct{}), at: now, err: errLooking}
	if m.looking == nil {
		m.looking = map[string]*looking[T]{}
	}
	m.looking[key] = mine
	m.mu.Unlock()
	defer func() { // in a panic, too, others must not wait for ever
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.looking, key)
		if mine.err == nil {
			if m.kept == nil || len(m.kept) >= m.most {
				m.kept = map[string]memory[T]{} // rarely, and then each is looked up once more
			}
			m.kept[key] = memory[T]{now, mine.value}
		}
		close(mine.done)
	}()
	mine.value, mine.err = find()
	return mine.value, now, mine.err
}
