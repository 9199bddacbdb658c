package main

import (
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/auth"
)

// noPages are addresses that are asked for with GET and show no page.
var noPages = []string{"/api/", "/static/", "/healthz", "/readyz", "/metrics", "/signin/oidc", "/signin/callback"}

// TestTheBrowserLooksAtEveryPage: the list that the browser tests and the pictures go
// through is that of the router. A page that is new here fails until it is in the list,
// and there until pages.mjs says how to look at it.
func TestTheBrowserLooksAtEveryPage(t *testing.T) {
	routes, err := auth.Walk(router(t))
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range routes {
		if r.Method == http.MethodGet && !slices.ContainsFunc(noPages, func(p string) bool { return strings.HasPrefix(r.Pattern, p) }) && !slices.Contains(want, r.Pattern) {
			want = append(want, r.Pattern)
		}
	}
	slices.Sort(want)
	text, err := os.ReadFile("../../web/e2e/routes.json")
	if err != nil {
		t.Fatal(err)
	}
	var have []string
	if err := json.Unmarshal(text, &have); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(have, want) {
		list, _ := json.MarshalIndent(want, "", "  ")
		t.Errorf("web/e2e/routes.json must be\n%s", list)
	}
}
