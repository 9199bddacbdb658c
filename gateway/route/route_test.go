package route_test

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
		route.Match{Path: "/orders", Methods: []string{"POST"}},                                                                  // 0
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}},                                                              // 1
		route.Match{Path: "/static/*"},                                                                                           // 2
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "shop.example.com"},                                    // 3
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "*.example.com"},                                       // 4
		route.Match{Path: "/orders/{id}", Headers: []route.Header{{Name: "x-canary", Value: "yes"}}},                             // 5
		route.Match{Path: "/orders/{id:[0-9]+}/lines", Methods: []string{"GET"}},                                                 // 6
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
		{"the same twice in another order", []route.Match{{Path: "/a", Callers: []string{"x", "y"}}, {Path: "/a", Callers: []string{"y", "x", "y"}}}, 1, "no other route takes"},
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

// What several routes of the same method and path ask decides between them,
// whatever the order they stand in.
func TestOrder(t *testing.T) {
	yes, tenant := route.Header{Name: "X-Canary", Value: "yes"}, route.Header{Name: "X-Tenant", Present: true}
	night := []route.Window{window(t, "22:00-06:00 UTC")}
	special := []struct {
		name  string
		match route.Match
	}{
		{"exact host", route.Match{Host: "shop.example.com"}},
		{"longer wildcard", route.Match{Host: "*.shop.example.com", Callers: []string{"web"}}},
		{"wildcard, a caller", route.Match{Host: "*.example.com", Callers: []string{"web"}}},
		{"wildcard", route.Match{Host: "*.example.com", Headers: []route.Header{yes, tenant}, Windows: night}},
		{"a caller and a header", route.Match{Callers: []string{"web", "app"}, Headers: []route.Header{tenant}}},
		{"a caller, by night", route.Match{Callers: []string{"web"}, Windows: night}},
		{"a caller", route.Match{Callers: []string{"web"}}},
		{"two headers", route.Match{Headers: []route.Header{yes, tenant}}},
		{"a header's value, by night", route.Match{Headers: []route.Header{yes}, Windows: night}},
		{"a header's value", route.Match{Headers: []route.Header{yes}}},
		{"a header", route.Match{Headers: []route.Header{tenant}}},
		{"by night", route.Match{Windows: night}},
		{"anything", route.Match{}},
	}
	// Each goes before all that follow it: with those before it taken away, a
	// request that meets every condition comes to it.
	for first := range special {
		for _, reversed := range []bool{false, true} {
			var matches []route.Match
			for _, s := range special[first:] {
				s.match.Path = "/orders/{id}"
				matches = append(matches, s.match)
			}
			want := 0
			if reversed {
				slices.Reverse(matches)
				want = len(matches) - 1
			}
			host := "shop.example.com"
			if first > 0 {
				host = "eu.shop.example.com"
			}
			req := request("GET", host, "/orders/7", "X-Canary", "yes", "X-Tenant", "vip")
			got, _ := table(t, matches...).Find(req, route.Facts{Caller: "web", Now: time.Date(2026, 3, 5, 23, 0, 0, 0, time.UTC)})
			if got != want {
				t.Errorf("%s (reversed: %v): got match %d, want %d", special[first].name, reversed, got, want)
			}
		}
	}
	// Alike in all: the one that stands first.
	a, b := route.Match{Path: "/x", Headers: []route.Header{{Name: "X-A", Present: true}}}, route.Match{Path: "/x", Headers: []route.Header{{Name: "X-B", Present: true}}}
	if got, _ := table(t, b, a).Find(request("GET", "h", "/x", "X-A", "1", "X-B", "1"), route.Facts{}); got != 0 {
		t.Errorf("of two that ask as much got %d, want the first", got)
	}
}

func TestFindConditions(t *testing.T) {
	tab := table(t,
		route.Match{Path: "/pay", Callers: []string{"web", "app"}},                                                             // 0
		route.Match{Path: "/pay", Headers: []route.Header{{Name: "X-Debug", Present: true}}},                                   // 1
		route.Match{Path: "/pay", Windows: []route.Window{window(t, "sat,sun 00:00-24:00 UTC"), window(t, "22:00-06:00 UTC")}}, // 2
		route.Match{Path: "/report", Windows: []route.Window{window(t, "22:00-06:00 UTC")}},                                    // 3
	)
	noon, night, sunday := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC), time.Date(2026, 3, 5, 22, 0, 0, 0, time.UTC), time.Date(2026, 3, 8, 12, 0, 0, 0, time.UTC)
	tests := []struct {
		name    string
		req     *exchange.Request
		facts   route.Facts
		want    int
		verdict route.Verdict
	}{
		{"one of the callers", request("GET", "h", "/pay"), route.Facts{Caller: "app", Now: noon}, 0, route.Found},
		{"another caller", request("GET", "h", "/pay"), route.Facts{Caller: "partner", Now: noon}, -1, route.NotFound},
		{"a header of any value, even none", request("GET", "h", "/pay", "x-debug", ""), route.Facts{Now: noon}, 1, route.Found},
		{"one window", request("GET", "h", "/pay"), route.Facts{Now: night}, 2, route.Found},
		{"or the other", request("GET", "h", "/pay"), route.Facts{Now: sunday}, 2, route.Found},
		{"out of hours there is no such route", request("GET", "h", "/report"), route.Facts{Now: noon}, -1, route.NotFound},
		{"nor another method of it", request("BREW", "h", "/report"), route.Facts{Now: noon}, -1, route.NotFound},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got, v := tab.Find(tt.req, tt.facts); got != tt.want || v != tt.verdict {
				t.Errorf("got %d, %d, want %d, %d", got, v, tt.want, tt.verdict)
			}
		})
	}
}

// busy is a table in which every kind of condition stands.
func busy(t testing.TB) (*route.Table, *exchange.Request, route.Facts) {
	tab := table(t,
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "shop", Headers: []route.Header{{Name: "X-Canary", Value: "yes"}}},
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}, Host: "*.example.com"},
		route.Match{Path: "/orders/{id}", Headers: []route.Header{{Name: "X-Tenant", Present: true}}},
		route.Match{Path: "/orders/{id}", Windows: []route.Window{window(t, "22:00-06:00 Asia/Shanghai")}},
		route.Match{Path: "/orders/{id}", Callers: []string{"partner"}},
		route.Match{Path: "/orders/{id}", Methods: []string{"GET"}},
	)
	return tab, request("GET", "shop:80", "/orders/7", "Accept", "*/*", "X-Caller", "web"), route.Facts{Caller: "web", Now: time.Unix(1772700000, 0)}
}

// The hot path must not pay for routing in garbage.
func TestFindAllocatesNothing(t *testing.T) {
	tab, req, facts := busy(t)
	if i, _ := tab.Find(req, facts); i != 5 {
		t.Fatalf("got match %d, want the last", i)
	}
	if n := testing.AllocsPerRun(1000, func() { tab.Find(req, facts) }); n > 0.1 && !raceEnabled {
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

// Six groups are asked, and all but the last say no.
func BenchmarkFindConditions(b *testing.B) {
	tab, req, facts := busy(b)
	b.ReportAllocs()
	for b.Loop() {
		tab.Find(req, facts)
	}
}

// A thousand hosts cost what one does.
func BenchmarkFindAmongHosts(b *testing.B) {
	var matches []route.Match
	for i := range 1000 {
		matches = append(matches, route.Match{Host: "h" + strconv.Itoa(i) + ".example.com", Path: "/orders/{id}"})
	}
	tab := table(b, matches...)
	req := request("GET", "h999.example.com", "/orders/7")
	b.ReportAllocs()
	for b.Loop() {
		tab.Find(req, route.Facts{})
	}
}
