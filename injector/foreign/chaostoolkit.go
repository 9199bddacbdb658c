package foreign

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/conf"
)

// ChaosToolkit reads an experiment of Chaos Toolkit, in JSON or YAML. Actions of its
// drivers for Toxiproxy and Istio become faults. Its Python, its processes and its
// controls are listed and never run.
func ChaosToolkit(f conf.File, opt Options) (Imported, error) {
	root, err := one(f)
	if err != nil {
		return Imported{}, err
	}
	if !root.IsMap() {
		return Imported{}, fmt.Errorf("%s: must hold an experiment, got %s", f.Name, root.Got())
	}
	e := fieldsOf(root)
	for _, need := range []string{"title", "description", "method"} {
		if _, ok := e[need]; !ok {
			return Imported{}, fmt.Errorf("%s: %s: must be given: it is no experiment of Chaos Toolkit without", f.Name, need)
		}
	}
	r := &reader{opt: opt}
	c := &toolkit{reader: r}
	for i, n := range listOf(e["method"]) {
		c.activity(n, fmt.Sprintf("method[%d]", i))
	}
	c.hypothesis(e["steady-state-hypothesis"], strategyOf(e["runtime"], r))
	tags := []string{}
	for _, n := range listOf(e["tags"]) {
		if t := n.Text(); t != "" {
			tags = append(tags, t)
		}
	}
	if n := e["contributions"]; n.IsMap() {
		for _, x := range n.Entries() {
			tags = append(tags, x.Key+":"+x.Value.Text())
		}
	}
	for _, name := range []string{"rollbacks", "controls"} {
		for i := range listOf(e[name]) {
			why := "faults here end by themselves and are given back in every state: nothing has to be rolled back, and nothing of it is run"
			if name == "controls" {
				why = "it is code of others, and never run"
			}
			r.lose(fmt.Sprintf("%s[%d]", name, i), "%s", why)
		}
	}
	e.rest(r, "", "title", "description", "tags", "contributions", "steady-state-hypothesis", "method", "rollbacks", "controls", "runtime", "version")
	for _, d := range r.drafts {
		d.description, d.tags, d.inject = e.text("description"), tags, min(c.waits, 23*time.Hour)
		d.steady, d.during, d.after = c.expected("before"), c.expected("during"), c.expected("after")
	}
	base := nameOf(e.text("title"))
	if base == "" {
		base = "chaostoolkit"
	}
	return r.done(base, e.text("title"))
}

// toolkit is one experiment being read.
type toolkit struct {
	*reader
	waits  time.Duration
	limits []string // what the hypothesis expects
	when   []string // before, during, after
}

func (c *toolkit) expected(phase string) []string {
	if !slices.Contains(c.when, phase) {
		return nil
	}
	return c.limits
}

// strategyOf says when the hypothesis is looked at: before and after by default.
func strategyOf(n conf.Node, r *reader) []string {
	rt := fieldsOf(n)
	rt.rest(r, "runtime", "hypothesis", "rollbacks")
	if rollback := fieldsOf(rt["rollbacks"]).text("strategy"); rollback != "" {
		r.lose("runtime.rollbacks.strategy", "faults are given back always")
	}
	switch s := fieldsOf(rt["hypothesis"]).text("strategy"); s {
	case "", "default":
	case "before-method-only":
		return []string{"before"}
	case "after-method-only":
		return []string{"after"}
	case "during-method-only":
		return []string{"during"}
	case "continuously":
		return []string{"before", "during", "after"}
	default:
		r.change("runtime.hypothesis.strategy", "%q is not known: the hypothesis is looked at before and after", s)
	}
	return []string{"before", "after"}
}

func (c *toolkit) hypothesis(n conf.Node, when []string) {
	c.when = when
	h := fieldsOf(n)
	h.rest(c.reader, "steady-state-hypothesis", "title", "probes")
	for i, p := range listOf(h["probes"]) {
		where := fmt.Sprintf("steady-state-hypothesis.probes[%d]", i)
		x := fieldsOf(p)
		provider := fieldsOf(x["provider"])
		if provider.text("type") != "http" {
			c.lose(where, "a probe by %s is code of others, and never run", orNone(provider.text("type")))
			continue
		}
		c.probe(x, provider, where)
	}
}

// probe is one request of the hypothesis. Control makes it too, once when each phase
// ends, where its host is allowed.
func (c *toolkit) probe(x, provider fields, where string) {
	x.rest(c.reader, where, "type", "name", "provider", "tolerance")
	at := where + ".provider"
	provider.rest(c.reader, at, "type", "url", "method", "timeout")
	address := provider.text("url")
	if strings.Contains(address, "${") {
		c.lose(where, "its address %s is made of the configuration, which is not read: write it out", address)
		return
	}
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		c.lose(where, "its address must be http or https without a password, got %s", orNone(address))
		return
	}
	if m := strings.ToUpper(provider.text("method")); m != "" && m != "GET" {
		c.lose(where, "a %s may change what it asks for: probes here are GET alone", m)
		return
	}
	expects, ok := c.tolerance(x["tolerance"], where)
	if !ok {
		return
	}
	limit := "probe: " + quote(address) + ", " + expects
	if n, given := provider["timeout"]; given {
		s, err := strconv.ParseFloat(n.Text(), 64)
		if err != nil || !(s >= 0.1 && s <= 3) {
			c.change(at+".timeout", "%s is not 0.1 to 3 seconds: 3 s are waited for", n.Got())
		} else {
			limit += fmt.Sprintf(", timeout: %dms", int64(s*1000+0.5))
		}
	}
	if !slices.Contains(c.limits, limit) {
		c.limits = append(c.limits, limit)
	}
	c.change(where, "control asks %s when each phase ends: allow it there by --probe-host %s. What users get is said by an sli of a service", address, u.Host)
}

// tolerance is what an answer must be: an exact status, two that are a range, more that
// are a choice, or a pattern of the body.
func (c *toolkit) tolerance(n conf.Node, where string) (expects string, ok bool) {
	where += ".tolerance"
	status := func(n conf.Node) (int, bool) {
		v, err := strconv.Atoi(n.Text())
		return v, err == nil && v >= 100 && v <= 599
	}
	within := func(list []conf.Node) (string, bool) {
		from, a := status(list[0])
		to, b := status(list[1])
		return fmt.Sprintf(`status: ["%d-%d"]`, from, to), a && b && from <= to
	}
	switch {
	case n.IsMap():
		t := fieldsOf(n)
		switch kind, target := t.text("type"), t.text("target"); {
		case kind == "regex" && target == "body":
			if _, err := regexp.Compile(t.text("pattern")); err == nil && t.text("pattern") != "" {
				return `status: ["100-599"], matches: ` + quote(t.text("pattern")), true
			}
			c.lose(where, "its pattern is none of RE2: %s", orNone(t.text("pattern")))
		case kind == "range" && (target == "" || target == "status") && len(listOf(t["range"])) == 2:
			if expects, ok = within(listOf(t["range"])); ok {
				return expects, true
			}
			c.lose(where, "a range must be of two statuses")
		default:
			c.lose(where, "a tolerance by %s of %s has no place here: a status, or a regex of the body", orNone(kind), orNone(target))
		}
		return "", false
	case n.IsList() && len(n.List()) == 2:
		if expects, ok = within(n.List()); ok {
			return expects, true
		}
	case n.IsList() && len(n.List()) > 0:
		var all []string
		for _, x := range n.List() {
			v, known := status(x)
			if !known {
				c.lose(where, "%s is no status", x.Got())
				return "", false
			}
			all = append(all, strconv.Itoa(v))
		}
		if len(all) <= 20 {
			return "status: [" + strings.Join(all, ", ") + "]", true
		}
	default:
		if v, known := status(n); known {
			return fmt.Sprintf("status: [%d]", v), true
		}
	}
	c.lose(where, "must be a status, two that are a range, or up to 20 to choose from, got %s", n.Got())
	return "", false
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// activity is one step of the method.
func (c *toolkit) activity(n conf.Node, where string) {
	a := fieldsOf(n)
	pauses := fieldsOf(a["pauses"])
	for _, name := range []string{"before", "after"} {
		if text := pauses.text(name); text != "" {
			if s, err := strconv.ParseFloat(text, 64); err == nil && s > 0 && s < 86_400 {
				c.waits += time.Duration(s * float64(time.Second)).Round(time.Second)
			} else {
				c.lose(join(where, "pauses."+name), "must be seconds, got %s", text)
			}
		}
	}
	a.rest(c.reader, where, "type", "name", "provider", "pauses", "tolerance", "background")
	provider := fieldsOf(a["provider"])
	switch kind := provider.text("type"); {
	case a.text("type") == "probe":
		c.lose(where, "a probe in the method decides nothing: say in the hypothesis what has to hold")
	case kind != "python":
		c.lose(where, "an action by %s is never run", orNone(kind))
	case strings.HasPrefix(provider.text("module"), "chaostoxi."):
		c.toxiAction(provider.text("func"), fieldsOf(provider["arguments"]), where)
	case strings.HasPrefix(provider.text("module"), "chaosistio."):
		c.istioAction(provider.text("func"), fieldsOf(provider["arguments"]), where)
	default:
		c.lose(where, "%s.%s is code of others, and never run", provider.text("module"), provider.text("func"))
	}
}

func (c *toolkit) target(name string) string {
	if c.opt.Service != "" {
		return c.opt.Service
	}
	return nameOf(name)
}

// toxiAction is a call of chaostoolkit-toxiproxy.
func (c *toolkit) toxiAction(call string, args fields, where string) {
	t := toxic{stream: args.text("stream"), service: c.target(args.text("for_proxy") + args.text("proxy_name")), ppm: 1_000_000, attributes: args, where: where}
	if t.service == "" {
		c.lose(where, "%s names no proxy", call)
		return
	}
	if n, ok := args["toxicity"]; ok {
		if t.ppm, ok = ppmOf(n.Text()); !ok {
			c.lose(where, "toxicity must be 0 to 1, got %s", n.Got())
			return
		}
	}
	switch call {
	case "create_toxic":
		t.kind, t.attributes = args.text("toxic_type"), fieldsOf(args["attributes"])
	case "create_latency_toxic":
		t.kind = "latency"
	case "create_bandwith_degradation_toxic", "create_bandwidth_degradation_toxic": // its own spelling, and the right one
		t.kind = "bandwidth"
	case "create_slow_connection_close_toxic":
		t.kind = "slow_close"
	case "create_slicer_toxic":
		t.kind = "slicer"
	case "create_limiter_toxic":
		t.kind, t.attributes = "limit_data", fields{}
		if n, ok := args["bytes_limit"]; ok {
			t.attributes["bytes"] = n
		}
	case "disable_proxy":
		c.of(t.service, 1_000_000, "request", where).add("down", "refuse: {}")
		return
	default:
		c.lose(where, "%s changes no traffic that a scenario could, or undoes what ends by itself", call)
		return
	}
	c.reader.toxic(t)
}

// istioAction is a call of chaostoolkit-istio; percentages there are 0 to 100.
func (c *toolkit) istioAction(call string, args fields, where string) {
	service := c.target(args.text("virtual_service_name"))
	percent, err := strconv.ParseFloat(args.text("percentage"), 64)
	if args.text("percentage") == "" {
		percent, err = 100, nil
	}
	if service == "" || err != nil || !(percent >= 0 && percent <= 100) {
		c.lose(where, "%s must name a virtual service and a percentage from 0 to 100", call)
		return
	}
	ppm := int64(percent*10_000 + 0.5)
	switch call {
	case "add_delay_fault":
		d, err := time.ParseDuration(args.text("fixed_delay"))
		if err != nil || d < time.Millisecond || d > most*time.Millisecond {
			c.lose(where, "fixed_delay must be 1ms to 5m, got %s", orNone(args.text("fixed_delay")))
			return
		}
		c.of(service, ppm, "attempt", where).add("latency", fmt.Sprintf("latency: {dist: fixed, value: %dms}, toothless: allowed", d.Milliseconds()))
	case "add_abort_fault":
		status, err := strconv.Atoi(args.text("http_status"))
		if err != nil || status < 400 || status > 599 {
			c.lose(where, "http_status must be 400 to 599, got %s", orNone(args.text("http_status")))
			return
		}
		c.of(service, ppm, "attempt", where).add("abort", fmt.Sprintf("error: {status: %d}", status))
	default:
		c.lose(where, "%s undoes what ends by itself", call)
		return
	}
	if _, ok := args["routes"]; ok {
		c.change(where+".routes", "all routes of %s are hit: name ours under target.routes", service)
	}
	c.change(where, "the fault stands below retries, where Istio's stands above them")
}
