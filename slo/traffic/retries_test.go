package traffic

import (
	"testing"

	"breakwater/slo"
)

func TestAmplified(t *testing.T) {
	for _, tt := range []struct {
		asked, tries, want int64
		ok                 bool
	}{{1000, 1043, 1043, true}, {1000, 3000, 3000, true}, {1000, 900, 900, true}, {0, 0, 0, false}, {3, 4, 1333, true}} {
		if got, ok := Amplified(slo.Tally{Exchanges: tt.asked, Attempts: tt.tries}); got != tt.want || ok != tt.ok {
			t.Errorf("%d tries of %d requests: %d, %v, want %d, %v", tt.tries, tt.asked, got, ok, tt.want, tt.ok)
		}
	}
}

func TestFatesAreInOrderAndAddUp(t *testing.T) {
	got := Fates([]Fate{{Reason: "deadline", Count: 10}, {Reason: "connect_failure", Retried: true, Count: 30, Recovered: 20, Failed: 5}, {Reason: "error_rate_gate", Count: 60}})
	if got[0].Reason != "connect_failure" || got[0].Neither != 5 || got[0].PPM != 300_000 || got[1].Reason != "error_rate_gate" || got[2].Neither != 0 {
		t.Errorf("%+v", got)
	}
	if got := FirstBad(slo.Tally{Good: 60, Bad: 40, FirstTryBad: 8, Recovered: 5}); got != 45 {
		t.Errorf("32 refused and 5 saved: %d would have been bad, want 45", got)
	}
	if ppm, ok := Used(slo.Tally{Exchanges: 1000, Attempts: 1050}, 100); ppm != 500_000 || !ok {
		t.Errorf("half of the budget is %d ppm, %v", ppm, ok)
	}
	if _, ok := Used(slo.Tally{}, 100); ok {
		t.Error("nothing asked used some of a budget")
	}
}

func TestADocumentThatIsNoneHasNoPolicies(t *testing.T) {
	for _, doc := range []string{"", "{", `[]`, `{"upstreams":3}`} {
		if keys, limits := (Served{Document: doc}).Policies(); keys != nil || limits != nil || len(Served{Document: doc}.Budgets()) != 0 {
			t.Errorf("%q has %v, %v", doc, keys, limits)
		}
	}
	keys, _ := Served{Document: `{"services":[{"name":"a","breaker":{"disabled":true}},{"name":"b"}],"routes":[{"name":"r","service":"c"}],"upstreams":[{"name":"u","endpoints":[{"address":"x:1"}]}]}`}.Policies()
	if len(keys) != 3 || keys[0].Service != "b" || keys[1].Service != "c" || keys[2].Endpoint != "x:1" {
		t.Errorf("breakers %+v", keys)
	}
}
