package gameday

import (
	"testing"
	"time"

	"breakwater/injector"
)

func TestAhead(t *testing.T) {
	at := instant(t, "2026-12-01T00:00:00Z")
	w := &world{at: at, documents: []injector.Document{{ID: "s", Service: "points"}, {ID: "other", Service: "order"}}}
	hourly := scheduled(t, at, "apiVersion: breakwater/v1\nkind: GameDay\nname: often\nscenarios: [other, s]\nschedule: {cron: \"* * * * *\", zone: UTC}\n")
	rest := scheduled(t, at, weekly+"schedule: {cron: \"0 10 * * 2\", zone: Europe/Berlin, blackout: [{from: 2026-12-20, to: 2027-01-03}]}\n")
	off := scheduled(t, at, weekly+"schedule: {cron: \"0 10 * * 2\", zone: UTC}\n")
	off.ID, off.Enabled = "off", false
	broken := injector.Schedule{ID: "broken", Enabled: true, Text: "kind: GameDay", NextAt: at}
	w.schedules = []injector.Schedule{hourly, rest, off, broken}
	all, err := desk(w).Ahead(t.Context(), instant(t, "2026-12-01T00:00:00Z"), instant(t, "2027-01-01T00:00:00Z"))
	if err != nil || len(all) != 4 {
		t.Fatalf("%d schedules, %v", len(all), err)
	}
	if a := all[0]; len(a.Coming) != mostAhead || !a.More || len(a.Services) != 2 || len(a.Next) != 5 {
		t.Errorf("one of every minute lists %d, more %v, of %v", len(a.Coming), a.More, a.Services)
	}
	a := all[1]
	var days []string
	for _, c := range a.Coming {
		days = append(days, c.UTC.Format("2 15:04")+c.Skipped)
	}
	if want := []string{"1 09:00", "8 09:00", "15 09:00", "22 09:00blackout", "29 09:00blackout"}; len(days) != len(want) || days[3] != want[3] || days[0] != want[0] {
		t.Errorf("December has %q, want %q", days, want)
	}
	if a.Words == "" || a.Zone.String() != "Europe/Berlin" || a.Coming[0].ID != injector.DayID("weekly", a.Coming[0].UTC) || a.Day.Name != "weekly" {
		t.Errorf("%+v", a)
	}
	// Before the stored instant there is nothing, and a later span begins in its middle.
	later, err := desk(w).Ahead(t.Context(), instant(t, "2027-03-02T09:00:00Z"), instant(t, "2027-03-09T09:00:00Z"))
	if err != nil || len(later[1].Coming) != 1 || !later[1].Coming[0].UTC.Equal(instant(t, "2027-03-02T09:00:00Z")) || len(later[1].Next) != 5 || !later[1].Next[0].UTC.Equal(rest.NextAt) {
		t.Errorf("a later week has %+v, %v", later[1].Coming, err)
	}
	if past, _ := desk(w).Ahead(t.Context(), at.AddDate(-1, 0, 0), at); len(past[1].Coming) != 0 {
		t.Errorf("the past has %+v", past[1].Coming)
	}
	if len(all[2].Coming)+len(all[2].Next) != 0 || all[2].Words == "" || len(all[3].Coming) != 0 || all[3].Zone != time.UTC {
		t.Errorf("switched off: %+v, unreadable: %+v", all[2].Next, all[3])
	}
}
