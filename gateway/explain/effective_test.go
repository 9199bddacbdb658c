package explain

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

const shopDocs = `apiVersion: breakwater/v1
kind: Upstream
name: points
endpoints: [{address: "127.0.0.1:9001"}, {address: "127.0.0.1:9002"}]
---
apiVersion: breakwater/v1
kind: Route
name: points-get
service: points
match: {path: "/points/*", windows: ["mon-fri 09:00-17:30 Europe/Berlin"]}
upstream: points
timeout: 5s
retry:
  enabled: true
  max_retries: 1
  per_try_timeout: 800ms
  retry_on_status: [502, 503, 504]
  backoff_base: 250ms
  fallback_strategy: pass_through
`

func engineOf(t *testing.T, text string) *Engine {
	t.Helper()
	e, r := FromFiles([]conf.File{{Name: "gw.yaml", Data: []byte(text)}})
	if e == nil {
		t.Fatalf("%v", r.Findings)
	}
	return e
}

// A configuration that was sent comes back as it was, whatever it holds: those of
// the repository, with everything that documents can say.
func TestEffectiveComesBack(t *testing.T) {
	texts := map[string]string{"shop": shopDocs}
	for _, pattern := range []string{"../../deploy/*/*.yaml", "../../deploy/*.yaml", "../config/testdata/*.yaml", "../../internal/demo/*.yaml", "../../docs/*.md"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, ".md") {
				for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
					texts[file] += m[1] + "\n---\n"
				}
				continue
			}
			texts[file] = string(text)
		}
	}
	routes := 0
	for name, text := range texts {
		var log conf.Log
		cfg := config.Parse([]conf.File{{Name: name, Data: []byte(text)}}, &log)
		if !config.Loadable(&log) {
			continue
		}
		effective, err := json.Marshal(*cfg)
		if err != nil {
			t.Fatal(err)
		}
		e, whole, err := FromEffective(effective)
		if err != nil || !whole {
			t.Errorf("%s: whole %t, %v", name, whole, err)
			continue
		}
		routes += len(e.Routes())
		same, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		if c := Changes(same, e); len(c) > 0 || e.Revision() != cfg.Revision {
			t.Errorf("%s: %v", name, c)
		}
	}
	if routes < 5 {
		t.Errorf("only %d routes were compared", routes)
	}
	for _, bad := range []string{"", "{}", "[1]", `{"revision":"x","routes":[{"match":{"windows":["never"]}}]}`} {
		if _, _, err := FromEffective([]byte(bad)); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	if _, whole, err := FromEffective([]byte(`{"revision":"x","new_field":1}`)); err != nil || whole {
		t.Errorf("a field of another version: whole %t, %v", whole, err)
	}
}

func TestChangesAreNamedByPath(t *testing.T) {
	was := engineOf(t, shopDocs)
	now := engineOf(t, strings.NewReplacer("max_retries: 1", "max_retries: 2", "800ms", "1200ms", "[502, 503, 504]", "[502, 503]", `, {address: "127.0.0.1:9002"}`, "").Replace(shopDocs))
	want := map[string][2]string{
		"routes[points-get].retry.max_retries":                {"1", "2"},
		"routes[points-get].retry.per_try_timeout":            {"800ms", "1200ms"},
		"routes[points-get].retry.retry_on_status":            {"[502,503,504]", "[502,503]"},
		"upstreams[points].endpoints[127.0.0.1:9002].address": {"127.0.0.1:9002", ""},
	}
	got := Changes(was, now)
	for _, c := range got {
		if w, ok := want[c.Path]; !ok || w != [2]string{c.Was, c.Now} {
			t.Errorf("%+v", c)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d changes, want %d", len(got), len(want))
	}
	if c := Changes(nil, was); len(c) < 10 {
		t.Errorf("%d values of a new configuration", len(c))
	}
	if c := Changes(was, was); len(c) > 0 {
		t.Errorf("a configuration differs from itself: %v", c)
	}
}

func TestDocumentsWithMistakesMakeNoEngine(t *testing.T) {
	e, r := FromFiles([]conf.File{{Name: "pasted.yaml", Data: []byte(strings.Replace(shopDocs, "max_retries: 1", "max_retries: 9", 1))}})
	if e != nil || r.OK || len(r.Findings) != 1 || !strings.HasPrefix(r.Findings[0].Error(), "pasted.yaml:15:16: retry.max_retries: must be 0 to 5, got 9") {
		t.Errorf("%v, %+v", e, r)
	}
	if e, r := FromFiles([]conf.File{{Name: "pasted.yaml", Data: []byte("apiVersion: breakwater/v1\nkind: Upstream\nname: a\nendpoints: [{address: \"127.0.0.1:1\"}]\n")}}); e != nil || r.OK {
		t.Errorf("documents without a route: %+v", r)
	}
	if e, r := FromFiles(nil); e != nil || r.OK {
		t.Errorf("no documents: %+v", r)
	}
}

func TestReplayCountsWhatDiffers(t *testing.T) {
	start := time.Unix(1_700_000_000, 0).UTC()
	ev := func(id string, count int64, method string, tries ...retrylog.Try) *retrylog.Exchange {
		return &retrylog.Exchange{Count: count, RequestID: id, Start: start, End: start.Add(time.Second), Route: "points-get", Service: "points", Method: method, Tries: tries, Revision: "r"}
	}
	failed := retrylog.Try{Endpoint: "127.0.0.1:9001", Status: 502, LatencyUS: 1000, Reason: "status_code_match=502"}
	fine := retrylog.Try{Endpoint: "127.0.0.1:9002", Status: 200, LatencyUS: 1000}
	bad := failed
	bad.Skip = "attempts_exhausted"
	log := []*retrylog.Exchange{
		ev("a", 1, "GET", failed, fine), ev("b", 1, "GET", failed, bad), ev("c", 3, "GET", failed, bad), ev("d", 1, "POST", retrylog.Try{Status: 502, Reason: "status_code_match=502", Skip: "non_idempotent"}),
		ev("e", 1, "GET"), // refused: it came to no try
	}
	ask := func(was, now *Engine) Replay {
		a := Ask(was, now)
		for _, e := range log {
			a.Add(e)
		}
		return a.Done()
	}
	was := engineOf(t, shopDocs)
	if r := ask(was, was); r.Differ != 0 || r.Exchanges != 6 || r.Lines != 4 || r.Unasked != 1 || r.Retries != (Pair{5, 5}) || r.Good != (Pair{1, 1}) {
		t.Errorf("the same configuration: %+v", r)
	}
	r := ask(was, engineOf(t, strings.Replace(shopDocs, "max_retries: 1", "max_retries: 3", 1)))
	if r.Differ != 4 || len(r.Kinds) != 1 || r.Kinds[0].What != "3 retries instead of 1" || r.Kinds[0].Count != 4 || r.Retries != (Pair{5, 13}) || r.Good != (Pair{1, 1}) || len(r.Kinds[0].Examples) != 2 ||
		r.Kinds[0].Examples[0].RequestID != "b" || !strings.Contains(r.Kinds[0].Examples[0].Now, "3 retries after 250 to") {
		t.Errorf("more retries: %+v", r)
	}
	r = ask(was, engineOf(t, strings.Replace(shopDocs, "[502, 503, 504]", "[503]", 1)))
	if r.Differ != 6 || r.Retries != (Pair{5, 0}) || r.Good != (Pair{1, 0}) {
		t.Errorf("502 is not retried any more: %+v", r)
	}
	for _, k := range r.Kinds {
		if k.What != "no retry instead of 1: status_not_listed" && k.What != "stops for status_not_listed instead of non_idempotent" {
			t.Errorf("%+v", k)
		}
	}
	r = ask(was, engineOf(t, strings.Replace(shopDocs, "pass_through", "return_503", 1)))
	if r.Differ != 5 || len(r.Kinds) != 1 || r.Kinds[0].What != "the client is told 503 (return_503) instead of 502 of the upstream" || r.Retries != (Pair{5, 5}) {
		t.Errorf("another answer at the end: %+v", r)
	}
	r = ask(was, engineOf(t, strings.Replace(shopDocs, "name: points-get", "name: points-read", 1)))
	if r.Differ != 6 || len(r.Kinds) != 1 || r.Kinds[0].What != "the route is gone" {
		t.Errorf("a route that is gone: %+v", r)
	}
}
