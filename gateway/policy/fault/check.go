package fault

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// refuse says why l is not armed, or "".
func (t *Table) refuse(l Lease, now time.Time) string {
	f := l.Fault
	switch {
	case t.halted:
		return "halted: the kill switch of this gateway is on"
	case !l.Until.After(now):
		return "has no ttl, or one that is over"
	}
	if err := Check(f); err != nil {
		return err.Error()
	}
	switch latency := time.Duration(f.LatencyMS) * time.Millisecond; {
	case f.PPM > t.caps.MaxPPM:
		return fmt.Sprintf("share %d ppm is over this gateway's cap of %d", f.PPM, t.caps.MaxPPM)
	case latency > t.caps.MaxLatency:
		return fmt.Sprintf("latency %v is over this gateway's cap of %v", latency, t.caps.MaxLatency)
	}
	return ""
}

// Check reports what makes f impossible, whatever the caps are.
func Check(f Fault) error {
	switch {
	case f.Run == "" || f.ID == "":
		return fmt.Errorf("fault must name its run and id, got %q and %q", f.Run, f.ID)
	case f.Target.Service == "":
		return fmt.Errorf("fault %s: target.service must be given: an empty selector hits everybody", f.ID)
	case f.PPM < 0 || f.PPM > 1_000_000:
		return fmt.Errorf("fault %s: share must be 0 to 1000000 ppm, got %d", f.ID, f.PPM)
	case f.Key != "" && f.Key != KeyAttempt && f.Key != KeyRequest:
		return fmt.Errorf("fault %s: key must be attempt or request, got %q", f.ID, f.Key)
	}
	switch f.Kind {
	case Latency:
		if f.LatencyMS <= 0 || f.LatencyMS > 3_600_000 {
			return fmt.Errorf("fault %s: latency_ms must be 1 to 3600000, got %d", f.ID, f.LatencyMS)
		}
	case Error:
		if f.Status < 400 || f.Status > 599 {
			return fmt.Errorf("fault %s: status must be 400 to 599, got %d", f.ID, f.Status)
		}
		for name, value := range f.Headers {
			if !token(name) || strings.ContainsAny(value, "\r\n\x00") || framing(name) {
				return fmt.Errorf("fault %s: header %q must be a field name and no line break, and not about framing", f.ID, name)
			}
		}
	default:
		return fmt.Errorf("fault %s: kind must be latency or error, got %q", f.ID, f.Kind)
	}
	return nil
}

// The keys of a fault's share.
const (
	KeyAttempt = "attempt"
	KeyRequest = "request"
)

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
func same(a, b Fault) bool {
	return a.ID == b.ID && a.Run == b.Run && a.Seed == b.Seed && a.Key == b.Key && a.PPM == b.PPM &&
		a.Kind == b.Kind && a.LatencyMS == b.LatencyMS && a.Status == b.Status && a.Body == b.Body &&
		a.Target.Service == b.Target.Service && a.Target.Endpoint == b.Target.Endpoint &&
		slices.Equal(a.Target.Routes, b.Target.Routes) && slices.Equal(a.Target.Callers, b.Target.Callers) &&
		maps.Equal(a.Headers, b.Headers)
}
