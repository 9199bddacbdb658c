package web

import (
	"strconv"
	"strings"
	"testing"

	"breakwater/slo/traffic"
)

func TestRetriesPage(t *testing.T) {
	thin := "\u202f"
	handlers := map[string]*house{"shop": shop(noon), "empty": empty(noon), "lost": lost(noon)}
	for _, tt := range []struct {
		name, world, path string
		want, not         []string
	}{
		{"pairs of final and first try", "shop", "/retries", []string{"<b>99.8197" + thin + "%</b> <span class=\"mute\">(99.45" + thin + "%)</span>", "1.004", "466" + thin + "145 tries"}, nil},
		{"each fate by its reason", "shop", "/retries", []string{"Fate of 5" + thin + "072 first failures", "recovered", "error_rate_gate", "doing it twice would do it twice", "598 since too much failed"}, nil},
		{"budget used of its ratio", "shop", "/retries", []string{"49.2" + thin + "% of the retry budget"}, nil},
		{"a step without a request is a gap", "shop", "/retries", []string{"f-hatch", "no data"}, nil},
		{"one service alone", "shop", "/retries?service=cart", []string{"coupon-redeem", `value="cart" selected`}, []string{"search-query"}},
		{"no traffic says what will stand here", "empty", "/retries", []string{"No request was counted"}, []string{"Amplification"}},
		{"the database is away", "lost", "/retries", []string{"cannot be read now"}, []string{"No request was counted"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, _, body := get(t, handlers[tt.world].server(t).Handler(), tt.path)
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(body, n) {
					t.Errorf("%q is on the page", n)
				}
			}
		})
	}
	_, _, fates := get(t, shop(noon).server(t).Handler(), "/retries?format=csv&table=fates")
	if strings.Count(fates, "\n") != 11 {
		t.Errorf("fates as CSV: %s", fates)
	}
}

// A fate of one in thousands is a line, and no rectangle of a width below nothing.
func TestFatesAreNeverNarrowerThanALine(t *testing.T) {
	_, bars, _ := lang{}.fateRows(traffic.Fates([]traffic.Fate{{Reason: "connect_failure", Retried: true, Count: 9_999, Recovered: 9_999}, {Reason: "deadline", Count: 1}}))
	if len(bars) != 2 {
		t.Fatalf("%+v", bars)
	}
	for _, b := range bars {
		if w, err := strconv.ParseFloat(b.W, 64); err != nil || w <= 0 {
			t.Errorf("a bar of the width %q", b.W)
		}
	}
}
