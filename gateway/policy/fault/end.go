package fault

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// ends reports whether a fault of this kind is the end of a try.
func (f *Fault) ends() bool {
	switch f.Kind {
	case Error, GRPC, Drop, Refuse, Reset, Blackhole:
		return true
	}
	return false
}

// Errors that stand for what a real upstream's connection would have said.
var (
	errDropped = errors.New("injected: connection closed without an answer")
	errReset   = errors.New("injected: connection reset")
	errRefused = errors.New("injected: connection refused")
)

// end is what the try of x comes to by c.
func (i *injector) end(x *exchange.Exchange, d *due, c *cell) error {
	switch c.Kind {
	case Error:
		i.touch(x, d, c)
		c.answer(x)
		return nil
	case GRPC:
		i.touch(x, d, c)
		c.answerGRPC(x)
		return nil
	case Refuse:
		i.touch(x, d, c)
		// As when no connection comes to be: proof that nothing was processed.
		return &exchange.UpstreamError{Kind: exchange.Dial, Endpoint: x.Endpoint, Unprocessed: true, Err: errRefused}
	case Blackhole:
		return i.swallow(x, d, c)
	}
	i.touch(x, d, c)
	if i.site.Edge {
		return &exchange.Severed{Reset: c.Kind == Reset}
	}
	why := errDropped
	if c.Kind == Reset {
		why = errReset
	}
	return &exchange.UpstreamError{Kind: exchange.ResetBeforeFirst, Endpoint: x.Endpoint, Err: why}
}

// swallow waits until somebody gives up on x, and no longer than any fault may make
// it wait: then the connection is lost. When the fault goes first, x goes on to the
// upstream: nobody waits for a fault that is over.
func (i *injector) swallow(x *exchange.Exchange, d *due, c *cell) error {
	if !i.table.enter() {
		i.table.missed.Add(1)
		return i.next.Serve(x)
	}
	began := clock()
	i.touch(x, d, c)
	whole, err := i.sleep(x, c, time.Duration(i.table.longest.Load()))
	i.table.leave()
	if try := x.Try(); try != nil {
		try.ActualUS += clock().Sub(began).Microseconds()
		try.CutShort = true
	}
	if err != nil {
		return err
	}
	if whole {
		return &exchange.UpstreamError{Kind: exchange.ResetBeforeFirst, Endpoint: x.Endpoint, Err: errDropped}
	}
	return i.next.Serve(x)
}

// answer fills in what the upstream is said to have answered.
func (c *cell) answer(x *exchange.Exchange) {
	r := &x.Response
	r.Status = c.Status
	typed := false
	for _, f := range c.headers {
		typed = typed || strings.EqualFold(f.Name, "Content-Type")
		r.Head.Add(f.Name, f.Value)
	}
	if c.Body == "" || x.Request.Method == "HEAD" {
		r.Length = 0
		return
	}
	if !typed {
		r.Head.Add("Content-Type", typeOf(c.Body))
	}
	c.fill(r)
}

// typeOf is the media type that a body written without one most likely has.
func typeOf(body string) string {
	if strings.HasPrefix(body, "{") || strings.HasPrefix(body, "[") {
		return "application/json"
	}
	return "text/plain; charset=utf-8"
}

// fill makes the fault's body that of r.
func (c *cell) fill(r *exchange.Response) {
	r.Length = int64(len(c.Body))
	r.Body = io.NopCloser(strings.NewReader(c.Body))
}

// answerGRPC gives a status in a head that is also the end of the answer
// ("trailers-only" of gRPC over HTTP/2).
func (c *cell) answerGRPC(x *exchange.Exchange) {
	r := &x.Response
	r.Status, r.Length = http.StatusOK, 0
	r.Head.Add("Content-Type", "application/grpc")
	r.Head.Add("Grpc-Status", strconv.Itoa(c.Status))
	if c.Body != "" {
		r.Head.Add("Grpc-Message", escapeGRPC(c.Body))
	}
}

// escapeGRPC percent-encodes what a Grpc-Message may not hold.
func escapeGRPC(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c >= ' ' && c <= '~' && c != '%' {
			b.WriteByte(c)
		} else {
			const hex = "0123456789ABCDEF"
			b.WriteString(string([]byte{'%', hex[c>>4], hex[c&15]}))
		}
	}
	return b.String()
}
