package config

import (
	"slices"
	"strings"
	"testing"

	"breakwater/internal/conf"
)

const agreed = `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "127.0.0.1:9001"}]
---
apiVersion: breakwater/v1
kind: Route
name: order-get
service: order
match: {path: /orders}
upstream: order
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502, 503, 507], backoff_base: 250ms, fallback_strategy: pass_through}
---
apiVersion: breakwater/v1
kind: Route
name: order-put
service: order
match: {path: /put}
upstream: order
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502, 503, 507], backoff_base: 250ms, fallback_strategy: return_503}
---
apiVersion: breakwater/v1
kind: ResilienceContract
name: order-answers
upstream: order
answers:
`

// Where contract and policy disagree is told at the answer, with the routes that
// do otherwise and why: by asking the engine that serves.
func TestContractAgainstPolicies(t *testing.T) {
	overloaded := `  - {status: 503, header: {key: x-backend-status, value: overloaded}, meaning: the pool is exhausted, reaction: retry}` + "\n"
	bad := `  - {status: 507, meaning: it is being deployed, reaction: retry}` + "\n"
	tests := []struct {
		name    string
		answers string
		want    []string
	}{
		{"agreed", overloaded + bad, nil},
		{"any Retry-After will do", `  - {status: 503, header: Retry-After, meaning: later, reaction: retry}` + "\n" + bad, nil},
		{"a bare 503 is not asked again", overloaded + bad + "  - {status: 503, meaning: down, reaction: retry}\n",
			[]string{"29:5: answers[2]: 503 is agreed to be asked again, but each of routes order-get, order-put does not ask again (secondary_unmatched) [W-CONTRACT]"}},
		{"but may be passed on", overloaded + bad + "  - {status: 503, meaning: down, reaction: never}\n", nil},
		{"what is agreed never to be asked again", overloaded + "  - {status: 507, meaning: a bug, reaction: never}\n",
			[]string{"28:5: answers[1]: 507 is agreed to be never asked again, but each of routes order-get, order-put asks again (status_code_match=507) [W-CONTRACT]"}},
		{"a status nobody lists", overloaded + bad + "  - {status: 500, meaning: busy, reaction: retry}\n",
			[]string{"29:5: answers[2]: 500 is agreed to be asked again, but each of routes order-get, order-put does not ask again (status_not_listed) [W-CONTRACT]"}},
		{"a fallback that nobody has", overloaded + bad + "  - {status: 429, meaning: too fast, reaction: fallback}\n",
			[]string{"29:5: answers[2]: 429 is agreed to be replaced by a fallback, but each of routes order-get, order-put passes it on [W-CONTRACT]"}},
		{"a status without a word", overloaded,
			[]string{"25:11: upstream: says nothing of 507, which routes order-get, order-put have asked again (add an answer with status: 507) [W-CONTRACT]"}},
		{"a good answer that should be asked again", overloaded + bad + "  - {status: 202, meaning: not yet, reaction: retry}\n",
			[]string{"29:5: answers[2]: 202 is agreed to be asked again, but each of routes order-get, order-put takes it for good [W-CONTRACT]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, log := parse(agreed + tt.answers)
			if err := log.Err(); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, w := range log.Warnings() {
				if w.Code == "W-CONTRACT" {
					got = append(got, strings.TrimPrefix(w.Error(), "gw.yaml:"))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if len(c.Contracts) != 1 || c.Contracts[0].Upstream != "order" {
				t.Errorf("contracts %+v", c.Contracts)
			}
		})
	}
}

// Routes without retries, and copies, have nothing to agree to.
func TestContractOfRoutesThatDoNotRetry(t *testing.T) {
	text := strings.ReplaceAll(agreed, "enabled: true", "enabled: false") + "  - {status: 500, meaning: busy, reaction: retry}\n"
	if _, log := parse(text); slices.ContainsFunc(log.All(), func(m *conf.Mistake) bool { return m.Code == "W-CONTRACT" }) {
		t.Errorf("got\n%v", log.All())
	}
}

// What a route answers in an upstream's place counts too.
func TestContractAgainstDegrade(t *testing.T) {
	degrading := strings.Replace(agreed, "match: {path: /orders}\n", "match: {path: /orders}\ndegrade: {action: last_good, on: [failure]}\n", 1)
	_, log := parse(degrading + "  - {status: 500, meaning: a bug, reaction: pass}\n  - {status: 504, meaning: slow, reaction: fallback}\n")
	want := []string{
		"500 is agreed to be passed on, but route order-get puts another in its place (fail_fast)",
		"504 is agreed to be replaced by a fallback, but route order-put passes it on",
	}
	var got []string
	for _, w := range log.Warnings() {
		if w.Code == "W-CONTRACT" && strings.HasPrefix(w.Path, "answers") {
			got = append(got, w.Text)
		}
	}
	if !slices.Equal(got, want) || log.Err() != nil {
		t.Errorf("got\n%s\n%v", strings.Join(got, "\n"), log.Err())
	}
}
