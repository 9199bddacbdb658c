// Package freeze says what a spent budget stops, and how somebody may pass all
// the same: policies as documents, freezes by hand, overrides, signed statements.
package freeze

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"breakwater/slo"
)

// Policy is one FreezePolicy document.
type Policy struct {
	Name string `json:"name"` // "" is the policy of who has none
	// Services and Envs are where it holds; empty: everywhere.
	Services []string `json:"services,omitempty"`
	Envs     []string `json:"environments,omitempty"`
	// Dependants freeze with a service of this policy: those named, and with
	// Observed whoever was seen to call it.
	Dependants []string `json:"dependants,omitempty"`
	Observed   bool     `json:"observed_dependants,omitempty"`
	// Closure freezes the dependants of dependants too.
	Closure bool       `json:"closure,omitempty"`
	Owning  Owning     `json:"owner,omitzero"`
	Levels  slo.Policy `json:"levels"`
	// Passes are the kinds of change that pass a freeze.
	Passes []Pass `json:"passes"`
	// Acts protect those who use a service while its budget is low or gone.
	Acts []Act `json:"measures,omitempty"`
	// OnUnknown says what an answer that nobody can give becomes, by environment;
	// none: it stays unknown.
	OnUnknown []Settle `json:"on_unknown,omitempty"`
	// Stale is the age from which an evaluation says nothing any more, Valid how
	// long an answer may be relied on, Fallback how long a signed one stands in
	// while control is away.
	Stale    time.Duration `json:"stale_ns"`
	Valid    time.Duration `json:"valid_ns"`
	Fallback time.Duration `json:"fallback_ns"`
	// DryRun decides and records, and answers allow.
	DryRun bool `json:"dry_run,omitempty"`
}

// Pass lets one kind through a freeze, if it is proven by one of Proofs.
type Pass struct {
	Kind   Kind    `json:"kind"`
	Proofs []Proof `json:"proofs"`
}

// Settle is what an unknown answer becomes in some environments.
type Settle struct {
	Envs   []string `json:"environments,omitempty"` // empty: all
	Allow  bool     `json:"allow"`                  // else deny
	Except []Kind   `json:"except,omitempty"`       // for these the other way round
}

// Default is the policy of a service that no document names. It takes nobody's word
// for what kind a change is: whoever wants that says so in a document, by the proof
// declared. In an outage a rollback is proven by the deploy markers, and anything by
// an operator's attestation, which takes a moment.
func Default() Policy {
	return Policy{
		Levels: slo.DefaultPolicy(),
		Passes: []Pass{
			{Rollback, []Proof{History, Label, Attested}},
			{Scale, []Proof{Label, Attested}},
			{SecurityFix, []Proof{Label, Attested}},
			{ReliabilityFix, []Proof{Incident, Label, Attested}},
		},
		Stale: time.Minute, Valid: time.Minute, Fallback: 15 * time.Minute,
	}
}

// Revision is the hash of what p says.
func (p Policy) Revision() string {
	b, err := json.Marshal(p)
	if err != nil {
		panic("freeze: a policy did not marshal: " + err.Error())
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:6])
}

// holds reports whether p rules service in env, and how closely it names them.
func (p Policy) holds(service, env string) (rank int, ok bool) {
	if len(p.Services) > 0 {
		if !slices.Contains(p.Services, service) {
			return 0, false
		}
		rank += 2
	}
	if len(p.Envs) > 0 {
		if !slices.Contains(p.Envs, env) {
			return 0, false
		}
		rank++
	}
	return rank, true
}

// For returns the policy that rules service in env: the one that names most of
// them, a service before an environment.
func For(policies []Policy, service, env string) Policy {
	best, found := -1, Default()
	for _, p := range policies {
		if rank, ok := p.holds(service, env); ok && rank > best {
			best, found = rank, p
		}
	}
	return found
}

// Pass returns what lets kind through a freeze; false: nothing does.
func (p Policy) Pass(kind Kind) (Pass, bool) {
	i := slices.IndexFunc(p.Passes, func(x Pass) bool { return x.Kind == kind })
	if i < 0 {
		return Pass{}, false
	}
	return p.Passes[i], true
}

// Settles says what an unknown answer about kind becomes in env: nothing is
// settled where no document asks for it.
func (p Policy) Settles(env string, kind Kind) (allow, settled bool) {
	for _, s := range p.OnUnknown {
		if len(s.Envs) == 0 || slices.Contains(s.Envs, env) {
			return s.Allow != slices.Contains(s.Except, kind), true
		}
	}
	return false, false
}

// Freezes reports whether dependant freezes with a service that p rules, of which
// callers were seen.
func (p Policy) Freezes(dependant string, callers []string) bool {
	return slices.Contains(p.Dependants, dependant) || p.Observed && slices.Contains(callers, dependant)
}

// Order is a freeze by hand.
type Order struct {
	ID      string     `json:"id"`
	Service string     `json:"service"`
	Env     string     `json:"env"` // "": all
	Reason  string     `json:"reason"`
	Ticket  string     `json:"ticket,omitempty"`
	By      string     `json:"by"`
	At      time.Time  `json:"at"`
	Until   *time.Time `json:"until"` // null: until it is taken back
	EndedBy string     `json:"ended_by,omitempty"`
	EndedAt *time.Time `json:"ended_at"`
}

// Live reports whether o holds at now.
func (o Order) Live(now time.Time) bool {
	return o.EndedAt == nil && (o.Until == nil || now.Before(*o.Until))
}

// Known is all that a decision rests on beside the question and the evaluation.
// It is read together, so that a decision mixes no two moments.
type Known struct {
	Policies  []Policy
	Orders    []Order    // that may be live
	Overrides []Override // the latest of each service
	// Causes are deploys and incidents, of some weeks.
	Causes []slo.Cause
	// Deploys are those under way.
	Deploys []slo.Deploy
	// Blames are frozen services whose failures are mostly another's.
	Blames []Blame
	// Callers are who was seen to call a service, of late.
	Callers map[string][]string
}

// Ran reports whether ref of service ran in env before what runs there now.
func (k Known) Ran(service, env, ref string) bool {
	var newest slo.Cause
	ran := false
	for _, c := range k.Causes {
		if c.Kind != slo.ByDeploy || c.Service != service || env != "" && c.Env != "" && c.Env != env {
			continue
		}
		if newest.Ref == "" || !c.From.Before(newest.From) {
			newest = c
		}
		ran = ran || c.Ref == ref
	}
	return ran && ref != "" && newest.Ref != ref
}

// Running is what was deployed last of service in env; "": no deploy was marked.
func (k Known) Running(service, env string) string {
	var newest slo.Cause
	for _, c := range k.Causes {
		if c.Kind == slo.ByDeploy && c.Service == service && (env == "" || c.Env == "" || c.Env == env) && (newest.Ref == "" || !c.From.Before(newest.From)) {
			newest = c
		}
	}
	return newest.Ref
}

// linger is how long after its end an incident still proves a repair.
const linger = 24 * time.Hour

// Hurts reports whether ref is an incident of service that goes on at now, or has
// ended within a day.
func (k Known) Hurts(service, ref string, now time.Time) bool {
	return ref != "" && slices.ContainsFunc(k.Causes, func(c slo.Cause) bool {
		return c.Kind == slo.ByIncident && c.Service == service && c.Ref == ref && !c.From.After(now) && (c.To.IsZero() || now.Sub(c.To) < linger)
	})
}

// Owners are the services whose freeze freezes dependant too, in order: those it
// depends on itself, and where a policy asks for the closure, those that these depend on.
func (k Known) Owners(dependant string, frozen []slo.Status) []slo.Status {
	var out []slo.Status
	for _, s := range frozen {
		if service := s.Objective.Service; service != dependant && k.reaches(service, s.Env, dependant) {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b slo.Status) int { return cmp.Compare(a.Objective.Service, b.Objective.Service) })
	return out
}

// reaches reports whether the freeze of service in env freezes dependant.
func (k Known) reaches(service, env, dependant string) bool {
	p := For(k.Policies, service, env)
	if !p.Closure {
		return p.Freezes(dependant, k.Callers[service])
	}
	// Each step by the policy of the service that is frozen: whoever it is about has
	// asked for all of it. Who calls in circles is looked at once.
	seen, next := map[string]bool{service: true}, []string{service}
	for len(next) > 0 {
		at := next[0]
		next = next[1:]
		callers := k.Callers[at]
		if p.Freezes(dependant, callers) {
			return true
		}
		if !p.Observed {
			continue
		}
		for _, c := range callers {
			if !seen[c] {
				seen[c] = true
				next = append(next, c)
			}
		}
	}
	return false
}
