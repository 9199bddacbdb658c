package fallback

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// usable reports whether an answer of 200 may be kept (RFC 9111 section 3), for how
// long it may be given again although the upstream was not asked, and its age when
// it came, after delay. A last good answer is mostly a stale one, which the
// upstream can forbid (section 4.2.4), or allow for a time (RFC 5861 section 4).
func usable(req, res *exchange.Head, most, delay time.Duration) (life, age time.Duration, ok bool) {
	c := parseControl(res)
	switch {
	case c.noStore, c.noCache, c.private:
		return 0, 0, false
	case res.Has("Set-Cookie"), res.Has("Content-Range"), res.Has("X-Breakwater-Degraded"):
		return 0, 0, false
	case req.Has("Authorization") && !c.public && !c.mustRevalidate && c.sMaxAge < 0:
		return 0, 0, false // section 3.5
	case req.Has("Cache-Control") && parseControl(req).noStore:
		return 0, 0, false
	}
	if varyAll(res) {
		return 0, 0, false
	}
	age = max(delay, 0)
	if v, found := res.Lookup("Age"); found {
		age += seconds(max(delta(v), 0))
	}
	life = most
	switch {
	case c.mustRevalidate, c.proxyRevalidate, c.sMaxAge >= 0:
		life = min(life, c.fresh(res)-age)
	case c.staleIfError >= 0:
		life = min(life, max(c.fresh(res)-age, 0)+seconds(c.staleIfError))
	}
	return life, age, life > 0
}

// control is what Cache-Control fields say, as far as it matters here. A number
// is -1 where it was not said.
type control struct {
	noStore, noCache, private, public bool
	mustRevalidate, proxyRevalidate   bool
	sMaxAge, maxAge, staleIfError     int64
}

// fresh is for how long the answer is fresh (RFC 9111 section 4.2.1), as far as it
// says so itself.
func (c *control) fresh(res *exchange.Head) time.Duration {
	switch {
	case c.sMaxAge >= 0:
		return seconds(c.sMaxAge)
	case c.maxAge >= 0:
		return seconds(c.maxAge)
	}
	expires, err := http.ParseTime(res.Get("Expires"))
	if err != nil {
		return 0
	}
	date, err := http.ParseTime(res.Get("Date"))
	if err != nil {
		return 0
	}
	return max(expires.Sub(date), 0)
}

// parseControl reads all Cache-Control fields of a head. What cannot be read
// counts as no-store: the directive behind it may have been one.
func parseControl(h *exchange.Head) control {
	c := control{sMaxAge: -1, maxAge: -1, staleIfError: -1}
	for _, f := range h.Fields() {
		if len(f.Name) == len("Cache-Control") && strings.EqualFold(f.Name, "Cache-Control") {
			c.read(f.Value)
		}
	}
	return c
}

func (c *control) read(list string) {
	for list != "" {
		if i := strings.IndexByte(" \t,", list[0]); i >= 0 {
			list = list[1:]
			continue
		}
		name, value, rest, ok := directive(list)
		if !ok {
			c.noStore = true
			return
		}
		c.set(name, value)
		list = rest
	}
}

func (c *control) set(name, value string) {
	is := func(word string) bool { return len(name) == len(word) && strings.EqualFold(name, word) }
	switch {
	case is("no-store"):
		c.noStore = true
	case is("no-cache"): // with a list of fields it could be kept without them; not worth it
		c.noCache = true
	case is("private"):
		c.private = true
	case is("public"):
		c.public = true
	case is("must-revalidate"):
		c.mustRevalidate = true
	case is("proxy-revalidate"):
		c.proxyRevalidate = true
	case is("s-maxage"):
		least(&c.sMaxAge, value)
	case is("max-age"):
		least(&c.maxAge, value)
	case is("stale-if-error"):
		least(&c.staleIfError, value)
	}
}

// least keeps the smaller of what was said twice; what is no number is 0.
func least(into *int64, value string) {
	n := max(delta(value), 0)
	if *into < 0 || n < *into {
		*into = n
	}
}

// directive splits the first directive off list: name, or name=token, or
// name="quoted". Quotes are taken off; an escape in them is left as it stands,
// since no value that matters has one.
func directive(list string) (name, value, rest string, ok bool) {
	end := 0
	for end < len(list) && tokenByte(list[end]) {
		end++
	}
	if end == 0 {
		return "", "", "", false
	}
	name, rest = list[:end], list[end:]
	if rest != "" && rest[0] == '=' {
		rest = rest[1:]
		if rest != "" && rest[0] == '"' {
			close := quoted(rest)
			if close < 0 {
				return "", "", "", false
			}
			value, rest = rest[1:close], rest[close+1:]
		} else {
			end = 0
			for end < len(rest) && tokenByte(rest[end]) {
				end++
			}
			value, rest = rest[:end], rest[end:]
		}
	}
	rest = strings.TrimLeft(rest, " \t")
	return name, value, rest, rest == "" || rest[0] == ','
}

// quoted is where the quoted string that text begins with ends, or -1.
func quoted(text string) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// tokenByte is tchar of RFC 9110 section 5.6.2.
func tokenByte(b byte) bool {
	return b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", b) >= 0
}

// delta reads delta-seconds (RFC 9111 section 1.2.2); -1 for what is none.
func delta(v string) int64 {
	if v == "" || strings.Trim(v, "0123456789") != "" {
		return -1
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return 1<<31 - 1 // too large to say
	}
	return n
}

func seconds(n int64) time.Duration { return time.Duration(n) * time.Second }

// varyAll reports whether an answer depends on everything, or on what is no field
// name and may mean anything.
func varyAll(res *exchange.Head) bool {
	for _, f := range res.Fields() {
		if len(f.Name) != len("Vary") || !strings.EqualFold(f.Name, "Vary") {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			name = strings.Trim(name, " \t")
			for i := range len(name) {
				if !tokenByte(name[i]) {
					return true
				}
			}
			if name == "*" {
				return true
			}
		}
	}
	return false
}

// varyNames lists the request fields that an answer depends on, in lower case and
// in order, where that is not all of them.
func varyNames(res *exchange.Head) (names []string) {
	for _, f := range res.Fields() {
		if len(f.Name) != len("Vary") || !strings.EqualFold(f.Name, "Vary") {
			continue
		}
		for name := range strings.SplitSeq(f.Value, ",") {
			if name = strings.Trim(name, " \t"); name != "" {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
