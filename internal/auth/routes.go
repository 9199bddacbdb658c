package auth

import (
	"fmt"
	"net/http"

	"github.com/go-chi/chi/v5"
)

// Access is who may call one route.
type Access struct {
	Method, Pattern string
	Roles           []Role // nil: nobody guards it
	Session         bool   // only who signed in
}

// Walk lists who may call each route, so that a test can hold the whole table
// against what was agreed, and a route without a guard is seen.
func Walk(routes chi.Routes) ([]Access, error) {
	var out []Access
	err := chi.Walk(routes, func(method, pattern string, h http.Handler, layers ...func(http.Handler) http.Handler) error {
		a := Access{Method: method, Pattern: pattern}
		// A layer is known by what it makes.
		for _, layer := range layers {
			if q, ok := layer(http.NotFoundHandler()).(*required); ok {
				a.Roles, a.Session = append(a.Roles, q.roles...), a.Session || q.session
			}
		}
		if q, ok := h.(*required); ok {
			a.Roles, a.Session = append(a.Roles, q.roles...), a.Session || q.session
		}
		out = append(out, a)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("walk the routes: %w", err)
	}
	return out, nil
}
