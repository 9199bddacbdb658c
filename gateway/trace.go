package gateway

import (
	crand "crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"breakwater/gateway/exchange"
)

// The fields of W3C Trace Context.
const (
	traceParent = "Traceparent"
	traceState  = "Tracestate"
)

// trace sees to it that the upstream has a traceparent: the client's where that is
// sound, untouched, else one of ours. The client is told ours, since it has none.
func (g *Gateway) trace(next exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		head := &x.Request.Head
		if soundTrace(head) {
			return next.Serve(x)
		}
		minted := g.traces.mint(x)
		head.Set(traceParent, minted)
		head.Del(traceState) // it belongs to a trace that is lost
		err := next.Serve(x)
		if err == nil {
			x.Response.Head.Set(traceParent, minted)
		}
		return err
	})
}

// soundTrace reports whether there is one traceparent, and it is valid (Trace
// Context section 3.2; a version that is not yet known is read by its first parts).
func soundTrace(head *exchange.Head) bool {
	value, n := "", 0
	for _, f := range head.Fields() {
		if len(f.Name) == len(traceParent) && strings.EqualFold(f.Name, traceParent) {
			value, n = f.Value, n+1
		}
	}
	const length = len("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if n != 1 || len(value) < length || value[2] != '-' || value[35] != '-' || value[52] != '-' {
		return false
	}
	version, id, parent := value[:2], value[3:35], value[36:52]
	if !lowerHex(version) || !lowerHex(id) || !lowerHex(parent) || !lowerHex(value[53:length]) || version == "ff" ||
		strings.Trim(id, "0") == "" || strings.Trim(parent, "0") == "" {
		return false
	}
	return len(value) == length || version != "00" && value[length] == '-'
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if b := s[i]; (b < '0' || b > '9') && (b < 'a' || b > 'f') {
			return false
		}
	}
	return true
}

// traces makes trace ids, for all goroutines without a lock. They must be unique
// and need not be secret (splitmix64 from a random seed).
type traces struct{ state atomic.Uint64 }

func newTraces() *traces {
	var seed [8]byte
	_, _ = crand.Read(seed[:]) // never fails (crypto/rand)
	t := new(traces)
	t.state.Store(binary.LittleEndian.Uint64(seed[:]))
	return t
}

func (t *traces) next() uint64 {
	z := t.state.Add(0x9E3779B97F4A7C15)
	z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
	z = (z ^ z>>27) * 0x94D049BB133111EB
	return max(z^z>>31, 1) // a part of zeros only is no id
}

// mint makes a traceparent. It says "sampled": we record every exchange, and a
// client without tracing must not switch that of the upstream off.
func (t *traces) mint(x *exchange.Exchange) string {
	var raw [24]byte
	for i := range 3 {
		binary.BigEndian.PutUint64(raw[8*i:], t.next())
	}
	var out [55]byte
	copy(out[:], "00-")
	hex.Encode(out[3:], raw[:16])
	out[35] = '-'
	hex.Encode(out[36:], raw[16:])
	copy(out[52:], "-01")
	return x.Text(out[:])
}
