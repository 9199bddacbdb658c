package fallback

import (
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// Store keeps the last good answers of one route, the least recently used go
// first. It outlives snapshots and is safe for concurrent use; requests for
// different things take different locks, and those that are neither kept nor
// answered from it take none.
type Store struct {
	base  time.Time
	seed  maphash.Seed    // of the shards
	seeds [2]maphash.Seed // of what must not be kept

	shards [shards]shard
	// forgotten is when a resource was last changed by a request, in ns after base
	// and by its hash. Two resources on one place cost an answer, never more.
	forgotten [4096]atomic.Int64

	maxSize   atomic.Int64
	capturing atomic.Int64 // bytes that bodies on their way may become
	hits      atomic.Int64
	misses    atomic.Int64
	evicted   atomic.Int64
}

const shards = 16

type shard struct {
	mu             sync.Mutex
	byKey          map[string]*entry
	recent         entry // head of a ring: recent.next was used last
	bytes, entries int64
	maxBytes       int64
	maxEntries     int64
}

// entry is one answer. It never changes once it is in the store, but for the
// fields that the shard's lock guards.
type entry struct {
	key      string
	resource uint64
	vary     []exchange.Field // request fields that it depends on; names in lower case
	head     []exchange.Field
	body     []byte // nil: an answer to HEAD
	length   int64
	asked    int64 // when its request came, in ns after the store's base
	got      int64 // when it came
	until    int64 // when it may be used no more
	age      time.Duration
	size     int64

	// Guarded by the shard's lock.
	watched    int64  // when a newer answer was last looked at
	other      *entry // the next variant under the same key
	prev, next *entry
}

// most variants under one key: an answer that depends on a field of endless
// values must not fill the store with itself.
const variants = 8

// refresh is how old an answer must be for a newer one to be copied.
const refresh = int64(time.Second)

// NewStore returns an empty store.
func NewStore(k Keep, now time.Time) *Store {
	s := &Store{base: now, seed: maphash.MakeSeed(), seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.byKey = map[string]*entry{}
		sh.recent.prev, sh.recent.next = &sh.recent, &sh.recent
	}
	s.Reconfigure(k)
	return s
}

// Reconfigure takes new bounds over.
func (s *Store) Reconfigure(k Keep) {
	k = k.filled()
	s.maxSize.Store(k.MaxSize)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.maxBytes, sh.maxEntries = k.MaxSize/shards, max(k.MaxEntries/shards, 1)
		s.evicted.Add(sh.shrink())
		sh.mu.Unlock()
	}
}

func (s *Store) at(t time.Time) int64 { return int64(t.Sub(s.base)) }

// age is how old an answer is at now.
func (s *Store) age(e *entry, now time.Time) time.Duration {
	return e.age + time.Duration(s.at(now)-e.got)
}

func (s *Store) shard(key []byte) *shard {
	return &s.shards[maphash.Bytes(s.seed, key)%shards]
}

// find returns the newest answer to a request that may be given at now, or nil.
func (s *Store) find(key []byte, req *exchange.Head, now time.Time) *entry {
	at := s.at(now)
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := sh.byKey[string(key)]; e != nil; e = e.other {
		if sameVary(e.vary, req) { // the newest comes first
			if at >= e.until || s.changed(e) {
				break
			}
			sh.unlink(e)
			sh.link(e)
			s.hits.Add(1)
			return e
		}
	}
	s.misses.Add(1)
	return nil
}

// due reports whether a new answer to a request is worth a copy, and that it is
// being made: for a moment the next ones are not.
func (s *Store) due(key []byte, req *exchange.Head, now time.Time) bool {
	at := s.at(now)
	sh := s.shard(key)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for e := sh.byKey[string(key)]; e != nil; e = e.other {
		if sameVary(e.vary, req) {
			if at-e.watched < refresh && !s.changed(e) {
				return false
			}
			e.watched = at
			return true
		}
	}
	return true
}

// forget notes that a resource was changed at now.
func (s *Store) forget(resource uint64, now time.Time) {
	s.forgotten[resource%uint64(len(s.forgotten))].Store(max(s.at(now), 1))
}

// changed reports whether the resource was changed since e was asked for.
func (s *Store) changed(e *entry) bool {
	at := s.forgotten[e.resource%uint64(len(s.forgotten))].Load()
	return at > 0 && e.asked <= at
}

// capture returns a copier for a body of length, or nil where too many are on
// their way.
func (s *Store) capture(k *Keep, length int64) *capture {
	want := length
	if length < 0 {
		want = k.MaxBody
	}
	if s.capturing.Add(want) > max(s.maxSize.Load()/4, k.MaxBody) {
		s.capturing.Add(-want)
		return nil
	}
	return &capture{store: s, max: k.MaxBody, reserved: want}
}

// put takes an answer in, in the place of an older one to the same.
func (s *Store) put(e *entry) {
	sh := s.shard([]byte(e.key))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if e.size > sh.maxBytes {
		return
	}
	n := 0
	for old := sh.byKey[e.key]; old != nil; {
		next := old.other
		if n++; same(old.vary, e.vary) || n >= variants {
			if old.asked > e.asked && same(old.vary, e.vary) {
				return // overtaken by a newer one
			}
			sh.remove(old)
		}
		old = next
	}
	e.watched = e.got
	e.other = sh.byKey[e.key]
	sh.byKey[e.key] = e
	sh.link(e)
	sh.bytes += e.size
	sh.entries++
	s.evicted.Add(sh.shrink())
}

func same(a, b []exchange.Field) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// shrink evicts until the bounds hold.
func (sh *shard) shrink() (n int64) {
	for sh.bytes > sh.maxBytes || sh.entries > sh.maxEntries {
		sh.remove(sh.recent.prev)
		n++
	}
	return n
}

func (sh *shard) link(e *entry) {
	e.prev, e.next = &sh.recent, sh.recent.next
	e.prev.next, e.next.prev = e, e
}

func (sh *shard) unlink(e *entry) {
	e.prev.next, e.next.prev = e.next, e.prev
	e.prev, e.next = nil, nil
}

func (sh *shard) remove(e *entry) {
	sh.unlink(e)
	sh.bytes -= e.size
	sh.entries--
	first := sh.byKey[e.key]
	if first == e {
		if e.other == nil {
			delete(sh.byKey, e.key)
		} else {
			sh.byKey[e.key] = e.other
		}
		return
	}
	for before := first; before != nil; before = before.other {
		if before.other == e {
			before.other = e.other
			return
		}
	}
}

// newEntry copies the head of an answer: its strings lie over memory that others
// use next.
func newEntry(key string, resource uint64, req *exchange.Head, res *exchange.Response) *entry {
	e := &entry{key: key, resource: resource, vary: varyOf(varyNames(&res.Head), req)}
	for _, f := range res.Head.Fields() {
		if ours(f.Name) {
			continue
		}
		e.head = append(e.head, exchange.Field{Name: strings.Clone(f.Name), Value: strings.Clone(f.Value)})
	}
	return e
}

// ours reports whether a field belongs to one exchange, and not to the answer.
func ours(name string) bool {
	for _, prefix := range []string{"X-Breakwater-", "X-Request-Id", "Retry-Count", "Retry-After", "Content-Length", "Age", "Server-Timing", "Traceparent", "Alt-Svc"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) && (prefix[len(prefix)-1] == '-' || len(name) == len(prefix)) {
			return true
		}
	}
	return false
}

// Stats is the state of a store, for people.
type Stats struct {
	Entries, Bytes, MaxBytes int64
	Hits, Misses, Evicted    int64 // since the start
}

// Stats returns the state and changes nothing.
func (s *Store) Stats() Stats {
	out := Stats{MaxBytes: s.maxSize.Load(), Hits: s.hits.Load(), Misses: s.misses.Load(), Evicted: s.evicted.Load()}
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		out.Entries += sh.entries
		out.Bytes += sh.bytes
		sh.mu.Unlock()
	}
	return out
}
