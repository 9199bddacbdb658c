package explain

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/conf"
)

// odd holds what every format would take for its own, in a document and in its name.
func odd() Report {
	return Validate([]conf.File{
		{Name: "dir/a b%:,\n<&\"ü.yaml", Data: []byte("enabled: true\nmax_retries: 9\nper_try_timeout: \"25%\\n::error::x ]]> <b>&\\u0001\"\n")},
		{Name: "good.yaml", Data: []byte(routes)},
	})
}

var routes, _, _ = strings.Cut(documents, "---\nenabled") // without the policy, which may stand once

func written(t *testing.T, r Report, format string, strict bool) string {
	t.Helper()
	var out bytes.Buffer
	if err := r.Write(&out, format, strict); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// What SARIF 2.1.0 demands of a log (sections 3.13, 3.14, 3.19, 3.27, 3.28, 3.30),
// asked of the JSON itself and not of the types it was made from.
func TestSarif(t *testing.T) {
	var log struct {
		Schema  string `json:"$schema"`
		Version string `json:"version"`
		Runs    []struct {
			ColumnKind string `json:"columnKind"`
			Tool       struct {
				Driver struct {
					Name  string `json:"name"`
					Rules []struct {
						ID               string            `json:"id"`
						ShortDescription map[string]string `json:"shortDescription"`
					} `json:"rules"`
				} `json:"driver"`
			} `json:"tool"`
			Results []struct {
				RuleID    string            `json:"ruleId"`
				RuleIndex *int              `json:"ruleIndex"`
				Level     string            `json:"level"`
				Message   map[string]string `json:"message"`
				Locations []struct {
					PhysicalLocation struct {
						ArtifactLocation struct {
							URI string `json:"uri"`
						} `json:"artifactLocation"`
						Region map[string]int `json:"region"`
					} `json:"physicalLocation"`
				} `json:"locations"`
			} `json:"results"`
		} `json:"runs"`
	}
	r := odd()
	if err := json.Unmarshal([]byte(written(t, r, "sarif", false)), &log); err != nil {
		t.Fatal(err)
	}
	if log.Version != "2.1.0" || !strings.HasSuffix(log.Schema, "sarif-schema-2.1.0.json") || len(log.Runs) != 1 {
		t.Fatalf("got version %q, schema %q, %d runs", log.Version, log.Schema, len(log.Runs))
	}
	run := log.Runs[0]
	rules := run.Tool.Driver.Rules
	if run.Tool.Driver.Name != "breakwater" || len(run.Results) != len(r.Findings) || len(run.Results) < 2 || run.ColumnKind != "unicodeCodePoints" {
		t.Fatalf("got %+v", run)
	}
	seen := map[string]bool{}
	for _, rule := range rules {
		if rule.ID == "" || seen[rule.ID] || rule.ShortDescription["text"] == "" {
			t.Errorf("rule %+v", rule)
		}
		seen[rule.ID] = true
	}
	for _, x := range run.Results {
		if x.RuleIndex == nil || *x.RuleIndex < 0 || *x.RuleIndex >= len(rules) || rules[*x.RuleIndex].ID != x.RuleID {
			t.Errorf("result %+v names no rule", x)
		}
		if !slices.Contains([]string{"error", "warning", "note", "none"}, x.Level) || x.Message["text"] == "" || len(x.Locations) != 1 {
			t.Errorf("result %+v", x)
		}
		at := x.Locations[0].PhysicalLocation
		u, err := url.Parse(at.ArtifactLocation.URI)
		if err != nil || u.Path != r.Findings[0].File || u.IsAbs() {
			t.Errorf("uri %q: %v", at.ArtifactLocation.URI, err)
		}
		if at.Region["startLine"] < 1 || at.Region["startColumn"] < 1 {
			t.Errorf("region %v", at.Region)
		}
	}
	// A log without a result has an empty list and not null.
	var none bytes.Buffer
	if err := Validate([]conf.File{{Name: "good.yaml", Data: []byte(documents)}}).Write(&none, "sarif", false); err != nil ||
		!strings.Contains(none.String(), `"results": []`) || !strings.Contains(none.String(), `"rules": []`) {
		t.Errorf("%v, got\n%s", err, none.String())
	}
	if got := fileURI("/a b/c.yaml"); got != "file:///a%20b/c.yaml" {
		t.Errorf("an absolute path is %s", got)
	}
	if got := fileURI("a:b.yaml"); got != "./a:b.yaml" {
		t.Errorf("a name with a colon is %s, which reads as a scheme", got)
	}
}

// One line is one annotation, whatever stands in names and values.
func TestGitHubAnnotations(t *testing.T) {
	r := odd()
	lines := strings.Split(strings.TrimSuffix(written(t, r, "github", false), "\n"), "\n")
	if len(lines) != len(r.Findings) {
		t.Fatalf("%d findings in %d lines", len(r.Findings), len(lines))
	}
	form := regexp.MustCompile(`^::(error|warning) file=dir/a b%25%3A%2C%0A<&"ü\.yaml,line=[1-9][0-9]*,col=[1-9][0-9]*,title=[A-Z0-9-]+::[^\r\n]+$`)
	for _, line := range lines {
		if !form.MatchString(line) {
			t.Errorf("got %q", line)
		}
	}
}

func TestJUnit(t *testing.T) {
	r := odd()
	if r.Errors == 0 || r.Warnings == 0 {
		t.Fatalf("%d mistakes, %d warnings: the sample shows too little", r.Errors, r.Warnings)
	}
	var report struct {
		XMLName  xml.Name `xml:"testsuites"`
		Tests    int      `xml:"tests,attr"`
		Failures int      `xml:"failures,attr"`
		Suites   []struct {
			Name  string `xml:"name,attr"`
			Tests int    `xml:"tests,attr"`
			Cases []struct {
				Class    string `xml:"classname,attr"`
				Name     string `xml:"name,attr"`
				Failures []struct {
					Message string `xml:"message,attr"`
					Type    string `xml:"type,attr"`
					Text    string `xml:",chardata"`
				} `xml:"failure"`
				Out string `xml:"system-out"`
			} `xml:"testcase"`
		} `xml:"testsuite"`
	}
	for _, strict := range []bool{false, true} {
		report.Suites = nil
		text := written(t, r, "junit", strict)
		if err := xml.Unmarshal([]byte(text), &report); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		failures, clean := r.Errors, false
		if strict {
			failures += r.Warnings
		}
		cases := report.Suites[len(report.Suites)-1].Cases
		if report.Tests != len(cases) || len(cases) != len(r.Findings)+1 || report.Failures != failures {
			t.Errorf("strict %t: %d tests and %d failures of %d cases, want %d failures", strict, report.Tests, report.Failures, len(cases), failures)
		}
		for _, c := range cases {
			failures -= len(c.Failures)
			for _, f := range c.Failures {
				if f.Message == "" || f.Type == "" || !strings.Contains(f.Text, f.Message[:10]) || !strings.Contains(c.Class, "ü.yaml") {
					t.Errorf("case %+v", c)
				}
			}
			if (c.Out != "") != (len(c.Failures) == 0 && c.Class != "good.yaml") {
				t.Errorf("case %+v", c)
			}
			clean = clean || c.Class == "good.yaml" && len(c.Failures) == 0
		}
		if failures != 0 || !clean {
			t.Errorf("strict %t: %d failures are missing; the good file passes: %t", strict, failures, clean)
		}
	}
}
