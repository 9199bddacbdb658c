// Package traffic tells from what gateways reported how their policies stood over
// time, and what became of requests that failed at first.
package traffic

import (
	"cmp"
	"slices"
	"time"

	"breakwater/internal/retrylog"
)

// Key names one policy at one gateway: of a service, or of an endpoint of an upstream.
type Key struct {
	Policy, Env, Gateway        string
	Service, Upstream, Endpoint string
}

// Name is what the policy guards.
func (k Key) Name() string {
	switch {
	case k.Service != "":
		return k.Service
	case k.Endpoint != "":
		return k.Upstream + " " + k.Endpoint
	}
	return k.Upstream
}

// Life is a stretch over which a gateway reported: from the start of its process to its
// newest report. A policy begins each life at rest.
type Life struct {
	Env, Gateway string
	From, To     time.Time
}

// Late is how old the newest report of a gateway may be before nobody knows any more:
// they report every second, and a report takes its way.
const Late = 15 * time.Second

// Span is a state that lasted; State "" is time of which nobody reported.
type Span struct {
	State    string
	From, To time.Time
}

// Band is how one policy stood over a range, by changes that were told, not by samples:
// an opening of a second is in it.
type Band struct {
	Key
	Spans []Span
	// State is the last one known, and Since and Reason are of the change into it; Since
	// is zero while it never changed.
	State  string
	Since  time.Time
	Reason string
	Turns  int // within the range
	// Out is how long it was not at rest.
	Out time.Duration
}

// Rest is the state in which a policy does nothing.
func Rest(policy string) string {
	switch policy {
	case "breaker":
		return "closed"
	case "concurrency":
		return "accepting"
	case "measure":
		return "none"
	}
	return ""
}

// Bands lays out what turns say of [from, to), one band for each policy that turned and
// each that is known to be there. turns may begin before from; what stood then stands
// at from. The most restless come first, and among those at rest the names decide.
func Bands(turns []retrylog.Transition, lives []Life, known []Key, from, to time.Time) []Band {
	byKey := map[Key][]retrylog.Transition{}
	var keys []Key
	add := func(k Key) {
		if _, ok := byKey[k]; !ok {
			byKey[k] = nil
			keys = append(keys, k)
		}
	}
	for _, t := range turns {
		k := Key{t.Policy, t.Env, t.Gateway, t.Service, t.Upstream, t.Endpoint}
		add(k)
		byKey[k] = append(byKey[k], t)
	}
	for _, k := range known {
		add(k)
	}
	out := make([]Band, 0, len(keys))
	for _, k := range keys {
		list := byKey[k]
		slices.SortStableFunc(list, func(a, b retrylog.Transition) int { return a.At.Compare(b.At) })
		out = append(out, band(k, list, lives, from, to))
	}
	slices.SortStableFunc(out, func(a, b Band) int {
		return cmp.Or(cmp.Compare(bad(b), bad(a)), cmp.Compare(b.Out, a.Out), cmp.Compare(b.Turns, a.Turns), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Name(), b.Name()), cmp.Compare(a.Gateway, b.Gateway))
	})
	return out
}

// bad puts what is not at rest now before what is.
func bad(b Band) int {
	if b.State != "" && b.State != b.rest(nil) {
		return 1
	}
	return 0
}

func (k Key) rest(turns []retrylog.Transition) string {
	if r := Rest(k.Policy); r != "" {
		return r
	}
	if len(turns) > 0 {
		return turns[0].From
	}
	return ""
}

func band(k Key, turns []retrylog.Transition, lives []Life, from, to time.Time) Band {
	b := Band{Key: k}
	put := func(state string, since, until time.Time) {
		since, until = later(since, from), earlier(until, to)
		if !since.Before(until) {
			return
		}
		if n := len(b.Spans); n > 0 && b.Spans[n-1].State == state && b.Spans[n-1].To.Equal(since) {
			b.Spans[n-1].To = until
			return
		}
		b.Spans = append(b.Spans, Span{state, since, until})
	}
	var mine []Life
	for _, l := range lives {
		if to.Sub(l.To) < Late {
			l.To = later(l.To, to)
		}
		if l.Gateway == k.Gateway && l.Env == k.Env && l.To.After(from) && l.From.Before(to) {
			mine = append(mine, l)
		}
	}
	slices.SortFunc(mine, func(a, b Life) int { return a.From.Compare(b.From) })
	rest, at := k.rest(turns), time.Time{}
	for _, l := range mine {
		// Two processes of one name may overlap while one takes over.
		if l.From = later(l.From, at); !l.To.After(l.From) {
			continue
		}
		put("", later(at, from), l.From)
		state, since := rest, l.From
		b.State, b.Since, b.Reason = rest, time.Time{}, ""
		for _, t := range turns {
			if t.At.Before(l.From) || t.At.After(l.To) {
				continue
			}
			put(state, since, t.At)
			state, since = t.To, t.At
			b.State, b.Since, b.Reason = t.To, t.At, t.Reason
			if !t.At.Before(from) && t.At.Before(to) {
				b.Turns++
			}
		}
		put(state, since, l.To)
		at = later(at, l.To)
	}
	put("", later(at, from), to)
	if n := len(b.Spans); n > 0 && b.Spans[n-1].State == "" {
		b.State = "" // whatever it was, nobody reports it any more
	}
	for _, s := range b.Spans {
		if s.State != "" && s.State != rest {
			b.Out += s.To.Sub(s.From)
		}
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// Refusal is how many requests of a service a policy refused, for one reason.
type Refusal struct {
	Service, Env, Policy, Reason string
	Count                        int64
}
