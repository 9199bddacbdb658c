package front

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
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
	h := w.Header()
	for _, field := range res.Head.Fields() {
		h.Add(field.Name, field.Value)
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
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	} else {
		delete(h, "Content-Length")
	}
	_ = rc.SetWriteDeadline(time.Now().Add(f.cfg.Limits.WriteTime)) // where it cannot be had, TCP's own patience rules
	w.WriteHeader(res.Status)
	var err error
	if res.Body != nil && !bodiless {
		err = f.copy(x, w, rc, length)
	}
	if err == nil {
		for _, field := range res.Trailer.Fields() {
			h.Add(http.TrailerPrefix+field.Name, field.Value)
		}
	}
	// Flushed before the end is recorded: an answer on its way is always in the
	// log. A cut answer is flushed too, so that the client sees how far it came.
	if flushErr := rc.Flush(); flushErr != nil && err == nil && !errors.Is(flushErr, http.ErrNotSupported) {
		err = exchange.ErrClientGone
	}
	_ = rc.SetWriteDeadline(time.Time{})
	if err != nil {
		if x.Event.Timeout == "" && exchange.Classify(err, 0) == retrylog.Timeout {
			x.Event.Timeout = "total"
		}
		x.End(exchange.Classify(err, 0))
		return false
	}
	x.Event.BodyComplete = true
	x.End(outcome(x))
	return true
}

// outcome of an answer that was wholly sent. One of our own has had its class
// since the error it stands for.
func outcome(x *exchange.Exchange) retrylog.Outcome {
	if x.Response.Local && x.Event.Outcome != "" {
		return x.Event.Outcome
	}
	return exchange.Classify(nil, x.Response.Status)
}

// copy sends the body. What has no length known beforehand may be a stream: it
// is flushed as it comes.
func (f *Front) copy(x *exchange.Exchange, w http.ResponseWriter, rc *http.ResponseController, length int64) error {
	lent := f.buffers.Get().(*[]byte)
	defer f.buffers.Put(lent)
	armed := time.Now()
	for {
		n, err := x.Response.Body.Read(*lent)
		if n > 0 {
			if x.Event.BytesOut > 0 {
				if now := time.Now(); now.Sub(armed) > time.Second {
					_ = rc.SetWriteDeadline(now.Add(f.cfg.Limits.WriteTime))
					armed = now
				}
			}
			if _, werr := w.Write((*lent)[:n]); werr != nil {
				return exchange.ErrClientGone
			}
			x.Event.BytesOut += int64(n)
			if length < 0 {
				if ferr := rc.Flush(); ferr != nil && !errors.Is(ferr, http.ErrNotSupported) {
					return exchange.ErrClientGone
				}
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

// tunnel joins client and upstream after a 101, until one of them has done.
func (f *Front) tunnel(x *exchange.Exchange, rc *http.ResponseController) bool {
	up := x.Response.Tunnel
	down, buffered, err := rc.Hijack()
	if err != nil {
		f.cfg.Log.Error("take the connection over for a tunnel", "request_id", x.Event.RequestID, "err", err)
		x.End(retrylog.Panicked)
		return false
	}
	defer down.Close()
	head := []byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + x.Request.Upgrade + "\r\n")
	for _, field := range x.Response.Head.Fields() {
		head = append(append(append(append(head, field.Name...), ": "...), field.Value...), "\r\n"...)
	}
	if _, err := down.Write(append(head, "\r\n"...)); err != nil {
		x.End(retrylog.ClientAbort)
		return true // the connection is ours, and net/http has no more say in it
	}
	x.Event.BytesOut = join(down, buffered.Reader, up)
	x.Event.BodyComplete = true
	x.End(retrylog.OK)
	return true
}

// join copies both ways and returns when both have ended. An end of the client's
// half is passed on; an end of the upstream's ends the tunnel.
func join(down net.Conn, fromClient *bufio.Reader, up io.ReadWriteCloser) (sent int64) {
	var both sync.WaitGroup
	both.Go(func() {
		_, err := io.Copy(up, fromClient)
		if half, ok := up.(interface{ CloseWrite() error }); ok && err == nil {
			_ = half.CloseWrite()
			return
		}
		_ = up.Close()
	})
	sent, _ = io.Copy(down, up) // how a tunnel ends is between its two ends
	_ = up.Close()
	_ = down.Close()
	both.Wait()
	return sent
}
