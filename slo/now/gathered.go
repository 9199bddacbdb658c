package now

import (
	"fmt"

	"breakwater/slo"
)

// other is the value under which ingest counts what is beyond the most frequent.
const other = "other"

// leastGathered is the share of failures, in ppm, from which they gather in a value.
const leastGathered = 300_000

// dimension is one along which failures are looked at.
type dimension struct {
	name   string
	kind   Kind
	tries  bool
	weight int64
	says   string
}

func dimensionsLooked() []dimension {
	return []dimension{
		{ByInstance, AnInstance, true, weighGathered, "Instance"},
		{ByRack, ARack, true, weighGathered, "Rack"},
		{ByZone, AZone, true, weighGathered, "Zone"},
		{ByCaller, ACaller, false, weighGathered, "Caller"},
		{ByTenant, ATenant, false, 950, "Tenant"},
		{ByGateway, AGateway, false, 900, "Gateway"},
		{ByUpstream, AnUpstream, false, 650, "Upstream"},
		{ByRoute, ARoute, false, weighRoute, "Route"},
	}
}

// gathered are the values that have much more of the failures than of the traffic.
//
// How far failures gather is (their share - traffic's share) / (1 - traffic's share):
// all of it where nothing else fails. Of two values that hold the same failures the
// narrower says more, so half of its traffic's share is taken off: the one bad
// instance goes before its rack, and a bad rack before each of its instances.
func (w *weigher) gathered() (out []Cause) {
	same := map[[2]int64]bool{} // what a narrower value has said already
	for _, d := range dimensionsLooked() {
		var sum Facet
		values := 0
		for _, f := range w.e.Facets {
			if f.Dimension == d.name {
				values++
				sum.Hits, sum.Total, sum.WasTotal = sum.Hits+f.Hits, sum.Total+f.Total, sum.WasTotal+f.WasTotal
			}
		}
		if values < 2 || sum.Hits == 0 {
			continue // a value that has all the traffic can gather nothing
		}
		relevant := int64(million)
		if d.tries && w.span.State == Hit {
			// Tries fail too while users are turned away for another reason.
			relevant = w.of(w.upstreams())
		}
		for _, f := range w.e.Facets {
			if f.Dimension != d.name || f.Value == other || f.Hits < fewestHits {
				continue
			}
			// Once it fails, an endpoint is given less or, quick as errors are, more.
			traffic := part(f.Total, sum.Total)
			if sum.WasTotal >= 50 && f.WasTotal > 0 {
				traffic = part(f.WasTotal, sum.WasTotal)
			}
			share := part(f.Hits, sum.Hits)
			if share < leastGathered || share <= traffic || traffic >= million {
				continue
			}
			key := [2]int64{f.Hits, f.Total}
			if d.tries && same[key] {
				continue
			}
			same[key] = same[key] || d.tries
			gathers := mulDiv(share-traffic, million, million-traffic)
			fits := mulDiv(mulDiv(gathers, million-traffic/2, million), relevant, million)
			c := Cause{Kind: d.kind, Subject: f.Value, Service: w.e.Service, Score: scaled(fits, d.weight), ExplainedPPM: mulDiv(share, relevant, million), Failures: f.Hits,
				TrafficPPM: traffic, NowPPM: part(f.Hits, f.Total), WasPPM: part(f.WasHits, f.WasTotal)}
			if traffic > 0 {
				c.LiftMilli = mulDiv(share, 1000, traffic)
			}
			what := "failures"
			if d.tries {
				what = "failed tries"
			}
			c.Text = fmt.Sprintf("%s %s has %s of the %s with %s of the traffic (lift %s): %s of what it gets fails.",
				d.says, f.Value, slo.Percent(share), what, slo.Percent(traffic), milli(c.LiftMilli), slo.Percent(c.NowPPM))
			out = append(out, c)
		}
	}
	return out
}
