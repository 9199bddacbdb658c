package openslo

import (
	"regexp"
	"slices"
	"strings"

	"breakwater/internal/conf"
	"breakwater/slo"
)

// matcher is a label matcher of a PromQL selector.
var matcher = regexp.MustCompile(`([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"`)

// less is a comparison of a duration in milliseconds, as log queries have it.
var less = regexp.MustCompile(`\b\w*(?:duration|latency|elapsed|took)\w*_(ms|s|seconds)\s*<=?\s*([0-9.]+)`)

// codes are labels that hold the status of an answer.
func codes(label string) bool {
	return slices.Contains([]string{"code", "status", "status_code", "http_status", "http_status_code", "response_code", "grpc_code"}, label)
}

// queries are those an indicator divides.
type queries struct {
	good, bad, total conf.Node
}

// counted takes queries for what breakwater counts of the same thing: requests that
// were good, or in time. The queries themselves are not carried over, and each
// warning says what stands in their place.
func (im *importer) counted(q queries, service string, t *slo.Terms) {
	part, positive := q.good, true
	if !part.Present() {
		part, positive = q.bad, false
	}
	if !part.Present() || !q.total.Present() {
		return // told of where they are missing
	}
	text := query(part)
	total := query(q.total)
	switch {
	case part.Got() == "nothing" || q.total.Got() == "nothing":
		part.Errorf("must hold queries, got nothing")
		return
	case text == "" && total == "":
		dropped(part, "it holds no query that could be told from another; requests of service %s that were good, of those that are valid, stand in its place", service)
		return
	case strings.Contains(text, "histogram_share(") || strings.Contains(text, "histogram_quantile("):
		part.Errorf("must count events, got a query for a share of time series").Hint("write an SLO with thresholdMetric class latency and its limit by hand")
		return
	case strings.HasPrefix(strings.TrimSpace(total), "vector("):
		q.total.Errorf("must count events, got %s", clip(total)).Hint("a constant is no number of requests")
		return
	}
	if le, found := boundaryOf(text); found {
		limit, err := boundary(le)
		if err != nil {
			part.Errorf("must have a limit of latency that is a number, got le=%q", le).Hint("a boundary that is no bucket's counts nothing, and +Inf counts everything")
			return
		}
		t.Indicator = slo.Indicator{Kind: slo.Latency, Limit: limit}
		part.Warnf("is not carried over: breakwater counts requests of service %s within %s itself, back-off included", service, slo.Span(limit)).Coded(codeDropped)
	} else {
		im.available(part, text, positive, service, t)
	}
	narrower(part, text, service)
}

// available takes a ratio of statuses.
func (im *importer) available(part conf.Node, text string, positive bool, service string, t *slo.Terms) {
	throttled, clients := false, false
	for _, m := range matcher.FindAllStringSubmatch(text, -1) {
		if !codes(m[1]) {
			continue
		}
		negated := strings.HasPrefix(m[2], "!")
		failures := negated == positive // what the matcher lists are failures
		if m[1] == "grpc_code" {
			part.Warnf("tells failures by gRPC codes (%s): breakwater tells them by class, which is 5xx, timeouts and cut answers", clip(m[3])).Coded(codeTaken)
			continue
		}
		throttled = throttled || failures && strings.Contains(m[3], "429")
		clients = clients || strings.Contains(m[3], "4xx") || strings.Contains(m[3], "4..")
		if positive && !negated && strings.HasPrefix(strings.TrimLeft(m[3], "(^"), "5") {
			part.Warnf("counts 5xx as good, which is hardly meant: 5xx are failures here").Coded(codeTaken)
		}
	}
	if throttled {
		t.Indicator = slo.Indicator{Kind: slo.RatioOf, Bad: []slo.Counter{"bad", "throttled"}, Total: []slo.Counter{"good", "bad", "throttled"}}
		part.Warnf("is not carried over: breakwater counts bad and throttled (429) of good, bad and throttled requests of service %s itself", service).Coded(codeDropped)
		return
	}
	part.Warnf("is not carried over: breakwater counts good of valid requests of service %s itself", service).Coded(codeDropped)
	if clients {
		part.Warnf("weighs 4xx: they are neutral here, neither good nor bad, so that scanners cannot hide an outage").Coded(codeTaken)
	}
}

// narrower tells which part of a service's requests a query looked at.
func narrower(at conf.Node, text, service string) {
	var parts []string
	for _, m := range matcher.FindAllStringSubmatch(text, -1) {
		if codes(m[1]) || m[1] == "le" || m[1] == "job" || m[1] == "service" && m[3] == service {
			continue
		}
		if one := m[1] + m[2] + clip(m[3]); !slices.Contains(parts, one) {
			parts = append(parts, one)
		}
	}
	if len(parts) > 0 {
		at.Warnf("looked only at %s: here the whole of service %s is counted", strings.Join(parts, ", "), service).
			Coded(codeDropped).Hint("give that part a service of its own by its routes, where it matters")
	}
}

// boundaryOf finds the limit of a latency query: the le of a bucket, or a
// comparison in a log query.
func boundaryOf(text string) (string, bool) {
	for _, m := range matcher.FindAllStringSubmatch(text, -1) {
		if m[1] == "le" && m[2] == "=" {
			return m[3], true
		}
	}
	if m := less.FindStringSubmatch(text); m != nil {
		unit := m[1]
		if unit == "seconds" {
			unit = "s"
		}
		return m[2] + unit, true
	}
	return "", false
}

// query is the text that says what is counted, wherever a tool puts it.
func query(n conf.Node) string {
	if !n.Present() {
		return ""
	}
	if !n.IsMap() {
		return word(n)
	}
	for _, key := range []string{"query", "metric", "expression"} {
		if q := word(n.Map().Get(key)); q != "" && !strings.EqualFold(q, "any") {
			return q
		}
	}
	for _, key := range []string{"metricSource", "spec"} {
		if inner := n.Map().Get(key); inner.IsMap() {
			if q := query(inner); q != "" {
				return q
			}
		}
	}
	return ""
}

func clip(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > 60 {
		return string(r[:60]) + "..."
	}
	return s
}
