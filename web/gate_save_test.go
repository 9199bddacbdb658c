package web

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// P9: a policy that was tried can be put in force, by an admin of all services, by the
// API's own handler; whoever else, and control without a directory, gets the document.
func TestUX_P9_APolicyComesIntoForce(t *testing.T) {
	h := shop(noon)
	h.mayLift = true
	handler := h.server(t).Handler()
	document := "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: strict\nservices: [order]\n"
	as := func(who auth.Principal, method, path string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r.WithContext(auth.With(r.Context(), who)))
		return w
	}
	admin := auth.Principal{Name: "ada", Role: auth.Admin}
	form := url.Values{"policy": {strings.ReplaceAll(document, "\n", "\r\n")}, "reason": {"too many freezes"}}
	tried := "/gate?view=policy&policy=" + url.QueryEscape(document)
	if w := as(admin, "GET", tried, nil); !strings.Contains(w.Body.String(), "Put it in force") || !strings.Contains(w.Body.String(), "/etc/breakwater") {
		t.Error("an admin is not offered to save it")
	}
	if w := as(admin, "POST", "/gate/policy", form); w.Code != 303 || w.Header().Get("Location") != "/gate?view=policy&said=saved" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if len(h.stopped) != 1 || !strings.Contains(h.stopped[0], `"document":"apiVersion: breakwater/v1\nkind: FreezePolicy\nname: strict\nservices: [order]\n"`) {
		t.Errorf("the API was asked %q", h.stopped)
	}
	for _, who := range []auth.Principal{{Name: "bo", Role: auth.Operator}, {Name: "cy", Role: auth.Approver}, {Name: "di", Role: auth.Admin, Services: []string{"order"}}} {
		if w := as(who, "POST", "/gate/policy", form); w.Code != 403 {
			t.Errorf("%s saved it: %d", who.Name, w.Code)
		}
		if w := as(who, "GET", tried, nil); strings.Contains(w.Body.String(), "Put it in force") {
			t.Errorf("%s is offered to save it", who.Name)
		}
	}
	w := as(auth.Principal{Name: "bo", Role: auth.Viewer}, "GET", tried+"&as=yaml", nil)
	if w.Code != 200 || w.Body.String() != document || w.Header().Get("Content-Disposition") != `attachment; filename="freeze-strict.yaml"` {
		t.Errorf("as a file: %d %v %q", w.Code, w.Header(), w.Body)
	}
	if w := as(admin, "GET", "/gate?view=policy&as=yaml&policy="+url.QueryEscape("kind: Route\n"), nil); w.Header().Get("Content-Disposition") != "" {
		t.Error("what is no policy is given as one")
	}
	if len(h.stopped) != 1 {
		t.Errorf("the API was asked %q", h.stopped)
	}
}
