package gateway

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"breakwater/gateway/plan"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/policy/shed"
	"breakwater/internal/retrylog"
)

// measures puts control's protective measures to work. Requests never come here:
// what they read are a shedder's floor and a limiter's pace. Each measure ends at
// its lease, by this process's monotonic clock, whether control lives or not.
type measures struct {
	g    *Gateway
	wake chan struct{}

	mu   sync.Mutex
	held []plan.Held
	told map[string]plan.Held // in force, and known to be: by id
	// What is set now, by service and by route; what is not in them is as configured.
	floors  map[string]bool
	changes map[string]limiter.Change
}

func newMeasures(g *Gateway) *measures {
	return &measures{g: g, wake: make(chan struct{}, 1), told: map[string]plan.Held{}, floors: map[string]bool{}, changes: map[string]limiter.Change{}}
}

// Protect makes held the measures in force, each until its lease ends. Those it does
// not name end now.
func (g *Gateway) Protect(held []plan.Held) {
	m := g.measures
	m.mu.Lock()
	m.held = slices.SortedFunc(slices.Values(held), func(a, b plan.Held) int { return cmp.Compare(a.ID, b.ID) })
	m.mu.Unlock()
	m.settle(time.Now())
	select {
	case m.wake <- struct{}{}:
	default: // it is to look anyway
	}
}

// run ends measures at their time, until ctx ends.
func (m *measures) run(ctx context.Context) {
	for {
		timer := time.NewTimer(m.settle(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-m.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// far is the wait where nothing is due.
const far = time.Hour

// settle brings what is set in line with what is in force at now, tells of what
// began and ended, and returns when to look again.
func (m *measures) settle(now time.Time) (next time.Duration) {
	s := m.g.now.Load()
	if s == nil {
		return far // Apply settles
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	next = far
	live := map[string]plan.Held{}
	floors, changes := map[string]plan.Held{}, map[string][]plan.Measure{}
	for _, h := range m.held {
		left := h.Until.Sub(now)
		if left <= 0 || !m.here(h.Measure, s) || faulty(h.Measure) != "" {
			continue
		}
		next = min(next, left)
		live[h.ID] = h
		switch h.Kind {
		case plan.Shed:
			if was, ok := floors[h.Service]; !ok || was.Lowest != plan.TierCritical {
				floors[h.Service] = h
			}
		case plan.Limit:
			changes[h.Service] = append(changes[h.Service], h.Measure)
		}
	}
	m.shed(floors, now)
	m.limit(s, changes, now)
	m.tell(live)
	return next
}

// here reports whether x is meant for this gateway.
func (m *measures) here(x plan.Measure, s *snapshot) bool {
	return x.Env == "" || s.env == "" || x.Env == s.env
}

// faulty says why x cannot be obeyed; "": it can. Half a measure is none: a
// direction that is missing may have been meant either way.
func faulty(x plan.Measure) string {
	switch x.Kind {
	case plan.Shed:
		if x.Lowest != plan.TierDefault && x.Lowest != plan.TierCritical {
			return fmt.Sprintf("lowest must be default or critical, got %q", x.Lowest)
		}
	case plan.Limit:
		if x.Direction != plan.Tighten && x.Direction != plan.Relax {
			return fmt.Sprintf("direction must be tighten or relax, got %q", x.Direction)
		}
		if x.FactorPPM <= 0 && (x.Tokens <= 0 || x.PerMS <= 0) {
			return "it names neither a factor nor a rate"
		}
	case plan.StopExperiments, plan.RefuseExperiments:
	default:
		return fmt.Sprintf("kind %q is not known here", x.Kind)
	}
	return ""
}

func (m *measures) shed(floors map[string]plan.Held, now time.Time) {
	p := m.g.policies
	p.mu.Lock()
	own := map[string]*shed.Shedder{}
	for name, guards := range p.services {
		own[name] = guards.shed
	}
	p.mu.Unlock() // a shedder tells of its change, which must not wait for others
	for name, s := range own {
		h, wanted := floors[name]
		switch {
		case wanted:
			s.SetFloor(shed.Tier(h.Lowest), h.Until, now)
			m.floors[name] = true
		case m.floors[name]:
			s.SetFloor(shed.Sheddable, now, now)
			delete(m.floors, name)
		}
	}
}

// limit changes the limiters of routes that have a rate of their own.
func (m *measures) limit(s *snapshot, changes map[string][]plan.Measure, now time.Time) {
	p := m.g.policies
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range s.routes {
		own := p.limiters[c.route.Name]
		if own == nil {
			continue
		}
		want, wanted := strictestOf(changes[c.route.Service])
		if !own.Changed(want) {
			continue
		}
		own.Change(want, now)
		m.changes[c.route.Name] = want
		if !wanted {
			delete(m.changes, c.route.Name)
		}
	}
	for name := range m.changes {
		if !slices.ContainsFunc(s.routes, func(c compiled) bool { return c.route.Name == name }) {
			delete(m.changes, name) // the route is gone, and its limiter
		}
	}
	m.limitQuotas(s, changes, now)
}

// strictestOf is what the measures of a service make of its rates; false: nothing.
func strictestOf(all []plan.Measure) (want limiter.Change, wanted bool) {
	for _, x := range all {
		if next := changeOf(x); !wanted || stricter(next, want) {
			want, wanted = next, true
		}
	}
	return want, wanted
}

func changeOf(x plan.Measure) limiter.Change {
	c := limiter.Change{FactorPPM: max(x.FactorPPM, 0), Relax: x.Direction == plan.Relax}
	if x.Tokens > 0 && x.PerMS > 0 {
		burst := x.Burst
		if burst <= 0 {
			burst = x.Tokens
		}
		c.To = limiter.Rate{Tokens: min(x.Tokens, limiter.MaxTokens), Per: time.Duration(min(x.PerMS, limiter.MaxPer.Milliseconds())) * time.Millisecond, Burst: min(burst, limiter.MaxBurst)}
	}
	return c
}

// stricter reports whether a lets less through than b. Control merges its policies
// into one measure for a service, so this decides only between two controls.
func stricter(a, b limiter.Change) bool {
	if a.Relax != b.Relax {
		return b.Relax
	}
	return a.FactorPPM > 0 && (b.FactorPPM == 0 || a.FactorPPM < b.FactorPPM)
}

// tell makes known what began and what ended.
func (m *measures) tell(live map[string]plan.Held) {
	for id, h := range live {
		if _, known := m.told[id]; !known {
			m.g.changed(retrylog.Transition{Policy: "measure", Service: h.Service, From: "none", To: effect(h.Measure), Reason: h.Reason})
		}
		m.told[id] = h
	}
	for id, h := range m.told {
		if _, still := live[id]; !still {
			delete(m.told, id)
			m.g.changed(retrylog.Transition{Policy: "measure", Service: h.Service, From: effect(h.Measure), To: "none", Reason: m.why(id)})
		}
	}
}

// why says what ended a measure.
func (m *measures) why(id string) string {
	if slices.ContainsFunc(m.held, func(h plan.Held) bool { return h.ID == id }) {
		return "its lease is over and control has not renewed it"
	}
	return "control has taken it back"
}

// effect is what x does, as a word of few.
func effect(x plan.Measure) string {
	if x.Kind == plan.Limit {
		return "limit_" + x.Direction
	}
	return x.Kind
}

type activeMeasure struct{ service, effect string }

// active are the measures in force, for metrics.
func (m *measures) active(now time.Time) map[activeMeasure]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := map[activeMeasure]bool{}
	for _, h := range m.told {
		if now.Before(h.Until) {
			out[activeMeasure{h.Service, effect(h.Measure)}] = true
		}
	}
	return out
}
