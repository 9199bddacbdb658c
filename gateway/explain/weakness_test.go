package explain

import (
	"strings"
	"testing"

	"breakwater/internal/conf"
)

const sturdy = `apiVersion: breakwater/v1
kind: Upstream
name: order
connect_timeout: 100ms
concurrency: {kind: fixed, max: 50}
endpoints: [{address: "10.0.0.1:80"}, {address: "10.0.0.2:80"}]
---
apiVersion: breakwater/v1
kind: Upstream
name: copies
endpoints: [{address: "10.0.0.3:80"}]
---
apiVersion: breakwater/v1
kind: Service
name: order
core: true
concurrency: {kind: fixed, max: 100}
breaker: {windows: 1, slow_after: 1s, slow_rate: "50%"}
---
apiVersion: breakwater/v1
kind: Route
name: order-get
service: order
match: {methods: [GET], path: "/orders/{id}"}
upstream: order
timeout: 3s
mirror: {upstream: copies}
degrade: {action: last_good}
retry: {enabled: true, max_retries: 1, per_try_timeout: 1s, retry_on_status: [502, 503], backoff_base: 50ms, fallback_strategy: pass_through}
`

// Each weakness stands at its field; a document without any has none told.
func TestWeaknesses(t *testing.T) {
	tests := []struct{ name, from, to, want string }{
		{"sound", "", "", ""},
		{"try over total", "per_try_timeout: 1s", "per_try_timeout: 3s", "W-PER-TRY gw.yaml:29: retry.per_try_timeout"},
		{"no total", "timeout: 3s\n", "", "W-NO-TOTAL gw.yaml:20: timeout"},
		{"slow connect", "connect_timeout: 100ms", "connect_timeout: 1s", "W-CONNECT gw.yaml:4: connect_timeout"},
		{"no budget", "connect_timeout: 100ms", "connect_timeout: 100ms\nretry_budget: off", "W-BUDGET gw.yaml:5: retry_budget"},
		{"pause ignored", "backoff_base: 50ms", "backoff_base: 50ms, retry_after_mode: signal_only", "W-RETRY-AFTER gw.yaml:29: retry.retry_after_mode"},
		{"slow unseen", "slow_after: 1s", "slow_after: 10s", "W-SLOW gw.yaml:18: breaker.slow_after"},
		{"blind", "slow_after: 1s", "ignore_statuses: [504], slow_after: 1s", "W-BLIND gw.yaml:18: breaker.ignore_statuses"},
		{"every 5xx counts", "slow_after: 1s", "count_statuses: [500], unlisted_5xx: failure, slow_after: 1s", ""},
		{"probe storm", "slow_after: 1s", "half_open: {probes: 50}, slow_after: 1s", "W-HALF-OPEN gw.yaml:18: breaker.half_open.probes"},
		{"watches", "slow_after: 1s", "observe: true, slow_after: 1s", "W-OBSERVE gw.yaml:18: breaker.observe"},
		{"never filled", "methods: [GET]", "methods: [POST]", "W-LAST-GOOD gw.yaml:28: degrade.action"},
		{"no limit", "concurrency: {kind: fixed, max: 100}\nbreaker", "breaker", ""}, // that of the endpoints bounds it
		{"above capacity", "max: 100", "max: 101", "W-LIMIT-ABOVE gw.yaml:17: concurrency.max"},
		{"one endpoint", `, {address: "10.0.0.2:80"}]`, "]\nejection: {}", "W-ONE-ENDPOINT gw.yaml:6: endpoints W-LIMIT-ABOVE gw.yaml:18: concurrency.max"},
		{"all ejected", "connect_timeout: 100ms", "connect_timeout: 100ms\nejection: {max_percent: \"100%\"}", "W-EJECT gw.yaml:5: ejection.max_percent"},
		{"live mirror", "10.0.0.3:80", "10.0.0.2:80", "W-MIRROR gw.yaml:27: mirror.upstream"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(sturdy, tt.from, tt.to, 1)
			if tt.from != "" && text == sturdy {
				t.Fatal("nothing was changed")
			}
			files := []conf.File{{Name: "gw.yaml", Data: []byte(text)}}
			if r := Validate(files); !r.OK {
				t.Fatal(r.Findings)
			}
			var got []string
			for _, m := range Weaknesses(files) {
				at, _, _ := strings.Cut(m.Error(), ": is ")
				parts := strings.SplitN(at, ":", 4)
				got = append(got, m.Code+" "+parts[0]+":"+parts[1]+": "+m.Path)
				if !m.IsWarning || !strings.Contains(m.Error(), "(") {
					t.Errorf("no warning that says what is right: %v", m)
				}
			}
			if all := strings.Join(got, " "); all != tt.want {
				t.Errorf("got %q, want %q", all, tt.want)
			}
		})
	}
	if got := Weaknesses([]conf.File{{Name: "gw.yaml", Data: []byte("kind: Route\n")}}); got != nil {
		t.Errorf("a mistaken document: %v", got)
	}
}

// Nothing that can be written makes the finder fall over, and what is no mistake to
// the validator it can look at.
func FuzzWeaknesses(f *testing.F) {
	f.Add(sturdy)
	f.Add("enabled: true\nmax_retries: 1\n")
	f.Add("apiVersion: breakwater/v1\nkind: Service\nname: a\nbreaker: {enabled: false}\n")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range Weaknesses([]conf.File{{Name: "gw.yaml", Data: []byte(text)}}) {
			if m.Code == "" || !m.IsWarning || m.Line < 1 {
				t.Errorf("%+v", m)
			}
		}
	})
}
