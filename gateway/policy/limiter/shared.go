package limiter

import (
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Ask is what a gateway wants of a quota.
type Ask struct {
	Key string
	// Need are the tokens without which nothing is taken, Want those that are taken
	// if they are there. Both are at least 1.
	Need, Want int64
	// Owed are tokens that were given out while the store was away; as many as there
	// are go first.
	Owed int64
	Wait time.Duration // the longest that anybody may wait for the answer
}

// Grant is what a quota gives: Got is 0 or at least Need.
type Grant struct {
	Got   int64
	Retry time.Duration // where Got is 0: when Need tokens will be there
	// Waited is how long the caller was held, with an error too.
	Waited time.Duration
}

// Quota is a store of tokens that several gateways share.
type Quota interface{ Take(a Ask) (Grant, error) }

// Errors of a Quota. Any other is a call that failed.
var (
	// ErrBusy: the store is slow, and somebody else waits for it already.
	ErrBusy = errors.New("quota store is slow")
	// ErrAway: calls have failed one after another, and none is made for a while.
	ErrAway = errors.New("quota store is away")
)

// OnStoreError says what rules while the store does not answer.
type OnStoreError string

// The choices.
const (
	LocalShare OnStoreError = "local_share" // the rate divided by the number of gateways
	Open       OnStoreError = "open"        // no limit
	Closed     OnStoreError = "closed"      // nothing passes
)

// QuotaConfig is a rate that several gateways share.
type QuotaConfig struct {
	Name    string       `json:"name"`
	Rate    Rate         `json:"rate"`
	Key     Key          `json:"key"`
	Missing Missing      `json:"missing_key,omitempty"`
	OnError OnStoreError `json:"on_store_error"`
	// Replicas is how many gateways share it, for the local share.
	Replicas int64 `json:"replicas"`
	MaxKeys  int   `json:"max_keys,omitempty"` // 0: 65536
}

// share is what this gateway may give out by itself.
func (c QuotaConfig) share() Rate {
	n := max(c.Replicas, 1)
	return Rate{Tokens: c.Rate.Tokens, Per: c.Rate.Per * time.Duration(n), Burst: max((c.Rate.Burst+n-1)/n, 1)}
}

// MaxWait is the longest that a request waits for a quota store: half of what it
// may be late by, so that the other half is left for a machine that is busy.
const MaxWait = 30 * time.Millisecond

const (
	// A busy key takes the tokens of leaseTime in advance, so that most of its
	// requests ask nobody. What is not used within leaseLife is lost to all.
	leaseTime = 10 * time.Millisecond
	leaseLife = time.Second
)

// Shared is one quota as this gateway sees it. It outlives snapshots and is safe
// for concurrent use.
type Shared struct {
	base   time.Time
	seed   maphash.Seed
	now    atomic.Pointer[terms]
	shards [maxShards]leases

	away                      atomic.Bool
	since                     atomic.Int64 // of the present state
	leased, asked, denied     atomic.Int64
	busy, failed, skipped     atomic.Int64
	localPassed, localRefused atomic.Int64
	changed                   func(retrylog.Transition)
}

// terms are what a Reconfigure replaces.
type terms struct {
	cfg   QuotaConfig
	store Quota
	kind  kind
	local *held // the buckets of the local share
	lease int64 // tokens taken in advance
	room  int   // leases in a shard
}

type leases struct {
	mu sync.Mutex
	of map[uint64]lease
	_  [64]byte
}

// lease is what this gateway knows of a key.
type lease struct {
	tokens, until     int64 // paid for, and good until then
	needed, deniedTil int64 // so many were not there, and will not be before
	asking            bool  // somebody is out for tokens in advance
	owed, owedTil     int64 // given out without the store, and of interest until then
}

// NewShared returns the quota of cfg out of store; changed, if any, is told when
// the store goes away and when it is back.
func NewShared(cfg QuotaConfig, store Quota, changed func(retrylog.Transition), now time.Time) *Shared {
	s := &Shared{base: now, seed: maphash.MakeSeed(), changed: changed}
	for i := range s.shards {
		s.shards[i].of = map[uint64]lease{}
	}
	s.Reconfigure(cfg, store, now)
	return s
}

// Reconfigure makes cfg and store those that rule. Tokens in the store and of the
// local share are kept, as many as the new burst allows, unless cfg has another key.
func (s *Shared) Reconfigure(cfg QuotaConfig, store Quota, now time.Time) {
	if cfg.Replicas < 1 {
		cfg.Replicas = 1
	}
	if cfg.OnError == "" {
		cfg.OnError = LocalShare
	}
	was := s.now.Load()
	next := &terms{cfg: cfg, store: store, kind: cfg.Key.kind()}
	var before *held
	if was != nil {
		before = was.local
	}
	next.local = renew(before, cfg.share().pace(), cfg.Key, cfg.MaxKeys, s.at(now))
	next.room = max(next.local.max/maxShards, 1)
	// Never so much that a few gateways could hold a whole burst.
	next.lease = min(int64(leaseTime)/max(cfg.Rate.pace().each, 1), cfg.Rate.Burst/20)
	s.now.Store(next)
	if was != nil && (was.cfg.Rate != cfg.Rate || was.cfg.Key != cfg.Key) {
		for i := range s.shards { // leases of another rate
			s.shards[i].mu.Lock()
			clear(s.shards[i].of)
			s.shards[i].mu.Unlock()
		}
	}
}

func (s *Shared) at(now time.Time) int64 { return int64(now.Sub(s.base)) }

// read reads the key of x; a Quota can get another while its routes stay.
func (s *Shared) read(x *exchange.Exchange, d Deps) (KeyValue, bool) {
	t := s.now.Load()
	r := reader{kind: t.kind, header: t.cfg.Key.Header, deny: t.cfg.Missing == Deny, route: d.Route, trusted: d.Trusted}
	return r.of(x)
}

// Take takes cost tokens of k, and waits no longer than wait. The reason stands
// for a refusal.
func (s *Shared) Take(k KeyValue, cost int64, now time.Time, wait time.Duration) (v Verdict, away bool) {
	t, at := s.now.Load(), s.at(now)
	if cost > t.cfg.Rate.Burst {
		s.denied.Add(1)
		return Verdict{}, false
	}
	h := k.hash(s.seed)
	sh := &s.shards[h%maxShards]
	sh.mu.Lock()
	l := sh.of[h]
	if at < l.until && l.tokens >= cost {
		l.tokens -= cost
		sh.of[h] = l
		sh.mu.Unlock()
		s.leased.Add(1)
		t.local.cells.spend(h, cost, at)
		return Verdict{OK: true, Remaining: l.tokens}, false
	}
	if at < l.deniedTil && cost >= l.needed {
		sh.mu.Unlock()
		s.denied.Add(1)
		return Verdict{Retry: time.Duration(l.deniedTil - at)}, false
	}
	ask := Ask{Need: cost, Want: cost, Wait: min(wait, MaxWait)}
	first := !l.asking && t.lease > 0 && sh.room(h, t.room, at)
	if first {
		ask.Want += t.lease
		l.asking = true
		sh.of[h] = l
	}
	ask.Owed, l.owed = l.owed, 0
	if ask.Owed > 0 {
		sh.of[h] = l
	}
	sh.mu.Unlock()
	owed := ask.Owed
	if owed > 0 { // what has come in since is settled
		ask.Owed = min(owed, t.local.cells.spent(h, at))
	}
	ask.Key = t.cfg.Name + ":" + k.String()
	s.asked.Add(1)
	g, err := t.store.Take(ask)
	at += int64(g.Waited) // else whoever waited would come too late for tokens of now
	if err != nil {
		v, away = s.without(t, h, cost, at, err)
		if v.OK {
			owed += cost
		}
	}

	sh.mu.Lock()
	l = sh.of[h]
	if first {
		l.asking = false
	}
	switch {
	case err != nil:
		l.owed, l.owedTil = l.owed+owed, at+t.local.pace.full
	case g.Got > 0:
		if at >= l.until {
			l.tokens = 0
		}
		l.tokens, l.until = l.tokens+g.Got-cost, at+int64(leaseLife)
	default:
		l.needed, l.deniedTil = cost, at+int64(g.Retry)
	}
	if sh.room(h, t.room, at) {
		sh.of[h] = l
	}
	sh.mu.Unlock()

	if err != nil {
		return v, away
	}
	s.back(t, at)
	if g.Got == 0 {
		s.denied.Add(1)
		return Verdict{Retry: g.Retry}, false
	}
	t.local.cells.spend(h, cost, at)
	return Verdict{OK: true, Remaining: g.Got - cost}, false
}

// idle reports whether l is as good as none.
func (l lease) idle(at int64) bool {
	return at >= l.until && at >= l.deniedTil && !l.asking && (l.owed == 0 || at >= l.owedTil)
}

// room reports whether h has or can have a lease. To be called with the lock held.
func (sh *leases) room(h uint64, most int, at int64) bool {
	if _, ok := sh.of[h]; ok || len(sh.of) < most {
		return true
	}
	// A few are looked at, in no order: a table full of leases in use is left alone.
	looked := 0
	for other, l := range sh.of {
		if l.idle(at) {
			delete(sh.of, other)
			return true
		}
		if looked++; looked == 16 {
			break
		}
	}
	return false
}

// without decides while the store does not answer.
func (s *Shared) without(t *terms, h uint64, cost, at int64, err error) (v Verdict, away bool) {
	switch {
	case errors.Is(err, ErrBusy):
		s.busy.Add(1)
	case errors.Is(err, ErrAway):
		s.skipped.Add(1)
		s.gone(t, at, err)
	default:
		s.failed.Add(1)
	}
	switch t.cfg.OnError {
	case Open:
		v = Verdict{OK: true}
	case Closed:
		return Verdict{Retry: time.Second}, true
	default:
		// A request that costs more than the whole share takes the whole share: that
		// the store is away must not shut it out for good.
		v = t.local.cells.take(h, min(cost, t.cfg.share().Burst), at)
	}
	if v.OK {
		s.localPassed.Add(1)
	} else {
		s.localRefused.Add(1)
	}
	return v, false
}

func (s *Shared) gone(t *terms, at int64, err error) {
	if !s.away.Load() && s.away.CompareAndSwap(false, true) {
		s.since.Store(at)
		s.tell(t, stateShared, string(t.cfg.OnError), err.Error())
	}
}

func (s *Shared) back(t *terms, at int64) {
	if s.away.Load() && s.away.CompareAndSwap(true, false) {
		s.since.Store(at)
		s.tell(t, string(t.cfg.OnError), stateShared, "store answers")
	}
}

const stateShared = "shared"

func (s *Shared) tell(t *terms, from, to, why string) {
	if s.changed != nil {
		s.changed(retrylog.Transition{Policy: "quota", Upstream: t.cfg.Name, From: from, To: to, Reason: why})
	}
}

// Tick forgets what is as good as new.
func (s *Shared) Tick(now time.Time) {
	at := s.at(now)
	s.now.Load().local.cells.tick(at)
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		for h, l := range sh.of {
			if l.idle(at) {
				delete(sh.of, h)
			}
		}
		sh.mu.Unlock()
	}
}

// SharedStats is what a Shared has done since it was made.
type SharedStats struct {
	// State is shared, or what rules while the store is away.
	State   string `json:"state"`
	SinceMS int64  `json:"since_ms"`
	Keys    int64  `json:"keys"`
	Leased  int64  `json:"leased"` // passed by tokens taken in advance
	Asked   int64  `json:"asked"`  // calls to the store
	Denied  int64  `json:"denied"` // by the quota, known or told anew
	// Why the store did not decide: somebody else was waiting, the call failed, or
	// none was made after failures.
	Busy    int64 `json:"busy"`
	Failed  int64 `json:"failed"`
	Skipped int64 `json:"skipped"`
	// What was decided then.
	LocalPassed  int64 `json:"local_passed"`
	LocalRefused int64 `json:"local_refused"`
}

// Stats reads without changing anything.
func (s *Shared) Stats(now time.Time) SharedStats {
	t := s.now.Load()
	out := SharedStats{
		State: stateShared, SinceMS: (s.at(now) - s.since.Load()) / int64(time.Millisecond),
		Leased: s.leased.Load(), Asked: s.asked.Load(), Denied: s.denied.Load(),
		Busy: s.busy.Load(), Failed: s.failed.Load(), Skipped: s.skipped.Load(),
		LocalPassed: s.localPassed.Load(), LocalRefused: s.localRefused.Load(),
	}
	if s.away.Load() {
		out.State = string(t.cfg.OnError)
	}
	for i := range s.shards {
		s.shards[i].mu.Lock()
		out.Keys += int64(len(s.shards[i].of))
		s.shards[i].mu.Unlock()
	}
	return out
}
