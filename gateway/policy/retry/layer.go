package retry

import (
	"context"
	"errors"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Deps are what a Layer needs beside its Config.
type Deps struct {
	Upstream  string
	Endpoints int // how many the upstream has
	// OtherHost reports whether an endpoint that is none of tries could be picked
	// at now; nil: there is one as long as fewer than Endpoints were tried.
	OtherHost func(tries []retrylog.Try, now time.Time) bool
	Budget    *Budget        // nil: no budget
	Kind      BudgetKind     // of the budget, as this snapshot has it; "" is ratio
	Rates     *Rates         // nil: the error-rate gate stays open
	Log       Log            // nil: no lines
	Rand      func() float64 // in [0, 1), for the jitter; nil: no jitter
}

// Layer retries what next answers. It reads x.Event.Tries for the endpoints
// already asked; whoever picks an endpoint appends the try.
func Layer(cfg Config, d Deps) exchange.Layer {
	if d.Log == nil {
		d.Log = silent{}
	}
	if d.Rand == nil {
		d.Rand = func() float64 { return 0 }
	}
	r := retrier{cfg: cfg, deps: d, sees: cfg.sees(), concurrent: d.Budget != nil && d.Kind == Concurrency}
	return func(next exchange.Service) exchange.Service {
		own := r
		own.next = next
		if !cfg.Active() {
			return exchange.Func(own.once)
		}
		return &own
	}
}

type retrier struct {
	cfg        Config
	deps       Deps
	sees       sight
	concurrent bool // the budget is of requests under way
	next       exchange.Service
}

type silent struct{}

func (silent) Retry(Line) {}

// once serves a route without retries. Its requests are part of what the upstream
// has to do, so the retries of other routes are measured by them too.
func (r *retrier) once(x *exchange.Exchange) error {
	start := x.Event.Start
	if start.IsZero() {
		start = time.Now()
	}
	r.arrive(x, start)
	tell(&x.Request.Head, x.InboundRetries)
	err := r.next.Serve(x)
	r.rate(exchange.Classify(err, x.Response.Judged()), start)
	if err != nil {
		if refusal, ok := errors.AsType[*exchange.Refusal](err); ok {
			x.Event.FirstStatus = refusal.Status
		} else {
			x.Event.FirstStatus = failureOf(err).Status()
		}
		return err
	}
	if x.Event.FirstStatus = x.Response.Judged(); x.Event.FirstStatus < 500 {
		r.earn(start)
	}
	tell(&x.Response.Head, exchange.RetryCount(x.Response.Head.Get(countHeader)))
	return nil
}

// course is what a request is in the course of its tries.
type course struct {
	start   time.Time
	began   time.Time // of the try
	retries int
	waited  time.Duration // before the try
	mark    int           // of the try's enders
	seen    int           // tries in the event before it
	below   int           // retries that its answer says were made below
}

// Serve makes the first try and those that Decide asks for.
func (r *retrier) Serve(x *exchange.Exchange) error {
	// The request's own instant, where it has one: a clock costs more than all the
	// rest that is done for a request that is not retried.
	u := course{start: x.Event.Start}
	if u.start.IsZero() || r.sees.late > 0 {
		u.began = time.Now()
	} else {
		u.began = u.start
	}
	if u.start.IsZero() {
		u.start = u.began
	}
	replay := r.cfg.ReplayCap
	if replay == 0 {
		replay = DefaultReplayCap
	}
	x.Request.Body.Keep(replay)
	r.arrive(x, u.start)
	for ; ; u.retries++ {
		tell(&x.Request.Head, x.InboundRetries+u.retries)
		u.mark, u.seen = x.Mark(), len(x.Event.Tries)
		if u.retries > 0 && r.concurrent {
			x.OnEnd((*retried)(r.deps.Budget)) // above the mark: it ends with the try
		}
		err := r.try(x, &u)
		if u.retries == 0 && err == nil && r.passes(x, &u) {
			return nil
		}
		if again, err := r.judge(x, &u, err); !again {
			return err
		}
	}
}

// judge reports whether to try again after a try that ended in err, and has then waited
// as long as that takes. It stands apart from Serve since its frame is large, and a
// goroutine keeps the stack that it needed once: those whose first try passes do not.
func (r *retrier) judge(x *exchange.Exchange, u *course, err error) (again bool, _ error) {
	f := r.facts(x, err, u, time.Now())
	u.below = f.spentBelow()
	if u.retries == 0 {
		r.first(x, &f, err)
	}
	d := Decide(r.cfg, f, r.deps.Rand())
	if r.cfg.Observe {
		d = r.observe(x, d)
	}
	r.note(x, u, d.Reason, d.Skip)
	if d.Retry {
		d.Skip = r.again(x, u, err, d)
		if d.Skip == "" {
			return true, nil
		}
		r.note(x, u, d.Reason, d.Skip)
		return false, r.giveUp(x, err, true, d, &f, u)
	}
	if d.Skip == SkipLate && f.good() { // told, and no failure
		r.skipped(x, &f, u, d)
		d.Skip = ""
	}
	if d.Skip != "" || d.Reason != "" {
		if err != nil {
			x.EndTo(u.mark, exchange.Classify(err, 0))
		}
		return false, r.giveUp(x, err, false, d, &f, u)
	}
	x.Drop() // a good answer: those before it are of no use
	r.earn(time.Now())
	r.finish(x, Succeeded, x.Response.Judged(), u)
	tell(&x.Response.Head, u.retries+u.below)
	return false, nil
}

// try serves x once. Where a rule takes slowness for a failure, a try that a
// retry could follow is cut there, if no head has come: the last one is not, since
// late is then better than never.
func (r *retrier) try(x *exchange.Exchange, u *course) error {
	if r.sees.late == 0 || !r.couldFollow(x, u) {
		return r.serve(x, u)
	}
	cut := u.began.Add(r.sees.late)
	if d, ok := x.Deadline(); ok && !cut.Before(d) {
		return r.serve(x, u)
	}
	before := x.SetDeadline(cut)
	err := r.serve(x, u)
	x.SetDeadline(before)
	if err == nil || !errors.Is(err, context.DeadlineExceeded) || time.Now().Before(cut) {
		return err
	}
	if len(x.Event.Tries) > u.seen {
		x.Try().Kind = string(exchange.TryTimeout)
	}
	return &exchange.UpstreamError{Kind: exchange.TryTimeout, Endpoint: x.Endpoint, Err: context.DeadlineExceeded}
}

// passes lets a first answer through that is no failure. Decide would say the
// same of it; this is for nearly every request, and asks for no facts.
func (r *retrier) passes(x *exchange.Exchange, u *course) bool {
	status := x.Response.Judged()
	if r.sees.status(status) || r.sees.late > 0 && time.Since(u.began) >= r.sees.late {
		return false
	}
	x.Event.FirstStatus = status
	r.rate(retrylog.OK, u.start)
	r.earn(u.start)
	if spent, ok := x.Response.Head.Lookup(countHeader); ok {
		tell(&x.Response.Head, exchange.RetryCount(spent))
	}
	return true
}

// arrive counts a request under way.
func (r *retrier) arrive(x *exchange.Exchange, now time.Time) {
	b := r.deps.Budget
	if b == nil {
		return
	}
	b.arrived(now)
	if r.concurrent {
		b.active.Add(1)
		x.OnEnd((*request)(b))
	}
}

// rate counts how a first try went; what no upstream did is not counted.
func (r *retrier) rate(o retrylog.Outcome, now time.Time) {
	if r.deps.Rates == nil {
		return
	}
	switch o {
	case retrylog.OK, retrylog.UpstreamFailure, retrylog.Timeout:
		r.deps.Rates.Observe(now, o != retrylog.OK)
	}
}

func (r *retrier) earn(now time.Time) {
	if r.deps.Budget != nil {
		r.deps.Budget.ended(now)
	}
}

// first takes in how the first try went, and whether too many went like it.
func (r *retrier) first(x *exchange.Exchange, f *Facts, err error) {
	x.Event.FirstStatus = f.StatusOf()
	r.rate(exchange.Classify(err, f.Status), f.Now)
	if r.deps.Rates != nil {
		f.TooManyErrors = r.deps.Rates.Shut(r.cfg.Gate, f.Now)
	}
}

// note writes what was decided to the try it is about, which a refusal has none of.
func (r *retrier) note(x *exchange.Exchange, u *course, reason, skip string) {
	if len(x.Event.Tries) > u.seen {
		try := x.Try()
		try.Reason, try.Skip = reason, skip
	}
}

// observe makes of a decision the one of a policy that only looks on.
func (r *retrier) observe(x *exchange.Exchange, d Decision) Decision {
	would := ""
	switch {
	case d.Retry && !r.afford(time.Now()):
		d.Skip = SkipBudget
	case d.Retry:
		would, d.Skip = "retry:"+d.Reason, SkipObserved
		if r.concurrent {
			r.deps.Budget.retrying.Add(-1) // nothing is under way
		}
	case d.Fallback == Return503:
		would = "retry:" + string(Return503)
	}
	d.Retry, d.Wait, d.Fallback = false, 0, PassThrough
	if would != "" {
		if x.Event.Observed != "" {
			would = x.Event.Observed + "," + would
		}
		x.Event.Observed = would
	}
	return d
}

// afford pays for a retry.
func (r *retrier) afford(now time.Time) bool {
	switch {
	case r.deps.Budget == nil:
		return true
	case r.concurrent:
		return r.deps.Budget.take()
	}
	return r.deps.Budget.Withdraw(now)
}

// again sets the failed try aside, waits, and pays for the next one. It returns
// why there is none after all.
func (r *retrier) again(x *exchange.Exchange, u *course, err error, d Decision) (skip string) {
	// The line is about to be written: the strings of the head are still there.
	line := Line{At: time.Now(), Message: Triggered, Status: x.Response.Judged(), Retry: u.retries + 1, Backoff: d.Wait, Reason: d.Reason}
	if err != nil {
		line.Status = failureOf(err).Status()
		x.EndTo(u.mark, exchange.Classify(err, 0))
	} else {
		x.Hold(u.mark, exchange.Classify(nil, x.Response.Judged()))
	}
	if err := x.Wait(d.Wait, nil); err != nil {
		if errors.Is(err, exchange.ErrClientGone) {
			return SkipClientGone
		}
		return SkipDeadline
	}
	if x.Request.Body.Rewind() != nil {
		return SkipBody
	}
	u.waited, u.began = d.Wait, time.Now()
	x.Event.RetryWaitMS += d.Wait.Milliseconds()
	if !r.afford(u.began) {
		return SkipBudget
	}
	if x.Event.Reason == "" {
		x.Event.Reason = d.Reason
	}
	r.log(x, line)
	return ""
}

// giveUp answers with the best there is: the last answer an upstream gave, be it
// an older one, else the error. held says that the try's own answer is set aside.
func (r *retrier) giveUp(x *exchange.Exchange, err error, held bool, d Decision, f *Facts, u *course) error {
	switch {
	case held && d.Skip == SkipClientGone:
		x.Drop() // there is nobody to give the older answer to
		err = exchange.ErrClientGone
	case held || err != nil:
		if x.Restore() {
			err = nil
		}
	default:
		x.Drop()
	}
	r.skipped(x, f, u, d)
	fallback := d.Fallback
	if f.Refused && u.retries > 0 && !r.cfg.Observe { // a try that failed went before
		fallback = r.cfg.Fallback
	}
	if fallback == Return503 && d.Skip != SkipClientGone {
		r.replace(x)
		err = nil
	}
	if err != nil {
		r.finish(x, Failed, f.StatusOf(), u)
		return err
	}
	r.finish(x, Failed, x.Response.Judged(), u)
	tell(&x.Response.Head, u.retries+u.below)
	return nil
}

// skipped notes why no retry follows. That the last one is made needs no line of
// its own: the one about its end says so.
func (r *retrier) skipped(x *exchange.Exchange, f *Facts, u *course, d Decision) {
	if x.Event.Skip == "" {
		x.Event.Skip = d.Skip
	}
	if d.Skip != SkipAttempts || u.retries == 0 {
		r.log(x, Line{At: time.Now(), Message: Skipped, Status: f.StatusOf(), Retry: u.retries, Reason: d.Reason, Skip: d.Skip, Index: d.Index})
	}
}

// replace puts a plain 503 where the upstream's answer was. Its Retry-After is
// kept: it is the one thing in it that the client can act upon.
func (r *retrier) replace(x *exchange.Exchange) {
	after, ok := x.Response.Head.Lookup(retryAfter)
	after = strings.Clone(after)
	if body := x.Response.Body; body != nil {
		_ = body.Close() // the connection goes back or is given up
	}
	x.Response.Head.Reset()
	x.Response.Trailer.Reset()
	x.Response = exchange.Response{
		Status: 503, Head: x.Response.Head, Trailer: x.Response.Trailer, Local: true,
	}
	if ok {
		x.Response.Head.Add(retryAfter, after)
	}
	x.Event.Degraded = string(Return503)
}

func (r *retrier) finish(x *exchange.Exchange, m Message, status int, u *course) {
	if u.retries == 0 {
		return
	}
	now := time.Now()
	r.log(x, Line{At: now, Message: m, Status: status, Retry: u.retries, Latency: now.Sub(u.start), Reason: x.Event.Reason})
}

func (r *retrier) log(x *exchange.Exchange, l Line) {
	l.RequestID, l.Upstream = x.Event.RequestID, r.deps.Upstream
	r.deps.Log.Retry(l)
}
