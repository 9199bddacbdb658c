package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"breakwater/internal/conf"
	"breakwater/internal/demo"
)

// A generated shop: the demo's services and a till, under documents that are sound.
// Kinds of weaknesses (weakness_kinds_test.go) change one thing in them. All of it
// is test code, which nothing that looks for weaknesses can import.

// leaf is one field of a document, at its path, as YAML.
type leaf struct{ path, value string }

// shopDoc is one document of a shop.
type shopDoc struct {
	api, kind, name string
	fields          []leaf
}

func (d *shopDoc) set(path, value string) *shopDoc {
	for i := range d.fields {
		if d.fields[i].path == path {
			d.fields[i].value = value
			return d
		}
	}
	d.fields = append(d.fields, leaf{path, value})
	return d
}

// drop takes a field away, and all below it.
func (d *shopDoc) drop(path string) *shopDoc {
	d.fields = slices.DeleteFunc(d.fields, func(f leaf) bool { return f.path == path || strings.HasPrefix(f.path, path+".") })
	return d
}

// flow writes the fields below a path as one YAML flow map.
func (d *shopDoc) flow(below string) string {
	var parts []string
	seen := map[string]bool{}
	for _, f := range d.fields {
		rest, ok := strings.CutPrefix(f.path, below)
		if !ok {
			continue
		}
		key, _, deeper := strings.Cut(rest, ".")
		switch {
		case seen[key]:
		case deeper:
			parts = append(parts, key+": "+d.flow(below+key+"."))
		default:
			parts = append(parts, key+": "+f.value)
		}
		seen[key] = true
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func (d *shopDoc) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\n", d.api, d.kind)
	if d.kind != "SLO" {
		fmt.Fprintf(&b, "name: %s\n", d.name)
	}
	seen := map[string]bool{}
	for _, f := range d.fields {
		key, _, deeper := strings.Cut(f.path, ".")
		if seen[key] {
			continue
		}
		seen[key] = true
		if deeper {
			fmt.Fprintf(&b, "%s: %s\n", key, d.flow(key+"."))
		} else {
			fmt.Fprintf(&b, "%s: %s\n", key, f.value)
		}
	}
	return b.String()
}

// till is the service that the demo has not.
const till = "payment"

// weakShop is one generated shop.
type weakShop struct {
	n     int
	rnd   *rand.Rand
	docs  []*shopDoc
	kind  string // "": sound
	where string // what was changed
	per   int64  // ms a try may take
	// rps is the traffic of each of its services.
	rps map[string]int64
}

func (s *weakShop) services() []string { return append(demo.Services(), till) }

// svc is the name of a service in this shop: shops share a gateway.
func (s *weakShop) svc(name string) string { return fmt.Sprintf("s%d-%s", s.n, name) }

func (s *weakShop) doc(kind, name string) *shopDoc {
	i := slices.IndexFunc(s.docs, func(d *shopDoc) bool { return d.kind == kind && d.name == s.svc(name) })
	if i < 0 {
		panic("no " + kind + " " + name)
	}
	return s.docs[i]
}

func (s *weakShop) add(api, kind, name string) *shopDoc {
	d := &shopDoc{api: api, kind: kind, name: name}
	s.docs = append(s.docs, d)
	return d
}

func (s *weakShop) operations() []demo.Operation {
	return append(demo.Operations(), demo.Operation{Route: "payment-charge", Service: till, Method: "POST", Pattern: "/payment/charge"})
}

// one picks one of all.
func one[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// between draws from low to high.
func between(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low+1) }

// soundShop generates shop n without any weakness. endpoints are those of a
// service; nil: addresses at which nobody has to listen.
func soundShop(seed uint64, n int, endpoints func(service string) []string) *weakShop {
	s := &weakShop{n: n, rnd: rand.New(rand.NewPCG(seed, uint64(n))), rps: map[string]int64{}}
	r := s.rnd
	s.per = between(r, 8, 15) * 100
	retries := between(r, 1, 2)
	base := between(r, 2, 8) * 10
	total := (retries+1)*s.per + 8*base + between(r, 1, 10)*100
	for i, name := range s.services() {
		s.rps[name] = between(r, 15, 60)
		places := between(r, 3, 12) * 10
		up := s.add("breakwater/v1", "Upstream", s.svc(name))
		addresses := []string{fmt.Sprintf("10.%d.%d.1:8080", n, i), fmt.Sprintf("10.%d.%d.2:8080", n, i)}
		if endpoints != nil {
			addresses = endpoints(name)
		}
		var list []string
		for _, a := range addresses {
			list = append(list, fmt.Sprintf("{address: %q}", a))
		}
		up.set("endpoints", "["+strings.Join(list, ", ")+"]").set("connect_timeout", fmt.Sprintf("%dms", between(r, 5, 30)*10))
		up.set("concurrency", fmt.Sprintf("{kind: fixed, max: %d}", places))
		up.set("retry_budget", one(r, "{ratio: 0.1}", "{ratio: 0.2}", "{ratio: 0.2, min_per_second: 5}"))

		v := s.add("breakwater/v1", "Service", s.svc(name))
		v.set("owner", "team-"+name).set("core", fmt.Sprint(name == demo.Order || name == till))
		v.set("concurrency", one(r, fmt.Sprintf("{kind: fixed, max: %d}", places*int64(len(addresses))), "{kind: vegas, max: 200}"))
		window := one(r, int64(2), 4, 5)
		v.set("breaker.windows", "1").set("breaker.window", fmt.Sprintf("%ds", window)).set("breaker.bucket", "500ms")
		v.set("breaker.min_requests", fmt.Sprint(min(between(r, 8, 20), s.rps[name]*window/3))).set("breaker.error_rate", one(r, `"20%"`, `"25%"`, `"30%"`))
		v.set("breaker.slow_after", fmt.Sprintf("%dms", between(r, 20, 40)*10)).set("breaker.slow_rate", `"50%"`)
		v.set("breaker.open", fmt.Sprintf("%ds", between(r, 2, 3))).set("breaker.max_open", "4s")
		v.set("breaker.half_open.window", "1s").set("breaker.half_open.probes", fmt.Sprint(between(r, 3, 5)))

		p := s.add("openslo/v1", "SLO", s.svc(name)) // its name stands in metadata
		p.set("metadata.name", s.svc(name)).set("metadata.displayName", "Answered").set("metadata.labels.owner", "team-"+name)
		p.set("spec.service", s.svc(name)).set("spec.budgetingMethod", "Occurrences").set("spec.timeWindow", "[{duration: 30d, isRolling: true}]")
		p.set("spec.indicator", "{metadata: {name: "+s.svc(name)+"}, spec: {ratioMetric: {counter: true, "+
			"good: {metricSource: {type: breakwater, spec: {class: good}}}, total: {metricSource: {type: breakwater, spec: {class: valid}}}}}}")
		p.set("spec.objectives", fmt.Sprintf("[{displayName: available, target: %s}]", one(r, "0.99", "0.995", "0.999")))
	}
	for _, op := range s.operations() {
		d := s.add("breakwater/v1", "Route", s.svc(op.Route))
		d.set("service", s.svc(op.Service)).set("match.host", shopHost(n)).set("match.methods", "["+op.Method+"]").set("match.path", fmt.Sprintf("%q", op.Pattern))
		d.set("upstream", s.svc(op.Service)).set("timeout", fmt.Sprintf("%dms", total))
		d.set("retry.enabled", "true").set("retry.max_retries", fmt.Sprint(retries)).set("retry.per_try_timeout", fmt.Sprintf("%dms", s.per))
		d.set("retry.retry_on_status", "[502, 503, 504]").set("retry.backoff_base", fmt.Sprintf("%dms", base)).set("retry.fallback_strategy", "pass_through")
		d.set("retry.error_rate_gate", `"5%"`)
		if op.Method == "GET" {
			d.set("degrade.action", one(r, "last_good", "return_default"))
		} else {
			d.set("degrade.action", "return_default")
		}
		d.set("degrade.default", `{status: 200, body: "{\"state\":\"later\"}"}`)
	}
	return s
}

// shopHost is where shop n is asked: an address of this machine of its own.
func shopHost(n int) string { return fmt.Sprintf("127.0.0.%d", 10+n) }

func (s *weakShop) text() string {
	var all []string
	for _, d := range s.docs {
		all = append(all, d.text())
	}
	return strings.Join(all, "---\n")
}

// routes leads alerts of services to somebody; "": of all.
func alertRoute(services string) string {
	if services != "" {
		services = "services: [" + services + "]\n"
	}
	return "---\napiVersion: breakwater/v1\nkind: AlertRoute\nname: on-call\n" + services +
		"to: [{type: alertmanager, url: \"http://127.0.0.1:9093\"}]\n"
}

func (s *weakShop) file() conf.File {
	return conf.File{Name: fmt.Sprintf("shop-%02d.yaml", s.n), Data: []byte(s.text() + alertRoute(s.alerts()))}
}

// alerts names the services whose alerts are led anywhere.
func (s *weakShop) alerts() string {
	var names []string
	for _, name := range s.services() {
		if s.where != "no alert way of "+s.svc(name) {
			names = append(names, s.svc(name))
		}
	}
	return strings.Join(names, ", ")
}

func ms(n int64) string { return fmt.Sprintf("%dms", n) }
