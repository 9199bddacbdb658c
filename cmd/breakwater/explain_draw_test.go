package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/gateway/explain"
)

// agreeRoute is a generated policy.
type agreeRoute struct {
	name, path, upstream, yaml string
	gate                       bool // its error-rate gate is shut
	class                      bool // its tries are short
	jitter                     string
}

func pick[T any](rnd *rand.Rand, of ...T) T { return of[rnd.IntN(len(of))] }

// drawRoute makes route i with a policy of its own.
func drawRoute(rnd *rand.Rand, i int) agreeRoute {
	r := agreeRoute{name: fmt.Sprintf("route-%d", i), path: fmt.Sprintf("/r/%d", i)}
	r.upstream = pick(rnd, "live1", "live1", "live1", "live1", "live3", "live3", "live3", "dead1", "dead2", "broke", "sick")
	r.class = rnd.IntN(2) == 0
	var b strings.Builder
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("apiVersion: breakwater/v1\nkind: Route\nname: %s\nservice: agree\ncore: true\nmatch: {path: %s}\nupstream: %s", r.name, r.path, r.upstream)
	say("timeout: %s", pick(rnd, "30s", "30s", "30s", "900ms"))
	for _, key := range []string{"idempotent", "trust_idempotency_key"} {
		if rnd.IntN(3) == 0 {
			say("%s: true", key)
		}
	}
	if rnd.IntN(4) == 0 {
		say("require_signal_on_503: false")
	}
	if rnd.IntN(4) == 0 {
		say("degrade: {action: %s, on: [%s]}", pick(rnd, "fail_fast", "pass_through", "return_default, default: {status: 203, body: none}"), pick(rnd, "open", "failure", "open, failure"))
	}
	conditional := rnd.IntN(2) == 0
	say("retry:")
	say("  enabled: %t", rnd.IntN(20) > 0)
	say("  max_retries: %d", pick(rnd, 0, 1, 2, 2, 3))
	say("  per_try_timeout: %s", map[bool]string{true: "400ms", false: "10s"}[r.class])
	statuses := pick(rnd, "[502, 503, 504]", "[503]", "[504, 503, 500]", "[500, 502]", "[502]")
	say("  retry_on_status: %s", statuses)
	base := 2 + rnd.IntN(15)
	say("  backoff_base: %dms", base)
	say("  fallback_strategy: %s", pick(rnd, "pass_through", "pass_through", "return_503"))
	r.jitter = pick(rnd, "additive_base", "proportional", "full", "decorrelated")
	say("  jitter: %s", r.jitter)
	say("  retry_after_mode: %s", pick(rnd, "wait", "wait", "signal_only"))
	say("  on_connect_timeout: %s", pick(rnd, "other_host", "other_host", "never"))
	if rnd.IntN(4) == 0 {
		say("  max_backoff: %dms", base+rnd.IntN(20))
	}
	if rnd.IntN(4) == 0 {
		say("  max_retry_after: 500ms")
	}
	if rnd.IntN(5) == 0 {
		say("  backend_status_header: X-Load")
	}
	if rnd.IntN(3) == 0 {
		say("  replay_cap: 1KiB")
	}
	if rnd.IntN(5) == 0 {
		say("  tenants: {vip: {backoff_base: %dms}}", 1+rnd.IntN(30))
	}
	if rnd.IntN(12) == 0 {
		say("  observe: true")
	}
	switch {
	case r.upstream == "sick" && rnd.IntN(2) == 0:
		r.gate = true
		say("  error_rate_gate: 5%%")
	case rnd.IntN(4) == 0: // on, and never with enough to judge by
		say("  error_rate_gate: {threshold: 5%%, min_requests: 1000000}")
	}
	if conditional {
		b.WriteString(drawConditions(rnd))
	}
	r.yaml = b.String()
	return r
}

func drawConditions(rnd *rand.Rand) string {
	simple := func() string {
		return pick(rnd, "header_exists: X-Hint", "header_exists: x-backend-status", "header_value_match: {key: X-Backend-Status, value: overloaded}",
			"header_value_match: {key: x-ratelimit-remaining, value: \"0\"}", "retry_after_header: true", "x_backend_status: throttled",
			"body_contains: pool exhausted")
	}
	primary := func() string {
		return pick(rnd, "status_code_match: [503]", "status_code_match: [500, 503, 504]", "status_code_match: [502]",
			"status_code_match: [429, 503]", "latency_exceeds: 250ms", simple())
	}
	var b strings.Builder
	b.WriteString("conditions:\n")
	mode := pick(rnd, "confirm", "confirm", "annotate")
	if rnd.IntN(2) == 0 {
		b.WriteString("  rules:\n")
		for range 1 + rnd.IntN(3) {
			p, action := primary(), pick(rnd, "retry", "retry", "never", "fallback")
			secondary := rnd.IntN(2) == 0
			if strings.Contains(p, "429") && action == "retry" {
				secondary, mode = true, "confirm"
			}
			fmt.Fprintf(&b, "    - primary: {%s}\n      action: %s\n      secondary_mode: %s\n", p, action, mode)
			if secondary {
				fmt.Fprintf(&b, "      secondary: [{%s}]\n", simple())
			}
			if rnd.IntN(4) == 0 {
				b.WriteString("      max_retries: 1\n")
			}
			if rnd.IntN(4) == 0 {
				b.WriteString("      fallback_strategy: return_503\n")
			}
		}
		return b.String()
	}
	fmt.Fprintf(&b, "  secondary_mode: %s\n  secondary: [{%s}", mode, simple())
	if rnd.IntN(3) == 0 {
		fmt.Fprintf(&b, ", {%s}", simple())
	}
	b.WriteString("]\n")
	if rnd.IntN(3) == 0 {
		if p := primary(); !strings.Contains(p, "429") || mode == "confirm" {
			fmt.Fprintf(&b, "  primary: {%s}\n", p)
		}
	}
	return b.String()
}

// draw makes n pairs of which explain has one opinion, however slow the machine is.
func (w *agreement) draw(n int) []*pair {
	w.t.Helper()
	var out []*pair
	for tries := 0; len(out) < n; tries++ {
		if tries > 20*n {
			w.t.Fatalf("of %d pairs drawn only %d can be held against a gateway", tries, len(out))
		}
		r := w.routes[w.rnd.IntN(len(w.routes))]
		p := &pair{id: fmt.Sprintf("pair-%d", len(out)), route: r, sample: w.drawSample(r)}
		var err error
		if p.want, err = w.engine.Explain(p.sample); err != nil {
			w.t.Fatal(err)
		}
		late := p.sample
		late.Answers = slices.Clone(late.Answers)
		for i := range late.Answers {
			late.Answers[i].LatencyMS += slack.Milliseconds()
		}
		other, err := w.engine.Explain(late)
		if err != nil {
			w.t.Fatal(err)
		}
		if opinion(p.want) == opinion(other) && p.want.AtLeast == p.want.Retries && p.want.TakesMS[1] < 2500 {
			out = append(out, p)
		}
	}
	return out
}

// opinion is what of an answer must not hang on how fast the machine is.
func opinion(a explain.Answer) string {
	s := fmt.Sprint(a.AtLeast, a.Retries, a.Status, a.Skip)
	for _, t := range a.Tries {
		s += fmt.Sprint(" ", t.Status, t.Failure, t.Reason, t.Skip)
	}
	return s
}

func (w *agreement) drawSample(r agreeRoute) explain.Sample {
	rnd := w.rnd
	s := explain.Sample{Method: pick(rnd, "GET", "GET", "GET", "DELETE", "PUT", "POST", "PATCH"), Path: r.path, Headers: explain.Headers{}, At: time.Now()}
	s.BudgetEmpty, s.ErrorRateHigh = r.upstream == "broke", r.gate
	if s.Method != "GET" && s.Method != "DELETE" {
		s.BodyBytes = pick[int64](rnd, 0, 10, 1024, 1025, 5000, 80<<10)
	}
	if rnd.IntN(4) == 0 {
		s.Headers["Idempotency-Key"] = explain.Values{pick(rnd, "k-1", "")}
	}
	if rnd.IntN(4) == 0 {
		s.Headers["X-Tenant"] = explain.Values{pick(rnd, "vip", "other")}
	}
	if rnd.IntN(20) == 0 {
		s.Headers["Retry-Count"] = explain.Values{pick(rnd, "1", "0", "2")}
	}
	if rnd.IntN(20) == 0 {
		s.Headers["X-Breakwater-Deadline-Ms"] = explain.Values{pick(rnd, "800", "60000", "nonsense")}
	}
	for n := range 4 {
		s.Answers = append(s.Answers, drawReply(rnd, r, n))
	}
	return s
}

func drawReply(rnd *rand.Rand, r agreeRoute, n int) explain.Reply {
	if strings.HasPrefix(r.upstream, "dead") {
		return explain.Reply{Failure: "dial"}
	}
	if (r.upstream != "sick" || n > 0) && rnd.IntN(10) == 0 {
		failures := []string{"reset_before_first_byte", "bad_response"}
		if r.class || strings.Contains(r.yaml, "latency_exceeds") && rnd.IntN(3) == 0 {
			failures = append(failures, "try_timeout", "try_timeout")
		}
		return explain.Reply{Failure: pick(rnd, failures...)}
	}
	reply := explain.Reply{Headers: explain.Headers{}, Status: pick(rnd, 200, 200, 201, 400, 404, 429, 429, 500, 500, 501, 502, 502, 503, 503, 503, 503, 504)}
	if r.upstream == "sick" && n == 0 {
		reply.Status = pick(rnd, 500, 502, 503, 503, 504)
	}
	maybe := func(name string, values ...string) {
		if rnd.IntN(3) == 0 {
			reply.Headers[name] = explain.Values{pick(rnd, values...)}
		}
	}
	maybe("X-Backend-Status", "overloaded", "overloaded", "Overloaded", "throttled")
	maybe("Retry-After", "0", "0", "1", "30", "9223372037", "soon", "-1", "Sun, 06 Nov 1994 08:49:37 GMT", "Fri, 31 Dec 2199 23:59:59 GMT")
	maybe("X-Ratelimit-Remaining", "0", "7")
	maybe("X-Load", "overloaded", "fine")
	maybe("X-Hint", "1")
	if rnd.IntN(25) == 0 {
		reply.Headers["Retry-Count"] = explain.Values{"1"}
	}
	if rnd.IntN(12) == 0 {
		reply.Headers["Content-Encoding"] = explain.Values{"gzip"}
	}
	if rnd.IntN(3) == 0 {
		reply.Headers["X-Backend-Status"] = explain.Values{"other", "overloaded"} // any of several may match
	}
	if strings.Contains(r.yaml, "latency_exceeds") && rnd.IntN(6) == 0 {
		reply.LatencyMS = 330 // between what a rule calls slow and the end of a try
	}
	reply.Body = pick(rnd, "", "ok", `{"error": "pool exhausted"}`)
	return reply
}

// census is what the pairs were about: a generator that never comes to a decision
// proves nothing about it.
type census struct {
	counts map[string]int
	waits  map[string]*spread
}

// spread is where in their ranges waits of one kind lie, in thousandths.
type spread struct{ n, sum int64 }

// wait takes in a wait whose range is wide enough to say something.
func (c *census) wait(jitter string, retry int, planned [2]int64, was int64) {
	width := planned[1] - planned[0]
	if width < 8 {
		return
	}
	if c.waits == nil {
		c.waits = map[string]*spread{}
	}
	key := fmt.Sprintf("%s, retry %d", jitter, retry)
	if c.waits[key] == nil {
		c.waits[key] = &spread{}
	}
	c.waits[key].n++
	c.waits[key].sum += (was - planned[0]) * 1000 / width
}

// spread checks that waits use their ranges: one that were always short would lie
// within the bounds too.
func (c *census) spread(t *testing.T) {
	t.Helper()
	const enough = 60
	for _, key := range slices.Sorted(maps.Keys(c.waits)) {
		s := c.waits[key]
		if mean := s.sum / s.n; s.n >= enough && (mean < 200 || mean > 700) {
			t.Errorf("%s: waits lie at %d of 1000 of their range, in the mean of %d", key, mean, s.n)
		} else {
			t.Logf("%s: at %d of 1000, %d waits", key, mean, s.n)
		}
	}
}

func (c *census) add(a *explain.Answer) {
	if c.counts == nil {
		c.counts = map[string]int{}
	}
	for _, t := range a.Tries {
		switch {
		case t.Skip != "":
			c.counts["skip "+t.Skip]++
		case t.Reason != "":
			c.counts["retry"]++
		default:
			c.counts["good"]++
		}
	}
}

func (c *census) String() string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(c.counts)) {
		parts = append(parts, fmt.Sprintf("%s %d", k, c.counts[k]))
	}
	return strings.Join(parts, ", ")
}

// reserve binds a port without listening there.
func reserve(t *testing.T) (string, error) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return "", err
	}
	at, err := syscall.Getsockname(fd)
	if err != nil {
		return "", err
	}
	return net.JoinHostPort("127.0.0.1", fmt.Sprint(at.(*syscall.SockaddrInet4).Port)), nil
}
