package ingest

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"breakwater/internal/retrylog"
)

// How far an exchange may have ended from the instant it is counted at.
const (
	// MaxAhead is for clocks that disagree a little; what lies beyond is set aside.
	MaxAhead = 2 * time.Minute
	// MaxLate is how long a minute takes additions. A gateway cut off for
	// longer loses events, and says so in coverage.
	MaxLate = 48 * time.Hour
)

// maxKept bounds the events one batch may keep: in an outage every exchange is
// interesting, and the counts are in the rows anyway.
const maxKept = 500

// Fold adds up records as of now. limit is the latency beyond which an exchange
// of a service and route counts as slow, 0 for none; nil means none anywhere.
func Fold(records []retrylog.Record, now time.Time, limit func(service, route string) time.Duration) Folded {
	f := newFolder()
	f.begin(now, MaxLate, limit)
	for i := range records {
		f.add(&records[i], retrylog.AppendRecord(nil, &records[i]))
	}
	return f.done()
}

// folder is Fold for records that come one by one. Their strings are only lent:
// what is kept is copied. It is made to be used again, and then finds the names
// it has seen, and room: what done returned is gone with the next begin.
type folder struct {
	now      time.Time
	from, to int64 // an exchange that ended outside is not counted; Unix microseconds
	limit    func(service, route string) time.Duration
	batch    int64 // counts begins
	series   map[string]*series
	ordered  []*series // by name, if not stale
	stale    bool
	names    map[string]string
	rows     []*counted
	room     []*counted // beyond rows, to be used again
	scopes   map[scopeKey]*scope
	retries  map[RetryKey]*Retry
	key      []byte
	out      Folded
	before   func(x *retrylog.Exchange) bool // nil: count all; false: too late
}

// series are the rows of one set of names, by minute.
type series struct {
	Key         // without At
	rank  int   // in the order of names
	batch int64 // that rows belong to
	rows  []*counted
}

// counted is a row while it is counted.
type counted struct {
	Row
	series  *series
	minute  int64
	limitUS int64
	scope   *scope
}

// maxSeries bounds what a folder remembers from one batch to the next.
const maxSeries = 50_000

func newFolder() *folder {
	return &folder{series: map[string]*series{}, names: map[string]string{}, scopes: map[scopeKey]*scope{}, retries: map[RetryKey]*Retry{}}
}

// begin makes f empty. An exchange that ended more than late before now is not counted.
func (f *folder) begin(now time.Time, late time.Duration, limit func(service, route string) time.Duration) {
	f.now, f.from, f.to, f.limit = now, now.Add(-late).UnixMicro(), now.Add(MaxAhead).UnixMicro(), limit
	f.batch++
	f.room = append(f.room, f.rows...)
	f.rows = f.rows[:0]
	if len(f.series) > maxSeries || len(f.names) > 2*maxSeries {
		f.series, f.ordered, f.names = map[string]*series{}, nil, map[string]string{}
		f.room = nil
	}
	clear(f.scopes)
	clear(f.retries)
	f.out = Folded{Events: f.out.Events[:0]}
}

func (f *folder) done() Folded {
	if f.stale {
		f.ordered = f.ordered[:0]
		for _, s := range f.series {
			f.ordered = append(f.ordered, s)
		}
		slices.SortFunc(f.ordered, func(a, b *series) int { return a.Key.compare(&b.Key) })
		for i, s := range f.ordered {
			s.rank = i
		}
		f.stale = false
	}
	slices.SortFunc(f.rows, func(a, b *counted) int {
		return cmp.Or(cmp.Compare(a.series.rank, b.series.rank), cmp.Compare(a.minute, b.minute))
	})
	f.out.Rows = make([]Row, len(f.rows))
	for i, r := range f.rows {
		r.Hist.Pack()
		f.out.Rows[i] = r.Row
	}
	var retries []*Retry
	for _, r := range f.retries {
		retries = append(retries, r)
	}
	var facets []*Facet
	for _, s := range f.scopes {
		facets = s.list(facets)
	}
	f.out.set(nil, retries, facets)
	return f.out
}

// name is a clean copy of s, the same for the same name.
func (f *folder) name(s string) string {
	kept, ok := f.names[s]
	if !ok {
		kept = clean(s)
		f.names[strings.Clone(s)] = kept
	}
	return kept
}

// add counts a record. line is the one it was read from, checksum and all.
func (f *folder) add(r *retrylog.Record, line []byte) {
	switch {
	case r.Exchange != nil:
		f.exchange(r.Exchange, line)
	case r.Transition != nil:
		t := r.Transition
		f.keep(line, Event{Kind: "transition", Service: t.Service, Env: t.Env, At: t.At, Gateway: t.Gateway})
	case r.Config != nil:
		c := r.Config
		f.keep(line, Event{Kind: "config", Env: c.Env, At: c.At, Gateway: c.Gateway})
	case r.Notice != nil:
		n := r.Notice
		f.keep(line, Event{Kind: "notice", Env: n.Env, At: n.At, Gateway: n.Gateway})
	}
}

func (f *folder) exchange(x *retrylog.Exchange, line []byte) {
	n := max(x.Count, 1)
	at := x.End.UnixMicro()
	if at > f.to || at < f.from || x.End.IsZero() || at <= f.to && f.before != nil && !f.before(x) {
		if at <= f.to {
			f.out.TooLate += n
			return
		}
		f.out.Future += n
		e := eventOf(x, "quarantine")
		e.At = f.now // where somebody will look for it
		f.keep(line, e)
		return
	}
	f.out.Exchanges += n
	class := Classify(x)
	if x.Origin == FromPonytail { // nobody knows what it is a share of
		f.retried(x, class, n)
		f.keep(line, eventOf(x, "exchange"))
		return
	}
	row := f.row(x)
	w := n
	if by := weight(x); by > 1 {
		w = n * by
		row.sampled(class, n, by)
	}
	row.count(x, class, w)
	if x.Service != "" && class != Synthetic {
		row.scope.count(x, class, w)
		if len(x.Tries) > 1 {
			f.retried(x, class, w)
		}
	}
	if interesting(x, class) {
		f.keep(line, eventOf(x, "exchange"))
	}
}

func eventOf(x *retrylog.Exchange, kind string) Event {
	return Event{Kind: kind, Service: x.Service, Env: x.Env, At: x.End, Gateway: x.Gateway, Experiment: x.Experiment, RequestID: x.RequestID}
}

// row finds the row of x.
func (f *folder) row(x *retrylog.Exchange) *counted {
	s := f.of(x.Service, x.Env, x.Route, x.Upstream, x.Experiment)
	minute := x.End.Unix() / 60
	if s.batch != f.batch {
		s.batch, s.rows = f.batch, s.rows[:0]
	}
	for i := len(s.rows) - 1; i >= 0; i-- {
		if s.rows[i].minute == minute {
			return s.rows[i]
		}
	}
	r := f.empty()
	r.Key, r.series, r.minute = s.Key, s, minute
	r.At = time.Unix(minute*60, 0).UTC()
	if f.limit != nil {
		r.limitUS = max(0, f.limit(r.Service, r.Route).Microseconds())
		r.LimitUS = r.limitUS
	}
	k := scopeKey{s.Service, s.Env, minute}
	if r.scope = f.scopes[k]; r.scope == nil {
		r.scope = &scope{service: s.Service, env: s.Env, at: r.At}
		f.scopes[k] = r.scope
	}
	s.rows, f.rows = append(s.rows, r), append(f.rows, r)
	return r
}

// empty takes a row from the room left by the last batch, or makes some.
func (f *folder) empty() *counted {
	if len(f.room) == 0 {
		some := make([]counted, 64)
		for i := range some {
			f.room = append(f.room, &some[i])
		}
	}
	last := len(f.room) - 1
	r := f.room[last]
	f.room = f.room[:last]
	*r = counted{Row: Row{Hist: r.Hist[:0]}}
	return r
}

// of finds the series of names. Its key is written out with the length of each:
// a name may hold any byte. Names that are the same once clean are one series.
func (f *folder) of(names ...string) *series {
	b := f.key[:0]
	for _, s := range names {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	f.key = b
	if s := f.series[string(b)]; s != nil {
		return s
	}
	key := string(b)
	var kept [5]string
	dirty := false
	for i, s := range names {
		kept[i] = f.name(s)
		dirty = dirty || kept[i] != s
	}
	var s *series
	if dirty {
		s = f.of(kept[:]...)
	} else {
		s = &series{Key: Key{Service: kept[0], Env: kept[1], Route: kept[2], Upstream: kept[3], Experiment: kept[4]}}
		f.stale = true
	}
	f.series[key] = s
	return s
}

// sampled notes that n lines stand for by exchanges each.
func (r *counted) sampled(class Class, n, by int64) {
	switch class {
	case Good:
		r.Sampled += n
		r.VarGood += n * by * (by - 1)
	case Bad:
		r.Sampled += n
		r.VarBad += n * by * (by - 1)
	}
}

func (r *counted) count(x *retrylog.Exchange, class Class, n int64) {
	r.Exchanges += n
	r.Attempts += n * int64(len(x.Tries))
	r.LatencyUS += n * x.LatencyUS
	switch class {
	case Good:
		r.Good += n
		if x.Experiment != "" {
			r.ChaosGood += n
		}
		if x.Degraded != "" {
			r.Degraded += n
		}
	case Bad:
		r.Bad += n
		if x.Experiment != "" {
			r.ChaosBad += n
		}
		if x.Origin == "gateway" {
			r.BadLocal += n
		}
	case Throttled:
		r.Neutral += n
		r.Throttled += n
	case Aborted:
		r.Neutral += n
		r.Aborted += n
	case Synthetic:
		r.Neutral += n
		r.Synthetic += n
		return
	case Neutral:
		r.Neutral += n
	}
	if len(x.Tries) > 1 {
		r.Retried += n
		if class == Good {
			r.Recovered += n
		}
	}
	// Who waited past the limit and then gave up did find it slow.
	if r.limitUS > 0 && (class.Valid() || class == Aborted) && x.LatencyUS > r.limitUS {
		r.OverLimit += n
		if class == Aborted {
			r.AbortedOver += n
		}
	}
	if !class.Valid() {
		return
	}
	if firstTryBad(x) {
		r.FirstTryBad += n
	}
	if x.DepTimeouts > 0 {
		r.DepTimeouts += n
		r.DepTimeoutCalls += n * int64(x.DepTimeouts)
	}
	r.Hist.Add(x.LatencyUS, n)
	r.LatencyMaxUS = max(r.LatencyMaxUS, x.LatencyUS)
}

func (f *folder) retried(x *retrylog.Exchange, class Class, n int64) {
	k := RetryKey{Service: x.Service, Env: x.Env, Upstream: x.Upstream, Status: firstStatus(x), Reason: x.Reason,
		Experiment: x.Experiment, At: x.End.UTC().Truncate(time.Minute)}
	r := f.retries[k]
	if r == nil {
		k.Service, k.Env, k.Upstream = f.name(k.Service), f.name(k.Env), f.name(k.Upstream)
		k.Reason, k.Experiment = f.name(k.Reason), f.name(k.Experiment)
		if r = f.retries[k]; r == nil {
			r = &Retry{RetryKey: k}
			f.retries[k] = r
		}
	}
	r.Retried += n
	r.Retries += n * int64(len(x.Tries)-1)
	switch class {
	case Good:
		r.Succeeded += n
	case Bad:
		r.Failed += n
	}
}

// crcTail is how long the last member of a line is, with the brace that closes it.
const crcTail = len(`,"crc":"00000000"}`)

func (f *folder) keep(line []byte, e Event) {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(f.out.Events) == maxKept || len(line) < crcTail || e.At.UnixMicro() > f.to || e.At.UnixMicro() < f.from {
		f.out.Unkept++
		return
	}
	// The record without its checksum, whose work is done.
	body := append(append(make([]byte, 0, len(line)), line[:len(line)-crcTail]...), '}')
	e.Body = bytes.ReplaceAll(body, []byte(`\u0000`), []byte(`\ufffd`))
	e.Service, e.Env, e.Gateway = clean(e.Service), clean(e.Env), clean(e.Gateway)
	e.Experiment, e.RequestID = clean(e.Experiment), clean(e.RequestID)
	f.out.Events = append(f.out.Events, e)
}
