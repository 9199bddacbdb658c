package injector

import (
	"slices"
	"testing"
	"time"

	"breakwater/injector/scenario"
)

func dayDocs(services ...string) (day scenario.GameDay, docs []Document) {
	day.Name = "weekly"
	for _, s := range services {
		text := "apiVersion: breakwater/v1\nkind: Scenario\nid: slow-" + s + "\ntarget: {service: " + s + ", routes: [" + s + "-get]}\n" +
			"sample: {percent: \"50%\"}\nphases: {baseline: 10s, inject: 20s, recover: 5s}\nfaults: [{id: f, error: {status: 503}}]\n" +
			"hypothesis: {during: [{id: d1, sli: " + s + ".success, op: \">=\", value: \"1%\"}]}\nstop: [{sli: " + s + ".error_rate, op: \">\", value: \"90%\", for: 30s}]\n"
		day.Scenarios = append(day.Scenarios, "slow-"+s)
		docs = append(docs, Document{ID: "slow-" + s, Service: s, Text: text})
	}
	return day, docs
}

// Who has to agree follows from where it is, what is core, and how much of all traffic
// would be hit, as for single runs.
func TestWhoHasToAgreeToAGameDay(t *testing.T) {
	core := func(s string) bool { return s == "order" }
	// Half of points-get is hit: 11 % of everything, or 9 %.
	busy := []Flow{{"points", "points-get", 220}, {"points", "points-put", 0}, {"order", "order-get", 780}}
	calm := []Flow{{"points", "points-get", 180}, {"points", "points-put", 40}, {"order", "order-get", 780}}
	for _, tt := range []struct {
		name      string
		env       string
		services  []string
		traffic   []Flow
		approvals int
		grant     int64
		want      int
		owners    []string
	}{
		{"outside of prod nobody", "test", []string{"order"}, busy, -1, 0, 0, nil},
		{"outside of prod as the document says", "test", []string{"order"}, busy, 1, 0, 1, nil},
		{"no core service: one", "prod", []string{"points"}, calm, -1, 0, 1, nil},
		{"within a grant: nobody", "prod", []string{"points"}, calm, -1, 50_000, 0, nil},
		{"a core service: two, its owner among them, and no grant holds", "prod", []string{"points", "order"}, calm, -1, 50_000, 2, []string{"order"}},
		{"more than a tenth of all traffic: the same", "prod", []string{"points"}, busy, -1, 50_000, 2, []string{"points"}},
		{"twice the same service", "prod", []string{"order", "order"}, nil, 0, 0, 2, []string{"order"}},
		{"the document asks for more", "prod", []string{"order"}, nil, 3, 0, 3, []string{"order"}},
		{"no traffic is known: nothing is held against it", "prod", []string{"points"}, nil, -1, 0, 1, nil},
	} {
		s := &Scheduler{Env: tt.env, Core: core}
		day, docs := dayDocs(tt.services...)
		day.Approvals, day.GrantPPM = tt.approvals, tt.grant
		n, owners := s.Needs(day, docs, tt.traffic)
		if n != tt.want || !slices.Equal(owners, tt.owners) {
			t.Errorf("%s: %d and the owners of %v, want %d and %v", tt.name, n, owners, tt.want, tt.owners)
		}
	}
	// A route that has no name yet may be any of its service.
	sc := scenario.Scenario{Target: scenario.Target{Service: "points", Routes: []string{"points-put"}, Calls: []scenario.Call{{Method: "GET", Path: "/x"}}}, Sample: scenario.Sample{PPM: 1_000_000}}
	if got := shareOf(sc, busy); got != 220_000 {
		t.Errorf("share %d, want that of the whole service", got)
	}
}

func TestWhatAGameDayWaitsFor(t *testing.T) {
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	h := DayHeld{ID: "g", Hash: "h", Needs: 2, Owners: []string{"order", "points"}}
	ok := func(actor string, owns ...string) Approved {
		return Approved{"g", actor, "h", owns, now.Add(-time.Hour)}
	}
	old := ok("olga", "order", "points")
	old.At = now.Add(-ApprovalFor)
	for _, tt := range []struct {
		name string
		all  []Approved
		want string
	}{
		{"nobody", nil, "2 more, among them the owner of order, and of points"},
		{"two who own nothing", []Approved{ok("a"), ok("b")}, "the owner of order, and of points"},
		{"one who owns one", []Approved{ok("a", "order")}, "the owner of points"},
		{"one who owns both", []Approved{ok("a", "order", "points")}, "1 more"},
		{"one twice", []Approved{ok("a", "order", "points"), ok("a", "order", "points")}, "1 more"},
		{"all", []Approved{ok("a", "order"), ok("b", "points")}, ""},
		{"of another content", []Approved{{"g", "a", "x", []string{"order"}, now}}, "2 more, among them the owner of order, and of points"},
		{"of another day", []Approved{{"g2", "a", "h", []string{"order"}, now}}, "2 more, among them the owner of order, and of points"},
		{"too old", []Approved{old, ok("b")}, "the owner of order, and of points"},
	} {
		if got := h.WaitsFor(tt.all, now); got != tt.want {
			t.Errorf("%s: waits for %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestOneOfClassCAtATime(t *testing.T) {
	at := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	r := Run{ID: "r", Class: ClassC, Schedule: "weekly", GameDay: "weekly", PlannedAt: at}
	for _, tt := range []struct {
		name string
		a    Active
		want bool
	}{
		{"itself", Active{ID: "r", Class: ClassC, State: Injecting}, false},
		{"of its own game day", Active{ID: "s", Class: ClassC, State: Injecting, Schedule: "weekly", At: at}, false},
		{"of the same game day at another time", Active{ID: "s", Class: ClassC, State: Injecting, Schedule: "weekly", At: at.Add(-time.Hour)}, true},
		{"of another game day", Active{ID: "s", Class: ClassC, State: Arming, Schedule: "other", At: at}, true},
		{"single", Active{ID: "s", Class: ClassC, State: Recovering, At: at}, true},
		{"of no class", Active{ID: "s", State: Injecting}, false},
		{"not begun", Active{ID: "s", Class: ClassC, State: Scheduled}, false},
	} {
		if got := r.beside(tt.a); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	single := Run{ID: "q", Class: ClassC, PlannedAt: at}
	if !single.beside(Active{ID: "s", Class: ClassC, State: Injecting, At: at}) {
		t.Error("two single runs planned at once are no game day")
	}
}

type budgetOf map[string]Budget

func (b budgetOf) Budget(service string) Budget { return b[service] }

// A game day begins only with more of the budget left than its guard asks for, whoever
// starts it; what is not known is not enough.
func TestAGameDayIsGuardedByWhatIsLeft(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ask    int64
		budget Budget
		reason Reason
		text   string
	}{
		{"more than asked", 300_000, Budget{Known: true, RemainingPPM: 300_001}, "", ""},
		{"just what is asked", 300_000, Budget{Known: true, RemainingPPM: 300_000}, NoBudget, "points has 30 % of its budget left, and more than 30 % must be left"},
		{"overspent", 300_000, Budget{Known: true, RemainingPPM: -12_000}, NoBudget, "points has -1.2 % of its budget left, and more than 30 % must be left"},
		{"no reading", 300_000, Budget{}, NoReading, "the budget of points is not known, and more than 30 % must be left of it"},
		{"nothing is asked", 0, Budget{}, "", ""},
		{"a freeze is told first", 300_000, Budget{Known: true, Frozen: true}, ByFreeze, "points is frozen"},
	} {
		day, docs := dayDocs("points")
		day.LeftPPM, day.Waves = tt.ask, []scenario.Wave{{Name: "w", Scenarios: day.Scenarios}}
		s := &Scheduler{Env: "test", Budgets: budgetOf{"points": tt.budget}}
		now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
		runs, _, no := s.Plan(Due{Documents: docs}, day, now, now)
		if no.Reason != tt.reason || no.Text != tt.text || (len(runs) == 1) != (tt.reason == "") {
			t.Errorf("%s: %d runs, %+v", tt.name, len(runs), no)
		}
	}
}
