package retry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// sight is what a policy looks at, so that nothing else is looked at.
type sight struct {
	statuses []int         // those its rules list
	any      bool          // a rule is about any answer that is no success
	body     bool          // a condition is about the body
	late     time.Duration // the least a rule calls too long; 0: none
}

func (cfg *Config) sees() (s sight) {
	rules := cfg.rules()
	for i := range rules {
		switch p := &rules[i].Primary; p.Trigger {
		case StatusCodeMatch:
			s.statuses = append(s.statuses, p.Statuses...)
		case LatencyExceeds:
			if s.late == 0 || p.Longer < s.late {
				s.late = p.Longer
			}
		default:
			s.any = true
		}
		about := func(c Condition) bool { return c.Trigger == BodyContains }
		s.body = s.body || about(rules[i].Primary) || slices.ContainsFunc(rules[i].Secondary, about)
	}
	return s
}

// status reports whether an answer of that status may concern a rule.
func (s *sight) status(status int) bool {
	return status >= 500 || status >= 400 && s.any || slices.Contains(s.statuses, status)
}

func (r *retrier) serve(x *exchange.Exchange, u *course) error {
	err := r.next.Serve(x)
	if u.retries > 0 && len(x.Event.Tries) > u.seen {
		x.Try().WaitMS = u.waited.Milliseconds()
	}
	return err
}

// couldFollow reports whether a retry may come after this try, as far as that can
// be told before it.
func (r *retrier) couldFollow(x *exchange.Exchange, u *course) bool {
	f := Facts{Method: x.Request.Method, HasKey: x.Request.Head.Get(keyHeader) != ""}
	b, rates := r.deps.Budget, r.deps.Rates
	return !r.cfg.Observe && u.retries < r.cfg.lateLimit() && idempotent(&r.cfg, &f) &&
		x.Request.Body.Replayable() && x.InboundRetries == 0 &&
		(b == nil || b.Left(u.began) > 0) && (rates == nil || !rates.Shut(r.cfg.Gate, u.began))
}

// lateLimit is how many retries rules about slowness allow.
func (cfg *Config) lateLimit() (most int) {
	for i := range cfg.Rules {
		if r := &cfg.Rules[i]; r.Primary.Trigger == LatencyExceeds && (r.Action == Retry || r.Action == "") {
			most = max(most, cfg.limit(i))
		}
	}
	return most
}

const keyHeader = "Idempotency-Key"

func (r *retrier) facts(x *exchange.Exchange, err error, u *course, now time.Time) Facts {
	f := Facts{
		Retries: u.retries, Method: x.Request.Method, Tenant: x.Event.Tenant, Now: now, Took: now.Sub(u.began), LastWait: u.waited,
		Replayable: x.Request.Body.Replayable(), InboundRetries: x.InboundRetries,
	}
	if other := r.deps.OtherHost; other != nil {
		f.OtherHost = other(x.Event.Tries, now)
	} else {
		f.OtherHost = tried(x.Event.Tries) < r.deps.Endpoints
	}
	if rates := r.deps.Rates; rates != nil {
		f.TooManyErrors = rates.Shut(r.cfg.Gate, now)
	}
	f.Remaining, f.HasDeadline = x.Remaining(now)
	f.HasKey = x.Request.Head.Get(keyHeader) != ""
	f.ClientGone = x.Cause() != nil
	if err == nil {
		f.Head, f.Status = &x.Response.Head, x.Response.Judged()
		if r.sees.body && f.Status >= 400 {
			f.Body, f.BodyHidden = peek(&x.Response)
		}
		return f
	}
	if refusal, refused := errors.AsType[*exchange.Refusal](err); refused {
		f.Refused, f.Status = true, refusal.Status
		return f
	}
	ue := failureOf(err)
	f.Kind, f.Unprocessed = ue.Kind, ue.Unprocessed
	return f
}

// PeekBody is how much of an answer's body body_contains looks at.
const PeekBody = 64 << 10

// peek reads the beginning of an answer's body and leaves the body whole. It says
// why where it does not: a stream may have no end, and text that is compressed
// contains nothing of what was meant.
func peek(res *exchange.Response) (text []byte, hidden string) {
	kind := res.Head.Get("Content-Type")
	coding := res.Head.Get("Content-Encoding")
	switch {
	case res.Body == nil:
		return nil, ""
	case strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "application/grpc"):
		return nil, "body_is_stream"
	case coding != "" && !strings.EqualFold(coding, "identity"):
		return nil, "body_is_encoded"
	case res.Length < 0:
		return nil, "body_length_unknown"
	}
	body := res.Body
	text, err := io.ReadAll(io.LimitReader(body, PeekBody))
	after := io.Reader(body)
	if err != nil { // cut: what was read is passed on, and then the cut
		after = broken{err}
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), after), body}
	return text, ""
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// failureOf sees every error as a failed try; one without a kind has the
// deadline or the client for a cause.
func failureOf(err error) *exchange.UpstreamError {
	if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		if ue.Kind == exchange.Canceled && errors.Is(err, context.DeadlineExceeded) {
			// The client is still there; it is the time that is gone.
			return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: ue.Endpoint, Err: err}
		}
		return ue
	}
	switch exchange.Classify(err, 0) {
	case retrylog.ClientAbort:
		return &exchange.UpstreamError{Kind: exchange.Canceled, Err: err}
	case retrylog.Timeout:
		return &exchange.UpstreamError{Kind: exchange.TryTimeout, Err: err}
	}
	return &exchange.UpstreamError{Kind: exchange.BadResponse, Err: err}
}

// tried counts the different endpoints that were asked.
func tried(tries []retrylog.Try) (n int) {
	for i := range tries {
		same := func(t retrylog.Try) bool { return t.Endpoint == tries[i].Endpoint }
		if !slices.ContainsFunc(tries[:i], same) {
			n++
		}
	}
	return n
}
