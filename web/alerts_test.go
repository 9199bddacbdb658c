package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestAlertsPages(t *testing.T) {
	handlers := map[string]*house{"shop": shop(noon), "empty": empty(noon), "lost": lost(noon)}
	for _, tt := range []struct {
		name, world, path string
		status            int
		want, not         []string
	}{
		{"what goes on, and whose it is", "shop", "/alerts", 200, []string{"2 incidents go on; 1 of them that users feel is nobody", "nobody has it", "with ben"}, []string{"Payment timeouts"}},
		{"all of them, with why nobody was told", "shop", "/alerts?view=all", 200, []string{"Payment timeouts at the bank", "no: silence s-0", ">over<"}, nil},
		{"what was only written down", "shop", "/alerts?view=notes", 200, []string{"too few requests (3)", ">14<"}, nil},
		{"silences end by themselves", "shop", "/alerts?view=silences", 200, []string{"points, up to ticket", "ends in 3\u202fh", "ended by ben"}, []string{"End it"}},
		{"one incident with its context and its log", "shop", "/alerts/i-207", 200, []string{"38.5×", "50003: 70\u202f%", "breaker of vault is open since", "no route", "tells of worse already", "1\u202f790 of 13\u202f000"}, []string{`action="/alerts/i-207/ack"`}},
		{"an incident nobody knows", "shop", "/alerts/i-0", 404, []string{"No incident i-0"}, nil},
		{"nothing is wrong", "empty", "/alerts", 200, []string{"Nothing is wrong that anybody must know"}, nil},
		{"the database is away", "lost", "/alerts", 200, []string{"cannot be read now"}, []string{"Nothing is wrong"}},
		{"an incident while the database is away", "lost", "/alerts/i-207", 503, []string{"cannot be read now"}, nil},
		{"the link of a message leads to who is hit", "shop", "/now?incident=i-206", 200, []string{"<h1>search is fine</h1>"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := get(t, handlers[tt.world].server(t).Handler(), tt.path)
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

// Forms go through the handlers of the API, for operators alone, and never from
// another site.
func TestFormsOfAlerts(t *testing.T) {
	h := shop(noon)
	handler := h.server(t).Handler()
	post := func(path, site string, form url.Values) (int, string, string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Location"), w.Body.String()
	}
	silence := url.Values{"service": {"points"}, "minutes": {"60"}, "severity": {"ticket"}, "reason": {"planned"}}
	for _, path := range []string{"/alerts/i-207/ack", "/silences", "/silences/s-1/end"} {
		if status, _, _ := post(path, "same-origin", silence); status != 403 {
			t.Errorf("%s by who may only read: %d, want 403", path, status)
		}
	}
	h.mayLift = true
	if status, _, _ := post("/alerts/i-207/ack", "cross-site", nil); status != 403 || len(h.stopped) != 0 {
		t.Errorf("another site acknowledged: %d, %q", status, h.stopped)
	}
	if status, to, _ := post("/alerts/i-207/ack", "same-origin", url.Values{"note": {"mine"}}); status != 303 || to != "/alerts/i-207?said=acknowledged" {
		t.Errorf("acknowledged: %d to %s", status, to)
	}
	if status, to, _ := post("/silences", "same-origin", silence); status != 303 || to != "/alerts?view=silences&said=silenced" {
		t.Errorf("silenced: %d to %s", status, to)
	}
	if status, _, _ := post("/silences/s-1/end", "same-origin", nil); status != 303 {
		t.Errorf("ended: %d", status)
	}
	want := []string{`POST ack i-207 {"note":"mine"}`, `POST silence {"service":"points","env":"","class":"","severity":"ticket","until":"2026-11-24T15:27:12Z","reason":"planned"}`, "DELETE unsilence s-1 "}
	if !slices.Equal(h.stopped, want) {
		t.Errorf("asked %q, want %q", h.stopped, want)
	}
	if status, _, body := post("/alerts/i-207/ack", "same-origin", url.Values{"note": {"refuse"}}); status != 409 || !strings.Contains(body, "The incident is over.") {
		t.Errorf("a refusal is %d, and the page must say why", status)
	}
	silence.Set("minutes", "forever")
	if status, _, body := post("/silences", "same-origin", silence); status != 422 || !strings.Contains(body, "must be 1 minute to 30 days, got forever") {
		t.Errorf("a silence without an end is %d", status)
	}
	if _, _, body := get(t, handler, "/alerts/i-207"); !strings.Contains(body, `action="/alerts/i-207/ack"`) {
		t.Error("an operator is not offered to acknowledge")
	}
}
