package openslo

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/slo"
)

var update = flag.Bool("update", false, "write the golden files anew")

func imported(t testing.TB, names ...string) (Import, *conf.Log) {
	t.Helper()
	var files []conf.File
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("testdata/import", name))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, conf.File{Name: name, Data: text})
	}
	log := &conf.Log{}
	return Read(files, log), log
}

// Each input has what it becomes, and all that is told of it, beside it.
func TestImportGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/import/*.yaml")
	if len(files) < 14 {
		t.Fatalf("%d inputs", len(files))
	}
	for _, file := range files {
		name := filepath.Base(file)
		im, log := imported(t, name)
		var b strings.Builder
		for _, m := range log.All() {
			fmt.Fprintf(&b, "# %s\n", m.Error())
		}
		for _, i := range im.Objectives {
			fmt.Fprintf(&b, "---\n%s", i.Document())
			// What is written is read by control without a mistake, as the same promise.
			set, again := parse(i.Document())
			if again.Err() != nil || len(set.Objectives) != 1 || set.Objectives[0].ID != i.Objective.ID || set.Objectives[0].TargetPPB != i.Objective.TargetPPB ||
				set.Objectives[0].Window != i.Objective.Window || set.Objectives[0].Limit() != i.Objective.Limit() || set.Objectives[0].Owner != i.Objective.Owner {
				t.Errorf("%s: %s is written as\n%s\nread back as %+v, %v", name, i.Objective.ID, i.Document(), set.Objectives, again.Err())
			}
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, _ := os.ReadFile(golden)
		if b.String() != string(want) {
			t.Errorf("%s gives\n%s\nwant\n%s", name, b.String(), want)
		}
	}
}

func ids(im Import) []string {
	var out []string
	for _, i := range im.Objectives {
		out = append(out, i.Objective.ID)
	}
	return out
}

func says(t *testing.T, list conf.Mistakes, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if !slices.ContainsFunc(list, func(m *conf.Mistake) bool { return strings.Contains(m.Error(), want) }) {
			t.Errorf("nothing says %q of\n%v", want, list)
		}
	}
}

func TestSLO_Import1(t *testing.T) {
	im, log := imported(t, "01-v1-list.yaml")
	if log.Err() != nil || !slices.Equal(ids(im), []string{"search-availability"}) {
		t.Fatalf("%v, %v", ids(im), log.Err())
	}
	i := im.Objectives[0]
	terms := i.Objective.Terms
	if i.Objective.TargetPPB != 995_000_000 || terms.Method != slo.Timeslices || terms.SlicePPB != 950_000_000 || *terms.Calendar != (slo.Calendar{Unit: slo.Week, Start: "2022-01-01 12:00:00", Zone: "America/New_York"}) {
		t.Errorf("read %+v, %+v", i.Objective, terms)
	}
	if fmt.Sprint(i.Labels) != "[{env [prod]} {team [search platform]}]" || i.Objective.Owner != "search, platform" {
		t.Errorf("labels %v, owner %s", i.Labels, i.Objective.Owner)
	}
	says(t, log.Warnings(), "op: is ignored", "good of valid requests of service search itself", `looked only at cluster=prod, component=search`, "4xx: they are neutral")
}

func TestSLO_Import2_RejectsOneAlone(t *testing.T) {
	im, log := imported(t, "02-v2alpha.yaml")
	if !slices.Equal(ids(im), []string{"search-availability"}) || len(im.Services) != 1 || im.Services[0].Name != "catalogue" {
		t.Errorf("%v, %v", ids(im), im.Services)
	}
	if errs := log.Errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), `02-v2alpha.yaml:49:11: [2].metadata.name: must be a name of letters, digits, '-', '_' and '.', at most 63 long, got "no name"`) {
		t.Errorf("reported %v", errs)
	}
}

func TestSLO_Import3_AllThatIsWrong(t *testing.T) {
	im, log := imported(t, "03-v1alpha.yaml")
	if len(im.Objectives) != 0 || len(im.Services) != 1 || im.Services[0].Name != "short" {
		t.Errorf("%v, %v", ids(im), im.Services)
	}
	errs := log.Errors()
	says(t, errs, `got "fine service"`, "03-v1alpha.yaml:22:5: spec.objectives[0]: must hold timeSliceTarget", "op: must be lte, got gt")
	if len(errs) != 3 {
		t.Errorf("reported %v", errs)
	}
}

func TestSLO_Import4_S33(t *testing.T) {
	im, log := imported(t, "04-timeslices.yaml")
	if errs := log.Errors(); len(im.Objectives) != 0 || len(errs) != 1 || !strings.Contains(errs[0].Error(), "04-timeslices.yaml:25:17: spec.timeWindow[0].duration: must be days or longer, got a 1 minute calendar window; did you mean 1M") {
		t.Errorf("%v, %v", ids(im), errs)
	}
	im, log = imported(t, "04-timeslices-month.yaml")
	if log.Err() != nil || !slices.Equal(ids(im), []string{"line-availability-internal-objective", "line-availability-sla"}) {
		t.Fatalf("%v, %v", ids(im), log.Err())
	}
	if im.Objectives[0].Objective.TargetPPB != 995_000_000 || im.Objectives[1].Objective.TargetPPB != 990_000_000 {
		t.Errorf("read %+v", im.Objectives)
	}
}

func TestSLO_Import5(t *testing.T) {
	im, log := imported(t, "05-ratio-timeslices.yaml")
	if log.Err() != nil || len(im.Objectives) != 1 || im.Objectives[0].Objective.Terms.Method != slo.RatioTimeslices || im.Objectives[0].Objective.Window != 14*day {
		t.Errorf("%+v, %v", im.Objectives, log.Err())
	}
}

func TestSLO_Import6_OffSpec(t *testing.T) {
	im, log := imported(t, "06-off-spec.yaml")
	if len(im.Objectives) != 0 {
		t.Errorf("took %v", ids(im))
	}
	says(t, log.Errors(), "06-off-spec.yaml:34:17: spec.timeWindow[0].duration: must be a number and a unit such as 1w, 1M or 1Q, got Week (did you mean 1w?)",
		"startTime: must be a date and a time such as 2026-01-05 00:00:00, got Monday (write the date of any Monday",
		"spec.conditions: must hold exactly one condition, got 2", "lookbackWindow: must be a span such as 1h, got -1h (a lookback looks back already: write 1h)", "must hold op: gt")
	if n := len(log.Errors()); n != 7 { // the last two of both conditions
		t.Errorf("%d mistakes:\n%v", n, log.Errors())
	}
	says(t, log.Warnings(), "names become labels and keys", "AlertPolicy High-Burn was refused", "within 400")
}

func TestSLO_Import7_SeveralObjectives(t *testing.T) {
	im, log := imported(t, "07-openslo-several.yaml")
	if !slices.Equal(ids(im), []string{"calls-availability", "calls-latency-1"}) {
		t.Errorf("took %v", ids(im))
	}
	if i := im.Objectives[1].Objective; i.Limit() != 400*time.Millisecond || i.TargetPPB != 990_000_000 || i.Window != 30*day {
		t.Errorf("read %+v", i)
	}
	if i := im.Objectives[0].Objective.Terms.Indicator; fmt.Sprint(i.Bad, i.Total) != "[bad throttled] [good bad throttled]" {
		t.Errorf("429 counts as a failure there, got %v of %v", i.Bad, i.Total)
	}
	if errs := log.Errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "07-openslo-several.yaml:43:7: spec.objectives[1]: must have the latency limit 400ms of calls-latency-1, since a service counts by one limit, got 5s") {
		t.Errorf("reported %v", errs)
	}
	says(t, log.Warnings(), "has no budgetingMethod", "has no isRolling", "looked only at verb!=WATCH")
}

func TestSLO_Import8_Sloth(t *testing.T) {
	im, log := imported(t, "08-sloth.yaml")
	if log.Err() != nil || !slices.Equal(ids(im), []string{"shop-requests-availability", "cart-requests-availability"}) {
		t.Fatalf("%v, %v", ids(im), log.Err())
	}
	shop, cart := im.Objectives[0].Objective, im.Objectives[1].Objective
	if shop.TargetPPB != 999_000_000 || shop.Owner != "shop-team" || shop.Title != "Answers without failures." || shop.Terms.Indicator.Kind != slo.RatioOf || shop.Terms.AlertsOff {
		t.Errorf("shop %+v %+v", shop, shop.Terms)
	}
	if cart.TargetPPB != 999_900_000 || !cart.Terms.AlertsOff || cart.Terms.Indicator.Kind != "" {
		t.Errorf("cart %+v %+v", cart, cart.Terms)
	}
	crd, log := imported(t, "08-sloth-crd.yaml")
	if log.Err() != nil || len(crd.Objectives) != 1 || len(crd.Objectives[0].Objective.Terms.Pairs) != 2 {
		t.Fatalf("%+v, %v", crd.Objectives, log.Err())
	}
	for _, p := range crd.Objectives[0].Objective.Rules() {
		if p.Severity != "page" {
			t.Errorf("tickets are disabled, got rule %+v", p)
		}
	}
}

func TestSLO_Import8_Unsupported(t *testing.T) {
	im, log := imported(t, "08-sloth-unsupported.yaml")
	if len(im.Objectives) != 0 {
		t.Errorf("took %v", ids(im))
	}
	says(t, log.Errors(), "sli.raw: must be events, got a raw ratio", "must count events, got a query for a share of time series", "total_query: must count events, got vector(1)", "got a plugin")
	says(t, log.Warnings(), "slo_plugins: is not carried over")
	if len(log.Errors()) != 4 {
		t.Errorf("reported %v", log.Errors())
	}
}

func TestSLO_Import9_Windows(t *testing.T) {
	im, log := imported(t, "09-windows-7d.yaml", "08-sloth.yaml")
	if log.Err() != nil {
		t.Fatal(log.Err())
	}
	o := im.Objectives[0].Objective
	var rates []int64
	for _, p := range o.Rules() {
		rates = append(rates, p.ThresholdMilli(o))
	}
	if o.Window != 7*day || !slices.Equal(rates, []int64{13_440, 3500, 1400, 980}) {
		t.Errorf("over %s thresholds are %v", o.Window, rates)
	}
	im, log = imported(t, "09-windows-28d.yaml", "08-sloth.yaml")
	o = im.Objectives[0].Objective
	rates = nil
	for _, p := range o.Rules() {
		rates = append(rates, p.ThresholdMilli(o))
	}
	if log.Err() != nil || o.Window != 28*day || !slices.Equal(rates, []int64{13_440, 5600, 2800, 933}) {
		t.Errorf("over %s thresholds are %v, %v", o.Window, rates, log.Err())
	}
}

func TestSLO_Import10_S51_Pyrra(t *testing.T) {
	im, log := imported(t, "10-pyrra.yaml")
	if !slices.Equal(ids(im), []string{"proxy-errors", "proxy-latency", "connect-latency", "grpc-errors"}) {
		t.Errorf("took %v", ids(im))
	}
	says(t, log.Errors(), "bool_gauge: must be ratio, latency or latencyNative, got a gauge of probes", `must have a limit of latency that is a number, got le="+Inf"`)
	if len(log.Errors()) != 2 {
		t.Errorf("reported %v", log.Errors())
	}
	for id, want := range map[string]slo.Objective{
		"proxy-errors":    {TargetPPB: 999_000_000, Window: 28 * day, Service: "proxy-errors"},
		"connect-latency": {TargetPPB: 990_000_000, Window: 14 * day, Service: "rpc"},
		"grpc-errors":     {TargetPPB: 990_000_000, Window: 14 * day, Service: "profiles", Owner: "profiles"},
	} {
		i := slices.IndexFunc(im.Objectives, func(i Imported) bool { return i.Objective.ID == id })
		if o := im.Objectives[i].Objective; o.TargetPPB != want.TargetPPB || o.Window != want.Window || o.Service != want.Service || o.Owner != want.Owner {
			t.Errorf("%s: read %+v", id, o)
		}
	}
	if l := im.Objectives[1].Objective.Limit(); l != time.Second {
		t.Errorf("latency: '1' is %s", l)
	}
	if l := im.Objectives[2].Objective.Limit(); l != 200*time.Millisecond {
		t.Errorf("latency: 200ms is %s", l)
	}
	says(t, log.Warnings(), "counts 5xx as good", "of an early release", "grouping: is not carried over", "names no service: taken as one of service rpc", "tells failures by gRPC codes")
}

func TestSLO_Import11_SLOGenerator(t *testing.T) {
	im, log := imported(t, "11-generator.yaml")
	if log.Err() != nil || !slices.Equal(ids(im), []string{"prom-metrics-latency", "gae-app-availability", "prom2-metrics-latency"}) {
		t.Fatalf("%v, %v", ids(im), log.Err())
	}
	o := im.Objectives[0].Objective
	var rates []int64
	for _, p := range o.Rules() {
		rates = append(rates, p.ThresholdMilli(o))
	}
	if o.Limit() != 250*time.Millisecond || o.TargetPPB != 999_900_000 || o.Window != 28*day || !slices.Equal(rates, []int64{9000, 3000}) {
		t.Errorf("read %+v, thresholds %v", o, rates)
	}
	says(t, log.Warnings(), `step "7 days" does not alert`, `step "28 days" does not alert`)
}

// An operator that would fire while all is well is told, and never carried.
func TestSLO_S34(t *testing.T) {
	text := `apiVersion: openslo/v1
kind: AlertPolicy
metadata: {name: fast}
spec:
  conditions:
    - kind: AlertCondition
      metadata: {name: fast}
      spec:
        description: burn rate exceeds 2
        severity: page
        condition: {kind: burnrate, op: lte, threshold: 2, lookbackWindow: 1h, alertAfter: 5m}
---
apiVersion: openslo/v1
kind: SLO
metadata: {name: a}
spec:
  service: s
  indicatorRef: elsewhere
  timeWindow: [{duration: 30d, isRolling: true}]
  budgetingMethod: Occurrences
  objectives: [{target: 0.999}]
  alertPolicies: [fast]
`
	log := &conf.Log{}
	im := Read([]conf.File{{Name: "a.yaml", Data: []byte(text)}}, log)
	if log.Err() != nil || len(im.Objectives) != 1 {
		t.Fatal(log.Err())
	}
	says(t, log.Warnings(), "op: contradicts what a burn rate is for: lte would fire while all is well")
	o := im.Objectives[0].Objective
	rules := o.Rules()
	if len(rules) != 1 || rules[0].Exceeds(o, 0, 1000) || rules[0].Exceeds(o, 1, 1000) || !rules[0].Exceeds(o, 3, 1000) {
		t.Errorf("rules %+v", rules)
	}
}

func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/import/*.yaml")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		f.Add(string(text))
	}
	f.Fuzz(func(t *testing.T, text string) {
		log := &conf.Log{}
		im := Read([]conf.File{{Name: "a.yaml", Data: []byte(text)}}, log)
		for _, i := range im.Objectives {
			// What was taken is a promise that control takes too.
			set, again := parse(i.Document())
			if again.Err() != nil || len(set.Objectives) != 1 || set.Objectives[0].TargetPPB != i.Objective.TargetPPB || set.Objectives[0].Window != i.Objective.Window {
				t.Fatalf("%s\nread back: %v", i.Document(), again.Err())
			}
		}
	})
}

// What a matcher lists is good or bad by which query it stands in and whether it is
// negated; each severity is switched off by itself.
func TestImportTellsGoodFromBad(t *testing.T) {
	sloth := func(query, alerting string) Imported {
		t.Helper()
		text := "version: prometheus/v1\nservice: s\nslos:\n  - name: a\n    objective: 99\n    sli:\n      events:\n        error_query: " + query +
			"\n        total_query: sum(rate(x[{{.window}}]))\n    alerting: " + alerting + "\n"
		log := &conf.Log{}
		im := Read([]conf.File{{Name: "a.yaml", Data: []byte(text)}}, log)
		if log.Err() != nil || len(im.Objectives) != 1 {
			t.Fatal(log.Err())
		}
		return im.Objectives[0]
	}
	for query, throttled := range map[string]bool{
		`sum(rate(x{code=~"5..|429"}[{{.window}}]))`: true,
		`sum(rate(x{code=~"5.."}[{{.window}}]))`:     false,
		`sum(rate(x{code!~"2..|429"}[{{.window}}]))`: false, // 429 is no failure there
	} {
		o := sloth(query, "{}").Objective
		if got := o.Spec().Indicator.Kind == slo.RatioOf; got != throttled {
			t.Errorf("%s: counts 429 as bad: %v", query, got)
		}
	}
	for alerting, want := range map[string]string{
		"{page_alert: {disable: true}}":                                  "ticket",
		"{ticket_alert: {disable: true}}":                                "page",
		"{page_alert: {disable: true}, ticket_alert: {disable: true}}":   "",
		"{page_alert: {disable: false}, ticket_alert: {disable: false}}": "page ticket",
	} {
		o := sloth(`sum(rate(x{code=~"5.."}[{{.window}}]))`, alerting).Objective
		var got []string
		for _, p := range o.Rules() {
			if !slices.Contains(got, p.Severity) {
				got = append(got, p.Severity)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: alerts by %v, want %q", alerting, got, want)
		}
	}
}
