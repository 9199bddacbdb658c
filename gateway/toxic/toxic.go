// Package toxic forwards TCP connections through ports of its own, and hurts what
// goes by as Toxiproxy does, whose HTTP API it speaks: tests that are written for
// that run against a gateway unchanged. It obeys the gateway's caps and its kill
// switch.
package toxic

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"time"

	"breakwater/gateway/policy/fault"
)

// The directions of a connection.
const (
	upstream   = "upstream"   // from client to server
	downstream = "downstream" // from server to client
)

// kinds are the toxics there are, with the attributes of each. Times are in
// milliseconds, but for the slicer's in microseconds; a rate is in KB/s.
func kinds() map[string][]string {
	return map[string][]string{
		"latency":    {"latency", "jitter"},
		"bandwidth":  {"rate"},
		"slow_close": {"delay"},
		"timeout":    {"timeout"},
		"reset_peer": {"timeout"},
		"slicer":     {"average_size", "size_variation", "delay"},
		"limit_data": {"bytes"},
	}
}

// toxic is one of a proxy's; never changed, only replaced.
type toxic struct {
	Name       string           `json:"name"`
	Type       string           `json:"type"`
	Stream     string           `json:"stream"`
	Toxicity   float64          `json:"toxicity"`
	Attributes map[string]int64 `json:"attributes"`

	began time.Time // when it was added
}

// input is what a client may say of a toxic.
type input struct {
	Name       string                     `json:"name"`
	Type       string                     `json:"type"`
	Stream     string                     `json:"stream"`
	Toxicity   *float64                   `json:"toxicity"`
	Attributes map[string]json.RawMessage `json:"attributes"`
}

// apply is t with what in says of it.
func (t toxic) apply(in input, caps fault.Caps) (*toxic, error) {
	if in.Toxicity != nil {
		t.Toxicity = *in.Toxicity
	}
	if t.Toxicity < 0 || t.Toxicity > 1 || math.IsNaN(t.Toxicity) {
		return nil, bad("toxicity must be 0 to 1, got %v", t.Toxicity)
	}
	// What a single precision client means by 0.1 is a tenth.
	if ppm := t.ppm(); caps.MaxPPM > 0 && ppm > caps.MaxPPM {
		return nil, bad("toxicity is %d ppm, over this gateway's cap of %d", ppm, caps.MaxPPM)
	}
	known := kinds()[t.Type]
	before := t.Attributes
	t.Attributes = map[string]int64{}
	for _, name := range known {
		t.Attributes[name] = before[name]
	}
	for _, name := range slices.Sorted(maps.Keys(in.Attributes)) {
		if !slices.Contains(known, name) {
			continue // as Toxiproxy does
		}
		n := 0.0
		if err := json.Unmarshal(in.Attributes[name], &n); err != nil || n != math.Trunc(n) || n < 0 || n > 1<<40 {
			return nil, bad("%s must be a whole number that is not negative, got %s", name, in.Attributes[name])
		}
		t.Attributes[name] = int64(n)
	}
	return &t, t.check(caps)
}

func (t *toxic) check(caps fault.Caps) error {
	a := t.Attributes
	longest := time.Duration(0)
	switch t.Type {
	case "latency":
		if a["jitter"] > a["latency"] {
			return bad("jitter must not be more than latency (%d), got %d: a delay below 0 has no meaning", a["latency"], a["jitter"])
		}
		longest = t.ms("latency") + t.ms("jitter")
	case "slow_close":
		longest = t.ms("delay")
	case "slicer":
		if a["size_variation"] > 0 && a["size_variation"] >= a["average_size"] {
			return bad("size_variation must be less than average_size (%d), got %d", a["average_size"], a["size_variation"])
		}
		longest = time.Duration(a["delay"]) * time.Microsecond
	}
	if caps.MaxLatency > 0 && longest > caps.MaxLatency {
		return bad("%s: %v is over this gateway's cap of %v", t.Type, longest, caps.MaxLatency)
	}
	return nil
}

// create makes a toxic of in.
func create(in input, caps fault.Caps) (*toxic, error) {
	t := toxic{Type: in.Type, Stream: cmp.Or(in.Stream, downstream), Toxicity: 1, began: time.Now()}
	if kinds()[t.Type] == nil {
		return nil, bad("invalid toxic type")
	}
	if t.Stream != upstream && t.Stream != downstream {
		return nil, bad("stream was invalid, can be either upstream or downstream")
	}
	t.Name = cmp.Or(in.Name, t.Type+"_"+t.Stream)
	return t.apply(in, caps)
}

func (t *toxic) ppm() int64 { return int64(math.Round(t.Toxicity * 1_000_000)) }

func (t *toxic) ms(name string) time.Duration {
	return time.Duration(min(t.Attributes[name], 1<<32)) * time.Millisecond
}

// hits reports whether a connection is one of those that t is for. It depends on
// the names alone, so that an update does not draw anew.
func (t *toxic) hits(proxy string, connection int64) bool {
	return fault.Hit(proxy+"/"+t.Name, fmt.Sprint(connection), t.ppm())
}

// mistake is an error with the status that goes with it.
type mistake struct {
	Message string `json:"error"`
	Status  int    `json:"status"`
}

func (m *mistake) Error() string { return m.Message }

func bad(format string, args ...any) error {
	return &mistake{fmt.Sprintf(format, args...), http.StatusBadRequest}
}
