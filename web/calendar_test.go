package web

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A drill of each hour has more than 700 times in a month: the list has those from a day
// ago on, and leads to all.
func TestTheListOfAMonthIsBounded(t *testing.T) {
	h := shop(noon)
	var all []happening
	first := time.Date(noon.Year(), noon.Month(), 1, 0, 0, 0, 0, time.UTC)
	for i := range 720 {
		all = append(all, happening{at: first.Add(time.Duration(i) * time.Hour), title: "hourly"})
	}
	for _, tt := range []struct {
		at    time.Time
		first time.Time
	}{
		{first.AddDate(0, 0, 9), first.AddDate(0, 0, 8)},
		{first.AddDate(0, 1, 0), first.AddDate(0, 1, 0).Add(-mostAgenda * time.Hour)}, // the last of them
		{first.AddDate(0, -2, 0), first},
	} {
		r := httptest.NewRequest(http.MethodGet, "/gamedays?view=list", nil)
		v := h.server(t).look(r)
		v.now = tt.at
		rows, rest := v.agenda(calSpan{zone: time.UTC}, all)
		if len(rows) != mostAgenda || rows[0].Time.ISO != v.iso(tt.first) || rest.Href != "/gamedays?all=1&view=list" {
			t.Errorf("at %s: %d rows from %s on, and %q; want %d from %s on", tt.at, len(rows), rows[0].Time.ISO, rest.Href, mostAgenda, tt.first)
		}
	}
	v := h.server(t).look(httptest.NewRequest(http.MethodGet, "/gamedays?view=list&all=1", nil))
	if rows, rest := v.agenda(calSpan{zone: time.UTC}, all); len(rows) != 720 || rest.Href != "" {
		t.Errorf("all are %d, and %q", len(rows), rest.Href)
	}
}
