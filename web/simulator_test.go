package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// post sends a form as a page of ours does.
func postForm(h http.Handler, path string, form url.Values, services ...string) (int, string) {
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	if len(services) > 0 {
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "v", Role: auth.Viewer, Services: services}))
	}
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestSimulator(t *testing.T) {
	h := shop(noon).server(t).Handler()
	now := served()[0].Revision
	for _, tt := range []struct {
		name      string
		form      url.Values
		status    int
		want, not []string
	}{
		{"a bare 503 is not retried", url.Values{"config": {now}, "route": {"points-balance"}, "answer": {"HTTP/1.1 503 Service Unavailable\n"}}, 200,
			[]string{"Not tried again: the answer carries no sign that asking again would help", "secondary backpressure_signal: no", "rule 1", "The client is told 503"}, nil},
		{"with a signal it is, after the wait it asks for", url.Values{"config": {now}, "path": {"/points/u-1"}, "answer": {"503\nRetry-After: 1\n"}}, 200,
			[]string{"Tried again: the answer says when to come back (Retry-After), after a wait of 1" + "\u202f000\u202fms", "(this one fired)", "Decided by", "open: attempts, method"}, nil},
		{"the last try", url.Values{"config": {now}, "route": {"points-balance"}, "attempt": {"3"}, "answer": {"502"}}, 200, []string{"Not tried again: all retries that the policy allows were made", "Try 3"}, []string{"<b>Try 1</b>"}},
		{"a try that is never made", url.Values{"config": {now}, "route": {"points-balance"}, "attempt": {"5"}, "answer": {"502"}}, 200, []string{"Try 5 is never made: after try 3 it is over"}, nil},
		{"a method that may not be repeated", url.Values{"config": {now}, "route": {"points-balance"}, "method": {"post"}, "failure": {"try_timeout"}, "took": {"900"}}, 200, []string{"Not tried again: sent twice", "method: shut, non_idempotent"}, nil},
		{"no route", url.Values{"config": {now}, "path": {"/nothing"}, "answer": {"200"}}, 200, []string{"No route takes this request: the client is told 404"}, nil},
		{"an older revision", url.Values{"config": {served()[1].Revision}, "route": {"points-balance"}, "attempt": {"2"}, "answer": {"502"}}, 200, []string{"all retries that the policy allows were made", served()[1].Revision}, nil},
		{"documents of my own", url.Values{"config": {pasted}, "documents": {loggedDocs(5)}, "route": {"points-balance"}, "attempt": {"2"}, "answer": {"502"}}, 200, []string{"Tried again: 502 is one of", "max_retries: 5"}, nil},
		{"their mistakes stand at their places", url.Values{"config": {pasted}, "documents": {strings.Replace(loggedDocs(9), "5s", "5 parsecs", 1)}, "path": {"/points/1"}, "answer": {"502"}}, 422,
			[]string{"2 mistakes in the pasted documents", "pasted.yaml:12:10: timeout: must be a duration", "pasted.yaml:15:16: retry.max_retries: must be 0 to 5, got 9", "5 parsecs"}, []string{"Tried again"}},
		{"nothing is pasted", url.Values{"config": {pasted}, "path": {"/points/1"}, "answer": {"502"}}, 422, []string{"pasted.yaml:1:1: must hold a document"}, nil},
		{"an answer that is none", url.Values{"config": {now}, "path": {"/points/1"}, "answer": {"hello"}}, 422, []string{"Answer: line 1: must be a status from 200 to 599, got &#34;hello&#34;", ">hello</textarea>"}, nil},
		{"a field that is none", url.Values{"config": {now}, "path": {"/points/1"}, "answer": {"503"}, "fields": {"a: 1\nb"}}, 422, []string{"Headers: line 2"}, nil},
		{"a number that is none", url.Values{"config": {now}, "path": {"/points/1"}, "answer": {"503"}, "attempt": {"7"}}, 422, []string{"The number of the try must be a whole number from 1 to 6, got &#34;7&#34;"}, nil},
		{"no request", url.Values{"config": {now}, "answer": {"503"}}, 422, []string{"Choose a route, or give the path"}, nil},
		{"a revision nobody reported", url.Values{"config": {"ffffff"}, "path": {"/points/1"}, "answer": {"503"}}, 422, []string{"No gateway reported the configuration ffffff"}, nil},
		{"too much", url.Values{"documents": {strings.Repeat("#", maxSimulated)}}, 413, []string{"Too much was pasted"}, nil},
		{"markup", url.Values{"config": {now}, "path": {`/"><script>alert(1)</script>`}, "answer": {"</textarea><script>alert(1)</script>"}, "fields": {"</textarea><script>alert(1)"}}, 422, nil, []string{"<script>alert"}},
	} {
		status, body := postForm(h, "/simulator", tt.form)
		if status != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, status, tt.status)
		}
		says(t, tt.name, body, tt.want, tt.not)
	}
	_, _, body := get(t, h, "/simulator")
	says(t, "at first", body, []string{"Nothing asked yet", now, "now at gw-1, gw-2", "points-balance (/points/*)"}, nil)
	_, _, body = get(t, h, "/simulator?event=01jdk7f3c9a&config="+served()[1].Revision)
	says(t, "a real request", body, []string{"Retried, 1 time", `href="/requests/01jdk7f3c9a"`, "HTTP/1.1 502 Bad Gateway", served()[1].Revision}, nil)
	_, _, body = get(t, empty(noon).server(t).Handler(), "/simulator")
	says(t, "no gateway", body, []string{"No configuration is known", "documents can be pasted"}, nil)
	if status, body := postForm(h, "/simulator", url.Values{"config": {now}, "route": {"points-balance"}, "answer": {"503"}}, "coupon"); status != 200 || !strings.Contains(body, "points-balance") {
		t.Errorf("without a scope of pages every route may be asked: %d", status)
	}
}

// A request that goes to another's service is not explained.
func TestSimulatorIsScoped(t *testing.T) {
	s := shop(noon).server(t)
	s.cfg.Covers = func(r *http.Request, service string) bool { return auth.From(r.Context()).Covers(service) }
	status, body := postForm(s.Handler(), "/simulator", url.Values{"config": {served()[0].Revision}, "path": {"/points/1"}, "answer": {"503"}}, "coupon")
	if status != 422 || !strings.Contains(body, "goes to a service that your token does not cover") || strings.Contains(body, "backpressure_signal") {
		t.Errorf("%d", status)
	}
	if status, _ := postForm(s.Handler(), "/simulator/compare", url.Values{"was": {served()[0].Revision}, "now": {served()[1].Revision}, "service": {"points"}}, "coupon"); status != 403 {
		t.Errorf("compared another's service: %d", status)
	}
}

func TestComparing(t *testing.T) {
	h := shop(noon).server(t).Handler()
	now, was := served()[0].Revision, served()[1].Revision
	for _, tt := range []struct {
		name      string
		form      url.Values
		status    int
		want, not []string
	}{
		{"with itself", url.Values{"was": {now}, "now": {now}}, 200, []string{"Both decide all of them alike", "3 rows of the last hour were asked about", "12 more came to no try"}, nil},
		{"with an older revision", url.Values{"was": {now}, "now": {was}}, 200, []string{"1 decision of 3 would differ", "1 retry instead of 2", `href="/requests/01jdk7ev0zz"`, "points-balance"}, nil},
		{"with pasted documents", url.Values{"was": {now}, "now": {pasted}, "documents": {strings.Replace(loggedDocs(2), "[502, 503, 504]", "[503]", 1)}}, 200,
			[]string{"3 decisions of 3 would differ", "no retry instead of 1: status_not_listed", "no retry instead of 2: status_not_listed"}, nil},
		{"with mistakes", url.Values{"was": {now}, "now": {pasted}, "documents": {"kind: [\n"}}, 422, []string{"1 mistake in the pasted documents", "pasted.yaml:"}, []string{"decisions of", "decide all"}},
		{"without a log", url.Values{"was": {now}, "now": {was}, "service": {"nobody"}}, 200, []string{"There is nothing to compare"}, nil},
	} {
		status, body := postForm(h, "/simulator/compare", tt.form)
		if status != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, status, tt.status)
		}
		says(t, tt.name, body, tt.want, tt.not)
	}
}
