package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"breakwater/internal/histogram"
	"breakwater/internal/retrylog"
	"breakwater/slo"
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

// Key names a minute row.
type Key struct {
	Service, Env, Route, Upstream, Experiment string
	At                                        time.Time // the minute's beginning
}

func (k Key) compare(l Key) int {
	return cmp.Or(
		strings.Compare(k.Service, l.Service), strings.Compare(k.Env, l.Env), strings.Compare(k.Route, l.Route),
		strings.Compare(k.Upstream, l.Upstream), strings.Compare(k.Experiment, l.Experiment), k.At.Compare(l.At))
}

// Row is what a batch adds to one minute row.
type Row struct {
	Key
	slo.Tally                  // Lost and the minutes of coverage stay zero: they have no service
	DepTimeouts int64          // exchanges with at least one
	Degraded    int64          // answered by a fallback
	LatencyUS   int64          // sum
	Hist        histogram.Bins // of valid exchanges
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

// Folded is what a batch comes to.
type Folded struct {
	Rows   []Row // ascending by Key, each key once
	Events []Event

	Exchanges int64 // counted in Rows
	Future    int64 // set aside: ended more than MaxAhead after now
	TooLate   int64 // not counted: ended more than MaxLate before now
	Unkept    int64 // interesting, but beyond what a batch may keep
}

// Fold adds up records as of now. limit is the latency beyond which an exchange
// of a service and route counts as slow, 0 for none; nil means none anywhere.
func Fold(records []retrylog.Record, now time.Time, limit func(service, route string) time.Duration) Folded {
	f := newFolder(now, limit)
	for i := range records {
		f.add(&records[i])
	}
	return f.done()
}

// folder is Fold for records that come one by one.
type folder struct {
	now   time.Time
	limit func(service, route string) time.Duration
	rows  map[Key]*Row
	out   Folded
}

func newFolder(now time.Time, limit func(service, route string) time.Duration) *folder {
	return &folder{now: now, limit: limit, rows: map[Key]*Row{}}
}

func (f *folder) done() Folded {
	f.out.Rows = make([]Row, 0, len(f.rows))
	for _, r := range f.rows {
		f.out.Rows = append(f.out.Rows, *r)
	}
	// Two batches that touch the same rows must lock them in the same order.
	slices.SortFunc(f.out.Rows, func(a, b Row) int { return a.Key.compare(b.Key) })
	return f.out
}

func (f *folder) add(r *retrylog.Record) {
	switch {
	case r.Exchange != nil:
		f.exchange(r)
	case r.Transition != nil:
		t := r.Transition
		f.keep(r, Event{Kind: "transition", Service: t.Service, Env: t.Env, At: t.At, Gateway: t.Gateway})
	case r.Config != nil:
		c := r.Config
		f.keep(r, Event{Kind: "config", Env: c.Env, At: c.At, Gateway: c.Gateway})
	case r.Notice != nil:
		n := r.Notice
		f.keep(r, Event{Kind: "notice", Env: n.Env, At: n.At, Gateway: n.Gateway})
	}
}

func (f *folder) exchange(r *retrylog.Record) {
	x := r.Exchange
	n := max(x.Count, 1)
	e := Event{Kind: "exchange", Service: x.Service, Env: x.Env, At: x.End, Gateway: x.Gateway, Experiment: x.Experiment, RequestID: x.RequestID}
	switch {
	case x.End.After(f.now.Add(MaxAhead)):
		f.out.Future += n
		e.Kind, e.At = "quarantine", f.now // where somebody will look for it
		f.keep(r, e)
		return
	case x.End.Before(f.now.Add(-MaxLate)):
		f.out.TooLate += n
		return
	}
	f.out.Exchanges += n
	class := Classify(x)
	f.count(f.row(x), x, class, n)
	if interesting(x, class) {
		f.keep(r, e)
	}
}

func (f *folder) row(x *retrylog.Exchange) *Row {
	k := Key{
		Service: clean(x.Service), Env: clean(x.Env), Route: clean(x.Route), Upstream: clean(x.Upstream),
		Experiment: clean(x.Experiment), At: x.End.UTC().Truncate(time.Minute),
	}
	row := f.rows[k]
	if row == nil {
		row = &Row{Key: k}
		f.rows[k] = row
	}
	return row
}

func (f *folder) count(row *Row, x *retrylog.Exchange, class Class, n int64) {
	row.Exchanges += n
	row.Attempts += n * int64(len(x.Tries))
	row.LatencyUS += n * x.LatencyUS
	switch class {
	case Good:
		row.Good += n
	case Bad:
		row.Bad += n
		if x.Experiment != "" {
			row.ChaosBad += n
		}
	case Throttled:
		row.Neutral += n
		row.Throttled += n
	case Aborted:
		row.Neutral += n
		row.Aborted += n
	case Neutral:
		row.Neutral += n
	}
	if firstTryBad(x) {
		row.FirstTryBad += n
	}
	if len(x.Tries) > 1 {
		row.Retried += n
		if class == Good {
			row.Recovered += n
		}
	}
	if x.DepTimeouts > 0 {
		row.DepTimeouts += n
	}
	if x.Degraded != "" {
		row.Degraded += n
	}
	if class.Valid() {
		row.Hist.Add(x.LatencyUS, n)
	}
	// Who waited past the limit and then gave up did find it slow.
	if f.limit != nil && (class.Valid() || class == Aborted) {
		if limit := f.limit(x.Service, x.Route); limit > 0 && x.LatencyUS > limit.Microseconds() {
			row.OverLimit += n
		}
	}
}

func (f *folder) keep(r *retrylog.Record, e Event) {
	if len(f.out.Events) == maxKept || e.At.After(f.now.Add(MaxAhead)) || e.At.Before(f.now.Add(-MaxLate)) {
		f.out.Unkept++
		return
	}
	body, err := json.Marshal(r)
	if err != nil { // an instant no calendar knows
		f.out.Unkept++
		return
	}
	e.Body = bytes.ReplaceAll(body, []byte(`\u0000`), []byte(`\ufffd`))
	e.Service, e.Env, e.Gateway = clean(e.Service), clean(e.Env), clean(e.Gateway)
	e.Experiment, e.RequestID = clean(e.Experiment), clean(e.RequestID)
	f.out.Events = append(f.out.Events, e)
}

// clean makes a name that PostgreSQL takes: a single refused one would hold up
// everything that comes after it.
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
		s = strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", "\ufffd"), "\ufffd")
	}
	return s
}
