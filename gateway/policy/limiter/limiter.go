// Package limiter refuses requests beyond a rate: by a token bucket for each key
// in this process, and by a quota that several gateways share.
package limiter

import (
	"hash/maphash"
	"sync/atomic"
	"time"
)

// Rate is how many tokens come in a time, and how many a full bucket holds.
type Rate struct {
	Tokens int64         `json:"tokens"`
	Per    time.Duration `json:"per"`
	// Burst is all that can be taken at one instant, and no extra on top of it.
	Burst int64 `json:"burst"`
}

// Limits of a Rate: times Burst it must fit an int64 of nanoseconds many times over.
const (
	MaxTokens = 1_000_000
	MaxBurst  = 1_000_000
	MaxPer    = 24 * time.Hour
	// MaxFill is how long an empty bucket may take to be full.
	MaxFill = 366 * 24 * time.Hour
)

// Missing says what becomes of a request without the key.
type Missing string

// The choices. There is none in which all such requests share a bucket: one of
// them could then lock out the rest.
const (
	PeerIP Missing = "peer_ip" // the client's address takes the place of the key
	Deny   Missing = "deny"
)

// Cost is how many tokens a request takes.
type Cost struct {
	Tokens int64 `json:"tokens"` // 0: 1
	// Header says it for one request, if a trusted peer sent it; "": none.
	Header string `json:"header,omitempty"`
	Max    int64  `json:"max,omitempty"` // of what Header may say
}

// Config is the limit of one route. The zero Config limits nothing.
type Config struct {
	Rate    Rate    `json:"rate,omitzero"` // of the bucket in this process; zero: none
	Key     Key     `json:"key"`
	Missing Missing `json:"missing_key,omitempty"` // "": peer_ip
	Cost    Cost    `json:"cost,omitzero"`
	// MaxKeys is how many keys have a bucket of their own; 0: 65536.
	MaxKeys int `json:"max_keys,omitempty"`
	// Quota names the shared quota that is asked after the bucket; "": none.
	Quota string `json:"quota,omitempty"`
	// Observe decides, counts and refuses nothing.
	Observe bool `json:"observe,omitempty"`
}

// Active reports whether there is anything to decide.
func (c Config) Active() bool { return c.Rate.Tokens > 0 || c.Quota != "" }

// DefaultMaxKeys is the standard of Config.MaxKeys.
const DefaultMaxKeys = 1 << 16

// Limiter holds the buckets of one route. It outlives snapshots and is safe for
// concurrent use.
type Limiter struct {
	base time.Time // buckets count from it, by the monotonic clock: a jump of the wall clock changes nothing
	seed maphash.Seed
	held atomic.Pointer[held]

	// By Reconfigure and Change alone, one at a time.
	cfg    Config
	change Change

	refused [reasons]atomic.Int64
}

// held is what a change of key or memory replaces.
type held struct {
	cells cells
	pace  pace
	key   Key
	max   int
}

// cells are buckets by the hash of their key.
type cells interface {
	take(h uint64, cost, now int64) Verdict
	give(h uint64, cost int64, v Verdict)
	spend(h uint64, cost, now int64)
	spent(h uint64, now int64) int64
	retarget(p pace, now int64)
	tick(now int64)
	stats() (keys, spilled int64)
}

func newCells(p pace, k Key, maxKeys int) cells {
	if k.kind().single() {
		return newBucket(p)
	}
	return newTable(p, maxKeys)
}

// New returns full buckets.
func New(cfg Config, now time.Time) *Limiter {
	l := &Limiter{base: now, seed: maphash.MakeSeed()}
	l.Reconfigure(cfg, now)
	return l
}

// Reconfigure makes cfg's rate the rate. Each bucket keeps its tokens, as many as
// the new burst allows, unless cfg has another key. A Change goes on to hold.
func (l *Limiter) Reconfigure(cfg Config, now time.Time) {
	l.cfg = cfg
	l.held.Store(renew(l.held.Load(), l.pace(), cfg.Key, cfg.MaxKeys, l.at(now)))
}

func renew(was *held, p pace, k Key, maxKeys int, now int64) *held {
	if maxKeys <= 0 {
		maxKeys = DefaultMaxKeys
	}
	next := &held{pace: p, key: k, max: maxKeys}
	switch {
	case p.each == 0:
	case was == nil || was.cells == nil || was.key != k || was.max != maxKeys:
		next.cells = newCells(p, k, maxKeys)
	default:
		next.cells = was.cells
		next.cells.retarget(p, now)
	}
	return next
}

func (l *Limiter) at(now time.Time) int64 { return int64(now.Sub(l.base)) }

// Take takes cost tokens, at least 1, of the bucket of k.
func (l *Limiter) Take(k KeyValue, cost int64, now time.Time) Verdict {
	c := l.held.Load().cells
	if c == nil {
		return Verdict{OK: true}
	}
	return c.take(k.hash(l.seed), cost, l.at(now))
}

// Give returns what Take has taken with verdict v: somebody else refused.
func (l *Limiter) Give(k KeyValue, cost int64, v Verdict) {
	if c := l.held.Load().cells; c != nil {
		c.give(k.hash(l.seed), cost, v)
	}
}

// Tick forgets buckets that are full, which are as good as new.
func (l *Limiter) Tick(now time.Time) {
	if c := l.held.Load().cells; c != nil {
		c.tick(l.at(now))
	}
}

// Stats is what a Limiter has done since it was made.
type Stats struct {
	Keys    int64 `json:"keys"` // that have a bucket of their own now
	MaxKeys int   `json:"max_keys"`
	// Spilled counts decisions for keys that found no room for a bucket.
	Spilled int64            `json:"spilled"`
	Refused map[string]int64 `json:"refused"` // by reason; observed ones too
}

// Stats reads without changing anything.
func (l *Limiter) Stats() Stats {
	h := l.held.Load()
	s := Stats{MaxKeys: h.max, Refused: map[string]int64{}}
	if h.cells != nil {
		s.Keys, s.Spilled = h.cells.stats()
	}
	for i := range l.refused {
		s.Refused[reason(i).String()] = l.refused[i].Load()
	}
	return s
}

// reason is why a request is refused.
type reason int

const (
	byRate reason = iota
	byQuota
	byMissingKey
	byQuotaAway
	reasons
)

func (r reason) String() string {
	return [...]string{"rate", "quota", "missing_key", "quota_away"}[r]
}

// Reasons lists all reasons, so that counters of each can exist from the start.
func Reasons() []string {
	var out []string
	for r := range reasons {
		out = append(out, r.String())
	}
	return out
}
