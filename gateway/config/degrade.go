package config

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/fallback"
	"breakwater/internal/conf"
)

// parseDegrade reads what a route answers when it cannot have an answer. Blocks of
// actions other than the chosen one may stand there too, so that changing one word
// changes the action.
func parseDegrade(n conf.Node) fallback.Config {
	if !n.IsMap() {
		n.Map()
		return fallback.Config{}
	}
	m := n.Map()
	c := fallback.Config{Action: fallback.Action(m.Need("action").Enum("", string(fallback.ReturnDefault), string(fallback.LastGood),
		string(fallback.FailFast), string(fallback.PassThrough)))}
	on := m.Get("on")
	for _, word := range on.Enums("open", "failure") {
		c.OnOpen = c.OnOpen || word == "open"
		c.OnFailure = c.OnFailure || word == "failure"
	}
	if !on.Present() {
		c.OnOpen = true
	} else if on.IsList() && len(on.List()) == 0 {
		on.Errorf("must name open, failure or both, got none").Hint("pass_through is the action that does nothing")
	}
	c.Observe, _ = m.Get("observe").Bool(false)
	standard, kept := m.Get("default"), m.Get("last_good")
	if c.Action == fallback.ReturnDefault && !standard.Present() {
		standard.Errorf("must be given with action: return_default").Coded("E-MISSING")
	}
	if standard.Present() {
		c.Default = parseDefault(standard)
	}
	if kept.Present() || c.Action == fallback.LastGood {
		c.Keep = parseKeep(kept)
	}
	m.Done()
	return c
}

// maxDefault is the most that the body of a default may have: it is kept in every
// snapshot, and sent from memory.
const maxDefault = 64 << 10

func parseDefault(n conf.Node) fallback.Answer {
	m := n.Map()
	status, body := m.Get("status"), m.Get("body")
	a := fallback.Answer{Status: int(status.Int(200, 200, 599)), Body: body.Str("")}
	if len(a.Body) > maxDefault {
		body.Errorf("must have at most %d KiB, got %d bytes", maxDefault>>10, len(a.Body))
	}
	if a.Body != "" && (a.Status == 204 || a.Status == 304) {
		body.Errorf("must not stand with status %d, got %s", a.Status, body.Got()).Hint("such an answer has no body")
	}
	typed := false
	for _, e := range m.Get("headers").Entries() {
		name, value := e.Key, e.Value.Str("")
		switch {
		case !token.MatchString(name):
			e.Value.Errorf("must be under a header name, got %q", name)
		case reserved(name):
			e.Value.Errorf("must not be %s: the gateway writes it", canonical(name))
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			e.Value.Errorf("must have no control characters, got %s", e.Value.Got())
		}
		typed = typed || strings.EqualFold(name, "Content-Type")
		a.Head = append(a.Head, exchange.Field{Name: canonical(name), Value: value})
	}
	if a.Body != "" && !typed {
		kind := "text/plain; charset=utf-8"
		if json.Valid([]byte(a.Body)) {
			kind = "application/json"
		}
		a.Head = append(a.Head, exchange.Field{Name: "Content-Type", Value: kind})
	}
	m.Done()
	return a
}

// reserved reports whether a field is one that the gateway writes, or one of the
// connection.
func reserved(name string) bool {
	if len(name) >= 13 && strings.EqualFold(name[:13], "X-Breakwater-") {
		return true
	}
	return slices.ContainsFunc([]string{
		"Age", "Cache-Control", "Connection", "Content-Length", "Date", "Keep-Alive", "Retry-Count", "TE", "Trailer",
		"Transfer-Encoding", "Upgrade", "X-Request-Id",
	}, func(own string) bool { return strings.EqualFold(own, name) })
}

// parseKeep reads which answers are kept, and how many.
func parseKeep(n conf.Node) fallback.Keep {
	m := n.Map()
	body, size := m.Get("max_body"), m.Get("max_size")
	k := fallback.Keep{
		MaxAge:     m.Get("max_age").Span(5*time.Minute, time.Second, 7*24*time.Hour),
		MaxBody:    body.Size(64<<10, 1<<10, 64<<20),
		MaxSize:    size.Size(16<<20, 1<<20, 16<<30),
		MaxEntries: m.Get("max_entries").Int(10_000, 16, 10_000_000),
		Shared:     m.Get("scope").Enum("caller", "caller", "shared") == "shared",
	}
	// The memory is kept in sixteen parts, so that requests do not wait for one
	// another; what is larger than half a part would never stay.
	if k.MaxBody > k.MaxSize/32 {
		at := body
		if !at.Present() {
			at = size
		}
		at.Errorf("must be such that max_body is at most a 32nd of max_size, got %d KiB of %d KiB", k.MaxBody>>10, k.MaxSize>>10)
	}
	m.Done()
	return k
}
