package breakwater_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// vendored is what others wrote and we keep unchanged.
var vendored = regexp.MustCompile(`(^|/)(vendor|node_modules)/`)

func TestTopLevel(t *testing.T) {
	allowed := strings.Fields(`.ci .git .gitignore ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE Makefile README.md
		cmd deploy docs gateway go.mod go.sum house_test.go house_texts_test.go injector internal migrations scenarios slo web
		bin .state`) // the last two are ignored by git
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(allowed, e.Name()) {
			t.Errorf("%s: not a room of the house", e.Name())
		}
	}
}

// A path of one machine; put together, or this file would be the first to fail.
var foreignPath = regexp.MustCompile(`(^|[\s"'=(:` + "`" + `])/wo` + `rk/`)

var link = regexp.MustCompile(`\]\(([^)\s#]+)(#[^)\s]*)?\)`)

func TestTexts(t *testing.T) {
	err := walk(func(name string) error {
		if vendored.MatchString(name) || name == ".git" { // a file in a linked tree
			return nil
		}
		b, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if bytes.IndexByte(b, 0) >= 0 {
			return nil // no text
		}
		if n := bytes.Count(b, []byte{'\n'}); n > 400 && slices.Contains([]string{".go", ".sql", ".css", ".js", ".mjs", ".sh"}, path.Ext(name)) {
			t.Errorf("%s: %d lines, at most 400", name, n)
		}
		if bytes.Contains(b, []byte("/wo"+"rk/")) { // far cheaper than the expression
			if m := foreignPath.Find(b); m != nil {
				t.Errorf("%s names a path of one machine: %q", name, m)
			}
		}
		if path.Ext(name) != ".md" {
			return nil
		}
		for _, m := range link.FindAllSubmatch(b, -1) {
			to := string(m[1])
			if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), filepath.FromSlash(to))); err != nil {
				t.Errorf("%s: link to %s leads nowhere", name, to)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
