package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/injector/scenario"
)

// Probes reach the hosts that were named, and no others: neither by another port, nor
// by a redirect, nor by a name that only ends alike.
func TestProberAsksOnlyWhatIsAllowed(t *testing.T) {
	p := newProber([]string{"order", " Points:8080 ", ".shop.example", ""})
	for url, want := range map[string]bool{
		"http://order/": true, "http://ORDER:9/x": true, "https://order/": true, "http://points:8080/": true, "http://points/": false, "http://points:80/": false,
		"http://a.shop.example/": true, "http://a.b.shop.example:1/": true, "http://shop.example/": false, "http://evilshop.example/": false,
		"http://order.evil/": false, "http://evil/order": false, "http://169.254.169.254/": false, "http://[::1]/": false, "http:///": false, "::": false,
	} {
		if got := p.may(scenario.Probe{URL: url}); got != want {
			t.Errorf("%s: %v, want %v", url, got, want)
		}
	}
	if newProber([]string{""}).may(scenario.Probe{URL: "http://order/"}) {
		t.Error("without a word every host is allowed")
	}
}

func TestProberAsks(t *testing.T) {
	hung := make(chan struct{})
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/away":
			http.Redirect(w, r, "http://169.254.169.254/", http.StatusFound)
		case "/long":
			_, _ = w.Write([]byte(strings.Repeat("x", 2*maxProbed)))
		case "/cut":
			w.Header().Set("Content-Length", "10")
			_, _ = w.Write([]byte("x"))
		case "/hung":
			<-hung
		default:
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(r.Method + " " + r.UserAgent()))
		}
	}))
	t.Cleanup(up.Close)
	t.Cleanup(func() { close(hung) })
	p := newProber([]string{"127.0.0.1"})
	ask := func(path string) (int, string, error) {
		status, body, err := p.ask(t.Context(), scenario.Probe{URL: up.URL + path, Timeout: 30 * time.Second})
		return status, string(body), err
	}
	if status, body, err := ask("/"); err != nil || status != http.StatusTeapot || body != "GET breakwater-probe" {
		t.Errorf("%d %q %v", status, body, err)
	}
	if status, _, err := ask("/away"); err != nil || status != http.StatusFound {
		t.Errorf("a redirect is followed: %d %v", status, err)
	}
	if status, body, err := ask("/long"); err != nil || status != http.StatusOK || len(body) != maxProbed {
		t.Errorf("%d, %d bytes, %v", status, len(body), err)
	}
	if _, _, err := ask("/cut"); err == nil {
		t.Error("a body that is cut is an answer")
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	if _, _, err := p.ask(t.Context(), scenario.Probe{URL: gone.URL, Timeout: 30 * time.Second}); err == nil || strings.Contains(err.Error(), "Get ") {
		t.Errorf("nobody listens: %v", err)
	}
}
