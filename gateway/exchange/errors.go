package exchange

import (
	"context"
	"errors"
	"fmt"
	"time"

	"breakwater/internal/retrylog"
)

// Refusal is a policy's own no: the upstream was not asked, or not asked again.
// It is local and never counts as an upstream failure.
type Refusal struct {
	Policy, Reason string
	Status         int           // what the client is told
	RetryAfter     time.Duration // 0: none is sent
}

func (r *Refusal) Error() string { return r.Policy + " refused: " + r.Reason }

// Kind is how a try failed without an answer.
type Kind string

// The kinds. The comment says whether the upstream may have acted on the request.
const (
	Dial             Kind = "dial"                    // no: refused, unreachable, no such host
	ConnectTimeout   Kind = "connect_timeout"         // no
	TLS              Kind = "tls"                     // no
	Write            Kind = "write"                   // perhaps
	HeaderTimeout    Kind = "response_header_timeout" // perhaps
	TryTimeout       Kind = "try_timeout"             // perhaps: per_try_timeout ran out before a head came
	ResetBeforeFirst Kind = "reset_before_first_byte" // perhaps
	ResetAfterFirst  Kind = "reset_after_first_byte"  // perhaps
	BodyCut          Kind = "body_cut"                // yes
	BadResponse      Kind = "bad_response"            // yes
	Canceled         Kind = "canceled"                // the client went away, or the total deadline ran out
)

// UpstreamError is a try that got no answer.
type UpstreamError struct {
	Kind     Kind
	Endpoint string
	// Unprocessed is proof that the upstream did nothing: a retry is safe for
	// any method whose body can be sent again.
	Unprocessed bool
	Err         error
}

func (e *UpstreamError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("upstream %s: %s", e.Endpoint, e.Kind)
	}
	return fmt.Sprintf("upstream %s: %s: %v", e.Endpoint, e.Kind, e.Err)
}

func (e *UpstreamError) Unwrap() error { return e.Err }

// Status is the status that stands for the failure: 504 where time ran out, else 502.
func (e *UpstreamError) Status() int {
	switch e.Kind {
	case ConnectTimeout, HeaderTimeout, TryTimeout:
		return 504
	}
	return 502
}

// Severed asks that the client's connection be cut without an answer, or with
// Reset that it be reset. Of HTTP/2 the stream alone is reset, either way.
type Severed struct{ Reset bool }

func (s *Severed) Error() string { return "the client's connection is cut" }

// Errors a layer may return beside those above.
var (
	// ErrTotalTimeout: the request's own deadline ran out.
	ErrTotalTimeout = errors.New("total timeout")
	// ErrClientGone: nobody waits for the answer any more.
	ErrClientGone = errors.New("client gone")
	// ErrBodyTooBig: Rewind after more was sent than Keep may hold.
	ErrBodyTooBig = errors.New("request body is beyond the replay cap")
)

// Classify gives the outcome of an exchange, or of one try, from the error its
// service returned, or nil and the status of its response. Whatever decides by
// success or failure decides by this.
func Classify(err error, status int) retrylog.Outcome {
	if err == nil {
		if status >= 500 {
			return retrylog.UpstreamFailure
		}
		return retrylog.OK
	}
	if _, ok := errors.AsType[*Refusal](err); ok {
		return retrylog.LocalRefusal
	}
	if errors.Is(err, ErrClientGone) {
		return retrylog.ClientAbort
	}
	if errors.Is(err, ErrTotalTimeout) || errors.Is(err, context.DeadlineExceeded) {
		return retrylog.Timeout
	}
	if ue, ok := errors.AsType[*UpstreamError](err); ok && ue.Status() == 504 {
		return retrylog.Timeout
	}
	return retrylog.UpstreamFailure
}
