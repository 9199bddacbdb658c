package scenario

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

// Bounds of what one fault may do; a gateway's own caps may be narrower.
const (
	maxLatency = 5 * time.Minute
	maxBody    = 64 << 10
	maxBytes   = 1 << 40
)

func faults(n conf.Node) []Fault {
	var out []Fault
	seen := map[string]bool{}
	items := n.List()
	if n.IsList() && len(items) == 0 {
		n.Errorf("must hold at least one fault")
	}
	for _, item := range items {
		m := item.Map()
		f := Fault{ID: m.Need("id").Name()}
		if seen[f.ID] && f.ID != "" {
			m.Get("id").Errorf("must be unique, got %s again", f.ID)
		}
		seen[f.ID] = true
		f.Rule.ID = f.ID
		kindOf(m, &f.Rule)
		f.Rule.Position = position(m.Get("position"))
		side(m.Get("side"), &f.Rule)
		if n := m.Get("pulse"); n.Present() {
			pulse := n.Map()
			f.Rule.EveryMS = pulse.Need("every").Span(0, 100*time.Millisecond, 24*time.Hour).Milliseconds()
			f.Rule.ForMS = pulse.Need("for").Span(0, 10*time.Millisecond, 24*time.Hour).Milliseconds()
			if pulse.Done(); f.Rule.EveryMS > 0 && f.Rule.ForMS >= f.Rule.EveryMS {
				n.Errorf("must be there for less than it repeats after, got %d ms of every %d ms", f.Rule.ForMS, f.Rule.EveryMS)
				f.Rule.EveryMS, f.Rule.ForMS = 0, 0
			}
		}
		f.Toothless = m.Get("toothless").Enum("", "allowed") == "allowed"
		if n := m.Get("require"); n.Present() {
			require := n.Map()
			f.RatioMilli = require.Need("min_ratio_to_timeout").Decimal(0, 3, 1, 1_000_000)
			require.Done()
			if f.Rule.Kind != fault.Latency && f.Rule.Kind != "" {
				n.Errorf("must go with a latency, got %s", f.Rule.Kind)
			}
		}
		m.Done()
		out = append(out, f)
	}
	return out
}

// position leaves the usual one unsaid, so that a rule is written one way only.
func position(n conf.Node) fault.Position {
	if p := n.Enum(string(fault.AtUpstream), string(fault.AtUpstream), string(fault.AtEdge)); p == string(fault.AtEdge) {
		return fault.AtEdge
	}
	return ""
}

func side(n conf.Node, f *fault.Fault) {
	if !n.Present() {
		return
	}
	sides := []string{string(fault.RequestSide), string(fault.ResponseSide), string(fault.BothSides)}
	switch f.Kind {
	case fault.Latency:
		f.Side = fault.Side(n.Enum("", sides...))
	case fault.Header:
		f.Side = fault.Side(n.Enum("", sides[:2]...))
	case "":
		n.Enum("", sides...)
	default:
		// Answers are the only thing these can change, and requests all that others
		// can end: to say it is allowed, to say otherwise is a mistake.
		fits := sides[1]
		if f.Kind == fault.Duplicate || f.Kind == fault.Refuse {
			fits = sides[0]
		}
		n.Enum("", fits)
	}
}

// kinds are the fields by which a fault says what it does.
func kinds() []fault.Kind {
	return []fault.Kind{fault.Latency, fault.Error, fault.GRPC, fault.Drop, fault.Refuse, fault.Reset, fault.Blackhole,
		fault.Header, fault.Truncate, fault.Corrupt, fault.Body, fault.Drip, fault.Duplicate}
}

func kindOf(m *conf.Map, f *fault.Fault) {
	var at conf.Node
	for _, k := range kinds() {
		n := m.Get(string(k))
		if !n.Present() {
			continue
		}
		if f.Kind != "" {
			n.Errorf("must stand alone, got %s beside it", f.Kind).Hint("write two faults")
			continue
		}
		f.Kind, at = k, n
	}
	if f.Kind == "" {
		if m.Node().IsMap() {
			words := make([]string, len(kinds()))
			for i, k := range kinds() {
				words[i] = string(k)
			}
			m.Node().Errorf("must have one of %s, got none", strings.Join(words, ", "))
		}
		return
	}
	body := at.Map()
	shape(f, body)
	body.Done()
}

// shape reads what a kind needs beside its name.
func shape(f *fault.Fault, m *conf.Map) {
	switch f.Kind {
	case fault.Latency:
		latency(f, m)
	case fault.Error:
		f.Status = int(m.Need("status").Int(0, 400, 599))
		f.Headers = fields(m.Get("headers"))
		f.Body = text(m.Get("body"))
	case fault.GRPC:
		f.Status = grpcStatus(m.Need("status"))
		f.Body = text(m.Get("message"))
	case fault.Drop, fault.Reset:
		// Whether the upstream did its work is the point, so nothing is assumed.
		f.Phase = fault.Phase(m.Need("phase").Enum("", string(fault.BeforeUpstream), string(fault.AfterUpstream)))
	case fault.Header:
		f.Headers, f.Remove = fields(m.Get("set")), m.Get("remove").Strs()
		if len(f.Headers)+len(f.Remove) == 0 && m.Node().IsMap() {
			m.Node().Errorf("must set or remove at least one field")
		}
	case fault.Truncate:
		truncate(f, m)
	case fault.Corrupt:
		if f.PPMOfBody = m.Need("percent").PPM(0); f.PPMOfBody == 0 && m.Get("percent").Present() {
			m.Get("percent").Errorf("must be above 0%%, got 0%%")
		}
	case fault.Body:
		f.Body = text(m.Need("value"))
	case fault.Drip:
		f.BytesPerSecond = bytes(m.Need("rate"), 1, 1_000_000_000)
	}
}

func latency(f *fault.Fault, m *conf.Map) {
	ms := func(n conf.Node) int64 { return n.Duration(0, time.Millisecond, maxLatency).Milliseconds() }
	d := &fault.Delay{Dist: m.Need("dist").Enum("", "fixed", "uniform", "normal", "pareto", "table")}
	limit := m.Get("cap")
	switch d.Dist {
	case "fixed":
		// A cap below the value would be another value.
		f.LatencyMS = ms(m.Need("value"))
		return
	case "uniform":
		d.MS, d.JitterMS = ms(m.Need("value")), ms(m.Need("jitter"))
		if d.JitterMS > d.MS && d.MS > 0 {
			m.Get("jitter").Errorf("must be at most the value (%d ms), got %d ms: nothing comes before it was asked for", d.MS, d.JitterMS)
		}
	case "normal":
		d.MS, d.JitterMS = ms(m.Need("mean")), ms(m.Need("sd"))
	case "pareto":
		// The tail has no end of its own.
		d.MS, d.Alpha, limit = ms(m.Need("scale")), m.Need("alpha").Decimal(0, 3, 1, 100_000), m.Need("cap")
	case "table":
		d.Table = table(m.Need("percentiles"))
	default:
		return // told of; what else stands here belongs to another dist
	}
	if d.CapMS = ms(limit); limit.Present() && d.CapMS > 0 && d.CapMS < d.MS {
		limit.Errorf("must be at least %d ms, got %d ms", d.MS, d.CapMS)
	}
	f.Delay = d
}

// table reads {p50: 20ms, p99: 2s}.
func table(n conf.Node) []fault.Percentile {
	var out []fault.Percentile
	for _, e := range n.Entries() {
		ppm, ok := percentile(e.Key)
		if !ok {
			e.Value.Errorf("must be called like p50 or p99.9, got %q", e.Key)
			continue
		}
		p := fault.Percentile{PPM: ppm, MS: e.Value.Duration(0, time.Millisecond, maxLatency).Milliseconds()}
		if k := len(out) - 1; k >= 0 && (p.PPM <= out[k].PPM || p.MS < out[k].MS) {
			e.Value.Errorf("must rise: no percentile is faster than one before it")
		}
		out = append(out, p)
	}
	if n.IsMap() && len(n.Entries()) == 0 {
		n.Errorf("must hold at least one percentile such as p50: 20ms")
	}
	return out
}

// percentile reads p50, p99.9, p100 as parts per million, exactly.
func percentile(key string) (ppm int64, ok bool) {
	whole, part, _ := strings.Cut(strings.TrimPrefix(key, "p"), ".")
	if !strings.HasPrefix(key, "p") || len(part) > 4 || len(whole) == 0 || len(whole) > 3 {
		return 0, false
	}
	ppm, err := strconv.ParseInt(whole+part+strings.Repeat("0", 4-len(part)), 10, 64)
	return ppm, err == nil && ppm > 0 && ppm <= 1_000_000
}

func truncate(f *fault.Fault, m *conf.Map) {
	at := m.Need("at")
	if strings.HasSuffix(at.Str(""), "%") {
		f.PPMOfBody = at.PPM(0)
		// Nothing of it is zero bytes, all of it no fault.
		if f.PPMOfBody == 1_000_000 {
			at.Errorf("must be below 100%%, got 100%%: nothing would be missing")
		}
	} else {
		f.Bytes = bytes(at, 0, maxBytes)
	}
	f.Clean = m.Need("mode").Enum("", "dirty", "clean") == "clean"
}

// bytes reads 500B, 1kB, 64KiB, 2MiB. A bare number is refused: of what?
func bytes(n conf.Node, lo, hi int64) int64 {
	s := n.Str("")
	if s == "" {
		return 0
	}
	for _, u := range []struct {
		name string
		n    int64
	}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"kB", 1000}, {"MB", 1_000_000}, {"B", 1}} {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || digits[0] == '-' || digits[0] == '+' {
			break
		}
		if v > hi/u.n || v*u.n < lo {
			n.Errorf("must be %d B to %d B, got %s", lo, hi, n.Got())
			return 0
		}
		return v * u.n
	}
	n.Errorf("must be an amount such as 500B, 1kB or 64KiB, got %s", n.Got()).Hint("units are B, kB, MB, KiB and MiB")
	return 0
}

func text(n conf.Node) string {
	s := n.Str("")
	if len(s) > maxBody {
		n.Errorf("must be at most %d bytes, got %d", maxBody, len(s))
	}
	return s
}

func fields(n conf.Node) map[string]string {
	var out map[string]string
	for _, e := range n.Entries() {
		if out == nil {
			out = map[string]string{}
		}
		out[e.Key] = e.Value.Str("")
	}
	return out
}

// grpcNames are the status codes of gRPC by number; the first is no error.
func grpcNames() []string {
	return []string{"OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED",
		"RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"}
}

func grpcStatus(n conf.Node) int {
	if !n.Present() {
		return 0
	}
	status, err := strconv.Atoi(n.Got())
	if err != nil {
		word := n.Str("")
		status = slices.Index(grpcNames(), word)
	}
	if status < 1 || status > 16 {
		n.Errorf("must be 1 to 16 or a name such as UNAVAILABLE, got %s", n.Got()).Hint("OK would be a made-up success")
		return 0
	}
	return status
}
