package freeze

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// Direction says which way a limit is changed. "Widen the limiter threshold" has been
// read both ways, so there is no default.
type Direction string

// The directions.
const (
	Tighten Direction = "tighten"
	Relax   Direction = "relax"
)

// LimitChange alters the rates of a service's routes: to a part of each, to a rate, or
// to the smaller of the two.
type LimitChange struct {
	Direction Direction     `json:"direction"`
	FactorPPM int64         `json:"factor_ppm,omitempty"`
	Tokens    int64         `json:"tokens,omitempty"`
	Per       time.Duration `json:"per_ns,omitempty"`
	Burst     int64         `json:"burst,omitempty"`
}

// Drills says what becomes of experiments.
type Drills string

// The choices, the milder first.
const (
	RefuseDrills Drills = "refuse" // none starts
	StopDrills   Drills = "stop"   // none starts, and those under way end
)

// The tiers that can be the lowest one served.
const (
	KeepDefault  = "default"
	KeepCritical = "critical"
)

// Act is what a state of the budget calls for beside the freeze of releases, to
// protect those who use the service.
type Act struct {
	// From is the mildest state in which it holds; it holds in worse ones too.
	From slo.Level `json:"from"`
	// Keep is the lowest tier that gateways go on to serve; "": all.
	Keep   string       `json:"keep,omitempty"`
	Limit  *LimitChange `json:"limit,omitempty"`
	Drills Drills       `json:"experiments,omitempty"`
	// Deploys caps how many may be under way at the same time; nil: nothing does.
	Deploys *Cap `json:"deploys,omitempty"`
}

// MeasureKind is what a measure does.
type MeasureKind string

// The kinds: the first two as the plan of gateways has them, the others are control's.
const (
	Shed      MeasureKind = "shed"
	Limit     MeasureKind = "limit"
	StopAll   MeasureKind = "stop_experiments"
	RefuseAll MeasureKind = "refuse_experiments"
	// CapDeploys is obeyed by the release gate.
	CapDeploys MeasureKind = "cap_deploys"
)

// Measure is one protective action on one service, from when its state called for it
// until it no longer does.
type Measure struct {
	ID       string       `json:"id"`
	Kind     MeasureKind  `json:"kind"`
	Service  string       `json:"service"`
	Env      string       `json:"env"`
	Keep     string       `json:"keep,omitempty"`
	Limit    *LimitChange `json:"limit,omitempty"`
	Cap      *Cap         `json:"deploys,omitempty"`
	State    slo.Level    `json:"state"`    // that called for it
	Policies []string     `json:"policies"` // that ask for it
	Reason   string       `json:"reason"`
	// DryRun: every policy that asks for it only tries itself out; nothing is done.
	DryRun bool      `json:"dry_run,omitempty"`
	From   time.Time `json:"from"`
	// SeenAt is the last evaluation known to have called for it.
	SeenAt  time.Time  `json:"seen_at"`
	EndedAt *time.Time `json:"ended_at"`
	Ended   string     `json:"ended,omitempty"` // why
}

// Lapse is how long a measure outlives the last evaluation that called for it: as
// long as a gateway's lease outlives control.
const Lapse = 10 * time.Minute

// Live reports whether m is to be obeyed at now.
func (m Measure) Live(now time.Time) bool {
	return m.EndedAt == nil && !m.DryRun && now.Sub(m.SeenAt) < Lapse
}

// Text is what m does, in words.
func (m Measure) Text() string {
	switch m.Kind {
	case Shed:
		if m.Keep == KeepCritical {
			return "requests below tier critical are shed"
		}
		return "sheddable requests are shed"
	case Limit:
		return m.Limit.text()
	case StopAll:
		return "experiments are stopped, and none starts"
	case CapDeploys:
		return m.Cap.text()
	}
	return "no experiment starts"
}

func (c LimitChange) text() string {
	var to []string
	if c.FactorPPM > 0 {
		to = append(to, percentOf(c.FactorPPM))
	}
	if c.Tokens > 0 {
		to = append(to, fmt.Sprintf("%d per %s", c.Tokens, slo.Span(c.Per)))
	}
	verb := map[Direction]string{Tighten: "tightened", Relax: "relaxed"}[c.Direction]
	return fmt.Sprintf("rate limits are %s to %s", verb, strings.Join(to, " or, if less, "))
}

// percentOf is a factor as text; slo.Percent stops at 100 %.
func percentOf(ppm int64) string {
	whole, rest := ppm/10_000, ppm%10_000
	if rest == 0 {
		return fmt.Sprintf("%d%%", whole)
	}
	return fmt.Sprintf("%d.%s%%", whole, strings.TrimRight(fmt.Sprintf("%04d", rest), "0"))
}

// content names what m does and for whom, without when: two measures of the same
// content are the same measure.
func (m Measure) content() string {
	m.ID, m.From, m.SeenAt, m.EndedAt, m.Ended, m.Reason, m.State, m.Policies = "", time.Time{}, time.Time{}, nil, "", "", "", nil
	text, err := json.Marshal(m)
	if err != nil {
		panic("freeze: a measure did not marshal: " + err.Error())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}

// protection is what all policies together ask for, dry runs apart.
type protection struct {
	keep     string
	limit    *LimitChange
	drills   Drills
	cap      *Cap
	policies [4][]string // by what is asked for: keep, limit, drills, cap
}

// add merges a into p, the strictest of each.
func (p *protection) add(policy string, a Act) {
	if a.Keep != "" {
		p.policies[0] = append(p.policies[0], policy)
		if p.keep == "" || a.Keep == KeepCritical {
			p.keep = a.Keep
		}
	}
	if a.Limit != nil {
		p.policies[1] = append(p.policies[1], policy)
		p.limit = strictest(p.limit, a.Limit)
	}
	if a.Drills != "" {
		p.policies[2] = append(p.policies[2], policy)
		if p.drills == "" || a.Drills == StopDrills {
			p.drills = a.Drills
		}
	}
	if a.Deploys != nil {
		p.policies[3] = append(p.policies[3], policy)
		p.cap = narrower(p.cap, a.Deploys)
	}
}

// strictest is the change that lets the least through: to tighten goes before to
// relax, and of two in the same direction the smaller factor and the smaller rate.
func strictest(a, b *LimitChange) *LimitChange {
	switch {
	case a == nil:
		return b
	case a.Direction != b.Direction:
		if a.Direction == Tighten {
			return a
		}
		return b
	}
	out := *a
	if b.FactorPPM > 0 && (out.FactorPPM == 0 || b.FactorPPM < out.FactorPPM) {
		out.FactorPPM = b.FactorPPM
	}
	// One token every so many nanoseconds: the longer, the stricter.
	if b.Tokens > 0 && (out.Tokens == 0 || int64(b.Per)/b.Tokens > int64(out.Per)/out.Tokens) {
		out.Tokens, out.Per, out.Burst = b.Tokens, b.Per, b.Burst
	}
	return &out
}

// measures turns p into one measure of each kind.
func (p protection) measures(of Measure) []Measure {
	var out []Measure
	add := func(kind MeasureKind, which int, more func(*Measure)) {
		m := of
		m.Kind, m.Policies = kind, slices.Compact(slices.Sorted(slices.Values(p.policies[which])))
		more(&m)
		out = append(out, m)
	}
	if p.keep != "" {
		add(Shed, 0, func(m *Measure) { m.Keep = p.keep })
	}
	if p.limit != nil {
		add(Limit, 1, func(m *Measure) { m.Limit = p.limit })
	}
	switch p.drills {
	case StopDrills:
		add(StopAll, 2, func(*Measure) {})
	case RefuseDrills:
		add(RefuseAll, 2, func(*Measure) {})
	}
	if p.cap != nil {
		add(CapDeploys, 3, func(m *Measure) { m.Cap = p.cap })
	}
	return out
}

// place is a service in an environment.
type place struct{ service, env string }

// Wanted is what the states of an evaluation call for, and the places of which
// nothing is known at now: what holds there goes on to hold for a while.
//
// All policies that hold for a service have a say, not only the closest: a measure
// protects people, and who writes a policy for one service need not know of those
// for all. The state is that by the closest policy, as everywhere.
func Wanted(policies []Policy, statuses []slo.Status, now time.Time) (wanted []Measure, blind func(service, env string) bool) {
	sets := map[place][]slo.Status{}
	for _, s := range statuses {
		if s.Env != "" { // else it was never seen anywhere
			at := place{s.Objective.Service, s.Env}
			sets[at] = append(sets[at], s)
		}
	}
	unseen := map[place]bool{}
	for at, set := range sets {
		s, _ := slo.Worst(set)
		if now.Sub(s.At) > For(policies, at.service, at.env).Stale {
			unseen[at] = true
			continue
		}
		var real, dry protection
		for _, p := range policies {
			if _, ok := p.holds(at.service, at.env); !ok {
				continue
			}
			to := &real
			if p.DryRun {
				to = &dry
			}
			for _, a := range p.Acts {
				if slo.Rank(s.Level) >= slo.Rank(a.From) {
					to.add(p.Name, a)
				}
			}
		}
		of := Measure{Service: at.service, Env: at.env, State: s.Level, Reason: fmt.Sprintf("%s (%s) is %s. %s: %s", at.service, at.env, s.Level, s.Objective.ID, s.Reason), SeenAt: s.At}
		wanted = append(wanted, real.measures(of)...)
		of.DryRun = true
		wanted = append(wanted, dry.measures(of)...)
	}
	slices.SortFunc(wanted, func(a, b Measure) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Env, b.Env), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.content(), b.content()))
	})
	return wanted, func(service, env string) bool {
		_, known := sets[place{service, env}]
		return unseen[place{service, env}] || len(statuses) == 0 && !known
	}
}

// Turn is what changes between the measures that hold and those that are wanted.
type Turn struct {
	Start []Measure
	End   []Measure // with EndedAt and Ended
	Seen  []Measure // go on, with SeenAt anew
}

// seenEvery is how old SeenAt may get before it is written again: a row a second
// would say no more.
const seenEvery = 30 * time.Second

// Turned compares what holds with what is wanted at now.
func Turned(live, wanted []Measure, blind func(service, env string) bool, now time.Time) Turn {
	var out Turn
	left := map[string]Measure{}
	for _, m := range wanted {
		left[m.content()] = m
	}
	for _, m := range live {
		end := func(why string) {
			at := now
			m.EndedAt, m.Ended = &at, why
			out.End = append(out.End, m)
		}
		want, still := left[m.content()]
		switch {
		case still:
			delete(left, m.content())
			if want.SeenAt.Sub(m.SeenAt) >= seenEvery {
				m.SeenAt = want.SeenAt
				out.Seen = append(out.Seen, m)
			}
		case blind(m.Service, m.Env) && now.Sub(m.SeenAt) < Lapse:
			// Missing data takes no protection away at once.
		case blind(m.Service, m.Env):
			end(fmt.Sprintf("nothing was known of %s for %s", m.Service, slo.Span(Lapse)))
		default:
			end(fmt.Sprintf("the state of %s no longer calls for it", m.Service))
		}
	}
	for _, m := range wanted {
		if _, fresh := left[m.content()]; fresh {
			delete(left, m.content())
			m.ID, m.From = newID("m"), now
			out.Start = append(out.Start, m)
		}
	}
	return out
}
