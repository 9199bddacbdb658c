package fallback

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/exchange"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// kept makes an entry of size bytes for key, good for a minute from at.
func kept(s *Store, key string, at time.Time, size int, vary ...exchange.Field) *entry {
	c := capture{store: s, entry: &entry{key: key, vary: vary, asked: s.at(at), got: s.at(at), until: s.at(at) + int64(time.Minute)},
		body: nothing{}, length: -1, ended: true, read: make([]byte, size)}
	return c.done()
}

type nothing struct{}

func (nothing) Read([]byte) (int, error) { return 0, nil }
func (nothing) Close() error             { return nil }

// Memory is bounded by bytes and by entries, whatever comes.
func TestBounds(t *testing.T) {
	s := NewStore(Keep{MaxSize: 1 << 20, MaxEntries: 160}, epoch)
	for i := range 5000 {
		s.put(kept(s, fmt.Sprint("key-", i), epoch, i%9000))
		if got := s.Stats(); got.Bytes > 1<<20 || got.Entries > 160 {
			t.Fatalf("after %d: %+v", i, got)
		}
	}
	if got := s.Stats(); got.Entries < 40 || got.Evicted < 4000 {
		t.Errorf("%+v", got)
	}
	s.put(kept(s, "huge", epoch, 1<<20))
	if s.find([]byte("huge"), head(), epoch) != nil {
		t.Error("what is larger than its part of the memory is kept")
	}
	s.Reconfigure(Keep{MaxSize: 1 << 14, MaxEntries: 16})
	if got := s.Stats(); got.Bytes > 1<<14 || got.Entries > 16 {
		t.Errorf("smaller: %+v", got)
	}
}

// Values without end of a field that the answer depends on fill eight places.
func TestVariants(t *testing.T) {
	s := NewStore(Keep{}, epoch)
	for i := range 1000 {
		s.put(kept(s, "key", epoch.Add(time.Duration(i)*time.Millisecond), 10, exchange.Field{Name: "accept", Value: fmt.Sprint(",", i)}))
	}
	if got := s.Stats(); got.Entries != variants {
		t.Errorf("%d variants are kept, want %d", got.Entries, variants)
	}
	for i, want := range map[int]bool{999: true, 992: true, 991: false, 0: false} {
		if got := s.find([]byte("key"), head(fmt.Sprint("Accept: ", i)), epoch.Add(2*time.Second)) != nil; got != want {
			t.Errorf("variant %d is there: %v", i, got)
		}
	}
}

// An answer to a later request is not replaced by one to an earlier request that
// took longer.
func TestOvertaken(t *testing.T) {
	s := NewStore(Keep{}, epoch)
	s.put(kept(s, "key", epoch.Add(2*time.Second), 20))
	s.put(kept(s, "key", epoch.Add(time.Second), 10))
	if e := s.find([]byte("key"), head(), epoch.Add(3*time.Second)); e == nil || len(e.body) != 20 {
		t.Error("the older one has taken its place")
	}
}

// Bodies on their way are bounded too.
func TestCapturing(t *testing.T) {
	k := Keep{MaxBody: 1 << 10, MaxSize: 1 << 20}.filled()
	s := NewStore(k, epoch)
	n := 0
	for s.capture(&k, -1) != nil {
		if n++; n > 1000 {
			t.Fatal("there is no end")
		}
	}
	if n != 256 {
		t.Errorf("%d bodies of 1 KiB under way, want a quarter of 1 MiB", n)
	}
}

// slow is the obvious store: a list, the most recently used first, for one shard.
type slow struct {
	list             []*entry
	maxBytes, maxEnt int64
}

func (m *slow) find(key string, req *exchange.Head, at int64) *entry {
	var best *entry
	where := 0
	for i, e := range m.list {
		if e.key == key && sameVary(e.vary, req) {
			best, where = e, i
		}
	}
	if best == nil || at >= best.until {
		return nil
	}
	m.list = append([]*entry{best}, append(m.list[:where:where], m.list[where+1:]...)...)
	return best
}

func (m *slow) put(e *entry) {
	if e.size > m.maxBytes {
		return
	}
	for i, old := range m.list {
		if old.key == e.key && same(old.vary, e.vary) {
			m.list = append(m.list[:i:i], m.list[i+1:]...)
			break
		}
	}
	m.list = append([]*entry{e}, m.list...)
	for {
		bytes := int64(0)
		for _, e := range m.list {
			bytes += e.size
		}
		if bytes <= m.maxBytes && int64(len(m.list)) <= m.maxEnt {
			return
		}
		m.list = m.list[:len(m.list)-1]
	}
}

// Random operations give what the slow, obvious store gives.
func TestStoreModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	k := Keep{MaxSize: 16 * 8000, MaxEntries: 16 * 9}
	s := NewStore(k, epoch)
	models := map[*shard]*slow{}
	at := epoch
	steps := 50_000
	if testing.Short() {
		steps = 10_000
	}
	for i := range steps {
		at = at.Add(time.Duration(rnd.IntN(2000)) * time.Millisecond)
		key, value := fmt.Sprint("key-", rnd.IntN(200)), fmt.Sprint(rnd.IntN(3))
		sh := s.shard([]byte(key))
		if models[sh] == nil {
			models[sh] = &slow{maxBytes: 8000, maxEnt: 9}
		}
		m := models[sh]
		if rnd.IntN(2) == 0 {
			e := kept(s, key, at, rnd.IntN(4000), exchange.Field{Name: "a", Value: "," + value})
			s.put(e)
			m.put(e)
		} else if got, want := s.find([]byte(key), head("A: "+value), at), m.find(key, head("A: "+value), s.at(at)); got != want {
			t.Fatalf("step %d: %p, want %p", i, got, want)
		}
	}
	bytes, entries := int64(0), int64(0)
	for _, m := range models {
		for _, e := range m.list {
			bytes += e.size
			entries++
		}
	}
	if got := s.Stats(); got.Bytes != bytes || got.Entries != entries {
		t.Errorf("%+v, want %d bytes in %d entries", got, bytes, entries)
	}
}

func TestStoreFromManySides(t *testing.T) {
	s := NewStore(Keep{MaxSize: 1 << 18, MaxEntries: 100}, epoch)
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 3000 {
				key, at := fmt.Sprint("key-", i%150), epoch.Add(time.Duration(i)*time.Millisecond)
				switch (i + g) % 4 {
				case 0:
					s.put(kept(s, key, at, 500))
				case 1:
					s.forget(uint64(i%3), at)
				case 2:
					s.due([]byte(key), head(), at)
				default:
					if e := s.find([]byte(key), head(), at); e != nil && len(e.body) != 500 {
						t.Error("a torn entry")
					}
				}
			}
		})
	}
	group.Wait()
	if got := s.Stats(); got.Bytes > 1<<18 || got.Entries > 112 {
		t.Errorf("%+v", got)
	}
}
