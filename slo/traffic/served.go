package traffic

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Served is a configuration in force at a gateway.
type Served struct {
	Env, Gateway string
	At           time.Time
	Revision     string
	Document     string // JSON, secrets masked

	read *policies `db:"-"`
}

type policies struct {
	breakers []Key
	limits   []Limit
}

// Read returns s with its document read once, for who asks often for its Policies.
func (s Served) Read() Served {
	breakers, limits := s.Policies()
	s.read = &policies{breakers, limits}
	return s
}

// Limit is one policy that a configuration sets, in words.
type Limit struct {
	Key
	Route string
	Text  string
}

// document is what this package reads of a configuration.
type document struct {
	Upstreams []struct {
		Name        string
		Endpoints   []struct{ Address string }
		Breaker     *breaker
		Concurrency concurrency
		RetryBudget *budget `json:"retry_budget"`
	}
	Services []struct {
		Name        string
		Breaker     *breaker
		Concurrency concurrency
	}
	Routes []struct {
		Name, Service, Upstream string
		Limit                   limit
	}
	Quotas []struct {
		Name string
		Rate rate
	}
}

type (
	breaker struct {
		Disabled    bool
		Window      time.Duration
		ErrorPPM    int64 `json:"error_ppm"`
		MinRequests int64 `json:"min_requests"`
		Consecutive int64
		OpenFor     time.Duration `json:"open_for"`
	}
	concurrency struct {
		Kind     string
		Max, Min int64
		Queue    int64
	}
	rate struct {
		Tokens, Burst int64
		Per           time.Duration
	}
	limit struct {
		Rate  rate
		Key   struct{ By, Header string }
		Quota string
	}
	budget struct {
		Kind       string
		RatioMilli int64 `json:"ratio_milli"`
		MinPerSec  int64 `json:"min_per_second"`
		Off        bool
	}
)

// Policies are the breakers that a configuration puts up, whether they ever turned or
// not, and the limits it sets. A document that cannot be read has none.
func (s Served) Policies() (breakers []Key, limits []Limit) {
	if s.read != nil {
		return s.read.breakers, s.read.limits
	}
	var d document
	if json.Unmarshal([]byte(s.Document), &d) != nil {
		return nil, nil
	}
	key := func(policy string) Key { return Key{Policy: policy, Env: s.Env, Gateway: s.Gateway} }
	seen := map[string]bool{}
	service := func(name string, b *breaker) {
		if name == "" || seen[name] {
			return
		}
		seen[name] = true
		if b == nil || !b.Disabled {
			k := key("breaker")
			k.Service = name
			breakers = append(breakers, k)
			limits = append(limits, Limit{Key: k, Text: b.text()})
		}
	}
	for _, svc := range d.Services {
		service(svc.Name, svc.Breaker)
		if svc.Concurrency.Kind != "" {
			k := key("concurrency")
			k.Service = svc.Name
			limits = append(limits, Limit{Key: k, Text: svc.Concurrency.text()})
		}
	}
	for _, r := range d.Routes {
		service(r.Service, nil)
		if r.Limit.Rate.Tokens > 0 || r.Limit.Quota != "" {
			k := key("limiter")
			k.Service = r.Service
			limits = append(limits, Limit{Key: k, Route: r.Name, Text: r.Limit.text()})
		}
	}
	for _, up := range d.Upstreams {
		if up.Breaker == nil || !up.Breaker.Disabled {
			for _, e := range up.Endpoints {
				k := key("breaker")
				k.Upstream, k.Endpoint = up.Name, e.Address
				breakers = append(breakers, k)
			}
		}
		k := key("concurrency")
		k.Upstream = up.Name
		if up.Concurrency.Kind != "" {
			limits = append(limits, Limit{Key: k, Text: up.Concurrency.text() + ", each endpoint"})
		}
		k.Policy = "retry budget"
		limits = append(limits, Limit{Key: k, Text: up.RetryBudget.text()})
	}
	for _, q := range d.Quotas {
		k := key("quota")
		k.Upstream = q.Name
		limits = append(limits, Limit{Key: k, Text: q.Rate.text() + ", shared by all gateways"})
	}
	slices.SortStableFunc(limits, func(a, b Limit) int {
		return strings.Compare(a.Policy+"\x00"+a.Name()+a.Route, b.Policy+"\x00"+b.Name()+b.Route)
	})
	return breakers, limits
}

func (b *breaker) text() string {
	if b == nil {
		return "as the gateway has it where nothing is set"
	}
	var parts []string
	if b.ErrorPPM > 0 {
		parts = append(parts, fmt.Sprintf("opens at %d.%d\u202f%% of failures", b.ErrorPPM/10_000, b.ErrorPPM/1000%10))
	}
	if b.Consecutive > 0 {
		parts = append(parts, fmt.Sprintf("%d failures in a row", b.Consecutive))
	}
	if b.MinRequests > 0 {
		parts = append(parts, fmt.Sprintf("from %d calls in %s on", b.MinRequests, b.Window))
	}
	if b.OpenFor > 0 {
		parts = append(parts, "open for "+b.OpenFor.String())
	}
	return strings.Join(parts, ", ")
}

func (c concurrency) text() string {
	text := fmt.Sprintf("%s, at most %d under way", c.Kind, c.Max)
	if c.Queue > 0 {
		text += fmt.Sprintf(", %d may wait", c.Queue)
	}
	return text
}

func (r rate) text() string { return fmt.Sprintf("%d in %s, bursts of %d", r.Tokens, r.Per, r.Burst) }

func (l limit) text() string {
	var parts []string
	if l.Rate.Tokens > 0 {
		parts = append(parts, l.Rate.text())
	}
	if l.Quota != "" {
		parts = append(parts, "quota "+l.Quota)
	}
	if l.Key.By != "" {
		parts = append(parts, "for each "+strings.TrimSpace(l.Key.By+" "+l.Key.Header))
	}
	return strings.Join(parts, ", ")
}

func (b *budget) text() string {
	switch {
	case b == nil:
		return fmt.Sprintf("%d retries a thousand first tries, as nothing else is set", DefaultRatioMilli)
	case b.Off:
		return "none: nothing bounds retries"
	}
	text := fmt.Sprintf("%d retries a thousand first tries", b.RatioMilli)
	if b.Kind == "concurrency" {
		text = fmt.Sprintf("%d retries under way a thousand requests under way", b.RatioMilli)
	}
	if b.MinPerSec > 0 {
		text += fmt.Sprintf(", at least %d a second", b.MinPerSec)
	}
	return text
}

// DefaultRatioMilli is the budget that gateways grant where nothing is set; a test of the
// command holds it against theirs.
const DefaultRatioMilli = 200

// Budgets are the retries that each upstream grants, in thousandths of a first try, of
// those whose budget is a ratio.
func (s Served) Budgets() map[string]int64 {
	var d document
	out := map[string]int64{}
	if json.Unmarshal([]byte(s.Document), &d) != nil {
		return out
	}
	for _, up := range d.Upstreams {
		switch b := up.RetryBudget; {
		case b == nil:
			out[up.Name] = DefaultRatioMilli
		case !b.Off && (b.Kind == "" || b.Kind == "ratio") && b.RatioMilli > 0:
			out[up.Name] = b.RatioMilli
		}
	}
	return out
}
