package report

import (
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

// Review is a periodic report on the wire: one computation of which page, Markdown
// and JSON are made.
type Review struct {
	Period string       `json:"period"` // week, month, quarter
	Zone   string       `json:"zone"`
	From   time.Time    `json:"from"`
	To     time.Time    `json:"to"`
	Until  time.Time    `json:"counted_until"`
	Open   bool         `json:"open"` // the period is not over
	At     time.Time    `json:"made_at"`
	Total  ReviewTotal  `json:"total"`
	Teams  []ReviewTeam `json:"teams"`
	// Overrides is how often freezes were passed in the period; null: it was not read.
	Overrides *freeze.OverrideCount `json:"overrides"`
}

// ReviewTotal adds up promises; requests are not added over promises, since several
// promise something of the same ones.
type ReviewTotal struct {
	Promises      int   `json:"promises"`
	Kept          int   `json:"kept"`
	Broken        int   `json:"broken"`
	NoData        int   `json:"no_data"`
	Freezes       int   `json:"freezes"`
	FrozenSeconds int64 `json:"frozen_seconds"`
}

// ReviewTeam is a team.
type ReviewTeam struct {
	Owner    string          `json:"owner"` // "" for services without one
	Total    ReviewTotal     `json:"total"`
	Services []ReviewService `json:"services"`
}

// ReviewService is a service in one environment.
type ReviewService struct {
	Name     string          `json:"service"`
	Env      string          `json:"env"`
	Promises []ReviewPromise `json:"slos"`
}

// ReviewPromise is an SLO over the period.
type ReviewPromise struct {
	ID            string      `json:"id"`
	Title         string      `json:"title"`
	Promise       string      `json:"promise"`
	TargetPercent string      `json:"target_percent"`
	WindowSeconds int64       `json:"window_seconds"`
	Verdict       slo.Verdict `json:"verdict"`
	// Period is the period weighed by itself; start and end the promise's own budget.
	Period Budget `json:"period_budget"`
	Start  Budget `json:"budget_at_start"`
	End    Budget `json:"budget_at_end"`
	// FirstTry is the period's if no retry had helped; null where that says nothing.
	FirstTry      *Budget       `json:"first_try"`
	Points        []ReviewPoint `json:"burn_down"`
	Causes        []Portion     `json:"causes"`
	Untold        int64         `json:"bad_events_not_attributed"`
	Moves         []Move        `json:"moves"`
	Freezes       int           `json:"freezes"`
	FrozenSeconds int64         `json:"frozen_seconds"`

	from, until time.Time
	objective   slo.Objective
	period      slo.Budget
	first       slo.Budget
}

// ReviewPoint is a step of the burn-down.
type ReviewPoint struct {
	At           time.Time `json:"at"`
	RemainingPPM *int64    `json:"remaining_ppm"`
	Valid        int64     `json:"valid_events"`
	Bad          int64     `json:"bad_events"`
}

// ReviewOf renders a review.
func ReviewOf(r slo.Review) Review {
	out := Review{Period: string(r.Unit), Zone: r.Zone, From: r.From.UTC(), To: r.To.UTC(), Until: r.Until.UTC(), Open: r.Until.Before(r.To), At: r.At.UTC(), Teams: []ReviewTeam{}}
	for _, t := range r.Teams {
		team := ReviewTeam{Owner: t.Owner, Services: []ReviewService{}}
		for _, s := range t.Services {
			service := ReviewService{Name: s.Name, Env: s.Env, Promises: []ReviewPromise{}}
			for _, p := range s.Promises {
				service.Promises = append(service.Promises, reviewPromise(p, r))
				team.Total.add(p)
				out.Total.add(p)
			}
			team.Services = append(team.Services, service)
		}
		out.Teams = append(out.Teams, team)
	}
	return out
}

func (t *ReviewTotal) add(p slo.PromiseReview) {
	t.Promises++
	switch p.Verdict() {
	case slo.Kept:
		t.Kept++
	case slo.Broken:
		t.Broken++
	default:
		t.NoData++
	}
	t.Freezes += p.Freezes
	t.FrozenSeconds += int64(p.Frozen / time.Second)
}

func reviewPromise(p slo.PromiseReview, r slo.Review) ReviewPromise {
	o := p.Objective
	out := ReviewPromise{ID: o.ID, Title: o.Title, Promise: o.Promise(), TargetPercent: slo.TargetPercent(o.TargetPPB), WindowSeconds: int64(o.Window / time.Second),
		Verdict: p.Verdict(), Period: budget(o, p.Period), Start: budget(o, p.Start), End: budget(o, p.End), Points: []ReviewPoint{}, Causes: portions(p.Causes), Untold: p.Untold,
		Moves: []Move{}, Freezes: p.Freezes, FrozenSeconds: int64(p.Frozen / time.Second), from: r.From, until: r.Until, objective: o, period: p.Period, first: p.FirstTry}
	if p.FirstTry.Valid > 0 {
		first := budget(o, p.FirstTry)
		out.FirstTry = &first
	}
	for _, x := range p.Points {
		point := ReviewPoint{At: x.At.UTC(), Valid: x.Valid, Bad: x.Bad}
		if !x.NoData {
			left := x.RemainingPPM
			point.RemainingPPM = &left
		}
		out.Points = append(out.Points, point)
	}
	for _, m := range p.Moves {
		valid := m.Good + m.Bad
		out.Moves = append(out.Moves, Move{m.At.UTC(), m.From, m.To, slo.SpentBy(o.TargetPPB, m.Bad, valid), m.Reason})
	}
	return out
}
