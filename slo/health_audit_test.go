package slo

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func adviceOf(list []Advice, code string) (Advice, bool) {
	i := slices.IndexFunc(list, func(a Advice) bool { return a.Code == code })
	if i < 0 {
		return Advice{}, false
	}
	return list[i], true
}

func throttled() UpstreamHealth {
	at := healthNoon.Add(-HealthWindow)
	return Healths([]HealthRow{
		healthRow(at, 0, "", HealthCounts{Requests: 10_000}),
		healthRow(at, 503, "header X-Backend-Status=throttled", HealthCounts{0, 200, 400, 24, 176}),
		healthRow(at, 504, "status 504", HealthCounts{0, 100, 100, 95, 5}),
	}, at, healthNoon)[0]
}

func tries(n int, wait time.Duration, sent, good int) []HealthTry {
	out := make([]HealthTry, sent)
	for i := range out {
		out[i] = HealthTry{n, wait, i < good}
	}
	return out
}

// Each piece of advice names what is to be changed, to what, and why, in numbers.
func TestHealthAudit(t *testing.T) {
	h := throttled()
	if !h.Score.Below() {
		t.Fatalf("score %+v", h.Score)
	}
	f := HealthFacts{
		Routes:  []HealthRoute{{"orders", true, 3, 2 * time.Second, 250 * time.Millisecond, []int{503, 504}}, {"reads", true, 1, 300 * time.Millisecond, 100 * time.Millisecond, []int{504}}},
		P95:     300 * time.Millisecond,
		P95Of:   9000,
		Headers: []string{"points: X-Backend-Status was never seen"},
		Config:  []string{"gw.yaml:3:1: must be 2"},
		Tries:   slices.Concat(tries(1, 260*time.Millisecond, 100, 10), tries(2, 800*time.Millisecond, 90, 45), tries(3, 2*time.Second, 45, 2)),
	}
	list := h.Audit(f)
	a, ok := adviceOf(list, "retry_on_status")
	if !ok || !strings.HasPrefix(a.Subject, "503 (header X-Backend-Status=throttled) in orders") || !strings.Contains(a.Why, "24 of 200 recovered (12") {
		t.Errorf("retry_on_status: %+v", a)
	}
	if want := (HealthCounts{10_000, 100, 100, 95, 5}).Score().PPM; a.ScorePPM != want {
		t.Errorf("without throttled it would be %d, want %d", a.ScorePPM, want)
	}
	if strings.Contains(a.Subject, "504") || len(slices.DeleteFunc(slices.Clone(list), func(a Advice) bool { return a.Code != "retry_on_status" })) != 1 {
		t.Errorf("what recovers is not advised against: %+v", list)
	}
	if a, _ := adviceOf(list, "max_retries"); a.Now != "3" || a.Should != "2" || !strings.Contains(a.Why, "retry 3 recovered 2 of 45") || a.ScorePPM <= h.Score.PPM {
		t.Errorf("max_retries: %+v", a)
	}
	if a, _ := adviceOf(list, "backoff_base"); a.Now != "250ms" || a.Should != "800ms" || !strings.Contains(a.Why, "recovered 10 of 100") {
		t.Errorf("backoff_base: %+v", a)
	}
	// 1.2 x 300 ms; reads cuts at the P95 itself, orders waits far longer.
	var seen []string
	for _, a := range list {
		if a.Code == "per_try_timeout" {
			seen = append(seen, a.Subject+" "+a.Now+" "+a.Should)
		}
	}
	if !slices.Equal(seen, []string{"per_try_timeout of orders 2000ms 360ms", "per_try_timeout of reads 300ms 360ms"}) {
		t.Errorf("per_try_timeout: %v", seen)
	}
	for code, why := range map[string]string{"header": "never seen", "config": "gw.yaml:3:1"} {
		if a, ok := adviceOf(list, code); !ok || !strings.Contains(a.Why, why) {
			t.Errorf("%s: %+v", code, a)
		}
	}
	if list[0].ScorePPM < list[1].ScorePPM {
		t.Errorf("what helps most comes first: %+v", list)
	}
}

// Where nothing is known but counts, advice rests on counts; where nothing in the
// policy explains a score, that is said.
func TestHealthAuditOfLittle(t *testing.T) {
	at := healthNoon.Add(-HealthWindow)
	h := Healths([]HealthRow{healthRow(at, 0, "", HealthCounts{Requests: 1000}), healthRow(at, 503, "x", HealthCounts{0, 100, 300, 80, 20})}, at, healthNoon)[0]
	if a, ok := adviceOf(h.Audit(HealthFacts{}), "max_retries"); !ok || a.Should != "1" || a.Now != "" || !strings.Contains(a.Why, "300 retries were sent for 100 requests, which is 30") {
		t.Errorf("max_retries: %+v", a)
	}
	h = Healths([]HealthRow{healthRow(at, 0, "", HealthCounts{Requests: 1000}), healthRow(at, 503, "x", HealthCounts{0, 300, 300, 200, 100})}, at, healthNoon)[0]
	list := h.Audit(HealthFacts{P95: 100 * time.Millisecond, P95Of: 1000, Routes: []HealthRoute{{Name: "a", Enabled: true, MaxRetries: 1, PerTry: 120 * time.Millisecond, Backoff: 10 * time.Millisecond}}})
	if len(list) != 1 || list[0].Code != "upstream" {
		t.Errorf("%+v", list)
	}
}
