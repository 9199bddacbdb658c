package freeze

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
)

// OverrideMove is a row of the audit that is about an override.
type OverrideMove struct {
	Action  string // override.ask, override.grant, override.use or override.revoke
	Actor   string
	At      time.Time
	Service string
	Env     string
	AskedBy string
}

// OverrideTrail has what the audit says of overrides. It is read from the chain that
// nothing is taken out of, not from the overrides as they stand.
type OverrideTrail interface {
	OverrideMoves(ctx context.Context, since, until time.Time) ([]OverrideMove, error)
}

// OverrideCount is how often a freeze was passed in a period, and by whom.
type OverrideCount struct {
	Asked   int64            `json:"asked"`
	Granted int64            `json:"granted"`
	Used    int64            `json:"used"`
	Revoked int64            `json:"revoked"`
	People  []OverridePerson `json:"people"` // who used most first
}

// OverridePerson is somebody's part in it. Used are the changes that passed by
// overrides they had asked for.
type OverridePerson struct {
	Who     string `json:"who"`
	Asked   int64  `json:"asked"`
	Granted int64  `json:"granted"`
	Used    int64  `json:"used"`
}

// CountOverrides adds up moves of services that covers takes; nil: all.
func CountOverrides(moves []OverrideMove, covers func(service, env string) bool) OverrideCount {
	out := OverrideCount{People: []OverridePerson{}}
	people := map[string]*OverridePerson{}
	person := func(who string) *OverridePerson {
		p := people[who]
		if p == nil {
			p = &OverridePerson{Who: who}
			people[who] = p
		}
		return p
	}
	for _, m := range moves {
		if covers != nil && !covers(m.Service, m.Env) {
			continue
		}
		switch m.Action {
		case "override.ask":
			out.Asked++
			person(m.Actor).Asked++
		case "override.grant":
			out.Granted++
			person(m.Actor).Granted++
		case "override.use":
			out.Used++
			person(m.AskedBy).Used++
		case "override.revoke":
			out.Revoked++
		}
	}
	for _, p := range people {
		out.People = append(out.People, *p)
	}
	slices.SortFunc(out.People, func(a, b OverridePerson) int {
		return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(b.Asked, a.Asked), cmp.Compare(b.Granted, a.Granted), cmp.Compare(a.Who, b.Who))
	})
	return out
}

// OverrideQuarter is a quarter of the year, of UTC.
type OverrideQuarter struct {
	Name string    `json:"quarter"`
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
	Open bool      `json:"open"` // it is not over
	OverrideCount
}

// quartersShown is how many quarters are told of.
const quartersShown = 4

// Quarters counts the overrides of the quarter that goes on and of those before it,
// of the services that whoever ctx is about may see.
func (d *Desk) Quarters(ctx context.Context, trail OverrideTrail) ([]OverrideQuarter, error) {
	now := d.instant()
	covers := auth.From(ctx).Covers
	out := []OverrideQuarter{}
	for at := now; len(out) < quartersShown; {
		from, to, err := slo.ReviewPeriod(slo.Quarter, "UTC", at)
		if err != nil {
			return nil, err
		}
		moves, err := trail.OverrideMoves(ctx, from, to)
		if err != nil {
			return nil, err
		}
		out = append(out, OverrideQuarter{Name: fmt.Sprintf("Q%d %d", (int(from.Month())+2)/3, from.Year()), From: from.UTC(), To: to.UTC(), Open: now.Before(to),
			OverrideCount: CountOverrides(moves, func(service, _ string) bool { return covers(service) })})
		at = from.Add(-time.Hour)
	}
	return out, nil
}

// OverrideQuarters serves GET /api/v1/freezes/overrides: how often freezes were passed,
// by quarter, and by whom.
func (d *Desk) OverrideQuarters(trail OverrideTrail) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		list, err := d.Quarters(r.Context(), trail)
		if err != nil {
			reply.Away(w)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]any{"quarters": list})
	}
}
