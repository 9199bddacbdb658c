package conformance_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"maps"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/gateway/config"
)

// known lists the cases that fail. It must match exactly: a case that starts to
// pass is to be taken out, here and in README.md.
var known = []string{}

func TestHostile(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for real limits of 5 and 10 s: part of make test, not of make check")
	}
	for _, face := range []string{config.FrontStandard, config.FrontAuto} {
		t.Run(face, func(t *testing.T) {
			t.Parallel() // most of the time they wait
			hostile(t, face)
		})
	}
}

func hostile(t *testing.T, face string) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("the runner needs python3: apt-get install python3")
	}
	up, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	upstream := up.Addr().String()
	if err := up.Close(); err != nil { // the runner takes the port
		t.Fatal(err)
	}

	address := listen(t, config.Gateway{Front: face}, config.Upstream{Endpoints: []config.Endpoint{{Address: upstream}}})
	cmd := exec.CommandContext(t.Context(), python, "run-http-hostile", "--upstream", upstream, address)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	runErr := cmd.Run() // 1 where a case failed: the lines say which
	failed := map[string]string{}
	failure := regexp.MustCompile(`^FAIL (X\d+) (.*)$`)
	summary := ""
	for s := bufio.NewScanner(&out); s.Scan(); {
		if m := failure.FindStringSubmatch(s.Text()); m != nil {
			failed[m[1]] = m[2]
		} else {
			summary = s.Text()
		}
	}
	if !strings.HasSuffix(summary, " failed") {
		t.Fatalf("the runner did not finish: %v, last line %q, stderr:\n%s", runErr, summary, errs.String())
	}
	t.Log(summary)
	for _, id := range slices.Sorted(maps.Keys(failed)) {
		if !slices.Contains(known, id) {
			t.Errorf("%s %s", id, failed[id])
		}
	}
	for _, id := range known {
		if _, still := failed[id]; !still {
			t.Errorf("%s passes now: take it off the list of known failures", id)
		}
	}
}

func TestReadmeListsWhatFails(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ ID string }
	raw, err := os.ReadFile("http-hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		listed := regexp.MustCompile(`(?m)^- ` + c.ID + `\b`).Match(readme)
		if want := slices.Contains(known, c.ID); listed != want {
			t.Errorf("README.md lists %s as failing: %v, want %v", c.ID, listed, want)
		}
	}
}
