package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// Report is what the validator says of documents.
type Report struct {
	OK       bool          `json:"ok"` // no mistakes; warnings may be
	Errors   int           `json:"errors"`
	Warnings int           `json:"warnings"`
	Findings conf.Mistakes `json:"findings"`
	Routes   int           `json:"routes"`
	Revision string        `json:"config_revision,omitempty"` // of what would serve, where OK
	Hash     string        `json:"config_hash,omitempty"`
	Files    []string      `json:"files"`
}

// Validate reads documents as a gateway would. It is stricter in two points: a
// retry policy without `enabled` is a mistake, though a gateway loads it, and so
// are files that hold no document at all. Files without a route are good here,
// though a gateway would not serve by them: they may be for control alone.
func Validate(files []conf.File) Report {
	var log conf.Log
	cfg := config.Parse(files, &log)
	empty(files, &log)
	r := Report{Errors: len(log.Errors()), Warnings: len(log.Warnings()), Findings: log.All(), Routes: len(cfg.Routes)}
	if r.OK = r.Errors == 0; r.OK {
		r.Revision, r.Hash = cfg.Revision, cfg.Hash
	}
	for _, f := range files {
		r.Files = append(r.Files, f.Name)
	}
	if r.Findings == nil {
		r.Findings = conf.Mistakes{}
	}
	return r
}

// empty tells of files that hold no document: a mistake where none of them holds
// any, since a file that was cut off or a wrong directory must not pass as good,
// else only doubtful. What cannot be read has been told of.
func empty(files []conf.File, log *conf.Log) {
	var none []conf.File
	for _, f := range files {
		var own conf.Log
		if len(conf.Split(f, &own)) == 0 && own.Err() == nil {
			none = append(none, f)
		}
	}
	for _, f := range none {
		m := log.Add(f.Name, 1, 1, "must hold a document, got none").Coded("E-EMPTY").
			Hint("a document begins with apiVersion, kind and name; of a directory *.yaml and *.yml are read")
		if len(none) < len(files) {
			m.IsWarning, m.Code = true, "W-EMPTY"
		}
	}
}

// Code is the exit code of the validator: 1 for mistakes, 3 for warnings where
// strict, else 0.
func (r Report) Code(strict bool) int {
	switch {
	case !r.OK:
		return 1
	case strict && r.Warnings > 0:
		return 3
	}
	return 0
}

// Formats are those that Write knows.
func Formats() []string { return []string{"table", "json", "github", "sarif", "junit"} }

// Write renders r as text for people (table), as json, as annotations of a pull
// request (github), or for what reads analyses (sarif) and test results (junit).
// strict makes failures of warnings, where a format tells the two apart.
func (r Report) Write(w io.Writer, format string, strict bool) error {
	switch format {
	case "", "text", "table":
		return r.text(w)
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "github":
		return r.github(w)
	case "sarif":
		return r.sarif(w)
	case "junit":
		return r.junit(w, strict)
	}
	return fmt.Errorf("format must be one of %s, got %q", strings.Join(Formats(), ", "), format)
}

func (r Report) text(w io.Writer) error {
	var b strings.Builder
	for _, m := range r.Findings {
		if m.IsWarning {
			b.WriteString("warning: ")
		}
		b.WriteString(m.Error() + "\n")
	}
	switch {
	case r.OK:
		fmt.Fprintf(&b, "ok: %d routes, %d warnings, revision %s\n", r.Routes, r.Warnings, r.Revision)
	default:
		fmt.Fprintf(&b, "%d mistakes, %d warnings\n", r.Errors, r.Warnings)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
