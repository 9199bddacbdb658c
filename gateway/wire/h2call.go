package wire

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/exchange"
)

// h2call is one exchange on its stream.
type h2call struct {
	x      *exchange.Exchange
	try    int // its entry in the event
	ctx    context.Context
	cancel context.CancelFunc
	timer  *time.Timer
	late   atomic.Bool // the timer ran out
	idle   time.Duration
	ofHead bool      // by HeaderTimeout, and not by the deadline
	source *h2source // nil: no body to send

	mu   sync.Mutex // between Inform, on the connection's goroutine, and the end
	over bool
}

// Interrupt implements exchange.Interrupter.
func (c *h2call) Interrupt() { c.cancel() }

func (c *h2call) expire() {
	c.late.Store(true)
	c.cancel()
}

// arm makes the wait that follows end at until; the zero time is never.
func (c *h2call) arm(until time.Time) {
	switch {
	case until.IsZero():
		if c.timer != nil {
			c.timer.Stop()
		}
	case c.timer == nil:
		c.timer = time.AfterFunc(time.Until(until), c.expire)
	default:
		c.timer.Reset(time.Until(until))
	}
}

// end lets go of x: nothing of this call touches it afterwards.
func (c *h2call) end(grace time.Duration) {
	c.x.Unwait(c)
	if c.timer != nil {
		c.timer.Stop()
	}
	c.mu.Lock()
	c.over = true
	c.mu.Unlock()
	if c.source != nil {
		c.source.join(grace)
	}
	c.cancel()
}

// inform passes a 1xx on while x waits for the head.
func (c *h2call) inform(status int, fields http.Header) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || status == http.StatusContinue {
		return
	}
	var head exchange.Head
	copyFields(&head, fields)
	c.x.Inform(status, &head)
}

// roundTrip sends x and reads the head of the answer. unsent is proof that the
// stream was never opened.
func (h *H2) roundTrip(x *exchange.Exchange, conn *h2conn) (unsent bool, err error) {
	c := &h2call{x: x, try: len(x.Event.Tries) - 1, idle: h.cfg.StreamIdle}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if cause := x.Waiting(c); cause != nil {
		conn.cc.Release()
		c.end(0)
		return false, failed(x, exchange.Canceled, cause)
	}
	deadline, bound := x.Deadline()
	if most := h.cfg.HeaderTimeout; most > 0 {
		// From here on, the upload included: net/http does not tell when it is out.
		if until := time.Now().Add(most); !bound || until.Before(deadline) {
			deadline, c.ofHead = until, true
		}
	}
	c.arm(deadline)
	req, err := h.request(c, conn)
	if err != nil {
		conn.cc.Release()
		c.end(0)
		return false, err
	}
	res, err := conn.cc.RoundTrip(req)
	if err != nil {
		c.end(0)
		if c.late.Load() {
			h.doubt(conn)
		}
		return c.explain(err)
	}
	if res.StatusCode < 200 || res.StatusCode > 599 {
		_ = res.Body.Close()
		c.end(0)
		return false, failed(x, exchange.BadResponse, badResponse("status is out of range"))
	}
	c.accept(res)
	return false, nil
}

// request is x as net/http wants it.
func (h *H2) request(c *h2call, conn *h2conn) (*http.Request, error) {
	x := c.x
	q := &x.Request
	host := q.Host
	if host == "" {
		host = x.Endpoint
	}
	// Its strings are x's, which ends sooner than the connection forgets fields that
	// it has sent: HPACK keeps them for the next request (RFC 7541 section 2.3.2).
	own := strings.Clone
	req := &http.Request{
		Method: own(q.Method), Host: own(host), ProtoMajor: 2, Header: make(http.Header, q.Head.Len()+2),
		URL: &url.URL{Scheme: h.scheme, Host: own(x.Endpoint), Opaque: own(q.Path), RawQuery: own(q.Query)},
	}
	for _, f := range q.Head.Fields() {
		if !ours(f.Name) {
			req.Header.Add(own(f.Name), own(f.Value))
		}
	}
	if !q.Head.Has("User-Agent") {
		req.Header["User-Agent"] = nil // or net/http names itself
	}
	if left, ok := x.Remaining(time.Now()); ok {
		req.Header.Set(deadlineMS, strconv.FormatInt(max(left.Milliseconds(), 1), 10))
	}
	if exchange.IsGRPC(&q.Head) {
		req.Header.Set("Te", "trailers") // asked of every client; it was taken off as ours
	}
	if !q.Body.Empty() {
		q.Body.Resume()
		c.source = &h2source{x: x, done: make(chan struct{})}
		req.Body, req.ContentLength = c.source, q.Body.Length
		for _, name := range q.Announced {
			if req.Trailer == nil {
				req.Trailer = http.Header{}
			}
			req.Trailer[http.CanonicalHeaderKey(name)] = nil
		}
		c.source.trailer = req.Trailer
	}
	ctx := c.ctx
	if x.Inform != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			Got1xxResponse: func(code int, head textproto.MIMEHeader) error { c.inform(code, http.Header(head)); return nil },
		})
	}
	return req.WithContext(ctx), nil
}

// copyFields fills head with what is not meant for the connection.
func copyFields(head *exchange.Head, fields http.Header) {
	for name, values := range fields {
		for _, v := range values {
			head.Add(name, v)
		}
	}
	head.StripHop()
	head.Del("Content-Length")
}

// accept takes a head whose stream goes on, or has ended with it.
func (c *h2call) accept(res *http.Response) {
	r := &c.x.Response
	r.Status, r.Length = res.StatusCode, res.ContentLength
	copyFields(&r.Head, res.Header)
	// net/http does not tell whether the head has ended the stream. A gRPC status in
	// it does, and the policies above are to find the exchange done with the body.
	head := c.x.Request.Method == http.MethodHead
	none := res.StatusCode == http.StatusNoContent || res.StatusCode == http.StatusNotModified
	if head || none || res.ContentLength == 0 && r.Head.Has("Grpc-Status") {
		if none {
			r.Length = -1
		}
		c.end(settle)
		_ = res.Body.Close()
		return
	}
	r.Body = &h2body{call: c, res: res}
}

// h2stream has the shape of net/http's own error of a stream, which errors.As
// fills by its fields.
type h2stream struct {
	StreamID uint32
	Code     h2code
	Cause    error
}

type h2code uint32

// refusedStream says that nothing of the request was processed (RFC 9113 section
// 8.7).
const refusedStream h2code = 7

// fromPeer is the text of the cause that net/http gives a reset by the upstream.
const fromPeer = "received from peer"

func (e h2stream) Error() string { return "stream reset with code " + strconv.Itoa(int(e.Code)) }

// explain gives an error its kind. c has ended.
func (c *h2call) explain(err error) (unsent bool, _ error) {
	x := c.x
	if c.source != nil {
		if c.source.panicked != nil {
			panic(c.source.panicked) // on the goroutine where it is rescued
		}
		if serr := c.source.err; serr != nil && !errors.Is(serr, errStopped) {
			return false, serr // the client's own
		}
	}
	if cause := x.Cause(); cause != nil {
		return false, failed(x, exchange.Canceled, cause)
	}
	if c.late.Load() && c.ofHead {
		return false, failed(x, exchange.HeaderTimeout, context.DeadlineExceeded)
	}
	if c.late.Load() {
		return false, failed(x, exchange.Canceled, context.DeadlineExceeded)
	}
	ue := failed(x, exchange.ResetBeforeFirst, err)
	var reset h2stream
	if errors.As(err, &reset) {
		switch {
		case reset.Code == refusedStream:
			ue.Unprocessed = true
		case reset.Cause != nil && reset.Cause.Error() != fromPeer: // we reset it, for what it said
			ue.Kind = exchange.BadResponse
		}
		return false, ue
	}
	// net/http tells these by their texts alone. Streams above the last one that a
	// GOAWAY names were not processed (RFC 9113 section 6.8).
	switch text := err.Error(); {
	case strings.Contains(text, "graceful shutdown GOAWAY"):
		ue.Unprocessed = true
	case strings.Contains(text, "client conn not usable"):
		ue.Unprocessed, unsent = true, true
	}
	return unsent, ue
}

// h2body reads an answer's body.
type h2body struct {
	call *h2call // nil once ended
	res  *http.Response
	err  error
}

func (b *h2body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	c := b.call
	c.arm(c.x.Patience(time.Now(), c.idle))
	n, err := b.res.Body.Read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		for name, values := range b.res.Trailer {
			for _, v := range values {
				if exchange.AnswerTrailerAllowed(name) {
					c.x.Response.Trailer.Add(name, v)
				}
			}
		}
		b.call, b.err = nil, io.EOF
		c.end(settle)
		_ = b.res.Body.Close() // it is at its end
	default:
		b.err = b.cut(err)
	}
	if n > 0 {
		return n, nil // an error comes with the next call
	}
	return 0, b.err
}

// cut gives the stream up and names the reason, for the reader and in the event.
func (b *h2body) cut(err error) error {
	c, x := b.call, b.call.x
	b.call = nil
	_ = b.res.Body.Close() // resets what is left of it
	c.end(0)
	kind := exchange.BodyCut
	var reset h2stream
	switch {
	case c.source != nil && c.source.err != nil && !errors.Is(c.source.err, errStopped):
		return c.source.err // not the upstream's fault
	case x.Cause() != nil:
		kind, err = exchange.Canceled, x.Cause()
	case c.late.Load():
		kind, err = exchange.Canceled, context.DeadlineExceeded
	case errors.As(err, &reset):
		kind = exchange.ResetAfterFirst
	}
	if c.try >= 0 && c.try < len(x.Event.Tries) {
		x.Event.Tries[c.try].Kind = string(kind)
	}
	return &exchange.UpstreamError{Kind: kind, Endpoint: x.Endpoint, Err: err}
}

// Close ends the use of the body; the connection serves on.
func (b *h2body) Close() error {
	if b.call != nil {
		_ = b.res.Body.Close()
		b.call.end(0)
		b.call, b.err = nil, errClosed
	}
	return nil
}
