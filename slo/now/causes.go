package now

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"breakwater/slo"
)

// Weights, in thousandths. A mark on the failed request itself proves most; then
// comes what refused it; then what changed just before the first failure; then
// where failures gather; at last what fails without saying why.
const (
	weighExperiment  = 1100
	weighFlood       = 1060
	weighLimit       = 1050
	weighGathered    = 1000
	weighName        = 930
	weighStorm       = 900
	weighMeasure     = 900
	weighDependency  = 800
	weighConcurrency = 600
	weighUpstream    = 600
	weighShed        = 500
	weighLoad        = 400
	weighRoute       = 350
	weighCode        = 300
)

// experiments are runs whose fault touched what failed.
func (w *weigher) experiments() (out []Cause) {
	for _, x := range w.e.Experiments {
		if x.Hits == 0 {
			continue
		}
		share := w.of(x.Hits) // what a breaker refused after it carries no mark
		out = append(out, Cause{Kind: AnExperiment, Subject: x.Run, Service: x.Service, Score: scaled(share, weighExperiment), ExplainedPPM: share, Failures: x.Hits,
			Text: fmt.Sprintf("Experiment %s touched %s of the failed requests (%s); stop it and they end.", named(x.Run, x.Title), slo.Percent(share), slo.Count(x.Hits))})
	}
	return out
}

func named(ref, title string) string {
	if title == "" || title == ref {
		return ref
	}
	return ref + " (" + title + ")"
}

// policies are our own refusals, under their own names: users are turned away by us.
func (w *weigher) policies() (out []Cause) {
	add := func(kind Kind, group string, weight int64, text string) {
		n := w.how[group]
		if n == 0 {
			return
		}
		share := min(part(n, w.hits), million)
		c := Cause{Kind: kind, Subject: group, Service: w.e.Service, Score: scaled(share, weight), ExplainedPPM: share, Failures: n,
			Text: fmt.Sprintf(text, slo.Count(n), slo.Percent(share))}
		for _, f := range w.e.Facets {
			if f.Dimension == ByKind && grouped(f.Value) == group {
				c.Details = append(c.Details, fmt.Sprintf("%s: %s", f.Value, slo.Count(f.Hits)))
			}
		}
		if rise := w.rise(); rise >= 1200 {
			c.Details = append(c.Details, fmt.Sprintf("%s times as many requests a minute as before", milli(rise)))
		}
		out = append(out, c)
	}
	add(ALimit, "limiter", weighLimit, "Our own limiter refused %s requests, %s of what fails, before any upstream was asked: the limit is below what comes.")
	add(AMeasure, "measure", weighMeasure, "A protective measure in force sheds %s requests, %s of what fails.")
	add(AConcurrency, "concurrency", weighConcurrency, "Our own limit on requests under way refused %s requests, %s of what fails.")
	add(AShed, "shed", weighShed, "We shed %s requests, %s of what fails, since more come than are answered.")
	return out
}

// rise is how many times as many requests a minute come as before, in thousandths.
func (w *weigher) rise() int64 {
	var most, was, n int64
	for _, m := range w.e.Minutes {
		if m.At.Before(w.span.Onset) {
			was, n = was+m.Exchanges, n+1
		} else {
			most = max(most, m.Exchanges)
		}
	}
	if n == 0 || was == 0 {
		return 0
	}
	return mulDiv(most*n, 1000, was)
}

// load is somebody who asks for much more than before.
func (w *weigher) load() (out []Cause) {
	rise := w.rise()
	refused := w.ours + w.how["overloaded"] + w.how["late"]
	if rise >= 2000 && refused > 0 {
		share := w.of(refused)
		out = append(out, Cause{Kind: ALoad, Subject: w.e.Service, Service: w.e.Service, Score: scaled(share, weighLoad), ExplainedPPM: share, Failures: refused,
			Text: fmt.Sprintf("%s times as many requests a minute come as before the onset.", milli(rise))})
	}
	if w.how["limiter"]*2 < w.hits {
		return out
	}
	was := int64(0)
	for _, m := range w.e.Minutes {
		if m.At.Before(w.span.Onset) {
			was++
		}
	}
	lasted := int64(len(w.e.Minutes)) - was
	for _, f := range w.e.Facets {
		share := part(f.Hits, w.hits)
		if f.Dimension != ByCaller || f.Value == other || share < 800_000 || was == 0 || lasted == 0 || f.WasTotal == 0 {
			continue
		}
		if times := mulDiv(f.Total*was, 1000, f.WasTotal*lasted); times >= 3000 {
			out = append(out, Cause{Kind: ALoad, Subject: f.Value, Service: w.e.Service, Score: scaled(min(part(w.how["limiter"], w.hits), million), weighFlood), ExplainedPPM: share, Failures: f.Hits,
				Text: fmt.Sprintf("Caller %s sends %s times what it sent before, and has %s of what is refused.", f.Value, milli(times), slo.Percent(share))})
		}
	}
	return out
}

// names are upstreams whose name does not resolve.
func (w *weigher) names() []Cause {
	n := w.how["dns"]
	if n == 0 {
		return nil
	}
	share := w.of(n)
	return []Cause{{Kind: AName, Subject: w.mainUpstream(), Service: w.e.Service, Score: scaled(share, weighName), ExplainedPPM: share, Failures: n,
		Text: fmt.Sprintf("The name of upstream %s does not resolve: %s requests failed before a connection (%s of what fails).", w.mainUpstream(), slo.Count(n), slo.Percent(share))}}
}

// What makes retries a storm: so many tries of a request, so much more than before,
// against an upstream that says it has too much to do or answers too late.
const (
	stormMilli = 1500
	stormRise  = 400
)

// storm is load that retries made.
func (w *weigher) storm() []Cause {
	was := mulDiv(w.was.Attempts, 1000, w.was.Exchanges)
	n := w.how["late"] + w.how["overloaded"]
	if w.worst < stormMilli || w.worst < was+stormRise || n == 0 {
		return nil
	}
	share := w.of(n)
	c := Cause{Kind: AStorm, Subject: w.mainUpstream(), Service: w.e.Service, Score: scaled(share, weighStorm), ExplainedPPM: share, Failures: n, AmplificationMilli: w.worst,
		Text: fmt.Sprintf("Retries multiply the load on %s by %s (%s before), and it answers too late or that it is overloaded: fewer retries would let it recover.",
			w.mainUpstream(), milli(w.worst), milli(max(was, 1000)))}
	if w.now.Retried > 0 {
		c.Details = append(c.Details, fmt.Sprintf("%s requests were retried, %s of them with success", slo.Count(w.now.Retried), slo.Count(w.now.Recovered)))
	}
	return []Cause{c}
}

func (w *weigher) mainUpstream() string {
	best := Facet{Value: w.e.Service}
	for _, f := range w.e.Facets {
		if f.Dimension == ByUpstream && (f.Hits > best.Hits || best.Hits == 0 && f.Total > best.Total) {
			best = f
		}
	}
	return best.Value
}

// A dependency has moved if it fails this often, and so many times as often as before.
const (
	movedPPM   = 10_000
	movedTimes = 2
)

func (d *Dependency) moved() bool {
	now, was := part(d.Hits, d.Total), part(d.WasHits, d.WasTotal)
	return d.Hits >= fewestHits && now >= movedPPM && now >= movedTimes*was
}

// dependencies are the services it calls that fail more than before. A failing
// callee goes before its callers: it is why they fail, and not they why it does.
func (w *weigher) dependencies() (out []Cause) {
	for i := range w.e.Dependencies {
		d := &w.e.Dependencies[i]
		if !d.moved() {
			continue
		}
		share := w.of(d.Hits)
		now, was := part(d.Hits, d.Total), part(d.WasHits, d.WasTotal)
		c := Cause{Kind: ADependency, Subject: d.Service, Service: d.Service, Score: scaled(share, weighDependency), ExplainedPPM: share, Failures: d.Hits, NowPPM: now, WasPPM: was,
			Text: fmt.Sprintf("%s, which it calls, %s: %s of the calls to it fail, %s before.", d.Service, manner(d.Kinds), slo.Percent(now), slo.Percent(was))}
		if all := part(d.AllHits, d.AllTotal); d.AllTotal > d.Total {
			c.Details = append(c.Details, fmt.Sprintf("of all its callers: %s fail, %s before", slo.Percent(all), slo.Percent(part(d.AllWasHits, d.AllWasTotal))))
		}
		out = append(out, c)
	}
	return out
}

// manner says in words how most of it fails.
func manner(kinds []Facet) string {
	how := map[string]int64{}
	for _, f := range kinds {
		how[grouped(f.Value)] += f.Hits
	}
	best := ""
	for _, name := range []string{"late", "down", "overloaded", "errors", "dns", "limiter", "shed", "concurrency", "masked", "business_code"} {
		if how[name] > how[best] {
			best = name
		}
	}
	switch best {
	case "late":
		return "answers too late"
	case "down":
		return "cannot be connected to"
	case "overloaded":
		return "says that it is overloaded"
	case "dns":
		return "has a name that does not resolve"
	case "limiter", "shed", "concurrency":
		return "is refused by our own limits"
	case "masked":
		return "is given a rest by our breaker"
	}
	return "answers with errors"
}

// upstream is what stands behind the service, where nothing says more.
func (w *weigher) upstream() []Cause {
	n := w.how["late"] + w.how["down"] + w.how["errors"] + w.how["overloaded"]
	if n == 0 {
		return nil
	}
	var all []Facet
	for _, f := range w.e.Facets {
		if group := grouped(f.Value); f.Dimension == ByKind && group != "masked" && group != "limiter" && group != "shed" && group != "concurrency" {
			all = append(all, f)
		}
	}
	share, name := w.of(n), w.mainUpstream()
	c := Cause{Kind: AnUpstream, Subject: name, Service: w.e.Service, Score: scaled(share, weighUpstream), ExplainedPPM: share, Failures: n,
		Text: fmt.Sprintf("Upstream %s %s: %s requests, %s of what fails.", name, manner(all), slo.Count(n), slo.Percent(share))}
	slices.SortStableFunc(all, func(a, b Facet) int { return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(a.Value, b.Value)) })
	for _, f := range all[:min(len(all), 4)] {
		c.Details = append(c.Details, fmt.Sprintf("%s: %s", strings.ReplaceAll(f.Value, "_", " "), slo.Count(f.Hits)))
	}
	return []Cause{c}
}

// codes are business codes that failures carry.
func (w *weigher) codes() (out []Cause) {
	for _, f := range w.e.Facets {
		share := part(f.Hits, w.hits)
		if f.Dimension != ByCode || f.Value == other || share < leastGathered || f.Hits < fewestHits {
			continue
		}
		out = append(out, Cause{Kind: ACode, Subject: f.Value, Service: w.e.Service, Score: scaled(min(share, million), weighCode), ExplainedPPM: min(share, million), Failures: f.Hits,
			Text: fmt.Sprintf("Error code %s: %s of the failures (%s).", f.Value, slo.Percent(min(share, million)), slo.Count(f.Hits))})
	}
	return out
}

// milli writes thousandths with one decimal.
func milli(n int64) string { return fmt.Sprintf("%d.%d", n/1000, n%1000/100) }
