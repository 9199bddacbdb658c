package freeze

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Keeper is where freezes by hand and overrides are kept.
type Keeper interface {
	Known(ctx context.Context, now time.Time) (Known, error)
	Callers(ctx context.Context, since time.Time) (map[string][]string, error)
	SigningKey(ctx context.Context, now time.Time) (Key, error)
	UseOverride(ctx context.Context, id, once, decision string, now time.Time) (bool, error)
	CloseOverrides(ctx context.Context, at time.Time) error
	CloseDeploys(ctx context.Context, at time.Time) error
}

// Book holds what is known beside the evaluation, a second old at most. It is safe
// for concurrent use.
type Book struct {
	keeper Keeper
	log    *slog.Logger

	mu        sync.RWMutex
	policies  []Policy
	known     Known
	key       *Key
	blames    []Blame
	callersAt time.Time
	away      bool
}

// NewBook returns an empty Book; log may be nil.
func NewBook(keeper Keeper, log *slog.Logger) *Book {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Book{keeper: keeper, log: log}
}

// Rule puts policies in force.
func (b *Book) Rule(policies []Policy) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.policies = policies
}

// Known returns what is known. The caller must not change what it points to.
func (b *Book) Known() Known {
	b.mu.RLock()
	defer b.mu.RUnlock()
	k := b.known
	k.Policies, k.Blames = b.policies, b.blames
	return k
}

// PolicyFor returns the policy that rules service in env.
func (b *Book) PolicyFor(service, env string) Policy { return For(b.Known().Policies, service, env) }

// Key returns the key that signs; false: the database was never reached.
func (b *Book) Key() (Key, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if b.key == nil {
		return Key{}, false
	}
	return *b.key, true
}

// Use uses an override once more.
func (b *Book) Use(ctx context.Context, id, once, decision string, now time.Time) (bool, error) {
	return b.keeper.UseOverride(ctx, id, once, decision, now)
}

// callersFor is for how long callers are looked back for, callersEvery how often.
const (
	callersFor   = 24 * time.Hour
	callersEvery = 5 * time.Minute
)

// Tick reads everything anew, and closes overrides and deploys that are over.
func (b *Book) Tick(ctx context.Context, now time.Time) error {
	if err := b.keeper.CloseOverrides(ctx, now); err != nil {
		return b.stays(err)
	}
	if err := b.keeper.CloseDeploys(ctx, now); err != nil {
		return b.stays(err)
	}
	known, err := b.keeper.Known(ctx, now)
	if err != nil {
		return b.stays(err)
	}
	if _, ok := b.Key(); !ok {
		key, err := b.keeper.SigningKey(ctx, now)
		if err != nil {
			return b.stays(err)
		}
		b.mu.Lock()
		b.key = &key
		b.mu.Unlock()
	}
	b.mu.RLock()
	callers, at := b.known.Callers, b.callersAt
	b.mu.RUnlock()
	if now.Sub(at) >= callersEvery {
		if callers, err = b.keeper.Callers(ctx, now.Add(-callersFor)); err != nil {
			return b.stays(err)
		}
		at = now
	}
	known.Callers = callers
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known, b.callersAt, b.away = known, at, false
	return nil
}

// stays keeps what was known: a freeze does not end because it cannot be read.
func (b *Book) stays(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.away {
		b.log.Error("freezes and overrides cannot be read; what was known holds", "err", err)
	}
	b.away = true
	return fmt.Errorf("read freezes: %w", err)
}

// Run ticks every second until ctx ends.
func (b *Book) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		each, cancel := context.WithTimeout(ctx, 10*time.Second)
		_ = b.Tick(each, time.Now().UTC()) // logged when it begins to fail
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
