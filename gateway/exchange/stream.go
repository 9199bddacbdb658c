package exchange

import (
	"strconv"
	"strings"
	"time"
)

// IsStream reports whether the answer is one that lasts for as long as its two
// ends like, so that a deadline made for answers must not cut it.
func (x *Exchange) IsStream() bool {
	if x.Response.Tunnel != nil || x.IsEvents() {
		return true
	}
	return IsGRPC(&x.Response.Head) && !x.Request.Head.Has("Grpc-Timeout")
}

// IsEvents reports whether the answer is a stream of server-sent events.
func (x *Exchange) IsEvents() bool {
	mime, _, _ := strings.Cut(x.Response.Head.Get("Content-Type"), ";")
	return equalFold(strings.TrimSpace(mime), "text/event-stream")
}

// IsGRPC reports whether the message with this head is gRPC.
func IsGRPC(h *Head) bool { return strings.HasPrefix(h.Get("Content-Type"), "application/grpc") }

// Patience is until when the next bytes may be awaited at now. Without a deadline,
// and in a stream even with one, silence is bounded too: by x.Idle, or by standard
// where the route says nothing.
func (x *Exchange) Patience(now time.Time, standard time.Duration) time.Time {
	if !x.Streaming && !x.deadline.IsZero() {
		return x.deadline
	}
	if x.Idle > 0 {
		standard = x.Idle
	}
	until := now.Add(standard)
	if !x.deadline.IsZero() && x.deadline.Before(until) {
		return x.deadline
	}
	return until
}

// RanOut names what ended the wait for a body at now: "idle" or "total".
func (x *Exchange) RanOut(now time.Time) string {
	if x.Streaming && (x.deadline.IsZero() || now.Before(x.deadline)) {
		return "idle"
	}
	return "total"
}

// Judged is the status by which an answer is to be judged: its own, or the one
// that its gRPC status stands for. That is in the head of an answer without a
// body, else in the trailers, and unknown before they have come.
func (r *Response) Judged() int {
	if r.Status != 200 {
		return r.Status
	}
	code, ok := r.Trailer.Lookup("Grpc-Status")
	if !ok {
		code, ok = r.Head.Lookup("Grpc-Status")
	}
	if !ok {
		return r.Status
	}
	n, err := strconv.ParseUint(code, 10, 8)
	if err != nil {
		return 500
	}
	switch n { // as google.rpc.Code documents its values
	case 0:
		return 200
	case 1:
		return 499
	case 3, 9, 11:
		return 400
	case 4:
		return 504
	case 5:
		return 404
	case 6, 10:
		return 409
	case 7:
		return 403
	case 8:
		return 429
	case 12:
		return 501
	case 14:
		return 503
	case 16:
		return 401
	}
	return 500
}

// GRPCStatus is the gRPC status that an HTTP status of ours stands for.
func GRPCStatus(status int) string {
	switch status {
	case 400, 431, 414:
		return "3" // invalid argument
	case 401:
		return "16" // unauthenticated
	case 403:
		return "7" // permission denied
	case 404, 405:
		return "12" // unimplemented
	case 413, 429:
		return "8" // resource exhausted
	case 408, 504:
		return "4" // deadline exceeded
	case 499:
		return "1" // cancelled
	case 500:
		return "13" // internal
	}
	return "14" // unavailable: to be tried again
}
