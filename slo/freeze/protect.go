package freeze

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// MeasureLedger keeps measures.
type MeasureLedger interface {
	// Protect calls decide with the measures that hold, and keeps what it says, in one
	// transaction that no other control has at the same time.
	Protect(ctx context.Context, now time.Time, decide func(live []Measure) Turn) (Turn, error)
	LiveMeasures(ctx context.Context) ([]Measure, error)
}

// Protector turns states of budgets into protective measures, and takes these back
// when the state leaves. It is safe for concurrent use.
type Protector struct {
	source Source
	book   *Book
	ledger MeasureLedger
	log    *slog.Logger

	mu   sync.RWMutex
	live []Measure
	away bool
}

// NewProtector returns a Protector; log may be nil.
func NewProtector(source Source, book *Book, ledger MeasureLedger, log *slog.Logger) *Protector {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Protector{source: source, book: book, ledger: ledger, log: log}
}

// Tick looks at the last evaluation and begins and ends what follows from it.
func (p *Protector) Tick(ctx context.Context, now time.Time) error {
	now = now.UTC().Truncate(time.Microsecond)
	wanted, blind := Wanted(p.book.Known().Policies, p.source.Statuses(), now)
	var live []Measure
	turn, err := p.ledger.Protect(ctx, now, func(holds []Measure) Turn {
		turn := Turned(holds, wanted, blind, now)
		live = turn.after(holds)
		return turn
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		if !p.away {
			p.log.Error("protective measures are not decided on; those in force hold by their leases", "err", err)
		}
		p.away = true
		return fmt.Errorf("measures: %w", err)
	}
	p.away, p.live = false, live
	for _, m := range turn.End {
		p.log.Warn("protective measure ended", "service", m.Service, "env", m.Env, "measure", m.Kind, "id", m.ID, "dry_run", m.DryRun, "why", m.Ended)
	}
	for _, m := range turn.Start {
		p.log.Warn("protective measure begun", "service", m.Service, "env", m.Env, "measure", m.Kind, "id", m.ID, "dry_run", m.DryRun, "reason", m.Reason)
	}
	return nil
}

// after is what holds once t has happened to holds.
func (t Turn) after(holds []Measure) []Measure {
	gone, seen := map[string]bool{}, map[string]Measure{}
	for _, m := range t.End {
		gone[m.ID] = true
	}
	for _, m := range t.Seen {
		seen[m.ID] = m
	}
	var out []Measure
	for _, m := range holds {
		if again, ok := seen[m.ID]; ok {
			m = again
		}
		if !gone[m.ID] {
			out = append(out, m)
		}
	}
	return append(out, t.Start...)
}

// Live lists the measures to be obeyed at now, as this control last knew them.
func (p *Protector) Live(now time.Time) []Measure {
	p.mu.RLock()
	defer p.mu.RUnlock()
	return obeyed(p.live, now)
}

// Ordered lists the measures to be obeyed at now as the ledger has them, so that every
// control tells gateways the same.
func (p *Protector) Ordered(ctx context.Context, now time.Time) ([]Measure, error) {
	live, err := p.ledger.LiveMeasures(ctx)
	return obeyed(live, now), err
}

func obeyed(all []Measure, now time.Time) []Measure {
	var out []Measure
	for _, m := range all {
		if m.Live(now) {
			out = append(out, m)
		}
	}
	return out
}

// Bars says what the measures in force at now do to experiments on service: stop is
// why those under way must end, refuse why none may start; "": nothing.
func (p *Protector) Bars(service string, now time.Time) (stop, refuse string) {
	for _, m := range p.Live(now) {
		if m.Service != service || m.Kind != StopAll && m.Kind != RefuseAll {
			continue
		}
		refuse = fmt.Sprintf("%s, by measure %s of %s: %s", m.Text(), m.ID, list(m.Policies), m.Reason)
		if m.Kind == StopAll {
			return refuse, refuse
		}
	}
	return "", refuse
}

func list(policies []string) string {
	text := "policy"
	if len(policies) > 1 {
		text = "policies"
	}
	for i, p := range policies {
		if i > 0 {
			text += ","
		}
		text += " " + p
	}
	return text
}

// Run ticks every second until ctx ends.
func (p *Protector) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		each, cancel := context.WithTimeout(ctx, 10*time.Second)
		_ = p.Tick(each, time.Now()) // logged when it begins to fail
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
