package web

import (
	"strings"
	"testing"
)

func TestBreakersPage(t *testing.T) {
	handlers := map[string]*house{"shop": shop(noon), "empty": empty(noon), "lost": lost(noon)}
	for _, tt := range []struct {
		name, world, path string
		want, not         []string
	}{
		{"states, bands and why", "shop", "/breakers", []string{"10 breakers: 2 open, 3 closed, 5 no data", "5 failures in a row", "from half-open", "2 of 3 probes failed", `class="f-open"`, `class="f-half"`, `class="f-hatch"`, "200 in 1s, bursts of 100", "100 retries a thousand", "rate limited"}, nil},
		{"a silent gateway's breakers are no data, not closed", "shop", "/breakers", []string{"no data 14:07:12 to 14:27:12"}, nil},
		{"a range that is unknown is the usual one", "shop", "/breakers?r=9y", []string{"Last 1\u202fh"}, nil},
		{"nothing reported says the next step", "empty", "/breakers", []string{"No gateway has reported", "breakwater gateway --control URL"}, []string{"State bands"}},
		{"the database is away", "lost", "/breakers", []string{"cannot be read now"}, []string{"No gateway has reported"}},
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
	_, _, spans := get(t, shop(noon).server(t).Handler(), "/breakers?format=csv&table=spans")
	if !strings.HasPrefix(spans, "policy,env,gateway,service,upstream,endpoint,state,from,to\n") || strings.Count(spans, "\n") < 20 {
		t.Errorf("spans as CSV: %.200s", spans)
	}
}
