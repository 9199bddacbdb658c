package alert

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"breakwater/slo"
)

// Ledger keeps incidents and what is to be sent.
type Ledger interface {
	// Alerting calls step with what is remembered, and keeps what it decides, in one
	// transaction that no other control has at the same time.
	Alerting(ctx context.Context, now time.Time, step func(State, []Symptom) Outcome, notes []Jotting) error
	// Evidence is what was counted of a scope in the five minutes up to an instant.
	Evidence(ctx context.Context, service, env string, until time.Time) (Evidence, error)
	// PruneAlerts removes what nobody reads any more.
	PruneAlerts(ctx context.Context, now time.Time) error
}

// Outbox hands out what is due, one row of an incident and receiver at a time.
type Outbox interface {
	TakeMessages(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]Job, error)
	MessageDone(ctx context.Context, j Job, r Result) error
}

// Job is one row of the outbox.
type Job struct {
	ID       int64
	Attempts int64 // before this one
	Created  time.Time
	Delivery Delivery
}

// Result is what came of one attempt.
type Result struct {
	At      time.Time
	Outcome string // sent, failed, gave_up
	Text    string
	Took    time.Duration
	NextAt  time.Time // of failed
}

// Source knows the last evaluation.
type Source interface{ Statuses() []slo.Status }

// Config is what an Engine needs.
type Config struct {
	Source Source
	Ledger Ledger
	Outbox Outbox
	Sender Sender
	// More are symptoms that others see, asked for at each look; nil: none.
	More func(now time.Time) []Symptom
	Log  *slog.Logger // nil: none
}

// Engine looks, steps and sends. It is safe for concurrent use.
type Engine struct {
	cfg Config

	mu     sync.RWMutex
	routes []Route
	away   bool
	heard  time.Time // the last look that was kept
	pruned time.Time
}

// New returns an Engine that nobody has given a route yet: it tells nobody.
func New(cfg Config) *Engine {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{cfg: cfg}
}

// Route puts routes in force.
func (e *Engine) Route(routes []Route) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.routes = routes
}

// Routes returns the routes in force.
func (e *Engine) Routes() []Route {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.routes
}

// Heard is when what is wrong was last looked at and kept: what had begun by then is
// known, or was not there.
func (e *Engine) Heard() time.Time {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.heard
}

// Tick looks at the last evaluation and decides what it means.
func (e *Engine) Tick(ctx context.Context, now time.Time) error {
	now = now.UTC().Truncate(time.Microsecond)
	sight := Look(e.cfg.Source.Statuses(), now)
	if e.cfg.More != nil {
		sight.Add(e.cfg.More(now)...)
	}
	routes := e.Routes()
	rules := Rules{Hold: holdOf(routes), Routes: routes, NewID: newID}
	known := map[scope]Evidence{}
	explain := func(i Incident) Context {
		if i.Class == Override {
			return Context{At: now} // figures of requests say nothing of it
		}
		at := scope{i.Service, i.Env}
		s := sight.worst[at]
		v, ok := known[at]
		if !ok {
			var err error
			// The ledger's own transaction waits for this: better without than late.
			each, cancel := context.WithTimeout(ctx, 2*time.Second)
			v, err = e.cfg.Ledger.Evidence(each, i.Service, i.Env, s.DataUntil)
			cancel()
			if err != nil {
				e.cfg.Log.Warn("an incident has no context", "service", i.Service, "env", i.Env, "err", err)
			}
			known[at] = v
		}
		return Explain(s, v, now)
	}
	err := e.cfg.Ledger.Alerting(ctx, now, func(state State, facts []Symptom) Outcome {
		all := sight
		all.Add(facts...)
		return Step(rules, state, all, explain, now)
	}, sight.Notes)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		if !e.away {
			e.cfg.Log.Error("alerts are not kept", "err", err)
		}
		e.away = true
		return fmt.Errorf("alerts: %w", err)
	}
	e.away, e.heard = false, now
	if now.Sub(e.pruned) >= pruneEvery {
		e.pruned = now
		if err := e.cfg.Ledger.PruneAlerts(ctx, now); err != nil {
			e.cfg.Log.Warn("old alerts are not removed", "err", err)
		}
	}
	return nil
}

const pruneEvery = 10 * time.Minute

// How long a message is tried for, and how often.
const (
	sendFor   = 24 * time.Hour
	firstWait = time.Second
	longest   = 5 * time.Minute
	sendLease = 30 * time.Second // above sendTimeout, or two would send
	together  = 8
)

// Send sends what is due, and reports how many it tried.
func (e *Engine) Send(ctx context.Context, now time.Time) (int, error) {
	jobs, err := e.cfg.Outbox.TakeMessages(ctx, now, sendLease, together)
	if err != nil {
		return 0, fmt.Errorf("take what is due: %w", err)
	}
	var group sync.WaitGroup
	errs := make([]error, len(jobs))
	for i, j := range jobs {
		group.Go(func() { errs[i] = e.sendOne(ctx, j, now) })
	}
	group.Wait()
	return len(jobs), errors.Join(errs...)
}

func (e *Engine) sendOne(ctx context.Context, j Job, now time.Time) error {
	began := time.Now()
	to, ok := Find(e.Routes(), j.Delivery.Receiver)
	err := fmt.Errorf("%w: no document names receiver %s any more", ErrFinal, j.Delivery.Receiver)
	if ok {
		err = e.cfg.Sender.Send(ctx, to, j.Delivery.Message, now)
	}
	if ctx.Err() != nil {
		return ctx.Err() // its lease ends, and somebody sends it again
	}
	r := Settle(j, err, now)
	r.Took = time.Since(began)
	if r.Outcome != "sent" {
		e.cfg.Log.Warn("a message was not delivered", "receiver", j.Delivery.Receiver, "incident", j.Delivery.Incident.ID, "attempt", j.Attempts+1, "outcome", r.Outcome, "err", err)
	}
	return e.cfg.Outbox.MessageDone(ctx, j, r)
}

// Settle says what follows from an attempt: at least once, again and again for a
// day, each time later, as late as the receiver asks for.
func Settle(j Job, err error, now time.Time) Result {
	if err == nil {
		return Result{At: now, Outcome: "sent"}
	}
	r := Result{At: now, Outcome: "failed", Text: err.Error()}
	wait := firstWait << min(j.Attempts, 12)
	wait = min(wait, longest)
	if asked, ok := errors.AsType[*Retry](err); ok && asked.After > wait {
		wait = asked.After
	}
	r.NextAt = now.Add(wait)
	if errors.Is(err, ErrFinal) || r.NextAt.Sub(j.Created) > sendFor {
		r.Outcome, r.NextAt = "gave_up", time.Time{}
	}
	return r
}

// Run looks every second and sends what is due until ctx ends.
func (e *Engine) Run(ctx context.Context) error {
	var group sync.WaitGroup
	each := func(do func(context.Context)) {
		group.Go(func() {
			t := time.NewTicker(time.Second)
			defer t.Stop()
			for {
				do(ctx)
				select {
				case <-ctx.Done():
					return
				case <-t.C:
				}
			}
		})
	}
	each(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, 15*time.Second)
		defer cancel()
		_ = e.Tick(ctx, time.Now()) // logged when it begins to fail
	})
	each(func(ctx context.Context) {
		for ctx.Err() == nil {
			if n, err := e.Send(ctx, time.Now().UTC()); n < together || err != nil {
				return
			}
		}
	})
	group.Wait()
	return nil
}

func newID() string {
	b := make([]byte, 8)
	_, _ = rand.Read(b) // never fails
	return "i-" + hex.EncodeToString(b)
}
