package ingest

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"time"
	"unsafe"

	"breakwater/internal/retrylog"
)

// glance reads a line as gateways write it, members in their order and no string
// with an escape, about ten times as fast as the JSON decoder. It reports false
// for every other line, which the decoder then reads. The line's checksum was
// looked at before. The strings of x are the line's own bytes: they are gone when
// the line is.
func glance(line []byte, x *retrylog.Exchange) bool {
	line = bytes.TrimSuffix(line, []byte("\n"))
	if len(line) < crcTail {
		return false
	}
	tries := x.Tries[:0]
	*x = retrylog.Exchange{}
	p := glancer{b: line[:len(line)-crcTail]}
	p.need(`{"exchange":{"count":`)
	x.Count = p.num()
	p.need(`,"request_id":`)
	x.RequestID = p.str()
	p.need(`,"start":`)
	x.Start = p.time()
	p.need(`,"end":`)
	x.End = p.time()
	p.need(`,"gateway":`)
	x.Gateway = p.str()
	p.need(`,"env":`)
	x.Env = p.str()
	p.need(`,"service":`)
	x.Service = p.str()
	p.need(`,"route":`)
	x.Route = p.str()
	p.optStr(`,"upstream":`, &x.Upstream)
	p.need(`,"method":`)
	x.Method = p.str()
	p.optStr(`,"caller":`, &x.Caller)
	p.optStr(`,"tenant":`, &x.Tenant)
	p.optStr(`,"tier":`, &x.Tier)
	if p.have(`,"tries":[`) {
		for {
			tries = append(tries, retrylog.Try{})
			p.try(&tries[len(tries)-1])
			if !p.have(`,`) {
				break
			}
		}
		p.need(`]`)
		x.Tries = tries
	}
	x.FirstStatus = int(p.optNum(`,"first_status":`))
	p.need(`,"status":`)
	x.Status = int(p.num())
	p.need(`,"outcome":`)
	x.Outcome = retrylog.Outcome(p.str())
	p.optStr(`,"timeout":`, &x.Timeout)
	p.optStr(`,"decision_reason":`, &x.Reason)
	p.optStr(`,"skip_reason":`, &x.Skip)
	x.RetryWaitMS = p.optNum(`,"retry_wait_ms":`)
	p.need(`,"latency_us":`)
	x.LatencyUS = p.num()
	p.need(`,"body_complete":`)
	x.BodyComplete = p.bool()
	p.optStr(`,"degraded":`, &x.Degraded)
	p.optStr(`,"refusal":`, &x.Refusal)
	p.need(`,"origin":`)
	x.Origin = p.str()
	p.optStr(`,"observed":`, &x.Observed)
	p.optStr(`,"experiment":`, &x.Experiment)
	p.optStr(`,"synthetic":`, &x.Synthetic)
	x.SamplePPM = p.optNum(`,"p_sample_ppm":`)
	x.DepTimeouts = int(p.optNum(`,"dep_timeouts":`))
	p.optStr(`,"business_code":`, &x.BusinessCode)
	p.need(`,"config_revision":`)
	x.Revision = p.str()
	x.BytesOut = p.optNum(`,"bytes_out":`)
	p.need(`}`)
	return !p.odd && p.at == len(p.b) && x.Count >= 1
}

func (p *glancer) try(t *retrylog.Try) {
	p.need(`{"endpoint":`)
	t.Endpoint = p.str()
	t.Status = int(p.optNum(`,"status":`))
	p.optStr(`,"kind":`, &t.Kind)
	p.need(`,"latency_us":`)
	t.LatencyUS = p.num()
	t.WaitMS = p.optNum(`,"wait_ms":`)
	p.optStr(`,"decision_reason":`, &t.Reason)
	p.optStr(`,"skip_reason":`, &t.Skip)
	p.optStr(`,"fault":`, &t.Fault)
	t.PlannedUS = p.optNum(`,"planned_us":`)
	t.ActualUS = p.optNum(`,"actual_us":`)
	if p.have(`,"cut_short":`) {
		t.CutShort = p.bool()
	}
	p.optStr(`,"cause":`, &t.Cause)
	p.need(`}`)
}

// glancer walks a line. Once something is not as expected it is odd and moves no more.
type glancer struct {
	b   []byte
	at  int
	odd bool
}

// have steps over s if it is next.
func (p *glancer) have(s string) bool {
	if end := p.at + len(s); !p.odd && end <= len(p.b) && string(p.b[p.at:end]) == s {
		p.at = end
		return true
	}
	return false
}

func (p *glancer) need(s string) {
	if !p.have(s) {
		p.odd = true
	}
}

func (p *glancer) optStr(key string, to *string) {
	if p.have(key) {
		*to = p.str()
	}
}

func (p *glancer) optNum(key string) int64 {
	if p.have(key) {
		return p.num()
	}
	return 0
}

func (p *glancer) bool() bool {
	if p.have("true") {
		return true
	}
	p.need("false")
	return false
}

// str takes a string of plain ASCII: it ends at the first byte that is not.
func (p *glancer) str() string {
	if p.odd || p.at >= len(p.b) || p.b[p.at] != '"' {
		p.odd = true
		return ""
	}
	from := p.at + 1
	i := from
	for ; i+8 <= len(p.b); i += 8 {
		if m := unusual(binary.LittleEndian.Uint64(p.b[i:])); m != 0 {
			i += bits.TrailingZeros64(m) / 8
			break
		}
	}
	for i < len(p.b) && p.b[i] >= ' ' && p.b[i] < 0x80 && p.b[i] != '"' && p.b[i] != '\\' {
		i++
	}
	if i == len(p.b) || p.b[i] != '"' {
		p.odd = true
		return ""
	}
	p.at = i + 1
	if i == from {
		return ""
	}
	return unsafe.String(&p.b[from], i-from)
}

// unusual marks, by its high bit, the first of eight bytes that is a quote, a
// backslash, a control character or beyond ASCII; later marks may be wrong.
func unusual(v uint64) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	zero := func(x uint64) uint64 { return (x - ones) &^ x }
	return (zero(v^ones*'"') | zero(v^ones*'\\') | (v - ones*' ') | v) & highs
}

// num takes a whole number of up to 18 digits, as strconv writes it.
func (p *glancer) num() int64 {
	from := p.at
	neg := p.have("-")
	var n int64
	first := p.at
	for p.at < len(p.b) {
		c := p.b[p.at] - '0'
		if c > 9 {
			break
		}
		n = n*10 + int64(c)
		p.at++
	}
	digits := p.at - first
	if p.odd || digits == 0 || digits > 18 || p.b[first] == '0' && (digits > 1 || neg) {
		p.at, p.odd = from, true
		return 0
	}
	if neg {
		return -n
	}
	return n
}

// time takes an instant in UTC, in RFC 3339 with up to nine digits of a second.
func (p *glancer) time() time.Time {
	s := p.str()
	const least = "2006-01-02T15:04:05Z"
	if p.odd || len(s) < len(least) || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[len(s)-1] != 'Z' {
		p.odd = true
		return time.Time{}
	}
	part := func(from, to int) (n int) {
		for _, c := range []byte(s[from:to]) {
			if c -= '0'; c > 9 {
				p.odd = true
			} else {
				n = n*10 + int(c)
			}
		}
		return n
	}
	year, month, day := part(0, 4), part(5, 7), part(8, 10)
	hour, minute, second := part(11, 13), part(14, 16), part(17, 19)
	nanos := 0
	if frac := len(s) - len(least); frac > 0 {
		if s[19] != '.' || frac < 2 || frac > 10 {
			p.odd = true
			return time.Time{}
		}
		nanos = part(20, len(s)-1)
		for range 10 - frac {
			nanos *= 10
		}
	}
	// The 29th of February is left to the decoder, which knows the years.
	if p.odd || year < 1 || month < 1 || month > 12 || day < 1 || day > shortest[month-1] || hour > 23 || minute > 59 || second > 59 {
		p.odd = true
		return time.Time{}
	}
	return time.Unix(unix(year, month, day, hour, minute, second), int64(nanos)).UTC()
}

// shortest is how many days a month has in any year.
var shortest = [12]int{31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// unix counts days in a calendar whose years begin in March, where a leap day is
// a year's last.
func unix(year, month, day, hour, minute, second int) int64 {
	if month <= 2 {
		year--
		month += 12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719_468
	return int64(days)*86_400 + int64(hour*3600+minute*60+second)
}
