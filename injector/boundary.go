package injector

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/injector/scenario"
	"breakwater/injector/search"
)

// Search looks for the amount of one fault that a system bears. Each probe is a run
// of its own, with its own baseline, guards, lease and verdict.
type Search struct {
	ID       string `json:"id"`
	Scenario string `json:"scenario"`
	Title    string `json:"title"`
	Service  string `json:"service"`
	Text     string `json:"-"` // kept with its runs
	Hash     string `json:"hash"`
	Actor    string `json:"actor"`
	// Follows is the run whose failure began it; "": somebody asked for it.
	Follows string `json:"follows,omitempty"`
	CapPPM  int64  `json:"cap_ppm,omitempty"` // of the budget, for each probe; 0: what the scenario says

	Knob   string        `json:"knob"`
	Fault  string        `json:"fault,omitempty"`
	Spec   search.Spec   `json:"spec"`
	Probes []SearchProbe `json:"probes"`
	// Run is the probe under way, Value its amount; "": the system calms down.
	Run   string `json:"run,omitempty"`
	Value int64  `json:"value"`

	Verdict search.Verdict `json:"verdict,omitempty"`
	Reason  string         `json:"reason,omitempty"` // of an inconclusive one
	Why     string         `json:"why,omitempty"`
	Pass    int64          `json:"pass"` // only where Verdict is found
	Fail    int64          `json:"fail"`
	// Settings name the timeouts, retries and breaker that it was found under.
	Settings string `json:"settings"`
	// Previous is the search before of the same scenario and knob that had an outcome.
	Previous string        `json:"previous,omitempty"`
	Change   search.Change `json:"change,omitempty"`

	StartedAt time.Time `json:"started_at"`
	CalmSince time.Time `json:"calm_since"` // since when the next probe waits
	EndedAt   time.Time `json:"ended_at,omitzero"`

	Owner string `json:"-"`
	Stop  string `json:"-"` // somebody wants it to end
}

// SearchProbe is one run of a search that has ended.
type SearchProbe struct {
	Run      string        `json:"run"`
	Value    int64         `json:"value"`
	Result   search.Result `json:"result"`
	Why      string        `json:"why"`
	Attempts int64         `json:"attempts"`
	Injected int64         `json:"injected"`
	Requests int64         `json:"requests"`
}

// Ended reports whether nothing follows.
func (s Search) Ended() bool { return !s.EndedAt.IsZero() }

// Boundary is what s is compared by.
func (s Search) Boundary() search.Boundary {
	return search.Boundary{Verdict: s.Verdict, Pass: s.Pass, Fail: s.Fail, Settings: s.Settings}
}

// SearchLedger keeps searches.
type SearchLedger interface {
	// AddSearch inserts s, leased to its owner at now: ErrOverlap where one is under
	// way on its service.
	AddSearch(ctx context.Context, s Search, now time.Time) error
	// SaveSearch writes s where its owner still holds it, else ErrFenced.
	SaveSearch(ctx context.Context, s Search) error
	// HoldSearches renews what owner drives, and takes what a control left behind.
	HoldSearches(ctx context.Context, owner string, now time.Time) (mine, left []Search, err error)
	// StopSearch asks the owner to end it: ErrNotFound, or ErrStep of one that ended.
	StopSearch(ctx context.Context, id, reason string) error
	Search(ctx context.Context, id string) (Search, error)
	// Searches lists them, the newest first; scenario "" lists all.
	Searches(ctx context.Context, scenario string, limit int) ([]Search, error)
}

// Why a search ends without an answer, beside what ends a run.
const (
	NotCalm Reason = "not_calm" // the system did not settle after a probe
)

// calmWithin is how long a probe waits for the system to settle, or for another run
// to end.
const calmWithin = 30 * time.Minute

// ErrNoSearch means that a scenario does not say what to look for.
var ErrNoSearch = errors.New("the scenario has no search block")

// Seek begins a search of a scenario; a document wins over an id.
func (e *Desk) Seek(ctx context.Context, id, document, actor string) (Search, error) {
	if document == "" {
		var err error
		if document, err = e.document(ctx, id); err != nil {
			return Search{}, err
		}
	}
	sc, err := e.read(ctx, document)
	switch {
	case err != nil:
		return Search{}, &DocumentError{err}
	case sc.Search == nil:
		return Search{}, &DocumentError{ErrNoSearch}
	case !e.cfg.Covers(ctx, sc.Target.Service):
		return Search{}, fmt.Errorf("service %s: %w", sc.Target.Service, ErrScope)
	}
	now, err := e.cfg.Ledger.Now(ctx)
	if err != nil {
		return Search{}, err
	}
	halt, err := e.Halted(ctx)
	if err != nil {
		return Search{}, err
	}
	if !halt.At.IsZero() {
		return Search{}, ErrHalted
	}
	if no := grant(e.cfg.Budgets, sc.Target.Service, 0); no.Reason != "" {
		return Search{}, fmt.Errorf("%s: %w", no.Text, ErrFrozen)
	}
	s, err := e.newSearch(ctx, sc, actor, now)
	if err != nil {
		return Search{}, err
	}
	if err := e.cfg.Audit(ctx, actor, "search.start", s.ID, "scenario "+sc.ID+" document "+s.Hash); err != nil {
		return Search{}, err
	}
	return s, e.cfg.Ledger.AddSearch(ctx, s, now)
}

// newSearch is owned by this control: a search is never resumed by another one.
func (e *Engine) newSearch(ctx context.Context, sc scenario.Scenario, actor string, now time.Time) (Search, error) {
	facts, err := e.facts(ctx, sc, now, "")
	if err != nil {
		return Search{}, err
	}
	x := sc.Search
	return Search{
		ID: "s" + strings.TrimPrefix(runID(now, strings.ToLower(rand.Text())), "r"), Scenario: sc.ID, Title: sc.Title, Service: sc.Target.Service,
		Text: sc.Text, Hash: hashText(sc.Text), Actor: actor, Knob: string(x.Knob), Fault: x.Fault,
		Spec:     search.Spec{Hard: x.From, Soft: x.To, Resolution: x.Finest(facts.PerTry)},
		Settings: settingsOf(facts), StartedAt: now, CalmSince: now, Owner: e.cfg.Owner,
	}, nil
}

// settingsOf names what a boundary depends on: two boundaries under other ones are no
// regression of the system, but the doing of who changed them.
func settingsOf(f scenario.Facts) string {
	return hashJSON(struct {
		PerTry  time.Duration
		Retries int
		GatePPM int64
		Breaker *scenario.BreakerRule
	}{f.PerTry, f.Retries, f.GatePPM, f.Breaker})
}

// followed begins the search that a document asks for after its run.
func (e *Engine) followed(ctx context.Context, r Run, sc scenario.Scenario, verdict Verdict, now time.Time) error {
	x := sc.Search
	if x == nil || r.Search != "" || verdict != Failed && !(verdict == Passed && x.When == "always") {
		return nil
	}
	s, err := e.newSearch(ctx, sc, r.Actor, now)
	if err != nil {
		return err
	}
	s.Follows, s.CapPPM = r.ID, r.CapPPM
	if sc.Turn() == x.From {
		s.Probes = []SearchProbe{probeOf(r, x.From, verdict)}
	}
	if err := e.cfg.Audit(ctx, "engine", "search.start", s.ID, "after run "+r.ID+" document "+s.Hash); err != nil {
		return err
	}
	err = e.cfg.Ledger.AddSearch(ctx, s, now)
	text := "the search " + s.ID + " looks for the boundary"
	if errors.Is(err, ErrOverlap) {
		text, err = "no search begins: another one is under way on "+s.Service, nil
	}
	if err != nil {
		return err
	}
	return e.cfg.Ledger.Note(ctx, Event{At: now, Run: r.ID, Kind: "note", Text: text, Actor: "engine"})
}

func probeOf(r Run, value int64, verdict Verdict) SearchProbe {
	p := SearchProbe{Run: r.ID, Value: value, Result: search.None, Why: r.Why, Attempts: r.Attempts, Injected: r.Injected, Requests: r.Good + r.Bad}
	switch verdict {
	case Passed:
		p.Result = search.Pass
	case Failed:
		p.Result = search.Fail
	}
	if p.Why == "" {
		p.Why = r.Reason
	}
	return p
}

// Abandon ends a search, and the probe that is under way.
func (e *Desk) Abandon(ctx context.Context, id, actor string) error {
	if !Nameable(id) {
		return fmt.Errorf("search %q: %w", id, ErrNotFound)
	}
	s, err := e.cfg.Ledger.Search(ctx, id)
	if err != nil || s.Ended() {
		return err
	}
	// First the probe: what hits users ends at once, whoever drives the search.
	if s.Run != "" {
		if err := e.Abort(ctx, s.Run, actor); err != nil {
			return err
		}
	}
	if err := e.cfg.Audit(ctx, actor, "search.abort", id, "after "+fmt.Sprint(len(s.Probes))+" probes"); err != nil {
		return err
	}
	if err := e.cfg.Ledger.StopSearch(ctx, id, string(ByUser)); err != nil && !errors.Is(err, ErrStep) {
		return err
	}
	return nil
}

// Boundary returns one search.
func (e *Desk) Boundary(ctx context.Context, id string) (Search, error) {
	if !Nameable(id) {
		return Search{}, fmt.Errorf("search %q: %w", id, ErrNotFound)
	}
	return e.cfg.Ledger.Search(ctx, id)
}

// Boundaries lists searches, the newest first; scenario "" lists all.
func (e *Desk) Boundaries(ctx context.Context, scenario string, limit int) ([]Search, error) {
	if !Nameable(scenario) {
		return nil, nil
	}
	return e.cfg.Ledger.Searches(ctx, scenario, limit)
}

// final are the reasons after which a search goes no further: nobody makes the next
// probe of what somebody has just stopped, or what this control has lost.
func final(r Reason) bool {
	return slices.Contains([]Reason{ByUser, ByHalt, Halted, ByFreeze, ByEngine, ByGateway, ByRefusal, ByTrouble, ByRadius, NoBudget, NoReading,
		BadText, NoGateway, Missed}, r)
}
