package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"breakwater/gateway"
	"breakwater/gateway/policy/retry"
)

type problem struct {
	Type, Title, Detail, Instance, Code, Service string
	Status                                       int
	UpstreamCode                                 string `json:"upstream_code"`
	RequestID                                    string `json:"request_id"`
	Retryable                                    *bool
}

func readProblem(t *testing.T, text string) problem {
	t.Helper()
	var p problem
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return p
}

func TestProblems(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/orders/own":
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(503)
			_, _ = io.WriteString(w, `{"code": "E_STOCK", "cause": "none left"}`)
		case "/orders/number":
			w.Header().Set("Content-Type", "application/vnd.shop+json")
			w.WriteHeader(502)
			_, _ = io.WriteString(w, `{"code": 1042}`)
		case "/orders/html":
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(502)
			_, _ = io.WriteString(w, `<p>{"code": "E_NO"}</p>`)
		}
	})
	replaced := shop(up)
	replaced.Routes[0].Retry = retry.Config{Enabled: true, MaxRetries: 0, OnStatus: []int{502, 503}, Fallback: retry.Return503, BareOn503: true}
	replaced.Routes[0].Retry.MaxRetries = 1
	replaced.Routes[0].Retry.BackoffBase = 1
	passed := shop(up)
	tests := []struct {
		name         string
		replace      bool
		method, path string
		status       int
		code         string
		upstream     string
		retryable    bool
	}{
		{"a code of the upstream is kept where its answer is replaced", true, "GET", "/orders/own", 503, "return_503", "E_STOCK", true},
		{"a number is a code too", true, "GET", "/orders/number", 503, "return_503", "1042", true},
		{"what is no JSON has none", true, "GET", "/orders/html", 503, "return_503", "", true},
		{"no route", false, "GET", "/nowhere", 404, "route:no_route", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := passed
			if tt.replace {
				cfg = replaced
			}
			h := start(t, cfg, gateway.Config{})
			status, text, head := h.do(t, tt.method, tt.path, "")
			p := readProblem(t, text)
			if status != tt.status || head.Get("Content-Type") != "application/problem+json" {
				t.Errorf("got %d, %q", status, head.Get("Content-Type"))
			}
			if p.Status != tt.status || p.Type != "about:blank" || p.Title != http.StatusText(tt.status) || p.Detail == "" ||
				p.Code != tt.code || p.UpstreamCode != tt.upstream || p.Retryable == nil || *p.Retryable != tt.retryable {
				t.Errorf("got %s", text)
			}
			if id := head.Get("X-Request-Id"); p.RequestID != id || p.Instance != "urn:breakwater:request:"+id {
				t.Errorf("request %s is not named in %s", id, text)
			}
			if tt.replace != (p.Service == "order") {
				t.Errorf("service %q", p.Service)
			}
		})
	}
}

// A gateway behind a gateway: its problem is passed on as it is, and where it is
// replaced the code in it is the first upstream's, not the gateway's.
func TestProblemsAreNotNested(t *testing.T) {
	up := server(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(502)
		_, _ = io.WriteString(w, `{"code": "E_STOCK"}`)
	})
	replace := retry.Config{Enabled: true, MaxRetries: 1, OnStatus: []int{502, 503}, Fallback: retry.Return503, BackoffBase: 1, BareOn503: true}
	inner := shop(up)
	inner.Routes[0].Retry = replace
	behind := start(t, inner, gateway.Config{})

	outer := shop(strings.TrimPrefix(behind.url, "http://"))
	h := start(t, outer, gateway.Config{})
	_, text, _ := h.do(t, "GET", "/orders/1", "")
	if p := readProblem(t, text); p.Code != "return_503" || p.UpstreamCode != "E_STOCK" {
		t.Errorf("passed on: %s", text)
	}
	outer.Routes[0].Retry, outer.Revision = replace, "r2"
	if err := h.Apply(outer); err != nil {
		t.Fatal(err)
	}
	_, text, _ = h.do(t, "GET", "/orders/1", "")
	if p := readProblem(t, text); p.Code != "return_503" || p.UpstreamCode != "E_STOCK" {
		t.Errorf("replaced: %s", text)
	}
}

// An error to a HEAD has the head of an error to a GET, and no body.
func TestProblemOfHead(t *testing.T) {
	h := start(t, shop(server(t, func(http.ResponseWriter, *http.Request) {})), gateway.Config{})
	_, text, get := h.do(t, "GET", "/nowhere", "")
	status, none, head := h.do(t, "HEAD", "/nowhere", "")
	if status != 404 || none != "" || head.Get("Content-Type") != get.Get("Content-Type") || head.Get("Content-Length") != get.Get("Content-Length") || len(text) == 0 {
		t.Errorf("HEAD: %d, %q, %v; GET: %v", status, none, head, get)
	}
}
