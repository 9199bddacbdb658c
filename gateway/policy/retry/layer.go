package retry

import (
	"errors"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Deps are what a Layer needs beside its Config.
type Deps struct {
	Upstream  string
	Endpoints int            // how many the upstream has
	Budget    *Budget        // nil: no budget
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
	return func(next exchange.Service) exchange.Service {
		return &retrier{cfg: cfg, deps: d, next: next}
	}
}

type retrier struct {
	cfg  Config
	deps Deps
	next exchange.Service
}

type silent struct{}

func (silent) Retry(Line) {}

// Serve makes the first try and those that Decide asks for.
func (r *retrier) Serve(x *exchange.Exchange) error {
	var start time.Time
	active := r.cfg.Enabled && r.cfg.MaxRetries > 0
	if active {
		start = time.Now()
		replay := r.cfg.ReplayCap
		if replay == 0 {
			replay = DefaultReplayCap
		}
		x.Request.Body.Keep(replay)
		if r.deps.Budget != nil {
			r.deps.Budget.Deposit(start)
		}
	}
	var waited time.Duration
	for retries := 0; ; retries++ {
		tell(&x.Request.Head, x.InboundRetries+retries)
		mark := x.Mark()
		err := r.next.Serve(x)
		if retries == 0 && err == nil && r.passes(x) {
			return nil
		}
		if try := x.Try(); try != nil && retries > 0 {
			try.WaitMS = waited.Milliseconds()
		}
		f := r.facts(x, err, retries)
		if retries == 0 {
			x.Event.FirstStatus = f.StatusOf()
		}
		if !active {
			r.answer(x, f.ResponseRetries)
			return err
		}
		d := Decide(r.cfg, f, r.deps.Rand())
		if d.Retry {
			d.Skip = r.again(x, mark, err, d, retries+1)
			if d.Skip == "" {
				waited = d.Wait
				continue
			}
			return r.giveUp(x, err, true, d, f, retries, start)
		}
		if d.Skip != "" || d.Reason != "" {
			if err != nil {
				x.EndTo(mark, exchange.Classify(err, 0))
			}
			return r.giveUp(x, err, false, d, f, retries, start)
		}
		x.Drop() // a good answer: those before it are of no use
		r.finish(x, Succeeded, retries, start)
		r.answer(x, retries+f.ResponseRetries)
		return nil
	}
}

// passes lets a first answer through that is no failure. Decide would say the
// same of it; this is for nearly every request, and asks for no facts.
func (r *retrier) passes(x *exchange.Exchange) bool {
	status := x.Response.Judged()
	if status >= 500 || slices.Contains(r.cfg.OnStatus, status) {
		return false
	}
	x.Event.FirstStatus = status
	if spent, ok := x.Response.Head.Lookup(countHeader); ok {
		r.answer(x, ParseCount(spent))
	}
	return true
}

// again sets the failed try aside, waits, and pays for the next one. It returns
// why there is none after all.
func (r *retrier) again(x *exchange.Exchange, mark int, err error, d Decision, n int) (skip string) {
	// The line is about to be written: the strings of the head are still there.
	line := Line{At: time.Now(), Message: Triggered, Status: x.Response.Judged(), Retry: n, Backoff: d.Wait, Reason: d.Reason}
	if err != nil {
		line.Status = failureOf(err).Status()
		x.EndTo(mark, exchange.Classify(err, 0))
	} else {
		x.Hold(mark, exchange.Classify(nil, x.Response.Judged()))
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
	x.Event.RetryWaitMS += d.Wait.Milliseconds()
	if r.deps.Budget != nil && !r.deps.Budget.Withdraw(time.Now()) {
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
func (r *retrier) giveUp(x *exchange.Exchange, err error, held bool, d Decision, f Facts, retries int, start time.Time) error {
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
	if x.Event.Skip == "" {
		x.Event.Skip = d.Skip
	}
	if d.Skip != SkipAttempts || retries == 0 {
		r.log(x, Line{At: time.Now(), Message: Skipped, Status: f.StatusOf(), Retry: retries, Reason: d.Reason, Skip: d.Skip})
	}
	failed := d.Reason != "" || f.Refused && retries > 0
	if r.cfg.Fallback == Return503 && failed && d.Skip != SkipClientGone {
		r.replace(x)
		err = nil
	}
	if retries > 0 && err == nil {
		r.finish(x, Failed, retries, start)
	} else if retries > 0 {
		r.finishAs(x, Failed, f.StatusOf(), retries, start)
	}
	if err == nil {
		r.answer(x, retries+f.ResponseRetries)
	}
	return err
}

// replace puts a plain 503 where the upstream's answer was. Its Retry-After is
// kept: it is the one thing in it that the client can act upon.
func (r *retrier) replace(x *exchange.Exchange) {
	after, ok := x.Response.Head.Lookup("Retry-After")
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
		x.Response.Head.Add("Retry-After", after)
	}
	x.Event.Degraded = string(Return503)
}

func (r *retrier) facts(x *exchange.Exchange, err error, retries int) Facts {
	now := time.Now()
	f := Facts{
		Retries: retries, Method: x.Request.Method, Now: now,
		Replayable: x.Request.Body.Replayable(), InboundRetries: x.InboundRetries,
		OtherHost: tried(x.Event.Tries) < r.deps.Endpoints,
	}
	f.Remaining, f.HasDeadline = x.Remaining(now)
	f.HasKey = x.Request.Head.Get("Idempotency-Key") != ""
	f.ClientGone = x.Cause() != nil
	if err == nil {
		head := &x.Response.Head
		f.Status = x.Response.Judged()
		f.RetryAfter, f.HasRetryAfter = head.Lookup("Retry-After")
		if f.HasRetryAfter { // garbage is no header at all
			_, f.HasRetryAfter = ParseRetryAfter(f.RetryAfter, now)
		}
		f.BackendStatus = backendStatus(head)
		f.ResponseRetries = ParseCount(head.Get("Retry-Count"))
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

// failureOf sees every error as a failed try; one without a kind has the
// deadline or the client for a cause.
func failureOf(err error) *exchange.UpstreamError {
	if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
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

// backendStatus looks at every field of the name: any of several may match.
func backendStatus(head *exchange.Head) string {
	for _, f := range head.Fields() {
		if f.Value == "overloaded" && strings.EqualFold(f.Name, "X-Backend-Status") {
			return f.Value
		}
	}
	return head.Get("X-Backend-Status")
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

func (r *retrier) finish(x *exchange.Exchange, m Message, retries int, start time.Time) {
	r.finishAs(x, m, x.Response.Judged(), retries, start)
}

func (r *retrier) finishAs(x *exchange.Exchange, m Message, status, retries int, start time.Time) {
	if retries == 0 {
		return
	}
	now := time.Now()
	r.log(x, Line{At: now, Message: m, Status: status, Retry: retries, Latency: now.Sub(start), Reason: x.Event.Reason})
}

func (r *retrier) log(x *exchange.Exchange, l Line) {
	l.RequestID, l.Upstream = x.Event.RequestID, r.deps.Upstream
	r.deps.Log.Retry(l)
}

// answer tells the path below us and ours together, so that the hop above makes
// no retries of its own.
func (r *retrier) answer(x *exchange.Exchange, spent int) { tell(&x.Response.Head, spent) }
