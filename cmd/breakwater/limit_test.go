package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/limiter"
	"breakwater/gateway/route"
)

func TestLimitSize(t *testing.T) {
	for _, c := range []struct {
		line string
		code int
		says string
	}{
		{"--pool 200 --hold 50ms --headroom 0%", exitOK, "4000 requests a second: 100% of a pool of 200, each held for 50ms\n"},
		{"--pool 200 --hold 50ms --headroom 25%", exitOK, "3000 requests a second: 75% of a pool of 200, each held for 50ms\n"},
		{"--pool 200 --hold 80ms", exitOK, "1875 requests a second"},
		{"--pool 200 --hold 43.7ms", exitOK, "3432 requests a second"},
		{"--pool 200 --hold 50ms --headroom 12.5% --replicas 3", exitOK, "3500 requests a second: 87.5% of a pool of 200, each held for 50ms\n1166 a second for each of 3 gateways, or a shared quota of 3500/s\n"},
		{"--pool 200 --hold 50ms --limit 3000", exitOK, "fits: 3000 a second\n"},
		{"--pool 200 --hold 50ms --limit 3001", exitNo, "TOO HIGH: 3001 a second\n"},
	} {
		r := verb(t, "", append([]string{"limit", "size"}, strings.Fields(c.line)...)...)
		if r.want(t, c.code); !strings.Contains(r.out, c.says) {
			t.Errorf("%s: got %q, want %q", c.line, r.out, c.says)
		}
	}
	for line, says := range map[string]string{
		"":                                     "--pool: must be at least 1, got 0",
		"--pool -1 --hold 50ms":                "--pool: must be at least 1, got -1",
		"--pool 1":                             "must have one of them",
		"--pool 1 --hold 0ms":                  `--hold: must be a time`,
		"--pool 1 --hold -5ms":                 `got "-5ms"`,
		"--pool 1 --hold 50":                   `got "50"`,
		"--pool 1 --hold 1ms --headroom 100%":  `--headroom: must be a share of 0% to less than 100%, such as 25%, got "100%"`,
		"--pool 1 --hold 1ms --headroom 0.25":  `got "0.25"`,
		"--pool 1 --hold 1ms --headroom -1%":   `got "-1%"`,
		"--pool 1 --hold 1ms --replicas 0":     "--replicas: must be at least 1",
		"--pool 1 --hold 1ms --limit 0":        "--limit: must be at least 1",
		"--pool 1 --hold 1ms --upstream x":     "--upstream: must stand beside --gateway",
		"--pool 1 --hold 1ms --gateway http:x": "must have one of them",
		"--pool 1 --gateway x --upstream y":    `--gateway: must be a URL such as http://127.0.0.1:15000, got "x"`,
		"--pool 1 --hold 1ms -o yaml":          "must be table or json",
	} {
		verb(t, "", append([]string{"limit", "size"}, strings.Fields(line)...)...).want(t, exitUsage, says)
	}
	verb(t, "", "limit").want(t, exitUsage, "must be size")
}

// The page's commands say what the page says.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```\n(\\$ .*?)```").FindAllStringSubmatch(string(page), -1)
	ran := 0
	for _, block := range blocks {
		for _, one := range strings.Split("\n"+block[1], "\n$ breakwater ")[1:] {
			line, want, _ := strings.Cut(one, "\n")
			if r := verb(t, "", strings.Fields(line)...); strings.TrimSpace(r.out) != strings.TrimSpace(want) {
				t.Errorf("%s: got %q, want %q", line, r.out, want)
			}
			ran++
		}
	}
	if ran != 3 {
		t.Errorf("%d commands, want 3", ran)
	}
}

// The same check against what a running gateway has measured and is told.
func TestLimitSizeOfAGateway(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(20 * time.Millisecond) }))
	defer upstream.Close()
	cfg := config.Config{
		Upstreams: []config.Upstream{
			{Name: "order", Endpoints: []config.Endpoint{{Address: upstream.Listener.Addr().String()}}},
			{Name: "idle", Endpoints: []config.Endpoint{{Address: "127.0.0.1:1"}}},
		},
		Routes: []config.Route{{
			Name: "order", Service: "order", Upstream: "order", Match: route.Match{Path: "/*"}, Timeout: 5 * time.Second,
			Limit: limiter.Config{Rate: limiter.Rate{Tokens: 1000, Per: time.Second, Burst: 1000}, Key: limiter.Key{By: limiter.ByRoute}},
		}},
	}
	g := gateway.New(gateway.Config{Name: "gw", Env: "test"})
	if err := g.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	data, admin := httptest.NewServer(g.Handler()), httptest.NewServer(g.Admin())
	defer data.Close()
	defer admin.Close()
	line := func(upstream string, more ...string) ran {
		return verb(t, "", append([]string{"limit", "size", "--gateway", admin.URL, "--upstream", upstream}, more...)...)
	}
	line("order", "--pool", "10").want(t, exitUnknown, "has measured no hold time of order yet")
	line("idle", "--pool", "10").want(t, exitUnknown, "has measured no hold time of idle yet")
	line("other", "--pool", "10").want(t, exitUnknown, `has no upstream "other"`)
	for range 60 {
		res, err := http.Get(data.URL + "/")
		if err != nil || res.StatusCode != 200 {
			t.Fatal(res, err)
		}
		_ = res.Body.Close()
	}
	r := line("order", "--pool", "100", "-o", "json")
	r.want(t, exitOK)
	var s sizing
	if err := json.Unmarshal([]byte(r.out), &s); err != nil {
		t.Fatal(err)
	}
	// 75 % of 100 held for 20 ms and a little.
	if s.HoldUS < 20_000 || s.PerSecond > 3750 || s.PerSecond < 100 || s.Measured == nil || s.Measured.Tries < 1 || s.Measured.P50US < 19_000 {
		t.Errorf("%s", r.out)
	}
	if len(s.Limits) != 1 || s.Total != "1000" || s.Fits == nil || *s.Fits != (s.PerSecond >= 1000) {
		t.Errorf("%s", r.out)
	}
	if r := line("order", "--pool", "10"); r.code != exitNo || !strings.Contains(r.out, "TOO HIGH: 1000 a second") {
		t.Errorf("code %d\n%s", r.code, r.out)
	}
	admin.Close()
	line("order", "--pool", "10").want(t, exitUnknown, "ask the gateway")
}
