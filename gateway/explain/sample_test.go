package explain

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

func TestParseSampleSaysWhatIsWrong(t *testing.T) {
	for text, want := range map[string]string{
		``:                 "must be a JSON object, got the end of the text (line 1)",
		"{\n\"path\": 1}":  "path must be a string, got number (line 2)",
		`{"pth": "/"}`:     `unknown field "pth"`,
		`{"path": "x"}`:    `path must begin with /, got "x"`,
		`{"path": "/"}`:    "status must be 200 to 599, or failure be given, got 0",
		`{"path": "/"} {}`: "must be one JSON object, got more behind it",
		`{"path": "/", "status": 503, "failure": "dial"}`:                    "status and failure must not both be given",
		`{"path": "/", "failure": "boredom"}`:                                "failure must be one of dial, connect_timeout",
		`{"path": "/", "answers": [{"status": 503}, {}]}`:                    "answers[1].status must be 200 to 599",
		`{"path": "/", "answers": [{"status": 503}], "status": 200}`:         "answers must not stand beside status",
		`{"path": "/", "status": 503, "response_headers": {"A": 1}}`:         "a header must be a string or a list of strings",
		`{"path": "/", "status": 503, "response_headers": {"A": null}}`:      "a header must be a string or a list of strings",
		`{"path": "/", "status": 200, "latency_ms": -1}`:                     "latency_ms must be 0 to 3600000, got -1",
		`{"path": "/", "status": 200, "deadline_ms": -1}`:                    "deadline_ms must be 0 to 3600000, got -1",
		`{"path": "/", "answers": [{"status": 200, "unprocessed": true}]}`:   "unprocessed must stand with a failure",
		`{"path": "/", "status": 200, "body_bytes": -2}`:                     "body_bytes must be -1 or more, got -2",
		`{"path": "/", "status": 200` + strings.Repeat(" ", MaxSample) + `}`: "must be at most 1048576 bytes",
	} {
		if _, err := ParseSample([]byte(text)); err == nil || !strings.HasPrefix(err.Error(), "sample: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", text, err, want)
		}
	}
	s, err := ParseSample([]byte(`{"path": "/", "headers": {"a": ["1", " 2 "], "B": "3"}, "status": 503}`))
	if err != nil || !reflect.DeepEqual(s.Headers, Headers{"a": {"1", " 2 "}, "B": {"3"}}) {
		t.Errorf("got %+v, %v", s.Headers, err)
	}
}

// What the answers of single tries make of the whole.
func TestExplainAnswers(t *testing.T) {
	overloaded := Reply{Status: 503, Headers: Headers{"X-Backend-Status": {"overloaded"}}}
	tests := []struct {
		name    string
		change  []string
		s       Sample
		tries   int
		skip    string
		status  int
		origin  string
		reasons string
	}{
		{"the second try is good", nil, Sample{Answers: []Reply{overloaded, {Status: 200}}}, 2, "", 200, "upstream", "header X-Backend-Status=overloaded;"},
		{"an older answer goes before a later failure", nil, Sample{Answers: []Reply{overloaded, {Failure: "try_timeout"}}}, 3, "attempts_exhausted", 503, "upstream", "header X-Backend-Status=overloaded;status_code_match=504;status_code_match=504"},
		{"the policy's own 503", []string{"pass_through", "return_503"}, Sample{Answers: []Reply{{Status: 502}, {Status: 504}}}, 3, "attempts_exhausted", 503, "gateway", "status_code_match=502;status_code_match=504;status_code_match=504"},
		{"a deadline of the caller", nil, Sample{DeadlineMS: 500, Answers: []Reply{{Failure: "try_timeout"}}}, 1, "deadline", 504, "gateway", "status_code_match=504"},
		{"a deadline that a header tells", nil, Sample{Headers: Headers{"X-Breakwater-Deadline-Ms": {"200"}}, Answers: []Reply{{Status: 502}}}, 1, "deadline", 502, "upstream", "status_code_match=502"},
		{"and that nobody believes", nil, Sample{Peer: "203.0.113.9", Headers: Headers{"X-Breakwater-Deadline-Ms": {"200"}, "Retry-Count": {"1"}}, Answers: []Reply{{Status: 502}, {Status: 200}}}, 2, "", 200, "upstream", "status_code_match=502;"},
		{"retried above", nil, Sample{Headers: Headers{"Retry-Count": {"1"}}, Answers: []Reply{{Status: 502}}}, 1, "retry_count", 502, "upstream", "status_code_match=502"},
		{"no budget", nil, Sample{BudgetEmpty: true, Answers: []Reply{{Status: 502}}}, 1, "retry_budget", 502, "upstream", "status_code_match=502"},
		{"too many errors", nil, Sample{ErrorRateHigh: true, Answers: []Reply{{Status: 502}}}, 1, "error_rate_gate", 502, "upstream", "status_code_match=502"},
		{"every endpoint was tried", nil, Sample{Tried: []string{"127.0.0.1:9002"}, Answers: []Reply{{Failure: "connect_timeout"}}}, 1, "no_other_host", 504, "gateway", "connect_failure"},
		{"nobody waits any more", nil, Sample{Headers: Headers{"X-Breakwater-Deadline-Ms": {"0"}}, Answers: []Reply{{Status: 200}}}, 0, "deadline", 504, "gateway", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.s.Path = "/auth/x"
			a, err := Explain(cfg(t, tt.change...), tt.s)
			if err != nil {
				t.Fatal(err)
			}
			var reasons []string
			for _, try := range a.Tries {
				reasons = append(reasons, try.Reason)
				if len(try.Steps) == 0 {
					t.Error("a try without a step")
				}
			}
			if len(a.Tries) != tt.tries || a.Skip != tt.skip || a.Status != tt.status || a.Origin != tt.origin || strings.Join(reasons, ";") != tt.reasons {
				t.Errorf("got %d tries, %q, %d from the %s, %v", len(a.Tries), a.Skip, a.Status, a.Origin, reasons)
			}
			var text bytes.Buffer
			if err := a.Text(&text); err != nil || !strings.Contains(text.String(), "answer") || strings.Contains(text.String(), "%!") {
				t.Errorf("%v, got\n%s", err, text.String())
			}
		})
	}
}

// What the route answers in the upstream's place is told by its own layer.
func TestExplainDegrade(t *testing.T) {
	for action, want := range map[string]struct {
		status   int
		degraded string
	}{
		"{action: return_default, on: [failure], default: {status: 203, body: none}}": {203, "return_default"},
		"{action: return_default, on: [open], default: {status: 203, body: none}}":    {502, ""},
		"{action: fail_fast, on: [failure]}":                                          {503, "fail_fast"},
		"{action: last_good, on: [failure]}":                                          {503, "fail_fast"},
		"{action: pass_through}":                                                      {502, ""},
		"{action: fail_fast, on: [failure], observe: true}":                           {502, ""},
	} {
		c := cfg(t, "timeout: 10s", "timeout: 10s\ndegrade: "+action)
		for _, s := range []Sample{{Path: "/auth/x", Status: 502}, {Path: "/auth/x", Failure: "reset_before_first_byte"}} {
			a, err := Explain(c, s)
			if err != nil || a.Status != want.status || a.Degraded != want.degraded || (a.Origin == "gateway") != (want.degraded != "" || s.Failure != "") {
				t.Errorf("%s: got %d, %q from the %s, %v", action, a.Status, a.Degraded, a.Origin, err)
			}
			if strings.Contains(action, "last_good") != (len(a.Notes) == 1) {
				t.Errorf("%s: notes %q", action, a.Notes)
			}
		}
	}
	a, err := Explain(cfg(t, "pass_through", "return_503"), Sample{Path: "/auth/x", Status: 502})
	if err != nil || a.Degraded != "return_503" {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A captured exchange is explained again, and what has changed since is told.
func TestExplainAnEvent(t *testing.T) {
	c := cfg(t)
	ev := &retrylog.Exchange{
		RequestID: "r-1", Start: time.Unix(1_700_000_000, 0), Route: "auth", Method: "GET", Status: 200, Revision: c.Revision,
		Reason: "header X-Backend-Status=overloaded",
		Tries: []retrylog.Try{
			{Endpoint: "a:1", Status: 503, LatencyUS: 5000, Reason: "header X-Backend-Status=overloaded"},
			{Endpoint: "b:1", Status: 200, LatencyUS: 3000, WaitMS: 260},
		},
	}
	s, err := FromEvent(ev)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Explain(c, s)
	if err != nil {
		t.Fatal(err)
	}
	a.Compare(ev)
	if len(a.Tries) != 2 || a.Status != 200 || len(a.Notes) != 0 || a.Tries[0].Recorded.Differs || a.Tries[1].Recorded.WaitMS != 260 {
		t.Errorf("got %+v", a)
	}
	other := cfg(t, "max_retries: 2", "max_retries: 0")
	if a, err = Explain(other, s); err != nil {
		t.Fatal(err)
	}
	a.Compare(ev)
	if len(a.Notes) != 2 || !strings.Contains(a.Notes[0], "made 2 tries, this configuration makes 1") || !strings.Contains(a.Notes[1], "revision") || !a.Tries[0].Recorded.Differs {
		t.Errorf("got %q, %+v", a.Notes, a.Tries[0])
	}
	for _, bad := range []*retrylog.Exchange{{}, {Tries: make([]retrylog.Try, maxAnswers+1)}} {
		if _, err := FromEvent(bad); err == nil {
			t.Errorf("%d tries were taken", len(bad.Tries))
		}
	}
	if _, err := Explain(c, Sample{Route: "gone", Status: 200}); err == nil {
		t.Error("a route that there is none of was taken")
	}
}

// What a sample says can be explained, in bounded work, and its own JSON says the same.
func FuzzSample(f *testing.F) {
	for _, s := range []string{
		`{"path": "/auth/x", "status": 503, "response_headers": {"Retry-After": "1"}}`,
		`{"path": "/auth/x", "method": "POST", "answers": [{"failure": "try_timeout"}, {"status": 503, "headers": {"a": ["1", "2"]}, "latency_ms": 900}]}`,
		`{"route": "auth", "failure": "dial", "tried": ["x"], "deadline_ms": 1, "at": "2026-01-02T03:04:05Z", "body_bytes": -1}`,
		`{"path": "/auth/x", "headers": {"Retry-Count": "999999999999"}, "status": 599, "error_rate_high": true}`,
	} {
		f.Add([]byte(s))
	}
	var log conf.Log
	c := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(documents)}}, &log)
	e, err := New(c)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSample(text)
		if err != nil {
			return
		}
		a, err := e.Explain(s)
		if err != nil {
			return // a route that there is none of
		}
		if len(a.Tries) > 3 || a.Status < 200 || a.Status > 599 || a.TakesMS[0] > a.TakesMS[1] || a.TakesMS[1] > 10_000 {
			t.Fatalf("got %+v", a)
		}
		again, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseSample(again)
		if err != nil {
			t.Fatalf("%s is refused: %v", again, err)
		}
		b, err := e.Explain(back)
		if err != nil || !reflect.DeepEqual(a, b) {
			t.Fatalf("%+v is %+v after a round, %v", a, b, err)
		}
	})
}
