package limiter

import (
	"sync"
	"time"
)

// table holds a bucket for each of many keys. A full bucket and none at all are
// the same thing, so only full ones are ever forgotten. Where a shard has no room
// left and no full bucket, as under a client that invents keys, a new key shares
// one of the shard's spare buckets, chosen by its hash: memory stays bounded,
// nobody who has a bucket loses it, and a stranger shares with few. The hash has
// a seed of this process, so nobody can choose whom to share with.
type table struct {
	shards []shard
	room   int // buckets in a shard
}

type shard struct {
	mu      sync.Mutex
	pace    pace
	tats    map[uint64]*int64
	spare   [spares]int64
	swept   int64
	spilled int64
	_       [64]byte // two shards in one line of cache would slow each other
}

const (
	maxShards = 64
	spares    = 64
	// sweepPause bounds how often a full shard is searched for room.
	sweepPause = int64(10 * time.Millisecond)
)

func newTable(p pace, maxKeys int) *table {
	n := 1
	for n < maxShards && maxKeys/(2*n) >= 64 {
		n *= 2
	}
	t := &table{shards: make([]shard, n), room: max(maxKeys/n, 1)}
	for i := range t.shards {
		t.shards[i].pace = p
		t.shards[i].tats = map[uint64]*int64{}
	}
	return t
}

func (t *table) shard(h uint64) *shard { return &t.shards[h%uint64(len(t.shards))] }

// find returns the tat of h, nil where it has none but could; own is false where
// it shares a spare bucket. To be called with the lock held.
func (s *shard) find(h uint64, room int, now int64) (tat *int64, own bool) {
	if tat = s.tats[h]; tat != nil {
		return tat, true
	}
	if len(s.tats) >= room && now-s.swept >= sweepPause {
		s.swept = now
		s.sweep(now)
	}
	if len(s.tats) < room {
		return nil, true
	}
	return s.shared(h), false
}

func (s *shard) shared(h uint64) *int64 { return &s.spare[h>>32%spares] }

// sweep forgets full buckets.
func (s *shard) sweep(now int64) {
	for h, tat := range s.tats {
		if *tat <= now {
			delete(s.tats, h)
		}
	}
}

func (s *shard) put(h uint64, tat int64) {
	own := new(int64)
	*own = tat
	s.tats[h] = own
}

func (t *table) take(h uint64, cost, now int64) Verdict {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	tat, own := s.find(h, t.room, now)
	was := now
	if tat != nil {
		was = *tat
	}
	v, next := s.pace.take(was, now, cost)
	switch {
	case !v.OK:
	case tat != nil:
		*tat = next
	default:
		s.put(h, next)
	}
	if !own {
		s.spilled++
	}
	v.spilled = !own
	return v
}

func (t *table) give(h uint64, cost int64, v Verdict) {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	tat := s.tats[h] // nil: full again, and forgotten
	if v.spilled {
		tat = s.shared(h)
	}
	if tat != nil {
		*tat -= cost * s.pace.each
	}
}

func (t *table) spend(h uint64, cost, now int64) {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tat, _ := s.find(h, t.room, now); tat != nil {
		*tat = s.pace.spend(*tat, now, cost)
	} else {
		s.put(h, s.pace.spend(now, now, cost))
	}
}

func (t *table) spent(h uint64, now int64) int64 {
	s := t.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if tat := s.tats[h]; tat != nil {
		return s.pace.spent(*tat, now)
	}
	return 0
}

func (t *table) retarget(p pace, now int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if was := s.pace; was != p {
			for _, tat := range s.tats {
				*tat = was.carry(p, *tat, now)
			}
			for j, tat := range s.spare {
				s.spare[j] = was.carry(p, tat, now)
			}
			s.pace = p
		}
		s.mu.Unlock()
	}
}

func (t *table) tick(now int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.sweep(now)
		s.mu.Unlock()
	}
}

func (t *table) stats() (keys, spilled int64) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		keys += int64(len(s.tats))
		spilled += s.spilled
		s.mu.Unlock()
	}
	return keys, spilled
}
