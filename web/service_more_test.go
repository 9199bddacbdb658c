package web

import (
	"strings"
	"testing"
)

func TestAServiceShowsItsLatencyAndWhatStandsAroundIt(t *testing.T) {
	h := shop(noon).server(t).Handler()
	_, _, body := get(t, h, "/services/order")
	for _, w := range []string{"Latency of 57\u202f360 requests", `class="heat6"`, "P99", "f-hatch", "without a name", `href="/services/points"`, "code 50003", "12.653\u202f%", "/now?env=production"} {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	_, _, body = get(t, h, "/services/invoice-export")
	for _, w := range []string{"No latency was measured in the last hour", "No request in the last hour"} {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page of a silent service", w)
		}
	}
	for us, want := range map[float64]string{2: "2\u202fµs", 1500: "1.5\u202fms", 46_000: "46\u202fms", 1_000_000: "1\u202fs", 2_700_000: "2.7\u202fs"} {
		if got := micros(us); got != want {
			t.Errorf("%v is written %q, want %q", us, got, want)
		}
	}
}
