package explain

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

const documents = `apiVersion: breakwater/v1
kind: Upstream
name: auth-service
endpoints: [{address: "127.0.0.1:9001"}, {address: "127.0.0.1:9002"}]
---
apiVersion: breakwater/v1
kind: Route
name: auth
service: auth
match: {methods: [GET, POST], path: "/auth/*"}
upstream: auth-service
timeout: 10s
---
enabled: true
max_retries: 2
per_try_timeout: 800ms
retry_on_status: [502, 503, 504]
backoff_base: 250ms
fallback_strategy: pass_through
`

func cfg(t *testing.T, change ...string) *config.Config {
	t.Helper()
	var log conf.Log
	c := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(strings.NewReplacer(change...).Replace(documents))}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestExplain(t *testing.T) {
	get := func(status int, headers ...string) Sample {
		s := Sample{Path: "/auth/x", Status: status, ResponseHeaders: Headers{}}
		for i := 0; i+1 < len(headers); i += 2 {
			s.ResponseHeaders[headers[i]] = Values{headers[i+1]}
		}
		return s
	}
	tests := []struct {
		name    string
		change  []string
		s       Sample
		retries int
		least   int
		reason  string
		skip    string
		status  int
	}{
		{name: "good", s: get(200), status: 200},
		{name: "V-4", s: get(503), skip: "secondary_unmatched", status: 503},
		{name: "V-5", s: get(502), retries: 2, least: 2, reason: "status_code_match=502", skip: "attempts_exhausted", status: 502},
		{name: "V-9", s: get(503, "Retry-After", "30"), skip: "retry_after_exceeds_deadline", status: 503},
		{name: "V-17 spaces are not trimmed", s: get(503, "X-Backend-Status", " overloaded "), skip: "secondary_unmatched", status: 503},
		{name: "V-18 names in any case", s: get(503, "x-backend-status", "overloaded"), retries: 2, least: 2, reason: "header X-Backend-Status=overloaded", skip: "attempts_exhausted", status: 503},
		{name: "V-19 values as they stand", s: get(503, "X-Backend-Status", "Overloaded"), skip: "secondary_unmatched", status: 503},
		{name: "R5", s: Sample{Method: "POST", Path: "/auth/x", Status: 503, ResponseHeaders: Headers{"X-Backend-Status": {"overloaded"}}}, skip: "non_idempotent", status: 503},
		{name: "a slow upstream runs into the try's time", s: Sample{Path: "/auth/x", Status: 200, LatencyMS: 5000}, retries: 2, least: 2, reason: "status_code_match=504", skip: "attempts_exhausted", status: 504},
		{name: "V-15 the other host, then none", s: Sample{Path: "/auth/x", Failure: "connect_timeout"}, retries: 1, least: 1, reason: "connect_failure", skip: "no_other_host", status: 504},
		{name: "the deadline falls within the jitter", change: []string{"timeout: 10s", "timeout: 2450ms"}, s: Sample{Path: "/auth/x", Failure: "try_timeout"}, retries: 2, least: 1, reason: "status_code_match=504", skip: "attempts_exhausted", status: 504},
		{name: "or cuts one off", change: []string{"timeout: 10s", "timeout: 780ms"}, s: get(502), retries: 2, least: 1, reason: "status_code_match=502", skip: "attempts_exhausted", status: 502},
		{name: "return_503", change: []string{"pass_through", "return_503"}, s: get(502), retries: 2, least: 2, reason: "status_code_match=502", skip: "attempts_exhausted", status: 503},
		{name: "no route", s: Sample{Path: "/x", Status: 200}, status: 404},
		{name: "no such method", s: Sample{Method: "DELETE", Path: "/auth/x", Status: 200}, status: 405},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, err := Explain(cfg(t, tt.change...), tt.s)
			if err != nil {
				t.Fatal(err)
			}
			if a.Retries != tt.retries || a.AtLeast != tt.least || a.Reason != tt.reason || a.Skip != tt.skip || a.Status != tt.status || a.Retry != (tt.retries > 0) {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// V-12: three tries of 800 ms and the waits between them.
func TestPolicies_V12(t *testing.T) {
	a, err := Explain(cfg(t), Sample{Path: "/auth/x", Failure: "try_timeout"})
	want := [][4]int64{{0, 0, 0, 0}, {250, 324, 1050, 1124}, {500, 574, 2350, 2499}}
	var got [][4]int64
	for _, try := range a.Tries {
		got = append(got, [4]int64{try.WaitMS[0], try.WaitMS[1], try.BeginsMS[0], try.BeginsMS[1]})
	}
	if err != nil || !reflect.DeepEqual(got, want) || a.TakesMS != [2]int64{3150, 3299} || *a.WorstCase != (WorstCase{Calls: 3, MS: 3300, AnswerMS: 3300}) {
		t.Errorf("got %v, %v, worst case %+v, %v", got, a.TakesMS, a.WorstCase, err)
	}
}

func TestExplainRefusesASampleThatIsNone(t *testing.T) {
	for _, s := range []Sample{{}, {Path: "x", Status: 200}, {Path: "/"}, {Path: "/", Failure: "boredom"}, {Path: "/", Status: 200, Failure: "dial"}, {Path: "/", Status: 200, LatencyMS: -1}} {
		if _, err := Explain(cfg(t), s); err == nil {
			t.Errorf("%+v was taken", s)
		}
	}
}

func TestValidate(t *testing.T) {
	good := Validate([]conf.File{{Name: "gw.yaml", Data: []byte(documents)}})
	if !good.OK || good.Code(true) != 0 || good.Revision == "" || good.Routes != 1 {
		t.Errorf("got %+v", good)
	}
	missing := Validate([]conf.File{{Name: "ponytail.yaml", Data: []byte("max_retries: 2\n")}})
	if missing.OK || missing.Code(false) != 1 || missing.Findings[0].Code != "E-ENABLED" {
		t.Errorf("got %+v", missing)
	}
	doubtful := Validate([]conf.File{{Name: "ponytail.yaml", Data: []byte("enabled: true\n")}})
	if !doubtful.OK || doubtful.Code(false) != 0 || doubtful.Code(true) != 3 {
		t.Errorf("got %+v", doubtful)
	}
}

func TestReportFormats(t *testing.T) {
	r := Validate([]conf.File{{Name: "a,b.yaml", Data: []byte("enabled: true\nmax_retries: 9\nper_try_timeout: 25%\n")}})
	for format, want := range map[string]string{
		"text":   "a,b.yaml:2:14: max_retries: must be 0 to 5, got 9\n",
		"github": "::error file=a%2Cb.yaml,line=3,col=18,title=E-VALUE::per_try_timeout: must be a duration such as 800ms, 2s or 5m, got 25%25\n",
		"json":   `"text": "must be 0 to 5, got 9"`,
	} {
		var out bytes.Buffer
		if err := r.Write(&out, format, false); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("%s: %v, got\n%s", format, err, out.String())
		}
		if format == "json" && !json.Valid(out.Bytes()) {
			t.Error("no JSON")
		}
	}
	if err := r.Write(&bytes.Buffer{}, "xml", false); err == nil {
		t.Error("xml was taken")
	}
}
