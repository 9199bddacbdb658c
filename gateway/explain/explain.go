// Package explain is the engine of the gateway offline: what a configuration is
// worth, and what it would do with a request, said by the very code that serves
// traffic. It takes plain values and gives plain values.
package explain

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
)

// Sample is one exchange to be explained: a request, and how the upstream is
// supposed to answer every try of it.
type Sample struct {
	Method  string            `json:"method"` // "" is GET
	Host    string            `json:"host,omitempty"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers,omitempty"`
	// BodyBytes is the length of the request's body; -1 is unknown.
	BodyBytes int64 `json:"body_bytes,omitempty"`

	Status          int               `json:"status,omitempty"`
	ResponseHeaders map[string]string `json:"response_headers,omitempty"`
	// Failure is how the try ends without an answer: dial, connect_timeout,
	// try_timeout ...
	Failure   string `json:"failure,omitempty"`
	LatencyMS int64  `json:"latency_ms,omitempty"` // of each try
	// At is when the request comes: time windows are held against it, and a
	// Retry-After date. Zero is the Unix epoch, so that an explanation does not
	// depend on when it is asked for.
	At time.Time `json:"at,omitzero"`
}

// Answer is what would happen.
type Answer struct {
	Route    string `json:"route"` // "unmatched" where none takes the request
	Upstream string `json:"upstream,omitempty"`
	// Split is how the route shares requests out, where it does. Upstream is then
	// the caller's own branch where callers stick to one, else the heaviest.
	Split []Share `json:"split,omitempty"`
	// Mirror is where a copy may go.
	Mirror *Mirror `json:"mirror,omitempty"`
	Retry  bool    `json:"retry"` // whether any is made
	// Retries is how many are made where the jitter is least, AtLeast where it is
	// most: they differ where the deadline falls between.
	Retries int    `json:"retries"`
	AtLeast int    `json:"retries_at_least"`
	Reason  string `json:"decision_reason,omitempty"` // of the first retry
	// Skip is why there is no further one; "" where the answer is no failure.
	Skip  string `json:"skip_reason,omitempty"`
	Tries []Try  `json:"tries"`
	// Status is what the client is told.
	Status int `json:"status"`
	// Revision of the configuration that was asked.
	Revision string `json:"config_revision"`
}

// Try is one call to the upstream: when it begins, and the wait before it.
type Try struct {
	BeginsMS    [2]int64 `json:"begins_ms"` // earliest and latest, after the request came
	WaitMS      [2]int64 `json:"wait_ms"`
	RetryNumber int      `json:"retry"` // 0 for the first
}

// Share is a branch of a split and its part of the requests.
type Share struct {
	Upstream string `json:"upstream"`
	PPM      int64  `json:"ppm"`
}

// Mirror says what becomes of the copy of a request.
type Mirror struct {
	Upstream string `json:"upstream"`
	PPM      int64  `json:"ppm"` // of requests like this one; 0 where it is skipped
	Skip     string `json:"skip_reason,omitempty"`
}

// Kinds are the failures a Sample may name.
func Kinds() []string {
	var out []string
	for _, k := range []exchange.Kind{exchange.Dial, exchange.ConnectTimeout, exchange.TLS, exchange.Write, exchange.HeaderTimeout,
		exchange.TryTimeout, exchange.ResetBeforeFirst, exchange.ResetAfterFirst, exchange.BodyCut, exchange.BadResponse} {
		out = append(out, string(k))
	}
	return out
}

// Explain says what cfg makes of s. The retry budget is taken to be full: it
// depends on other traffic.
func Explain(cfg *config.Config, s Sample) (Answer, error) {
	if err := s.check(); err != nil {
		return Answer{}, err
	}
	table, err := route.Compile(cfg.Matches())
	if err != nil {
		return Answer{}, fmt.Errorf("explain: %w", err)
	}
	a := Answer{Route: "unmatched", Revision: cfg.Revision, Tries: []Try{}}
	i, verdict := table.Find(s.request(), s.routeFacts(cfg))
	switch verdict {
	case route.NotFound:
		a.Status = 404
		return a, nil
	case route.NotAllowed:
		a.Status = 405
		return a, nil
	}
	r := cfg.Routes[i]
	a.Route = r.Name
	endpoints, err := a.place(cfg, r, s)
	if err != nil {
		return Answer{}, fmt.Errorf("explain: %w", err)
	}
	if r.MaxBody > 0 && s.BodyBytes > r.MaxBody {
		a.Status = 413
		return a, nil
	}

	early, reason, skip, status := simulate(r, endpoints, s, 0)
	late, _, _, _ := simulate(r, endpoints, s, math.Nextafter(1, 0))
	a.Retries, a.AtLeast = len(early)-1, len(late)-1
	a.Retry, a.Reason, a.Skip, a.Status = a.Retries > 0, reason, skip, status
	for n, e := range early {
		l := e // the most jitter leaves no room for this one
		if n < len(late) {
			l = late[n]
		}
		a.Tries = append(a.Tries, Try{RetryNumber: n, WaitMS: span(e.wait, l.wait), BeginsMS: span(e.begins, l.begins)})
	}
	return a, nil
}

func span(a, b time.Duration) [2]int64 { return [2]int64{a.Milliseconds(), b.Milliseconds()} }

func (s Sample) check() error {
	switch {
	case !strings.HasPrefix(s.Path, "/"):
		return fmt.Errorf("sample: path must begin with /, got %q", s.Path)
	case s.Failure == "" && (s.Status < 100 || s.Status > 599):
		return fmt.Errorf("sample: status must be 100 to 599, or failure be given, got %d", s.Status)
	case s.Failure != "" && !slices.Contains(Kinds(), s.Failure):
		return fmt.Errorf("sample: failure must be one of %s, got %q", strings.Join(Kinds(), ", "), s.Failure)
	case s.Failure != "" && s.Status != 0:
		return errors.New("sample: status and failure must not both be given")
	case s.LatencyMS < 0:
		return fmt.Errorf("sample: latency_ms must not be negative, got %d", s.LatencyMS)
	}
	return nil
}

func (s Sample) method() string {
	if s.Method == "" {
		return "GET"
	}
	return s.Method
}

func (s Sample) request() *exchange.Request {
	req := &exchange.Request{Method: s.method(), Host: s.Host, Path: s.Path}
	for name, value := range s.Headers {
		req.Head.Add(name, value)
	}
	return req
}

// at is one call of a simulation.
type at struct{ begins, wait time.Duration }

// simulate runs the request against an upstream that answers every try alike.
func simulate(r config.Route, endpoints int, s Sample, rand float64) (tries []at, reason, skip string, status int) {
	elapsed, wait := time.Duration(0), time.Duration(0)
	for n := 0; ; n++ {
		tries = append(tries, at{elapsed, wait})
		left := r.Timeout - elapsed
		kind, took := exchange.Kind(s.Failure), time.Duration(s.LatencyMS)*time.Millisecond
		if most := min(positive(r.Retry.PerTry, left), left); took >= most || kind == exchange.TryTimeout {
			kind, took = exchange.TryTimeout, most
		}
		elapsed += took
		f := s.facts(r, kind, n, n+1 < endpoints)
		f.HasDeadline, f.Remaining = true, r.Timeout-elapsed
		d := retry.Decide(r.Retry, f, rand)
		if !d.Retry {
			status = f.StatusOf()
			if r.Retry.Fallback == retry.Return503 && d.Reason != "" {
				status = 503
			}
			return tries, reason, d.Skip, status
		}
		if reason == "" {
			reason = d.Reason
		}
		wait = d.Wait
		elapsed += wait
	}
}

func positive(d, def time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return def
}

func (s Sample) facts(r config.Route, kind exchange.Kind, retries int, other bool) retry.Facts {
	replay := int64(r.Retry.ReplayCap)
	if replay == 0 {
		replay = retry.DefaultReplayCap
	}
	now := s.now()
	f := retry.Facts{
		Retries: retries, Kind: kind, Status: s.Status, Method: s.method(), OtherHost: other, Now: now,
		Replayable:     s.BodyBytes >= 0 && s.BodyBytes <= replay,
		HasKey:         find(s.Headers, "Idempotency-Key") != "",
		InboundRetries: retry.ParseCount(find(s.Headers, "Retry-Count")),
	}
	if kind == "" {
		f.Head = new(exchange.Head)
		for name, value := range s.ResponseHeaders {
			f.Head.Add(name, value)
		}
	}
	return f
}

// find reads a header: its name in any case, its value as it stands.
func find(headers map[string]string, name string) string {
	for n, v := range headers {
		if strings.EqualFold(n, name) {
			return v
		}
	}
	return ""
}
