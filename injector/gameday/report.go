package gameday

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"strings"
	text "text/template"
	"time"

	"breakwater/injector"
	"breakwater/injector/readiness"
)

//go:embed report.html.tmpl
var htmlText string

//go:embed report.md.tmpl
var mdText string

// Render writes s as one file that can be sent to people who were not there: format
// html, or md for Markdown.
func Render(s Story, format string) ([]byte, error) {
	var out bytes.Buffer
	funcs := map[string]any{
		"at":      func(t time.Time) string { return stamped(t) },
		"clock":   clock,
		"visible": visible,
		"hits":    func(r injector.Run) string { return share(r.Injected, r.Attempts) },
		"score":   func(r injector.Run) int { return injector.Score(r.Assertions) },
		"ready":   readiness.Ready,
		"word":    func(v any) string { return strings.ReplaceAll(fmt.Sprint(v), "_", " ") },
		"courses": func(run string) (all []Course) {
			for _, c := range s.Courses {
				if c.Run == run {
					all = append(all, c)
				}
			}
			return all
		},
		"lasted": func(r injector.Run) string { return span(r.StartedAt, r.EndedAt) },
		"span":   span,
		"short":  short,
		"nth":    func(wave int) int { return wave + 1 }, // people count from one
	}
	word, why := s.Verdict()
	view := struct {
		Story
		Word, Why string
	}{s, word, why}
	if format == "md" {
		funcs["picture"] = func(c Course) string {
			return "data:image/svg+xml;base64," + base64.StdEncoding.EncodeToString([]byte(c.SVG()))
		}
		funcs["cell"] = func(v any) string {
			return strings.NewReplacer("|", "\\|", "\n", " ", "\r", "", "<", "&lt;", "`", "'").Replace(fmt.Sprint(v))
		}
		t, err := text.New("md").Funcs(funcs).Parse(mdText)
		if err != nil {
			return nil, fmt.Errorf("read the report's form: %w", err)
		}
		err = t.Execute(&out, view)
		return out.Bytes(), err
	}
	// Made of integers, fixed words and names that the documents' grammar allows.
	funcs["picture"] = func(c Course) template.HTML { return template.HTML(c.SVG()) }
	t, err := template.New("html").Funcs(funcs).Parse(htmlText)
	if err != nil {
		return nil, fmt.Errorf("read the report's form: %w", err)
	}
	err = t.Execute(&out, view)
	return out.Bytes(), err
}

func stamped(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

func span(from, to time.Time) string {
	if from.IsZero() || to.IsZero() {
		return "-"
	}
	return to.Sub(from).Round(time.Second).String()
}
