package now

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Kind is what a cause is.
type Kind string

// The kinds. Of two causes with the same score the one that stands first here goes
// first: what can be undone before what can only be looked at.
const (
	AnExperiment  Kind = "experiment"
	ALimit        Kind = "limiter" // a limit of our own that is too low
	AMeasure      Kind = "measure" // a protective measure of our own
	AConfig       Kind = "config"
	ADeploy       Kind = "deploy"
	ALoad         Kind = "load"        // somebody asks for much more than before
	AName         Kind = "dns"         // a name that does not resolve
	AStorm        Kind = "retry_storm" // load that retries made
	ADependency   Kind = "dependency"  // a service it calls
	AnInstance    Kind = "instance"
	ARack         Kind = "rack"
	AZone         Kind = "zone"
	ACaller       Kind = "caller"
	ATenant       Kind = "tenant"
	AGateway      Kind = "gateway"
	AConcurrency  Kind = "concurrency" // a limit on requests under way
	AShed         Kind = "shed"
	AnUpstream    Kind = "upstream"
	ARoute        Kind = "route"
	ACode         Kind = "code"
	mostCauses         = 8
	leastExplains      = 50_000 // ppm; what explains less is no cause
)

func kinds() []Kind {
	return []Kind{AnExperiment, ALimit, AMeasure, AConfig, ADeploy, ALoad, AName, AStorm, ADependency, AnInstance, ARack, AZone,
		ACaller, ATenant, AGateway, AConcurrency, AShed, AnUpstream, ARoute, ACode}
}

// Cause is a likely cause with the numbers it rests on.
type Cause struct {
	Rank    int    `json:"rank"`
	Kind    Kind   `json:"kind"`
	Subject string `json:"subject"` // what it is called: an instance, a revision, a run
	Service string `json:"service,omitempty"`
	// Score orders causes: what is explained, weighed by how closely it fits.
	Score        int64 `json:"score_ppm"`
	ExplainedPPM int64 `json:"explained_ppm"` // of the failures
	Failures     int64 `json:"failures"`
	// Of a value that failures gather in: its share of the traffic, and how much
	// more of the failures it has than that.
	TrafficPPM int64 `json:"traffic_ppm,omitempty"`
	LiftMilli  int64 `json:"lift_milli,omitempty"`
	// Of what fails more than before: its share of failures now and before.
	NowPPM int64 `json:"now_ppm,omitempty"`
	WasPPM int64 `json:"was_ppm,omitempty"`
	// Of a change: how long before the onset it came; negative: after it.
	GapMS              *int64     `json:"gap_ms,omitempty"`
	At                 *time.Time `json:"at,omitempty"`
	AmplificationMilli int64      `json:"amplification_milli,omitempty"`
	Text               string     `json:"text"`
	Details            []string   `json:"details,omitempty"`
}

// weigher holds what all causes are weighed against.
type weigher struct {
	e      *Evidence
	span   Span
	since  time.Time
	now    Minute // since the onset
	was    Minute // before it
	worst  int64  // the largest amplification of a minute since then, in thousandths
	hits   int64
	masked int64 // refused because of failures before them: they say nothing of why
	ours   int64 // refused by limits of our own
	how    map[string]int64
}

func newWeigher(e *Evidence, s Span) *weigher {
	w := &weigher{e: e, span: s, since: Since(s, e.Seconds), how: map[string]int64{}}
	for _, m := range e.Minutes {
		if m.At.Before(s.Onset) {
			w.was.add(m)
			continue
		}
		w.now.add(m)
		if m.Exchanges >= 10 {
			w.worst = max(w.worst, mulDiv(m.Attempts, 1000, m.Exchanges))
		}
	}
	w.hits = w.now.Hits()
	if s.State == Covered {
		w.hits = w.now.FirstTryBad + w.now.Degraded
	}
	for _, f := range e.Facets {
		if f.Dimension != ByKind {
			continue
		}
		group := grouped(f.Value)
		w.how[group] += f.Hits
		switch group {
		case "masked":
			w.masked += f.Hits
		case "limiter", "measure", "shed", "concurrency":
			w.ours += f.Hits
		}
	}
	w.masked = min(w.masked, w.hits)
	return w
}

// grouped puts the ways of failing together by who would be called for them.
func grouped(kind string) string {
	policy, reason, refused := strings.Cut(kind, ":")
	switch {
	case refused && policy == "shed" && strings.HasPrefix(reason, "measure"):
		return "measure"
	case refused && (policy == "breaker" || policy == "balance"):
		return "masked"
	case refused:
		return policy
	case kind == "status_503" || kind == "status_429":
		return "overloaded"
	case strings.Contains(kind, "timeout"):
		return "late"
	case kind == "refused" || kind == "unreachable" || kind == "dial" || kind == "tls" || strings.HasPrefix(kind, "reset") || kind == "write":
		return "down"
	case strings.HasPrefix(kind, "status_5") || kind == "body_cut" || kind == "bad_response":
		return "errors"
	}
	return kind // dns, business_code, ...
}

// upstreams is how many failures came from an upstream.
func (w *weigher) upstreams() int64 {
	return w.how["late"] + w.how["down"] + w.how["errors"] + w.how["overloaded"] + w.how["business_code"] + w.how["dns"]
}

// of is the share that n has of the failures that say why.
func (w *weigher) of(n int64) int64 { return min(part(n, w.hits-w.masked), million) }

// excess is the share of the failures that would not be there if all were as before.
func (w *weigher) excess() int64 {
	usual := mulDiv(w.now.Asked(), w.was.Hits(), w.was.Asked())
	return part(max(w.hits-usual, 0), w.hits)
}

// scaled is ppm times thousandths.
func scaled(ppm, milli int64) int64 { return mulDiv(ppm, milli, 1000) }

// rank lists the likely causes, the strongest first.
func (w *weigher) rank() []Cause {
	if w.hits == 0 {
		return []Cause{}
	}
	var all []Cause
	for _, find := range []func() []Cause{w.experiments, w.changes, w.policies, w.names, w.storm, w.load, w.dependencies, w.gathered, w.upstream, w.codes} {
		all = append(all, find()...)
	}
	all = slices.DeleteFunc(all, func(c Cause) bool { return c.ExplainedPPM < leastExplains || c.Score <= 0 })
	order := kinds()
	slices.SortStableFunc(all, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(slices.Index(order, a.Kind), slices.Index(order, b.Kind)),
			cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Service, b.Service), cmp.Compare(a.Text, b.Text))
	})
	all = all[:min(len(all), mostCauses)]
	for i := range all {
		all[i].Rank = i + 1
	}
	return append([]Cause{}, all...)
}
