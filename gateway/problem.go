package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/retry"
)

// problem is the uniform body of an error of ours (RFC 9457, with members of our own).
type problem struct {
	Type     string `json:"type"`
	Title    string `json:"title"`
	Status   int    `json:"status"`
	Detail   string `json:"detail,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Code is for programs: "policy:reason" of a refusal, or how the upstream failed.
	Code string `json:"code,omitempty"`
	// UpstreamCode is the code of the upstream's own answer, where ours took its place.
	UpstreamCode string `json:"upstream_code,omitempty"`
	Service      string `json:"service,omitempty"`
	RequestID    string `json:"request_id,omitempty"`
	// Retryable says that the same request may do better later, and that asking
	// again does no harm.
	Retryable bool `json:"retryable"`
}

// problem makes the answer that stands for err. What the client is told names
// the kind of failure and never an address of ours.
func (r *recorded) problem(x *exchange.Exchange, err error) {
	res := &x.Response
	res.Local = true
	p := problem{}
	untouched := false // the upstream has not seen the request
	if refusal, ok := errors.AsType[*exchange.Refusal](err); ok {
		res.Status, p.Code, p.Detail = refusal.Status, refusal.Policy+":"+refusal.Reason, refusalDetail(refusal)
		untouched = len(x.Event.Tries) == 0
		x.Event.Refusal = p.Code
		res.Head.Set("X-Breakwater-Refused", refusal.Policy+";reason="+refusal.Reason)
		if refusal.RetryAfter > 0 {
			res.Head.Set("Retry-After", retryAfter(refusal.RetryAfter))
		}
	} else if ue, ok := errors.AsType[*exchange.UpstreamError](err); ok {
		res.Status, p.Code = ue.Status(), string(ue.Kind)
		p.Detail = "The upstream gave no usable answer."
		untouched = len(x.Event.Tries) == 1 && (ue.Unprocessed || ue.Kind == exchange.Dial || ue.Kind == exchange.ConnectTimeout || ue.Kind == exchange.TLS)
	} else if errors.Is(err, exchange.ErrTotalTimeout) || errors.Is(err, context.DeadlineExceeded) {
		res.Status, p.Code = http.StatusGatewayTimeout, "total_timeout"
		p.Detail = "There was no answer in time."
		untouched = len(x.Event.Tries) == 0
	} else {
		res.Status, p.Code = http.StatusBadGateway, "internal"
		if !errors.Is(err, errPanic) {
			r.g.log.Error("error without a kind", "request_id", x.Event.RequestID, "route", r.route.Name, "err", err)
		}
	}
	if n := len(x.Event.Tries) - 1; n > 0 {
		res.Head.Set("Retry-Count", strconv.Itoa(n))
	}
	problemBody(x, p, untouched)
}

// refusalDetail says in a sentence what the reason says in a word.
func refusalDetail(r *exchange.Refusal) string {
	switch r.Policy + ":" + r.Reason {
	case "route:no_route":
		return "No route takes this request."
	case "route:method":
		return "No route takes this path by this method."
	case "route:body_size":
		return "The request's body is larger than its route allows."
	case "route:no_configuration":
		return "The gateway has no configuration yet."
	}
	return "The gateway refused the request."
}

// problemBody fills what every problem has, and makes it the answer's body. A HEAD
// has it too: whoever sends the answer leaves the body out and keeps its length.
func problemBody(x *exchange.Exchange, p problem, untouched bool) {
	res := &x.Response
	p.Type, p.Title, p.Status = "about:blank", http.StatusText(res.Status), res.Status
	p.Service, p.UpstreamCode = x.Event.Service, x.Event.BusinessCode
	if p.RequestID = x.Event.RequestID; p.RequestID != "" {
		p.Instance = "urn:breakwater:request:" + p.RequestID
	}
	p.Retryable = mayPass(res.Status) && (untouched || idempotent(x.Request.Method))
	body, _ := json.Marshal(p) // strings, an int and a bool: it cannot fail
	res.Head.Set("Content-Type", "application/problem+json")
	res.Body, res.Length = io.NopCloser(bytes.NewReader(body)), int64(len(body))
}

// mayPass reports whether what a status tells of may be over in a while.
func mayPass(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true
	}
	return false
}

// idempotent is RFC 9110 section 9.2.2.
func idempotent(method string) bool {
	switch method {
	case "GET", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE":
		return true
	}
	return false
}

// upstreamCode notes the code in an upstream's error before a fallback takes its
// place, so that the client is told both. A problem of ours from a gateway further
// on has passed the real one on already: it is kept, and not wrapped again.
func upstreamCode(fallback retry.Strategy) exchange.Layer {
	return func(next exchange.Service) exchange.Service {
		if fallback != retry.Return503 {
			return next
		}
		return exchange.Func(func(x *exchange.Exchange) error {
			err := next.Serve(x)
			x.Event.BusinessCode = "" // of an earlier try
			if err == nil && x.Response.Status >= 400 && x.Response.Body != nil && isJSON(x.Response.Head.Get("Content-Type")) &&
				!x.Response.Head.Has("Content-Encoding") {
				x.Event.BusinessCode = readCode(&x.Response)
			}
			return err
		})
	}
}

func isJSON(contentType string) bool {
	mime, _, _ := strings.Cut(contentType, ";")
	mime = strings.ToLower(strings.TrimSpace(mime))
	return mime == "application/json" || strings.HasSuffix(mime, "+json")
}

// maxError is how much of an error's body is looked at.
const maxError = 8 << 10

// readCode reads the code out of an answer's body, and leaves the body whole.
func readCode(res *exchange.Response) string {
	body := res.Body
	text, _ := io.ReadAll(io.LimitReader(body, maxError)) // an error comes again with the next read
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(text), body), body}
	var said struct {
		Code         any `json:"code"`
		UpstreamCode any `json:"upstream_code"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&said) != nil {
		return ""
	}
	for _, v := range []any{said.UpstreamCode, said.Code} {
		switch v := v.(type) {
		case string:
			return label(v)
		case json.Number:
			return label(v.String())
		}
	}
	return ""
}
