package main

import (
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// TestUX_J1 is the weekly game day of an SRE, in a browser and from the install on:
// web/e2e/gameday.journey.mjs goes from a demo that has just come up to a finding that the
// second game day has closed.
func TestUX_J1(t *testing.T) {
	if slow(t) {
		return
	}
	dir := filepath.Join(t.TempDir(), "state")
	installed := time.Now()
	d := startDemo(t, dir)
	browseWith(t, d.url, filepath.Join(dir, "demo"), []string{"INSTALLED=" + strconv.FormatInt(installed.UnixMilli(), 10)}, "gameday.journey.mjs")()
	d.stop()
}
