package auth

import (
	"sync"
	"time"
)

// throttle lets each key through burst times at once and once a pause after that.
// It keeps one instant a key: when the key would be as good as new.
type throttle struct {
	burst int64
	pause time.Duration

	mu    sync.Mutex
	full  map[string]time.Time
	swept time.Time // when keys that are as good as new were last dropped
}

// throttleKeys bounds the memory; whoever makes more keys shares one with the rest.
const throttleKeys = 10_000

func newThrottle(burst int64, pause time.Duration) *throttle {
	return &throttle{burst: burst, pause: pause, full: map[string]time.Time{}}
}

// take counts a try; where it may not be made, wait says when the next one may.
func (t *throttle) take(key string, now time.Time) (ok bool, wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key = t.place(key, now)
	at := t.full[key]
	if at.Before(now) {
		at = now
	}
	if wait := at.Sub(now) - time.Duration(t.burst-1)*t.pause; wait > 0 {
		return false, wait
	}
	t.full[key] = at.Add(t.pause)
	return true, 0
}

// back returns what take counted: the try was a good one.
func (t *throttle) back(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, there := t.full[key]; !there {
		key = ""
	}
	if at, there := t.full[key]; there {
		t.full[key] = at.Add(-t.pause)
	}
}

// place is where a key is counted. Called with mu held.
func (t *throttle) place(key string, now time.Time) string {
	if _, there := t.full[key]; there || len(t.full) < throttleKeys {
		return key
	}
	// Looking through all keys for each new one would be the flood's best ally.
	if now.Sub(t.swept) >= t.pause {
		t.swept = now
		for k, at := range t.full {
			if !at.After(now) {
				delete(t.full, k)
			}
		}
	}
	if len(t.full) < throttleKeys {
		return key
	}
	return ""
}
