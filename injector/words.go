package injector

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"breakwater/injector/scenario"
)

func sqrt(x float64) float64 { return math.Sqrt(max(x, 0)) }

// words says what an assertion expects.
func words(a scenario.Assertion) string {
	names := map[scenario.Measure]string{
		scenario.Success:       "share of good requests of %s",
		scenario.ErrorRate:     "share of failed requests of %s",
		scenario.P95:           "95th percentile latency of %s",
		scenario.Amplification: "tries sent for each request of %s",
		scenario.Retries:       "extra tries over the requests of %s",
	}
	relation := map[string]string{"<=": "at most", "<": "below", ">=": "at least", ">": "above"}
	return fmt.Sprintf(names[a.Measure], a.Service) + " is " + relation[a.Op] + " " + show(a.Measure, a.Limit)
}

// show writes a limit with its unit.
func show(m scenario.Measure, limit int64) string {
	switch m {
	case scenario.P95:
		return took(float64(limit))
	case scenario.Amplification:
		return strconv.FormatFloat(float64(limit)/1_000_000, 'f', -1, 64)
	}
	return percent(float64(limit) / 1_000_000)
}

func percent(share float64) string {
	return strconv.FormatFloat(math.Round(share*100_0000)/10_000, 'f', -1, 64) + " %"
}

func took(us float64) string {
	d := time.Duration(us * float64(time.Microsecond))
	if d >= 10*time.Second {
		return strconv.FormatFloat(math.Round(d.Seconds()*10)/10, 'f', -1, 64) + " s"
	}
	return strconv.FormatFloat(math.Round(d.Seconds()*1000), 'f', -1, 64) + " ms"
}
