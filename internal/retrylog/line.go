package retrylog

import (
	"hash/crc32"
	"strconv"
	"time"
	"unicode/utf8"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendRecord appends r as one line, newline included, and allocates nothing
// where dst has room. Every string is escaped, so that no request can break a
// line; what is not UTF-8 becomes U+FFFD. Times are UTC. A Count below 1 is
// written as 1. A Record with no field set appends nothing.
func AppendRecord(dst []byte, r *Record) []byte {
	start := len(dst)
	e := enc{b: dst}
	switch {
	case r.Exchange != nil:
		e.raw(`{"exchange":`)
		e.exchange(r.Exchange)
	case r.Transition != nil:
		e.raw(`{"transition":`)
		e.transition(r.Transition)
	case r.Config != nil:
		e.raw(`{"config":`)
		e.config(r.Config)
	case r.Notice != nil:
		e.raw(`{"notice":`)
		e.notice(r.Notice)
	default:
		return dst
	}
	sum := crc32.Checksum(e.b[start:], castagnoli)
	e.raw(`,"crc":"`)
	for shift := 28; shift >= 0; shift -= 4 {
		e.b = append(e.b, hex[sum>>shift&15])
	}
	e.raw("\"}\n")
	return e.b
}

// enc writes members by hand: encoding/json costs an allocation and some
// microseconds a request, which the data plane does not have.
type enc struct {
	b     []byte
	first bool // no member stands in the open object yet
}

func (e *enc) exchange(x *Exchange) {
	e.open()
	e.num("count", max(1, x.Count))
	e.str("request_id", x.RequestID)
	e.time("start", x.Start)
	e.time("end", x.End)
	e.str("gateway", x.Gateway)
	e.str("env", x.Env)
	e.str("service", x.Service)
	e.str("route", x.Route)
	e.optStr("upstream", x.Upstream)
	e.str("method", x.Method)
	e.optStr("caller", x.Caller)
	e.optStr("tenant", x.Tenant)
	e.optStr("tier", x.Tier)
	if len(x.Tries) > 0 {
		e.key("tries")
		e.raw("[")
		for i := range x.Tries {
			if i > 0 {
				e.raw(",")
			}
			e.try(&x.Tries[i])
		}
		e.raw("]")
	}
	e.optNum("first_status", int64(x.FirstStatus))
	e.num("status", int64(x.Status))
	e.str("outcome", string(x.Outcome))
	e.optStr("timeout", x.Timeout)
	e.optStr("decision_reason", x.Reason)
	e.optStr("skip_reason", x.Skip)
	e.optNum("retry_wait_ms", x.RetryWaitMS)
	e.num("latency_us", x.LatencyUS)
	e.bool("body_complete", x.BodyComplete)
	e.optStr("degraded", x.Degraded)
	e.optStr("refusal", x.Refusal)
	e.str("origin", x.Origin)
	e.optStr("observed", x.Observed)
	e.optStr("experiment", x.Experiment)
	e.optStr("synthetic", x.Synthetic)
	e.optNum("p_sample_ppm", x.SamplePPM)
	e.optNum("dep_timeouts", int64(x.DepTimeouts))
	e.optStr("business_code", x.BusinessCode)
	e.str("config_revision", x.Revision)
	e.optNum("bytes_out", x.BytesOut)
	e.close()
}

func (e *enc) try(t *Try) {
	e.open()
	e.str("endpoint", t.Endpoint)
	e.optNum("status", int64(t.Status))
	e.optStr("kind", t.Kind)
	e.num("latency_us", t.LatencyUS)
	e.optNum("wait_ms", t.WaitMS)
	e.optStr("decision_reason", t.Reason)
	e.optStr("skip_reason", t.Skip)
	e.optStr("fault", t.Fault)
	e.optNum("planned_us", t.PlannedUS)
	e.optNum("actual_us", t.ActualUS)
	if t.CutShort {
		e.bool("cut_short", true)
	}
	e.optStr("cause", t.Cause)
	e.close()
}

func (e *enc) transition(t *Transition) {
	e.open()
	e.time("at", t.At)
	e.str("gateway", t.Gateway)
	e.str("env", t.Env)
	e.str("policy", t.Policy)
	e.str("service", t.Service)
	e.optStr("upstream", t.Upstream)
	e.optStr("endpoint", t.Endpoint)
	e.str("from", t.From)
	e.str("to", t.To)
	e.str("reason", t.Reason)
	e.close()
}

func (e *enc) config(c *Config) {
	e.open()
	e.time("at", c.At)
	e.str("gateway", c.Gateway)
	e.str("env", c.Env)
	e.str("revision", c.Revision)
	e.str("hash", c.Hash)
	e.optStr("error", c.Error)
	e.optStr("effective", c.Effective)
	e.close()
}

func (e *enc) notice(n *Notice) {
	e.open()
	e.time("at", n.At)
	e.str("gateway", n.Gateway)
	e.str("env", n.Env)
	e.str("kind", n.Kind)
	e.optNum("count", n.Count)
	e.optStr("detail", n.Detail)
	e.close()
}

func (e *enc) raw(s string) { e.b = append(e.b, s...) }
func (e *enc) open()        { e.raw("{"); e.first = true }
func (e *enc) close()       { e.raw("}"); e.first = false }

func (e *enc) key(name string) {
	if !e.first {
		e.raw(",")
	}
	e.first = false
	e.raw(`"`)
	e.raw(name) // a constant of this file: nothing to escape
	e.raw(`":`)
}

func (e *enc) num(name string, n int64) {
	e.key(name)
	e.b = strconv.AppendInt(e.b, n, 10)
}

func (e *enc) optNum(name string, n int64) {
	if n != 0 {
		e.num(name, n)
	}
}

func (e *enc) bool(name string, v bool) {
	e.key(name)
	e.b = strconv.AppendBool(e.b, v)
}

// time writes a year that RFC 3339 cannot hold as the zero time, or the line
// could not be read again.
func (e *enc) time(name string, t time.Time) {
	t = t.UTC()
	if y := t.Year(); y < 1 || y > 9999 {
		t = time.Time{}
	}
	e.key(name)
	e.raw(`"`)
	e.b = t.AppendFormat(e.b, time.RFC3339Nano)
	e.raw(`"`)
}

func (e *enc) optStr(name, s string) {
	if s != "" {
		e.str(name, s)
	}
}

const hex = "0123456789abcdef"

func (e *enc) str(name, s string) {
	e.key(name)
	e.raw(`"`)
	plain := 0 // s[plain:i] needs no escape
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c < 0x7f && c != '"' && c != '\\' {
			i++
			continue
		}
		if c < utf8.RuneSelf {
			e.b = append(e.b, s[plain:i]...)
			switch c {
			case '"', '\\':
				e.b = append(e.b, '\\', c)
			case '\n':
				e.raw(`\n`)
			default:
				e.b = append(e.b, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
			}
			i++
			plain = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && size == 1 {
			e.b = append(e.b, s[plain:i]...)
			e.raw(`\ufffd`)
			plain = i + size
		}
		i += size
	}
	e.b = append(e.b, s[plain:]...)
	e.raw(`"`)
}
