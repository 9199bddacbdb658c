package gate

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// status is an evaluation of order with bad of 100 000 requests failed at 99.95 %.
func status(level slo.Level, bad int64) slo.Status {
	o := slo.Objective{ID: "order-availability", Service: "order", TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}
	t := slo.Tally{Good: 100_000 - bad, Bad: bad}
	s := slo.Status{Objective: o, Env: "prod", At: noon, DataUntil: noon, Budget: slo.Weigh(o, t), CoveragePPM: 1_000_000,
		Level: level, Measured: level, Since: noon.Add(-time.Hour), Reason: "because."}
	for _, w := range slo.BurnWindows() {
		s.Burns = append(s.Burns, slo.Burning(o, w, t))
	}
	if level == slo.Unknown {
		s.Blind = "low_coverage"
	}
	if level == slo.Frozen {
		s.ThawAt = noon.Add(3 * time.Hour)
	}
	return s
}

func TestAnswersByState(t *testing.T) {
	tests := []struct {
		level slo.Level
		kind  Kind
		want  Verdict
		code  string
	}{
		{slo.Normal, Feature, Allow, "budget_ok"},
		{slo.Warn, Feature, Allow, "budget_low"},
		{slo.Emergency, Feature, Allow, "require_canary"},
		{slo.Frozen, Feature, Deny, "budget_exhausted"},
		{slo.Frozen, ConfigChange, Deny, "budget_exhausted"},
		{slo.Frozen, Dependency, Deny, "budget_exhausted"},
		{slo.Frozen, Experiment, Deny, "budget_exhausted"},
		{slo.Frozen, "", Deny, "budget_exhausted"},
		{slo.Frozen, Rollback, Deny, "kind_not_proven"},
		{slo.Frozen, Scale, Deny, "kind_not_proven"},
		{slo.Frozen, SecurityFix, Deny, "kind_not_proven"},
		{slo.Frozen, ReliabilityFix, Deny, "kind_not_proven"},
		{slo.Unknown, Feature, Hold, "low_coverage"},
		{slo.Unknown, Rollback, Hold, "low_coverage"},
	}
	for _, tt := range tests {
		s := status(tt.level, 60)
		d := Decide(Request{Service: "order", Env: "prod", Kind: tt.kind}, []slo.Status{s}, DefaultPolicy(), noon.Add(time.Second))
		if d.Decision != tt.want || d.ReasonCode != tt.code || d.State != tt.level || len(d.Reasons) == 0 {
			t.Errorf("%s, %s: %s %s, want %s %s", tt.level, tt.kind, d.Decision, d.ReasonCode, tt.want, tt.code)
		}
		if (d.ThawAt != nil) != (tt.level == slo.Frozen) || !d.ValidUntil.Equal(noon.Add(61*time.Second)) {
			t.Errorf("%s: thaws %v, valid until %v", tt.level, d.ThawAt, d.ValidUntil)
		}
	}
}

func TestMissingDataNeverAllows(t *testing.T) {
	fresh := status(slo.Normal, 1)
	none := status(slo.Unknown, 0)
	none.Budget, none.Blind = slo.Budget{NoData: true}, "no_data"
	tests := []struct {
		name     string
		req      Request
		statuses []slo.Status
		at       time.Time
		want     Verdict
		code     string
	}{
		{"nobody knows the service", Request{Service: "nobody"}, []slo.Status{fresh}, noon, Unclear, "unknown_service"},
		{"nothing was ever evaluated", Request{Service: "order"}, nil, noon, Unclear, "unknown_service"},
		{"another environment", Request{Service: "order", Env: "test"}, []slo.Status{fresh}, noon, Unclear, "unknown_env"},
		{"60 s old", Request{Service: "order"}, []slo.Status{fresh}, noon.Add(time.Minute), Allow, "budget_ok"},
		{"older than 60 s", Request{Service: "order"}, []slo.Status{fresh}, noon.Add(time.Minute + 1), Unclear, "stale_evaluation"},
		{"no data and nothing held", Request{Service: "order"}, []slo.Status{none}, noon, Unclear, "no_data"},
	}
	for _, tt := range tests {
		d := Decide(tt.req, tt.statuses, DefaultPolicy(), tt.at)
		if d.Decision != tt.want || d.ReasonCode != tt.code {
			t.Errorf("%s: %s %s, want %s %s", tt.name, d.Decision, d.ReasonCode, tt.want, tt.code)
		}
	}
}

func TestUnknownGivesTheAnswerOfTheHeldState(t *testing.T) {
	for level, want := range map[slo.Level]Verdict{slo.Normal: Allow, slo.Frozen: Deny} {
		s := status(level, 1)
		s.Measured = slo.Unknown
		d := Decide(Request{Service: "order", Kind: Feature}, []slo.Status{s}, DefaultPolicy(), noon)
		if d.Decision != want || !strings.Contains(strings.Join(d.Reasons, " "), "held state") {
			t.Errorf("%s held: %s, %q", level, d.Decision, d.Reasons)
		}
	}
}

func TestWorstObjectiveAnswers(t *testing.T) {
	good, bad := status(slo.Normal, 1), status(slo.Frozen, 60)
	bad.Objective.ID, good.Env = "order-latency", "prod"
	d := Decide(Request{Service: "order"}, []slo.Status{good, bad}, DefaultPolicy(), noon)
	if d.Decision != Deny || !strings.Contains(d.Reasons[0], "order-latency") {
		t.Errorf("%s because %q, want deny that names order-latency", d.Decision, d.Reasons)
	}
}

type fixed []slo.Status

func (f fixed) Statuses() []slo.Status { return slices.Clone(f) }

type keeper struct {
	kept []Record
	err  error
}

func (k *keeper) SaveDecision(ctx context.Context, r Record) error {
	if k.err == nil {
		k.kept = append(k.kept, r)
	}
	return k.err
}

// serve answers one query as somebody in scope of the services given.
func serve(g *Gate, query string, services ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/api/v1/gate/decision?"+query, nil)
	r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ci", Role: auth.Pipeline, Services: services}))
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	return w
}

func TestTheAnswerOnTheWire(t *testing.T) {
	k := &keeper{}
	g := New(Config{Source: fixed{status(slo.Frozen, 80)}, Keeper: k, Now: func() time.Time { return noon }})
	w := serve(g, "service=order&env=prod&kind=feature&ref=abc")
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("answered %d %v", w.Code, w.Header())
	}
	if len(k.kept) != 1 || k.kept[0].Request != (Request{Service: "order", Env: "prod", Kind: Feature, Ref: "abc"}) {
		t.Fatalf("kept %+v", k.kept)
	}
	got := strings.Replace(w.Body.String(), k.kept[0].Decision.DecisionID, "d-id", 1)
	want, err := os.ReadFile("testdata/deny.golden")
	if err != nil || got != string(want) {
		t.Errorf("answer is\n%swant\n%s(%v)", got, want, err)
	}
}

func TestAnsweredWithoutADatabase(t *testing.T) {
	g := New(Config{Source: fixed{status(slo.Normal, 1)}, Keeper: &keeper{err: errors.New("away")}, Now: func() time.Time { return noon }})
	var d Decision
	if err := json.Unmarshal(serve(g, "service=order").Body.Bytes(), &d); err != nil || d.Decision != Allow || d.DecisionID != "" {
		t.Errorf("answered %s with id %q, %v, want allow without one", d.Decision, d.DecisionID, err)
	}
}

func TestBadQuestions(t *testing.T) {
	g := New(Config{Source: fixed{}, Now: func() time.Time { return noon }})
	for query, want := range map[string]int{
		"": 400, "service=": 400, "service=a&kind=party": 400, "service=a&service=b": 400, "service=a&sevrice=b": 400,
		"service=" + strings.Repeat("x", 300): 400, "service=a%00": 400, "service=order": 200, "service=points": 403,
	} {
		w := serve(g, query, "order")
		if w.Code != want {
			t.Errorf("?%.40s: %d, want %d", query, w.Code, want)
		}
		if w.Code != 200 && w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("?%.40s: %s", query, w.Header().Get("Content-Type"))
		}
	}
}

func TestAskAndExitCodes(t *testing.T) {
	tests := []struct {
		name      string
		handler   http.HandlerFunc
		onUnknown string
		want      int
	}{
		{"allow", say(200, `{"decision":"allow"}`), "", 0},
		{"deny", say(200, `{"decision":"deny"}`), "allow", 1},
		{"hold", say(200, `{"decision":"hold"}`), "allow", 3},
		{"unknown", say(200, `{"decision":"unknown"}`), "", 4},
		{"unknown, allowed", say(200, `{"decision":"unknown"}`), "allow", 0},
		{"unknown, denied", say(200, `{"decision":"unknown"}`), "deny", 1},
		{"a login page", say(200, `<html>sign in</html>`), "", 4},
		{"another JSON", say(200, `{"ok":true}`), "", 4},
		{"a redirect", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login", http.StatusFound) }, "", 4},
		{"a bad question", say(400, `{"detail":"kind"}`), "allow", 2},
		{"no token", say(401, `{"detail":"token"}`), "deny", 1},
		{"broken", say(500, ``), "", 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			srv := httptest.NewServer(tt.handler)
			defer srv.Close()
			d, err := Ask(t.Context(), srv.URL+"/", "secret", Request{Service: "order", Env: "prod", Kind: Rollback, Ref: "v1"})
			if got := ExitCode(d, err, tt.onUnknown); got != tt.want {
				t.Errorf("exit code %d (%s, %v), want %d", got, d.Decision, err, tt.want)
			}
		})
	}
	d, err := Ask(t.Context(), "http://127.0.0.1:1", "", Request{Service: "order"})
	if got := ExitCode(d, err, ""); got != 4 {
		t.Errorf("nobody answers: exit code %d, want 4", got)
	}
}

// say answers what it is told, if it is asked the right way.
func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.String() != "/api/v1/gate/decision?env=prod&kind=rollback&ref=v1&service=order" {
			status = http.StatusTeapot
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}
