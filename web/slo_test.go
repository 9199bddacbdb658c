package web

import (
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

func TestSLOPage(t *testing.T) {
	thin := "\u202f"
	handler := shop(noon).server(t).Handler()
	away := lost(noon).server(t).Handler()
	tests := []struct {
		name, path string
		away       bool
		status     int
		want, not  []string
	}{
		{"the budget, its causes and its formula", "/slos/order-availability", false, 200, []string{"37.5" + thin + "%", "20" + thin + "300 of 54" + thin + "000", "INC-198, payment timeouts", "Configuration r118", `href="/runs/r-1287"`, ">62.5" + thin + "%<", "allowed − bad"}, nil},
		{"lines of the three tiers and the target", "/slos/order-availability", false, 200, []string{"warn 60" + thin + "%", "emergency 20" + thin + "%", "frozen below 0" + thin + "%", "target 99.95" + thin + "%"}, nil},
		{"overlays name what happened", "/slos/order-availability", false, 200, []string{"incident INC-198", "deploy 1.42", "normal to warn"}, nil},
		{"a freeze is drawn", "/slos/coupon-availability?r=30d", false, 200, []string{"releases frozen", `class="f-frozen"`}, nil},
		{"no data is hatched and not explained away", "/slos/invoice-export-availability", false, 200, []string{"no data", "f-hatch", "nobody spent anything"}, []string{`huge">0`}},
		{"another promise is replayed", "/slos/order-availability?target=99.9&window=28d", false, 200, []string{"99.9" + thin + "%</td>", "Calls at night", "Both replayed over 30" + thin + "d"}, nil},
		{"a target that is none says what is right", "/slos/order-availability?target=101", false, 200, []string{"must be below 100"}, []string{"Calls at night"}},
		{"a window that is none says what is right", "/slos/order-availability?window=5s", false, 200, []string{"must be 1h to 366d"}, []string{"Calls at night"}},
		{"an objective nobody knows is 404", "/slos/none", false, 404, []string{"No objective none"}, nil},
		{"one of another environment is 404", "/slos/order-availability?env=staging", false, 404, nil, nil},
		{"with the database away the budget still stands", "/slos/order-availability", true, 200, []string{"37.5" + thin + "%", "cannot be read now"}, nil},
		{"the list finds by owner", "/slos?q=TEAM-PAY", false, 200, []string{"1 objective of 9", "payment-availability"}, []string{"coupon-availability"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := handler
			if tt.away {
				h = away
			}
			status, _, body := get(t, h, tt.path)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
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
}

// The waterfall adds up: every failure stands in one row, and the sum is the budget's.
func TestWhoSpentItAddsUp(t *testing.T) {
	h := shop(noon)
	v := view{when: when{zone: time.UTC, now: noon}}
	var page sloView
	r := asking("/slos/order-availability")
	s := h.server(t)
	for _, st := range h.statuses {
		if st.Objective.Service != "order" {
			continue
		}
		rows := s.spent(r, v, &st, &page).rows
		var sum int64
		for _, row := range rows {
			sum += parse(t, row[3].text)
		}
		if sum != st.Budget.Tally.Bad {
			t.Errorf("causes have %d failures, the budget %d", sum, st.Budget.Tally.Bad)
		}
		// A moment later more has failed than causes are known of: it is said, and adds up.
		st.Budget.Tally.Bad += 7
		sum = 0
		for _, row := range s.spent(r, v, &st, &sloView{}).rows {
			sum += parse(t, row[3].text)
		}
		if sum != st.Budget.Tally.Bad {
			t.Errorf("a moment later causes have %d failures, the budget %d", sum, st.Budget.Tally.Bad)
		}
		if last := page.Spent[len(page.Spent)-1]; last.Name != "Left" || last.Share != slo.Percent(st.Budget.RemainingPPM) {
			t.Errorf("the last row is %+v", last)
		}
	}
}

func TestAProjectionGoesToWhereTheBudgetIsEmpty(t *testing.T) {
	st := status(noon, "order", 107_966_300, 33_700, slo.Warn, 100)
	st.EmptyAt = noon.Add(2 * time.Hour)
	a := axis{from: noon.Add(-6 * time.Hour), to: noon.Add(2 * time.Hour), min: 0, max: 100}
	v := view{when: when{zone: time.UTC, now: noon}}
	var c Chart
	var sp spec
	v.project(a, &st, noon, 40, &c, &sp)
	if c.Proj != "M750 60L1000 100" || c.Now != "75" || len(sp.Proj) != 2 || sp.Proj[1][1] != 0 {
		t.Errorf("drawn as %q with now at %s, %v", c.Proj, c.Now, sp.Proj)
	}
	st.EmptyAt = time.Time{}
	var none Chart
	if v.project(a, &st, noon, 40, &none, &sp); none.Proj != "" {
		t.Error("a budget that holds has a projection")
	}
}

func TestAMemoLooksAgainAfterAWhile(t *testing.T) {
	m := memo[int]{keep: time.Minute, most: 2}
	n := 0
	look := func(key string, at time.Time) int {
		got, _, _ := m.get(key, at, func() (int, error) { n++; return n, nil })
		return got
	}
	if look("a", noon) != 1 || look("a", noon.Add(59*time.Second)) != 1 || look("a", noon.Add(time.Minute)) != 2 {
		t.Error("it is kept too long or too short")
	}
	for i := range 50 {
		look(string(rune('b'+i)), noon)
	}
	if len(m.kept) > 2 {
		t.Errorf("%d are kept, 2 at most", len(m.kept))
	}
}
