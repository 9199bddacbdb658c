package freeze

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// drawer keeps policies in memory.
type drawer struct {
	saved []string
	err   error
}

func (d *drawer) SavePolicy(_ context.Context, actor, name, _, reason string) (string, error) {
	if d.err == nil {
		d.saved = append(d.saved, actor+" "+name+" "+reason)
	}
	return "/etc/breakwater/freeze.yaml", d.err
}

func TestAPolicyIsSavedWhole(t *testing.T) {
	k := Known{}
	d, shelf := deskOf(nil, k), &drawer{}
	d.book.Rule([]Policy{{Name: "shop"}})
	ask := func(body string, services ...string) (int, string) {
		r := httptest.NewRequest(http.MethodPost, "/api/v1/policies", strings.NewReader(body))
		w := httptest.NewRecorder()
		d.SavePolicy(shelf)(w, r.WithContext(auth.With(r.Context(), auth.Principal{Name: "ada", Role: auth.Admin, Services: services})))
		return w.Code, w.Body.String()
	}
	body := func(document, reason string) string {
		return `{"document":` + strconv.Quote(document) + `,"reason":` + strconv.Quote(reason) + `}`
	}
	good := "apiVersion: breakwater/v1\nkind: FreezePolicy\nname: strict\n"
	for name, tt := range map[string]struct {
		body     string
		services []string
		want     int
		says     string
	}{
		"a good one":         {body(good, "too many freezes"), nil, 201, `"name":"strict"`},
		"of some services":   {body(good, "too many freezes"), []string{"order"}, 403, "for some"},
		"without a reason":   {body(good, " "), nil, 422, "reason"},
		"with a mistake":     {body(good+"levels: {warn: 90%}\n", "too many freezes"), nil, 422, "policy.yaml:4"},
		"two of them":        {body(good+"---\n"+strings.Replace(good, "strict", "other", 1)+"services: [order]\n", "too many"), nil, 422, "must be one FreezePolicy"},
		"and something else": {body(good+"---\nkind: Route\n", "too many freezes"), nil, 422, "must be one FreezePolicy"},
		"something else":     {body("kind: Route\n", "too many freezes"), nil, 422, "must be one FreezePolicy"},
		"nonsense":           {"nonsense", nil, 400, ""},
	} {
		if code, text := ask(tt.body, tt.services...); code != tt.want || !strings.Contains(text, tt.says) {
			t.Errorf("%s: %d %s", name, code, text)
		}
	}
	if len(shelf.saved) != 1 || shelf.saved[0] != "ada strict too many freezes" {
		t.Errorf("saved %q", shelf.saved)
	}
	shelf.err = NotSaved("not_ours", "a link")
	if code, text := ask(body(good, "too many freezes")); code != 409 || !strings.Contains(text, "not_ours") {
		t.Errorf("%d %s", code, text)
	}
	shelf.err = errors.New("away")
	if code, _ := ask(body(good, "too many freezes")); code != 503 {
		t.Errorf("%d", code)
	}
	w := httptest.NewRecorder()
	d.Policies(w, httptest.NewRequest(http.MethodGet, "/api/v1/policies", nil))
	if !strings.Contains(w.Body.String(), `"name":"shop"`) || !strings.Contains(w.Body.String(), "kind: FreezePolicy") {
		t.Errorf("%s", w.Body)
	}
}
