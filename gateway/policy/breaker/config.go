package breaker

import (
	"slices"
	"time"
)

// Rule is how counts become a trip.
type Rule string

// The rules.
const (
	// Windows trips on the share of calls that failed, in one window or in two
	// windows in a row.
	Windows Rule = "windows"
	// Dual trips on failures in a row and on a share, joined by Mode.
	Dual Rule = "dual"
)

// Mode joins the two conditions of Dual. There is no standard one: with "and" half
// of all calls failing at random needs years to trip, with "or" a few in a row do.
type Mode string

// The modes.
const (
	And Mode = "and"
	Or  Mode = "or"
)

// Config says when calls are stopped, and how they are let in again. A zero field
// has the value of Default, where zero is no value of its own.
type Config struct {
	Disabled bool `json:"disabled,omitempty"`
	// Observe decides and counts as ever, and lets every request pass.
	Observe bool `json:"observe,omitempty"`

	Rule Rule `json:"rule"`
	// Windows is 1, judged at every result, or 2, judged at the end of each window.
	Windows int64 `json:"windows,omitempty"`
	// Sliding judges two windows as one that slides, a bucket at a time; while
	// there are too few calls the verdict before stands. Otherwise windows lie end
	// to end, and one with too few calls ends the streak.
	Sliding bool `json:"sliding,omitempty"`
	Mode    Mode `json:"mode,omitempty"`
	// Consecutive is how many failures in a row Dual asks for.
	Consecutive int64 `json:"consecutive,omitempty"`

	Window time.Duration `json:"window"`
	Bucket time.Duration `json:"bucket"`
	// ErrorPPM is the share of failures at which the rule holds; 0 leaves it out of
	// a Dual by Or. Above asks for more than that, where else reaching it is enough.
	ErrorPPM    int64 `json:"error_ppm,omitempty"`
	Above       bool  `json:"above,omitempty"`
	MinRequests int64 `json:"min_requests"`
	// A call that has no answer after SlowAfter counts as slow at that moment.
	// SlowPPM is the share of slow ones that trips; 0: none does.
	SlowAfter time.Duration `json:"slow_after,omitempty"`
	SlowPPM   int64         `json:"slow_ppm,omitempty"`

	// OpenFor doubles with each level, up to MaxOpen; Decay is how long it has to
	// be closed for each level to be forgotten.
	OpenFor  time.Duration `json:"open_for"`
	MaxOpen  time.Duration `json:"max_open"`
	Decay    time.Duration `json:"decay"`
	HalfOpen Trial         `json:"half_open"`

	// Count and Ignore are the statuses that are failures, and that say nothing.
	Count  []int `json:"count"`
	Ignore []int `json:"ignore"`
	// UnlistedFail takes a 5xx that is in neither list for a failure.
	UnlistedFail bool `json:"unlisted_5xx_fail,omitempty"`
	// OutcomeHeader names the field in which an upstream may say itself what its
	// answer is: success, failure or ignore. "": none is read.
	OutcomeHeader string `json:"outcome_header,omitempty"`
}

// Trial is how an upstream is tried out before it is trusted again.
type Trial struct {
	// Simple lets Probes calls go at once; all must succeed, one failure reopens.
	// Otherwise they are spread over probe windows.
	Simple bool          `json:"simple,omitempty"`
	Window time.Duration `json:"window"`
	// Probes is how many a window may have, evenly apart.
	Probes int64 `json:"probes"`
	// PassPPM is the share of them that must succeed; PassAbove asks for more.
	PassPPM   int64 `json:"pass_ppm"`
	PassAbove bool  `json:"pass_above,omitempty"`
	// PassWindows is how many in a row must pass; one without probes says nothing.
	PassWindows int64 `json:"pass_windows"`
	// Stuck is how long a probe is waited for.
	Stuck time.Duration `json:"stuck"`
}

// OutcomeHeader is the field that is read where no other is named.
const OutcomeHeader = "X-Breakwater-Outcome"

// Default is the breaker of a service: it counts what clients are told at last.
func Default() Config {
	return Config{
		Rule: Windows, Windows: 2, Window: 10 * time.Second, Bucket: 500 * time.Millisecond,
		ErrorPPM: 300_000, MinRequests: 20,
		OpenFor: 10 * time.Second, MaxOpen: 300 * time.Second, Decay: 30 * time.Second,
		HalfOpen: Trial{Window: 10 * time.Second, Probes: 5, PassPPM: 800_000, PassWindows: 3, Stuck: 60 * time.Second},
		Count:    []int{500, 502, 503, 504}, Ignore: []int{408, 429}, OutcomeHeader: OutcomeHeader,
	}
}

// DefaultEndpoint is the breaker of one endpoint: it counts tries, and is quicker.
func DefaultEndpoint() Config {
	c := Default()
	c.Windows = 1
	return c
}

func (c Config) filled() Config {
	d := Default()
	or := func(v *time.Duration, def time.Duration) {
		if *v <= 0 {
			*v = def
		}
	}
	if c.Rule == "" {
		c.Rule = Windows
	}
	if c.Rule == Windows && c.Windows == 0 {
		c.Windows = d.Windows
	}
	if c.Rule == Dual && c.Window == 0 {
		c.Window = 30 * time.Second
	}
	or(&c.Window, d.Window)
	or(&c.Bucket, d.Bucket)
	or(&c.OpenFor, d.OpenFor)
	or(&c.MaxOpen, d.MaxOpen)
	or(&c.Decay, d.Decay)
	or(&c.HalfOpen.Window, d.HalfOpen.Window)
	or(&c.HalfOpen.Stuck, d.HalfOpen.Stuck)
	if c.HalfOpen.Probes <= 0 {
		c.HalfOpen.Probes = d.HalfOpen.Probes
	}
	if c.HalfOpen.PassPPM <= 0 {
		c.HalfOpen.PassPPM = d.HalfOpen.PassPPM
	}
	if c.HalfOpen.PassWindows <= 0 {
		c.HalfOpen.PassWindows = d.HalfOpen.PassWindows
	}
	if c.Count == nil {
		c.Count = d.Count
	}
	if c.Ignore == nil {
		c.Ignore = d.Ignore
	}
	if c.SlowPPM <= 0 || c.SlowAfter <= 0 {
		c.SlowPPM, c.SlowAfter = 0, 0
	}
	return c
}

// openFor is how long a breaker of that level stays open.
func (c *Config) openFor(level int64) time.Duration {
	d := min(c.OpenFor, c.MaxOpen)
	for ; level > 1 && d < c.MaxOpen; level-- {
		d = min(d*2, c.MaxOpen) // at most 300 s twice: cannot overflow
	}
	return d
}

// judge is what an answer with that status says.
func (c *Config) judge(status int) Result {
	switch {
	case slices.Contains(c.Ignore, status):
		return Ignored
	case slices.Contains(c.Count, status), c.UnlistedFail && status >= 500:
		return Failure
	}
	return Success
}

// sameWindow reports whether what was counted under d still says something.
func (c *Config) sameWindow(d *Config) bool { return c.Window == d.Window && c.Bucket == d.Bucket }

const million = 1_000_000

// reaches reports whether part of whole is ppm of it, or with above more.
func reaches(part, ppm, whole int64, above bool) bool {
	if above {
		return part*million > ppm*whole
	}
	return part*million >= ppm*whole
}
