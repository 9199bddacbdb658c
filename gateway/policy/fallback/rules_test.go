package fallback

import (
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
)

// head reads lines of "Name: value".
func head(lines ...string) *exchange.Head {
	h := new(exchange.Head)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		h.Add(name, value)
	}
	return h
}

func TestUsable(t *testing.T) {
	const most = time.Minute
	tests := []struct {
		name     string
		req, res []string
		life     time.Duration // 0: not at all
		age      time.Duration
	}{
		{"nothing said", nil, nil, most, 0},
		{"max-age that is over at once does not forbid a stale one", nil, []string{"Cache-Control: max-age=0"}, most, 0},
		{"no-store", nil, []string{"Cache-Control: no-store"}, 0, 0},
		{"in any case, behind others, in a second line", nil, []string{"Cache-Control: max-age=60", "cache-control: public , NO-Store"}, 0, 0},
		{"private", nil, []string{"Cache-Control: private"}, 0, 0},
		{"private fields", nil, []string{`Cache-Control: private="x-user"`}, 0, 0},
		{"no-cache", nil, []string{"Cache-Control: no-cache"}, 0, 0},
		{"the words in a quoted value say nothing", nil, []string{`Cache-Control: ext="no-store, private", max-age=5`}, most, 0},
		{"a quote that never ends may hide anything", nil, []string{`Cache-Control: ext="a, max-age=5`}, 0, 0},
		{"Set-Cookie", nil, []string{"Set-Cookie: a=b"}, 0, 0},
		{"Vary: *", nil, []string{"Vary: Accept, *"}, 0, 0},
		{"a part", nil, []string{"Content-Range: bytes 0-1/2"}, 0, 0},
		{"degraded by a gateway below", nil, []string{"X-Breakwater-Degraded: last_good;reason=breaker:open"}, 0, 0},
		{"the client forbids it", []string{"Cache-Control: no-store"}, nil, 0, 0},
		{"authorization", []string{"Authorization: Basic x"}, []string{"Cache-Control: max-age=60"}, 0, 0},
		{"authorization, public", []string{"Authorization: Basic x"}, []string{"Cache-Control: public"}, most, 0},
		{"authorization, s-maxage", []string{"Authorization: Basic x"}, []string{"Cache-Control: s-maxage=30"}, 30 * time.Second, 0},
		{"must-revalidate: as long as it is fresh", nil, []string{"Cache-Control: must-revalidate, max-age=20", "Age: 5"}, 15 * time.Second, 5 * time.Second},
		{"must-revalidate without an age", nil, []string{"Cache-Control: must-revalidate"}, 0, 0},
		{"proxy-revalidate by Expires", nil, []string{"Cache-Control: proxy-revalidate", "Date: Thu, 01 Jan 2026 00:00:00 GMT", "Expires: Thu, 01 Jan 2026 00:00:10 GMT"}, 10 * time.Second, 0},
		{"stale-if-error", nil, []string{"Cache-Control: max-age=10, stale-if-error=20"}, 30 * time.Second, 0},
		{"stale-if-error of nothing", nil, []string{"Cache-Control: stale-if-error=0"}, 0, 0},
		{"said twice, the smaller counts", nil, []string{"Cache-Control: s-maxage=50, s-maxage=5"}, 5 * time.Second, 0},
		{"no number", nil, []string{"Cache-Control: s-maxage=1e3"}, 0, 0},
		{"a number beyond all", nil, []string{"Cache-Control: s-maxage=99999999999999999999"}, most, 0},
		{"a quoted number", nil, []string{`Cache-Control: s-maxage="7"`}, 7 * time.Second, 0},
		{"an age of its own", nil, []string{"Age: 100"}, most, 100 * time.Second},
		{"a senseless age", nil, []string{"Age: -5"}, most, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			life, age, ok := usable(head(tt.req...), head(tt.res...), most, 0)
			if ok != (tt.life > 0) || ok && (life != tt.life || age != tt.age) {
				t.Errorf("%v for %v of age %v, want %v of age %v", ok, life, age, tt.life, tt.age)
			}
		})
	}
}

func TestVaryNames(t *testing.T) {
	tests := []struct {
		lines []string
		want  []string
		all   bool
	}{
		{nil, nil, false},
		{[]string{"Vary: "}, nil, false},
		{[]string{"Vary: Accept-Encoding, accept-language", "vary: ACCEPT-ENCODING"}, []string{"accept-encoding", "accept-language"}, false},
		{[]string{"Vary: ,, a ,"}, []string{"a"}, false},
		{[]string{"Vary: *"}, nil, true},
		{[]string{"Vary: a b"}, nil, true},
		{[]string{"Vary: \"a\""}, nil, true},
	}
	for _, tt := range tests {
		all, got := varyAll(head(tt.lines...)), []string(nil)
		if !all {
			got = varyNames(head(tt.lines...))
		}
		if !slices.Equal(got, tt.want) || all != tt.all {
			t.Errorf("%q: %q, %v; want %q, %v", tt.lines, got, all, tt.want, tt.all)
		}
	}
}

// However a list is cut over lines, and in whatever case its names are, it says
// the same; and a no-store of its own is never lost.
func FuzzControl(f *testing.F) {
	f.Add("max-age=60, public", "no-cache")
	f.Add(`ext="a,\"b", s-maxage="7"`, `private="x"`)
	f.Add("", ",,;=\"")
	f.Fuzz(func(t *testing.T, a, b string) {
		apart := parseControl(head("Cache-Control: "+a, "Cache-Control: "+b))
		alone := parseControl(head("Cache-Control: " + a))
		if !alone.noStore { // a can be read whole
			if joined := parseControl(head("Cache-Control: " + a + ", " + b)); joined != apart {
				t.Errorf("joined %+v, apart %+v", joined, apart)
			}
		}
		if got := parseControl(head("Cache-Control: "+a, "Cache-Control: no-store")); !got.noStore {
			t.Errorf("%q hides a no-store", a)
		}
		if got := parseControl(head("Cache-Control: " + a + ",no-store")); !got.noStore && strings.Count(a, `"`) == 0 {
			t.Errorf("%q before a no-store hides it", a)
		}
		upper := strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r - 32
			}
			return r
		}, a)
		if parseControl(head("Cache-Control: "+upper)) != alone {
			t.Errorf("%q reads otherwise than %q", upper, a)
		}
	})
}

// What an answer depends on matches the request it came for, and no other; sameVary
// says what the slow way over joined says.
func FuzzVary(f *testing.F) {
	f.Add("Accept-Encoding, X-B", "gzip", "br", "", "gzip", "br")
	f.Add("a", "", "", "x", "", "")
	f.Add("a, b", ",", "a,", "b", ",a", ",b")
	f.Fuzz(func(t *testing.T, vary, a1, a2, b, c1, c2 string) {
		if varyAll(head("Vary: " + vary)) {
			return
		}
		names := varyNames(head("Vary: " + vary))
		for i, name := range names {
			if name != strings.ToLower(name) || i > 0 && names[i-1] >= name {
				t.Fatalf("names %q are not in order", names)
			}
		}
		first, second := head(), head()
		for i, name := range names {
			first.Add(name, a1)
			second.Add(strings.ToUpper(name), c1)
			if i%2 == 0 {
				first.Add(name, a2)
				second.Add(name, c2)
			}
			if i%3 == 0 {
				first.Add("x-other", b)
			}
		}
		kept := varyOf(names, first)
		if !sameVary(kept, first) {
			t.Errorf("%q does not match its own request", kept)
		}
		if got, want := sameVary(kept, second), same(kept, varyOf(names, second)); got != want {
			t.Errorf("sameVary says %v, the slow way %v", got, want)
		}
	})
}

// Two requests have the same key only where all parts are the same.
func FuzzKey(f *testing.F) {
	store := NewStore(Keep{}, epoch)
	f.Add("GET", "a.example", "/x", "q=1", "web", "", "GET", "a.example", "/xq", "=1", "web", "")
	f.Add("GET", "", "\x00", "", "", "a", "GET", "", "", "\x00", "a", "")
	f.Fuzz(func(t *testing.T, m1, h1, p1, q1, c1, k1, m2, h2, p2, q2, c2, k2 string) {
		make := func(m, h, p, q, c, k string) *exchange.Exchange {
			x := new(exchange.Exchange)
			x.Reset()
			x.Request.Method, x.Request.Host, x.Request.Path, x.Request.Query, x.Event.Caller = m, h, p, q, c
			if k != "" {
				x.Request.Head.Add("Cookie", k)
			}
			return x
		}
		one, two := make(m1, h1, p1, q1, c1, k1), make(m2, h2, p2, q2, c2, k2)
		equal := m1 == m2 && h1 == h2 && p1 == p2 && q1 == q2
		if got := string(store.appendKey(nil, one, true)) == string(store.appendKey(nil, two, true)); got != equal {
			t.Errorf("shared keys equal: %v, want %v", got, equal)
		}
		equal = equal && c1 == c2 && k1 == k2
		if got := string(store.appendKey(nil, one, false)) == string(store.appendKey(nil, two, false)); got != equal {
			t.Errorf("callers' keys equal: %v, want %v", got, equal)
		}
	})
}
