package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/openslo"
)

const scoresJSON = `{"health_scores":[{"upstream":"points","env":"prod","state":"scored","score_ppm":525100,"healthy":false,"confident":true,"alarm":true,
"counts":{"requests":10000,"retried":200,"retries_sent":200,"recovered":24,"failed_after_retry":176},"deductions":{"trigger_rate_ppm":23529,"failed_retries_ppm":431373,"extra_load_ppm":20000},
"reasons":[{"status_code":503,"decision_reason":"throttled","score_ppm":525100,"counts":{"requests":10000,"retried":200,"retries_sent":200,"recovered":24,"failed_after_retry":176},"deductions":{}}],
"audit":[{"code":"max_retries","subject":"max_retries of orders","now":"3","advice":"1","why":"retry 2 recovered 1 of 90","score_would_be_ppm":910000}]}]}`

func TestHealthVerbs(t *testing.T) {
	at := "--control=" + fakeControl(t, 200, scoresJSON)
	ls := verb(t, "", "health", "ls", at, "--reasons")
	ls.want(t, exitOK)
	for _, want := range []string{"0.5251", "alarm", "12", "throttled", "0.431373 in vain"} {
		if !strings.Contains(ls.out, want) {
			t.Errorf("health ls does not say %q:\n%s", want, ls.out)
		}
	}
	audit := verb(t, "", "health", "audit", at)
	audit.want(t, exitNo)
	for _, want := range []string{"points in prod scores 0.5251", "max_retries of orders: 3 -> 1 (the score would have been 0.9100)", "retry 2 recovered 1 of 90."} {
		if !strings.Contains(audit.out, want) {
			t.Errorf("health audit does not say %q:\n%s", want, audit.out)
		}
	}
	verb(t, "", "health", "audit", at, "-o", "json").want(t, exitNo)
	verb(t, "", "health", "audit", "--control="+fakeControl(t, 200, `{"health_scores":[]}`)).want(t, exitUnknown, "there is no health score")
	verb(t, "", "health", "audit", "--control="+fakeControl(t, 200, `{"health_scores":[{"upstream":"a","score_ppm":900000,"healthy":true}]}`)).want(t, exitOK)
	verb(t, "", "health", "ls", at, "-o", "xml").want(t, exitUsage)
}

const slothText = `version: prometheus/v1
service: shop
slos:
  - name: availability
    objective: 99.9
    sli:
      events:
        error_query: sum(rate(http_requests_total{code=~"5.."}[{{.window}}]))
        total_query: sum(rate(http_requests_total[{{.window}}]))
`

func TestSLOImportAndExport(t *testing.T) {
	got := verb(t, slothText, "slo", "import", "-")
	got.want(t, exitOK, "note: stdin:8:22: slos[0].sli.events.error_query: is not carried over", "1 SLOs")
	var log conf.Log
	set := openslo.Parse(conf.File{Name: "x", Data: []byte(got.out)}, &log)
	if log.Err() != nil || len(set.Objectives) != 1 || set.Objectives[0].ID != "shop-availability" {
		t.Fatalf("imported\n%s\nreads as %+v, %v", got.out, set, log.Err())
	}
	verb(t, slothText, "slo", "import", "-", "--strict").want(t, exitHold)
	verb(t, strings.Replace(slothText, "99.9", "100", 1), "slo", "import", "-").want(t, exitNo, "error: stdin:5:16: slos[0].objective: must be below 100 %")
	verb(t, "kind: Pod\n", "slo", "import", "-").want(t, exitNo, "must be a document of OpenSLO, Sloth, Pyrra or slo-generator")
	verb(t, "", "slo", "import", "-").want(t, exitNo, "no document")

	file := filepath.Join(t.TempDir(), "slo.yaml")
	if err := os.WriteFile(file, []byte(got.out), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"slo", "export", "-o", "prometheus", "--from", file}, {"slo", "rules", "-o", "prometheus", "--from", file, "shop-availability"}} {
		rules := verb(t, "", args...)
		rules.want(t, exitOK)
		if !strings.Contains(rules.out, "alert: BreakwaterSLOBurn") || !strings.Contains(rules.out, "> 14.4 and") {
			t.Errorf("%v writes\n%s", args, rules.out)
		}
	}
	if again := verb(t, "", "slo", "export", "--from", file); again.code != exitOK || again.out != got.out {
		t.Errorf("exported again, it is\n%s\nand was\n%s", again.out, got.out)
	}
	verb(t, "", "slo", "export", "--from", file, "nobody").want(t, exitUnknown, "no SLO nobody")
	verb(t, "", "slo", "rules").want(t, exitUsage)
	report := verb(t, "", "slo", "report", "--control="+fakeControl(t, 200, "# Error budgets"))
	if report.code != exitOK || report.out != "# Error budgets" {
		t.Errorf("slo report: %+v", report)
	}
	verb(t, "", "slo", "report", "-o", "pdf").want(t, exitUsage)
}

// The samples of docs/slo-import.md and docs/health.md are what they say.
func TestSamplesOfImportAndHealthPages(t *testing.T) {
	page, err := os.ReadFile("../../docs/slo-import.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	sample, _, _ := strings.Cut(rest, "```")
	got := verb(t, sample, "slo", "import", "-", "-o", "table")
	got.want(t, exitOK)
	if !strings.Contains(got.out, "shop-availability  shop     99.9    30d") {
		t.Errorf("the sample gives\n%s", got.out)
	}
	for note := range strings.SplitSeq(string(page), "\n") {
		name, value, ok := strings.Cut(note, "` | `")
		key, isNote := strings.CutPrefix(name, "| `breakwater/")
		if !ok || !isNote || key == "planned-events" { // which needs a calendar
			continue
		}
		value, _, _ = strings.Cut(value, "`")
		text := "apiVersion: openslo/v1\nkind: SLO\nmetadata:\n  name: a\n  annotations: {breakwater/" + key + ": \"" + value + "\"}\nspec:\n  service: s\n" +
			"  indicator: {spec: {ratioMetric: {good: {metricSource: {type: breakwater, spec: {class: good}}}, total: {metricSource: {type: breakwater, spec: {class: valid}}}}}}\n" +
			"  timeWindow: [{duration: 30d, isRolling: true}]\n  budgetingMethod: Occurrences\n  objectives: [{target: 0.999}]\n"
		var log conf.Log
		if openslo.Parse(conf.File{Name: key, Data: []byte(text)}, &log); log.Err() != nil {
			t.Errorf("breakwater/%s: %v", key, log.Err())
		}
	}
	page, err = os.ReadFile("../../docs/health.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		var c slo.HealthCounts
		var h string
		if n, _ := fmt.Sscanf(line, "| %d | %d | %d | %d | %d | %s |", &c.Requests, &c.Retried, &c.Retries, &c.Recovered, &c.Failed, &h); n < 6 {
			continue
		}
		rows++
		if s := c.Score(); fmt.Sprintf("%d.%04d", s.PPM/1_000_000, (s.PPM%1_000_000+50)/100) != h {
			t.Errorf("%s: scores %d", line, s.PPM)
		}
	}
	if rows != 4 {
		t.Errorf("%d rows of scores", rows)
	}
}
