package config

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/retry"
	"breakwater/gateway/route"
	"breakwater/internal/conf"
)

var update = flag.Bool("update", false, "write the golden files anew")

func load(t *testing.T, paths ...string) (files []conf.File) {
	t.Helper()
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, conf.File{Name: filepath.Base(p), Data: data})
	}
	return files
}

func parse(text string) (*Config, *conf.Log) {
	var log conf.Log
	return Parse([]conf.File{{Name: "gw.yaml", Data: []byte(text)}}, &log), &log
}

// Each bad document is told in the very words of its golden file, at the lines
// that carry the mark "# wrong", and nowhere else.
func TestBadDocuments(t *testing.T) {
	paths, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d bad documents, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			files := load(t, path)
			var log conf.Log
			Parse(files, &log)
			got := log.All().Error() + "\n"
			golden := strings.TrimSuffix(path, ".yaml") + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("got\n%swant\n%s", got, want)
			}
			var marked, told []int
			for i, line := range strings.Split(string(files[0].Data), "\n") {
				if strings.Contains(line, "# wrong") {
					marked = append(marked, i+1)
				}
			}
			for _, m := range log.Errors() {
				told = append(told, m.Line)
			}
			if told = slices.Compact(told); !slices.Equal(told, marked) {
				t.Errorf("mistakes in lines %v, want %v", told, marked)
			}
			if Loadable(&log) != strings.Contains(path, "enabled-missing") {
				t.Error("loadable is wrong")
			}
		})
	}
}

func TestMistakesAreDistinct(t *testing.T) {
	paths, _ := filepath.Glob("testdata/bad/*.golden")
	place := regexp.MustCompile(`[\w-]+\.yaml:\d+:\d+`)
	seen := map[string]string{}
	for _, p := range paths {
		data, _ := os.ReadFile(p)
		text := place.ReplaceAllString(string(data), "")
		if other, twice := seen[text]; twice {
			t.Errorf("%s says what %s says", p, other)
		}
		seen[text] = p
	}
}

func TestGoodDocuments(t *testing.T) {
	var log conf.Log
	c := Parse(load(t, "testdata/good/shop.yaml", "testdata/good/ponytail.yaml"), &log)
	if all := log.All(); len(all) > 0 {
		t.Fatalf("got\n%v", all)
	}
	if g := c.Gateway; g.Name != "shop-gateway" || g.Control != "http://127.0.0.1:8081" || g.CallerHeader != "X-Caller" || g.Spool.MaxBytes != 256<<20 || g.Caps.MaxPPM != 500_000 || g.Caps.MaxLatency != 10*time.Second || g.Caps.MaxSleeps != 200 {
		t.Errorf("gateway %+v", g)
	}
	u, ok := c.Upstream("order")
	if !ok || len(u.Endpoints) != 3 || u.ConnectTimeout != 500*time.Millisecond || u.Endpoints[0] != (Endpoint{Address: "127.0.0.1:9001", Instance: "order-1", Rack: "a", Zone: "z1"}) {
		t.Errorf("upstream %+v", u)
	}
	create, get, health := c.Routes[0], c.Routes[1], c.Routes[2]
	want := retry.Config{Enabled: true, MaxRetries: 1, PerTry: 900 * time.Millisecond, OnStatus: []int{502, 504}, BackoffBase: 100 * time.Millisecond, Fallback: retry.Return503, Idempotent: true}
	if !equal(create.Retry, want) || !create.Core || create.Timeout != 4*time.Second {
		t.Errorf("order-create %+v", create)
	}
	// A ponytail file is the policy of routes without their own.
	if !equal(get.Retry, ponytail()) || get.Core || !get.FaultVisible || get.Match.Host != "*.shop.example" || !slices.Equal(get.Match.Headers, []route.Header{{Name: "X-Canary", Value: "yes"}}) {
		t.Errorf("order-get %+v", get)
	}
	if !health.NoFaults || !health.Core {
		t.Errorf("order-health %+v", health)
	}
	if _, err := route.Compile(c.Matches()); err != nil {
		t.Error(err)
	}
}

func ponytail() retry.Config {
	return retry.Config{Enabled: true, MaxRetries: 2, PerTry: 800 * time.Millisecond, OnStatus: []int{502, 503, 504}, BackoffBase: 250 * time.Millisecond, Fallback: retry.PassThrough}
}

func equal(a, b retry.Config) bool {
	statuses := slices.Equal(a.OnStatus, b.OnStatus)
	a.OnStatus, b.OnStatus = nil, nil
	return statuses && a.PerTry == b.PerTry && a.MaxRetries == b.MaxRetries && a.Enabled == b.Enabled && a.BackoffBase == b.BackoffBase &&
		a.Fallback == b.Fallback && a.Idempotent == b.Idempotent && a.BareOn503 == b.BareOn503 && a.TrustKey == b.TrustKey
}

const head = `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "127.0.0.1:9001"}]
---
apiVersion: breakwater/v1
kind: Route
name: r
service: order
match: {path: /}
upstream: order
`

// warnings returns the codes of what is doubtful in text, which must have no mistakes.
func warnings(t *testing.T, text string) (codes []string) {
	t.Helper()
	_, log := parse(text)
	if err := log.Err(); err != nil {
		t.Fatal(err)
	}
	for _, w := range log.Warnings() {
		codes = append(codes, w.Code)
	}
	slices.Sort(codes)
	return codes
}

func TestWarnings(t *testing.T) {
	six := "retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502], backoff_base: 250ms, fallback_strategy: pass_through}\n"
	tests := []struct {
		name, text string
		want       []string
	}{
		{"nothing to say", head + "timeout: 4s\n" + six, nil},
		{"V-12 exactly the worst case", head + "timeout: 3300ms\n" + six, nil},
		{"V-12 a millisecond less", head + "timeout: 3299ms\n" + six, []string{"W-DEADLINE"}},
		{"W-UNIT", head + strings.Replace(six, "800ms", "1s", 1), []string{"W-UNIT"}},
		{"more than two retries", head + strings.Replace(six, "max_retries: 2", "max_retries: 3", 1), []string{"W-RETRIES"}},
		{"defaults of the text", head + "retry: {enabled: true}\n", []string{"W-MISSING", "W-MISSING", "W-MISSING", "W-MISSING", "W-MISSING"}},
		{"switched off needs no more", head + "timeout: 1s\nretry: {enabled: false}\n", nil},
		{"an upstream nobody uses", head + "---\napiVersion: breakwater/v1\nkind: Upstream\nname: spare\nendpoints: [{address: \"a:1\"}]\n", []string{"W-UNUSED"}},
		{"a service nobody owns", head + "---\napiVersion: breakwater/v1\nkind: Service\nname: other\n", []string{"W-SERVICE"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := warnings(t, tt.text); !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

// V-13 and X139: the wait must be strictly shorter than a try, and a file that
// has it otherwise is refused without a panic.
func TestPolicies_V13_X139(t *testing.T) {
	for _, tt := range []struct {
		base, per string
		ok        bool
	}{{"250ms", "800ms", true}, {"800ms", "800ms", false}, {"500ms", "300ms", false}, {"1s", "1000ms", false}, {"799ms", "800ms", true}} {
		text := head + "retry: {enabled: true, max_retries: 2, per_try_timeout: " + tt.per + ", retry_on_status: [502], backoff_base: " + tt.base + ", fallback_strategy: pass_through}\n"
		_, log := parse(text)
		if errs := log.Errors(); Loadable(log) != tt.ok || !tt.ok && (len(errs) != 1 || errs[0].Code != "E-BACKOFF") {
			t.Errorf("%s under %s: %v", tt.base, tt.per, errs)
		}
	}
}

func TestNoBlockMeansNoRetries(t *testing.T) {
	c, log := parse(head)
	if !Loadable(log) || c.Routes[0].Retry.Enabled || c.Routes[0].Timeout != 15*time.Second {
		t.Errorf("got %+v, %v", c.Routes[0], log.All())
	}
}

func TestRequireSignalOn503(t *testing.T) {
	c, log := parse(head + "require_signal_on_503: false\nretry: {enabled: true}\n")
	if !Loadable(log) || !c.Routes[0].Retry.BareOn503 {
		t.Errorf("got %+v, %v", c.Routes[0].Retry, log.Errors())
	}
}

func TestBarePonytailAlone(t *testing.T) {
	var log conf.Log
	c := Parse(load(t, "testdata/good/ponytail.yaml"), &log)
	if len(log.All()) > 0 || len(c.Routes) != 0 {
		t.Errorf("got %v", log.All())
	}
	var twice conf.Log
	Parse(load(t, "testdata/good/ponytail.yaml", "testdata/good/ponytail.yaml"), &twice)
	if len(twice.Errors()) != 1 {
		t.Errorf("two of them: %v", twice.All())
	}
}

// The hash is of what is in force, not of how it is written.
func TestHashIsOfTheEffectiveValues(t *testing.T) {
	a, _ := parse(head + "timeout: 2s\n")
	b, _ := parse("# a comment\n" + head + "timeout: 2000ms\ncore: false\n")
	c, _ := parse(head + "timeout: 3s\n")
	if a.Hash != b.Hash || a.Hash == c.Hash || a.Revision != a.Hash[:12] {
		t.Errorf("hashes %s, %s, %s", a.Hash, b.Hash, c.Hash)
	}
}

func TestNothingAtAllIsAConfig(t *testing.T) {
	var log conf.Log
	if c := Parse(nil, &log); !Loadable(&log) || c.Gateway.Listen != ":8080" || c.Hash == "" {
		t.Errorf("got %+v, %v", c, log.All())
	}
}

// Whatever stands in a file, Parse ends; and what it says may be loaded can be
// compiled, has a policy whose waits fit its tries, and no address it must not have.
func FuzzParse(f *testing.F) {
	paths, _ := filepath.Glob("testdata/*/*.yaml")
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var log conf.Log
		c := Parse([]conf.File{{Name: "f", Data: data}}, &log)
		if !Loadable(&log) {
			return
		}
		if _, err := route.Compile(c.Matches()); err != nil {
			t.Fatal(err)
		}
		for _, r := range c.Routes {
			u, ok := c.Upstream(r.Upstream)
			if !ok || len(u.Endpoints) == 0 || r.Name == "" || r.Timeout <= 0 {
				t.Fatalf("route %+v", r)
			}
			if r.Retry.Enabled && (r.Retry.BackoffBase >= r.Retry.PerTry || r.Retry.PerTry <= 0 || r.Retry.MaxRetries > 5 || len(r.Retry.OnStatus) == 0) {
				t.Fatalf("policy %+v", r.Retry)
			}
			for _, e := range u.Endpoints {
				if strings.HasPrefix(e.Address, "169.254.") || e.Address == "" {
					t.Fatalf("endpoint %q", e.Address)
				}
			}
		}
		if n, err := strconv.ParseUint(c.Revision, 16, 64); err != nil || n == 0 {
			t.Fatalf("revision %q", c.Revision)
		}
	})
}
