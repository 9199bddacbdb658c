package ingest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/internal/retrylog"
)

// Log reads the lines of a log file: those of our own segments as they are, and
// those of a ponytail log put together by request. What else the file holds in
// JSON, such as other messages of the same program, is passed over and counted.
//
// A ponytail log tells less than an exchange holds. It has no line for a request
// that was not retried, so nothing is known of what share of all was; its upstream
// stands for the service; route, method, caller, endpoints and the latency of
// single tries are unknown.
type Log struct {
	Env, Source string // of exchanges that are put together here
	Other       int64  // lines of other messages
	open        map[openKey]*unsettled
}

// Problem is a line that cannot be counted, or, as a Warning, not all of it.
type Problem struct {
	Line    int64
	Col     int // 0: the line as a whole
	Field   string
	Text    string
	Warning bool
}

func (p Problem) String() string {
	s := fmt.Sprintf("%d", p.Line)
	if p.Col > 0 {
		s += fmt.Sprintf(":%d", p.Col)
	}
	s += ": "
	if p.Field != "" {
		s += p.Field + ": "
	}
	return s + p.Text
}

// A request may go through several upstreams under one id.
type openKey struct{ id, upstream string }

// unsettled is what is known of one that was retried and is not settled.
type unsettled struct {
	line    int64
	status  int
	reason  string
	waitMS  int64
	tries   []retrylog.Try
	skipped string
}

// The messages of a ponytail log.
const (
	triggered = "retry triggered"
	succeeded = "retry succeeded"
	failed    = "retry failed"
	skipped   = "retry skipped"
)

// maxOpen bounds the requests that wait for their last line.
const maxOpen = 100_000

// Line reads the line with number n. It returns the records that it completes.
func (l *Log) Line(n int64, line []byte) ([]retrylog.Record, []Problem) {
	line = bytes.TrimRight(line, " \t\r\n")
	switch {
	case len(line) == 0:
		return nil, nil
	case len(line) > retrylog.MaxLine:
		return nil, []Problem{{Line: n, Text: fmt.Sprintf("must be up to %d bytes long, got %d", retrylog.MaxLine, len(line))}}
	}
	if rec, err := retrylog.Parse(line); err == nil {
		return []retrylog.Record{rec}, nil
	} else if bytes.Contains(line, []byte(`,"crc":"`)) {
		return nil, []Problem{{Line: n, Text: err.Error()}}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		p := Problem{Line: n, Col: 1, Text: "must be an object of JSON: " + err.Error()}
		if e, ok := errors.AsType[*json.SyntaxError](err); ok {
			p.Col = max(1, int(e.Offset))
		}
		return nil, []Problem{p}
	}
	r := reading{n: n, line: line, fields: fields}
	var msg string
	_ = json.Unmarshal(fields["msg"], &msg) // not there, or of another shape: another message
	if !slices.Contains([]string{triggered, succeeded, failed, skipped}, msg) {
		l.Other++
		return nil, nil
	}
	k := openKey{r.text("request_id"), r.text("upstream")}
	at := r.instant("ts")
	if l.open == nil {
		l.open = map[openKey]*unsettled{}
	}
	switch msg {
	case triggered:
		return nil, l.trigger(&r, k)
	case skipped:
		reason := r.text("skip_reason")
		if q := l.open[k]; q != nil && len(r.problems) == 0 {
			q.skipped = reason
		}
		return nil, r.problems
	}
	return l.settle(&r, k, at, msg == succeeded)
}

func (l *Log) trigger(r *reading, k openKey) []Problem {
	status, count := r.number("status_code", 0, 599), r.number("retry_count", 1, 1000)
	wait, reason := r.number("backoff_ms", 0, 1<<40), r.text("decision_reason")
	if len(r.problems) > 0 {
		return r.problems
	}
	q := l.open[k]
	if q == nil || count == 1 {
		if q != nil {
			r.warn("request_id", fmt.Sprintf("begins anew; its line %d was never settled", q.line))
		}
		if len(l.open) >= maxOpen {
			r.fail("request_id", fmt.Sprintf("more than %d requests wait for their last line", maxOpen))
			return r.problems
		}
		q = &unsettled{line: r.n, status: int(status), reason: reason}
		l.open[k] = q
	}
	if int64(len(q.tries)) != count-1 {
		r.warn("retry_count", fmt.Sprintf("must be %d after the lines before, got %d: some are missing", len(q.tries)+1, count))
	}
	q.tries = append(q.tries, retrylog.Try{Endpoint: k.upstream, Status: int(status), Reason: reason})
	if n := len(q.tries); n > 1 {
		q.tries[n-1].WaitMS = q.waitMS
	}
	q.waitMS = wait
	return r.problems
}

func (l *Log) settle(r *reading, k openKey, at time.Time, good bool) ([]retrylog.Record, []Problem) {
	status, retries := r.number("final_status_code", 0, 599), r.number("total_retries", 1, 1000)
	took := r.number("total_latency_ms", 0, 1<<40)
	if len(r.problems) > 0 {
		return nil, r.problems
	}
	q := l.open[k]
	delete(l.open, k)
	if q == nil {
		r.warn("request_id", "no line before says what it was retried for; it counts without a reason")
		q = &unsettled{}
	}
	for int64(len(q.tries)) < retries { // lines that are missing
		q.tries = append(q.tries, retrylog.Try{Endpoint: k.upstream})
	}
	q.tries = append(q.tries[:retries:retries], retrylog.Try{Endpoint: k.upstream, Status: int(status), WaitMS: q.waitMS})
	x := &retrylog.Exchange{
		Count: 1, RequestID: k.id, Start: at.Add(-time.Duration(took) * time.Millisecond), End: at, Gateway: l.Source, Env: l.Env,
		Service: k.upstream, Upstream: k.upstream, Tries: q.tries, FirstStatus: q.status, Status: int(status), Outcome: retrylog.OK,
		Reason: q.reason, Skip: q.skipped, LatencyUS: took * 1000, BodyComplete: true, Origin: FromPonytail,
	}
	for _, t := range q.tries {
		x.RetryWaitMS += t.WaitMS
	}
	if !good {
		x.Outcome = retrylog.UpstreamFailure
		if status == 504 {
			x.Outcome = retrylog.Timeout
		}
	}
	return []retrylog.Record{{Exchange: x}}, r.problems
}

// Unsettled are the requests whose last line the file does not hold. They are not
// counted.
func (l *Log) Unsettled() []Problem {
	var out []Problem
	for k, q := range l.open {
		out = append(out, Problem{Line: q.line, Field: "request_id", Warning: true,
			Text: fmt.Sprintf("no line after says how %q ended; not counted", k.id)})
	}
	slices.SortFunc(out, func(a, b Problem) int { return cmp.Compare(a.Line, b.Line) })
	return out
}

// reading is one line while its fields are looked at.
type reading struct {
	n        int64
	line     []byte
	fields   map[string]json.RawMessage
	problems []Problem
}

func (r *reading) at(field string) int {
	key, _ := json.Marshal(field)
	return bytes.Index(r.line, key) + 1
}

func (r *reading) fail(field, text string) {
	r.problems = append(r.problems, Problem{Line: r.n, Col: r.at(field), Field: field, Text: text})
}

func (r *reading) warn(field, text string) {
	r.problems = append(r.problems, Problem{Line: r.n, Col: r.at(field), Field: field, Text: text, Warning: true})
}

func (r *reading) got(field string) string {
	v, ok := r.fields[field]
	if !ok {
		return "nothing"
	}
	return fmt.Sprintf("%.60s", v)
}

func (r *reading) text(field string) string {
	var s string
	if err := json.Unmarshal(r.fields[field], &s); err != nil || s == "" {
		r.fail(field, "must be text, got "+r.got(field))
	}
	return s
}

func (r *reading) number(field string, least, most int64) int64 {
	var n int64
	if err := json.Unmarshal(r.fields[field], &n); err != nil || r.fields[field] == nil || n < least || n > most {
		r.fail(field, fmt.Sprintf("must be a whole number from %d to %d, got %s", least, most, r.got(field)))
	}
	return n
}

func (r *reading) instant(field string) time.Time {
	var t time.Time
	if err := json.Unmarshal(r.fields[field], &t); err != nil || t.IsZero() {
		r.fail(field, `must be an instant such as "2024-06-15T02:14:22.883Z", got `+r.got(field))
	}
	return t.UTC()
}
