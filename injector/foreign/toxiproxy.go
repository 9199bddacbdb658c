package foreign

import (
	"fmt"
	"strconv"
	"time"

	"breakwater/internal/conf"
)

// Toxiproxy reads the list of proxies that POST /populate takes, or the answer of
// GET /proxies. Each proxy is a service by its name.
func Toxiproxy(f conf.File, opt Options) (Imported, error) {
	root, err := one(f)
	if err != nil {
		return Imported{}, err
	}
	r := &reader{opt: opt}
	switch {
	case root.IsList():
		for i, n := range root.List() {
			r.proxy(n, fmt.Sprintf("[%d]", i), "")
		}
	case root.IsMap():
		for _, e := range root.Entries() {
			r.proxy(e.Value, e.Key, e.Key)
		}
	default:
		return Imported{}, fmt.Errorf("%s: must hold a list or a map of proxies, got %s", f.Name, root.Got())
	}
	base := "toxiproxy"
	if len(r.drafts) == 1 {
		base = nameOf("toxiproxy-" + r.drafts[0].service)
	}
	return r.done(base, "Toxics of Toxiproxy")
}

func (r *reader) proxy(n conf.Node, where, name string) {
	if !n.IsMap() {
		r.lose(where, "must be a proxy, got %s", n.Got())
		return
	}
	p := fieldsOf(n)
	if own := p.text("name"); own != "" {
		name = own
	}
	service := nameOf(name)
	if r.opt.Service != "" {
		service = r.opt.Service
	}
	if service == "" {
		r.lose(where, "the proxy has no name that a service could have")
		return
	}
	if service != name {
		r.change(join(where, "name"), "proxy %q is taken for the service %s", name, service)
	}
	for _, field := range []string{"listen", "upstream"} {
		if p.text(field) != "" {
			r.lose(join(where, field), "a scenario hits requests of a service in the gateway, on no port of its own")
		}
	}
	if p.text("enabled") == "false" {
		r.of(service, 1_000_000, "request", where).add("down", "refuse: {}")
	}
	for i, t := range listOf(p["toxics"]) {
		at := fmt.Sprintf("%s.toxics[%d]", where, i)
		x := fieldsOf(t)
		x.rest(r, at, "name", "type", "stream", "toxicity", "attributes")
		toxicity := int64(1_000_000)
		if n, ok := x["toxicity"]; ok {
			ppm, ok := ppmOf(n.Text())
			if !ok {
				r.lose(at, "toxicity must be 0 to 1, got %s", n.Got())
				continue
			}
			toxicity = ppm
		}
		r.toxic(toxic{x.text("type"), x.text("stream"), service, toxicity, fieldsOf(x["attributes"]), at})
	}
	p.rest(r, where, "name", "listen", "upstream", "enabled", "toxics")
}

func listOf(n conf.Node) []conf.Node {
	if !n.IsList() {
		return nil
	}
	return n.List()
}

// ppmOf reads a share from 0 to 1 as parts per million, as near as these go.
func ppmOf(text string) (int64, bool) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 1) {
		return 0, false
	}
	return int64(v*1_000_000 + 0.5), true
}

type toxic struct {
	kind, stream, service string
	ppm                   int64
	attributes            fields
	where                 string
}

// most is the longest delay that a scenario may name, in milliseconds.
const most = 300_000

// amount reads an attribute that is a whole number; 0 where it is left out.
func (t toxic) amount(r *reader, name string) (int64, bool) {
	text := t.attributes.text(name)
	if text == "" {
		return 0, true
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < 0 || v > 1<<40 {
		r.lose(t.where+".attributes."+name, "must be a whole number that is not negative, got %s", text)
		return 0, false
	}
	return v, true
}

func (t toxic) wait(r *reader, name string) (int64, bool) {
	ms, ok := t.amount(r, name)
	if ok && ms > most {
		r.change(t.where+".attributes."+name, "%d ms is cut to %d ms, the longest that a scenario may wait", ms, most)
		ms = most
	}
	return ms, ok
}

// toxic makes faults of one toxic. A connection is hit or spared as a whole, as
// Toxiproxy does it.
func (r *reader) toxic(t toxic) {
	// What is not carried must leave no scenario behind that lacks its fault.
	add := func(kind, fault string) { r.of(t.service, t.ppm, "connection", t.where).add(kind, fault) }
	up := t.stream == "upstream"
	switch t.kind {
	case "latency":
		ms, ok := t.wait(r, "latency")
		jitter, fine := t.wait(r, "jitter")
		if !ok || !fine || ms == 0 {
			if ok && fine {
				r.lose(t.where, "a latency of 0 ms is none")
			}
			return
		}
		if jitter > ms {
			r.change(t.where+".attributes.jitter", "%d ms is cut to the latency of %d ms: nothing comes before it was asked for", jitter, ms)
			jitter = ms
		}
		side := "response"
		if up {
			side = "request"
		}
		if jitter > 0 {
			add("latency", fmt.Sprintf("latency: {dist: uniform, value: %dms, jitter: %dms}, side: %s, toothless: allowed", ms, jitter, side))
		} else {
			add("latency", fmt.Sprintf("latency: {dist: fixed, value: %dms}, side: %s, toothless: allowed", ms, side))
		}
		r.change(t.where, "each request waits once, where Toxiproxy delays every piece of a connection")
	case "bandwidth":
		rate, ok := t.amount(r, "rate")
		switch {
		case !ok:
		case up:
			r.lose(t.where, "requests are not slowed on their way up, answers only")
		case rate == 0:
			add("blackhole", "blackhole: {}")
			r.change(t.where, "a rate of 0 lets nothing through: it becomes a blackhole")
		case rate > 1_000_000:
			r.lose(t.where, "a rate of %d KB/s slows nothing", rate)
		default:
			add("drip", fmt.Sprintf("drip: {rate: %dkB}", rate))
			r.change(t.where, "the rate is that of each answer's body, not of a connection")
		}
	case "slicer":
		r.slicer(t, add)
	case "slow_close":
		r.lose(t.where, "an answer is whole when its body ends: nothing here waits for a close")
	case "timeout":
		ms, ok := t.wait(r, "timeout")
		if ok && ms == 0 {
			add("blackhole", "blackhole: {}")
		} else if ok {
			add("hang", fmt.Sprintf("latency: {dist: fixed, value: %dms}, toothless: allowed", ms))
			add("close", "drop: {phase: before_upstream}")
			r.change(t.where, "the upstream is not asked: each request waits for %d ms, then its connection closes", ms)
		}
	case "reset_peer":
		ms, ok := t.wait(r, "timeout")
		if !ok {
			return
		}
		if ms > 0 {
			add("hang", fmt.Sprintf("latency: {dist: fixed, value: %dms}, toothless: allowed", ms))
		}
		add("reset", "reset: {phase: before_upstream}")
		r.change(t.where, "the upstream is not asked; with phase: after_upstream it would have done its work")
	case "limit_data":
		n, ok := t.amount(r, "bytes")
		switch {
		case !ok:
		case up:
			r.lose(t.where, "requests are not cut on their way up, answers only")
		default:
			add("truncate", fmt.Sprintf("truncate: {at: %dB, mode: dirty}", n))
			r.change(t.where, "the bytes are those of each answer's body, not of a connection with its heads")
		}
	default:
		r.lose(t.where, "toxic type %q is not known", t.kind)
	}
}

// slicer sends pieces with a pause after each: that is a rate.
func (r *reader) slicer(t toxic, add func(kind, fault string)) {
	size, ok := t.amount(r, "average_size")
	us, fine := t.amount(r, "delay")
	switch {
	case !ok || !fine:
	case t.stream == "upstream":
		r.lose(t.where, "requests are not sliced on their way up, answers only")
	case us == 0 || size == 0:
		r.lose(t.where, "pieces without a pause change nothing that HTTP sees")
	default:
		pause := time.Duration(min(us, 1<<40)) * time.Microsecond
		rate := min(max(size*int64(time.Second/time.Microsecond)/int64(pause/time.Microsecond), 1), 1_000_000_000)
		add("drip", fmt.Sprintf("drip: {rate: %dB}", rate))
		r.change(t.where, "pieces of %d bytes, %v apart, become a drip of %d B/s", size, pause, rate)
	}
}
