package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Turned is s with the knob of its search at value, as a search probes it: below
// every timeout too, and where no breaker could open. Nothing at all of a fault is a
// control run: whether the system bears that is what all else is measured by.
func (s Scenario) Turned(value int64) Scenario {
	if s.Search == nil {
		return s
	}
	s.Faults = slices.Clone(s.Faults)
	for i := range s.Faults {
		f := &s.Faults[i]
		f.Toothless, f.RatioMilli = true, 0
		if f.ID != s.Search.Fault {
			continue
		}
		switch s.Search.Knob {
		case KnobLatency:
			if value > 0 {
				f.Rule.LatencyMS = value
			}
		case KnobBytes:
			f.Rule.Bytes = value
		case KnobRate:
			f.Rule.BytesPerSecond = max(value, 1)
		}
	}
	switch {
	case s.Search.Knob == KnobPercent:
		s.Sample.PPM = value
	case s.Search.Knob == KnobLatency && value == 0:
		s.Sample.PPM = 0
	}
	if !slices.Contains(s.Accept, CannotTrip) {
		s.Accept = append(slices.Clone(s.Accept), CannotTrip)
	}
	return s
}

// Turn is where the knob of s's search stands in the document.
func (s Scenario) Turn() int64 {
	if s.Search == nil {
		return 0
	}
	if s.Search.Knob == KnobPercent {
		return s.Sample.PPM
	}
	for _, f := range s.Faults {
		if f.ID != s.Search.Fault {
			continue
		}
		switch s.Search.Knob {
		case KnobLatency:
			return f.Rule.LatencyMS
		case KnobBytes:
			return f.Rule.Bytes
		case KnobRate:
			return f.Rule.BytesPerSecond
		}
	}
	return 0
}

// Finest is how near a search comes to the boundary: as the document says, else no
// nearer than what is worth knowing.
func (x Search) Finest(perTry time.Duration) int64 {
	if x.Resolution > 0 {
		return x.Resolution
	}
	switch x.Knob {
	case KnobLatency:
		return max(50, perTry.Milliseconds()/20)
	case KnobPercent:
		return 10_000
	}
	return max(1, (max(x.From, x.To)-min(x.From, x.To))/64)
}

// Show writes an amount of k with its unit.
func (k Knob) Show(value int64) string {
	switch k {
	case KnobLatency:
		return strconv.FormatInt(value, 10) + " ms"
	case KnobPercent:
		return percent(value)
	case KnobRate:
		return fmt.Sprintf("%d B/s", value)
	}
	return fmt.Sprintf("%d B", value)
}
