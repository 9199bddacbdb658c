package report

import (
	"bytes"
	"embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	texttemplate "text/template"
	"time"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

//go:embed review.html.tmpl review.md.tmpl
var reviewFiles embed.FS

// words are what both renderings say of a review, in the same figures.
func words() map[string]any {
	return map[string]any{
		"heading": func(r Review) string { return heading(r) },
		"span":    reviewSpan,
		"day":     func(r Review, t time.Time) string { return in(r.Zone, t).Format("2 Jan") },
		"clock":   func(r Review, t time.Time) string { return in(r.Zone, t).Format("2 Jan 15:04 MST") },
		"count":   slo.Count,
		"seconds": func(n int64) string { return slo.Span(time.Duration(n) * time.Second) },
		"length":  func(n int64) string { return slo.Span(time.Duration(n) * time.Second) },
		"percent": func(ppm *int64) string {
			if ppm == nil {
				return "no data"
			}
			return slo.Percent(*ppm)
		},
		"spent": func(ppm *int64) string {
			if ppm == nil {
				return "no data"
			}
			return slo.SpentPercent(*ppm)
		},
		"ppm":    slo.Percent,
		"owner":  func(name string) string { return orElse(name, "without an owner") },
		"team":   func(t ReviewTeam) string { return orElse(t.Owner, "Without an owner") },
		"sli":    func(p ReviewPromise) string { return slo.Share(p.Period.Good, p.Period.Valid) },
		"first":  func(p ReviewPromise) string { return slo.Share(p.first.Tally.Good, p.first.Valid) },
		"amount": func(p ReviewPromise, n int64) string { return p.objective.Amount(n) },
		"unit":   func(p ReviewPromise) string { return p.objective.Unit() },
		"verdict": func(p ReviewPromise) string {
			return map[slo.Verdict]string{slo.Kept: "kept", slo.Broken: "broken", slo.NotKnown: "no data"}[p.Verdict]
		},
		"saved":   saved,
		"moved":   moved,
		"cause":   causeWords,
		"causes":  topCauses,
		"chart":   burnDown,
		"plural":  plural,
		"summary": summary,
		"passed":  passed,
		"cell": func(s string) string {
			return strings.NewReplacer("|", "\\|", "\n", " ", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "[", "\\[").Replace(s)
		},
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%s %s", slo.Count(int64(n)), many)
}

func in(zone string, t time.Time) time.Time {
	if loc, err := time.LoadLocation(zone); err == nil {
		return t.In(loc)
	}
	return t.UTC()
}

func heading(r Review) string {
	from := in(r.Zone, r.From)
	switch slo.Unit(r.Period) {
	case slo.Quarter:
		return fmt.Sprintf("Quarter %d of %d", (int(from.Month())-1)/3+1, from.Year())
	case slo.Month:
		return from.Format("January 2006")
	}
	year, week := from.ISOWeek()
	return fmt.Sprintf("Week %d of %d", week, year)
}

func reviewSpan(r Review) string {
	// The last day is the one before To begins.
	last := in(r.Zone, r.To.Add(-time.Second))
	return fmt.Sprintf("%s to %s (%s)", in(r.Zone, r.From).Format("Mon 2 Jan 2006"), last.Format("Mon 2 Jan 2006"), r.Zone)
}

// summary says the outcome in one sentence.
func summary(t ReviewTotal) string {
	s := fmt.Sprintf("%d of %s kept", t.Kept, plural(t.Promises, "promise", "promises"))
	if t.Broken > 0 {
		s += fmt.Sprintf(", %d broken", t.Broken)
	}
	if t.NoData > 0 {
		s += fmt.Sprintf(", %d without data", t.NoData)
	}
	if t.Freezes > 0 {
		s += ", " + plural(t.Freezes, "freeze", "freezes")
	}
	if t.FrozenSeconds > 0 {
		s += fmt.Sprintf(", frozen for %s", slo.Span(time.Duration(t.FrozenSeconds)*time.Second))
	}
	return s + "."
}

// passed says how often a freeze was passed, in one sentence.
func passed(c freeze.OverrideCount) string {
	if c.Asked+c.Granted+c.Used+c.Revoked == 0 {
		return "Nobody asked for an override, and none was used."
	}
	s := fmt.Sprintf("%s asked for, %s granted, used %s", plural(int(c.Asked), "override", "overrides"), slo.Count(c.Granted), plural(int(c.Used), "time", "times"))
	if c.Revoked > 0 {
		s += fmt.Sprintf(", %s revoked", slo.Count(c.Revoked))
	}
	return s + "; by the audit."
}

// saved tells what retries hid from clients.
func saved(p ReviewPromise) string {
	if p.first.Valid == 0 {
		return ""
	}
	return fmt.Sprintf("Without retries %s would have been good; retries turned %s failures into answers.",
		slo.Share(p.first.Tally.Good, p.first.Valid), slo.Count(max(p.first.Tally.Bad-p.period.Tally.Bad, 0)))
}

// moved is how the promise's own budget changed over the period.
func moved(p ReviewPromise) string {
	left := func(b Budget) string {
		if b.RemainingPPM == nil {
			return "no data"
		}
		return slo.Percent(*b.RemainingPPM)
	}
	if p.Start.RemainingPPM == nil && p.End.RemainingPPM == nil {
		return "no data"
	}
	return left(p.Start) + " → " + left(p.End)
}

func causeWords(p Portion) string {
	switch {
	case p.Kind == slo.ByUnknown:
		return "no known cause"
	case p.Title != "" && p.Title != p.Ref:
		return fmt.Sprintf("%s %s: %s", p.Kind, p.Ref, p.Title)
	}
	return fmt.Sprintf("%s %s", p.Kind, p.Ref)
}

// mostCauses bounds how many are listed; JSON has all.
const mostCauses = 5

func topCauses(p ReviewPromise) []Portion { return p.Causes[:min(len(p.Causes), mostCauses)] }

// HTML writes r as one page that needs nothing beside itself: no script, no font, no
// picture from elsewhere.
func (r Review) HTML(w io.Writer) error {
	t, err := htmltemplate.New("review.html.tmpl").Funcs(words()).ParseFS(reviewFiles, "review.html.tmpl")
	if err != nil {
		return fmt.Errorf("review as a page: %w", err)
	}
	return execute(w, t.Execute, r)
}

// Markdown writes r as Markdown.
func (r Review) Markdown(w io.Writer) error {
	t, err := texttemplate.New("review.md.tmpl").Funcs(words()).ParseFS(reviewFiles, "review.md.tmpl")
	if err != nil {
		return fmt.Errorf("review as Markdown: %w", err)
	}
	return execute(w, t.Execute, r)
}

// execute writes all or nothing: half a report looks like a whole one.
func execute(w io.Writer, run func(io.Writer, any) error, r Review) error {
	var b bytes.Buffer
	if err := run(&b, r); err != nil {
		return fmt.Errorf("render a review: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
