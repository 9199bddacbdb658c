package fault

import (
	"math"
	"time"
)

// longest is the longest that the latency of f can be, for the cap of a gateway.
func (f *Fault) longest() time.Duration {
	d := f.Delay
	if d == nil {
		return time.Duration(f.LatencyMS) * time.Millisecond
	}
	ms := d.MS
	switch d.Dist {
	case "uniform":
		ms += d.JitterMS
	case "table":
		ms = d.Table[len(d.Table)-1].MS
	case "normal":
		ms += 8 * d.JitterMS // as far as the drawing reaches
	case "pareto":
		ms = d.CapMS
	}
	if d.CapMS > 0 {
		ms = min(ms, d.CapMS)
	}
	return time.Duration(ms) * time.Millisecond
}

// latency is how long the unit with the hash h waits: a function of it, so that
// what happened can be worked out again.
func (f *Fault) latency(h uint64) time.Duration {
	d := f.Delay
	if d == nil {
		return time.Duration(f.LatencyMS) * time.Millisecond
	}
	// Another draw than the one that chose the unit: that one was small.
	u := unit(mix(h ^ 0x9e3779b97f4a7c15))
	ms := float64(d.MS)
	switch d.Dist {
	case "uniform":
		ms += (2*u - 1) * float64(d.JitterMS)
	case "normal":
		// Box and Muller, A note on the generation of random normal deviates, 1958.
		v := unit(mix(h ^ 0xc2b2ae3d27d4eb4f))
		ms += math.Sqrt(-2*math.Log(1-u)) * math.Cos(2*math.Pi*v) * float64(d.JitterMS)
	case "pareto":
		ms *= math.Pow(1-u, -1000/float64(d.Alpha))
	case "table":
		ms = d.at(u)
	}
	if d.CapMS > 0 {
		ms = min(ms, float64(d.CapMS))
	}
	return min(time.Duration(max(ms, 0)*float64(time.Millisecond)), f.longest())
}

// at reads the table at the share u.
func (d *Delay) at(u float64) float64 {
	var before Percentile
	share := u * 1_000_000
	for _, p := range d.Table {
		if share <= float64(p.PPM) {
			part := (share - float64(before.PPM)) / float64(p.PPM-before.PPM)
			return float64(before.MS) + part*float64(p.MS-before.MS)
		}
		before = p
	}
	return float64(before.MS)
}

// unit scales h to [0, 1).
func unit(h uint64) float64 { return float64(h>>11) / (1 << 53) }
