package deploy_test

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// samples reads every document of gates/, so that none is a text that nobody reads.
func samples(t *testing.T) map[string][]map[string]any {
	t.Helper()
	names, err := filepath.Glob("gates/*")
	if err != nil || len(names) < 8 {
		t.Fatalf("%d samples, %v", len(names), err)
	}
	out := map[string][]map[string]any{}
	for _, name := range names {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		dec := yaml.NewDecoder(f) // JSON is YAML
		for {
			var doc map[string]any
			if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			out[filepath.Base(name)] = append(out[filepath.Base(name)], doc)
		}
	}
	return out
}

// Each command line that a sample runs is known to the binary, and each address of
// the gate that it asks is one that control serves.
func TestGateSamplesNameWhatThereIs(t *testing.T) {
	routes, err := os.ReadFile("../cmd/breakwater/dialects.go")
	if err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob("gates/*")
	address := regexp.MustCompile(`/api/v1(/gate/[a-z_/]+)`)
	line := regexp.MustCompile(`(?m)^\s*(?:- )?breakwater (.+)$`)
	commands, addresses := 0, 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range line.FindAllStringSubmatch(string(text), -1) {
			commands++
			known(t, strings.Fields(m[1]))
		}
		for _, m := range address.FindAllStringSubmatch(string(text), -1) {
			addresses++
			if m[1] != "/gate/decision" && !strings.Contains(string(routes), `"`+m[1]+`"`) {
				t.Errorf("%s asks %s, which control does not serve", name, m[1])
			}
		}
	}
	if commands < 2 || addresses < 8 {
		t.Errorf("found %d commands and %d addresses", commands, addresses)
	}
}

func TestGateSamples(t *testing.T) {
	docs := samples(t)
	var hook map[string]any
	for _, d := range docs["kubernetes-webhook.yaml"] {
		switch d["kind"] {
		case "ValidatingWebhookConfiguration":
			hook = d["webhooks"].([]any)[0].(map[string]any)
		case "Deployment":
			for _, c := range at(d, "spec", "template", "spec", "containers").([]any) {
				var args []string
				for _, a := range c.(map[string]any)["args"].([]any) {
					args = append(args, a.(string))
				}
				known(t, args)
			}
		}
	}
	rule := hook["rules"].([]any)[0].(map[string]any)
	text, err := json.Marshal([]any{hook["failurePolicy"], hook["sideEffects"], rule["resources"], rule["operations"], hook["namespaceSelector"]})
	if err != nil {
		t.Fatal(err)
	}
	// Closed, without scale and status, never the system's namespaces or our own.
	if want := `["Fail","NoneOnDryRun",["deployments","statefulsets","daemonsets"],["CREATE","UPDATE"],{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system","kube-public","kube-node-lease","breakwater"]}],"matchLabels":{"breakwater.dev/gate":"enforce"}}]`; string(text) != want {
		t.Errorf("the webhook is registered as\n%s, want\n%s", text, want)
	}
	// Flagger's rollback hook is inverted: it must not share an address with the others.
	for _, w := range at(docs["flagger-canary.yaml"][0], "spec", "analysis", "webhooks").([]any) {
		w := w.(map[string]any)
		kind, url := w["type"].(string), w["url"].(string)
		if want := map[string]string{"rollback": "/flagger/rollback?", "event": "/flagger/event?"}[kind]; want != "" && !strings.Contains(url, want) || want == "" && !strings.Contains(url, "/flagger/confirm?") {
			t.Errorf("hook %s asks %s", kind, url)
		}
	}
	stage := docs["spinnaker-stage.json"][0]
	if stage["successStatuses"] != "ALLOWED" || stage["terminalStatuses"] != "DENIED" || stage["statusUrlResolution"] != "locationHeader" || stage["statusJsonPath"] != "$.status" {
		t.Errorf("the stage: %v", stage)
	}
	if a := at(docs["harness-step.yaml"][0], "step", "spec", "assertion").(string); !strings.Contains(a, `<+json.select("decision", httpResponseBody)> == "allow"`) {
		t.Errorf("the step asserts %s", a)
	}
}

func at(doc map[string]any, path ...string) any {
	var v any = doc
	for _, p := range path {
		v = v.(map[string]any)[p]
	}
	return v
}
