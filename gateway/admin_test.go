package gateway_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"breakwater/gateway"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// lever is a kill switch that remembers.
type lever struct {
	halts, resumes int
	reason         string
	stuck          bool
}

func (l *lever) Halt(reason string) { l.halts++; l.reason = reason }

func (l *lever) Resume() error {
	l.resumes++
	if l.stuck {
		return errors.New("the halt file is still there")
	}
	return nil
}

func TestAdmin(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	sw := &lever{}
	h := start(t, shop(up), gateway.Config{Switch: sw, Stats: map[string]func() any{"spool": func() any { return 7 }}})
	admin := httptest.NewServer(h.Admin())
	defer admin.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(admin.URL, "http://"))
	tests := []struct {
		name, method, path, host, origin string
		status                           int
		holds                            string
	}{
		{"alive", "GET", "/healthz", "", "", 200, "ok"},
		{"ready", "GET", "/readyz", "", "", 200, "ready"},
		{"metrics", "GET", "/metrics", "", "", 200, "breakwater_config_last_reload_successful 1"},
		{"stats", "GET", "/stats", "", "", 200, `"spool": 7`},
		{"stats of endpoints", "GET", "/stats", "", "", 200, up},
		{"configuration", "GET", "/debug/config", "localhost:" + port, "", 200, `"revision": "r1"`},
		{"profiles", "GET", "/debug/pprof/", "", "", 200, "goroutine"},
		{"halt", "POST", "/faults/halt?reason=test", "", "", 200, `"halted": true`},
		{"halt by a link", "GET", "/faults/halt", "", "", 405, ""},
		{"halt by a page of another site", "POST", "/faults/halt", "", "http://evil.example", 403, ""},
		{"resume", "POST", "/faults/resume", "", "", 200, `"halted": false`},
		{"a name that was made to resolve here", "GET", "/stats", "evil.example", "", 403, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req, _ := http.NewRequestWithContext(t.Context(), tt.method, admin.URL+tt.path, nil)
			if tt.host != "" {
				req.Host = tt.host
			}
			if tt.origin != "" {
				req.Header.Set("Origin", tt.origin)
			}
			rec := do(t, req)
			if rec.status != tt.status || !strings.Contains(rec.body, tt.holds) {
				t.Errorf("got %d %s, want %d with %q", rec.status, rec.body, tt.status, tt.holds)
			}
		})
	}
	if sw.halts != 1 || sw.reason != "test" || sw.resumes != 1 {
		t.Errorf("the switch saw %+v", sw)
	}
	sw.stuck = true
	req, _ := http.NewRequestWithContext(t.Context(), "POST", admin.URL+"/faults/resume", nil)
	if got := do(t, req); got.status != 409 {
		t.Errorf("a resume that failed answers %d", got.status)
	}
}

type got struct {
	status int
	body   string
}

func do(t *testing.T, req *http.Request) got {
	t.Helper()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b strings.Builder
	if _, err := io.Copy(&b, res.Body); err != nil {
		t.Fatal(err)
	}
	return got{res.StatusCode, b.String()}
}

func TestBadConfigurationChangesNothing(t *testing.T) {
	up := server(t, func(http.ResponseWriter, *http.Request) {})
	metrics := prometheus.NewRegistry()
	h := start(t, shop(up), gateway.Config{Metrics: metrics})
	bad := shop(up)
	bad.Revision, bad.Routes[0].Upstream = "r2", "nobody"
	if err := h.Apply(bad); err == nil {
		t.Fatal("a route without upstream was applied")
	}
	h.Refused(errors.New("gw.yaml:6:19: routes[1].retry.max_retries: must be 0 to 5, got 9"))
	if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 200 {
		t.Errorf("the old configuration answers %d", status)
	}
	rec := httptest.NewRecorder()
	h.Admin().ServeHTTP(rec, httptest.NewRequest("GET", "/debug/config", nil))
	var view struct {
		Revision  string `json:"revision"`
		LastError string `json:"last_error"`
		AppliedAt string `json:"applied_at"`
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &view); err != nil {
		t.Fatal(err)
	}
	if view.Revision != "r1" || !strings.HasPrefix(view.LastError, "gw.yaml:6:19") || view.AppliedAt == "" {
		t.Errorf("/debug/config says %+v", view)
	}
	const want = `# HELP breakwater_config_last_reload_successful 1 where the last configuration read was applied.
# TYPE breakwater_config_last_reload_successful gauge
breakwater_config_last_reload_successful 0
`
	if err := testutil.GatherAndCompare(metrics, strings.NewReader(want), "breakwater_config_last_reload_successful"); err != nil {
		t.Error(err)
	}
	configs := h.records.configs
	if len(configs) != 3 || configs[0].Effective == "" || configs[1].Error == "" || configs[2].Revision != "r1" {
		t.Errorf("config records %+v, want one swap and two refusals", configs)
	}
}

func TestMetrics(t *testing.T) {
	calls := 0
	up := server(t, func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls == 1 {
			w.Header().Set("X-Backend-Status", "overloaded")
			w.WriteHeader(503)
		}
	})
	metrics := prometheus.NewRegistry()
	h := start(t, retries(shop(up), 2), gateway.Config{Metrics: metrics})
	h.do(t, "GET", "/orders/1", "")
	h.do(t, "GET", "/orders/2", "")
	ev := h.records.wait(t, 2)[0]
	labels := `{decision_reason="` + ev.Reason + `",status_code="503",upstream="order-up"}`
	want := `# HELP ponytail_request_total All requests; status_code and decision_reason are empty where none was retried.
# TYPE ponytail_request_total counter
ponytail_request_total` + labels + ` 1
ponytail_request_total{decision_reason="",status_code="",upstream="order-up"} 1
# HELP ponytail_retry_rate_total Retries sent.
# TYPE ponytail_retry_rate_total counter
ponytail_retry_rate_total` + labels + ` 1
# HELP ponytail_retry_succeed_ratio Share of retried requests that ended well, since the start.
# TYPE ponytail_retry_succeed_ratio gauge
ponytail_retry_succeed_ratio` + labels + ` 1
`
	err := testutil.GatherAndCompare(metrics, strings.NewReader(want),
		"ponytail_request_total", "ponytail_retry_rate_total", "ponytail_retry_succeed_ratio")
	if err != nil || ev.Reason == "" {
		t.Errorf("reason %q: %v", ev.Reason, err)
	}
	problems, err := testutil.GatherAndLint(metrics)
	if err != nil || len(problems) > 0 {
		t.Errorf("lint: %v %v", problems, err)
	}
}
