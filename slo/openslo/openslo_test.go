package openslo

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

func sample(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/order.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func parse(text string) (Set, *conf.Log) {
	log := &conf.Log{}
	return Parse(conf.File{Name: "slo.yaml", Data: []byte(text)}, log), log
}

func TestParse(t *testing.T) {
	set, log := parse(sample(t))
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	if len(set.Services) != 1 || set.Services[0] != (Service{"order", "Orders", "Takes orders.", "shop, checkout"}) {
		t.Errorf("services %+v", set.Services)
	}
	if len(set.Objectives) != 1 {
		t.Fatalf("objectives %+v", set.Objectives)
	}
	o := set.Objectives[0]
	text := o.Text
	o.Text = ""
	want := slo.Objective{ID: "order-availability", Service: "order", Title: "Orders are answered", Owner: "shop",
		TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}
	if o != want {
		t.Errorf("read %+v, want %+v", o, want)
	}
	if !strings.HasPrefix(text, "apiVersion: openslo/v1\nkind: SLO\n") || !strings.HasSuffix(text, "alertPolicies: []\n") || strings.Contains(text, "---") {
		t.Errorf("its text is %q", text)
	}
	// The document's own examples give a ratio an operator.
	if w := log.Warnings(); len(w) != 1 || !strings.Contains(w[0].Error(), "spec.objectives[0].op: is ignored") {
		t.Errorf("warnings %v", w)
	}
}

func TestExportReadsBack(t *testing.T) {
	for _, target := range []string{"99.9", "99.95", "99.9999999", "50"} {
		for _, window := range []time.Duration{30 * 24 * time.Hour, 36 * time.Hour, 90 * time.Minute} {
			ppb, err := slo.ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			o := slo.Objective{ID: "a.b-c", Service: "order", Title: `Quo"tes: and # more`, Owner: "shop", TargetPPB: ppb, Window: window}
			text := Export(o)
			set, log := parse(text)
			if all := log.All(); len(all) != 0 || len(set.Objectives) != 1 {
				t.Fatalf("exported:\n%s\nread back: %v", text, all)
			}
			got := set.Objectives[0]
			if got.Text != text {
				t.Errorf("text changed from\n%s\nto\n%s", text, got.Text)
			}
			got.Text = ""
			if got != o {
				t.Errorf("exported %+v, read back %+v", o, got)
			}
			if strings.Contains(text, "op:") || target == "99.9" && !strings.Contains(text, "target: 0.999\n") {
				t.Errorf("exported:\n%s", text)
			}
		}
	}
}

func TestWhatIsNotHonouredIsSaid(t *testing.T) {
	tests := []struct {
		name, old, new string
		want           string // within the one line of the report
	}{
		{"calendar month taken for minutes", "- duration: 30d\n      isRolling: true", "- duration: 1m\n      calendar: {startTime: 2026-01-01 00:00:00, timeZone: UTC}", "slo.yaml:39:17: spec.timeWindow[0].duration: must be days or longer, got a 1 minute calendar window; did you mean 1M (m is minutes, M is months)"},
		{"not rolling", "isRolling: true", "isRolling: false", "spec.timeWindow[0].isRolling: must be a rolling window"},
		{"months", "duration: 30d", "duration: 1M", "must be in m, h, d or w, got 1M (months differ in length"},
		{"no unit", "duration: 30d", `duration: "30"`, "the unit is missing"},
		{"slices without their target", "budgetingMethod: Occurrences", "budgetingMethod: Timeslices", "spec.objectives[0]: must hold timeSliceTarget"},
		{"another method", "budgetingMethod: Occurrences", "budgetingMethod: Ocurrences", "did you mean Occurrences?"},
		{"a foreign source", "type: breakwater\n            spec:\n              class: good", "type: Prometheus\n            spec:\n              query: up", "it does not query Prometheus"},
		{"another class", "class: good", "class: great", "must be good or composite, got great"},
		{"a budget as a target", "target: 0.9995", "target: 0.0005", "the target is 0.9995"},
		{"a percentage as a ratio", "target: 0.9995", "target: 99.95", "write targetPercent: 99.95"},
		{"all of it", "target: 0.9995", "target: 1.0", "must be below 100 %"},
		{"all of it in percent", "target: 0.9995", "targetPercent: 100", "must be below 100 %"},
		{"text", "target: 0.9995", `target: "0.9995"`, "must be a number"},
		{"none", "      target: 0.9995\n", "", "must hold target or targetPercent"},
		{"both", "target: 0.9995", "target: 0.9995\n      targetPercent: 99.95", "must not be given beside target"},
		{"a slice target", "target: 0.9995", "target: 0.9995\n      timeSliceTarget: 0.9", "timeSliceTarget: must not be given"},
		{"a second objective", "      target: 0.9995\n", "      target: 0.9995\n    - target: 0.99\n", "must hold exactly one objective, got 2"},
		{"a reference", "  indicator:\n", "  indicatorRef: elsewhere\n  indicator:\n", "must be written out as indicator"},
		{"a threshold", "ratioMetric:", "thresholdMetric: {metricSource: {type: breakwater, spec: {class: latency}}}\n      ratioMetric:", "must not be given beside thresholdMetric"},
		{"gauges", "counter: true", "counter: false", "must be true, got false"},
		{"an old version", "apiVersion: openslo/v1\nkind: SLO", "apiVersion: openslo/v1alpha\nkind: SLO", "must be openslo/v1, got openslo/v1alpha"},
		{"another kind", "kind: SLO", "kind: AlertPolicy", "must be SLO or Service, got AlertPolicy"},
		{"a name with a space", "name: order-availability", "name: order availability", "metadata.name: must be a name"},
		{"a misspelt field", "  service: order\n", "  service: order\n  timewindow: []\n", "did you mean timeWindow?"},
		{"no service", "  service: order\n", "", "spec.service: must be given"},
	}
	for _, tt := range tests {
		text := strings.Replace(sample(t), tt.old, tt.new, 1)
		if text == sample(t) {
			t.Errorf("%s: the sample does not hold %q", tt.name, tt.old)
			continue
		}
		_, log := parse(text)
		errs := log.Errors()
		if len(errs) == 0 || !strings.Contains(errs.Error(), tt.want) {
			t.Errorf("%s: reported\n%v\nwant %q", tt.name, errs, tt.want)
		}
		if tt.name != "a reference" && tt.name != "a foreign source" && tt.name != "a threshold" && len(errs) != 1 {
			t.Errorf("%s: one mistake is reported as %d:\n%v", tt.name, len(errs), errs)
		}
	}
}

func TestAllMistakesAtOnce(t *testing.T) {
	text := strings.NewReplacer("target: 0.9995", "target: 1", "duration: 30d", "duration: 1Q", "class: valid", "class: all").Replace(sample(t))
	_, log := parse(text)
	if errs := log.Errors(); len(errs) != 3 {
		t.Errorf("three mistakes are reported as %d:\n%v", len(errs), errs)
	}
}

func TestAlertPoliciesAreWarnedOf(t *testing.T) {
	set, log := parse(strings.Replace(sample(t), "alertPolicies: []", "alertPolicies:\n    - fast-burn", 1))
	if log.Err() != nil || len(set.Objectives) != 1 || len(log.Warnings()) != 2 {
		t.Errorf("read %+v with %v", set.Objectives, log.All())
	}
}

func TestTheSameNameTwice(t *testing.T) {
	_, log := parse(sample(t) + "---\n" + Export(slo.Objective{ID: "order-availability", Service: "order", TargetPPB: 990_000_000, Window: time.Hour}))
	if errs := log.Errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "order-availability again") {
		t.Errorf("reported %v", errs)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample(f))
	f.Add("apiVersion: openslo/v1\nkind: SLO\nspec: {objectives: [{target: 1e0}]}")
	limit := slo.Terms{Indicator: slo.Indicator{Kind: slo.Latency, Limit: 300 * time.Millisecond}, Pairs: []slo.Pair{pair("page", time.Hour, 20_000, nil)}, Guard: &slo.Guard{MinBad: 1}}
	f.Add(Export(slo.Objective{ID: "x", Service: "y", TargetPPB: 950_000_000, Window: 28 * day, Terms: &limit}))
	f.Add(Export(slo.Objective{ID: "x", Service: "y", TargetPPB: 950_000_000, Window: 30 * day, Terms: &slo.Terms{Method: slo.Timeslices,
		Calendar: &slo.Calendar{Unit: slo.Month, Start: "2026-01-01 00:00:00", Zone: "Europe/Berlin"}, Planned: 7}}))
	f.Fuzz(func(t *testing.T, text string) {
		set, log := parse(text)
		if log.Err() != nil {
			return
		}
		for _, o := range set.Objectives {
			// What was accepted is accepted again, alone and exported.
			for _, again := range []string{o.Text, Export(o)} {
				got, log := parse(again)
				if log.Err() != nil || len(got.Objectives) != 1 || got.Objectives[0].TargetPPB != o.TargetPPB || got.Objectives[0].Window != o.Window || got.Objectives[0].Service != o.Service ||
					!reflect.DeepEqual(got.Objectives[0].Terms, o.Terms) {
					t.Fatalf("%+v read again as %+v, %v", o, got, log.Err())
				}
			}
		}
	})
}
