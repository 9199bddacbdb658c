package web

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// says tells which of want are missing in body, and which of not are in it.
func says(t *testing.T, name, body string, want, not []string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("%s: %q is not on the page", name, w)
		}
	}
	for _, n := range not {
		if strings.Contains(body, n) {
			t.Errorf("%s: %q is on the page", name, n)
		}
	}
}

// getAs asks as somebody whose token covers some services only.
func getAs(h http.Handler, path string, services ...string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Principal{Name: "v", Role: auth.Viewer, Services: services})))
	return w.Code, w.Body.String()
}

func TestRequestsPage(t *testing.T) {
	shop, empty, lost := shop(noon).server(t).Handler(), empty(noon).server(t).Handler(), lost(noon).server(t).Handler()
	for _, tt := range []struct {
		name      string
		h         http.Handler
		path      string
		status    int
		want, not []string
	}{
		{"rows with why", shop, "/requests", 200, []string{"4 rows, newest first", `href="/requests/01jdk7f3c9a"`, "recovered", "Not retried: sent twice it could do twice", "Never sent: refused by the limiter (rate limited)", "× 12",
			"18\u202f300 requests were counted in this range", "41 more would have had a row", "Plain successes leave no row"}, []string{"Look further back"}},
		{"a filter", shop, "/requests?service=points&status=5xx&r=6h", 200, []string{"2 rows", `value="5xx"`, `aria-current="true">6` + "\u202fh"}, []string{"01jdk7f3c9a"}},
		{"an id", shop, "/requests?id=01jdk7ev0zz", 200, []string{"1 row has this id", "01jdk7ev0zz"}, []string{"01jdk7f3c9a"}},
		{"a page is full", shop, "/requests?limit=2", 200, []string{"Older rows", "before=", "2 rows on this page"}, nil},
		{"a rare reason stops at the reach of a search", shop, "/requests?reason=retry_budget", 200, []string{"No row fits", "Look further back", "Looked through 5\u202f000 rows"}, nil},
		{"what is wrong is told, and stays in the form", shop, "/requests?status=9xx&outcome=bad", 400, []string{"Status must be like 503 or 5xx, got &#34;9xx&#34;; outcome must be one of", `value="9xx"`}, []string{"01jdk7f3c9a"}},
		{"nothing", empty, "/requests", 200, []string{"No row fits", "Plain successes leave no row of their own", "0 requests were counted"}, nil},
		{"the database is away", lost, "/requests", 200, []string{"The log cannot be read now"}, []string{"No row fits"}},
	} {
		status, _, body := get(t, tt.h, tt.path)
		if status != tt.status {
			t.Errorf("%s: %d, want %d", tt.name, status, tt.status)
		}
		says(t, tt.name, body, tt.want, tt.not)
	}
	_, head, list := get(t, shop, "/requests?service=points&format=csv")
	if !strings.HasPrefix(list, "at,request_id,gateway,") || strings.Count(list, "\n") != 4 || head.Get("Content-Type") != "text/csv; charset=utf-8" {
		t.Errorf("CSV: %.300s", list)
	}
	var rows []map[string]any
	if _, _, text := get(t, shop, "/requests?format=json"); json.Unmarshal([]byte(text), &rows) != nil || len(rows) != 4 || rows[0]["latency_us"] != 336000.0 || rows[1]["skip_reason"] != "non_idempotent" {
		t.Errorf("JSON: %v", rows)
	}
}

func TestRequestPage(t *testing.T) {
	h := shop(noon).server(t).Handler()
	_, _, body := get(t, h, "/requests/01jdk7f3c9a")
	says(t, "recovered", body, []string{"Retried, 1 time: 502 is one of the statuses that the policy retries. The last try was no failure.", "281\u202fms waiting between them", "After a wait of 281\u202fms",
		"10.0.3.11:9001", `class="f-wait"`, "Asked again, step by step", "(this one fired)", "open: attempts, method, body, retry count, client, deadline", `href="/simulator?event=01jdk7f3c9a"`, `href="/api/v1/events/01jdk7f3c9a"`}, []string{"decided otherwise"})
	_, _, body = get(t, h, "/requests/01jdk7f2a11")
	says(t, "by a drill", body, []string{"f-chaos", "r-1287/latency", `href="/runs/r-1287"`, "Not tried again: sent twice", "method: shut, non_idempotent"}, nil)
	_, _, body = get(t, h, "/simulator?event=01jdk7ev0zz&config="+served()[1].Revision)
	says(t, "the configuration decides otherwise now", body, []string{"HTTP/1.1 502 Bad Gateway", "The gateway decided otherwise when it happened", "all retries that the policy allows were made"}, nil)
	_, _, body = get(t, h, "/requests/01jdk7d0000")
	says(t, "refused", body, []string{"No try was made", "refused by the limiter", "12 exchanges"}, []string{"Asked again"})
	if status, _, body := get(t, h, "/requests/nobody"); status != 404 || !strings.Contains(body, "A plain success leaves none of its own") {
		t.Errorf("%d", status)
	}
	if status, _, _ := get(t, lost(noon).server(t).Handler(), "/requests/nobody"); status != 503 {
		t.Errorf("away: %d", status)
	}
	_, _, list := get(t, h, "/requests/01jdk7ev0zz?format=csv")
	if !strings.HasPrefix(list, "try,endpoint,status,") || strings.Count(list, "\n") != 4 {
		t.Errorf("CSV: %s", list)
	}
}

// Who may see some services sees their requests alone, by the list, by id, and in the
// simulator.
func TestRequestsAreScoped(t *testing.T) {
	s := shop(noon).server(t)
	s.cfg.Covers = func(r *http.Request, service string) bool { return auth.From(r.Context()).Covers(service) }
	h := s.Handler()
	if status, body := getAs(h, "/requests", "coupon"); status != 200 || strings.Contains(body, "01jdk7f3c9a") || !strings.Contains(body, "01jdk7d0000") {
		t.Errorf("%d: another service's rows are in the list", status)
	}
	for path, want := range map[string]int{"/requests?service=points": 403, "/requests/01jdk7f3c9a": 404, "/requests/01jdk7d0000": 200, "/simulator?event=01jdk7f3c9a": 404} {
		if status, _ := getAs(h, path, "coupon"); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if _, body := getAs(h, "/requests?id=01jdk7f3c9a", "coupon"); strings.Contains(body, `href="/requests/01jdk7f3c9a"`) {
		t.Error("another service's row is found by its id")
	}
	if _, body := getAs(h, "/simulator", "coupon"); strings.Contains(body, "points-balance") {
		t.Error("another service's route is offered")
	}
}

func TestMarkupInTheLogIsEscaped(t *testing.T) {
	world := hostile(noon)
	h := world.server(t).Handler()
	evil := logbook{world}.rows()[0].Exchange.RequestID
	for _, path := range []string{"/requests", "/requests?service=" + url.QueryEscape(evil) + "&route=" + url.QueryEscape(evil), requestHref(evil), "/simulator?event=" + url.QueryEscape(evil), "/simulator?path=" + url.QueryEscape(evil)} {
		status, _, body := get(t, h, path)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") || status != 200 {
			t.Errorf("%s: %d, or stored markup came through", path, status)
		}
		for _, found := range refused(body) {
			t.Errorf("%s: %q", path, found)
		}
	}
	if _, _, list := get(t, h, "/requests?format=csv"); strings.Contains(list, "\n\"=") {
		t.Error("a text that clients choose is a formula")
	}
}
