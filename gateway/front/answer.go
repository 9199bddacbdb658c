package front

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// inform passes a 1xx on.
func inform(w http.ResponseWriter, status int, head *exchange.Head) {
	h := w.Header()
	for _, f := range head.Fields() {
		h.Add(f.Name, f.Value)
	}
	w.WriteHeader(status)
	clear(h) // nothing of it belongs to the answer
}

// answer writes x.Response, ends x, and reports whether the client got all of it.
func (f *Front) answer(x *exchange.Exchange, w http.ResponseWriter, rc *http.ResponseController) bool {
	res := &x.Response
	if res.Status < 200 || res.Status > 599 { // net/http panics on some of these
		f.cfg.Log.Error("answer has no valid status", "request_id", x.Event.RequestID, "status_code", res.Status)
		x.End(retrylog.Panicked)
		return false
	}
	if res.Local && res.Status >= 400 && x.Request.Proto == 20 && exchange.IsGRPC(&x.Request.Head) {
		return f.answerGRPC(x, w)
	}
	if rc == nil {
		rc = http.NewResponseController(w)
	}
	h := w.Header()
	values := make([]string, 0, res.Head.Len()+1) // of all fields: one piece of memory
	one := func(value string) []string {
		values = append(values, value)
		return values[len(values)-1 : len(values) : len(values)]
	}
	for _, field := range res.Head.Fields() {
		name := http.CanonicalHeaderKey(field.Name)
		if before, twice := h[name]; twice {
			h[name] = append(before, field.Value)
		} else {
			h[name] = one(field.Value)
		}
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // or net/http guesses
	}
	bodiless := x.Request.Method == http.MethodHead || res.Status == http.StatusNoContent || res.Status == http.StatusNotModified
	length := res.Length
	if res.Body == nil && !bodiless {
		length = 0
	}
	if length >= 0 && res.Status != http.StatusNoContent {
		h["Content-Length"] = one(strconv.FormatInt(length, 10))
	} else {
		delete(h, "Content-Length")
	}
	out := writer{front: f, x: x, w: w, rc: rc}
	out.arm(time.Now())
	w.WriteHeader(res.Status)
	var err error
	if res.Body != nil && !bodiless {
		err = out.copy(length)
	}
	if err != nil && streamOver(x, err) {
		err = nil
	}
	if err == nil {
		for _, field := range res.Trailer.Fields() {
			h.Add(http.TrailerPrefix+field.Name, field.Value)
		}
	}
	// Flushed before the end is recorded: an answer on its way is always in the
	// log. A cut answer is flushed too, so that the client sees how far it came. A
	// lone head of HTTP/2 is left: flushed, it could not end the stream, and gRPC
	// takes a status in such a head for none at all.
	if x.Request.Proto < 20 || x.Event.BytesOut > 0 {
		if flushErr := out.flush(); err == nil {
			err = flushErr
		}
	}
	out.disarm()
	return f.ended(x, err)
}

// ended ends x, whose answer went out as far as err tells.
func (f *Front) ended(x *exchange.Exchange, err error) bool {
	if err != nil {
		if x.Event.Timeout == "" && exchange.Classify(err, 0) == retrylog.Timeout {
			x.Event.Timeout = x.RanOut(time.Now())
		}
		x.End(exchange.Classify(err, 0))
		return false
	}
	x.Event.BodyComplete = true
	x.End(outcome(x))
	return true
}

// answerGRPC gives an error of ours in the one form that a gRPC client reads
// details from: a status in a head without a body.
func (f *Front) answerGRPC(x *exchange.Exchange, w http.ResponseWriter) bool {
	h := w.Header()
	for _, field := range x.Response.Head.Fields() {
		h.Add(field.Name, field.Value)
	}
	h["Content-Type"] = []string{"application/grpc"}
	h["Grpc-Status"] = []string{exchange.GRPCStatus(x.Response.Status)}
	h["Grpc-Message"] = []string{"gateway: " + http.StatusText(x.Response.Status)}
	delete(h, "Content-Length")
	w.WriteHeader(http.StatusOK)
	x.Event.BodyComplete = true
	x.End(outcome(x))
	return true
}

// outcome of an answer that was wholly sent. One of our own has had its class
// since the error it stands for; one that a bound of its stream ended is good.
func outcome(x *exchange.Exchange) retrylog.Outcome {
	if x.Response.Local && x.Event.Outcome != "" {
		return x.Event.Outcome
	}
	if x.Streaming && x.Event.Timeout != "" {
		return retrylog.OK
	}
	return exchange.Classify(nil, x.Response.Judged())
}

// writer sends an answer's body to a client that must take it.
type writer struct {
	front *Front
	x     *exchange.Exchange
	w     http.ResponseWriter
	rc    *http.ResponseController
	armed time.Time // when the write deadline was set
}

// arm gives the client its time to read what is written next. In HTTP/1 that is
// the connection's deadline, and of no effect between writes; in HTTP/2 a timer
// of the stream, which runs whether anything is written or not.
func (w *writer) arm(now time.Time) {
	if w.x.Request.Proto == 20 || now.Sub(w.armed) > time.Second {
		_ = w.rc.SetWriteDeadline(now.Add(w.front.cfg.Limits.WriteTime)) // where it cannot be had, TCP's own patience rules
		w.armed = now
	}
}

func (w *writer) disarm() { _ = w.rc.SetWriteDeadline(time.Time{}) }

func (w *writer) flush() error {
	if err := w.rc.Flush(); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return exchange.ErrClientGone
	}
	return nil
}

// push flushes what may have nothing behind it for a long time.
func (w *writer) push() error {
	err := w.flush()
	if w.x.Request.Proto == 20 {
		w.disarm()
	}
	return err
}

// copy sends the body. What has no length known beforehand may be a stream: it
// is flushed as it comes, and its head before, where the body is not there yet.
func (w *writer) copy(length int64) error {
	x := w.x
	lent := w.front.buffers.Get().(*[]byte)
	defer w.front.buffers.Put(lent)
	if length < 0 && !ready(x.Response.Body) {
		if err := w.push(); err != nil {
			return err
		}
	} else if x.Request.Proto == 20 {
		w.disarm()
	}
	direct := w.direct(length)
	for {
		if direct != nil && direct.Spliceable() {
			w.arm(time.Now())
			n, err := direct.SendTo(w.w.(io.ReaderFrom), spliceStep)
			x.Event.BytesOut += n
			if _, theirs := errors.AsType[*exchange.UpstreamError](err); err != nil && err != io.EOF && !theirs {
				return exchange.ErrClientGone
			}
			if err == nil || err == io.EOF { // said once more by Read
				continue
			}
			return err
		}
		n, err := x.Response.Body.Read(*lent)
		if n > 0 {
			w.arm(time.Now())
			if _, werr := w.w.Write((*lent)[:n]); werr != nil {
				return exchange.ErrClientGone
			}
			x.Event.BytesOut += int64(n)
			if length < 0 {
				if ferr := w.push(); ferr != nil {
					return ferr
				}
			} else if x.Request.Proto == 20 {
				w.disarm()
			}
		}
		if err == io.EOF {
			if length >= 0 && x.Event.BytesOut != length {
				return &exchange.UpstreamError{Kind: exchange.BodyCut, Endpoint: x.Endpoint, Err: io.ErrUnexpectedEOF}
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// spliceStep is how much the client has to take in the time of one write.
const spliceStep = 128 << 10

// spliceable is a body that can go from the upstream's socket to the client's
// inside the kernel.
type spliceable interface {
	Spliceable() bool
	SendTo(w io.ReaderFrom, most int64) (int64, error)
}

// direct returns the body where it may be spliced, or nil: no layer looks at its
// bytes, its length is known, and the client's connection is its own.
func (w *writer) direct(length int64) spliceable {
	body, ok := w.x.Response.Body.(spliceable)
	if _, to := w.w.(io.ReaderFrom); !ok || !to || length < 0 || w.x.Request.Proto == 20 {
		return nil
	}
	return body
}

// ready reports whether some of the body has come with its head.
func ready(body io.Reader) bool {
	b, ok := body.(interface{ Buffered() int })
	return ok && b.Buffered() > 0
}

// streamOver reports whether err is a bound of the stream that its client is to
// see as an end: events are whole by themselves and their readers come back; a
// gRPC client is told to.
func streamOver(x *exchange.Exchange, err error) bool {
	if !x.Streaming || exchange.Classify(err, 0) != retrylog.Timeout {
		return false
	}
	bound := x.RanOut(time.Now())
	switch {
	case x.IsEvents():
	case bound == "total" && exchange.IsGRPC(&x.Response.Head):
		x.Response.Trailer.Reset()
		x.Response.Trailer.Add("Grpc-Status", "14")
		x.Response.Trailer.Add("Grpc-Message", "gateway: the stream has reached its longest life")
	default:
		return false // silence in the middle of a message
	}
	x.Event.Timeout = bound
	return true
}
