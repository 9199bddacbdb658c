package main

import (
	"encoding/xml"
	"fmt"
	"time"
	"unicode"
)

// ended is a run that is over, as reports need it.
type ended struct {
	drill
	StartedAt  time.Time `json:"started_at"`
	EndedAt    time.Time `json:"ended_at"`
	Assertions []struct {
		ID, Phase, Text, Expected, Seen, Result, Evidence string

		N        int64
		Optional bool
	}
}

// code is the exit code that says how it ended; what never started proved nothing.
func (r ended) code() int {
	if r.Verdict == "passed" {
		return exitOK
	}
	if code := verdictCode(r.drill); code != exitOK {
		return code
	}
	return exitHold
}

func (r ended) table(io streams) error {
	var rows [][]string
	for _, a := range r.Assertions {
		result := a.Result
		if a.Optional {
			result += " (optional)"
		}
		rows = append(rows, []string{a.Phase, a.ID, result, a.Expected, a.Seen})
	}
	if len(rows) > 0 {
		if err := table(io.out, []string{"PHASE", "ASSERTION", "RESULT", "EXPECTED", "SEEN"}, rows); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(io.out, "%s %s: %s, %d of %d tries were hit\n", r.ID, r.verdict(), r.said(), r.Injected, r.Attempts)
	return err
}

func (r ended) verdict() string {
	if r.Verdict == "" || r.Verdict == "not_evaluated" {
		return r.State
	}
	return r.Verdict
}

func (r ended) said() string {
	switch {
	case r.Why != "":
		return r.Why
	case r.Reason != "":
		return r.Reason
	}
	return "nothing was judged"
}

// The part of the JUnit format that continuous integration reads: there is no
// standard; these are the elements that Jenkins, GitLab and GitHub's readers share.
type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Errors   int         `xml:"errors,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Time     string      `xml:"time,attr"`
	At       string      `xml:"timestamp,attr,omitempty"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Time    string     `xml:"time,attr"`
	Failure *junitWhy  `xml:"failure"`
	Error   *junitWhy  `xml:"error"`
	Skipped *junitSkip `xml:"skipped"`
}

type junitWhy struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",chardata"`
}

type junitSkip struct {
	Message string `xml:"message,attr"`
}

// junit is r as JUnit XML: each assertion is a case, and so is the verdict. No data
// is an error and never a pass, nor skipped, which some readers count as one.
func (r ended) junit() []byte {
	s := junitSuite{Name: printable("breakwater " + r.Scenario), Time: "0.000"}
	if !r.StartedAt.IsZero() {
		s.At = r.StartedAt.UTC().Format("2006-01-02T15:04:05")
		s.Time = fmt.Sprintf("%.3f", max(r.EndedAt.Sub(r.StartedAt), 0).Seconds())
	}
	class := printable("breakwater." + r.Scenario)
	add := func(name, result, message, text string, optional bool) {
		c := junitCase{Class: class, Name: printable(name), Time: "0.000"}
		why := &junitWhy{Message: printable(message), Type: result, Text: printable(text)}
		switch {
		case result == "pass" || result == "passed":
		case optional:
			c.Skipped = &junitSkip{printable("optional, " + result + ": " + message)}
			s.Skipped++
		case result == "fail" || result == "failed":
			c.Failure = why
			s.Failures++
		default:
			c.Error = why
			s.Errors++
		}
		s.Cases = append(s.Cases, c)
		s.Tests++
	}
	for _, a := range r.Assertions {
		add(a.Phase+" "+a.ID+": "+a.Text, a.Result, "expected "+a.Expected+", saw "+a.Seen, "evidence: "+a.Evidence, a.Optional)
	}
	add("verdict of "+r.ID, r.verdict(), r.said(), fmt.Sprintf("%d of %d tries were hit", r.Injected, r.Attempts), false)
	out, err := xml.MarshalIndent(s, "", "  ")
	if err != nil {
		panic("junit: plain values did not marshal: " + err.Error())
	}
	return append(append([]byte(xml.Header), out...), '\n')
}

// printable leaves out what XML 1.0 cannot hold (section 2.2).
func printable(s string) string {
	out := []rune{}
	for _, c := range s {
		if c == '\t' || c == '\n' || c >= ' ' && c != unicode.ReplacementChar && c != 0xFFFE && c != 0xFFFF {
			out = append(out, c)
		}
	}
	return string(out)
}
