package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

var update = flag.Bool("update", false, "write the golden files anew")

func sampleReview() slo.Review {
	from := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	o := slo.Objective{ID: "order-availability", Service: "order", Owner: "shop", Title: "Orders are answered", TargetPPB: 999_500_000, Window: 30 * 24 * time.Hour}
	whole := o
	whole.Window = 7 * 24 * time.Hour
	t := slo.Tally{Good: 1_998_600, Bad: 1400, FirstTryBad: 9000, ChaosBad: 120}
	p := slo.PromiseReview{Objective: o, Env: "prod", Period: slo.Weigh(whole, t), FirstTry: slo.Weigh(whole, slo.FirstTry(t)),
		Start: slo.Weigh(o, slo.Tally{Good: 8_000_000, Bad: 1500}), End: slo.Weigh(o, slo.Tally{Good: 8_000_000, Bad: 2900}),
		Causes:  []slo.Portion{{Kind: slo.ByDeploy, Ref: "v42", Title: "new <cart>", Bad: 1000, PPM: 714_286}, {Kind: slo.ByExperiment, Ref: "e-7", Bad: 120, PPM: 85_714}, {Kind: slo.ByUnknown, Bad: 280, PPM: 200_000}},
		Freezes: 1, Frozen: 9 * time.Hour,
		Moves: []slo.Transition{{At: from.Add(60 * time.Hour), From: slo.Emergency, To: slo.Frozen, Reason: "102.1 % of the budget is spent.", Good: 7_996_000, Bad: 4082},
			{At: from.Add(69 * time.Hour), From: slo.Frozen, To: slo.Warn, Reason: "enough is back | held an hour."}}}
	left := int64(640_000)
	for i := range 56 {
		bad := int64(0)
		if i == 19 || i == 20 {
			bad = 600
			left -= 340_000
		}
		if i > 22 && i < 40 {
			left += 25_000
		}
		p.Points = append(p.Points, slo.Point{At: from.Add(time.Duration(i+1) * 3 * time.Hour), RemainingPPM: left, Valid: 30_000, Bad: bad, NoData: i == 45})
	}
	quiet := slo.Objective{ID: "coupon-availability", Service: "coupon", TargetPPB: 990_000_000, Window: 28 * 24 * time.Hour}
	slow := slo.Objective{ID: "order-latency", Service: "order", Owner: "shop", TargetPPB: 950_000_000, Window: 28 * 24 * time.Hour, Terms: &slo.Terms{Indicator: slo.Indicator{Kind: slo.Latency, Limit: 300 * time.Millisecond}}}
	good := slo.PromiseReview{Objective: slow, Env: "prod", Period: slo.Weigh(slow, slo.Tally{Good: 1_990_000, Bad: 10_000}), Start: slo.Weigh(slow, slo.Tally{Good: 1_990_000, Bad: 10_000}), End: slo.Weigh(slow, slo.Tally{Good: 1_990_000, Bad: 12_000}), Untold: 10_000}
	for i := range 56 {
		good.Points = append(good.Points, slo.Point{At: from.Add(time.Duration(i+1) * 3 * time.Hour), RemainingPPM: 900_000 - int64(i)*400, Valid: 30_000, Bad: 150 + int64(i%8)*20})
	}
	return slo.Review{Unit: slo.Week, Zone: "Europe/Berlin", From: from.Add(-time.Hour), To: from.Add(7*24*time.Hour - time.Hour), Until: from.Add(7*24*time.Hour - time.Hour), At: from.Add(8 * 24 * time.Hour),
		Teams: []slo.TeamReview{{Owner: "shop", Services: []slo.ServiceReview{{Name: "order", Env: "prod", Promises: []slo.PromiseReview{p, good}}}},
			{Services: []slo.ServiceReview{{Name: "coupon", Promises: []slo.PromiseReview{{Objective: quiet, Period: slo.Weigh(quiet, slo.Tally{}), Start: slo.Weigh(quiet, slo.Tally{}), End: slo.Weigh(quiet, slo.Tally{})}}}}}}}
}

func rendered(t *testing.T, r Review) (html, md string) {
	t.Helper()
	var a, b bytes.Buffer
	if err := r.HTML(&a); err != nil {
		t.Fatal(err)
	}
	if err := r.Markdown(&b); err != nil {
		t.Fatal(err)
	}
	return a.String(), b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile("testdata/"+name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, _ := os.ReadFile("testdata/" + name)
	if got != string(want) {
		t.Errorf("%s differs; look at it and run with -update:\n%s", name, got)
	}
}

// Page, Markdown and JSON say the same figures.
func TestReviewIsOneComputation(t *testing.T) {
	r := ReviewOf(sampleReview())
	html, md := rendered(t, r)
	golden(t, "review.html.golden", html)
	golden(t, "review.md.golden", md)
	for _, want := range []string{"Week 11 of 2026", "99.93\u202f%", "140\u202f%", "1 of 3 promises kept, 1 broken, 1 without data, 1 freeze, frozen for 9\u202fh.",
		"retries turned 7\u202f600 failures into answers", "62.5\u202f%", "71.4\u202f%", "no known cause"} {
		for name, text := range map[string]string{"page": html, "Markdown": md} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s does not say %q", name, want)
			}
		}
	}
	if !strings.Contains(html, "new &lt;cart&gt;") || strings.Contains(html, "<cart>") || strings.Contains(md, "<cart>") {
		t.Error("a title is taken for markup")
	}
	for _, banned := range []string{"<script", "http://", "https://", "NaN", "javascript:", "ZgotmplZ"} {
		if strings.Contains(html, banned) {
			t.Errorf("the page holds %q", banned)
		}
	}
	// Every number of a path is a number, within the picture.
	for _, d := range regexp.MustCompile(` d="([^"]*)"`).FindAllStringSubmatch(html, -1) {
		if !regexp.MustCompile(`^[MLZ0-9. ]+$`).MatchString(d[1]) {
			t.Errorf("path %q", d[1])
		}
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"verdict":"broken"`) || strings.Contains(string(text), "null,null,null") {
		t.Errorf("%v in %s", err, text)
	}
}

// A quarter is drawn to its end though it is counted only so far; a promise without
// points has no chart.
func TestReviewOfAQuarterThatGoesOn(t *testing.T) {
	r := sampleReview()
	r.Unit, r.Zone = slo.Quarter, "UTC"
	r.From, r.To = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	html, md := rendered(t, ReviewOf(r))
	for _, want := range []string{"Quarter 1 of 2026", "The period goes on"} {
		if !strings.Contains(html, want) || !strings.Contains(md, want) {
			t.Errorf("neither says %q", want)
		}
	}
	if !strings.Contains(html, ">15 Feb</text>") || strings.Count(html, "<svg viewBox=\"0 0 640") != 2 {
		t.Error("the chart has no months, or is drawn of nothing")
	}
	html, md = rendered(t, ReviewOf(slo.Review{Unit: slo.Week, Zone: "UTC", From: r.From, To: r.To, Until: r.To, At: r.To}))
	if !strings.Contains(html, "0 of 0 promises kept") || !strings.Contains(md, "0 of 0 promises kept") {
		t.Error("nothing is nothing")
	}
}
