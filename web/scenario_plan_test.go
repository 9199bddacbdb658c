package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// TestPlanAScenario: a game day is written for a weekly time, in the name of who asked;
// what cannot be a time, or be written, is told beside the form as it was sent.
func TestPlanAScenario(t *testing.T) {
	world := shop(noon)
	world.mayLift = true
	s := world.server(t)
	form := func(day, at, zone, approval string) url.Values {
		return url.Values{"day": {day}, "at": {at}, "zone": {zone}, "approval": {approval}}
	}
	send := func(path string, v url.Values) (int, string, string) {
		t.Helper()
		return sends(t, s.Handler(), path, v)
	}
	incident := "/scenarios/incident-coupon-2026-11-24-1415"
	_, _, page := get(t, s.Handler(), incident)
	says(t, "the form", page, []string{`action="` + incident + `/plan"`, "Plan each week", "Another person agrees to each", "weekly-incident-coupon-2026-11-24-1415.yaml"}, nil)

	status, to, _ := send(incident+"/plan", form("3", "14:30", "Europe/Berlin", "1"))
	if status != http.StatusSeeOther || to != incident+"?said=planned" {
		t.Fatalf("%d to %q", status, to)
	}
	wrote := world.stopped[len(world.stopped)-1]
	says(t, "the document", wrote, []string{"wrote weekly-incident-coupon-2026-11-24-1415.yaml\napiVersion", "kind: GameDay", "cron: \"30 14 * * 3\"", "zone: \"Europe/Berlin\"", "approvals: 1", `title: "Weekly: What happened to coupon on 2026-11-24"`}, []string{"auto_approve", "kind: Scenario"})

	send(incident+"/plan", form("0", "06:00", "UTC", "auto"))
	says(t, "by itself", world.stopped[len(world.stopped)-1], []string{"0 6 * * 0", `auto_approve: {budget_spent: "2%"}`}, []string{"approvals:"})
	send("/scenarios/control-run-0/plan", form("1", "10:00", "UTC", "1"))
	says(t, "of the library", world.stopped[len(world.stopped)-1], []string{"id: control-run-0", "\n---\napiVersion", "scenarios: [control-run-0]"}, nil)

	says(t, "the guards", page, []string{`<option value="30%" selected>more than 30`, `<option value="1" selected>Monday to Friday from 9:00 to 17:00`, "is never held while coupon is frozen"}, nil)
	guarded := form("3", "14:30", "Europe/Berlin", "1")
	guarded.Set("left", "50%")
	guarded.Set("office", "1")
	send(incident+"/plan", guarded)
	says(t, "with guards", world.stopped[len(world.stopped)-1], []string{`guards: {budget_left: "50%"}`, `hours: {from: "09:00", to: "17:00"}}`, "approvals: 1"}, nil)
	guarded.Set("left", `1%"}`)
	guarded.Set("office", "0")
	send(incident+"/plan", guarded)
	says(t, "without any", world.stopped[len(world.stopped)-1], nil, []string{"guards", "hours"})

	n := len(world.stopped)
	guarded.Set("office", "1")
	for _, day := range []string{"0", "6"} {
		guarded.Set("day", day)
		status, _, page := send(incident+"/plan", guarded)
		if status != http.StatusUnprocessableEntity || len(world.stopped) != n {
			t.Errorf("on day %s, out of hours: %d", day, status)
		}
		says(t, "out of hours", page, []string{"It would never begin", "Monday to Friday from 9:00 to 17:00"}, nil)
	}
	for _, bad := range []url.Values{form("9", "10:00", "UTC", "1"), form("1", "25:00", "UTC", "1"), form("1", "10:00", "Mars/Base<b>", "auto")} {
		status, _, page := send(incident+"/plan", bad)
		if status != http.StatusUnprocessableEntity || len(world.stopped) != n {
			t.Errorf("%v: %d, wrote %d", bad, status, len(world.stopped)-n)
		}
		says(t, bad.Encode(), page, []string{"The zone must be an IANA name", strings.ReplaceAll(bad.Get("zone"), "<b>", "&lt;b&gt;")}, []string{"<b>\""})
	}
	if status, _, _ := send("/scenarios/nothing/plan", form("1", "10:00", "UTC", "1")); status != http.StatusNotFound {
		t.Errorf("of no scenario: %d", status)
	}
	world.evil = `"><img src=x onerror=alert(1)>`
	status, _, page = send("/scenarios/control-run-0/plan", form("1", "10:00", "UTC", "1"))
	if says(t, "mistakes", page, []string{"the documents would have mistakes", "3:7"}, []string{"<img src=x"}); status != http.StatusUnprocessableEntity {
		t.Errorf("mistakes: %d", status)
	}
	world.evil, world.closed = "", "Control reads one file."
	_, _, page = get(t, s.Handler(), incident)
	says(t, "closed", page, []string{"Control reads one file."}, []string{"Plan each week"})
}
