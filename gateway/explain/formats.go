package explain

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"breakwater/internal/conf"
)

// The formats of machines. What stands in documents stands in findings, so each
// escapes what its reader would take for its own.

func (r Report) github(w io.Writer) error {
	var b strings.Builder
	for _, m := range r.Findings {
		fmt.Fprintf(&b, "::%s file=%s,line=%d,col=%d,title=%s::%s\n", level(m), property(m.File), m.Line, m.Col, property(rule(m)), data(sentence(m)))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func level(m *conf.Mistake) string {
	if m.IsWarning {
		return "warning"
	}
	return "error"
}

// rule is the code of a finding; those that have none share one.
func rule(m *conf.Mistake) string {
	switch {
	case m.Code != "":
		return m.Code
	case m.IsWarning:
		return "W-VALUE"
	}
	return "E-VALUE"
}

func sentence(m *conf.Mistake) string {
	text := m.Text
	if m.Path != "" {
		text = m.Path + ": " + text
	}
	if m.HintText != "" {
		text += " (" + m.HintText + ")"
	}
	return text
}

// data and property escape what a workflow command would read as its own: a
// file's name must not be able to give commands.
func data(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A").Replace(s)
}

func property(s string) string {
	return strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C").Replace(s)
}

// The parts of SARIF 2.1.0 (OASIS, Static Analysis Results Interchange Format)
// that are used, in the names of its schema.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool     `json:"tool"`
		ColumnKind string        `json:"columnKind"`
		Results    []sarifResult `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name  string      `json:"name"`
		Rules []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID    string       `json:"id"`
		Short sarifText    `json:"shortDescription"`
		Level sarifDefault `json:"defaultConfiguration"`
	}
	sarifDefault struct {
		Level string `json:"level"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifResult struct {
		RuleID    string          `json:"ruleId"`
		RuleIndex int             `json:"ruleIndex"`
		Level     string          `json:"level"`
		Message   sarifText       `json:"message"`
		Locations []sarifLocation `json:"locations"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   sarifRegion   `json:"region"`
	}
	sarifArtifact struct {
		URI string `json:"uri"`
	}
	sarifRegion struct {
		StartLine   int `json:"startLine"`
		StartColumn int `json:"startColumn"`
	}
)

const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

func (r Report) sarif(w io.Writer) error {
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "breakwater", Rules: []sarifRule{}}},
		ColumnKind: "unicodeCodePoints", // as YAML counts
		Results:    []sarifResult{},
	}
	for _, m := range r.Findings {
		id := rule(m)
		rules := &run.Tool.Driver.Rules
		at := slices.IndexFunc(*rules, func(x sarifRule) bool { return x.ID == id })
		if at < 0 {
			at = len(*rules)
			*rules = append(*rules, sarifRule{id, sarifText{meaning(id)}, sarifDefault{level(m)}})
		}
		run.Results = append(run.Results, sarifResult{
			RuleID: id, RuleIndex: at, Level: level(m), Message: sarifText{sentence(m)},
			Locations: []sarifLocation{{sarifPhysical{sarifArtifact{fileURI(m.File)}, sarifRegion{max(m.Line, 1), max(m.Col, 1)}}}},
		})
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(sarifLog{sarifSchema, "2.1.0", []sarifRun{run}})
}

// fileURI is a path as a URI reference: relative to where the command ran, or
// file:// where it is absolute.
func fileURI(path string) string {
	u := url.URL{Path: filepath.ToSlash(filepath.Clean(path))}
	if filepath.IsAbs(path) {
		u.Scheme = "file"
	}
	return u.String()
}

// meaning says what findings of a code have in common.
func meaning(code string) string {
	if text, ok := map[string]string{
		"E-UNKNOWN": "A field that no document of this kind has", "E-MISSING": "A field that must be given is missing",
		"E-DUPLICATE": "Something stands twice that must stand once", "E-EMPTY": "There is no document",
		"E-ENABLED": "A retry policy does not say whether it is on", "E-429": "429 is retried without a confirmation",
		"E-BACKOFF": "The backoff does not fit the time of a try", "E-UPSTREAM": "An upstream is named that there is none of",
		"E-ADDRESS": "An address that no upstream may have", "E-ORDER": "A rule that can never be reached",
		"W-MISSING": "A field that is better given is missing", "W-DEADLINE": "The timeout leaves no room for all tries",
		"W-RETRIES": "More retries than most upstreams bear", "W-UNIT": "Times in different units",
		"W-CONTRACT": "A retry policy and a resilience contract disagree", "W-EMPTY": "A file without a document",
		"W-UNUSED": "Something that nothing uses", "W-SERVICE": "A service that nobody owns",
		"W-ANNOTATE": "A secondary condition that does not confirm",
	}[code]; ok {
		return text
	}
	if strings.HasPrefix(code, "W-") {
		return "Something doubtful in a document"
	}
	return "A mistake in a document"
}

// The elements of JUnit's report that its readers agree on: a case for each
// finding, and for each file without any.
type (
	junitSuites struct {
		XMLName  xml.Name   `xml:"testsuites"`
		Tests    int        `xml:"tests,attr"`
		Failures int        `xml:"failures,attr"`
		Suite    junitSuite `xml:"testsuite"`
	}
	junitSuite struct {
		Name     string      `xml:"name,attr"`
		Tests    int         `xml:"tests,attr"`
		Failures int         `xml:"failures,attr"`
		Errors   int         `xml:"errors,attr"`
		Cases    []junitCase `xml:"testcase"`
	}
	junitCase struct {
		Class   string        `xml:"classname,attr"`
		Name    string        `xml:"name,attr"`
		File    string        `xml:"file,attr"`
		Line    int           `xml:"line,attr,omitempty"`
		Failure *junitFailure `xml:"failure"`
		Out     string        `xml:"system-out,omitempty"`
	}
	junitFailure struct {
		Message string `xml:"message,attr"`
		Type    string `xml:"type,attr"`
		Text    string `xml:",chardata"`
	}
)

func (r Report) junit(w io.Writer, strict bool) error {
	s := junitSuite{Name: "breakwater validate"}
	for _, m := range r.Findings {
		c := junitCase{Class: m.File, Name: fmt.Sprintf("%s at line %d:%d %s", rule(m), m.Line, m.Col, m.Path), File: m.File, Line: m.Line}
		c.Name = strings.TrimSuffix(c.Name, " ")
		if m.IsWarning && !strict {
			c.Out = "warning: " + m.Error()
		} else {
			c.Failure = &junitFailure{Message: sentence(m), Type: rule(m), Text: m.Error()}
			s.Failures++
		}
		s.Cases = append(s.Cases, c)
	}
	for _, f := range r.Files {
		if !slices.ContainsFunc(r.Findings, func(m *conf.Mistake) bool { return m.File == f }) {
			s.Cases = append(s.Cases, junitCase{Class: f, Name: "no findings", File: f})
		}
	}
	s.Tests = len(s.Cases)
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	enc := xml.NewEncoder(w)
	enc.Indent("", "  ")
	if err := enc.Encode(junitSuites{Tests: s.Tests, Failures: s.Failures, Suite: s}); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}
