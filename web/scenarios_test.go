package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// sends is a form of a page as a browser sends it.
func sends(t *testing.T, h http.Handler, path string, form url.Values) (int, string, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

func TestScenarios(t *testing.T) {
	handlers := map[string]http.Handler{"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler()}
	for _, tt := range []struct {
		name, world, path string
		status            int
		want, not         []string
	}{
		{"the library, what runs here first", "shop", "/scenarios", 200, []string{"points-slow", "seed-golden-points-3s", "/etc/breakwater/drills.yaml"}, []string{"<no value>"}},
		{"the last result with its run, the next one, the incident it came from", "shop", "/scenarios", 200, []string{`href="/runs/r-1287"`, "injecting", "Tue 24 Nov", "from incident i-207", `href="/alerts/i-207"`, "never run", "library, quarterly", "1 Dec"}, nil},
		{"a filter stands in the address", "shop", "/scenarios?kind=truncate", 200, []string{"cut answer", "2 scenarios of"}, []string{">points-slow,"}},
		{"a filter by result", "shop", "/scenarios?state=running", 200, []string{"1 scenario of", "points-slow"}, []string{"seed-golden"}},
		{"a filter by target and word", "shop", "/scenarios?service=coupon&q=INCIDENT", 200, []string{"1 scenario of", "What happened to coupon"}, []string{"points-slow,"}},
		{"a filter that fits nothing", "shop", "/scenarios?q=zzz", 200, []string{"No scenario of this kind"}, nil},
		{"all of it as a table", "shop", "/scenarios?format=csv&q=points-slow", 200, []string{"id,title,service,target,faults,share_ppm", "points-slow,Points answers after 5 s,points,routes points-deduct,lat: waits 5s,600000", "control,/etc/breakwater/drills.yaml,r-1287,running"}, nil},
		{"and as JSON", "shop", "/scenarios?format=json&q=incident-coupon", 200, []string{`"drawn_from":"2026-11-24T14:15:00Z"`, `"last_run":null`}, nil},
		{"what breaks, what is expected, what ends it", "shop", "/scenarios/points-slow", 200, []string{"waits 5s", "routes points-deduct", "60\u202f% of tries", "share of good requests of order is at least 98 %", "Order burns its budget over 240×", "5:00 baseline, 10:00 inject", "weekly-small-drill", "Edit a copy"}, []string{"Run now"}},
		{"preflight in the words of a start", "shop", "/scenarios/points-slow", 200, []string{"would be refused", "no_fallback", "Nothing stands in for an answer of points-deduct", "Users see fail", "18\u202f300 requests of points"}, nil},
		{"guards, and what a failure files", "shop", "/scenarios/incident-coupon-2026-11-24-1415", 200, []string{"At most 4 tries a second are hit", "At most 3 tenants are hit", "A failure is filed as high, owner team-coupon"}, nil},
		{"one of the library", "shop", "/scenarios/catalog-truncated-dirty", 200, []string{"from the library", "cuts the answer after 50\u202f%, in the middle", "No run yet"}, nil},
		{"one that nobody wrote", "shop", "/scenarios/none", 404, []string{"No scenario none"}, nil},
		{"with the database away the library is there", "lost", "/scenarios", 200, []string{"cannot be read now", "seed-golden-points-3s"}, nil},
		{"a new house has the library", "empty", "/scenarios", 200, []string{"not known here", "seed-golden-points-3s"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := get(t, handlers[tt.world], tt.path)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(body, n) {
					t.Errorf("%q is on the page", n)
				}
			}
		})
	}
}

func TestRunNow(t *testing.T) {
	h := shop(noon)
	handler := h.server(t).Handler()
	if status, _, _ := sends(t, handler, "/scenarios/points-slow/run", nil); status != 403 || len(h.stopped) != 0 {
		t.Errorf("by who may only read: %d, %q", status, h.stopped)
	}
	h.mayLift = true
	if _, _, body := get(t, handler, "/scenarios/points-slow"); !strings.Contains(body, `action="/scenarios/points-slow/run"`) {
		t.Error("an operator is not offered to run it")
	}
	if status, to, _ := sends(t, handler, "/scenarios/points-slow/run", nil); status != 303 || to != "/runs/r-1287" {
		t.Errorf("%d to %s", status, to)
	}
	if status, to, _ := sends(t, handler, "/scenarios/control-run-0/run", nil); status != 303 || to != "/runs/r-1287" {
		t.Errorf("one of the library: %d to %s", status, to)
	}
	if status, _, _ := sends(t, handler, "/scenarios/none/run", nil); status != 404 {
		t.Errorf("one that is not there: %d", status)
	}
	if len(h.stopped) != 2 || h.stopped[0] != `start application/json {"scenario":"points-slow"}` || !strings.HasPrefix(h.stopped[1], "start application/yaml # The flag is off") {
		t.Errorf("asked %q", h.stopped)
	}
}

// Every scenario of the library is told in words: none has a fault or a brake that the
// page has no word for.
func TestTheLibraryHasWords(t *testing.T) {
	s := shop(noon).server(t)
	docs, err := s.drillDocs(t.Context())
	if err != nil || len(docs) < 15 {
		t.Fatalf("%d scenarios, %v", len(docs), err)
	}
	for _, d := range docs {
		if d.Wrong != "" {
			t.Errorf("%s: %s", d.ID, d.Wrong)
		}
		for _, f := range d.Scenario.Faults {
			if words := (lang{}).faultWords(f); words == "" || (lang{}).faultName(f.Rule.Kind) == string(f.Rule.Kind) && f.Rule.Kind != "reset" {
				t.Errorf("%s: fault %s is %q", d.ID, f.ID, words)
			}
		}
		for _, x := range d.Scenario.Stop {
			if (lang{}).brakeWords(x) == string(x.Kind) {
				t.Errorf("%s: no words for %s", d.ID, x.Kind)
			}
		}
	}
}
