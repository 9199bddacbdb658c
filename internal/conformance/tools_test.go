//go:build conformance

package conformance_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// install builds a command of another project and returns its path. Of its own in
// each run, unless BREAKWATER_TOOLS names a directory where it may lie already.
func install(t *testing.T, pkg, name string) string {
	t.Helper()
	dir := os.Getenv("BREAKWATER_TOOLS")
	if dir == "" {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, name)
	built := filepath.Join(dir, filepath.Base(pkg))
	if _, err := os.Stat(built); err == nil {
		return built
	}
	cmd := exec.CommandContext(t.Context(), "go", "install", pkg+"@latest")
	cmd.Dir = t.TempDir() // outside our module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "CGO_ENABLED=0", "GOFLAGS=-trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", pkg, err, out)
	}
	return built
}
