package fault

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// refuse says why l is not armed beside others, or "".
func (t *Table) refuse(l Lease, now time.Time, others []*cell) string {
	f := &l.Fault
	switch {
	case t.halted:
		return "halted: the kill switch of this gateway is on"
	case !l.Until.After(now):
		return "has no ttl, or one that is over"
	}
	if err := Check(l.Fault); err != nil {
		return err.Error()
	}
	if age := time.Duration(t.since(now) - t.born[[2]string{f.Run, f.ID}]); age >= t.caps.MaxDuration {
		return fmt.Sprintf("has lived for %v, and this gateway's cap is %v", age.Truncate(time.Second), t.caps.MaxDuration)
	}
	return t.beyond(f, others)
}

// beyond says which cap f would pass beside others, or "".
func (t *Table) beyond(f *Fault, others []*cell) string {
	if latency := f.longest(); latency > t.caps.MaxLatency {
		return fmt.Sprintf("latency %v is over this gateway's cap of %v", latency, t.caps.MaxLatency)
	}
	if f.PPM > t.caps.MaxPPM {
		return fmt.Sprintf("share %d ppm is over this gateway's cap of %d", f.PPM, t.caps.MaxPPM)
	}
	// Who is hit by one fault or another. Of one seed and key the shares lie in each
	// other; else each may hit whom the others spare.
	type draw struct{ seed, key string }
	shares := map[draw]int64{{f.Seed, f.key()}: f.PPM}
	for _, c := range others {
		if c.Target.Service == f.Target.Service && meet(c.Target.Routes, f.Target.Routes) {
			d := draw{c.Seed, c.key()}
			shares[d] = max(shares[d], c.PPM)
		}
	}
	union := int64(0)
	for _, ppm := range shares {
		union += ppm
	}
	if t.caps.MaxPPM < 1_000_000 && union > t.caps.MaxPPM {
		return fmt.Sprintf("share %d ppm, with those of the faults beside it, is over this gateway's cap of %d", f.PPM, t.caps.MaxPPM)
	}
	return ""
}

func (f *Fault) key() string { return cmp.Or(f.Key, KeyAttempt) }

// meet reports whether some route is in both lists; an empty one holds all.
func meet(a, b []string) bool {
	return len(a) == 0 || len(b) == 0 || slices.ContainsFunc(a, func(v string) bool { return slices.Contains(b, v) })
}

// note is what whoever reads a receipt of f must know.
func (f *Fault) note() string {
	if f.Position != AtEdge || f.Kind != Drop && f.Kind != Reset {
		return ""
	}
	return "of HTTP/2 only the stream is reset; some clients send a GET again by themselves when a connection they used before is lost, and then nobody sees the fault"
}

// Check reports what makes f impossible, whatever the caps are.
func Check(f Fault) error {
	if f.Run == "" || f.ID == "" {
		return fmt.Errorf("fault must name its run and id, got %q and %q", f.Run, f.ID)
	}
	if err := f.check(); err != nil {
		return fmt.Errorf("fault %s: %w", f.ID, err)
	}
	return nil
}

func (f *Fault) check() error {
	switch {
	case f.Target.Service == "":
		return errors.New("target.service must be given: an empty selector hits everybody")
	case f.PPM < 0 || f.PPM > 1_000_000:
		return fmt.Errorf("share must be 0 to 1000000 ppm, got %d", f.PPM)
	case f.Key != "" && !slices.Contains(keys(), f.Key):
		return fmt.Errorf("key must be one of %s, got %q", strings.Join(keys(), ", "), f.Key)
	case f.RampMS < 0 || f.RampMS > 86_400_000:
		return fmt.Errorf("ramp_ms must be 0 to 86400000, got %d", f.RampMS)
	case f.EveryMS < 0 || f.EveryMS > 86_400_000 || f.ForMS < 0 || (f.EveryMS > 0 || f.ForMS > 0) && (f.ForMS == 0 || f.ForMS >= f.EveryMS):
		return fmt.Errorf("for_ms must be 1 to less than every_ms, and that at most 86400000, got %d of %d", f.ForMS, f.EveryMS)
	case f.First < 0:
		return fmt.Errorf("first must not be negative, got %d", f.First)
	case f.Position != "" && f.Position != AtUpstream && f.Position != AtEdge:
		return fmt.Errorf("position must be upstream or edge, got %q", f.Position)
	case f.Position == AtEdge && !slices.Contains([]Kind{Latency, Error, Drop, Reset}, f.Kind):
		return fmt.Errorf("at the edge the kind must be latency, error, drop or reset, got %q", f.Kind)
	case f.Position == AtEdge && (f.Key == KeyAttempt || f.Key == ""):
		return errors.New("at the edge the key must be another than attempt: there is one try there")
	case f.Position == AtEdge && f.Target.Endpoint != "":
		return errors.New("at the edge target.endpoint must not be given: none is chosen there")
	}
	for _, list := range [][]string{{f.Target.Service, f.Target.Endpoint}, f.Target.Routes, f.Target.Methods, f.Target.Callers, f.Target.Tenants,
		f.Target.ExcludeCallers, f.Target.ExcludeTenants} {
		if slices.Contains(list, "*") {
			return errors.New("target: * is no name: leave the list out to mean everybody, but for the service")
		}
	}
	for _, h := range f.Target.Headers {
		if !token(h.Name) {
			return fmt.Errorf("target: %q must be a field name", h.Name)
		}
	}
	return f.checkKind()
}

// checkKind looks at what the kind alone needs.
func (f *Fault) checkKind() error {
	switch f.Kind {
	case Latency:
		if !slices.Contains([]Side{"", RequestSide, ResponseSide, BothSides}, f.Side) {
			return fmt.Errorf("side must be request, response or both, got %q", f.Side)
		}
		if f.Delay != nil {
			return f.Delay.check()
		}
		if f.LatencyMS <= 0 || f.LatencyMS > mostMS {
			return fmt.Errorf("latency_ms must be 1 to %d, got %d", mostMS, f.LatencyMS)
		}
	case Error:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("status must be 400 to 599, got %d", f.Status)
		}
		return f.checkHeaders()
	case GRPC:
		if f.Status < 1 || f.Status > 16 {
			return fmt.Errorf("status must be 1 to 16, got %d: 0 is no error", f.Status)
		}
	case Drop, Reset:
		if f.Phase != BeforeUpstream && f.Phase != AfterUpstream {
			return fmt.Errorf("phase must be before_upstream or after_upstream, got %q: whether the upstream did its work is the point", f.Phase)
		}
	case Refuse, Blackhole, Duplicate:
		if f.Phase == AfterUpstream {
			return fmt.Errorf("phase must not be after_upstream of a %s fault", f.Kind)
		}
	case Header:
		if f.Side == BothSides || len(f.Headers)+len(f.Remove) == 0 {
			return errors.New("a header fault must set or remove fields on the request or the response side")
		}
		return f.checkHeaders()
	case Truncate:
		if f.Bytes < 0 || f.PPMOfBody < 0 || f.PPMOfBody >= 1_000_000 || f.Bytes > 0 && f.PPMOfBody > 0 {
			return fmt.Errorf("a truncated body must keep bytes, or ppm_of_body below 1000000, got %d and %d", f.Bytes, f.PPMOfBody)
		}
	case Corrupt:
		if f.PPMOfBody < 1 || f.PPMOfBody > 1_000_000 {
			return fmt.Errorf("ppm_of_body must be 1 to 1000000, got %d", f.PPMOfBody)
		}
	case Drip:
		if f.BytesPerSecond < 1 || f.BytesPerSecond > 1_000_000_000 {
			return fmt.Errorf("bytes_per_second must be 1 to 1000000000, got %d (nothing at all is a blackhole)", f.BytesPerSecond)
		}
	case Body:
	default:
		return fmt.Errorf("kind is not known, got %q", f.Kind)
	}
	return nil
}

func (f *Fault) checkHeaders() error {
	for name, value := range f.Headers {
		if !token(name) || strings.ContainsAny(value, "\r\n\x00") || framing(name) {
			return fmt.Errorf("header %q must be a field name and no line break, and not about framing", name)
		}
	}
	for _, name := range f.Remove {
		if !token(name) || framing(name) {
			return fmt.Errorf("removed header %q must be a field name, and not about framing", name)
		}
	}
	return nil
}

const mostMS = 3_600_000

// check reports what makes a varying latency impossible.
func (d *Delay) check() error {
	if d.MS < 0 || d.MS > mostMS || d.JitterMS < 0 || d.JitterMS > mostMS || d.CapMS < 0 || d.CapMS > mostMS {
		return fmt.Errorf("delay: all times must be 0 to %d ms", mostMS)
	}
	switch d.Dist {
	case "fixed":
		if d.MS == 0 {
			return errors.New("delay: ms must be more than 0")
		}
	case "uniform":
		if d.JitterMS == 0 || d.JitterMS > d.MS {
			return fmt.Errorf("delay: jitter_ms must be 1 to ms (%d), got %d", d.MS, d.JitterMS)
		}
	case "normal":
		if d.JitterMS == 0 || d.MS == 0 {
			return errors.New("delay: normal must have a mean and a deviation (ms, jitter_ms)")
		}
	case "pareto":
		if d.MS == 0 || d.Alpha < 1 || d.Alpha > 100_000 || d.CapMS < d.MS {
			return errors.New("delay: pareto must have ms, alpha_milli (1 to 100000), and a cap_ms that is not less than ms")
		}
	case "table":
		return d.checkTable()
	default:
		return fmt.Errorf("delay: dist must be fixed, uniform, normal, pareto or table, got %q", d.Dist)
	}
	return nil
}

func (d *Delay) checkTable() error {
	var last Percentile
	for i, p := range d.Table {
		if p.PPM <= last.PPM || p.PPM > 1_000_000 || p.MS < last.MS || p.MS > mostMS {
			return fmt.Errorf("delay: entry %d of the table must rise in ppm (to 1000000) and not fall in ms", i+1)
		}
		last = p
	}
	if last.PPM == 0 {
		return errors.New("delay: the table must have at least one entry")
	}
	return nil
}

func token(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	}) < 0
}

// framing names are the wire's business: a fault that wrote them could smuggle.
func framing(name string) bool {
	return slices.ContainsFunc([]string{"Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Keep-Alive"},
		func(s string) bool { return strings.EqualFold(s, name) })
}

// same compares all of two rules, so that a hash written wrongly cannot keep an
// old rule alive under a new name.
func same(a, b Fault) bool { return reflect.DeepEqual(a, b) }
