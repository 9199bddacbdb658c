package injector

import (
	"strings"
	"testing"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
	"breakwater/internal/retrylog"
)

func TestWhatIsAskedAgainIsKnownOrNot(t *testing.T) {
	sc := scenario.Scenario{Faults: []scenario.Fault{{ID: "lost", Rule: fault.Fault{Kind: fault.Drop, Phase: fault.AfterUpstream}},
		{ID: "late", Rule: fault.Fault{Kind: fault.Latency}}, {ID: "before", Rule: fault.Fault{Kind: fault.Drop, Phase: fault.BeforeUpstream}}}}
	if ids := strings.Join(lostAfter(sc), " "); ids != "lost" {
		t.Errorf("%q lose what was done", ids)
	}
	say := []scenario.Statuses{{From: 200, To: 200}, {From: 409, To: 409}}
	cut := retrylog.Try{Kind: "reset_before_first_byte", Fault: "lost"}
	for _, tt := range []struct {
		name         string
		tries        []retrylog.Try
		known, again int64
	}{
		{"not asked again", []retrylog.Try{cut}, 0, 0},
		{"known", []retrylog.Try{cut, {Status: 200}}, 1, 1},
		{"known, and said otherwise", []retrylog.Try{cut, {Status: 409}}, 1, 1},
		{"done again", []retrylog.Try{cut, {Status: 201}}, 0, 1},
		{"lost twice", []retrylog.Try{cut, cut, {Status: 200}}, 1, 1},
		{"lost twice, and its status was seen", []retrylog.Try{cut, {Status: 201, Fault: "lost"}, {Status: 201}}, 0, 1},
		{"never answered", []retrylog.Try{cut, {Kind: "try_timeout"}}, 0, 0},
		{"it was lost before any work", []retrylog.Try{{Kind: "reset_before_first_byte", Fault: "before"}, {Status: 201}}, 0, 0},
		{"nothing was lost", []retrylog.Try{{Status: 503}, {Status: 201}}, 0, 0},
	} {
		if known, again := repeated(retrylog.Exchange{Tries: tt.tries}, []string{"lost"}, say); known != tt.known || again != tt.again {
			t.Errorf("%s: %d of %d, want %d of %d", tt.name, known, again, tt.known, tt.again)
		}
	}
	a := scenario.Assertion{ID: "d1", Measure: scenario.Repeats, Service: "order", Repeated: &scenario.Repeated{Statuses: say}, Op: ">=", Limit: 950_000, MinRequests: 30}
	for _, tt := range []struct {
		seen Seen
		want Result
		says string
	}{
		{Seen{Part: 100, Whole: 100}, Pass, "100 % of 100 requests"}, {Seen{Part: 2, Whole: 100}, Fail, "2 %"},
		{Seen{Part: 20, Whole: 20}, NoData, "fewer than 30"}, {Seen{Missing: "nothing: x"}, NoData, "nothing: x"},
	} {
		r := Run{InjectAt: noon, BaselineAt: noon, RecoverAt: noon}
		got := assess(r, a, "during", Observations{Now: noon, Seen: map[string]Seen{"d1": tt.seen}})
		if got.Result != tt.want || !strings.Contains(got.Seen, tt.says) || !strings.Contains(got.Text, "answered 200 or 409 of what was asked again of order") {
			t.Errorf("%+v: %+v", tt.seen, got)
		}
		if code, right := sc.Weakness("during", a); code != scenario.KeyLost || right == "" {
			t.Errorf("its name is %q", code)
		}
	}
}
