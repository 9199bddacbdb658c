package scenario

import (
	"fmt"
	"time"

	"breakwater/gateway/policy/fault"
)

// Facts are what is known of the live system before a run; zero fields are not
// known, and nothing is concluded from them.
type Facts struct {
	// PerTry is the timeout of one try to the target, Retries how many more
	// follow a failed one.
	PerTry  time.Duration
	Retries int
	// RPSMilli is the traffic of the target, in thousandths of a request a second.
	RPSMilli int64
	// TargetPPB is the promised share of good requests, by service.
	TargetPPB map[string]int64
}

// Warning is what a run would probably not show, told before it starts.
// Refuse: it proves nothing at all, and must not start unless the document
// says that this is meant.
type Warning struct {
	Code, Text string
	Refuse     bool
}

// Preflight looks for reasons why s could not show anything.
func (s Scenario) Preflight(f Facts) []Warning {
	var out []Warning
	add := func(refuse bool, code, format string, args ...any) {
		out = append(out, Warning{code, fmt.Sprintf(format, args...), refuse})
	}
	for _, x := range s.Faults {
		if x.Kind != fault.Latency || f.PerTry == 0 {
			continue
		}
		switch {
		case x.Latency <= f.PerTry && !x.Toothless:
			add(true, "toothless", "fault %s waits %v, and a try may take %v: no timeout is reached (write toothless: allowed if that is meant)", x.ID, x.Latency, f.PerTry)
		case x.Latency < 2*f.PerTry && x.Latency > f.PerTry:
			add(false, "weak", "fault %s waits %v, less than twice the %v a try may take", x.ID, x.Latency, f.PerTry)
		}
	}
	if s.Sample.PPM == 0 {
		add(false, "control-run", "percent is 0%%: nothing is injected, the run proves that nothing else changes")
	}
	if f.RPSMilli > 0 && s.Sample.PPM > 0 {
		hits := f.RPSMilli * int64(s.Phases.Inject/time.Second) / 1000 * s.Sample.PPM / 1_000_000
		if hits < 30 {
			add(false, "few-hits", "about %d tries will be hit, and a verdict needs 30: inject longer or a larger share", hits)
		}
	}
	if f.Retries > 2 {
		add(false, "storm", "%d retries multiply the traffic of a failing upstream", f.Retries)
	}
	for _, x := range s.Stop {
		target := f.TargetPPB[x.Service]
		if x.Kind != StopBurn || target == 0 {
			continue
		}
		// Everything failing burns 1 / (1 - target).
		if most := 1_000_000_000 * 1000 / max(1_000_000_000-target, 1); x.OverMilli >= most {
			add(false, "dead-brake", "a burn rate over %d is never reached by %s: all requests failing burns %d", x.OverMilli/1000, x.Service, most/1000)
		}
	}
	if len(s.During) == 0 {
		add(false, "no-during", "nothing is expected while the fault is on: the verdict will not say whether users were protected")
	}
	return out
}

// Services lists every service that s hits, watches or could stop for, once.
func (s Scenario) Services() []string {
	var out []string
	seen := map[string]bool{"": true}
	add := func(name string) {
		if !seen[name] {
			seen[name] = true
			out = append(out, name)
		}
	}
	add(s.Target.Service)
	for _, list := range [][]Assertion{s.Steady, s.During, s.After} {
		for _, a := range list {
			add(a.Service)
		}
	}
	for _, x := range s.Stop {
		add(x.Service)
	}
	return out
}
