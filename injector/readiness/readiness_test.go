package readiness

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func good(now time.Time) Facts {
	f := Facts{Service: "points", Now: now, Contracts: []string{"points-v1"}, Codes: []string{"shop"}, Success: []string{"points-availability"},
		Latency: []string{"points-latency"}, Receivers: []string{"team/slack"}, AlertFeed: true, Routes: 2, Limited: 2, Retried: 1, Bounded: 1, Gateways: 1,
		Opened: &Proof{"r-1", now.Add(-24 * time.Hour)}, Schedules: []string{"weekly"}, Held: now.Add(-24 * time.Hour), Findings: 3, Incidents: 1, Drawn: []string{"incident-points"}}
	for _, id := range Items() {
		if ByHand(id) {
			f.Given = append(f.Given, Given{Item: id, Evidence: "wiki", Actor: "anna", Yes: true, At: now.Add(-time.Hour)})
		}
	}
	return f
}

func answer(t *testing.T, all []Answer, id string) Answer {
	t.Helper()
	i := slices.IndexFunc(all, func(a Answer) bool { return a.ID == id })
	if i < 0 {
		t.Fatalf("no answer to %s", id)
	}
	return all[i]
}

func TestFifteenQuestions(t *testing.T) {
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	all := Assess(good(now))
	var ids []string
	for _, a := range all {
		ids = append(ids, a.ID)
		if a.State != Yes || a.Question == "" || a.Text == "" {
			t.Errorf("%+v, want a yes with its reason", a)
		}
	}
	if !slices.Equal(ids, Items()) || len(ids) != 15 || Ready(all) != 15 {
		t.Errorf("%d answers %v, %d ready", len(ids), ids, Ready(all))
	}
	// Of a service that nobody knows nothing is a yes.
	if n := Ready(Assess(Facts{Service: "nobody", Now: now})); n != 0 {
		t.Errorf("%d are yes of nothing: %+v", n, Assess(Facts{Service: "nobody", Now: now}))
	}
}

func TestWhatMakesANo(t *testing.T) {
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		item  string
		spoil func(*Facts)
		want  State
		says  string
	}{
		{"contract", func(f *Facts) { f.Contracts = nil }, No, "no contract"},
		{"error-codes", func(f *Facts) { f.Codes = nil }, No, "no dictionary"},
		{"sli", func(f *Facts) { f.Latency = nil }, No, "on latency: 0"},
		{"slo", func(f *Facts) { f.Success, f.Latency = nil, nil }, No, "no objective"},
		{"alerts", func(f *Facts) { f.AlertFeed = false }, No, "at this moment"},
		{"alerts", func(f *Facts) { f.Receivers = nil }, No, "names anybody"},
		{"limits", func(f *Facts) { f.Limited = 0 }, No, "no route"},
		{"limits", func(f *Facts) { f.Given = nil }, Unknown, "no document"},
		{"breaker", func(f *Facts) { f.Opened = nil }, No, "no drill"},
		{"breaker", func(f *Facts) { f.Opened.At = now.Add(-Cadence - time.Hour) }, No, "too long ago"},
		{"retries", func(f *Facts) { f.Bounded = 0 }, No, "0 of them bounded"},
		{"retry-count", func(f *Facts) { f.Gateways = 0 }, Unknown, "no gateway"},
		{"cadence", func(f *Facts) { f.Schedules = nil }, No, "no schedule"},
		{"cadence", func(f *Facts) { f.Held = time.Time{} }, No, "none was completed"},
		{"findings", func(f *Facts) { f.Overdue = 1 }, No, "1 overdue"},
		{"scenarios", func(f *Facts) { f.Drawn = nil }, No, "0 scenarios"},
		{"versions", func(f *Facts) { f.Given[1].At = now.Add(-GoodFor) }, Unknown, "too long ago"},
		{"versions", func(f *Facts) { f.Given[1].Yes = false }, No, "wiki"},
	} {
		f := good(now)
		tt.spoil(&f)
		if a := answer(t, Assess(f), tt.item); a.State != tt.want || !strings.Contains(a.Text, tt.says) {
			t.Errorf("%s: %s %q, want %s that says %q", tt.item, a.State, a.Text, tt.want, tt.says)
		}
	}
}

// Nobody ticks off what can be computed.
func TestNoAnswerByHandWhereItIsComputed(t *testing.T) {
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	f := Facts{Service: "points", Now: now}
	for _, id := range Items() {
		f.Given = append(f.Given, Given{Item: id, Evidence: "believe me", Actor: "anna", Yes: true, At: now})
	}
	for _, a := range Assess(f) {
		if (a.State == Yes) != a.ByHand {
			t.Errorf("%s is %s, by hand: %v", a.ID, a.State, a.ByHand)
		}
	}
}
