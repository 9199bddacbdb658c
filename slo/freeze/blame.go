package freeze

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// Owning says whose freeze it is where failures come from an upstream that somebody
// else owns: an error in a shared dependency freezes its owner, and not every caller.
type Owning struct {
	// SharePPM is the part of a service's failures from which on; 0: never.
	SharePPM int64 `json:"share_ppm"`
	// Upstreams are owned by these services; any other by the service of its name.
	Upstreams map[string]string `json:"upstreams,omitempty"`
}

func owning(n conf.Node) Owning {
	if !n.Present() {
		return Owning{}
	}
	m := n.Map()
	o := Owning{SharePPM: 500_000}
	share, upstreams := m.Get("share"), m.Get("upstreams")
	o.SharePPM = share.PPM(o.SharePPM)
	if share.Present() && o.SharePPM < 500_000 {
		share.Errorf("must be at least 50%%, got %s", share.Got()).Hint("with less, two services could each own most of the failures")
		o.SharePPM = 500_000
	}
	for _, e := range upstreams.Entries() {
		if o.Upstreams == nil {
			o.Upstreams = map[string]string{}
		}
		o.Upstreams[e.Key] = e.Value.Name()
	}
	m.Done()
	return o
}

// Failures are how many requests of a service an upstream failed, of all that failed.
type Failures struct {
	Service, Env, Upstream string
	Bad, Total             int64 // Total of the service, whatever the upstream
}

// Blame is a frozen service whose failures are mostly another's.
type Blame struct {
	Service  string    `json:"service"`
	Env      string    `json:"env"`
	Upstream string    `json:"upstream"`
	Owner    string    `json:"owner"`
	Bad      int64     `json:"bad_events"`
	Total    int64     `json:"all_bad_events"`
	PPM      int64     `json:"share_ppm"`
	Since    time.Time `json:"since"` // the service is frozen
}

// Text says it in a sentence.
func (b Blame) Text() string {
	return fmt.Sprintf("%s of the failures of %s within a day came from upstream %s, which %s owns: that service is frozen in its place.", slo.Percent(b.PPM), b.Service, b.Upstream, b.Owner)
}

// Blames finds the frozen services whose failures are mostly those of an upstream that
// another service owns, which has an objective of its own: who promises nothing
// cannot be frozen.
func Blames(policies []Policy, frozen []slo.Status, failures []Failures, known func(service string) bool) []Blame {
	var out []Blame
	for _, s := range frozen {
		service := s.Objective.Service
		own := For(policies, service, s.Env).Owning
		if own.SharePPM <= 0 {
			continue
		}
		byOwner := map[string]Blame{}
		for _, f := range failures {
			if f.Service != service || f.Env != s.Env || f.Bad <= 0 || f.Upstream == "" {
				continue
			}
			owner, ok := own.Upstreams[f.Upstream]
			if !ok {
				owner = f.Upstream
			}
			if owner == service || !known(owner) {
				continue
			}
			b, seen := byOwner[owner]
			if !seen || f.Bad > b.Bad {
				b.Upstream = f.Upstream // the one that failed most stands for all of its owner
			}
			b.Bad += f.Bad
			b.Service, b.Env, b.Owner, b.Total, b.Since = service, s.Env, owner, f.Total, s.Since
			byOwner[owner] = b
		}
		for _, b := range byOwner {
			if b.PPM = slo.Part(b.Bad, b.Total); b.Total > 0 && b.PPM >= own.SharePPM {
				out = append(out, b)
			}
		}
	}
	slices.SortFunc(out, func(a, b Blame) int {
		return cmp.Or(cmp.Compare(a.Service, b.Service), cmp.Compare(a.Env, b.Env), cmp.Compare(b.PPM, a.PPM), cmp.Compare(a.Owner, b.Owner))
	})
	// Two that own half each: the first by name, so that one of them is frozen.
	return slices.CompactFunc(out, func(a, b Blame) bool { return a.Service == b.Service && a.Env == b.Env })
}

// BlameOf is whom the failures of a frozen service are put down to.
func (k Known) BlameOf(service, env string) (Blame, bool) {
	return k.blame(func(b Blame) bool { return b.Service == service && (env == "" || b.Env == env) })
}

// BlamedFor is a frozen service whose failures are put down to owner.
func (k Known) BlamedFor(owner, env string) (Blame, bool) {
	return k.blame(func(b Blame) bool { return b.Owner == owner && (env == "" || b.Env == env) })
}

func (k Known) blame(is func(Blame) bool) (Blame, bool) {
	if i := slices.IndexFunc(k.Blames, is); i >= 0 {
		return k.Blames[i], true
	}
	return Blame{}, false
}

// FailureLedger counts failures by upstream.
type FailureLedger interface {
	FailuresByUpstream(ctx context.Context, services []string, since time.Time) ([]Failures, error)
}

const (
	blameFor   = 24 * time.Hour // that are looked back on
	blameEvery = 5 * time.Second
)

// Assigner finds out whose failures freeze services, and tells the Book.
type Assigner struct {
	Source Source
	Book   *Book
	Ledger FailureLedger

	at     time.Time
	frozen string // whose, at the last look
}

// Tick looks anew where the set of frozen services has changed, and every few seconds.
func (a *Assigner) Tick(ctx context.Context, now time.Time) error {
	policies := a.Book.Known().Policies
	objectives, frozen, names, key := map[string]bool{}, []slo.Status{}, []string{}, ""
	sets := map[place][]slo.Status{}
	for _, s := range a.Source.Statuses() {
		objectives[s.Objective.Service] = true
		sets[place{s.Objective.Service, s.Env}] = append(sets[place{s.Objective.Service, s.Env}], s)
	}
	for at, set := range sets {
		s, _ := slo.Worst(set)
		if s.Level == slo.Frozen && For(policies, at.service, at.env).Owning.SharePPM > 0 {
			frozen, names = append(frozen, s), append(names, at.service)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	key = fmt.Sprint(names)
	if key == a.frozen && now.Sub(a.at) < blameEvery {
		return nil
	}
	var failures []Failures
	if len(names) > 0 {
		var err error
		if failures, err = a.Ledger.FailuresByUpstream(ctx, names, now.Add(-blameFor)); err != nil {
			return fmt.Errorf("whose failures: %w", err)
		}
	}
	a.Book.Blame(Blames(policies, frozen, failures, func(service string) bool { return objectives[service] }))
	a.at, a.frozen = now, key
	return nil
}

// Blame makes blames what the Book knows.
func (b *Book) Blame(blames []Blame) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.blames = blames
}

// Run ticks every second until ctx ends. What was found goes on to hold while it
// cannot be looked at: the Book logs that the database is away.
func (a *Assigner) Run(ctx context.Context) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		each, cancel := context.WithTimeout(ctx, 5*time.Second)
		_ = a.Tick(each, time.Now().UTC())
		cancel()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}
