package slo

import (
	"cmp"
	"slices"
	"time"
)

// CauseKind is what a failure is put down to.
type CauseKind string

// The kinds, in the order in which they claim a failure: an experiment's mark is on
// the failed request itself, an incident was declared by people, a deploy or a new
// configuration has only come shortly before.
const (
	ByExperiment CauseKind = "experiment"
	ByIncident   CauseKind = "incident"
	ByDeploy     CauseKind = "deploy"
	ByConfig     CauseKind = "config"
	ByUnknown    CauseKind = "unknown"
)

// CauseKinds lists them.
func CauseKinds() []CauseKind {
	return []CauseKind{ByExperiment, ByIncident, ByDeploy, ByConfig, ByUnknown}
}

// Cause is something that may have made requests fail from From on. A deploy is
// suspected until Suspect after its end, which is From where only that is known, as is
// a configuration; an incident that goes on has no To.
type Cause struct {
	Kind         CauseKind
	Service, Env string // "": all
	Ref, Title   string
	From, To     time.Time
	Actor        string
}

// Suspect is how long a deploy or a new configuration is held to be the cause of
// what fails after it.
const Suspect = 30 * time.Minute

// holds reports whether c may be the cause of a failure in the minute at.
func (c Cause) holds(at time.Time) bool {
	to := c.To
	if c.Kind == ByDeploy || c.Kind == ByConfig {
		if to.Before(c.From) {
			to = c.From
		}
		to = to.Add(Suspect)
	}
	return at.Add(time.Minute).After(c.From) && (to.IsZero() || at.Before(to))
}

// Failed is how many events were bad in one minute, of those that carry one
// experiment, or of those that carry none.
type Failed struct {
	At         time.Time
	Experiment string
	Bad        int64
}

// Portion is what one cause has of all bad events. PPM add up to a million over all
// shares: what rounding leaves goes to the largest remainders.
type Portion struct {
	Kind        CauseKind
	Ref, Title  string
	Bad         int64
	PPM         int64
	First, Last time.Time // minutes
}

// Attribute puts every bad event down to exactly one cause. Where several could
// be it, the kind decides, then whichever began last. Shares are descending; their
// Bad add up to all of failed.
func Attribute(failed []Failed, causes []Cause) []Portion {
	byKind := map[CauseKind][]Cause{}
	for _, c := range causes {
		byKind[c.Kind] = append(byKind[c.Kind], c)
	}
	for _, list := range byKind {
		slices.SortStableFunc(list, func(a, b Cause) int { return cmp.Or(b.From.Compare(a.From), cmp.Compare(a.Ref, b.Ref)) })
	}
	type key struct {
		kind CauseKind
		ref  string
	}
	shares := map[key]*Portion{}
	var total int64
	for _, f := range failed {
		if f.Bad <= 0 {
			continue
		}
		s := Portion{Kind: ByUnknown}
		if f.Experiment != "" {
			s = Portion{Kind: ByExperiment, Ref: f.Experiment}
		} else {
			for _, kind := range []CauseKind{ByIncident, ByDeploy, ByConfig} {
				if i := slices.IndexFunc(byKind[kind], func(c Cause) bool { return c.holds(f.At) }); i >= 0 {
					s = Portion{Kind: kind, Ref: byKind[kind][i].Ref, Title: byKind[kind][i].Title}
					break
				}
			}
		}
		k := key{s.Kind, s.Ref}
		have := shares[k]
		if have == nil {
			s.First = f.At
			have = &s
			shares[k] = have
		}
		have.Bad += f.Bad
		total += f.Bad
		if f.At.Before(have.First) {
			have.First = f.At
		}
		if f.At.After(have.Last) {
			have.Last = f.At
		}
	}
	out := make([]Portion, 0, len(shares))
	for _, s := range shares {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b Portion) int {
		return cmp.Or(cmp.Compare(b.Bad, a.Bad), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Ref, b.Ref))
	})
	apportion(out, total)
	return out
}

// apportion gives each share its part of a million by largest remainders, so
// that no reader who adds them up finds 99.9 %.
func apportion(shares []Portion, total int64) {
	if total <= 0 {
		return
	}
	left := int64(million)
	order := make([]int, len(shares))
	rest := make([]int64, len(shares))
	for i := range shares {
		shares[i].PPM = mulDiv(shares[i].Bad, million, total)
		left -= shares[i].PPM
		// bad*10^6 mod total: exact in 64 bits of wrap-around, since it is below total.
		rest[i] = shares[i].Bad*million - shares[i].PPM*total
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(rest[b], rest[a]) })
	for _, i := range order[:left] {
		shares[i].PPM++
	}
}

// ByKind adds shares up by kind, in the order of CauseKinds.
func ByKind(shares []Portion) []Portion {
	out := make([]Portion, 0, len(CauseKinds()))
	for _, kind := range CauseKinds() {
		sum := Portion{Kind: kind}
		for _, s := range shares {
			if s.Kind == kind {
				sum.Bad, sum.PPM = sum.Bad+s.Bad, sum.PPM+s.PPM
			}
		}
		out = append(out, sum)
	}
	return out
}
