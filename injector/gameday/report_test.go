package gameday

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
	"breakwater/injector/finding"
	"breakwater/injector/readiness"
	"breakwater/injector/scenario"
)

func told(t *testing.T) Story {
	from := instant(t, "2026-03-03T10:00:00Z")
	var points []injector.Point
	for i := range 40 {
		p := injector.Point{At: from.Add(time.Duration(i*5+5) * time.Second), Good: 100}
		if i >= 10 && i < 30 {
			p.Bad = 12
		}
		points = append(points, p)
	}
	run := injector.Run{ID: "r-1", Scenario: "points-slow", Title: "Points <script>alert(1)</script> | late", Service: "points", State: injector.Completed,
		Verdict: injector.Failed, Why: "d1: expected <= 3 %, saw 12 %", StartedAt: from, BaselineAt: from, InjectAt: from.Add(50 * time.Second),
		RecoverAt: from.Add(150 * time.Second), EndedAt: from.Add(200 * time.Second), Attempts: 1000, Injected: 600, Good: 880, Bad: 120,
		Assertions: []injector.Assertion{{ID: "d1", Phase: "during", Text: "share of failed requests", Expected: "<= 3 %", Seen: "12 %", Result: injector.Fail}}}
	return Story{Now: from.Add(time.Hour), Day: scenario.GameDay{Roles: scenario.Roles{Commander: "anna", Scribe: "ben"}},
		Held: Held{ID: "g-1", Name: "weekly", Title: "Weekly", Hash: "0123456789abcdef", Needs: 1, PlannedAt: from, StartedAt: from, EndedAt: run.EndedAt,
			Text: "kind: GameDay\n", Approvals: []injector.Approved{{Day: "g-1", Actor: "carl", Hash: "0123456789abcdef", At: from}}},
		Runs: []injector.Run{run}, Timeline: []Note{{At: from, Actor: "ben", Kind: "debrief", Text: "The breaker never opened."}},
		Findings:  []finding.Finding{{ID: "f-1", Service: "points", Title: "share of failed requests", Expected: "<= 3 %", Seen: "12 %", Severity: "high", Owner: "team-points", State: finding.Open, DueAt: from}},
		Checklist: []Check{{"points", readiness.Assess(readiness.Facts{Service: "points", Now: from})}},
		Courses:   []Course{{"r-1", "points", from, run.EndedAt, run.InjectAt, run.RecoverAt, points}}}
}

func TestReportIsOneFile(t *testing.T) {
	s := told(t)
	for _, format := range []string{"html", "md"} {
		text, err := Render(s, format)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Render(s, format)
		if err != nil || string(text) != string(again) {
			t.Errorf("%s: written twice it differs, %v", format, err)
		}
		page := string(text)
		for _, want := range []string{"Weekly", "failed", "carl", "f-1", "The breaker never opened.", "600 of 1000 (60 %)", "120 of 1000 (12 %)", "team-points"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s lacks %q", format, want)
			}
		}
		for _, never := range []string{"<script", "http://127", "src=\"http", "href=\"http"} {
			if strings.Contains(page, never) {
				t.Errorf("%s holds %q", format, never)
			}
		}
	}
}

func TestChart(t *testing.T) {
	c := told(t).Courses[0]
	svg := c.SVG()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if !strings.Contains(svg, "at most 10.71 %") || !strings.Contains(svg, ">25 %<") || strings.Count(svg, "#b3261e") < 20 {
		t.Errorf("the chart is\n%s", svg)
	}
	if spark := []rune(c.Spark()); len(spark) != 40 || spark[0] != ' ' || spark[20] == ' ' || spark[39] != ' ' {
		t.Errorf("in text it is %q", c.Spark())
	}
	// Of nothing it is empty, and still a picture.
	if empty := (Course{Service: "x"}).SVG(); strings.Contains(empty, "#b3261e") || !strings.HasSuffix(empty, "</svg>") {
		t.Errorf("of nothing it is %s", empty)
	}
}
