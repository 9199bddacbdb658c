package config

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/limiter"
)

const quotaDoc = `---
apiVersion: breakwater/v1
kind: Quota
name: tenants
rate: 1000/s
burst: 50
key: tenant
replicas: 4
store: {url: "rediss://redis.internal:6380/2", username: gw, password_file: /run/secrets/redis}
`

func TestLimit(t *testing.T) {
	second := func(n, burst int64) limiter.Rate { return limiter.Rate{Tokens: n, Per: time.Second, Burst: burst} }
	tests := []struct {
		name, text string
		want       limiter.Config
	}{
		{"a rate alone", "{rate: 100/s}", limiter.Config{Rate: second(100, 100), Key: limiter.Key{By: limiter.ByRoute}}},
		{"in minutes", "{rate: 6/m}", limiter.Config{Rate: limiter.Rate{Tokens: 6, Per: time.Minute, Burst: 6}, Key: limiter.Key{By: limiter.ByRoute}}},
		{"in tens of seconds", "{rate: 50/10s, burst: 1}", limiter.Config{Rate: limiter.Rate{Tokens: 50, Per: 10 * time.Second, Burst: 1}, Key: limiter.Key{By: limiter.ByRoute}}},
		{"burst is all there is at once", "{rate: 10/s, burst: 5}", limiter.Config{Rate: second(10, 5), Key: limiter.Key{By: limiter.ByRoute}}},
		{"burst is extra", "{rate: 10/s, burst: 5, burst_mode: extra}", limiter.Config{Rate: second(10, 6), Key: limiter.Key{By: limiter.ByRoute}}},
		{"no extra at all", "{rate: 10/s, burst: 0, burst_mode: extra}", limiter.Config{Rate: second(10, 1), Key: limiter.Key{By: limiter.ByRoute}}},
		{"by header", "{rate: 10/s, key: {header: x-api-key}, cost: 3}", limiter.Config{Rate: second(10, 10), Key: limiter.Key{By: limiter.ByHeader, Header: "X-Api-Key"}, Cost: limiter.Cost{Tokens: 3}}},
		{"cost by header", "{rate: 10/s, cost: {header: x-cost, max: 4}}", limiter.Config{Rate: second(10, 10), Key: limiter.Key{By: limiter.ByRoute}, Cost: limiter.Cost{Tokens: 1, Header: "X-Cost", Max: 4}}},
		{"a quota alone", "{quota: tenants, observe: true}", limiter.Config{Key: limiter.Key{By: limiter.ByRoute}, Quota: "tenants", Observe: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := head + "limit: " + tt.text + "\n"
			if strings.Contains(tt.text, "quota") {
				text += quotaDoc
			}
			c, log := parse(text)
			if all := log.All(); len(all) > 0 {
				t.Fatal(all)
			}
			if tt.want.Cost.Tokens == 0 {
				tt.want.Cost.Tokens = 1
			}
			if tt.want.Rate.Tokens > 0 {
				tt.want.Missing, tt.want.MaxKeys = limiter.PeerIP, limiter.DefaultMaxKeys
			}
			if got := c.Routes[0].Limit; got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
	if c, _ := parse(head); c.Routes[0].Limit.Active() || strings.Contains(marshal(t, c), "limit") {
		t.Error("no limit is a limit")
	}
}

func TestQuota(t *testing.T) {
	c, log := parse(head + "limit: {quota: tenants}\n" + quotaDoc)
	if all := log.All(); len(all) > 0 {
		t.Fatal(all)
	}
	q, ok := c.Quota("tenants")
	want := Quota{
		limiter.QuotaConfig{
			Name: "tenants", Rate: limiter.Rate{Tokens: 1000, Per: time.Second, Burst: 50}, Key: limiter.Key{By: limiter.ByTenant},
			Missing: limiter.PeerIP, OnError: limiter.LocalShare, Replicas: 4, MaxKeys: limiter.DefaultMaxKeys,
		},
		QuotaStore{"rediss://redis.internal:6380/2", "gw", "/run/secrets/redis"},
	}
	if !ok || q != want {
		t.Errorf("got %+v, want %+v", q, want)
	}
	for _, url := range []string{"redis://redis", "redis://127.0.0.1:6379/15", "redis://[::1]:6379", "unix:///run/redis/redis.sock", "unix:///run/redis/redis.sock?db=2"} {
		text := strings.Replace(quotaDoc, `{url: "rediss://redis.internal:6380/2", username: gw, password_file: /run/secrets/redis}`, `"`+url+`"`, 1)
		if c, log := parse(head + "limit: {quota: tenants}\n" + text); log.Err() != nil || c.Quotas[0].Store.URL != url {
			t.Errorf("%s: %v", url, log.All())
		}
	}
	unused := warnings(t, head+quotaDoc)
	if len(unused) != 1 || unused[0] != "W-UNUSED" {
		t.Errorf("a quota nobody uses: %v", unused)
	}
}

// The sample of the page on limits is documents without a mistake.
func TestLimitsPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/limits.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no sample")
	}
	c, log := parse(string(m[1]))
	if all := log.All(); len(all) > 0 || len(c.Routes) != 2 || c.Routes[0].Limit.Quota != c.Quotas[0].Name {
		t.Errorf("got %+v\n%v", c.Routes, all)
	}
}

// A password in a URL would be shown by /debug/config and sent to control; it is
// not even repeated in the mistake.
func TestPasswordsAreNotTold(t *testing.T) {
	for _, url := range []string{"redis://:hunter2@redis:6379", "redis://u:hunter2@redis:%zz", "http://u:hunter2@redis", "unix://u:hunter2@/run/s"} {
		text := strings.Replace(quotaDoc, "rediss://redis.internal:6380/2", url, 1)
		c, log := parse(head + "limit: {quota: tenants}\n" + text)
		if log.Err() == nil || strings.Contains(log.All().Error()+marshal(t, c), "hunter2") {
			t.Errorf("%s: %v", url, log.All())
		}
	}
}

func marshal(t *testing.T, c *Config) string {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
