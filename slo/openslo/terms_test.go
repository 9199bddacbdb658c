package openslo

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

// Whatever an objective may promise can be written down and read back.
func TestTermsReadBack(t *testing.T) {
	month := slo.Calendar{Unit: slo.Month, Start: "2026-01-01 00:00:00", Zone: "America/New_York"}
	tests := map[string]slo.Terms{
		"latency":          {Indicator: slo.Indicator{Kind: slo.Latency, Limit: 300 * time.Millisecond}},
		"quantile":         {Indicator: slo.Indicator{Kind: slo.Latency, Limit: 1500 * time.Microsecond, QuantilePPB: 995_000_000}},
		"timeouts":         {Indicator: slo.Indicator{Kind: slo.DepTimeout}},
		"counters":         {Indicator: slo.Indicator{Kind: slo.RatioOf, Bad: []slo.Counter{"throttled", "bad"}, Total: []slo.Counter{"good", "bad", "throttled"}}},
		"freshness":        {Indicator: slo.Indicator{Kind: slo.Freshness, Limit: 5 * time.Minute}, Method: slo.Timeslices},
		"composite":        {Indicator: slo.Indicator{Kind: slo.Composite, Members: []slo.Member{{Objective: "a", WeightPPM: 600_000}, {Objective: "b", WeightPPM: 400_000}}}},
		"slices":           {Method: slo.Timeslices, SlicePPB: 990_000_000, Slice: 5 * time.Minute},
		"ratios of slices": {Method: slo.RatioTimeslices},
		"calendar":         {Calendar: &month, Planned: 30_000},
		"two weeks":        {Calendar: &slo.Calendar{Unit: slo.Week, Count: 2, Start: "2026-01-05 12:00:00", Zone: "UTC"}},
		"quarter":          {Calendar: &slo.Calendar{Unit: slo.Quarter, Start: "2026-01-01 00:00:00", Zone: "Europe/Berlin"}},
		"chaos excluded":   {Chaos: slo.ChaosExclude},
		"chaos capped":     {Chaos: slo.ChaosCap, ChaosCapPPM: 125_000},
		"no alerts":        {AlertsOff: true},
		"own rules":        {Pairs: []slo.Pair{pair("page", time.Hour, 20_000, nil), pair("ticket", 72*time.Hour, 420_000, nil)}},
		"guard":            {Guard: &slo.Guard{MinBad: 5, ZMilli: 1960}},
		"no guard":         {Guard: &slo.Guard{}},
		"grouped":          {GroupBy: "route", Informational: true, AspirationPPB: 999_900_000},
	}
	for name, terms := range tests {
		o := slo.Objective{ID: "x", Service: "order", Title: "x", TargetPPB: 995_000_000, Window: 28 * day, Terms: &terms}
		if c := terms.Calendar; c != nil {
			o.Window = nominal(c.Unit, c.Count)
		}
		text := Export(o)
		set, log := parse(text)
		if all := log.All(); len(all) != 0 || len(set.Objectives) != 1 {
			t.Errorf("%s: exported:\n%s\nread back: %v", name, text, all)
			continue
		}
		got := set.Objectives[0]
		got.Text = ""
		if !reflect.DeepEqual(got, o) {
			t.Errorf("%s: exported:\n%s\nread back %+v %+v, want %+v %+v", name, text, got, got.Terms, o, o.Terms)
		}
	}
}

// A calendar window of one minute is a month that somebody wrote with a small m.
func TestSLO_S33(t *testing.T) {
	_, log := parse(strings.Replace(sample(t), "- duration: 30d\n      isRolling: true", "- duration: 1m\n      calendar: {startTime: 2022-01-01 12:00:00, timeZone: America/New_York}", 1))
	if errs := log.Errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), "1 minute calendar window; did you mean 1M") {
		t.Errorf("reported %v", errs)
	}
}

// A calendar keeps its start and its zone to the letter.
func TestSLO_S35(t *testing.T) {
	calendar := "calendar:\n        startTime: 2022-01-01 12:00:00\n        timeZone: America/New_York\n"
	set, log := parse(strings.Replace(sample(t), "- duration: 30d\n      isRolling: true\n", "- duration: 1w\n      isRolling: false\n      "+calendar, 1))
	if log.Err() != nil || len(set.Objectives) != 1 {
		t.Fatal(log.Err())
	}
	o := set.Objectives[0]
	if c := o.Terms.Calendar; c == nil || *c != (slo.Calendar{Unit: slo.Week, Start: "2022-01-01 12:00:00", Zone: "America/New_York"}) {
		t.Errorf("read %+v", o.Terms)
	}
	if text := Export(o); !strings.Contains(text, calendar) {
		t.Errorf("exported:\n%s", text)
	}
}

// A ratio's operator is ignored with a word, and not written again.
func TestSLO_S54(t *testing.T) {
	set, log := parse(sample(t))
	if w := log.Warnings(); log.Err() != nil || len(w) != 1 || !strings.Contains(w[0].Error(), "op: is ignored") {
		t.Errorf("reported %v", log.All())
	}
	if text := Export(set.Objectives[0]); strings.Contains(text, "op:") {
		t.Errorf("exported:\n%s", text)
	}
}

// However a boundary is written, it is the same boundary; what is none is told.
func TestSLO_S16(t *testing.T) {
	text := func(value string) string {
		o := slo.Objective{ID: "x", Service: "order", TargetPPB: 900_000_000, Window: 28 * day, Terms: &slo.Terms{Indicator: slo.Indicator{Kind: slo.Latency, Limit: time.Second}}}
		return strings.Replace(Export(o), "value: 1\n", "value: "+value+"\n", 1)
	}
	for _, value := range []string{"1", "1.0", `"1"`, "1e0", "1.", `"1.000"`, "10e-1", "1s", "1000ms", "0.1e1", "01"} {
		set, log := parse(text(value))
		if log.Err() != nil || set.Objectives[0].Limit() != time.Second {
			t.Errorf("%s: read %+v with %v", value, set.Objectives, log.Err())
		}
	}
	for _, value := range []string{"+Inf", "-1", "0", `"one"`, "1x", "1e99", "[1]", "1e", "0.0000000001", "86401", ".", "NaN", "null"} {
		if _, log := parse(text(value)); log.Err() == nil {
			t.Errorf("%s was taken for a limit", value)
		}
	}
	for _, op := range []string{"gt", "gte"} {
		if _, log := parse(strings.Replace(text("1"), "op: lte", "op: "+op, 1)); log.Err() == nil || !strings.Contains(log.Err().Error(), "must be lte, got "+op) {
			t.Errorf("op %s: reported %v", op, log.Err())
		}
	}
}

func TestWhatAnnotationsSayIsChecked(t *testing.T) {
	for note, want := range map[string]string{
		`breakwater/chaos: "cap"`:                          "must be count, exclude or a cap",
		`breakwater/chaos: "cap 0%"`:                       "must be count, exclude or a cap",
		`breakwater/planned-events: "many"`:                "must be how many events",
		`breakwater/planned-events: "100"`:                 "planned: must go with a calendar period",
		`breakwater/aspiration: "100%"`:                    "must be below 100 %",
		`breakwater/alerts: "none"`:                        "must be on or off",
		`breakwater/burn-rules: "page 1h"`:                 "must be rules such as",
		`breakwater/burn-rules: "page 1h 2%; pager 1h 2%"`: `got "pager 1h 2%"`,
		`breakwater/burn-rules: "page 10m 2%"`:             "its long window must be whole minutes in each twelfth",
		`breakwater/guard: "k=3"`:                          `got "k=3"`,
		`breakwater/group-by: "caller"`:                    "must be route",
		`breakwater/chaso: "count"`:                        "must be a known annotation",
	} {
		_, log := parse(strings.Replace(sample(t), "  labels:\n    owner: shop\n", "  annotations:\n    other: text\n    "+note+"\n", 1))
		if errs := log.Errors(); len(errs) != 1 || !strings.Contains(errs[0].Error(), want) {
			t.Errorf("%s: reported %v, want %q", note, errs, want)
		}
	}
}
