package route_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"breakwater/gateway/exchange"
	"breakwater/gateway/route"
)

func request(method, host, path string, fields ...string) *exchange.Request {
	r := &exchange.Request{Method: method, Host: host, Path: path}
	for i := 0; i+1 < len(fields); i += 2 {
		r.Head.Add(fields[i], fields[i+1])
	}
	return r
}

func table(t testing.TB, matches ...route.Match) *route.Table {
	t.Helper()
	tab, err := route.Compile(matches)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestFind(t *testing.T) {
	tab := table(t,
		route.Match{Path: "/orders", Methods: []string{"POST"}},                                                     // 0
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}},                                                 // 1
		route.Match{Path: "/static/*"},                                                                              // 2
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "shop.example.com"},                       // 3
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "*.example.com"},                          // 4
		route.Match{Path: "/orders/{id}", Headers: []route.Header{{Name: "x-canary", Value: "yes"}}},                // 5
		route.Match{Path: "/orders/{id:[0-9]+}/lines", Methods: []string{"GET"}},                                    // 6
		route.Match{Path: "/orders/latest", Methods: []string{"GET"}, Headers: []route.Header{{Name: "X-Tenant", Value: "vip"}}}, // 7
	)
	tests := []struct {
		name    string
		req     *exchange.Request
		want    int
		verdict route.Verdict
	}{
		{"method and path", request("POST", "a", "/orders"), 0, route.Found},
		{"a parameter", request("GET", "a", "/orders/7"), 1, route.Found},
		{"a wildcard takes the rest", request("DELETE", "a", "/static/css/a.css"), 2, route.Found},
		{"an exact host goes first, whatever its case and port", request("GET", "Shop.Example.com:8080", "/orders/7"), 3, route.Found},
		{"a host under a wildcard", request("GET", "api.example.com", "/orders/7"), 4, route.Found},
		{"the wildcard does not take its own parent", request("GET", "example.com", "/orders/7"), 1, route.Found},
		{"a header, its name in any case", request("GET", "a", "/orders/7", "X-Canary", "yes"), 5, route.Found},
		{"any of several fields", request("GET", "a", "/orders/7", "X-Canary", "no", "X-Canary", "yes"), 5, route.Found},
		{"another value of the header", request("GET", "a", "/orders/7", "X-Canary", "Yes"), 1, route.Found},
		{"a header on a special path", request("GET", "a", "/orders/latest", "X-Tenant", "vip"), 7, route.Found},
		{"that path without the header", request("GET", "a", "/orders/latest"), 1, route.Found},
		{"an expression", request("GET", "a", "/orders/12/lines"), 6, route.Found},
		{"not the expression", request("GET", "a", "/orders/x/lines"), -1, route.NotFound},
		{"another method", request("DELETE", "a", "/orders"), -1, route.NotAllowed},
		{"a method nobody knows", request("BREW", "a", "/orders"), -1, route.NotAllowed},
		{"no such path", request("GET", "a", "/coupons"), -1, route.NotFound},
		{"no path at all", request("GET", "a", ""), -1, route.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, v := tab.Find(tt.req, route.Facts{}); got != tt.want || v != tt.verdict {
				t.Errorf("got %d, %d, want %d, %d", got, v, tt.want, tt.verdict)
			}
		})
	}
	if got := tab.Allowed(request("DELETE", "a", "/orders"), route.Facts{}); !slices.Equal(got, []string{"POST"}) {
		t.Errorf("allowed is %v, want POST", got)
	}
}

func TestCompileRefuses(t *testing.T) {
	tests := []struct {
		name    string
		matches []route.Match
		index   int
		text    string
	}{
		{"an open brace", []route.Match{{Path: "/a"}, {Path: "/b/{id"}}, 1, "/b/{id"},
		{"a star in the middle", []route.Match{{Path: "/a/*/b"}}, 0, "/a/*/b"},
		{"an expression that is none", []route.Match{{Path: "/a/{id:[}"}}, 0, "/a/{id:[}"},
		{"no slash", []route.Match{{Path: "a"}}, 0, "must begin with /"},
		{"an unknown method", []route.Match{{Path: "/a", Methods: []string{"get"}}}, 0, "method"},
		{"the same twice", []route.Match{{Path: "/a/{x}"}, {Path: "/a/{y}", Methods: []string{"GET"}}}, 1, "no other route takes"},
		{"the same twice by host", []route.Match{{Host: "H", Path: "/a"}, {Host: "h", Path: "/a"}}, 1, "no other route takes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := route.Compile(tt.matches)
			e, ok := errors.AsType[*route.Error](err)
			if !ok || e.Index != tt.index || !strings.Contains(e.Text, tt.text) {
				t.Errorf("got %v, want index %d and %q", err, tt.index, tt.text)
			}
		})
	}
}

// The hot path must not pay for routing in garbage.
func TestFindAllocatesNothing(t *testing.T) {
	tab := table(t, route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "shop"},
		route.Match{Path: "/orders/{id}", Headers: []route.Header{{Name: "X-Canary", Value: "yes"}}})
	req := request("GET", "shop:80", "/orders/7", "Accept", "*/*")
	tab.Find(req, route.Facts{})
	if n := testing.AllocsPerRun(1000, func() { tab.Find(req, route.Facts{}) }); n > 0.1 && !raceEnabled {
		t.Errorf("%.2f allocations a request, want none", n)
	}
}

func BenchmarkFind(b *testing.B) {
	tab := table(b, route.Match{Path: "/orders", Methods: []string{"POST"}}, route.Match{Path: "/orders/{id}", Methods: []string{"GET"}})
	req := request("GET", "shop:80", "/orders/7", "Accept", "*/*")
	b.ReportAllocs()
	for b.Loop() {
		tab.Find(req, route.Facts{})
	}
}
