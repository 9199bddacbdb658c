package main

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
)

// TestATokenOfAnotherServiceCannotAct makes each change of the router with a token of the right role that is for another
// service alone: it is refused and nothing changes. Stopping alone is for everybody who is let in. Then the change is made by who may, so that later ones find what they need.
func TestATokenOfAnotherServiceCannotAct(t *testing.T) {
	x := newRounds(t, func(name string) string { return name })
	for _, role := range auth.Roles() {
		secret, err := auth.Issue(t.Context(), x.c.store, auth.Token{Name: "other-" + string(role), Role: role, Services: []string{"elsewhere"}, CreatedBy: "test", CreatedAt: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		x.known["token other-"+string(role)] = secret
	}
	tried := 0
	for _, c := range changes() {
		if c.before != nil {
			c.before(x)
		}
		if x.known["token "+c.as] != "" && !c.stops {
			before := x.state()
			method, path, _ := strings.Cut(c.route, " ")
			if c.path != "" {
				path = c.path
			}
			tried++
			w := x.ask(method, path, c.body, "other-"+c.as, nil)
			if changed := differing(before, x.state()); changed != "" || w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
				t.Errorf("%s with a token of another service: %d, changes %q: %.160s", c.route, w.Code, changed, plainOr(w.Body.String()))
			}
		}
		if w := x.do(c); w.Code != c.want {
			t.Errorf("%s: %d, want %d: %.200s", c.route, w.Code, c.want, plainOr(w.Body.String()))
		}
	}
	if tried < 50 {
		t.Errorf("only %d changes were tried", tried)
	}
}

// ofOrder are the addresses under which one service is read.
var ofOrder = []string{"/services/order", "/slos/order-availability", "/readiness/order", "/alerts/i-1", "/now?service=order", "/api/v1/slos/order-availability", "/api/v1/slos/order-availability/budget",
	"/api/v1/slos/order-availability/attribution?<range>", "/api/v1/slos/order-availability/backtest?<range>", "/api/v1/slos/order-availability/revisions", "/api/v1/slos/order-availability/corrections", "/api/v1/readiness/order",
	"/api/v1/readiness/order/trend", "/api/v1/alerts/i-1", "/api/v1/now?service=order", "/api/v1/gate/decision?service=order"}

// TestATokenOfAnotherServiceCannotRead: neither pages nor the API tell it of a service
// that is not its own, and lists leave it out.
func TestATokenOfAnotherServiceCannotRead(t *testing.T) {
	x := newRounds(t, func(name string) string { return name })
	secret, err := auth.Issue(t.Context(), x.c.store, auth.Token{Name: "other", Role: auth.Viewer, Services: []string{"elsewhere"}, CreatedBy: "test", CreatedAt: time.Now()})
	if err != nil {
		t.Fatal(err)
	}
	x.known["token other"] = secret
	span := url.Values{"from": {x.known["yesterday"]}, "to": {x.known["today"]}}.Encode()
	for _, path := range ofOrder {
		path = strings.Replace(path, "<range>", span, 1)
		own, w := x.ask("GET", path, "", "viewer", nil), x.ask("GET", path, "", "other", nil)
		if own.Code != http.StatusOK {
			t.Errorf("GET %s is %d for who may: %.120s", path, own.Code, plainOr(own.Body.String()))
		}
		if w.Code != http.StatusForbidden && w.Code != http.StatusNotFound {
			t.Errorf("GET %s with a token of another service: %d %.160s", path, w.Code, plainOr(w.Body.String()))
		}
	}
	routes, err := auth.Walk(x.c.routes())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range x.places(routes) {
		if strings.HasPrefix(path, "/find") || slices.ContainsFunc(noPages, func(p string) bool { return strings.HasPrefix(path, p) && p != "/api/" }) {
			continue
		}
		if w := x.ask("GET", path, "", "other", nil); w.Code == http.StatusOK && strings.Contains(w.Body.String(), "order-availability") {
			t.Errorf("GET %s tells a token of another service of order-availability", path)
		}
	}
}
