package retry

import (
	"io"
	"time"

	"breakwater/gateway/exchange"
)

// Deps are what a Layer needs beside its Config.
type Deps struct {
	Upstream  string
	Endpoints int            // how many the upstream has
	Budget    *Budget        // nil: no budget
	Log       Log            // nil: no lines
	Rand      func() float64 // in [0, 1), for the jitter
}

// Layer retries what next answers. It reads x.Event.Tries for the endpoints
// already asked; whoever picks an endpoint appends the try.
func Layer(cfg Config, d Deps) exchange.Layer {
	return func(next exchange.Service) exchange.Service { return next }
}

// Line is one decision, as the ponytail log states it.
type Line struct {
	At        time.Time
	Message   Message
	RequestID string
	Upstream  string
	Status    int           // triggered, skipped: of the try; succeeded, failed: the final one
	Retry     int           // triggered: number of the retry, from 1; succeeded, failed: how many were made
	Backoff   time.Duration // triggered
	Latency   time.Duration // succeeded, failed: since the request came
	Reason    string        // decision_reason; succeeded, failed: of the first retry
	Skip      string        // skipped: why
}

// Message is the kind of a Line.
type Message string

// The messages.
const (
	Triggered Message = "retry triggered"
	Succeeded Message = "retry succeeded"
	Failed    Message = "retry failed"
	Skipped   Message = "retry skipped"
)

// Log takes lines when they are decided. It must not keep the strings.
type Log interface{ Retry(Line) }

// Lines writes each line as the JSON of the ponytail log. It is safe for
// concurrent use.
type Lines struct{ w io.Writer }

// NewLines writes to w.
func NewLines(w io.Writer) *Lines { return &Lines{w: w} }

// Retry implements Log.
func (l *Lines) Retry(Line) {}
