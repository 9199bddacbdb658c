package limiter

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func tenant(i int) KeyValue { return KeyValue{kind: ofTenant, text: fmt.Sprint("tenant-", i)} }

// A client that invents keys costs bounded memory, cannot make those with a bucket
// forget what they have used, and gets no more than the spare buckets give.
func TestInventedKeysAreBounded(t *testing.T) {
	l := New(Config{Rate: Rate{1, time.Minute, 2}, Key: Key{By: ByTenant}, MaxKeys: 1024}, epoch)
	l.Take(tenant(0), 2, at(0))
	passed := 0
	for i := 1; i < 100_000; i++ {
		if l.Take(tenant(i), 2, at(1)).OK {
			passed++
		}
	}
	s := l.Stats()
	if s.Keys > 1024 || s.Spilled < 90_000 {
		t.Errorf("%+v", s)
	}
	if most := 1024 + maxShards*spares; passed > most {
		t.Errorf("%d strangers passed, want at most %d", passed, most)
	}
	if l.Take(tenant(0), 1, at(2)).OK {
		t.Error("an empty bucket was forgotten under pressure")
	}
	// Two minutes later all are full again, and there is room.
	l.Tick(at(125_000))
	if s := l.Stats(); s.Keys != 0 {
		t.Errorf("%d buckets are kept that are full", s.Keys)
	}
	if v := l.Take(tenant(99_999), 2, at(125_000)); !v.OK || v.spilled {
		t.Errorf("got %+v", v)
	}
}

// A bucket is forgotten only when it is full: a slow one is not reborn full
// because nobody asked for a while.
func TestOnlyFullBucketsAreForgotten(t *testing.T) {
	l := New(Config{Rate: Rate{1, time.Minute, 10}, Key: Key{By: ByTenant}}, epoch)
	l.Take(tenant(1), 10, at(0))
	for m := int64(1); m <= 9; m++ {
		l.Tick(at(m * 60_000))
	}
	if v := l.Take(tenant(1), 10, at(9*60_000+59_999)); v.OK {
		t.Error("a bucket of nine tokens gave ten")
	}
	l.Tick(at(600_000))
	if s := l.Stats(); s.Keys != 0 {
		t.Errorf("%d keys, want none", s.Keys)
	}
}

// Room is found in a full table once a bucket in it is full.
func TestAFullBucketMakesRoom(t *testing.T) {
	l := New(Config{Rate: perSecond(10, 1), Key: Key{By: ByTenant}, MaxKeys: 64}, epoch)
	for i := range 64 {
		l.Take(tenant(i), 1, at(0))
	}
	if v := l.Take(tenant(100), 1, at(50)); !v.spilled {
		t.Error("there is room where there is none")
	}
	if v := l.Take(tenant(101), 1, at(100)); v.spilled {
		t.Error("no room though all are full")
	}
}

// All goroutines together get the burst, whatever reloads and refunds go on.
func TestParallelAdmitsExactly(t *testing.T) {
	for _, by := range []By{ByRoute, ByTenant} {
		cfg := Config{Rate: Rate{1, time.Hour, 50_000}, Key: Key{By: by}}
		l := New(cfg, epoch)
		k := KeyValue{kind: Key{By: by}.kind(), text: "t"}
		var passed atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for i := range 8000 {
					v := l.Take(k, 1, at(0))
					switch {
					case v.OK && i%7 == 0:
						l.Give(k, 1, v)
					case v.OK:
						passed.Add(1)
					}
				}
			})
		}
		end := make(chan struct{})
		var reloads sync.WaitGroup
		reloads.Go(func() {
			for i := int64(0); ; i++ {
				select {
				case <-end:
					return
				default:
				}
				next := cfg
				next.Rate.Per = time.Hour * time.Duration(1+i%2)
				l.Reconfigure(next, at(0))
			}
		})
		all.Wait()
		close(end)
		reloads.Wait()
		for l.Take(k, 1, at(0)).OK {
			passed.Add(1)
		}
		if n := passed.Load(); n != 50_000 {
			t.Errorf("by %s: %d passed, want 50,000", by, n)
		}
	}
}

func FuzzKeys(f *testing.F) {
	f.Add("t", "1.2.3.4", "9.9.9.9, 1.2.3.4", 0)
	f.Add("", "fe80::1%eth0", "x", 1)
	f.Add("invalid", "[::1]:80", ",,", 2)
	f.Add("a b\x00", "::ffff:1.2.3.4", "2001:db8::1", 3)
	l := New(Config{Rate: perSecond(1, 1), Key: Key{By: ByHeader, Header: "K"}}, epoch)
	f.Fuzz(func(t *testing.T, key, peer, forwarded string, kind int) {
		x := request(peer)
		x.Event.Tenant, x.Event.Caller = key, key
		x.Request.Head.Add("K", key)
		x.Request.Head.Add("X-Forwarded-For", forwarded)
		k := Key{By: []By{ByTenant, ByCaller, ByHeader, ByAddress}[uint(kind)%4], Header: "K"}
		for _, missing := range []Missing{PeerIP, Deny} {
			r := k.reader(missing, Deps{Route: "r", Trusted: trustsLocal})
			v, ok := r.of(x)
			if !ok {
				continue
			}
			if v.text == "" && !v.addr.IsValid() {
				t.Fatal("a key of nothing")
			}
			text := v.String()
			if len(text) > 80 {
				t.Fatalf("key %q is long", text)
			}
			for i := range len(text) {
				if text[i] <= ' ' || text[i] >= 0x7f {
					t.Fatalf("key %q is not plain", text)
				}
			}
			again, _ := r.of(x)
			if again.hash(l.seed) != v.hash(l.seed) || again.String() != text {
				t.Fatal("the same request has two keys")
			}
		}
	})
}

// A request that is overtaken by a reload takes of the new bucket, not of the old one
// that nobody counts any more.
func TestAReloadTakesTheBucketAway(t *testing.T) {
	b := newBucket(perSecond(10, 10).pace())
	old := b.now.Load()
	seen := old.tat.Load()
	b.retarget(perSecond(20, 10).pace(), 0)
	if old.tat.CompareAndSwap(seen, seen+1) {
		t.Error("a token was taken of a bucket that is gone")
	}
}
