package auth

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Chain keeps proving an audit, a piece at each look: a page must not walk millions
// of rows, and must not call them whole either before somebody did.
type Chain struct {
	log Log

	mu     sync.Mutex
	done   Report
	since  time.Time // when this walk began at the first row
	whole  time.Time // when a walk last reached the end
	broken *BrokenError
}

// chainAgain is how long rows that were proved are not looked at again. Within it
// a row that somebody alters is found by `breakwater audit verify`.
const chainAgain = time.Hour

// NewChain returns a Chain that has proved nothing yet.
func NewChain(l Log) *Chain { return &Chain{log: l} }

// Proof is what a Chain knows.
type Proof struct {
	Report
	// Since is when the walk began that proved the first of these rows; Whole is
	// when a walk last reached the end, zero: none has yet.
	Since, Whole time.Time
	Broken       *BrokenError // nil: nothing is
}

// Check goes on from where it stood, until ctx ends, and says how far it came.
func (c *Chain) Check(ctx context.Context, now time.Time) (Proof, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() || now.Sub(c.since) >= chainAgain && !c.whole.Before(c.since) {
		c.done, c.since = Report{}, now
	}
	if c.broken != nil {
		c.done, c.since, c.broken = Report{}, now, nil // it is looked for again, from the start
	}
	done, err := verifyFrom(ctx, c.log, c.done)
	broken, isBroken := errors.AsType[*BrokenError](err)
	switch {
	case isBroken:
		c.broken = broken
	case err == nil:
		c.whole = now
	case ctx.Err() != nil && done.Rows > c.done.Rows:
		err = nil // out of time, not out of luck
	}
	c.done = done
	if isBroken {
		err = nil
	}
	return Proof{Report: c.done, Since: c.since, Whole: c.whole, Broken: c.broken}, err
}
