// Package clients drives the dialects with the products' own code. It is a module
// of its own, so that what they need is no business of breakwater's: the test
// TestProductsOwnClients in the directory above runs it against a real gate.
package clients

import (
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// gate is where the dialects are served.
func gate(t *testing.T) string {
	t.Helper()
	base := os.Getenv("BREAKWATER_TEST_GATE")
	if base == "" {
		t.Fatal("BREAKWATER_TEST_GATE is not set: run go test in the directory above")
	}
	return base
}

// state makes the gate's evaluation of service order say level; blind is one that
// is old, and away a gate that does not answer at all.
func state(t *testing.T, level string) {
	t.Helper()
	resp, err := http.Post(gate(t)+"/state?"+url.Values{"level": {level}}.Encode(), "", nil)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("set the state: %v %v", resp, err)
	}
	_ = resp.Body.Close()
}

// sample reads a document of deploy/gates, with control where the test has it.
func sample(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("../../../../deploy/gates/" + name)
	if err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(gate(t), "http://")
	text := strings.NewReplacer("breakwater-control.breakwater.svc:8081", host, "TOKEN", os.Getenv("BREAKWATER_TEST_TOKEN"),
		"{{args.service}}", "order", "{{args.ref}}", "v2", "{{args.token}}", os.Getenv("BREAKWATER_TEST_TOKEN")).Replace(string(b))
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
