package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/source"
)

const goodDocument = `
apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "127.0.0.1:9"}]
---
apiVersion: breakwater/v1
kind: Route
name: order-get
service: order
match: {methods: [GET], path: /orders}
upstream: order
timeout: 4s
`

// TestBadDocumentsNeverServe puts every bad document of the config tests before
// a gateway that follows its file: what serves stays, and each mistake is named
// at its place, on the admin port too.
func TestBadDocumentsNeverServe(t *testing.T) {
	bad, err := filepath.Glob("../../gateway/config/testdata/bad/*.yaml")
	if err != nil || len(bad) < 20 {
		t.Fatalf("%d bad documents, want at least 20: %v", len(bad), err)
	}
	g := gateway.New(gateway.Config{Name: "gw", Env: "test", Log: slog.New(slog.DiscardHandler)})
	admin := httptest.NewServer(g.Admin())
	defer admin.Close()
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, goodDocument)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src := source.File{Path: file, Poll: 2 * time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- src.Follow(ctx, applier(g, slog.New(slog.DiscardHandler), func() {})) }()

	first := follows(t, admin.URL, func(d debugConfig) bool { return d.Revision != "" })
	for _, path := range bad {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(strings.TrimSuffix(path, ".yaml") + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			// Each message of the golden file, but under the name the file has here.
			var want []string
			for line := range strings.SplitSeq(strings.TrimSpace(string(golden)), "\n") {
				if line = strings.ReplaceAll(line, filepath.Base(path), file); !strings.Contains(line, " [W-") {
					want = append(want, line)
				}
			}
			if len(want) == 1 && strings.Contains(want[0], "enabled: must be given") {
				return // the one mistake that a gateway lives with, and only the validator insists on
			}
			write(t, file, string(text))
			d := follows(t, admin.URL, func(d debugConfig) bool { return strings.Contains(d.LastError, want[0]) })
			for _, line := range want {
				if !strings.Contains(d.LastError, line) {
					t.Errorf("/debug/config does not name\n%s\nin\n%s", line, d.LastError)
				}
			}
			if d.Revision != first.Revision || d.Hash != first.Hash || d.AppliedAt != first.AppliedAt {
				t.Errorf("what serves has changed from %+v to %+v", first, d)
			}
		})
	}
	write(t, file, strings.Replace(goodDocument, "4s", "5s", 1))
	if d := follows(t, admin.URL, func(d debugConfig) bool { return d.Revision != first.Revision }); d.LastError != "" {
		t.Errorf("after a good document the last error is still %q", d.LastError)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type debugConfig struct {
	Revision  string `json:"revision"`
	Hash      string `json:"hash"`
	AppliedAt string `json:"applied_at"`
	LastError string `json:"last_error"`
}

// follows polls /debug/config until ok holds.
func follows(t *testing.T, url string, ok func(debugConfig) bool) debugConfig {
	t.Helper()
	var d debugConfig
	for end := time.Now().Add(20 * time.Second); ; {
		res, err := http.Get(url + "/debug/config")
		if err != nil {
			t.Fatal(err)
		}
		d = debugConfig{}
		err = json.NewDecoder(res.Body).Decode(&d)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if ok(d) {
			return d
		}
		if time.Now().After(end) {
			t.Fatalf("/debug/config never came to what is expected: %+v", d)
		}
	}
}

// write replaces a file in one step, as an editor does.
func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}
