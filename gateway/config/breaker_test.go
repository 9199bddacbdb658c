package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/breaker"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/conf"
)

// breakerOf reads a text as the breaker of a service.
func breakerOf(t testing.TB, name, text string) (cfg breaker.Config, degrade conf.Node, log *conf.Log) {
	t.Helper()
	log = new(conf.Log)
	docs := conf.Split(conf.File{Name: name, Data: []byte(text)}, log)
	if len(docs) != 1 {
		t.Fatalf("%d documents: %v", len(docs), log.All())
	}
	cfg, degrade = parseBreaker(docs[0].Root, breaker.Default())
	return cfg, degrade, log
}

// Each bad breaker is told in the very words of its golden file, at the lines that
// are marked, and nowhere else.
func TestBadBreakers(t *testing.T) {
	paths, err := filepath.Glob("testdata/breaker/*.yaml")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d bad breakers, %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, _, log := breakerOf(t, filepath.Base(path), string(text))
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
			for i, line := range strings.Split(string(text), "\n") {
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
		})
	}
}

func TestBreaker(t *testing.T) {
	std := breaker.Default
	with := func(change func(*breaker.Config)) breaker.Config {
		c := std()
		change(&c)
		return c
	}
	tests := []struct {
		name, text string
		want       breaker.Config
	}{
		{"nothing said", "{}", std()},
		{"off", "enabled: false", with(func(c *breaker.Config) { c.Disabled = true })},
		{"observed", "observe: true", with(func(c *breaker.Config) { c.Observe = true })},
		{"one window", `{windows: 1, window: 20s, bucket: 1s, error_rate: "12.5%", min_requests: 7}`, with(func(c *breaker.Config) {
			c.Windows, c.Window, c.Bucket, c.ErrorPPM, c.MinRequests = 1, 20*time.Second, time.Second, 125_000, 7
		})},
		{"two that slide", "two_windows: sliding", with(func(c *breaker.Config) { c.Sliding = true })},
		{"dual", `{rule: dual, mode: and, consecutive: 20, error_rate: "25%"}`, with(func(c *breaker.Config) {
			c.Rule, c.Windows, c.Mode, c.Consecutive, c.ErrorPPM, c.Above, c.Window = breaker.Dual, 0, breaker.And, 20, 250_000, true, 30*time.Second
		})},
		{"a row alone", `{rule: dual, mode: or, consecutive: 3, window: 10s}`, with(func(c *breaker.Config) {
			c.Rule, c.Windows, c.Mode, c.Consecutive, c.ErrorPPM, c.Above = breaker.Dual, 0, breaker.Or, 3, 0, true
		})},
		{"dual that is reached", `{rule: dual, mode: or, consecutive: 3, error_rate: "25%", threshold: reach}`, with(func(c *breaker.Config) {
			c.Rule, c.Windows, c.Mode, c.Consecutive, c.ErrorPPM, c.Window = breaker.Dual, 0, breaker.Or, 3, 250_000, 30*time.Second
		})},
		{"slow calls", `{slow_after: 2s, slow_rate: "50%"}`, with(func(c *breaker.Config) { c.SlowAfter, c.SlowPPM = 2*time.Second, 500_000 })},
		{"open times", `{open: 15s, max_open: 2m, level_decay: 10s}`, with(func(c *breaker.Config) {
			c.OpenFor, c.MaxOpen, c.Decay = 15*time.Second, 2*time.Minute, 10*time.Second
		})},
		{"open beyond the usual cap", "open: 10m", with(func(c *breaker.Config) { c.OpenFor, c.MaxOpen = 10*time.Minute, 10*time.Minute })},
		{"simple", "half_open: simple", with(func(c *breaker.Config) { c.HalfOpen.Simple = true })},
		{"simple with fewer", "half_open: {preset: simple, probes: 3}", with(func(c *breaker.Config) { c.HalfOpen.Simple, c.HalfOpen.Probes = true, 3 })},
		{"paced otherwise", `half_open: {window: 5s, probes: 10, pass_rate: "90%", pass: exceed, windows: 2, stuck: 30s}`, with(func(c *breaker.Config) {
			c.HalfOpen = breaker.Trial{Window: 5 * time.Second, Probes: 10, PassPPM: 900_000, PassAbove: true, PassWindows: 2, Stuck: 30 * time.Second}
		})},
		{"statuses", "{count_statuses: [503, 500, 429], unlisted_5xx: failure}", with(func(c *breaker.Config) {
			c.Count, c.Ignore, c.UnlistedFail = []int{429, 500, 503}, []int{408}, true
		})},
		{"a default gives way", "ignore_statuses: [503]", with(func(c *breaker.Config) { c.Count, c.Ignore = []int{500, 502, 504}, []int{503} })},
		{"nothing ignored", "ignore_statuses: []", with(func(c *breaker.Config) { c.Ignore = []int{} })},
		{"another header", "outcome_header: x-outcome", with(func(c *breaker.Config) { c.OutcomeHeader = "X-Outcome" })},
		{"no header", "read_outcome: false", with(func(c *breaker.Config) { c.OutcomeHeader = "" })},
		{
			"as service meshes write it",
			`{"windowSeconds": 10, "bucketSizeMs": 500, "errorRateThreshold": 0.3, "minRequestCount": 20, "openRecoverySeconds": 30,
			  "halfOpenMaxCalls": 5, "degradeAction": {"type": "return_default", "value": {}}}`,
			with(func(c *breaker.Config) { c.OpenFor, c.HalfOpen.Simple = 30*time.Second, true }),
		},
		{
			"a part of that", `{"countErrorStatusCodes": [500, 502], "ignoreStatusCodes": [429, 408, 503], "errorRateThreshold": 0.8}`,
			with(func(c *breaker.Config) {
				c.ErrorPPM, c.Count, c.Ignore = 800_000, []int{500, 502}, []int{408, 429, 503}
			}),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, degrade, log := breakerOf(t, "breaker.yaml", tt.text)
			if all := log.All(); len(all) > 0 {
				t.Fatal(all)
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
			if has := strings.Contains(tt.text, "degradeAction"); degrade.Present() != has {
				t.Errorf("degradeAction is given back: %v, want %v", degrade.Present(), has)
			}
		})
	}
	if got, _ := parseBreaker(conf.Node{}, breaker.DefaultEndpoint()); !reflect.DeepEqual(got, breaker.DefaultEndpoint()) {
		t.Errorf("no breaker is %+v", got)
	}
}

// Whatever is written: what is read without a mistake makes a breaker that works.
func FuzzBreaker(f *testing.F) {
	paths, _ := filepath.Glob("testdata/breaker/*.yaml")
	for _, p := range paths {
		text, _ := os.ReadFile(p)
		f.Add(string(text))
	}
	f.Add(`{rule: dual, mode: or, consecutive: 3, slow_after: 10ms, slow_rate: "1%", half_open: simple}`)
	f.Fuzz(func(t *testing.T, text string) {
		log := new(conf.Log)
		for _, d := range conf.Split(conf.File{Name: "b.yaml", Data: []byte(text)}, log) {
			cfg, _ := parseBreaker(d.Root, breaker.Default())
			if len(log.Errors()) > 0 {
				return
			}
			epoch := time.Unix(1_000_000, 0)
			b := breaker.New(cfg, breaker.Deps{Shards: 1}, epoch)
			for i := range 50 {
				now := epoch.Add(time.Duration(i*i) * 37 * time.Millisecond)
				if p, ok := b.Allow(now, 0); ok {
					b.Done(now.Add(time.Millisecond), 0, p, breaker.Failure)
				}
				s := b.Stats(now)
				if s.Failed > s.Total || s.Level < 0 || s.OpenLeft > cfg.MaxOpen {
					t.Fatalf("%+v of %+v", s, cfg)
				}
			}
		}
	})
}

// The samples of the page are what it says they are.
func TestBreakerPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/breaker.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := func(lang string) string {
		_, rest, ok := strings.Cut(string(page), "```"+lang+"\n")
		text, _, end := strings.Cut(rest, "```")
		if !ok || !end {
			t.Fatalf("no %s on the page", lang)
		}
		return text
	}
	c, log := parse(sample("yaml"))
	if errs := log.Errors(); len(errs) > 0 {
		t.Fatal(errs)
	}
	want := breaker.Default()
	want.SlowAfter, want.SlowPPM = 2*time.Second, 500_000
	if got := c.Services[0].Breaker; got == nil || !reflect.DeepEqual(*got, want) {
		t.Errorf("what is said to be shipped is %+v, want %+v", got, want)
	}
	if got := c.Services[1].Breaker; got == nil || got.Rule != breaker.Dual || got.Mode != breaker.Or || got.Consecutive != 20 {
		t.Errorf("dual is %+v", got)
	}
	if got := c.Upstreams[0].Breaker; got == nil || got.Windows != 1 || got.HalfOpen.PassWindows != 2 || got.HalfOpen.Window != 5*time.Second {
		t.Errorf("of the endpoints %+v", got)
	}
	mesh, _, meshLog := breakerOf(t, "circuitbreaker.json", sample("json"))
	if all := meshLog.All(); len(all) > 0 || mesh.OpenFor != 30*time.Second || !mesh.HalfOpen.Simple {
		t.Errorf("%+v %v", mesh, all)
	}
}

// The file of the mesh as it stands in etcd, what it answers while open included:
// it is for every service and route without a word of its own.
func TestMeshBreakerFile(t *testing.T) {
	const mesh = `---
{"windowSeconds": 10, "bucketSizeMs": 500, "errorRateThreshold": 0.3, "minRequestCount": 20, "openRecoverySeconds": 30,
 "halfOpenMaxCalls": 5, "degradeAction": {"type": "return_default", "value": {"items": []}},
 "countErrorStatusCodes": [500, 502, 503, 504], "ignoreStatusCodes": [429, 408]}
`
	c, log := parse(head + mesh)
	if all := log.Errors(); len(all) > 0 {
		t.Fatal(all)
	}
	want := breaker.Default()
	want.OpenFor, want.HalfOpen.Simple = 30*time.Second, true
	s := c.AllServices()[0]
	if got := s.BreakerConfig(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	d := c.Routes[0].Degrade
	if d.Action != fallback.ReturnDefault || !d.OnOpen || d.Default.Status != 200 || d.Default.Body != `{"items":[]}` || d.Default.Head[0].Value != "application/json" {
		t.Errorf("degrade %+v", d)
	}
	for text, said := range map[string]string{
		`{"type": "return_default"}`: "value: must be given", `{"type": "nothing"}`: "must be return_default, last_good or fail_fast",
		`{"type": "last_good", "values": 1}`: "did you mean value?", `"fail_fast"`: "must be a map",
	} {
		_, log := parse(head + "---\n{\"windowSeconds\": 10, \"degradeAction\": " + text + "}\n")
		if err := log.Err(); err == nil || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, want %q", text, err, said)
		}
	}
}
