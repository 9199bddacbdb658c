package freeze

import (
	"fmt"
	"strings"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// Cap bounds how many deploys may be under way at the same time.
type Cap struct {
	AtMost int64 `json:"at_most"`
	// Shared: all services that the policy rules in an environment draw on the same
	// slots; else each service has its own.
	Shared bool `json:"shared,omitempty"`
	// Lasts is for how long a deploy holds its slot that is not heard of any more.
	Lasts time.Duration `json:"lasts_ns"`
}

const maxCap = 1000

func capOf(n conf.Node) *Cap {
	m := n.Map()
	c := Cap{AtMost: m.Need("at_most").Int(1, 1, maxCap), Shared: m.Get("over").Enum("service", "service", "policy") == "policy",
		Lasts: m.Get("lasts").Span(slo.DeployLasts, slo.MinDeployLasts, slo.MaxDeployLasts)}
	m.Done()
	return &c
}

// over names what draws on the slots, as documents have it.
func (c Cap) over() string {
	if c.Shared {
		return "policy"
	}
	return "service"
}

func (c Cap) document() string {
	return fmt.Sprintf("{at_most: %d, over: %s, lasts: %s}", c.AtMost, c.over(), slo.Window(c.Lasts))
}

func (c Cap) text() string {
	noun := "deploys"
	if c.AtMost == 1 {
		noun = "deploy"
	}
	of := ""
	if c.Shared {
		of = " of all services of the policy"
	}
	return fmt.Sprintf("at most %d %s%s at the same time", c.AtMost, noun, of)
}

// narrower is the cap that lets fewer out; of two alike the one that more services share.
func narrower(a, b *Cap) *Cap {
	if a == nil || b.AtMost < a.AtMost || b.AtMost == a.AtMost && b.Shared && !a.Shared {
		return b
	}
	return a
}

// Bound is a cap that holds for one service in one environment.
type Bound struct {
	Cap
	Policy string
	From   slo.Level // the mildest state in which it holds
	DryRun bool      // its policy only tries itself out

	p            Policy
	service, env string
}

// Bounds are the caps on deploys of service in env while its budget is at level. All
// policies that hold for it have a say, as with measures. Of a state that nobody knows
// the worst is taken.
func (k Known) Bounds(service, env string, level slo.Level) []Bound {
	var out []Bound
	for _, p := range k.Policies {
		if _, ok := p.holds(service, env); !ok {
			continue
		}
		var worst *Act
		for i, a := range p.Acts {
			// Of those that hold the strictest rules, as with measures.
			if a.Deploys != nil && (level == slo.Unknown || slo.Rank(level) >= slo.Rank(a.From)) &&
				(worst == nil || narrower(worst.Deploys, a.Deploys) == a.Deploys) {
				worst = &p.Acts[i]
			}
		}
		if worst != nil {
			out = append(out, Bound{Cap: *worst.Deploys, Policy: p.Name, From: worst.From, DryRun: p.DryRun, p: p, service: service, env: env})
		}
	}
	return out
}

// Over says what draws on the slots: service or policy.
func (b Bound) Over() string { return b.over() }

// Text says what b asks for.
func (b Bound) Text() string { return b.text() }

// Holders are those of live that hold slots of b.
func (b Bound) Holders(live []slo.Deploy) []slo.Deploy {
	out := []slo.Deploy{}
	for _, d := range live {
		_, ruled := b.p.holds(d.Service, b.env)
		if d.In(b.env) && (d.Service == b.service || b.Shared && ruled) {
			out = append(out, d)
		}
	}
	return out
}

// Full returns the first of bounds that has no slot left for d beside live; false:
// there is room, or d holds its slot already.
func Full(bounds []Bound, live []slo.Deploy, d slo.Deploy) (Bound, bool) {
	for _, l := range live {
		if l.Same(d) {
			return Bound{}, false
		}
	}
	for _, b := range bounds {
		if int64(len(b.Holders(live))) >= b.AtMost {
			return b, true
		}
	}
	return Bound{}, false
}

// Lasts is for how long a slot is given under bounds: as long as the most patient of
// them takes a deploy for alive.
func Lasts(bounds []Bound) time.Duration {
	var out time.Duration
	for _, b := range bounds {
		out = max(out, b.Lasts)
	}
	return out
}

// Under are those of all that are under way at now.
func Under(all []slo.Deploy, now time.Time) []slo.Deploy {
	out := []slo.Deploy{}
	for _, d := range all {
		if d.Live(now) {
			out = append(out, d)
		}
	}
	return out
}

// HeldBy says in words who holds slots.
func HeldBy(holders []slo.Deploy) string {
	var parts []string
	for _, d := range holders {
		what := d.Service
		if d.Ref != "" {
			what = fmt.Sprintf("%.64s of %s", d.Ref, d.Service)
		}
		parts = append(parts, fmt.Sprintf("%s (%s, since %s, until %s at the latest)", what, d.By, clock(d.Begun), clock(d.Until)))
	}
	return strings.Join(parts, ", ")
}

func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }
