package breaker

import (
	"fmt"
	"math"
	"time"
)

// Forecast says whether traffic could ever trip a breaker, and how long it would
// take: a threshold that today's calls cannot reach protects nobody.
type Forecast struct {
	RateMilli int64 `json:"rate_milli"` // calls per thousand seconds that it is for
	// CanTrip: it opens where every call fails.
	CanTrip bool `json:"can_trip"`
	// LeastMilli is the rate under which there are never enough calls in a window.
	LeastMilli int64 `json:"least_milli"`
	// Trips are for shares of failing calls.
	Trips [4]Trip `json:"trips"`
	Why   string  `json:"why"`
}

// Trip is how long it takes, with luck of neither kind, from the first failure on.
type Trip struct {
	FailPercent int64         `json:"fail_percent"`
	Never       bool          `json:"never,omitempty"`
	After       time.Duration `json:"after,omitempty"`
}

// practically is never: what lasts longer than anybody waits.
const practically = 30 * 24 * time.Hour

// Feasible works out a Forecast for cfg at a steady rate of calls, in thousandths
// a second, of which a share begins to fail at random.
func Feasible(cfg Config, rateMilli int64) Forecast {
	cfg = cfg.filled()
	f := Forecast{RateMilli: rateMilli}
	if cfg.Disabled {
		f.Why = "it is switched off"
	}
	// One call fewer than the window is long may fall into it.
	f.LeastMilli = (cfg.MinRequests*1000*int64(time.Second) + int64(cfg.Window) - 1) / int64(cfg.Window)
	for i, percent := range [...]int64{10, 30, 50, 100} {
		t := Trip{FailPercent: percent, Never: true}
		if d, ok := cfg.tripTime(float64(rateMilli)/1000, float64(percent)/100); ok && !cfg.Disabled && d < practically {
			t.Never, t.After = false, d.Round(100*time.Millisecond)
		}
		f.Trips[i] = t
	}
	f.CanTrip = !f.Trips[3].Never
	if f.Why == "" {
		f.Why = cfg.whyNot(rateMilli, f)
	}
	return f
}

// tripTime is how long failing with that share takes to trip; ok is false where it
// never does. It estimates; nothing is decided by it.
func (c *Config) tripTime(rate, share float64) (time.Duration, bool) {
	if rate <= 0 {
		return 0, false
	}
	byShare, can := c.shareTime(rate, share)
	if c.Rule != Dual {
		return byShare, can
	}
	// The mean number of calls until a row of n: (p^-n - 1) / (1 - p).
	n := float64(c.Consecutive)
	calls := n
	if share < 1 {
		calls = (math.Pow(share, -n) - 1) / (1 - share)
	}
	row := time.Duration(math.Min(calls/rate, practically.Seconds()) * float64(time.Second))
	switch {
	case c.Mode == And:
		return max(row, byShare), can
	case can:
		return min(row, byShare), true
	}
	return row, true
}

// shareTime is how long until the share of the window is reached.
func (c *Config) shareTime(rate, share float64) (time.Duration, bool) {
	window := c.Window.Seconds()
	limit := float64(c.ErrorPPM) / million
	// A share at the limit itself is now above and now below it.
	if c.ErrorPPM == 0 || rate*window < float64(c.MinRequests) || share < limit || c.Above && share <= limit {
		return 0, false
	}
	// Good calls from before dilute the window until that much of it is new.
	fill := window * limit / share
	if c.Rule == Windows && c.Windows == 2 && !c.Sliding {
		// Failures that begin a little too late for a window leave it good, and
		// two whole ones follow: the longest it can take.
		return time.Duration((fill + 2*window) * float64(time.Second)), true
	}
	if c.Rule == Windows && c.Windows == 2 {
		fill += window
	}
	return time.Duration(fill * float64(time.Second)), true
}

func (c *Config) whyNot(rateMilli int64, f Forecast) string {
	rate := fmt.Sprintf("%d.%03d calls a second", rateMilli/1000, rateMilli%1000)
	switch {
	case rateMilli == 0:
		return "there is no traffic"
	case !f.CanTrip && rateMilli < f.LeastMilli:
		return fmt.Sprintf("%s are fewer than %d in %s: it can never trip", rate, c.MinRequests, c.Window)
	case !f.CanTrip:
		return "it can never trip"
	case f.Trips[2].Never && c.Rule == Dual:
		return fmt.Sprintf("with half of all calls failing, %d in a row do not come within %d days at %s", c.Consecutive, int(practically.Hours()/24), rate)
	}
	return fmt.Sprintf("at %s it trips %s after all calls begin to fail", rate, f.Trips[3].After)
}
