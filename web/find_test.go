package web

import (
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	h := shop(noon).server(t).Handler()
	for _, tt := range []struct {
		path      string
		want, not []string
	}{
		{"/find?q=COUPON", []string{`href="/services/coupon"`, `href="/slos/coupon-availability?env=production"`, `href="/alerts/i-207"`, "Services", "Objectives", "Incidents"}, []string{"Nothing found"}},
		{"/find?q=r-1263", []string{`href="/runs/r-1263"`, "Points answers after 5 s"}, []string{`href="/services/coupon"`}},
		{"/find?q=team-pay", []string{`href="/services/payment"`}, nil},
		{"/find?q=nobody+has+this", []string{"Nothing found"}, nil},
		{"/find", []string{"What do you look for?"}, nil},
		{"/", []string{`role="search" action="/find"`}, nil},
	} {
		_, _, body := get(t, h, tt.path)
		for _, w := range tt.want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: %q is not on the page", tt.path, w)
			}
		}
		for _, n := range tt.not {
			if strings.Contains(body, n) {
				t.Errorf("%s: %q is on the page", tt.path, n)
			}
		}
	}
	_, _, body := get(t, hostile(noon).server(t).Handler(), "/find?q=%22%3E%3Cscript%3Ealert(1)")
	if strings.Contains(body, "<script>alert") {
		t.Error("what was looked for came through as markup")
	}
}
