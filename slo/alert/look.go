package alert

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"breakwater/slo"
)

// The absolute rule pages where so many of so few fail that no statistics are
// needed: a guard that waits for traffic would wait for ever.
const (
	absoluteBad    = 10
	absoluteWindow = time.Hour
)

// silent is how long a gateway may be late before it counts as silent.
const silent = 2 * time.Minute

// stale is the age from which an evaluation says nothing.
const stale = time.Minute

// Look sees what is wrong in an evaluation.
func Look(statuses []slo.Status, now time.Time) Sight {
	sight := Sight{blind: map[scope]bool{}, worst: map[scope]slo.Status{}}
	byScope := map[scope][]slo.Status{}
	for _, s := range statuses {
		if s.Env == "" {
			continue // never seen anywhere: there is nobody to suffer
		}
		at := scope{s.Objective.Service, s.Env}
		byScope[at] = append(byScope[at], s)
		if now.Sub(s.At) > stale {
			sight.blind[at] = true
			continue
		}
		if s.Objective.Spec().Informational {
			continue
		}
		sight.one(at, s, now)
	}
	for at, list := range byScope {
		sight.worst[at], _ = slo.Worst(list)
	}
	slices.SortStableFunc(sight.Symptoms, func(a, b Symptom) int {
		return cmp.Or(cmp.Compare(b.Severity.rank(), a.Severity.rank()), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Key, b.Key))
	})
	return sight
}

func (v *Sight) one(at scope, s slo.Status, now time.Time) {
	o := s.Objective
	add := func(class Class, tier Tier, key string, sev Severity, rank int, format string, args ...any) {
		v.Symptoms = append(v.Symptoms, Symptom{Service: at.service, Env: at.env, Class: class, Tier: tier, Key: o.ID + ":" + key,
			Severity: sev, Rank: rank, Text: fmt.Sprintf(format, args...)})
	}
	note := func(key, format string, args ...any) {
		v.Notes = append(v.Notes, Jotting{Service: at.service, Env: at.env, Key: o.ID + ":" + key, Text: fmt.Sprintf(format, args...), First: now, Last: now, Count: 1})
	}
	rules := o.Rules()
	if due := s.DataUntil.Add(SilentAfter(o)); len(rules) > 0 && !s.DataUntil.IsZero() && !now.Before(due) {
		add(Silent, L1, "silent", Page, 0, "No gateway has reported for %s: nobody knows how %s does", slo.Span(now.Sub(s.DataUntil)), at.service)
		v.blind[at] = true // of all else
		return
	}
	if s.Blind != "" {
		v.blind[at] = true
	}
	if s.Blind != "" && s.Blind != "low_coverage" {
		return
	}
	firing := s.Firing()
	for i, p := range rules {
		fires := slices.ContainsFunc(firing, func(q slo.Pair) bool { return q.Name == p.Name && q.Long == p.Long })
		long := s.Burn(p.Long)
		switch {
		case fires && !calm(s, p):
			sev := Ticket
			if p.Severity == "page" {
				sev = Page
			}
			add(Errors, L1, "burn:"+p.Name, sev, i, "error budget of %s burns at %s over %s and %s over %s: %s",
				o.ID, slo.Rate(long), slo.Span(p.Long), slo.Rate(s.Burn(p.Short())), slo.Span(p.Short()), p.Reason)
		case !fires && !long.NoData && p.Exceeds(o, long.Bad, long.Valid) && !o.Guard().Lets(p, o, long.Bad, long.Valid):
			note("few:"+p.Name, "too few requests (%d): %d failed over %s, which says too little to call anybody", long.Valid, long.Bad, slo.Span(p.Long))
		}
	}
	hour := s.Burn(absoluteWindow)
	if len(rules) > 0 && absolute(o, hour) && !quiet(s, hour) {
		add(Errors, L1, "absolute", Page, len(rules), "%s of the last %s requests of %s failed within an hour", slo.Count(hour.Bad), slo.Count(hour.Valid), at.service)
	}
	switch {
	case s.Level == slo.Frozen:
		add(Budget, L1, "frozen", Freeze, 0, "error budget of %s is exhausted, releases are frozen: %s", o.ID, s.Reason)
	case s.Level == slo.Emergency:
		add(Budget, L1, "emergency", Ticket, 1, "error budget of %s is nearly spent: %s", o.ID, s.Reason)
	case s.Level == slo.Warn:
		note("warn", "%s: %s", o.ID, s.Reason)
	}
}

// SilentAfter is how long no gateway may report before that alone is an alert: until
// they count as silent, and then as long as a total outage would need to be seen.
// A fixed delay would call for a lax promise as soon as for a strict one.
func SilentAfter(o slo.Objective) time.Duration {
	least := time.Duration(-1)
	for _, p := range o.Rules() {
		if d, ok := p.Detects(o, 1_000_000); ok && p.Severity == "page" && (least < 0 || d < least) {
			least = d
		}
	}
	if least < 0 {
		least = time.Hour // nothing pages for it
	}
	return silent + least
}

// absolute reports whether at least ten requests and at least half of all failed.
func absolute(o slo.Objective, b slo.Burn) bool {
	if o.Sliced() || o.Spec().Indicator.Kind == slo.Composite {
		return false // their events are no requests
	}
	return b.Bad >= absoluteBad && b.Bad*2 >= b.Valid
}

// calm reports that what p fires on lies behind: over the last five minutes the
// budget burns at half its threshold at most. The long windows remember an outage
// for hours; people need to know that it is over.
func calm(s slo.Status, p slo.Pair) bool {
	now := s.Burn(5 * time.Minute)
	return now.NoData || now.RateMilli*2 <= p.ThresholdMilli(s.Objective)
}

func quiet(s slo.Status, hour slo.Burn) bool {
	now := s.Burn(5 * time.Minute)
	return now.NoData || now.RateMilli*2 <= hour.RateMilli
}
