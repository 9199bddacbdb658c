package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const browserTests = "../../web/e2e"

// browse begins browser tests against a control that has something to show; the func
// that is returned waits for their end.
func browse(t *testing.T, url, state string, files ...string) (wait func()) {
	t.Helper()
	return browseWith(t, url, state, nil, files...)
}

// browseWith is browse with more for the tests' environment.
func browseWith(t *testing.T, url, state string, env []string, files ...string) (wait func()) {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(state, "first-admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(browserTests, "node_modules", "playwright-core")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the browser tests are not installed: %v", err)
		}
		t.Skip("the browser tests are not installed: make test does it")
	}
	cmd := exec.CommandContext(t.Context(), "node", append([]string{"--test"}, files...)...)
	cmd.Dir = browserTests
	cmd.Env = append(os.Environ(), "BASE_URL="+url, "ADMIN_TOKEN="+strings.TrimSpace(string(token)), "BREAKWATER="+bin(t), "CONFIG="+filepath.Join(state, "config"))
	cmd.Env = append(cmd.Env, env...)
	out := &lockedBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return func() {
		t.Helper()
		if err := <-ended; err != nil {
			t.Errorf("%s: %v\n%s", strings.Join(files, " "), err, out)
			return
		}
		for line := range strings.SplitSeq(out.String(), "\n") {
			if strings.HasPrefix(line, "# pass") || strings.HasPrefix(line, "# tests") || strings.HasPrefix(line, "# skipped") || strings.HasPrefix(line, "# duration") || strings.Contains(line, "# J") {
				t.Log(line)
			}
		}
	}
}

// otherBrowserTests are all that npm test would run, but for those that have run.
func otherBrowserTests(t *testing.T, but []string) (files []string) {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(browserTests, "*.test.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if !slices.Contains(but, filepath.Base(f)) {
			files = append(files, filepath.Base(f))
		}
	}
	if !slices.Contains(files, "pages.test.mjs") {
		t.Errorf("nobody looks at the pages: %q", files)
	}
	return files
}
