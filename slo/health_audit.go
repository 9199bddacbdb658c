package slo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// HealthFacts are what an audit of one upstream looks at, beside its counts.
type HealthFacts struct {
	// Routes are those that ask the upstream, as documents have them; nil: control
	// knows no documents.
	Routes []HealthRoute
	// Config is what the validator says of the documents, each at its place. Headers
	// is what gateways found of fields that policies rely on and that do not come.
	Config, Headers []string
	// P95 is how long valid exchanges with the upstream took, of that many; Over:
	// longer than can be told.
	P95   time.Duration
	P95Of int64
	Over  bool
	// Tries are retries of exchanges that were kept, a sample.
	Tries []HealthTry
}

// HealthRoute is the retry policy of a route.
type HealthRoute struct {
	Name       string
	Enabled    bool
	MaxRetries int64
	PerTry     time.Duration
	Backoff    time.Duration
	OnStatus   []int
}

// HealthTry is one retry: the how manieth, how long after the failure of the first
// try it came, and whether it was answered well.
type HealthTry struct {
	N    int
	Wait time.Duration
	Good bool
}

// Advice is one thing to be changed, with the numbers behind it.
type Advice struct {
	Code string // retry_on_status, max_retries, backoff_base, per_try_timeout, header, config, upstream
	// Subject is what is to be changed, Now what it is, Should what is advised.
	Subject, Now, Should string
	Why                  string
	// ScorePPM is what the score would have been, where that can be reckoned.
	ScorePPM int64
}

// sampleEnough is how many retries of a kind there must be to be told apart.
const sampleEnough = 20

// Audit says what would raise a score, what would raise it most first.
func (h UpstreamHealth) Audit(f HealthFacts) []Advice {
	var out []Advice
	for _, each := range [][]Advice{h.auditReasons(f), h.auditRetries(f), h.auditBackoff(f), h.auditTimeout(f)} {
		out = append(out, each...)
	}
	slices.SortStableFunc(out, func(a, b Advice) int { return cmp.Compare(b.ScorePPM, a.ScorePPM) })
	for _, text := range f.Headers {
		out = append(out, Advice{Code: "header", Subject: h.Upstream, Should: "send what policies rely on, or change what they rely on", Why: text})
	}
	for _, text := range f.Config {
		out = append(out, Advice{Code: "config", Subject: "documents", Should: "as the validator says", Why: text})
	}
	if len(out) == 0 {
		out = append(out, Advice{Code: "upstream", Subject: h.Upstream, Should: "look at the upstream itself",
			Why: fmt.Sprintf("%s of %s requests were retried, %s recovered: nothing in the retry policy explains it", Count(h.Counts.Retried), Count(h.Counts.Requests), Count(h.Counts.Recovered))})
	}
	return out
}

// auditReasons finds what is retried without use: less than half of it recovers.
func (h UpstreamHealth) auditReasons(f HealthFacts) []Advice {
	var out []Advice
	for _, r := range h.Reasons {
		ended := r.Counts.Recovered + r.Counts.Failed
		if ended < sampleEnough || 2*r.Counts.Recovered >= ended {
			continue
		}
		without := h.Counts.Plus(HealthCounts{0, -r.Counts.Retried, -r.Counts.Retries, -r.Counts.Recovered, -r.Counts.Failed})
		a := Advice{Code: "retry_on_status", Subject: fmt.Sprintf("%d (%s)", r.Status, r.Reason), Now: "retried", Should: "not retried, or only with a signal that it is worth it",
			ScorePPM: without.Score().PPM,
			Why: fmt.Sprintf("%s of %s recovered (%s); it takes %s off the score", Count(r.Counts.Recovered), Count(ended), Share(r.Counts.Recovered, ended),
				Ratio(r.Trigger+r.Useless+r.Load))}
		if names := routesWith(f.Routes, func(one HealthRoute) bool { return slices.Contains(one.OnStatus, int(r.Status)) }); names != "" {
			a.Subject += " in " + names
		}
		out = append(out, a)
	}
	return out
}

// auditRetries finds retries beyond which hardly any recovers.
func (h UpstreamHealth) auditRetries(f HealthFacts) []Advice {
	most := int64(0)
	for _, r := range f.Routes {
		if r.Enabled {
			most = max(most, r.MaxRetries)
		}
	}
	sent, good := map[int]int64{}, map[int]int64{}
	var last int
	for _, t := range f.Tries {
		sent[t.N]++
		last = max(last, t.N)
		if t.Good {
			good[t.N]++
		}
	}
	// The last retry of which one in ten still recovers.
	keep := last
	for keep > 1 && sent[keep] >= sampleEnough && good[keep]*10 < sent[keep] {
		keep--
	}
	switch {
	case keep < last:
		var kept, all, won, lost int64
		var parts []string
		for n := 1; n <= last; n++ {
			all += sent[n]
			if n <= keep {
				kept, won = kept+sent[n], won+good[n]
			} else {
				lost += good[n]
			}
			parts = append(parts, fmt.Sprintf("retry %d recovered %s of %s", n, Count(good[n]), Count(sent[n])))
		}
		c := h.Counts
		ended := c.Recovered + c.Failed
		c.Retries = max(mulDiv(c.Retries, kept, all), c.Retried)
		if won+lost > 0 {
			c.Recovered = mulDiv(c.Recovered, won, won+lost)
		}
		c.Failed = ended - c.Recovered
		return []Advice{{Code: "max_retries", Subject: "max_retries" + of(f.Routes), Now: nowOf(most), Should: fmt.Sprint(keep), ScorePPM: c.Score().PPM,
			Why: fmt.Sprintf("of %s retries that were kept, %s; the load they add would fall from %s to %s", Count(int64(len(f.Tries))), strings.Join(parts, ", "),
				Share(h.Counts.Retries, h.Counts.Requests), Share(c.Retries, c.Requests))}}
	case last == 0 && h.Counts.Retries > h.Counts.Retried && h.Score.Load >= 50_000:
		c := h.Counts
		c.Retries = c.Retried
		return []Advice{{Code: "max_retries", Subject: "max_retries" + of(f.Routes), Now: nowOf(most), Should: "1", ScorePPM: c.Score().PPM,
			Why: fmt.Sprintf("%s retries were sent for %s requests, which is %s of load on top; one each would be %s",
				Count(h.Counts.Retries), Count(h.Counts.Retried), Share(h.Counts.Retries, h.Counts.Requests), Share(c.Retries, c.Requests))}}
	}
	return nil
}

// auditBackoff finds that the second retry recovers much better than the first: the
// upstream needs longer than the first one waits.
func (h UpstreamHealth) auditBackoff(f HealthFacts) []Advice {
	var sent, good [3]int64
	var waits [3][]time.Duration
	for _, t := range f.Tries {
		if t.N <= 2 {
			sent[t.N]++
			waits[t.N] = append(waits[t.N], t.Wait)
			if t.Good {
				good[t.N]++
			}
		}
	}
	if sent[1] < sampleEnough || sent[2] < sampleEnough || good[2]*sent[1]*2 <= good[1]*sent[2]*3 {
		return nil
	}
	first, second := median(waits[1]), median(waits[2])
	should := roundUp(second, 50*time.Millisecond)
	base := time.Duration(0)
	for _, r := range f.Routes {
		if r.Enabled {
			base = max(base, r.Backoff)
		}
	}
	if should <= base {
		return nil
	}
	// As many as the second retry won would be won by the first.
	c := h.Counts
	ended := c.Recovered + c.Failed
	c.Recovered = max(mulDiv(ended, good[2], sent[2]), c.Recovered)
	c.Failed = max(ended-c.Recovered, 0)
	a := Advice{Code: "backoff_base", Subject: "backoff_base" + of(f.Routes), Should: milliseconds(should), ScorePPM: c.Score().PPM,
		Why: fmt.Sprintf("the first retry, %s after the failure, recovered %s of %s; the second, %s after it, %s of %s: the upstream needs longer",
			Span(first), Count(good[1]), Count(sent[1]), Span(second), Count(good[2]), Count(sent[2]))}
	if base > 0 {
		a.Now = milliseconds(base)
	}
	return []Advice{a}
}

// auditTimeout holds per_try_timeout against 1.2 times the P95.
func (h UpstreamHealth) auditTimeout(f HealthFacts) []Advice {
	if f.P95Of < healthSure || f.P95 <= 0 {
		return nil
	}
	should := roundUp(f.P95*6/5, 10*time.Millisecond)
	var out []Advice
	for _, r := range f.Routes {
		if !r.Enabled || r.PerTry <= 0 {
			continue
		}
		a := Advice{Code: "per_try_timeout", Subject: "per_try_timeout of " + r.Name, Now: milliseconds(r.PerTry), Should: milliseconds(should), ScorePPM: 0}
		why := fmt.Sprintf("P95 of %s answers is %s, and 1.2 times that leaves room for ordinary slowness alone", Count(f.P95Of), Span(f.P95))
		switch {
		case f.Over || f.P95 >= r.PerTry:
			a.Why = why + "; tries are cut at " + Span(r.PerTry) + " before most slow answers come, so that answers are retried that were on their way"
		case r.PerTry*5 < should*4: // more than a fifth off
			a.Why = why + "; the timeout lies below that and cuts answers that would have come"
		case r.PerTry*4 > should*5:
			a.Why = why + "; the timeout waits " + Span(r.PerTry-should) + " longer for answers that hardly ever come, and holds a connection meanwhile"
		default:
			continue
		}
		if should <= r.Backoff {
			a.Why += fmt.Sprintf(". backoff_base (%s) must then be less than %s", milliseconds(r.Backoff), a.Should)
		}
		out = append(out, a)
	}
	return out
}

func routesWith(routes []HealthRoute, has func(HealthRoute) bool) string {
	var names []string
	for _, r := range routes {
		if has(r) {
			names = append(names, r.Name)
		}
	}
	return namesOf(names)
}

// of names the routes that retry, for a subject.
func of(routes []HealthRoute) string {
	if names := routesWith(routes, func(r HealthRoute) bool { return r.Enabled }); names != "" {
		return " of " + names
	}
	return ""
}

func namesOf(names []string) string {
	const most = 3
	if len(names) > most {
		return fmt.Sprintf("%s and %d more routes", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

func nowOf(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

func median(list []time.Duration) time.Duration {
	slices.Sort(list)
	return list[len(list)/2]
}

func roundUp(d, unit time.Duration) time.Duration { return (d + unit - 1) / unit * unit }

// milliseconds writes a duration as the fields of a retry policy have it.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }
