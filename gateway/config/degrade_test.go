package config

import (
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/concurrency"
	"breakwater/gateway/policy/fallback"
	"breakwater/gateway/policy/shed"
	"breakwater/internal/conf"
)

func TestOverloadDocuments(t *testing.T) {
	var log conf.Log
	c := Parse(load(t, "testdata/good/overload.yaml"), &log)
	if all := log.All(); len(all) > 0 {
		t.Fatalf("got\n%v", all)
	}
	if got, want := c.Upstreams[0].Concurrency, (concurrency.Config{Kind: concurrency.Fixed, Max: 25}); got != want {
		t.Errorf("endpoints %+v, want %+v", got, want)
	}
	services := []struct {
		limit concurrency.Config
		tiers shed.Config
	}{
		{concurrency.Config{
			Kind: concurrency.Gradient, Max: 200, Min: 5, Initial: 30, Window: 200 * time.Millisecond,
			ProbeEvery: 30 * time.Second, ProbeSamples: 40, ProbeConcurrency: 4, Queue: 16, QueueWait: 20 * time.Millisecond, Observe: true,
		}, shed.Config{DefaultPPM: 950_000, SheddablePPM: 600_000, Observe: true}},
		{concurrency.Config{
			Kind: concurrency.Vegas, Max: 1000, Min: 3, Initial: 20, Window: 100 * time.Millisecond,
			ProbeEvery: time.Minute, ProbeSamples: 20, ProbeConcurrency: 3,
		}, shed.Config{DefaultPPM: 900_000, SheddablePPM: 750_000}},
		{concurrency.Config{
			Kind: concurrency.AIMD, Max: 2, Min: 2, Initial: 2, Window: 100 * time.Millisecond, Queue: 1, QueueWait: 50 * time.Millisecond,
		}, shed.Config{DefaultPPM: 1_000_000, SheddablePPM: 800_000}},
	}
	for i, want := range services {
		if got := c.Services[i]; got.Concurrency != want.limit || got.Shed != want.tiers {
			t.Errorf("%s: %+v and %+v, want %+v and %+v", got.Name, got.Concurrency, got.Shed, want.limit, want.tiers)
		}
	}
	routes := []struct {
		tier    shed.Tier
		degrade fallback.Config
	}{
		{shed.Critical, fallback.Config{}},
		{"", fallback.Config{
			Action: fallback.ReturnDefault, OnOpen: true, OnFailure: true,
			Default: fallback.Answer{Status: 203, Head: []exchange.Field{{Name: "X-From", Value: "stand-in"}, {Name: "Content-Type", Value: "application/json"}}, Body: `{"points": []}`},
			Keep:    fallback.Keep{MaxAge: time.Hour, MaxBody: 256 << 10, MaxSize: 64 << 20, MaxEntries: 500, Shared: true},
		}},
		{shed.Sheddable, fallback.Config{
			Action: fallback.LastGood, OnOpen: true,
			Keep: fallback.Keep{MaxAge: 5 * time.Minute, MaxBody: 64 << 10, MaxSize: 16 << 20, MaxEntries: 10_000},
		}},
	}
	for i, want := range routes {
		if got := c.Routes[i]; got.Tier != want.tier || !reflect.DeepEqual(got.Degrade, want.degrade) {
			t.Errorf("%s: %q and %+v, want %q and %+v", got.Name, got.Tier, got.Degrade, want.tier, want.degrade)
		}
	}
}

// A default that is no JSON is plain text, and a document may say otherwise.
func TestTypeOfDefaults(t *testing.T) {
	for body, want := range map[string]string{
		`body: "[]"`: "application/json", `body: sorry`: "text/plain; charset=utf-8", `status: 204`: "",
		`body: "<p>", headers: {content-type: text/html}`: "text/html",
	} {
		text := strings.Replace(routed, "timeout: 4s", "timeout: 4s\ndegrade: {action: return_default, default: {"+body+"}}", 1)
		c, log := parse(text)
		if len(log.All()) > 0 {
			t.Fatalf("%s: %v", body, log.All())
		}
		got := ""
		for _, f := range c.Routes[0].Degrade.Default.Head {
			if f.Name == "Content-Type" {
				got += f.Value
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

const routed = `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "127.0.0.1:9001"}]
---
apiVersion: breakwater/v1
kind: Route
name: order
service: order
match: {path: /orders}
upstream: order
timeout: 4s
`

// The samples of the pages can be copied as they stand.
func TestProtectionPages(t *testing.T) {
	for _, name := range []string{"degrade.md", "overload.md"} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		samples := 0
		for rest := string(page); ; samples++ {
			_, after, found := strings.Cut(rest, "```yaml\n")
			if !found {
				break
			}
			sample, next, _ := strings.Cut(after, "```")
			var log conf.Log
			Parse([]conf.File{{Name: name, Data: []byte(sample)}}, &log)
			if len(log.All()) > 0 {
				t.Errorf("sample %d of %s: %v", samples+1, name, log.All())
			}
			rest = next
		}
		if samples == 0 {
			t.Errorf("%s has no sample", name)
		}
	}
}
