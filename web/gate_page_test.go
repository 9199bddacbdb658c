package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// P9: verdict per service, freeze timeline, decisions log, break-glass requests, a
// policy with its back-test; and what protects users, as the API says it.
func TestUX_P9_ThePageOfTheGate(t *testing.T) {
	thin := "\u202f"
	handlers := map[string]http.Handler{"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler(), "halted": halted(noon).server(t).Handler(), "hostile": hostile(noon).server(t).Handler()}
	policy := func(text string) string { return "/gate?view=policy&policy=" + url.QueryEscape(text) }
	head := "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: strict\n"
	for name, tt := range map[string]struct {
		house, path string
		want, not   []string
	}{
		"measures in force":          {"shop", "/gate", []string{"3 measures in force, 2 that are not obeyed; 1 ended within a day", "Sheddable requests are shed", "obeyed by gw-1, gw-2", "Fri 27 Nov 21:39 at best", "the budget is better than emergency", "routes coupon"}, nil},
		"what is not obeyed is said": {"shop", "/gate", []string{"dry run", "nothing is done", "lapsed", "nothing was heard of its service for 10 min", "the state of points no longer calls for it"}, nil},
		"where nothing is known":     {"shop", "/gate", []string{"Of 2 services nothing is known: there no measure begins"}, nil},
		"nothing in force":           {"empty", "/gate", []string{"No measure is in force", "Nothing was frozen", "No service yet"}, []string{"hatched"}},
		"the database away":          {"lost", "/gate", []string{"What protects cannot be read now", "until its lease of 10 min ends", "Freezes cannot be read now", "budget_exhausted"}, []string{"No measure is in force", "Nothing was frozen"}},
		"when it was frozen":         {"shop", "/gate", []string{"4 freezes, ", "frozen by its budget, Mon 23 Nov 16:27 to now", "frozen by ben, Sat 21 Nov 12:27 to Sun 22 Nov 12:27", "by hand, ben", "before Sun 25 Oct"}, nil},
		"who holds the slots":        {"shop", "/gate", []string{"Deploys under way", "At most 1 deploy at the same time", "none free", "1 of 1", "9f2c41d", "at the latest, in 26" + thin + "min", "succeeded", "1 under way; "}, nil},
		"slots away":                 {"lost", "/gate", []string{"Deploys cannot be read now", "none is let out meanwhile"}, []string{"No deploy is under way"}},
		"how often it was passed":    {"shop", "/gate?view=overrides", []string{"Freezes passed, by quarter", "Q4 2026", "so far", "<td class=\"any\">ben</td><td class=\"n\">1</td><td class=\"n\">0</td><td class=\"n\">2</td>"}, nil},
		"how often, nobody knows":    {"lost", "/gate?view=overrides", []string{"How often freezes were passed cannot be read now"}, nil},
		"of another range":           {"shop", "/gate?r=7d", []string{"over the last 7" + thin + "d"}, nil},
		"what still passes":          {"shop", "/gate", []string{"rollback, scale, security fix, reliability fix, if it is proven"}, nil},
		"decisions":                  {"shop", "/gate?view=decisions", []string{"ci-coupon", "9f2c41d", "budget_exhausted", "/api/v1/gate/decisions/d-a", "kind_not_proven", "not kept", "4 decisions"}, nil},
		"of one service":             {"shop", "/gate?view=decisions&service=catalog", []string{"ci-catalog", "1 decision,"}, []string{"ci-coupon"}},
		"nobody asked":               {"empty", "/gate?view=decisions", []string{"Nobody has asked"}, nil},
		"decisions away":             {"lost", "/gate?view=decisions", []string{"Decisions cannot be read now"}, []string{"Nobody has asked"}},
		"who asks to pass":           {"shop", "/gate?view=overrides", []string{"INC-207: customers cannot redeem", "2 wait for somebody to grant them; 1 lets something out now", "1 of 2", "revoked by eve", "never granted", "32" + thin + "947 failures of 31" + thin + "200 allowed", `action="/gate/overrides/coupon/o-1/revoke"`}, []string{"/grant", "Ask for an override"}},
		"an approver may grant":      {"halted", "/gate?view=overrides", []string{`action="/gate/overrides/coupon/o-1/grant"`, "somebody else must grant it", "Ask for an override"}, []string{`o-2/grant`, `o-3/grant`, `o-5/grant`}},
		"nobody asks":                {"empty", "/gate?view=overrides", []string{"Nobody has asked to pass a freeze"}, nil},
		"overrides away":             {"lost", "/gate?view=overrides", []string{"Overrides cannot be read now"}, []string{"Nobody has asked"}},
		"the policy in force":        {"shop", "/gate?view=policy", []string{"name: shop", "Nothing tried yet", "dependants: observed"}, nil},
		"another policy":             {"shop", policy(head + "services: [order]\nthaw: {left: 90%, hold: 60m, min_freeze: 30d}\n"), []string{"Last 30" + thin + "d this policy = ", "the one in force = ", "order-availability", "Replayed by budgets alone"}, []string{"coupon-availability"}},
		"what becomes of it":         {"shop", policy(head + "services: [order]\n"), []string{"Control was started without --config", "Keep the document", "freeze-strict.yaml", "as=yaml"}, []string{"Put it in force"}},
		"nothing to save":            {"shop", policy(head + "levels: {warn: 90%}\n"), nil, []string{"Put it in force", "freeze-strict.yaml"}},
		"in place of another":        {"shop", policy(head + "levels: {warn: 1%, emergency: 2%}\n"), []string{"coupon-availability", "As closely rules now: shop; both cannot be in force"}, nil},
		"a mistake is at its place":  {"shop", policy(head + "levels: {warn: 90%}\n"), []string{"line 4", "must have emergency above warn", "nothing was replayed"}, []string{"Last 30"}},
		"no policy at all":           {"shop", policy("kind: Route\n"), []string{"must be one FreezePolicy"}, nil},
		"of nobody":                  {"shop", policy(head + "services: [nobody]\n"), []string{"There is nothing to replay"}, nil},
		"without data":               {"shop", policy(head + "services: [invoice-export]\n"), []string{"There is nothing to replay", "1 objective has no data"}, nil},
		"too long":                   {"shop", policy(head + strings.Repeat("# x\n", 2100)), []string{"at most 8 KiB"}, nil},
		"markup":                     {"hostile", policy(`"><script>alert(1)</script>`), nil, []string{"<script>alert"}},
	} {
		status, _, body := get(t, handlers[tt.house], tt.path)
		if status != 200 {
			t.Errorf("%s: %d", name, status)
		}
		for _, w := range tt.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: %q is not on the page", name, w)
			}
		}
		for _, n := range tt.not {
			if strings.Contains(body, n) {
				t.Errorf("%s: %q is on the page", name, n)
			}
		}
		for _, found := range refused(body) {
			t.Errorf("%s: %q", name, found)
		}
	}
	_, _, file := get(t, handlers["shop"], "/gate?format=json&table=measures")
	if !strings.Contains(file, `"gateways":"gw-1 gw-2"`) || !strings.Contains(file, `"lapses_at":"2026-11-24T14:37:10Z"`) || strings.Count(file, `"id":`) != 6 {
		t.Errorf("measures as a file: %s", file)
	}
}

func TestWhoMayPassAFreeze(t *testing.T) {
	h := halted(noon)
	handler := h.server(t).Handler()
	post := func(path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	ask := url.Values{"service": {"coupon"}, "env": {"production"}, "ref": {" 9f2c41d "}, "reason": {"customers cannot pay"}, "ticket": {"INC-7"}, "minutes": {"60"}, "uses": {"2"}}
	with := func(name, value string) url.Values {
		out := url.Values{}
		for k, v := range ask {
			out[k] = v
		}
		out.Set(name, value)
		return out
	}
	for name, tt := range map[string]struct {
		path string
		form url.Values
		want int
	}{
		"asking": {"/gate/overrides", ask, 303}, "for two days": {"/gate/overrides", with("minutes", "2880"), 422}, "for no time": {"/gate/overrides", with("minutes", ""), 422}, "ever so often": {"/gate/overrides", with("uses", "many"), 422},
		"granting": {"/gate/overrides/coupon/o-1/grant", nil, 303}, "too late": {"/gate/overrides/coupon/o-5/grant", nil, 409}, "revoking": {"/gate/overrides/coupon/o-1/revoke", nil, 303},
	} {
		if w := post(tt.path, tt.form); w.Code != tt.want {
			t.Errorf("%s: %d, want %d", name, w.Code, tt.want)
		}
	}
	slices.Sort(h.stopped)
	if len(h.stopped) != 3 || h.stopped[0] != "POST grant coupon o-1 " || !strings.Contains(h.stopped[1], `POST override coupon {"env":"production","expires_at":"2026-11-24T15:27:12Z","max_uses":2,"reason":"customers cannot pay","ref":"9f2c41d","ticket":"INC-7"}`) || h.stopped[2] != "POST revoke coupon o-1 " {
		t.Errorf("the API was asked %q", h.stopped)
	}
	h.mayLift, h.stopped = false, nil // who may only look
	for path, want := range map[string]int{"/gate/overrides": 403, "/gate/overrides/coupon/o-1/grant": 403, "/gate/overrides/coupon/o-1/revoke": 303} {
		if w := post(path, ask); w.Code != want {
			t.Errorf("a viewer posts %s: %d, want %d", path, w.Code, want)
		}
	}
	if len(h.stopped) != 1 {
		t.Errorf("a viewer did %q", h.stopped)
	}
}
