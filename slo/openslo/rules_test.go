package openslo

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/rulefmt"

	"breakwater/slo"
)

func ruled() []slo.Objective {
	return []slo.Objective{
		{ID: "order-availability", Service: "order", Owner: "shop", TargetPPB: 999_500_000, Window: 30 * day},
		{ID: "order-latency", Service: "order", TargetPPB: 950_000_000, Window: 28 * day, Terms: &slo.Terms{Indicator: slo.Indicator{Kind: slo.Latency, Limit: 300 * time.Millisecond}}},
		{ID: "quiet", Service: `odd "name" {{x}}`, TargetPPB: 999_000_000, Window: 7 * day, Terms: &slo.Terms{AlertsOff: true}},
	}
}

// Prometheus itself reads what is written, and finds nothing to say.
func TestRulesAreRules(t *testing.T) {
	text := Rules(ruled())
	groups, errs := rulefmt.Parse([]byte(text), false)
	if len(errs) > 0 {
		t.Fatalf("%v in\n%s", errs, text)
	}
	records, alerts := 0, map[string]int{}
	for _, g := range groups.Groups {
		for _, r := range g.Rules {
			if r.Record != "" {
				records++
			} else {
				alerts[r.Labels["slo"]+" "+r.Labels["severity"]]++
			}
		}
	}
	// Each window has two records; four more an objective.
	if want := 2*len(ruled()[0].Windows()) + 2*len(ruled()[1].Windows()) + 2*len(ruled()[2].Windows()) + 12; records != want {
		t.Errorf("%d records, want %d", records, want)
	}
	if alerts["order-availability page"] != 1 || alerts["order-latency ticket"] != 1 || alerts["quiet page"] != 0 || len(alerts) != 5 {
		t.Errorf("alerts %v", alerts)
	}
	golden := "testdata/rules.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, _ := os.ReadFile(golden); text != string(want) {
		t.Errorf("wrote\n%s\nwant\n%s", text, want)
	}
}

// Thresholds are the objective's own, not those of 30 days; no float is printed.
func TestSLO_S6_S11_S20_Rules(t *testing.T) {
	text := Rules(ruled())
	for _, want := range []string{"> 14.4 and", `burn_rate{slo=\"order-latency\", window=\"1h\"} > 13.44`, "vector(0.9995)", "vector(0.0005)",
		`record: slo:sli_error:ratio_rate5m`, `record: slo:burn_rate:ratio_rate5m`, "breakwater_slo_error_ratio", "vector(28)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "99999999") || strings.Contains(text, "0000001") {
		t.Errorf("a float is printed:\n%s", text)
	}
}
