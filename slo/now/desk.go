package now

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// Ledger gathers what is known of a service.
type Ledger interface {
	NowEvidence(ctx context.Context, service, env string, at time.Time) (Evidence, error)
}

// Source knows the last evaluation, also while the database is away.
type Source interface {
	Statuses() []slo.Status
}

// Brief is one service in the list of all, the worst first.
type Brief struct {
	Service string    `json:"service"`
	Env     string    `json:"env"`
	State   State     `json:"state"`
	Level   slo.Level `json:"level"`
	Bad     int64     `json:"bad_events"` // over five minutes
	Valid   int64     `json:"valid_events"`
}

// Answer is what GET /api/v1/now says: the situation that was asked for, or the worst
// one, and how all others do.
type Answer struct {
	At        time.Time   `json:"at"`
	Situation *Situation  `json:"situation"` // null: there is no service
	Others    []Situation `json:"others"`    // further services that suffer, where none was asked for
	Services  []Brief     `json:"services"`
}

// Desk answers, and remembers what it knew last of services that suffer.
type Desk struct {
	Ledger Ledger
	Source Source
	// Measures are protective actions in force for a service; nil: none are known.
	Measures func(service, env string) []string
	Env      string           // of a service that nothing is promised for, where none is asked for
	Clock    func() time.Time // nil: the clock
	Log      *slog.Logger

	mu   sync.Mutex
	kept map[scope]Evidence
	next int // which scope that does not suffer is looked at next
}

type scope struct{ service, env string }

const (
	answerWithin = 4 * time.Second
	rememberAll  = 10 * time.Second
	mostScopes   = 20
	mostOthers   = 5
)

func (d *Desk) now() time.Time {
	if d.Clock != nil {
		return d.Clock().UTC()
	}
	return time.Now().UTC()
}

// Situation answers about one service.
func (d *Desk) Situation(ctx context.Context, service, env string) Situation {
	at := d.now()
	statuses := slo.Only(d.Source.Statuses(), func(s *slo.Status) bool { return s.Objective.Service == service && s.Env == env })
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	e, err := d.gather(ctx, service, env, at)
	if err == nil {
		return Assess(e, statuses, at)
	}
	if d.Log != nil {
		d.Log.Warn("answered from memory", "service", service, "err", err)
	}
	d.mu.Lock()
	e, known := d.kept[scope{service, env}]
	d.mu.Unlock()
	if !known {
		e = Evidence{Service: service, Env: env, At: at}
		for _, s := range statuses {
			if s.DataUntil.After(e.Until) {
				e.Until = s.DataUntil
			}
		}
	}
	// As it was when it was seen: a minute that nobody could report is no minute
	// without failures.
	s := Assess(e, statuses, cmp.Or(e.At, at))
	s.At, s.Stale = at, true
	until := "nothing is known"
	if s.DataUntil != nil {
		until = "data reaches until " + clock(*s.DataUntil)
	}
	s.Headline = "The database is away, " + until + ". " + s.Headline
	return s
}

func (d *Desk) gather(ctx context.Context, service, env string, at time.Time) (Evidence, error) {
	e, err := d.Ledger.NowEvidence(ctx, service, env, at)
	if err != nil {
		return Evidence{}, err
	}
	if d.Measures != nil {
		e.Measures = d.Measures(service, env)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.kept == nil {
		d.kept = map[scope]Evidence{}
	}
	d.kept[scope{service, env}] = e
	return e, nil
}

// Run remembers the evidence of services until ctx ends, so that there is something
// to say when the database goes away in the middle of an outage.
func (d *Desk) Run(ctx context.Context) error {
	tick := time.NewTicker(rememberAll)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			d.Tick(ctx, d.now())
		}
	}
}

// Tick looks at the services that suffer, and at one of the others in turn.
func (d *Desk) Tick(ctx context.Context, at time.Time) {
	briefs := d.briefs()
	var calm []Brief
	var list []Brief
	for _, b := range briefs {
		if b.State == Hit && len(list) < mostScopes {
			list = append(list, b)
		} else {
			calm = append(calm, b)
		}
	}
	if len(calm) > 0 {
		list = append(list, calm[d.next%len(calm)])
		d.next++
	}
	for _, b := range list {
		one, cancel := context.WithTimeout(ctx, answerWithin)
		_, err := d.gather(one, b.Service, b.Env, at)
		cancel()
		if err != nil {
			return // what is remembered stays
		}
	}
}

// briefs lists the services with promises, the worst first, by the last evaluation.
func (d *Desk) briefs() []Brief {
	byScope := map[scope]*Brief{}
	var out []*Brief
	now := d.now()
	for _, s := range d.Source.Statuses() {
		if s.Env == "" {
			continue
		}
		k := scope{s.Objective.Service, s.Env}
		b := byScope[k]
		if b == nil {
			b = &Brief{Service: k.service, Env: k.env, State: NoData, Level: s.Level}
			byScope[k] = b
			out = append(out, b)
		}
		burn := s.Burn(5 * time.Minute)
		b.Bad, b.Valid = max(b.Bad, burn.Bad), max(b.Valid, burn.Valid)
		if worse(s.Level, b.Level) {
			b.Level = s.Level
		}
		switch {
		case b.Bad >= fewestHits && part(b.Bad, b.Valid) >= leastPPM:
			b.State = Hit
		case b.Valid > 0 && (s.DataUntil.IsZero() || now.Sub(s.DataUntil) <= freshWithin):
			b.State = Fine
		}
	}
	list := []Brief{}
	for _, b := range out {
		list = append(list, *b)
	}
	rank := func(s State) int { return slices.Index([]State{Hit, NoData, Fine}, s) }
	slices.SortStableFunc(list, func(a, b Brief) int {
		return cmp.Or(cmp.Compare(rank(a.State), rank(b.State)), cmp.Compare(part(b.Bad, b.Valid), part(a.Bad, a.Valid)), cmp.Compare(b.Bad, a.Bad),
			cmp.Compare(a.Service, b.Service), cmp.Compare(a.Env, b.Env))
	})
	return list
}

func worse(a, b slo.Level) bool {
	order := []slo.Level{slo.Normal, slo.Unknown, slo.Warn, slo.Emergency, slo.Frozen}
	return slices.Index(order, a) > slices.Index(order, b)
}

// ServeHTTP serves GET /api/v1/now?service&env.
func (d *Desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v := r.URL.Query()
	service, env := v.Get("service"), v.Get("env")
	who := auth.From(r.Context())
	if service != "" && !who.Covers(service) {
		reply.OutOfScope(w)
		return
	}
	out := d.Answer(r.Context(), service, env, who.Covers)
	reply.JSON(w, http.StatusOK, out)
}

// Answer is the situation of a service, or the worst one where service is "", and how
// all others do that covers allows. The API and the page both say this.
func (d *Desk) Answer(ctx context.Context, service, env string, covers func(service string) bool) Answer {
	all := slices.DeleteFunc(d.briefs(), func(b Brief) bool { return !covers(b.Service) || env != "" && b.Env != env })
	out := Answer{At: d.now(), Services: all, Others: []Situation{}}
	switch {
	case service != "":
		if env == "" {
			if i := slices.IndexFunc(all, func(b Brief) bool { return b.Service == service }); i >= 0 {
				env = all[i].Env
			}
		}
		env = cmp.Or(env, d.Env)
		s := d.Situation(ctx, service, env)
		out.Situation = &s
	case len(all) > 0:
		s := d.Situation(ctx, all[0].Service, all[0].Env)
		out.Situation = &s
		for _, b := range all[1:] {
			if b.State == Hit && len(out.Others) < mostOthers && !s.Stale {
				out.Others = append(out.Others, d.Situation(ctx, b.Service, b.Env))
			}
		}
		out.order()
	}
	out.agree()
	return out
}

// agree says of a service in the list what is known of it by the minute: the evaluation
// that the list is made of sees an outage for five minutes after its end.
func (a *Answer) agree() {
	known := a.Others
	if a.Situation != nil {
		known = append([]Situation{*a.Situation}, known...)
	}
	for _, s := range known {
		i := slices.IndexFunc(a.Services, func(b Brief) bool { return b.Service == s.Service && b.Env == s.Env })
		if i >= 0 && s.State != Covered && !s.Stale {
			a.Services[i].State = s.State
		}
	}
}

// order puts first who is hit still, and of those whom others wait for: a service that is
// the likely cause of another's failures is where to begin.
func (a *Answer) order() {
	if a.Situation.State != Hit {
		if i := slices.IndexFunc(a.Others, func(s Situation) bool { return s.State == Hit }); i >= 0 {
			*a.Situation, a.Others[i] = a.Others[i], *a.Situation
		}
	}
	causes := func(of, by string) bool {
		for _, s := range append([]Situation{*a.Situation}, a.Others...) {
			if s.Service == of && len(s.Causes) > 0 && s.Causes[0].Kind == ADependency && s.Causes[0].Subject == by {
				return true
			}
		}
		return false
	}
	for i := range a.Others {
		if causes(a.Situation.Service, a.Others[i].Service) {
			*a.Situation, a.Others[i] = a.Others[i], *a.Situation
			return
		}
	}
}
