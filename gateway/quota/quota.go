// Package quota keeps the tokens that several gateways share in Redis: one atomic
// script, the server's clock, and a caller that never waits long.
package quota

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/policy/limiter"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
)

//go:embed quota.lua
var script string

// Config of a Store. Zero durations and counts take the standard.
type Config struct {
	// URL is redis://host:port/db, rediss:// for TLS, or unix:///path?db=n.
	URL                string
	Username, Password string
	// Dial opens connections; nil: a net.Dialer.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Budget   time.Duration // of a call; 30 ms
	Late     time.Duration // after which a call under way counts as slow; 10 ms
	Failures int           // in a row, after which no calls are made; 3
	Skip     time.Duration // for how long; 1 s
}

func (c Config) filled() Config {
	if c.Budget <= 0 {
		c.Budget = limiter.MaxWait
	}
	if c.Late <= 0 {
		c.Late = 10 * time.Millisecond
	}
	if c.Failures <= 0 {
		c.Failures = 3
	}
	if c.Skip <= 0 {
		c.Skip = time.Second
	}
	return c
}

// Store is one Redis. One flight of calls is under way at a time: what is asked
// meanwhile goes with the next, so a busy store is asked in batches. While it is
// slow one caller waits for it, and no other. It is safe for concurrent use.
type Store struct {
	cfg  Config
	opts *redis.Options
	sha  string
	base time.Time

	// Read by every caller while the store is away, without a lock.
	skip atomic.Int64 // until when no calls are made, from base
	away atomic.Pointer[error]

	mu       sync.Mutex // of callers that ask, and of the flight
	queue    []*op
	flying   bool
	began    time.Time // of the flight under way
	patient  bool      // somebody waits for the whole budget
	failures int       // in a row
	closed   bool
	flights  sync.WaitGroup

	client *redis.Client // of the flight

	calls, failed, reloaded atomic.Int64
}

// op is one caller's question.
type op struct {
	key   string
	args  []any
	grant limiter.Grant
	err   error
	done  chan struct{} // holds one
	gone  atomic.Bool   // nobody waits for it any more
}

// mostInFlight bounds a batch, so that a flight ends in time.
const mostInFlight = 256

// Open reads cfg and connects to nothing yet.
func Open(cfg Config) (*Store, error) {
	cfg = cfg.filled()
	opts, err := redis.ParseURL(cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("read the URL of the quota store: %w", err)
	}
	if cfg.Username != "" {
		opts.Username = cfg.Username
	}
	if cfg.Password != "" {
		opts.Password = cfg.Password
	}
	if cfg.Dial != nil {
		opts.Dialer = cfg.Dial
		if opts.TLSConfig != nil {
			opts.Dialer = dialTLS(cfg.Dial, opts.TLSConfig)
		}
	}
	// A call is made once and within its budget, or not at all: whoever waits has
	// something better to do than to retry.
	opts.MaxRetries, opts.DialerRetries = -1, 1
	opts.ContextTimeoutEnabled = true
	opts.DialTimeout, opts.ReadTimeout, opts.WriteTimeout, opts.PoolTimeout = cfg.Budget, cfg.Budget, cfg.Budget, cfg.Budget
	opts.PoolSize, opts.PipelinePoolSize = 2, -1 // one flight at a time
	opts.Protocol, opts.DisableIdentity = 2, true
	opts.MaintNotificationsConfig = &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	redis.SetLogger(silent{}) // what goes wrong is counted, and told as a transition
	sum := sha1.Sum([]byte(script))
	s := &Store{cfg: cfg, opts: opts, sha: hex.EncodeToString(sum[:]), base: time.Now()}
	s.client = redis.NewClient(s.fresh())
	return s, nil
}

// silent is the client's own log.
type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// fresh is a copy: a client writes into its options.
func (s *Store) fresh() *redis.Options {
	o := *s.opts
	return &o
}

// Close ends the flight under way and the connections. Callers are told that the
// store is away.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.flights.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.client.Close()
}

// Stats of a Store.
type Stats struct {
	Away     bool  `json:"away"`
	Calls    int64 `json:"calls"` // round trips
	Failed   int64 `json:"failed"`
	Reloaded int64 `json:"script_reloaded"` // answers NOSCRIPT
}

// Stats reads without changing anything.
func (s *Store) Stats(now time.Time) Stats {
	return Stats{
		Away: int64(now.Sub(s.base)) < s.skip.Load(), Calls: s.calls.Load(), Failed: s.failed.Load(), Reloaded: s.reloaded.Load(),
	}
}

// Quota returns the tokens of the store at rate. Keys of several quotas must differ.
func (s *Store) Quota(rate limiter.Rate) limiter.Quota {
	return &rated{store: s, units: unitsOf(rate)}
}

type rated struct {
	store *Store
	units units
}

// Take implements limiter.Quota.
func (r *rated) Take(a limiter.Ask) (limiter.Grant, error) {
	o := &op{
		key: prefix + a.Key, done: make(chan struct{}, 1),
		args: []any{r.units.rate, r.units.price, r.units.full, r.units.unit, a.Need, a.Want, a.Owed},
	}
	waited, err := r.store.ask(o, a.Wait)
	g := limiter.Grant{Waited: waited}
	if err == nil { // else the flight may still write into o
		g.Got, g.Retry, err = o.grant.Got, o.grant.Retry, o.err
	}
	return g, err
}

// prefix is of all our keys.
const prefix = "breakwater:quota:"

// units are a rate in whole numbers that Lua can hold.
type units struct{ rate, price, full, unit int64 }

// unitsOf counts in microseconds, or in milliseconds where a bucket is so large
// that its parts would not be exact.
func unitsOf(r limiter.Rate) units {
	const exact = 1 << 52
	u := units{unit: 1}
	ticks := max(r.Per.Microseconds(), 1)
	for {
		g := gcd(r.Tokens, ticks)
		u.rate, u.price = r.Tokens/g, ticks/g
		if u.full = u.price * r.Burst; u.full/r.Burst == u.price && u.full < exact || u.unit > 1 {
			return u
		}
		u.unit, ticks = 1000, max(r.Per.Milliseconds(), 1)
	}
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

var errLate = errors.New("quota store did not answer in time")

// ask puts o into the next flight and waits for it.
func (s *Store) ask(o *op, wait time.Duration) (waited time.Duration, err error) {
	now := time.Now()
	if int64(now.Sub(s.base)) < s.skip.Load() {
		if err := s.away.Load(); err != nil {
			return 0, *err
		}
	}
	s.mu.Lock()
	switch {
	case s.closed:
		s.mu.Unlock()
		return 0, limiter.ErrAway
	case wait <= 0, len(s.queue) >= mostInFlight, s.flying && (s.failures > 0 || now.Sub(s.began) >= s.cfg.Late):
		s.mu.Unlock()
		return 0, limiter.ErrBusy
	}
	patient := !s.patient
	if patient {
		s.patient = true
		wait = min(wait, s.cfg.Budget)
	} else {
		wait = min(wait, s.cfg.Late)
	}
	s.queue = append(s.queue, o)
	if !s.flying {
		s.flying, s.began = true, now
		s.flights.Go(s.fly)
	}
	s.mu.Unlock()

	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
		o.gone.Store(true)
		err = limiter.ErrBusy
		if patient {
			err = errLate
		}
	}
	if patient {
		s.mu.Lock()
		s.patient = false
		s.mu.Unlock()
	}
	return time.Since(now), err
}

// fly makes calls until nobody asks.
func (s *Store) fly() {
	for {
		s.mu.Lock()
		// Tokens for those who left would be lost, and the call that fetches them too.
		batch := slices.DeleteFunc(s.queue, func(o *op) bool { return o.gone.Load() })
		s.queue = nil
		if len(batch) == 0 {
			s.flying = false
			s.mu.Unlock()
			return
		}
		s.began = time.Now()
		s.mu.Unlock()

		s.landed(s.call(batch), batch)
		for _, o := range batch {
			o.done <- struct{}{}
		}
	}
}

// landed notes how a flight ended.
func (s *Store) landed(err error, batch []*op) {
	if err == nil {
		s.skip.Store(0)
		s.mu.Lock()
		s.failures = 0
		s.mu.Unlock()
		return
	}
	s.failed.Add(1)
	// Whatever state its connections are in, the next call has new ones: a client
	// remembers that it could not connect for longer than we want to wait.
	_ = s.client.Close()
	s.client = redis.NewClient(s.fresh())

	s.mu.Lock()
	defer s.mu.Unlock()
	s.failures++
	if s.failures < s.cfg.Failures {
		return
	}
	away := fmt.Errorf("%w: %w", limiter.ErrAway, err)
	for _, o := range batch {
		if o.err != nil {
			o.err = away
		}
	}
	s.away.Store(&away)
	s.skip.Store(int64(time.Since(s.base) + s.cfg.Skip))
}

// call asks Redis for the whole batch, in one round trip, or two where it does not
// know the script (any more).
func (s *Store) call(batch []*op) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.cfg.Budget)
	defer cancel()
	unknown, err := s.round(ctx, batch, false)
	if len(unknown) > 0 {
		s.reloaded.Add(1)
		_, again := s.round(ctx, unknown, true)
		err = errors.Join(err, again)
	}
	return err
}

// round makes one round trip, and returns those for which there was no script. With
// load the first of them brings it.
func (s *Store) round(ctx context.Context, batch []*op, load bool) (unknown []*op, err error) {
	s.calls.Add(1)
	pipe := s.client.Pipeline()
	cmds := make([]*redis.Cmd, len(batch))
	for i, o := range batch {
		verb, text := "evalsha", s.sha
		if load && i == 0 {
			verb, text = "eval", script
		}
		cmds[i] = pipe.Do(ctx, append([]any{verb, text, 1, o.key}, o.args...)...)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, o := range batch {
		o.err = nil
		reply, cause := cmds[i].Int64Slice()
		switch {
		case cause != nil && strings.HasPrefix(cause.Error(), "NOSCRIPT"):
			unknown = append(unknown, o)
		case cause != nil:
			o.err = fmt.Errorf("ask the quota store: %w", cause)
		case len(reply) != 2:
			o.err = fmt.Errorf("ask the quota store: %d numbers in its answer, want 2", len(reply))
		default:
			o.grant = limiter.Grant{Got: reply[0], Retry: time.Duration(reply[1]) * time.Microsecond}
		}
		if o.err != nil && err == nil {
			err = o.err
		}
	}
	return unknown, err
}
