package ingest

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/retrylog"
)

// The dimensions failures are looked at by, beside route, upstream and experiment,
// which are keys of the rows themselves.
const (
	byStatus = iota
	byCode
	byEndpoint
	byCaller
	byTenant
	byGateway
	byRevision
	byKind // how it failed, of those that did
	bySkip // why a retry was not made
	byTry  // the endpoint of each try; events are tries
	dimensions
)

var dimensionNames = [dimensions]string{"status", "code", "endpoint", "caller", "tenant", "gateway", "revision", "kind", "skip", "try"}

// Clients choose callers and tenants, so their number is bounded.
const (
	maxValues    = 50   // of a dimension and minute, in a batch; the rest is Other
	maxCandidate = 1000 // among which they are chosen
)

// Other is the value that stands for all beyond the most frequent.
const Other = "other"

type scopeKey struct {
	service, env string
	minute       int64
}

// scope holds the facets of a service's minute.
type scope struct {
	service, env string
	at           time.Time
	dims         [dimensions]facets
}

// facets are the values of one dimension. Consecutive lines often have the same.
type facets struct {
	values map[string]*Facet
	last   *Facet
	status int // of last, for byStatus
	raw    string
}

func (s *scope) count(x *retrylog.Exchange, class Class, n int64) {
	d := &s.dims[byStatus]
	if d.last == nil || d.status != x.Status {
		d.find(strconv.Itoa(x.Status))
		d.status = x.Status
	}
	d.last.count(x, class, n)
	s.value(byCode, x.BusinessCode, x, class, n)
	if len(x.Tries) > 0 {
		s.value(byEndpoint, x.Tries[len(x.Tries)-1].Endpoint, x, class, n)
	}
	s.value(byCaller, x.Caller, x, class, n)
	s.value(byTenant, x.Tenant, x, class, n)
	s.value(byGateway, x.Gateway, x, class, n)
	s.value(byRevision, x.Revision, x, class, n)
	s.value(bySkip, x.Skip, x, class, n)
	if class == Bad || class == Throttled {
		s.value(byKind, failure(x), x, class, n)
	}
	for i := range x.Tries {
		s.tried(&x.Tries[i], n)
	}
}

// tried counts a try by itself: a retry that helped hides from all other
// dimensions which endpoint had failed.
func (s *scope) tried(t *retrylog.Try, n int64) {
	if t.Endpoint == "" || t.Kind == "canceled" {
		return // canceled says nothing of the endpoint
	}
	d := &s.dims[byTry]
	if d.last == nil || d.raw != t.Endpoint {
		d.find(t.Endpoint)
	}
	d.last.Total += n
	if t.Kind != "" || t.Status >= 500 {
		d.last.Bad += n
	} else {
		d.last.Good += n
	}
}

// failure names how an exchange failed: what refused it, why there was no
// connection, how the last try ended, or the status.
func failure(x *retrylog.Exchange) string {
	last := retrylog.Try{}
	if len(x.Tries) > 0 {
		last = x.Tries[len(x.Tries)-1]
	}
	switch {
	case x.Refusal != "":
		return x.Refusal
	case last.Cause != "":
		return last.Cause
	case last.Kind != "" && last.Kind != "canceled":
		return last.Kind
	case x.Timeout != "":
		return "timeout_" + x.Timeout
	case x.Outcome == retrylog.UpstreamFailure && x.Status > 0 && x.Status < 500:
		return "business_code"
	}
	return "status_" + strconv.Itoa(x.Status)
}

func (s *scope) value(dim int, v string, x *retrylog.Exchange, class Class, n int64) {
	if v == "" {
		return
	}
	d := &s.dims[dim]
	if d.last == nil || d.raw != v {
		d.find(v)
	}
	d.last.count(x, class, n)
}

// find makes last the facet of v.
func (d *facets) find(v string) {
	f := d.values[v]
	if f == nil && len(d.values) >= maxCandidate {
		v = Other
		f = d.values[v]
	}
	if f == nil {
		if d.values == nil {
			d.values = map[string]*Facet{}
		}
		f = &Facet{FacetKey: FacetKey{Value: clean(v)}}
		d.values[strings.Clone(v)] = f // v is only lent
	}
	d.last, d.raw = f, f.Value
}

func (f *Facet) count(x *retrylog.Exchange, class Class, n int64) {
	f.Total += n
	switch class {
	case Good:
		f.Good += n
	case Bad:
		f.Bad += n
		if x.Experiment != "" {
			f.ChaosBad += n
		}
	case Throttled:
		f.Throttled += n
	}
}

// list appends the facets of s: of each dimension those with most failures.
func (s *scope) list(out []*Facet) []*Facet {
	for dim := range s.dims {
		from := len(out)
		for _, f := range s.dims[dim].values {
			f.Service, f.Env, f.At, f.Dimension = s.service, s.env, s.at, dimensionNames[dim]
			out = append(out, f)
		}
		if all := out[from:]; len(all) > maxValues {
			slices.SortFunc(all, func(a, b *Facet) int {
				return cmp.Or(cmp.Compare(b.Bad, a.Bad), cmp.Compare(b.Total, a.Total), cmp.Compare(a.Value, b.Value))
			})
			for _, f := range all[maxValues:] {
				f.Value = Other // added up once they are in order
			}
		}
	}
	return out
}
