package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestTheLanguageIsTheReadersChoice(t *testing.T) {
	h := shop(noon).server(t).Handler()
	tests := []struct {
		name, path, cookie, accept string
		want, kept                 string
	}{
		{"English where nothing is asked for", "/menu", "", "", "en", ""},
		{"what the browser prefers", "/menu", "", "zh-CN,zh;q=0.9,en;q=0.8", "zh-CN", ""},
		{"a bare language is enough", "/menu", "", "zh", "zh-CN", ""},
		{"the order is by weight, not by place", "/menu", "", "en;q=0.5, zh-Hans-CN;q=0.7", "zh-CN", ""},
		{"English first is English", "/menu", "", "en-GB,zh;q=0.5", "en", ""},
		{"traditional characters are not ours", "/menu", "", "zh-TW,en;q=0.5", "en", ""},
		{"nobody translated it", "/menu", "", "fr,de;q=0.5", "en", ""},
		{"one that is ruled out", "/menu", "", "zh;q=0", "en", ""},
		{"nonsense is English", "/menu", "", "zh;q=x,;;,*;q=2", "en", ""},
		{"what was kept rules over the browser", "/menu", "en", "zh-CN", "en", ""},
		{"what was kept, without a word of the browser", "/menu", "zh-CN", "", "zh-CN", ""},
		{"what was kept and is unknown counts as nothing", "/menu", "tlh", "zh-CN", "zh-CN", ""},
		{"the address rules over all, and is kept", "/menu?lang=zh-CN", "en", "en", "zh-CN", "lang=zh-CN"},
		{"back to English", "/menu?lang=en", "zh-CN", "zh-CN", "en", "lang=en"},
		{"an unknown one in the address is not kept", "/menu?lang=tlh", "", "", "en", ""},
		{"a fragment is in the language of its page", "/menu?fragment=1", "zh-CN", "", "zh-CN", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://localhost"+tt.path, nil)
			if tt.cookie != "" {
				r.AddCookie(&http.Cookie{Name: "lang", Value: tt.cookie})
			}
			if tt.accept != "" {
				r.Header.Set("Accept-Language", tt.accept)
			}
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			body := w.Body.String()
			mark := map[string]string{"en": "<h1>Menu</h1>", "zh-CN": "<h1>菜单</h1>"}[tt.want]
			if !strings.Contains(body, mark) {
				t.Errorf("%s is not on the page", mark)
			}
			if !strings.Contains(tt.path, "fragment") && !strings.Contains(body, `<html lang="`+tt.want+`"`) {
				t.Errorf("the page does not say that it is in %s", tt.want)
			}
			if !strings.Contains(body, `lang="`+tt.want+`" aria-current="true"`) {
				t.Error("the chooser does not show what is chosen")
			}
			if kept := w.Header().Get("Set-Cookie"); !strings.HasPrefix(kept, tt.kept) || tt.kept == "" && kept != "" {
				t.Errorf("cookie %q, want %q", kept, tt.kept)
			}
			if !strings.Contains(strings.Join(w.Header().Values("Vary"), ","), "Accept-Language") {
				t.Error("a cache is not told that the language matters")
			}
		})
	}
}

func TestExportsAreEnglishInEveryLanguage(t *testing.T) {
	h := shop(noon).server(t).Handler()
	for _, path := range []string{"/gate?format=csv&table=verdicts", "/slos/order-availability?format=json&table=overlays", "/breakers?format=csv"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost"+path, nil)
		r.AddCookie(&http.Cookie{Name: "lang", Value: "zh-CN"})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if _, _, want := get(t, h, path); w.Body.String() != want || w.Code != http.StatusOK {
			t.Errorf("%s: %d, the file of a Chinese reader is another one:\n%.300s\n%.300s", path, w.Code, w.Body, want)
		}
	}
}

func TestTheChoiceOutlivesASignIn(t *testing.T) {
	h := shop(noon).server(t).SignInPage(Door{})
	r := httptest.NewRequest(http.MethodGet, "http://localhost/signin?next=/gate", nil)
	r.AddCookie(&http.Cookie{Name: "lang", Value: "zh-CN"})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	for _, want := range []string{`<html lang="zh-CN"`, "登录", `value="/gate"`} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s is not on the page of the sign-in", want)
		}
	}
	// The cookie is nobody's session: neither signing in nor out may touch it.
	for _, c := range w.Result().Cookies() {
		if c.Name == langCookie {
			t.Errorf("the sign-in sets %s", c)
		}
	}
}
