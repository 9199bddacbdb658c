package alert

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"time"

	"breakwater/slo"
)

// Evidence is what the ledger holds about a scope's last minutes.
type Evidence struct {
	From, To   time.Time
	Bad, Total int64
	Facets     []Facet
	Upstreams  []Moved
	// Experiments touched requests in these minutes.
	Experiments []string
	Deploy      *slo.Cause // the last one
	Config      *slo.Cause
	Protecting  []string
}

// Facet is one value of one dimension: code, instance, rack, caller, tenant, route.
type Facet struct {
	Dimension, Value string
	Bad, Total       int64
}

// Moved compares an upstream's failures now with those before.
type Moved struct {
	Name             string
	Bad, Total       int64
	WasBad, WasTotal int64
}

// Context is what a person at three in the morning needs, as text that every
// channel shows alike, and with the numbers beside it.
type Context struct {
	At      time.Time `json:"at"`
	Burn    string    `json:"burn"`
	Left    string    `json:"budget_left"`
	Outlook string    `json:"outlook"` // thaw or exhaustion
	Bad     int64     `json:"bad_events"`
	Total   int64     `json:"events"`
	// TopCode is the most frequent business code of failures, with its share.
	TopCode      string          `json:"top_code,omitempty"`
	Concentrated []Concentration `json:"concentrated"`
	Upstreams    []string        `json:"upstreams"`
	Experiments  []string        `json:"experiments"`
	LastDeploy   string          `json:"last_deploy,omitempty"`
	LastConfig   string          `json:"last_config,omitempty"`
	Protecting   []string        `json:"protecting"`
}

// Concentration is a value that has more of the failures than of the traffic.
type Concentration struct {
	Dimension   string `json:"dimension"`
	Value       string `json:"value"`
	FailuresPPM int64  `json:"failures_ppm"`
	TrafficPPM  int64  `json:"traffic_ppm"`
	LiftMilli   int64  `json:"lift_milli"`
	Text        string `json:"text"`
}

// What is worth a line: from a few failures on, a value with much of them, and
// clearly more than its traffic explains.
const (
	fewest      = 3
	leastShare  = 300_000 // ppm of the failures
	leastLift   = 1500    // thousandths
	leastMove   = 2       // times
	leastRatio  = 10_000  // ppm, of an upstream that moved
	mostLines   = 5
	fromNothing = 1_000_000 // times; an upstream that had no failures before
)

// Explain makes the context of a scope whose worst objective stands at s.
func Explain(s slo.Status, e Evidence, now time.Time) Context {
	c := Context{At: now, Bad: e.Bad, Total: e.Total, Burn: burnPair(s), Concentrated: []Concentration{}, Upstreams: []string{}, Experiments: []string{}, Protecting: []string{}}
	c.Left = "no data"
	if !s.Budget.NoData {
		c.Left = fmt.Sprintf("%s of the error budget is left (%s of %s)", slo.Percent(s.Budget.RemainingPPM), s.Objective.Amount(s.Budget.Remaining), s.Objective.Amount(s.Budget.Allowed))
	}
	switch {
	case s.Level == slo.Frozen && !s.ThawAt.IsZero():
		c.Outlook = fmt.Sprintf("thaws %s if nothing else fails", slo.Clock(s.ThawAt))
	case s.Level == slo.Frozen:
		c.Outlook = "frozen until enough budget is back"
	case !s.EmptyAt.IsZero():
		c.Outlook = fmt.Sprintf("empty %s at this pace (in %s)", slo.Clock(s.EmptyAt), slo.Span(s.EmptyAt.Sub(now)))
	}
	c.TopCode = topCode(e)
	c.Concentrated = concentrations(e)
	c.Upstreams = moved(e.Upstreams)
	c.Experiments = append(c.Experiments, e.Experiments...)
	c.LastDeploy, c.LastConfig = last("deploy", e.Deploy, now), last("configuration", e.Config, now)
	if s.Level == slo.Frozen {
		c.Protecting = append(c.Protecting, "releases are frozen")
	}
	c.Protecting = append(c.Protecting, e.Protecting...)
	return c
}

func burnPair(s slo.Status) string {
	rules := s.Firing()
	if len(rules) == 0 {
		return fmt.Sprintf("burns at %s over %s", slo.Rate(s.Burn(time.Hour)), slo.Span(time.Hour))
	}
	p := rules[0]
	return fmt.Sprintf("burns at %s over %s and %s over %s", slo.Rate(s.Burn(p.Long)), slo.Span(p.Long), slo.Rate(s.Burn(p.Short())), slo.Span(p.Short()))
}

func topCode(e Evidence) string {
	var top Facet
	for _, f := range e.Facets {
		if f.Dimension == "code" && (f.Bad > top.Bad || f.Bad == top.Bad && f.Value < top.Value) {
			top = f
		}
	}
	if top.Bad == 0 || e.Bad == 0 {
		return ""
	}
	return fmt.Sprintf("%s: %s", top.Value, slo.Percent(slo.Part(top.Bad, e.Bad)))
}

// concentrations lists where failures gather, the greatest lift first. A value
// with all the traffic can gather nothing.
func concentrations(e Evidence) []Concentration {
	out := []Concentration{}
	for _, f := range e.Facets {
		if f.Dimension == "code" || f.Value == "other" || f.Bad < fewest || e.Bad == 0 || e.Total == 0 || f.Total == 0 {
			continue
		}
		lift := over(f.Bad, e.Total, f.Total, e.Bad, 1000)
		share := slo.Part(f.Bad, e.Bad)
		if share < leastShare || lift < leastLift {
			continue
		}
		c := Concentration{Dimension: f.Dimension, Value: f.Value, FailuresPPM: share, TrafficPPM: slo.Part(f.Total, e.Total), LiftMilli: lift}
		c.Text = fmt.Sprintf("%s %s: %s of failures vs %s of traffic (lift %d.%d)", f.Dimension, f.Value, slo.Percent(c.FailuresPPM), slo.Percent(c.TrafficPPM), (lift+50)/1000, (lift+50)%1000/100)
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b Concentration) int {
		return cmp.Or(cmp.Compare(b.LiftMilli, a.LiftMilli), cmp.Compare(b.FailuresPPM, a.FailuresPPM), cmp.Compare(a.Dimension, b.Dimension), cmp.Compare(a.Value, b.Value))
	})
	return out[:min(len(out), mostLines)]
}

// over is a*b/(c*d) in parts of unit, rounded to the nearest.
func over(a, b, c, d, unit int64) int64 {
	den := new(big.Int).Mul(big.NewInt(c), big.NewInt(d))
	if den.Sign() <= 0 {
		return 0
	}
	num := new(big.Int).Mul(big.NewInt(a), big.NewInt(b))
	num.Mul(num, big.NewInt(2*unit)).Add(num, den)
	num.Quo(num, den.Lsh(den, 1))
	if !num.IsInt64() {
		return fromNothing * unit
	}
	return num.Int64()
}

// moved lists upstreams that fail clearly more often than before, the most first.
func moved(all []Moved) []string {
	type line struct {
		tenths int64
		text   string
	}
	var lines []line
	for _, u := range all {
		if u.Bad < fewest || u.Total == 0 || slo.Part(u.Bad, u.Total) < leastRatio {
			continue
		}
		now := slo.Percent(slo.Part(u.Bad, u.Total))
		if u.WasBad == 0 || u.WasTotal == 0 {
			lines = append(lines, line{fromNothing, fmt.Sprintf("upstream %s: %s fail, none before", u.Name, now)})
			continue
		}
		tenths := over(u.Bad, u.WasTotal, u.Total, u.WasBad, 10)
		if tenths < leastMove*10 {
			continue
		}
		times := fmt.Sprint(tenths / 10)
		if tenths < 100 && tenths%10 != 0 {
			times += fmt.Sprintf(".%d", tenths%10)
		}
		lines = append(lines, line{tenths, fmt.Sprintf("upstream %s x%s (%s of its requests fail, %s before)", u.Name, times, now, slo.Percent(slo.Part(u.WasBad, u.WasTotal)))})
	}
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(b.tenths, a.tenths), cmp.Compare(a.text, b.text)) })
	out := []string{}
	for _, l := range lines[:min(len(lines), mostLines)] {
		out = append(out, l.text)
	}
	return out
}

func last(what string, c *slo.Cause, now time.Time) string {
	if c == nil {
		return ""
	}
	text := fmt.Sprintf("%s %s, %s ago", what, c.Ref, slo.Span(now.Sub(c.From)))
	if c.Actor != "" && c.Actor != "gateway" {
		text += " by " + c.Actor
	}
	return text
}

// Lines are c as text, one fact a line, what helps most first.
func (c Context) Lines() []string {
	var out []string
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if c.Burn != "" {
		add("Budget %s; %s.", c.Burn, c.Left)
	}
	if c.Outlook != "" {
		add("Outlook: %s.", c.Outlook)
	}
	if c.Total > 0 {
		add("Last 5 min: %s of %s requests failed.", slo.Count(c.Bad), slo.Count(c.Total))
	}
	if c.TopCode != "" {
		add("Top error code %s", c.TopCode)
	}
	for _, x := range c.Concentrated {
		add("%s", x.Text)
	}
	for _, u := range c.Upstreams {
		add("%s", u)
	}
	for _, x := range c.Experiments {
		add("Experiment %s touches requests now", x)
	}
	if c.LastDeploy != "" {
		add("Last %s", c.LastDeploy)
	}
	if c.LastConfig != "" {
		add("Last %s", c.LastConfig)
	}
	for _, p := range c.Protecting {
		add("Protects now: %s", p)
	}
	return out
}
