package scenario

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Of what users cannot do without a drill hits little, and no document may say
// otherwise; before it is measured, owned and watched it is not drilled at all.
func TestChaos_B5_coreAndReady(t *testing.T) {
	days := func(n int) *time.Duration { d := time.Duration(n) * 24 * time.Hour; return &d }
	for _, tt := range []struct {
		name  string
		share string
		facts Facts
		want  []string
	}{
		{"5 % of a core service", "5%", Facts{Core: true}, nil},
		{"more of it", "5.0001%", Facts{Core: true}, []string{CoreShare}},
		{"all of another", "100%", Facts{}, nil},
		{"13 days", "1%", Facts{History: days(13)}, []string{Young}},
		{"14 days", "1%", Facts{History: days(14)}, nil},
		{"nobody answers", "1%", Facts{Readied: true, Alerted: true}, []string{NoOwner}},
		{"nobody is told", "1%", Facts{Readied: true, Owner: "team"}, []string{NoRoute}},
		{"no document was read", "1%", Facts{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(whole, `"30%"`, `"`+tt.share+`"`, 1) + "accept: [no_match]\n"
			for _, prod := range []bool{false, true} {
				tt.facts.Prod = prod
				var got []string
				for _, w := range one(t, text).Preflight(tt.facts) {
					if slices.Contains([]string{CoreShare, Young, NoOwner, NoRoute}, w.Code) {
						got = append(got, w.Code)
						if w.Refuse != prod {
							t.Errorf("in prod %v: %+v", prod, w)
						}
					}
				}
				if !slices.Equal(got, tt.want) {
					t.Errorf("in prod %v: %v, want %v", prod, got, tt.want)
				}
			}
		})
	}
	if slices.Contains(Refusals(), CoreShare) {
		t.Error("a document may accept more of a core service")
	}
}
