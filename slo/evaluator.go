package slo

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

// Config is what an Evaluator needs.
type Config struct {
	Policy Policy // zero: DefaultPolicy
	// PolicyFor is the policy of one service in one environment; nil: Policy for all.
	PolicyFor func(service, env string) Policy
	Every     time.Duration // of Run; zero: a second
	// Whole is how often coverage and forecasts are made anew; zero: 30 s.
	Whole time.Duration
	Log   *slog.Logger // nil: none
}

// Health says whether evaluation works, and since when it does not.
type Health struct {
	LastAt    time.Time // last good evaluation; zero: none yet
	AwaySince time.Time // first failure since; zero: all is well
	Err       string
}

// Evaluator weighs every objective again and again, and remembers the last good
// evaluation for whoever asks. It is safe for concurrent use; Tick runs one at a
// time, and several replicas may tick on one ledger.
type Evaluator struct {
	ledger Ledger
	cfg    Config

	tick    sync.Mutex // held through a Tick
	wholeAt time.Time
	slow    map[key]slow
	blind   bool // some promise is unknown for want of coverage

	mu     sync.RWMutex
	last   []Status
	limits map[string]time.Duration
	health Health
}

type key struct{ objective, env string }

// slow is what is kept from one whole reading to the next.
type slow struct {
	revision int64
	coverage int64
	reported Tally    // its Lost, MeasuredMins and ExpectedMins
	hours    [][]Slot // of each part
	groups   []GroupSums
	thawAt   time.Time
	thawFor  State // the clocks thawAt was made from
}

// NewEvaluator returns an Evaluator over ledger.
func NewEvaluator(ledger Ledger, cfg Config) *Evaluator {
	if cfg.Policy == (Policy{}) {
		cfg.Policy = DefaultPolicy()
	}
	if cfg.Every == 0 {
		cfg.Every = time.Second
	}
	if cfg.Whole == 0 {
		cfg.Whole = 30 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Evaluator{ledger: ledger, cfg: cfg, slow: map[key]slow{}}
}

// Policy is the freeze policy of who has none of their own.
func (e *Evaluator) Policy() Policy { return e.cfg.Policy }

func (e *Evaluator) policyFor(service, env string) Policy {
	if e.cfg.PolicyFor == nil {
		return e.cfg.Policy
	}
	return e.cfg.PolicyFor(service, env)
}

// Statuses returns the last good evaluation, by service and objective. Each
// Status says when it was made and until when its data reaches; with the ledger
// away it stays what it was. All who ask share them: they may not be changed (Only
// picks some).
func (e *Evaluator) Statuses() []Status {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.last
}

// Limit is the latency limit that ingest is to count a service's requests by: that
// of its latency objective, 0 for none.
func (e *Evaluator) Limit(service, _ string) time.Duration {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.limits[service]
}

// Health says whether the last Tick worked.
func (e *Evaluator) Health() Health {
	e.mu.RLock()
	defer e.mu.RUnlock()
	return e.health
}

// Run evaluates every Config.Every until ctx ends.
func (e *Evaluator) Run(ctx context.Context) error {
	t := time.NewTicker(e.cfg.Every)
	defer t.Stop()
	for {
		// A tick may not outlast the ledger's patience: a dead connection must
		// show as "away", not as a page that silently grows old.
		each, cancel := context.WithTimeout(ctx, max(10*time.Second, 2*e.cfg.Every))
		_ = e.Tick(each, time.Now().UTC()) // kept in Health, logged by Tick
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Tick evaluates every objective at now and stores what it decided. On an error
// the last evaluation stays, and Health says since when.
func (e *Evaluator) Tick(ctx context.Context, now time.Time) error {
	e.tick.Lock()
	defer e.tick.Unlock()
	now = now.UTC().Truncate(time.Microsecond) // as the ledger keeps it
	statuses, err := e.evaluate(ctx, now)
	e.mu.Lock()
	defer e.mu.Unlock()
	if err != nil {
		if e.health.AwaySince.IsZero() && ctx.Err() != context.Canceled {
			e.health.AwaySince = now
			e.cfg.Log.Error("evaluation stopped", "err", err, "last_at", e.health.LastAt)
		}
		e.health.Err = err.Error()
		return err
	}
	if !e.health.AwaySince.IsZero() {
		e.cfg.Log.Info("evaluation resumed", "away_seconds", int64(now.Sub(e.health.AwaySince).Seconds()))
	}
	limits := map[string]time.Duration{}
	for _, s := range statuses {
		if l := s.Objective.Limit(); l > 0 {
			limits[s.Objective.Service] = l
		}
	}
	e.last, e.limits, e.health = statuses, limits, Health{LastAt: now}
	return nil
}

func (e *Evaluator) evaluate(ctx context.Context, now time.Time) ([]Status, error) {
	every := e.cfg.Whole
	if e.blind {
		every = min(every, blindWhole)
	}
	whole := e.wholeAt.IsZero() || now.Sub(e.wholeAt) >= every || now.Before(e.wholeAt)
	if whole {
		if err := e.ledger.RollUp(ctx); err != nil {
			return nil, fmt.Errorf("roll up: %w", err)
		}
	}
	read, err := e.ledger.ReadBudgets(ctx, Question{Now: now, Whole: whole})
	if err != nil {
		return nil, fmt.Errorf("read budgets: %w", err)
	}
	if !whole && e.strangers(read) {
		// A new or changed objective has no coverage yet, and none would read as
		// missing data: ask again, for everything.
		whole = true
		if read, err = e.ledger.ReadBudgets(ctx, Question{Now: now, Whole: true}); err != nil {
			return nil, fmt.Errorf("read budgets: %w", err)
		}
	}
	if whole {
		fresh := make(map[key]slow, len(read))
		for _, m := range read {
			known := slow{revision: m.Objective.Revision, coverage: m.CoveragePPM, reported: m.Reported, groups: m.Groups}
			for _, p := range m.Parts {
				known.hours = append(known.hours, p.Hours)
			}
			fresh[keyOf(m)] = known
		}
		e.slow, e.wholeAt = fresh, now
	}

	statuses := make([]Status, 0, len(read))
	changes := make([]Change, 0, len(read))
	for _, m := range read {
		s, c, err := e.weigh(ctx, m, now)
		if err != nil {
			return nil, err
		}
		statuses = append(statuses, s)
		if m.Seen { // else there is no state to keep
			changes = append(changes, c)
		}
	}
	if err := e.ledger.WriteBudgets(ctx, changes); err != nil {
		return nil, fmt.Errorf("write states: %w", err)
	}
	e.blind = slices.ContainsFunc(statuses, func(s Status) bool { return s.Level == Unknown && s.Env != "" })
	for _, c := range changes {
		if c.Moved() {
			e.cfg.Log.Info("budget level changed", "service", c.Service, "env", c.Env, "objective", c.Objective,
				"from", c.From.Level, "to", c.To.Level, "reason", c.To.Reason)
		}
	}
	slices.SortStableFunc(statuses, func(a, b Status) int {
		return cmp.Or(cmp.Compare(a.Objective.Service, b.Objective.Service), cmp.Compare(a.Objective.ID, b.Objective.ID), cmp.Compare(a.Env, b.Env))
	})
	return statuses, nil
}

// blindWhole is how often coverage is made anew while the want of it leaves a
// promise unknown: a first start should not have to wait for the slow reading.
const blindWhole = 2 * time.Second

func keyOf(m Measured) key { return key{m.Objective.ID, m.Env} }

func (e *Evaluator) strangers(read []Measured) bool {
	return slices.ContainsFunc(read, func(m Measured) bool {
		known, ok := e.slow[keyOf(m)]
		return !ok || known.revision != m.Objective.Revision
	})
}

// weigh turns one reading into its status and its next state.
func (e *Evaluator) weigh(ctx context.Context, m Measured, now time.Time) (Status, Change, error) {
	known := e.slow[keyOf(m)]
	m.Reported = known.reported
	o, r := m.Objective, read(m)
	policy := e.policyFor(o.Service, m.Env)
	sight := r.measurement(known.coverage)
	next := Next(policy, m.State, sight, now)
	s := Status{
		Objective: o, Env: m.Env, At: now, DataUntil: m.DataUntil, From: r.frame.Running.From, To: r.frame.End,
		Budget: r.budget(), CoveragePPM: known.coverage, Blind: policy.Blind(sight),
		Level: next.Level, Measured: next.Measured, Since: next.Since, Reason: next.Reason,
		FrozenAt: next.FrozenAt, GoodSince: next.GoodSince, Corrections: m.Corrections,
	}
	if o.Plain() && !o.Sliced() {
		s.FirstTry = Weigh(o, FirstTry(r.running))
	}
	for i, w := range o.Windows() {
		b := Burning(o, w, nthTally(r.burns, i))
		b.SpentPPM = SpentBy(o.TargetPPB, b.Bad, s.Budget.Base)
		s.Burns = append(s.Burns, b)
	}
	for _, g := range known.groups {
		t, _ := o.Tally(g.Sums)
		s.Groups = append(s.Groups, Group{ID: o.ID + ":" + g.Name, Name: g.Name, Budget: Weigh(o, t)})
	}
	hours := r.hours(known.hours)
	s.Spark = spark(o, hours, m.DataUntil)
	// Made with every evaluation, from this evaluation's counts: a forecast that
	// lags the budget beside it would still promise a week in the middle of an
	// outage. It looks once at each hour of the window, so it costs microseconds.
	if next.Measured != Frozen && s.Blind == "" {
		s.EmptyAt = emptyAt(o.TargetPPB, r.walk(m, known.hours, lastHour(s, hours), now), now, now.Add(o.Window))
	}
	if next.Level == Frozen {
		at, err := e.thaw(ctx, m, r, &known, next, now)
		if err != nil {
			return s, Change{}, err
		}
		s.ThawAt = at
		e.slow[keyOf(m)] = known
	}
	return s, Change{Objective: o.ID, Service: o.Service, Env: m.Env, From: m.State, To: next, Status: s}, nil
}

// lastHour is the pace of the last hour, of less where there was less.
func lastHour(s Status, hours []Slot) Pace {
	hour := s.Burn(time.Hour)
	seen := PaceOf(hours, s.DataUntil.Add(-2*time.Hour), s.DataUntil).Per
	return Pace{Valid: hour.Valid, Bad: hour.Bad, Per: min(time.Hour, max(seen, step))}
}

// thaw walks the minutes of the window, which are many: only anew when a whole
// reading was made or one of the freeze's clocks was set.
func (e *Evaluator) thaw(ctx context.Context, m Measured, r reading, known *slow, s State, now time.Time) (time.Time, error) {
	if known.thawFor.FrozenAt.Equal(s.FrozenAt) && known.thawFor.GoodSince.Equal(s.GoodSince) && !known.thawFor.FrozenAt.IsZero() {
		return known.thawAt, nil
	}
	slots := known.hours
	// Minutes are kept for 35 days; of a longer promise the hours must do.
	if o := m.Objective; !o.Sliced() && o.Window <= 35*24*time.Hour && o.terms().Calendar == nil {
		slots = nil
		for _, p := range m.Parts {
			minutes, err := e.ledger.ReadMinutes(ctx, p.Objective, m.Env, r.frame.Running.From, r.frame.Running.To)
			if err != nil {
				return time.Time{}, fmt.Errorf("read the minutes of %s: %w", p.Objective.ID, err)
			}
			slots = append(slots, correctSlots(minutes, r.removed, r.up))
		}
	}
	pace := PaceOf(r.hours(known.hours), r.frame.Running.To.Add(-min(24*time.Hour, m.Objective.Window)), r.frame.Running.To)
	pace.Bad = 0
	known.thawAt, known.thawFor = thawAt(e.policyFor(m.Objective.Service, m.Env), m.Objective, s, r.walk(m, slots, pace, now), now), s
	return known.thawAt, nil
}

func burnOf(burns []Burn, window time.Duration) Burn {
	for _, b := range burns {
		if b.Window == window {
			return b
		}
	}
	return Burn{Window: window, NoData: true}
}

// Burn returns the burn rate over window, NoData if it was not measured.
func (s Status) Burn(window time.Duration) Burn { return burnOf(s.Burns, window) }

// Worst returns the status that rules a set, the most alarming level first, then
// the least budget; false for an empty set. The reason of the set is its reason.
//
// An informational objective rules nothing, unless there is no other.
func Worst(set []Status) (Status, bool) {
	if len(set) == 0 {
		return Status{}, false
	}
	worst := &set[0]
	for i := range set[1:] {
		if s := &set[i+1]; s.Rules(worst) {
			worst = s
		}
	}
	return *worst, true
}

// Rules reports whether s rules a set that t is in, rather than t.
func (s *Status) Rules(t *Status) bool {
	if a, b := s.Objective.terms().Informational, t.Objective.terms().Informational; a != b {
		return b
	}
	return cmp.Or(cmp.Compare(Rank(t.Level), Rank(s.Level)), cmp.Compare(s.Budget.RemainingPPM, t.Budget.RemainingPPM)) < 0
}

// Only returns those of set that keep says to: sets are shared, so a new one.
func Only(set []Status, keep func(*Status) bool) []Status {
	var out []Status
	for i := range set {
		if keep(&set[i]) {
			out = append(out, set[i])
		}
	}
	return out
}

// Rank orders levels by alarm. Unknown stands above normal and below a level
// that is known to be bad.
func Rank(l Level) int {
	return slices.Index([]Level{Normal, Unknown, Warn, Emergency, Frozen}, l)
}
