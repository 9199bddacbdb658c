// Package explain is the engine of the gateway offline: what a configuration is
// worth, and what it would do with a request, said by the very code that serves
// traffic. It takes plain values and gives plain values.
package explain

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

// Answer is what would happen.
type Answer struct {
	Route    string `json:"route"` // "unmatched" where none takes the request
	Service  string `json:"service,omitempty"`
	Upstream string `json:"upstream,omitempty"`
	// Endpoints are how many the request can be sent to, those of Tried among them.
	Endpoints int `json:"endpoints,omitempty"`
	// Split is how the route shares requests out, where it does. Upstream is then
	// the request's own branch where that can be known, else the heaviest.
	Split []Share `json:"split,omitempty"`
	// Mirror is where a copy may go.
	Mirror *Mirror `json:"mirror,omitempty"`
	Policy *Policy `json:"policy,omitempty"`
	Retry  bool    `json:"retry"` // whether any is made
	// Retries is how many are made where the jitter is least, AtLeast where it is
	// most: they differ where the deadline falls between.
	Retries int    `json:"retries"`
	AtLeast int    `json:"retries_at_least"`
	Reason  string `json:"decision_reason,omitempty"` // of the first retry
	// Skip is why there is no further one; "" where the answer is no failure.
	Skip string `json:"skip_reason,omitempty"`
	// Tries are those that are made where the jitter is least.
	Tries []Try `json:"tries"`
	// Status is what the client is told, Origin who says it: upstream or gateway.
	Status int    `json:"status"`
	Origin string `json:"origin"`
	// Degraded names what took the place of the upstream's answer: the strategy of
	// the retries, or the action of the route.
	Degraded string `json:"degraded,omitempty"`
	// TakesMS is when the answer comes, at the earliest and at the latest.
	TakesMS   [2]int64   `json:"takes_ms"`
	WorstCase *WorstCase `json:"worst_case,omitempty"`
	// Observe: the policy only looks on, and no retry is made.
	Observe bool     `json:"observe_only,omitempty"`
	Notes   []string `json:"notes,omitempty"`
	// Revision of the configuration that was asked.
	Revision string `json:"config_revision"`
}

// Try is one call to the upstream, and what was made of how it ended.
type Try struct {
	RetryNumber int      `json:"retry"`     // 0 for the first
	BeginsMS    [2]int64 `json:"begins_ms"` // earliest and latest, after the request came
	WaitMS      [2]int64 `json:"wait_ms"`   // before it
	// How it ends: an answer's status, or the failure that took its place.
	Status    int    `json:"status,omitempty"`
	Failure   string `json:"failure,omitempty"`
	LatencyMS int64  `json:"latency_ms"`
	// Steps are the conditions and gates in the order in which they are asked.
	Steps []Step `json:"steps"`
	// What was decided after it: what matched, and why no retry follows.
	Reason string `json:"decision_reason,omitempty"`
	Skip   string `json:"skip_reason,omitempty"`
	// Agreed is what the upstream's contract says of the answer.
	Agreed *Agreed `json:"agreed,omitempty"`
	// Recorded is what the gateway decided when it happened, where the sample is a
	// captured event.
	Recorded *Recorded `json:"recorded,omitempty"`
}

// Step is a step of the engine. Where a condition did not match, Saw is what was
// there in place of what it looks for.
type Step struct {
	retry.Step
	Saw string `json:"saw,omitempty"`
}

// Agreed is an answer's place in its upstream's contract.
type Agreed struct {
	Contract string `json:"contract"`
	Meaning  string `json:"meaning,omitempty"`
	Reaction string `json:"reaction,omitempty"` // "": the contract says nothing of it
}

// Policy is the retry policy in force, in short.
type Policy struct {
	Enabled     bool   `json:"enabled"`
	MaxRetries  int    `json:"max_retries"`
	PerTryMS    int64  `json:"per_try_timeout_ms"`
	TimeoutMS   int64  `json:"timeout_ms"` // of the request, as the sample shortens it
	BackoffMS   int64  `json:"backoff_base_ms"`
	Jitter      string `json:"jitter"`
	Fallback    string `json:"fallback_strategy"`
	Rules       int    `json:"rules"`
	RetryStatus []int  `json:"retry_on_status"`
}

// WorstCase is what a request on the route can cost when everything fails as
// slowly as it can.
type WorstCase struct {
	Calls int `json:"calls"`
	// MS is how long all tries and waits may take; what an upstream asks for by
	// Retry-After comes on top. AnswerMS is when the client has an answer at last.
	MS       int64 `json:"ms"`
	AnswerMS int64 `json:"answer_ms"`
}

// Share is a branch of a split and its part of the requests.
type Share struct {
	Upstream string `json:"upstream"`
	PPM      int64  `json:"ppm"`
}

// Mirror says what becomes of the copy of a request.
type Mirror struct {
	Upstream string `json:"upstream"`
	PPM      int64  `json:"ppm"` // of requests like this one; 0 where it is skipped
	Skip     string `json:"skip_reason,omitempty"`
}

// Engine explains what one configuration does. It never changes and may be used
// by several goroutines.
type Engine struct {
	cfg   *config.Config
	table *route.Table
}

// New compiles cfg.
func New(cfg *config.Config) (*Engine, error) {
	table, err := route.Compile(cfg.Matches())
	if err != nil {
		return nil, fmt.Errorf("explain: %w", err)
	}
	return &Engine{cfg, table}, nil
}

// Explain says what cfg makes of s.
func Explain(cfg *config.Config, s Sample) (Answer, error) {
	e, err := New(cfg)
	if err != nil {
		return Answer{}, err
	}
	return e.Explain(s)
}

// Explain says what becomes of s. Endpoints are taken to be ready, and breakers
// and limiters to let the request pass: they depend on other traffic.
func (e *Engine) Explain(s Sample) (Answer, error) {
	if err := s.check(); err != nil {
		return Answer{}, err
	}
	cfg := e.cfg
	a := Answer{Route: "unmatched", Origin: "gateway", Revision: cfg.Revision, Tries: []Try{}}
	r, status, err := e.find(s)
	if err != nil {
		return Answer{}, err
	}
	if status != 0 {
		a.Status = status
		return a, nil
	}
	a.Route, a.Service = r.Name, r.Service
	if a.Endpoints, err = a.place(cfg, r, s); err != nil {
		return Answer{}, fmt.Errorf("explain: %w", err)
	}
	if r.MaxBody > 0 && s.BodyBytes > r.MaxBody {
		a.Status = 413
		return a, nil
	}
	m := newSimulation(cfg, r, a.Endpoints, &s)
	a.policy(m)
	early, late := m.run(0), m.run(math.Nextafter(1, 0))
	a.take(early, late)
	a.Notes = m.notes
	a.degrade(&r, &s, early)
	a.agreed(cfg, early)
	return a, nil
}

// find finds the route of s, or the status that says there is none.
func (e *Engine) find(s Sample) (r config.Route, status int, err error) {
	if s.Route != "" {
		for _, r := range e.cfg.Routes {
			if r.Name == s.Route {
				return r, 0, nil
			}
		}
		return r, 0, fmt.Errorf("sample: route must be the name of a Route document, got %q", s.Route)
	}
	i, verdict := e.table.Find(s.request(), s.routeFacts(e.cfg))
	switch verdict {
	case route.NotFound:
		return r, 404, nil
	case route.NotAllowed:
		return r, 405, nil
	}
	return e.cfg.Routes[i], 0, nil
}

// take makes an answer of the two simulations.
func (a *Answer) take(early, late outcome) {
	a.Retries, a.AtLeast = len(early.calls)-1, len(late.calls)-1
	a.Retry, a.Reason = a.Retries > 0, early.reason
	a.Skip, a.Status, a.Origin = early.skip, early.status, early.origin
	a.TakesMS = span(early.ends, late.ends)
	if a.TakesMS[0] > a.TakesMS[1] { // the most jitter leaves no room for a further try
		a.TakesMS[0], a.TakesMS[1] = a.TakesMS[1], a.TakesMS[0]
	}
	for n, e := range early.calls {
		l := e
		if n < len(late.calls) {
			l = late.calls[n]
		}
		t := Try{
			RetryNumber: n, WaitMS: span(e.wait, l.wait), BeginsMS: span(e.begins, l.begins),
			Failure: string(e.facts.Kind), LatencyMS: e.facts.Took.Milliseconds(), Steps: told(e),
			Reason: e.decision.Reason, Skip: e.skip,
		}
		if e.facts.Kind == "" {
			t.Status = e.facts.Status
		}
		if e.cut { // as events call it: the whole request has run out of time
			t.Failure = string(exchange.Canceled)
		}
		a.Tries = append(a.Tries, t)
	}
}

func (a *Answer) policy(m *simulation) {
	p := &m.policy
	a.Observe = p.Observe && p.Active()
	a.Policy = &Policy{
		Enabled: p.Enabled, MaxRetries: p.MaxRetries, PerTryMS: p.PerTry.Milliseconds(), TimeoutMS: m.total.Milliseconds(),
		BackoffMS: m.base().Milliseconds(), Jitter: string(p.Jitter), Fallback: string(p.Fallback), Rules: max(len(p.Rules), 1), RetryStatus: p.OnStatus,
	}
	if p.Jitter == "" {
		a.Policy.Jitter = string(retry.AdditiveBase)
	}
	worst := retry.WorstCase(*p)
	a.WorstCase = &WorstCase{Calls: retry.Amplification(*p), MS: worst.Milliseconds(), AnswerMS: min(worst, m.total).Milliseconds()}
	if a.Observe {
		a.WorstCase.Calls, a.WorstCase.MS, a.WorstCase.AnswerMS = 1, p.PerTry.Milliseconds(), min(p.PerTry, m.total).Milliseconds()
	}
	if worst > m.total && !a.Observe && p.Active() {
		m.note("the worst case of %s does not fit into the %s there are: later tries are cut short or not made",
			conf.FormatDuration(worst), conf.FormatDuration(m.total))
	}
}

// agreed looks answers up in the contract of the upstream.
func (a *Answer) agreed(cfg *config.Config, o outcome) {
	for i := range cfg.Contracts {
		c := &cfg.Contracts[i]
		if c.Upstream != base(a.Upstream) {
			continue
		}
		for n := range a.Tries {
			t := &a.Tries[n]
			if t.Failure != "" {
				continue
			}
			t.Agreed = &Agreed{Contract: c.Name}
			if k := c.Find(t.Status, fields{o.calls[n].facts.Head}); k >= 0 {
				t.Agreed.Meaning, t.Agreed.Reaction = c.Answers[k].Meaning, string(c.Answers[k].Reaction)
			} else if t.Status < 400 {
				t.Agreed = nil
			}
		}
	}
}

func (a *Answer) note(format string, args ...any) {
	a.Notes = append(a.Notes, fmt.Sprintf(format, args...))
}

// told are the steps after a try, with what was there where a condition failed.
func told(c call) []Step {
	out := make([]Step, len(c.steps))
	for i, s := range c.steps {
		out[i].Step = s
		if s.OK || s.Rule < 0 {
			continue
		}
		var names []string
		switch name, _, _ := strings.Cut(strings.TrimPrefix(s.Detail, "header "), "="); {
		case strings.HasPrefix(s.Detail, "header "):
			names = []string{name}
		case s.Name == string(retry.RetryAfterHeader):
			names = []string{"Retry-After"}
		case s.Name == "backpressure_signal": // either of them
			names = []string{"X-Backend-Status", "Retry-After"}
		case s.Name == string(retry.StatusCodeMatch):
			out[i].Saw = strconv.Itoa(c.facts.StatusOf())
			continue
		default:
			continue
		}
		out[i].Saw = c.saw(names)
	}
	return out
}

// saw lists the fields of the answer that are called one of names.
func (c *call) saw(names []string) string {
	if c.facts.Head == nil {
		return "no answer"
	}
	var out []string
	for _, f := range c.facts.Head.Fields() {
		if slices.ContainsFunc(names, func(n string) bool { return strings.EqualFold(n, f.Name) }) {
			out = append(out, fmt.Sprintf("%s: %q", f.Name, f.Value))
		}
	}
	if len(out) == 0 {
		return "no " + strings.Join(names, " and no ")
	}
	return strings.Join(out, ", ")
}

func span(a, b time.Duration) [2]int64 { return [2]int64{a.Milliseconds(), b.Milliseconds()} }
