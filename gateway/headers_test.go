package gateway

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

const relied = `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "127.0.0.1:9001"}]
---
apiVersion: breakwater/v1
kind: Route
name: order-get
service: order
match: {path: /orders}
upstream: order
conditions: {secondary: [{header_value_match: {key: X-Backend-Status, value: overloaded}}]}
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [503], backoff_base: 250ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: Route
name: order-list
service: order
match: {path: /list}
upstream: order
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502, 503], backoff_base: 250ms, fallback_strategy: pass_through}
`

func counted(t *testing.T, text string) *headers {
	t.Helper()
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(text)}}, &log)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	h := newHeaders()
	h.apply(cfg)
	return h
}

// answers lets the upstream answer n times alike.
func (h *headers) answers(n, status int, fields ...string) {
	head := headOf(fields...)
	for range n {
		h.census("order").look(head, status)
	}
}

func headOf(fields ...string) *exchange.Head {
	head := &exchange.Head{}
	for i := 0; i+1 < len(fields); i += 2 {
		head.Add(fields[i], fields[i+1])
	}
	return head
}

func TestHeaderFindings(t *testing.T) {
	const needs = "order: X-Backend-Status=overloaded, which route order-get relies on, was never seen"
	tests := []struct {
		name   string
		status int
		fields []string
		twin   string
		kind   string
		want   string // beginning of the finding about X-Backend-Status; "" none
	}{
		{"it comes", 503, []string{"x-backend-status", "overloaded"}, "", "", ""},
		{"one value of several will do", 503, []string{"X-Backend-Status", "warm", "X-Backend-Status", "overloaded"}, "", "", ""},
		{"nothing like it", 503, []string{"Server", "x"}, "", "", needs + " on an answer it could stand on"},
		{"spelt otherwise", 503, []string{"X-Backend-State", "overloaded"}, "X-Backend-State", "spelling", needs},
		{"with other separators", 503, []string{"x_backend_status", "overloaded"}, "x_backend_status", "separators", needs},
		{"renamed on its way", 503, []string{"X-Original-Backend-Status", "overloaded"}, "X-Original-Backend-Status", "renamed", needs},
		{"without its X", 503, []string{"Backend-Status", "overloaded"}, "Backend-Status", "separators", needs},
		{"its value in other letters", 503, []string{"X-Backend-Status", "Overloaded"}, "Overloaded", "case", needs},
		{"its value misspelt", 503, []string{"X-Backend-Status", "overload"}, "overload", "spelling", needs},
		{"another value", 503, []string{"X-Backend-Status", "throttled"}, "", "", ""},
		{"only good answers", 200, []string{"Server", "x"}, "", "", ""},
		{"a twin on good answers", 200, []string{"X-Backend-State", "fine"}, "X-Backend-State", "spelling", needs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := counted(t, relied)
			h.answers(enoughAnswers, tt.status, tt.fields...)
			found := h.stats()["order"].Findings
			i := slices.IndexFunc(found, func(f HeaderFinding) bool { return f.Header == "X-Backend-Status" })
			if tt.want == "" {
				if i >= 0 {
					t.Errorf("got %+v", found[i])
				}
				return
			}
			if i < 0 {
				t.Fatalf("nothing was found: %+v", found)
			}
			if f := found[i]; !strings.HasPrefix(f.Text, tt.want) || f.Twin != tt.twin || f.Kind != tt.kind || !slices.Equal(f.Routes, []string{"order-get"}) {
				t.Errorf("got %+v", f)
			}
		})
	}
}

// A route whose 503 needs a signal waits for either of two fields.
func TestHeaderFindingsOfTheBuiltinSignal(t *testing.T) {
	either := func(h *headers) bool {
		return slices.ContainsFunc(h.stats()["order"].Findings, func(f HeaderFinding) bool { return f.Header == "X-Backend-Status or Retry-After" })
	}
	h := counted(t, relied)
	h.answers(enoughAnswers-1, 503, "Server", "x")
	if either(h) {
		t.Error("it is missed after too few answers")
	}
	h.answers(1, 503, "Server", "x")
	if !either(h) {
		t.Error("nobody misses it")
	}
	h.answers(1, 503, "Retry-After", "1")
	if either(h) {
		t.Error("it came, and is still missed")
	}
}

// A field that is read of every answer is missed by nobody, but told of where it
// comes under another name.
func TestHeaderFindingsOfFieldsReadAnyway(t *testing.T) {
	h := counted(t, relied)
	h.answers(enoughAnswers, 429, "RateLimit-Remaining", "0")
	found := h.stats()["order"].Findings
	if len(found) != 1 && (len(found) != 2 || found[1].Header != "X-RateLimit-Remaining") {
		t.Fatalf("got %+v", found)
	}
	if f := found[len(found)-1]; f.Twin != "RateLimit-Remaining" || len(f.Routes) > 0 {
		t.Errorf("got %+v", f)
	}
}

func TestHeaderNoticesAreWrittenOnce(t *testing.T) {
	h := counted(t, relied)
	h.answers(enoughAnswers, 503, "X-Backend-State", "overloaded")
	var told []retrylog.Notice
	for range 3 {
		h.tick(func(n retrylog.Notice) { told = append(told, n) })
		h.answers(1, 503, "X-Backend-State", "overloaded")
	}
	if len(told) != 2 || told[0].Kind != "header_never_seen" || told[0].Count != enoughAnswers || !strings.Contains(told[0].Detail, "X-Backend-State") {
		t.Errorf("got %+v, want one of the condition and one of the builtin signal", told)
	}
}

// Names are bounded whatever an upstream sends, and a reload forgets no counts.
func TestCensusIsBounded(t *testing.T) {
	h := counted(t, relied)
	for i := range 10_000 {
		h.answers(1, 500, fmt.Sprintf("X-%d", i), "v", strings.Repeat("y", censusName+1), "v")
	}
	s := h.stats()["order"]
	if len(s.Names) > censusNames || s.More < 10_000 || s.Answers != 10_000 || s.LookedAt != 10_000 {
		t.Errorf("%d names, %d more, %d answers, %d looked at", len(s.Names), s.More, s.Answers, s.LookedAt)
	}
	h = counted(t, relied)
	h.answers(enoughAnswers, 503, "Server", "x")
	before := len(h.stats()["order"].Findings)
	var log conf.Log
	h.apply(config.Parse([]conf.File{{Name: "gw.yaml", Data: []byte(relied)}}, &log))
	if after := len(h.stats()["order"].Findings); before == 0 || after != before {
		t.Errorf("%d findings before a reload, %d after", before, after)
	}
	h.apply(&config.Config{})
	if len(h.stats()) != 0 {
		t.Error("an upstream that is gone is remembered")
	}
}

// After the first answers only failures and one good answer in many are looked at.
func TestCensusSamples(t *testing.T) {
	h := counted(t, relied)
	h.answers(lookAtFirst+10*lookAtEvery, 200, "Server", "x")
	if s := h.stats()["order"]; s.LookedAt != lookAtFirst+10 {
		t.Errorf("%d of %d answers were looked at", s.LookedAt, s.Answers)
	}
}

func TestCensusAllocatesNothing(t *testing.T) {
	h := counted(t, relied)
	good, bad := headOf("Server", "x", "Date", "today"), headOf("X-Backend-Status", "throttled", "Server", "x")
	h.answers(lookAtFirst, 503, "X-Backend-Status", "throttled", "Server", "x", "Date", "today")
	c := h.census("order")
	if n := testing.AllocsPerRun(1000, func() { c.look(good, 200); c.look(bad, 503) }); n != 0 {
		t.Errorf("%v allocations an answer", n)
	}
}

// Many look and one reads, under the race detector.
func TestCensusTogether(t *testing.T) {
	h := counted(t, relied)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 300 {
				h.answers(1, 500+g, fmt.Sprintf("X-%d", i), "v", "X-Backend-Status", "Overloaded")
			}
		})
	}
	for range 20 {
		h.stats()
		h.tick(func(retrylog.Notice) {})
	}
	wg.Wait()
	if s := h.stats()["order"]; s.Answers != 1200 {
		t.Errorf("%d answers", s.Answers)
	}
}

func BenchmarkCensus(b *testing.B) {
	c := newHeaders().census("order")
	head := headOf("Server", "x", "Date", "today", "Content-Type", "application/json", "Content-Length", "2", "X-Request-Id", "r-1")
	b.ReportAllocs()
	for b.Loop() {
		c.look(head, 200)
	}
}
