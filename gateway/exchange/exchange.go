// Package exchange is the one interface of the data plane: an Exchange is one
// request and its answer as values, a Service answers it, a Layer wraps a
// Service. Every policy is a Layer.
package exchange

import (
	"io"
	"time"

	"breakwater/internal/retrylog"
)

// Service answers x: it fills x.Response, or returns why no answer could be had.
// An error means x.Response is empty and nothing is left to close; nil means the
// caller owns x.Response until x ends.
type Service interface{ Serve(x *Exchange) error }

// Func is a Service made of a function.
type Func func(x *Exchange) error

// Serve calls f.
func (f Func) Serve(x *Exchange) error { return f(x) }

// Layer wraps a Service in a policy.
type Layer func(next Service) Service

// Chain puts layers round last; the first layer is the outermost.
func Chain(last Service, layers ...Layer) Service {
	for i := len(layers) - 1; i >= 0; i-- {
		last = layers[i](last)
	}
	return last
}

// Request is what the client asked, after the ingress filter: Path is the one
// normal form that routing, labels, fault targets and the wire share.
type Request struct {
	Method, Scheme, Host string
	Path                 string // normal form, still percent-encoded
	Query                string // raw, without '?'
	Proto                int    // 10, 11, 20
	Peer                 string // address of the connection's other end
	Connection           string // names the connection: that address with its port
	Head                 Head
	Body                 Body
	Trailer              Head // filled once Body is at its end
	// Announced are the names of trailers that the client said would come.
	Announced []string
	// Upgrade is the one allowed protocol ("websocket") the client asked for, or "".
	Upgrade string
}

// Response is the slot for one answer.
type Response struct {
	Status  int
	Head    Head
	Body    io.ReadCloser // nil: no body
	Length  int64         // -1: unknown until its end
	Trailer Head          // filled once Body is at its end
	// Tunnel is the upstream's stream after a 101.
	Tunnel io.ReadWriteCloser
	// Local marks an answer of ours; it says nothing about the upstream.
	Local bool
	// Memory is what the service that fills answers may keep here for the next one
	// in this slot.
	Memory any
}

// close returns the connection under the answer, or gives it up.
func (r *Response) close() {
	if r.Body != nil {
		_ = r.Body.Close()
		r.Body = nil
	}
	if r.Tunnel != nil {
		_ = r.Tunnel.Close()
		r.Tunnel = nil
	}
}

// Ender learns how an exchange or a try ended: permits, windows, logs.
type Ender interface {
	End(x *Exchange, o retrylog.Outcome)
}

// EnderFunc is an Ender made of a function.
type EnderFunc func(x *Exchange, o retrylog.Outcome)

// End calls f.
func (f EnderFunc) End(x *Exchange, o retrylog.Outcome) { f(x, o) }

// Exchange is one request and its answer. It belongs to the goroutine that
// serves it, is reset and used again, and is never kept by anyone: who may keep
// a context takes Detached, who must cancel from elsewhere takes a Token.
type Exchange struct {
	Request  Request
	Response Response
	// Event is the diary that layers write into and read from: the number of the
	// attempt is len(Event.Tries), endpoints to avoid are those named there.
	Event retrylog.Exchange

	// Retries the path above has already made (inbound Retry-Count).
	InboundRetries int
	// Probe is the number of the probe that the request is, from 1, where a service
	// is being tried out; 0: it is none. Balance sends them to each endpoint in turn.
	Probe int64
	// HeadAt is when the head of the last try's answer came, or it failed: layers
	// above need not read the clock again for it. Zero before.
	HeadAt time.Time
	// Late is how much later than they came the request and the answers were taken up,
	// and that nobody has made up for yet; 0 where nobody asked to have it measured.
	Late time.Duration
	// Endpoint is the address balance chose for the try under way.
	Endpoint string
	// Streaming says that the answer is a stream: silence bounds it, as Idle says,
	// and the deadline is its longest life, where it has one.
	Streaming bool
	Idle      time.Duration // 0: the standard of whoever waits
	// Inform passes a 1xx on to the client at once; nil where the client cannot have one.
	Inform func(status int, head *Head)

	deadline time.Time
	enders   []Ender
	held     held
	text     text
	life
}

// Reset makes x ready for the next request and keeps its memory. Tokens of the
// last one go dead.
func (x *Exchange) Reset() {
	x.life.renew()
	x.deadline = time.Time{}
	clear(x.enders)
	x.enders = x.enders[:0]
	x.held.reset()

	head, body, trailer := x.Request.Head, x.Request.Body, x.Request.Trailer
	head.Reset()
	trailer.Reset()
	body.reset()
	x.Request = Request{Head: head, Body: body, Trailer: trailer}
	x.Response.reset()
	tries := x.Event.Tries[:0]
	x.Event = retrylog.Exchange{Tries: tries}
	x.InboundRetries, x.Endpoint, x.Inform = 0, "", nil
	x.Streaming, x.Idle, x.Probe, x.HeadAt, x.Late = false, 0, 0, time.Time{}, 0
	x.text.reset()
}

func (r *Response) reset() {
	head, trailer := r.Head, r.Trailer
	head.Reset()
	trailer.Reset()
	*r = Response{Head: head, Trailer: trailer, Length: -1, Memory: r.Memory}
}

// Try is the attempt under way, or nil before the first.
func (x *Exchange) Try() *retrylog.Try {
	if n := len(x.Event.Tries); n > 0 {
		return &x.Event.Tries[n-1]
	}
	return nil
}

// OnEnd registers e. Enders run last-first, once, when the body has been sent,
// cut or closed, or on a panic.
func (x *Exchange) OnEnd(e Ender) { x.enders = append(x.enders, e) }

// Mark is a point in the list of enders, for EndTo.
func (x *Exchange) Mark() int { return len(x.enders) }

// EndTo drops the try begun at mark: its answer is closed, its enders run.
func (x *Exchange) EndTo(mark int, o retrylog.Outcome) {
	x.Response.close()
	x.runEnders(mark, o)
	x.Response.reset()
}

// End runs whatever enders are left. Only front and record call it.
func (x *Exchange) End(o retrylog.Outcome) {
	x.Response.close()
	x.Drop()
	x.runEnders(0, o)
}

func (x *Exchange) runEnders(mark int, o retrylog.Outcome) {
	for len(x.enders) > mark {
		last := len(x.enders) - 1
		e := x.enders[last]
		x.enders[last] = nil
		x.enders = x.enders[:last]
		e.End(x, o)
	}
}
