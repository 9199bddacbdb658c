package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"

	"breakwater/gateway/exchange"
)

// problem is the uniform body of an error of ours (RFC 9457).
type problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail,omitempty"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"request_id"`
}

// problem makes the answer that stands for err. What the client is told names
// the kind of failure and never an address of ours.
func (r *recorded) problem(x *exchange.Exchange, err error) {
	res := &x.Response
	res.Local = true
	detail, reason := "", ""
	if refusal, ok := errors.AsType[*exchange.Refusal](err); ok {
		res.Status, reason = refusal.Status, refusal.Policy+":"+refusal.Reason
		detail = "The gateway refused the request."
		x.Event.Refusal = reason
		res.Head.Set("X-Breakwater-Refused", refusal.Policy+";reason="+refusal.Reason)
		if refusal.RetryAfter > 0 {
			res.Head.Set("Retry-After", retryAfter(refusal.RetryAfter))
		}
	} else if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		res.Status, reason = ue.Status(), string(ue.Kind)
		detail = "The upstream gave no usable answer."
	} else if errors.Is(err, exchange.ErrTotalTimeout) || errors.Is(err, context.DeadlineExceeded) {
		res.Status, reason = http.StatusGatewayTimeout, "total_timeout"
		detail = "There was no answer in time."
	} else {
		res.Status, reason = http.StatusBadGateway, "internal"
		if !errors.Is(err, errPanic) {
			r.g.log.Error("error without a kind", "request_id", x.Event.RequestID, "route", r.route.Name, "err", err)
		}
	}
	if n := len(x.Event.Tries) - 1; n > 0 {
		res.Head.Set("Retry-Count", strconv.Itoa(n))
	}
	problemBody(x, detail, reason)
}

func problemBody(x *exchange.Exchange, detail, reason string) {
	res := &x.Response
	body, _ := json.Marshal(problem{ // strings and an int: it cannot fail
		Type: "about:blank", Title: http.StatusText(res.Status), Status: res.Status,
		Detail: detail, Reason: reason, RequestID: x.Event.RequestID,
	})
	res.Head.Set("Content-Type", "application/problem+json")
	res.Body, res.Length = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}
