package injector

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"breakwater/gateway/plan"
)

// How long a poll waits for one look at the ledger, and a stop for its writing.
// A database that hangs instead of refusing must not keep either from ending.
const (
	lookWithin  = 2 * time.Second
	writeWithin = 5 * time.Second
)

// ErrUnwritten means that a stop holds at this control and is not in the ledger
// yet; it is written as soon as the ledger answers.
var ErrUnwritten = errors.New("the stop is not written yet")

// howFaultsEnd is for whoever asked to stop while the ledger was away.
const howFaultsEnd = "the stop cannot be written now and will be as soon as the ledger answers. " +
	"From now on this control gives no fault to a gateway that asks it, and leases end by themselves within 15 s. " +
	"To stop at once, each gateway has its own switch: POST /faults/halt on its admin port, its halt file, or SIGUSR1"

// everything is the name under which a halt of all runs is kept.
const everything = ""

// stops are what somebody asked to stop and what is not in the ledger yet. They
// hold from the moment of asking: a stop waits for nothing, not for its record.
type stops struct {
	mu   sync.Mutex
	wait map[string]stop // by run
}

type stop struct {
	at     time.Time
	actor  string
	failed bool // its writer has given up: the engine has to write it
}

func (s *stops) set(run, actor string, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wait == nil {
		s.wait = map[string]stop{}
	}
	at := time.Now().UTC()
	if old, ok := s.wait[run]; ok {
		at, actor = old.at, old.actor
	}
	s.wait[run] = stop{at, actor, failed}
}

func (s *stops) done(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.wait, run)
}

// any reports whether anything waits to be written.
func (s *stops) any() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.wait) > 0
}

// of returns the stop that covers run; everything: the halt alone.
func (s *stops) of(run string) (stop, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if all, ok := s.wait[everything]; ok {
		return all, true
	}
	one, ok := s.wait[run]
	return one, ok
}

// left are the stops that the engine has to write.
func (s *stops) left() map[string]stop {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := maps.Clone(s.wait)
	maps.DeleteFunc(left, func(_ string, x stop) bool { return !x.failed })
	return left
}

// alive leaves out the runs that are being stopped.
func (s *stops) alive(runs []Run) []Run {
	return slices.DeleteFunc(runs, func(r Run) bool { _, ok := s.of(r.ID); return ok })
}

// stopping makes a stop hold here at once, then writes it. What is not written is
// kept: the ledger may come back and would still name the faults.
func (e *Desk) stopping(ctx context.Context, run, actor string, write func(context.Context) error) error {
	e.planner.stops.set(run, actor, false)
	e.planner.wake()
	ctx, cancel := context.WithTimeout(ctx, writeWithin)
	defer cancel()
	err := write(ctx)
	if err == nil || errors.Is(err, ErrNotFound) || errors.Is(err, ErrStep) {
		e.planner.stops.done(run)
		return err
	}
	e.planner.stops.set(run, actor, true)
	return fmt.Errorf("%w: %w", ErrUnwritten, err)
}

// writeStops writes what could not be written when it was asked for.
func (e *Engine) writeStops(ctx context.Context) error {
	for run, s := range e.planner.stops.left() {
		err := e.Desk().stop(ctx, run, s.actor)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		e.cfg.Log.Info("a stop is written late", "run", run, "actor", s.actor, "asked_at", s.at)
	}
	return nil
}

func (e *Desk) stop(ctx context.Context, run, actor string) error {
	if run == everything {
		return e.HaltAll(ctx, actor)
	}
	return e.Abort(ctx, run, actor)
}

// nothing is the plan while something is being stopped and the ledger is away. It
// carries the number that the gateway has, so that the next true plan is no older,
// and says nothing of measures: stopping faults takes no protection away.
func nothing(epoch, revision int64) plan.Plan {
	return plan.Plan{Epoch: epoch, Revision: revision, Faults: []plan.Leased{}}
}
