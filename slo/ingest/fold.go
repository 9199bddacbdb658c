package ingest

import (
	"bytes"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

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

// maxKey bounds a name, so that no row is too long for its index.
const maxKey = 200

// Fold adds up records as of now. limit is the latency beyond which an exchange
// of a service and route counts as slow, 0 for none; nil means none anywhere.
func Fold(records []retrylog.Record, now time.Time, limit func(service, route string) time.Duration) Folded {
	f := newFolder(now, MaxLate, limit)
	for i := range records {
		f.add(&records[i], retrylog.AppendRecord(nil, &records[i]))
	}
	return f.done()
}

// folder is Fold for records that come one by one. Their strings are only lent:
// what is kept is copied.
type folder struct {
	now      time.Time
	from, to int64 // an exchange that ended outside is not counted; Unix seconds
	limit    func(service, route string) time.Duration
	rows     map[string]*counted
	scopes   map[string]*scope
	retries  map[RetryKey]*Retry
	key      []byte
	last     *counted // consecutive lines are often of one row
	lastKey  []byte
	out      Folded
}

// counted is a row while it is counted.
type counted struct {
	Row
	limitUS int64
	scope   *scope
}

func newFolder(now time.Time, late time.Duration, limit func(service, route string) time.Duration) *folder {
	return &folder{
		now: now, from: now.Add(-late).UnixMicro(), to: now.Add(MaxAhead).UnixMicro(), limit: limit,
		rows: map[string]*counted{}, scopes: map[string]*scope{}, retries: map[RetryKey]*Retry{},
	}
}

func (f *folder) done() Folded {
	f.out.Rows = make([]Row, 0, len(f.rows))
	for _, r := range f.rows {
		r.Hist.Pack()
		f.out.Rows = append(f.out.Rows, r.Row)
	}
	for _, r := range f.retries {
		f.out.Retries = append(f.out.Retries, *r)
	}
	for _, s := range f.scopes {
		f.out.Facets = s.list(f.out.Facets)
	}
	f.out.sort()
	return f.out
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
	if at > f.to || at < f.from || x.End.IsZero() {
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

// row finds the row of x. Its key is written out with the length of each name: a
// name may hold any byte.
func (f *folder) row(x *retrylog.Exchange) *counted {
	minute := x.End.Unix() / 60
	b := binary.AppendVarint(f.key[:0], minute)
	for _, s := range [...]string{x.Service, x.Env} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	ofScope := len(b)
	for _, s := range [...]string{x.Route, x.Upstream, x.Experiment} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	f.key = b
	if f.last != nil && bytes.Equal(b, f.lastKey) {
		return f.last
	}
	row := f.rows[string(b)]
	if row == nil {
		row = &counted{Row: Row{Key: Key{
			Service: clean(x.Service), Env: clean(x.Env), Route: clean(x.Route), Upstream: clean(x.Upstream),
			Experiment: clean(x.Experiment), At: time.Unix(minute*60, 0).UTC(),
		}}}
		row.scope = f.scopes[string(b[:ofScope])]
		if row.scope == nil {
			row.scope = &scope{service: row.Service, env: row.Env, at: row.At}
			f.scopes[string(b[:ofScope])] = row.scope
		}
		if f.limit != nil {
			row.limitUS = max(0, f.limit(row.Service, row.Route).Microseconds())
			row.LimitUS = row.limitUS
		}
		f.rows[string(b)] = row
	}
	f.last, f.lastKey = row, append(f.lastKey[:0], b...)
	return row
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
		k.Service, k.Env, k.Upstream = clean(k.Service), clean(k.Env), clean(k.Upstream)
		k.Reason, k.Experiment = clean(k.Reason), clean(k.Experiment)
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

// clean makes a name that PostgreSQL takes: a single refused one would hold up
// everything that comes after it. What it returns is a copy.
func clean(s string) string {
	if len(s) > maxKey {
		s = s[:maxKey]
		for len(s) > 0 && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
		if r, _ := utf8.DecodeLastRuneInString(s); r == utf8.RuneError && len(s) > 0 {
			s = s[:len(s)-1]
		}
	}
	if strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s) {
		return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
	}
	return strings.Clone(s)
}
