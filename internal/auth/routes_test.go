package auth

import (
	"fmt"
	"testing"

	"github.com/go-chi/chi/v5"
)

func TestWalk(t *testing.T) {
	g := New(Config{Tokens: &memory{}, Log: quiet()})
	r := chi.NewRouter()
	r.Get("/healthz", whoami)
	r.With(g.Require(Gateway)).Post("/api/v1/events", whoami)
	r.Group(func(r chi.Router) {
		r.Use(g.Require(Viewer, Pipeline))
		r.Get("/api/v1/slos", whoami)
	})
	r.Method("POST", "/api/v1/halt", g.Require(Viewer)(whoami))
	got, err := Walk(r)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"GET /healthz": "[]", "POST /api/v1/events": "[gateway]", "GET /api/v1/slos": "[viewer pipeline]", "POST /api/v1/halt": "[viewer]"}
	if len(got) != len(want) {
		t.Errorf("got %d routes, want %d", len(got), len(want))
	}
	for _, a := range got {
		if key := a.Method + " " + a.Pattern; want[key] != fmt.Sprint(a.Roles) {
			t.Errorf("%s: got roles %v, want %s", key, a.Roles, want[key])
		}
	}
}
