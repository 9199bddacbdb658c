package ingest

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"breakwater/internal/histogram"
	"breakwater/slo"
)

// Key names a minute row.
type Key struct {
	Service, Env, Route, Upstream, Experiment string
	At                                        time.Time // the minute's beginning
}

func (k *Key) compare(l *Key) int {
	if c := ordered(k.Service, l.Service, k.Env, l.Env, k.Route, l.Route, k.Upstream, l.Upstream, k.Experiment, l.Experiment); c != 0 {
		return c
	}
	return k.At.Compare(l.At)
}

// ordered compares pairs of names, the first that differ deciding.
func ordered(pairs ...string) int {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i] != pairs[i+1] {
			return strings.Compare(pairs[i], pairs[i+1])
		}
	}
	return 0
}

// Row is what a batch adds to one minute row.
type Row struct {
	Key
	slo.Tally // Lost and the minutes of coverage stay zero: they have no service

	BadLocal        int64 // bad, and the gateway made the answer
	ChaosGood       int64 // good, and carries an experiment
	Synthetic       int64 // in no objective, also in Neutral
	DepTimeoutCalls int64 // all timeouts, where DepTimeouts counts exchanges
	AbortedOver     int64 // aborted past the limit, also in OverLimit
	LimitUS         int64 // what OverLimit was counted by; Mixed: more than one
	LatencyUS       int64 // sum
	LatencyMaxUS    int64 // of valid exchanges
	Hist            histogram.List
	// Of lines that stand for more than themselves: how many valid ones there were,
	// and the variance of the two sums.
	Sampled, VarGood, VarBad int64
}

// Mixed stands in LimitUS where exchanges were held against different limits:
// then OverLimit says nothing, and the histogram must.
const Mixed = -1

// add adds what other counted to r.
func (r *Row) add(other *Row) {
	for _, f := range [][2]*int64{
		{&r.Good, &other.Good}, {&r.Bad, &other.Bad}, {&r.Neutral, &other.Neutral}, {&r.Throttled, &other.Throttled},
		{&r.Aborted, &other.Aborted}, {&r.ChaosBad, &other.ChaosBad}, {&r.FirstTryBad, &other.FirstTryBad},
		{&r.Exchanges, &other.Exchanges}, {&r.Attempts, &other.Attempts}, {&r.Retried, &other.Retried},
		{&r.Recovered, &other.Recovered}, {&r.OverLimit, &other.OverLimit}, {&r.DepTimeouts, &other.DepTimeouts},
		{&r.Degraded, &other.Degraded}, {&r.BadLocal, &other.BadLocal}, {&r.ChaosGood, &other.ChaosGood},
		{&r.Synthetic, &other.Synthetic}, {&r.DepTimeoutCalls, &other.DepTimeoutCalls}, {&r.AbortedOver, &other.AbortedOver},
		{&r.LatencyUS, &other.LatencyUS}, {&r.Sampled, &other.Sampled}, {&r.VarGood, &other.VarGood}, {&r.VarBad, &other.VarBad},
	} {
		*f[0] += *f[1]
	}
	if r.LimitUS != other.LimitUS {
		r.LimitUS = Mixed
	}
	r.LatencyMaxUS = max(r.LatencyMaxUS, other.LatencyMaxUS)
	r.Hist = slices.Clip(r.Hist) // it may be another's, whose room is not to be grown into
	r.Hist.Merge(other.Hist)
}

// RetryKey names a row of what was retried.
type RetryKey struct {
	Service, Env, Upstream string
	Status                 int64 // of the first try
	Reason, Experiment     string
	At                     time.Time
}

func (k *RetryKey) compare(l *RetryKey) int {
	return cmp.Or(ordered(k.Service, l.Service, k.Env, l.Env, k.Upstream, l.Upstream), cmp.Compare(k.Status, l.Status),
		ordered(k.Reason, l.Reason, k.Experiment, l.Experiment), k.At.Compare(l.At))
}

// Retry is what a batch adds to one of them. An exchange belongs to the reason of
// its first retry; what ended neither well nor badly is in neither of the last two.
type Retry struct {
	RetryKey
	Retried, Retries, Succeeded, Failed int64
}

func (r *Retry) add(o *Retry) {
	r.Retried += o.Retried
	r.Retries += o.Retries
	r.Succeeded += o.Succeeded
	r.Failed += o.Failed
}

// FacetKey names the counts of one value of one dimension.
type FacetKey struct {
	Service, Env, Dimension, Value string
	At                             time.Time
}

func (k *FacetKey) compare(l *FacetKey) int {
	if c := ordered(k.Service, l.Service, k.Env, l.Env, k.Dimension, l.Dimension, k.Value, l.Value); c != 0 {
		return c
	}
	return k.At.Compare(l.At)
}

// Facet is what a batch adds to them.
type Facet struct {
	FacetKey
	Good, Bad, ChaosBad, Total int64
	Throttled                  int64 // in Total alone
}

func (f *Facet) add(o *Facet) {
	f.Good += o.Good
	f.Bad += o.Bad
	f.ChaosBad += o.ChaosBad
	f.Total += o.Total
	f.Throttled += o.Throttled
}

// Event is a record kept by itself.
type Event struct {
	Kind                string // exchange, transition, config, notice, quarantine
	Service, Env        string
	At                  time.Time
	Gateway, Experiment string
	RequestID           string
	Body                json.RawMessage
}

// Folded is what a batch comes to. Lists are ascending by key, each key once:
// two batches that touch the same rows must lock them in the same order.
type Folded struct {
	Rows    []Row
	Retries []Retry
	Facets  []Facet
	Events  []Event

	Exchanges int64 // counted in Rows
	Future    int64 // set aside: ended more than MaxAhead after now
	TooLate   int64 // not counted: ended more than MaxLate before now
	Unkept    int64 // interesting, but beyond what a batch may keep
}

// Sum is what several batches come to together.
func Sum(parts ...Folded) Folded {
	if len(parts) == 1 {
		return parts[0]
	}
	var f Folded
	var rows []*Row
	var retries []*Retry
	var facets []*Facet
	for _, p := range parts {
		rows, retries, facets = pointers(rows, p.Rows), pointers(retries, p.Retries), pointers(facets, p.Facets)
		f.Events = append(f.Events, p.Events...)
		f.Exchanges, f.Future, f.TooLate, f.Unkept = f.Exchanges+p.Exchanges, f.Future+p.Future, f.TooLate+p.TooLate, f.Unkept+p.Unkept
	}
	f.set(rows, retries, facets)
	return f
}

func pointers[T any](out []*T, list []T) []*T {
	for i := range list {
		out = append(out, &list[i])
	}
	return out
}

// set fills the lists, in order, adding up what has the same key.
func (f *Folded) set(rows []*Row, retries []*Retry, facets []*Facet) {
	if len(rows) > 0 {
		f.Rows = unique(rows, func(a, b *Row) int { return a.Key.compare(&b.Key) }, (*Row).add)
		for i := range f.Rows {
			f.Rows[i].Hist.Pack()
		}
	}
	f.Retries = unique(retries, func(a, b *Retry) int { return a.RetryKey.compare(&b.RetryKey) }, (*Retry).add)
	f.Facets = unique(facets, func(a, b *Facet) int { return a.FacetKey.compare(&b.FacetKey) }, (*Facet).add)
}

func unique[T any](list []*T, compare func(a, b *T) int, add func(to, from *T)) []T {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, compare)
	out := make([]T, 0, len(list))
	for i, x := range list {
		if i > 0 && compare(list[i-1], x) == 0 {
			add(&out[len(out)-1], x)
		} else {
			out = append(out, *x)
		}
	}
	return out
}
