package front_test

import (
	"strings"
	"testing"

	"breakwater/gateway/front"
)

func TestNormal(t *testing.T) {
	tests := []struct{ target, path, query string }{ // path "" means refused
		{"/", "/", ""},
		{"/a/b?x=1", "/a/b", "x=1"},
		{"/a//b///c", "/a/b/c", ""},
		{"/static/../admin", "/admin", ""},
		{"/static/%2e%2E/admin", "/admin", ""},
		{"/a/./b/.", "/a/b/", ""},
		{"/a/b/..", "/a/", ""},
		{"/../../etc", "/etc", ""},
		{"/%41%7e%2d", "/A~-", ""},
		{"/caf%c3%a9", "/caf%C3%A9", ""},
		{"/a;v=1/b", "/a;v=1/b", ""},
		{"/a|b", "/a%7Cb", ""},
		{"/a%20b", "/a%20b", ""},
		{"/.well-known/x", "/.well-known/x", ""},
		{"/a/...", "/a/...", ""},
		{"/a/", "/a/", ""},
		{"/..%2fadmin", "", ""},
		{"/a%5cb", "", ""},
		{"/a\\b", "", ""},
		{"/a%00", "", ""},
		{"/a%zz", "", ""},
		{"/a%4", "", ""},
		{"/a#b", "", ""},
		{"/a b", "", ""},
		{"/a\xff", "", ""},
		{"/a?b\x01", "", ""},
		{"/a/..;x/b", "", ""},
		{"/a/..%3bx/b", "", ""},
		{"a", "", ""},
	}
	for _, tt := range tests {
		path, query, err := front.Normal(tt.target)
		if path != tt.path || query != tt.query || (err == nil) != (tt.path != "") {
			t.Errorf("Normal(%q) = %q, %q, %v, want %q, %q", tt.target, path, query, err, tt.path, tt.query)
		}
	}
}

func FuzzNormal(f *testing.F) {
	for _, s := range []string{"/", "/a/../b", "/%2e%2e/x", "//", "/a;b/./..;", "/%25%32%65"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, target string) {
		path, query, err := front.Normal(target)
		if err != nil {
			return
		}
		// The normal form is its own, and holds nothing a second reader could
		// read in another way.
		again, sameQuery, err := front.Normal(path + "?" + query)
		if err != nil || again != path || sameQuery != query {
			t.Fatalf("%q became %q, and that %q (%v)", target, path, again, err)
		}
		for s := range strings.SplitSeq(path, "/") {
			if s == "." || s == ".." {
				t.Fatalf("%q became %q", target, path)
			}
		}
		if path[0] != '/' || strings.Contains(path, "//") || strings.ContainsAny(path, "\\#\x00 ") {
			t.Fatalf("%q became %q", target, path)
		}
	})
}
