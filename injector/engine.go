package injector

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector/scenario"
)

// Config is what an Engine needs. Only Ledger has no default.
type Config struct {
	Ledger  Ledger
	Budgets Budgets // nil: no budget is known
	Env     string  // "prod" makes ungranted runs wait for approval
	// Owner names this control in claims; empty: a random name. Two processes
	// must not share one.
	Owner string
	// Audit is told of every change by a person before it takes effect; nil: no audit.
	Audit func(ctx context.Context, actor, action, object, detail string) error
	// Actor says who asks, for the HTTP handlers; nil: "unknown".
	Actor func(ctx context.Context) string
	// Covers reports whether whoever asks may start or approve a run against a
	// service; nil: everybody may. Stopping one needs no leave.
	Covers func(ctx context.Context, service string) bool
	// Measures are the protective actions that go out with the plan; nil: none.
	Measures func(ctx context.Context) ([]plan.Measure, error)
	// Preflight knows the live system for warnings; nil: nothing is known.
	Preflight func(ctx context.Context, sc scenario.Scenario) scenario.Facts
	// Route names the route of a service that takes a call; nil: none is known.
	Route func(ctx context.Context, service string, c scenario.Call) (name string, ok bool)
	// Alerts lists those that fired in (since, until], and those that fired before
	// and still do, and says how far they are known; nil: there is no feed.
	Alerts func(ctx context.Context, since, until time.Time) (all []Alert, heard time.Time, err error)
	// Probe makes one request of a hypothesis and returns the answer, no more of its
	// body than a hypothesis may look at; MayProbe reports whether its host may be asked.
	// nil: none may.
	Probe    func(ctx context.Context, p scenario.Probe) (status int, body []byte, err error)
	MayProbe func(p scenario.Probe) bool
	// Core tells services that users cannot do without; nil: none is.
	Core func(service string) bool
	Log  *slog.Logger
	// Ready reports whether budgets, and what else keeps runs from starting, are known
	// here; nil: they always are.
	Ready func() bool
	// Owns reports whether whoever asks speaks for a service; nil: nobody is known to.
	Owns func(ctx context.Context, service string) bool
	// Worse is told of a search whose boundary is worse than the one before; nil:
	// its report alone says so.
	Worse func(ctx context.Context, s Search, seen Assertion) error
}

// Engine drives experiments. Several may share one ledger; each run has one
// owner at a time, and every write names the epoch under which it was claimed.
type Engine struct {
	cfg       Config
	scheduler Scheduler
	planner   *Planner

	trouble map[string]trouble   // by run: what Tick has failed at
	skewed  map[string]time.Time // by run: since when this engine sees clocks apart
	owed    map[string]bool      // runs that were claimed, and what follows from that is not done
	blind   bool                 // nothing is known yet: nothing is started, what runs is ended

	mu     sync.Mutex
	parsed map[string]scenario.Scenario // by run and hash of the text
}

// New returns an Engine; Run drives it, or Tick does by hand.
func New(cfg Config) *Engine {
	if cfg.Owner == "" {
		cfg.Owner = "control-" + rand.Text()[:10]
	}
	if cfg.Audit == nil {
		cfg.Audit = func(context.Context, string, string, string, string) error { return nil }
	}
	if cfg.Covers == nil {
		cfg.Covers = func(context.Context, string) bool { return true }
	}
	if cfg.Actor == nil {
		cfg.Actor = func(context.Context) string { return "unknown" }
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	e := &Engine{cfg: cfg, parsed: map[string]scenario.Scenario{}, skewed: map[string]time.Time{}, owed: map[string]bool{}}
	e.scheduler = Scheduler{Ledger: cfg.Ledger, Budgets: cfg.Budgets, Env: cfg.Env, Core: cfg.Core}
	e.planner = newPlanner(cfg, e.parse)
	return e
}

// Scheduler is the part that decides what is due.
func (e *Engine) Scheduler() *Scheduler { return &e.scheduler }

// knowWithin is how many seconds a control that has just started starts nothing, as
// long as it knows nothing: what is due at that moment would be skipped, for want of a
// reading, which is there a second later. Others may decide it meanwhile. What has to be
// ended it ends.
const knowWithin = 15

// knows reports whether the engine may start anything in the nth second of its life. It
// does not wait for ever: why nothing is started has to be written down.
func (e *Engine) knows(n int) bool { return e.cfg.Ready == nil || n >= knowWithin || e.cfg.Ready() }

// Run ticks each second until ctx ends, and listens for changes meanwhile. It
// gives back what it has not begun to inject.
func (e *Engine) Run(ctx context.Context) error {
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { e.planner.listen(ctx) })
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return e.leave(ctx)
		case <-ticker.C:
		}
		if err := e.Second(ctx, n); err != nil && ctx.Err() == nil {
			e.cfg.Log.Error("engine tick", "err", err)
		}
	}
}

// Second is the nth second of the engine's life, from 0.
func (e *Engine) Second(ctx context.Context, n int) error {
	e.blind = !e.knows(n)
	errSchedule := e.writeStops(ctx) // before anything starts
	if errSchedule == nil && !e.blind {
		_, errSchedule = e.scheduler.Tick(ctx)
	}
	// Asked after the scheduler: what it started a moment ago is not before its time.
	now, err := e.cfg.Ledger.Now(ctx)
	if err == nil {
		err = e.Tick(ctx, now)
	}
	err = errors.Join(errSchedule, err)
	if n%600 == 300 {
		err = errors.Join(err, e.cfg.Ledger.PruneTallies(ctx, now))
	}
	return err
}

// leave gives runs back at once, so that another control need not wait for the
// lease to run out.
func (e *Engine) leave(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	now, err := e.cfg.Ledger.Now(ctx)
	if err == nil {
		err = e.cfg.Ledger.Release(ctx, e.cfg.Owner, now)
	}
	if err != nil {
		// The lease ends by itself; nothing is lost but its seconds.
		e.cfg.Log.Warn("release runs", "err", err)
	}
	return nil
}

// Tick drives every run this control owns or can claim, one step each.
func (e *Engine) Tick(ctx context.Context, now time.Time) error {
	if err := e.writeStops(ctx); err != nil {
		return fmt.Errorf("write stops: %w", err)
	}
	held, err := e.cfg.Ledger.Hold(ctx, e.cfg.Owner, now)
	if err != nil {
		return fmt.Errorf("hold runs: %w", err)
	}
	var errs []error
	trouble := map[string]trouble{}
	for _, h := range held {
		old := e.trouble[h.Run.ID]
		err := e.drive(ctx, h, now, old)
		// Somebody else moved it: the next tick sees how it stands.
		if err == nil || errors.Is(err, ErrFenced) {
			continue
		}
		errs = append(errs, fmt.Errorf("run %s: %w", h.Run.ID, err))
		trouble[h.Run.ID] = old.again(err, now)
	}
	e.trouble = trouble // Tick is not called at once from two places
	maps.DeleteFunc(e.skewed, func(run string, _ time.Time) bool {
		return !slices.ContainsFunc(held, func(h Held) bool { return h.Run.ID == run && h.Run.State == Scheduled })
	})
	maps.DeleteFunc(e.owed, func(run string, _ bool) bool {
		return !slices.ContainsFunc(held, func(h Held) bool { return h.Run.ID == run })
	})
	errs = append(errs, e.cfg.Ledger.ExpireApprovals(ctx, now), e.seek(ctx, now))
	return errors.Join(errs...)
}

func (e *Engine) drive(ctx context.Context, h Held, now time.Time, old trouble) error {
	d := drive{Engine: e, run: h.Run, now: now, trouble: old}
	sc, err := e.parse(h.Run)
	if err != nil {
		return d.unreadable(ctx, err)
	}
	d.sc = sc
	if h.Taken {
		e.owed[h.Run.ID] = true
	}
	starts := d.run.State == Scheduled || e.owed[h.Run.ID] && (d.run.State == Arming || d.run.State == Baseline)
	if e.blind && starts {
		return nil
	}
	if e.owed[h.Run.ID] {
		done, err := d.takeOver(ctx)
		if err == nil {
			delete(e.owed, h.Run.ID)
		}
		if done || err != nil {
			return err
		}
	}
	if old.lasts(now) && d.run.State != Aborting {
		return d.giveUp(ctx)
	}
	switch d.run.State {
	case Scheduled:
		return d.scheduled(ctx)
	case Arming:
		return d.arming(ctx)
	case Baseline:
		return d.baseline(ctx)
	case Injecting:
		return d.injecting(ctx)
	case Recovering:
		return d.recovering(ctx)
	case Aborting:
		return d.aborting(ctx)
	}
	return nil
}

// parse reads the scenario of r, once for each run: what its routes are called is
// settled when it is first read, and does not change under way.
func (e *Engine) parse(r Run) (scenario.Scenario, error) {
	key := r.ID + " " + r.Hash
	e.mu.Lock()
	defer e.mu.Unlock()
	if sc, ok := e.parsed[key]; ok {
		return sc, nil
	}
	sc, err := e.read(context.Background(), r.Text)
	if err != nil {
		return sc, err
	}
	if r.Search != "" {
		sc = sc.Turned(r.Knob)
	}
	if len(e.parsed) >= 1000 {
		clear(e.parsed)
	}
	e.parsed[key] = sc
	return sc, nil
}

// read is ParseText, with names for the routes that the text calls otherwise.
func (e *Engine) read(ctx context.Context, text string) (scenario.Scenario, error) {
	sc, err := ParseText(text)
	if err != nil {
		return sc, err
	}
	// A route may take more methods than the one that is meant.
	methods := len(sc.Target.Routes) == 0 && len(sc.Target.Methods) == 0
	for _, c := range sc.Target.Calls {
		name, ok := "", false
		if e.cfg.Route != nil {
			name, ok = e.cfg.Route(ctx, sc.Target.Service, c)
		}
		if !ok {
			return sc, fmt.Errorf("target.routes: %s %s is taken by no route of %s that is known here: give the route's name", c.Method, c.Path, sc.Target.Service)
		}
		if !slices.Contains(sc.Target.Routes, name) {
			sc.Target.Routes = append(sc.Target.Routes, name)
		}
		if methods && !slices.Contains(sc.Target.Methods, c.Method) {
			sc.Target.Methods = append(sc.Target.Methods, c.Method)
		}
	}
	sc.Target.Calls = nil
	return sc, nil
}
