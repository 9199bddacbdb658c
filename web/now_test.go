package web

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"

	"breakwater/slo"
	"breakwater/slo/now"
)

// The page and the API ask one desk, so each figure of the page is the API's.
func TestNowSaysWhatTheAPISays(t *testing.T) {
	h := shop(noon)
	s := h.server(t)
	sit := s.cfg.Situations.Answer(t.Context(), "", "", func(string) bool { return true }).Situation
	if sit.State != now.Hit || len(sit.Causes) < 4 {
		t.Fatalf("the made-up outage is %s with %d causes", sit.State, len(sit.Causes))
	}
	_, _, body := get(t, s.Handler(), "/now")
	want := []string{"coupon is failing", slo.Percent(*sit.Who.HitPPM), slo.Count(sit.Who.Hits), slo.Count(sit.Who.Asked), slo.Share(*sit.Measure.SuccessPPM, 1_000_000),
		slo.Percent(*sit.Measure.RemainingPPM), `action="/runs/r-1287/abort"`, "i-207", "not acknowledged", "first failures"}
	for _, c := range sit.Causes {
		want = append(want, c.Text)
	}
	for _, w := range want {
		if !strings.Contains(body, w) {
			t.Errorf("%q is not on the page", w)
		}
	}
	if strings.Contains(body, `action="/alerts/i-207/ack"`) {
		t.Error("who may only read is offered to acknowledge")
	}
	h.mayLift = true
	if _, _, body := get(t, s.Handler(), "/now"); !strings.Contains(body, `action="/alerts/i-207/ack"`) {
		t.Error("an operator cannot acknowledge from here")
	}
	answers := strings.Index(body, `id="answers"`)
	if causes := strings.Index(body, "Likely causes"); answers < 0 || causes < answers {
		t.Error("the three answers do not come first")
	}
}

func TestNowWithoutData(t *testing.T) {
	for _, tt := range []struct {
		name, world, path string
		want              []string
	}{
		{"a silent service is no data, not fine", "shop", "/now?service=invoice-export", []string{"No data of invoice-export", `huge mute">no data`, "neither good nor bad"}},
		{"nothing at all says the next step", "empty", "/now", []string{"Nothing is watched yet", "breakwater slo import"}},
		{"the database is away: said, and what was known", "lost", "/now", []string{"The database is away", "Database away since"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := shop(noon)
			if tt.world == "empty" {
				h = empty(noon)
			} else if tt.world == "lost" {
				h = lost(noon)
			}
			status, _, body := get(t, h.server(t).Handler(), tt.path)
			if status != 200 {
				t.Errorf("status %d", status)
			}
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
		})
	}
}

func TestTablesCanBeTakenAway(t *testing.T) {
	h := shop(noon).server(t).Handler()
	status, head, body := get(t, h, "/now?format=csv&table=shares")
	rows, err := csv.NewReader(strings.NewReader(body)).ReadAll()
	if err != nil || status != 200 || len(rows) != 6 || head.Get("Content-Type") != "text/csv; charset=utf-8" || !strings.Contains(head.Get("Content-Disposition"), "shares.csv") {
		t.Errorf("csv: %d, %d rows, %v, %v", status, len(rows), err, head)
	}
	status, head, body = get(t, h, "/now?format=json")
	var list []map[string]any
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != 200 || len(list) != 9 || head.Get("Content-Type") != "application/json" {
		t.Errorf("json: %d, %d rows, %v", status, len(list), err)
	}
	if bad, ok := list[0]["bad_events"].(float64); !ok || bad == 0 || list[0]["service"] != "coupon" {
		t.Errorf("the first row is %v", list[0])
	}
	for path, want := range map[string]int{"/now?format=xml": 400, "/now?format=csv&table=none": 404} {
		if status, _, _ := get(t, h, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

func TestACellIsNoFormula(t *testing.T) {
	for _, evil := range []string{"=1+1", "+1", "-1", "@sum(a1)", "\t=1"} {
		if got := txt(evil).csv(); got != "'"+evil {
			t.Errorf("%q is written as %q", evil, got)
		}
	}
	if got := num(-5).csv(); got != "-5" {
		t.Errorf("a number is written as %q", got)
	}
}
