// Package fallback answers where no answer can be had: with one that the route's
// document holds, with the last good one, or with an honest 503 at once.
package fallback

import (
	"context"
	"errors"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Action is what takes the place of an answer.
type Action string

// The actions.
const (
	FailFast      Action = "fail_fast"      // 503, and when to come again
	ReturnDefault Action = "return_default" // the answer of the document
	LastGood      Action = "last_good"      // what the upstream last said to the same; where there is none, FailFast
	PassThrough   Action = "pass_through"   // nothing: the refusal or the failure itself
)

// Config of one route. The zero Config is FailFast on what is refused below.
type Config struct {
	Action Action `json:"action,omitempty"`
	// OnOpen: where a policy below refuses to ask the upstream: an open breaker, no
	// endpoint, too much under way. OnFailure: where the upstream was asked, and
	// failed in the end.
	OnOpen    bool   `json:"on_open,omitempty"`
	OnFailure bool   `json:"on_failure,omitempty"`
	Default   Answer `json:"default,omitzero"` // of ReturnDefault
	Keep      Keep   `json:"keep,omitzero"`    // of LastGood
	// Observe notes what would be done, and does not do it.
	Observe bool `json:"observe,omitempty"`
}

// Answer is an answer out of a document.
type Answer struct {
	Status int              `json:"status"`
	Head   []exchange.Field `json:"head,omitempty"`
	Body   string           `json:"body,omitempty"`
}

// Keep says which good answers are kept, and for how long.
type Keep struct {
	MaxAge     time.Duration `json:"max_age"`     // 0: 5 min
	MaxBody    int64         `json:"max_body"`    // 0: 64 KiB
	MaxSize    int64         `json:"max_size"`    // of all together; 0: 16 MiB
	MaxEntries int64         `json:"max_entries"` // 0: 10,000
	// Shared gives an answer to every caller. Without it one that was made for a
	// caller, tenant, cookie or authorization is given to the same one only.
	Shared bool `json:"shared,omitempty"`
}

func (k Keep) filled() Keep {
	if k.MaxAge <= 0 {
		k.MaxAge = 5 * time.Minute
	}
	if k.MaxBody <= 0 {
		k.MaxBody = 64 << 10
	}
	if k.MaxSize <= 0 {
		k.MaxSize = 16 << 20
	}
	if k.MaxEntries <= 0 {
		k.MaxEntries = 10_000
	}
	return k
}

// cause is why an answer is to be degraded.
type cause int

const (
	none cause = iota
	open
	failure
)

// errorRateGate is the skip_reason of a retry that was not made because too many
// first tries fail. The route's action then answers, whatever it is for else.
const errorRateGate = "error_rate_gate"

// why says what a service below has given cause for.
func (c *Config) why(x *exchange.Exchange, err error) cause {
	if err == nil {
		if !failed(x.Response.Judged()) {
			return none
		}
	} else if refusal, ok := errors.AsType[*exchange.Refusal](err); ok {
		switch refusal.Policy {
		case "breaker", "balance", "concurrency":
			if c.OnOpen {
				return open
			}
		}
		return none // the client's own fault, or that of a policy which answers for itself
	} else if o := exchange.Classify(err, 0); o != retrylog.UpstreamFailure && o != retrylog.Timeout || !upstreams(err) {
		return none
	}
	if c.OnFailure || c.Action != "" && x.Event.Skip == errorRateGate {
		return failure
	}
	return none
}

// failed reports whether a status is one of those by which an upstream says that
// it has failed, as breakers count them.
func failed(status int) bool {
	return status == 500 || status == 502 || status == 503 || status == 504
}

// upstreams reports whether err is about the upstream; what is about nothing we
// know is a mistake of ours, and not to be covered up.
func upstreams(err error) bool {
	if _, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		return true
	}
	return errors.Is(err, exchange.ErrTotalTimeout) || errors.Is(err, context.DeadlineExceeded)
}
