package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"breakwater/slo"
	"breakwater/slo/gate"
)

// gauges scrapes the metrics: "name slo window" to value.
func gauges(t *testing.T, f *fake) map[string]float64 {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(NewMetrics(f))
	w := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	out := map[string]float64{}
	for _, line := range strings.Split(w.Body.String(), "\n") {
		m := sample.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		window := ""
		if at := windowLabel.FindStringSubmatch(m[2]); at != nil {
			window = at[1]
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(m[1], "breakwater_slo_")+" "+window] = v
	}
	return out
}

var (
	sample      = regexp.MustCompile(`^(\w+)\{([^}]*)\} (\S+)$`)
	windowLabel = regexp.MustCompile(`window="([^"]*)"`)
)

func TestSLO_S20(t *testing.T) {
	s := status("order", slo.Tally{Good: 995, Bad: 5}, slo.Frozen)
	s.Objective.TargetPPB = 999_000_000
	for i, w := range slo.BurnWindows() {
		s.Burns[i] = slo.Burning(s.Objective, w, slo.Tally{Good: 995, Bad: 5})
	}
	f := &fake{health: slo.Health{LastAt: noon}, statuses: []slo.Status{s}}
	if got := gauges(t, f); got["error_ratio 1h"] != 0.005 || got["burn_rate 1h"] != 5 {
		t.Errorf("error ratio %v, burn rate %v, want 0.005 and 5", got["error_ratio 1h"], got["burn_rate 1h"])
	}
	b := Of(s, false).Burns[1]
	if *b.ErrorPPM != 5000 || *b.RateMilli != 5000 {
		t.Errorf("on the wire %d ppm and %d thousandths, want 5000 of each", *b.ErrorPPM, *b.RateMilli)
	}
}

// Whatever was counted: the API, the explanation that pages show, the metric and
// the gate give the figures of one computation.
func TestOneNumberEverywhere(t *testing.T) {
	rng := rand.New(rand.NewPCG(20, 26))
	for try := range 300 {
		o := slo.Objective{ID: "order-availability", Service: "order", TargetPPB: 500_000_001 + rng.Int64N(499_999_998), Window: 30 * 24 * time.Hour}
		t1 := slo.Tally{Good: rng.Int64N(1 << (1 + rng.IntN(50))), Bad: rng.Int64N(1 << (1 + rng.IntN(30)))}
		if rng.IntN(20) == 0 {
			t1 = slo.Tally{}
		}
		t1.ChaosBad, t1.FirstTryBad = t1.Bad/3, t1.Bad
		s := slo.Status{Objective: o, Env: "prod", At: noon, DataUntil: noon, Budget: slo.Weigh(o, t1), CoveragePPM: rng.Int64N(1_000_001), Level: slo.Normal, Measured: slo.Normal}
		for _, w := range o.Windows() {
			s.Burns = append(s.Burns, slo.Burning(o, w, slo.Tally{Good: t1.Good / 7, Bad: rng.Int64N(1 + t1.Bad)}))
		}
		f := &fake{health: slo.Health{LastAt: noon}, statuses: []slo.Status{s}}
		text, err := json.Marshal(Of(s, true))
		if err != nil {
			t.Fatal(err)
		}
		var api SLO
		if err := json.Unmarshal(text, &api); err != nil {
			t.Fatal(err)
		}
		lines := map[string]string{}
		for _, l := range api.Explain {
			lines[l.ID] = l.Value
		}
		d := gate.Decide(gate.Request{Service: "order"}, f.Statuses(), gate.DefaultPolicy(), noon)
		metrics := gauges(t, f)
		shown, measured := metrics["budget_remaining_ratio "]
		if s.Budget.NoData {
			if api.Budget.RemainingPPM != nil || lines["sli"] != "no data" || d.Remaining != nil || measured {
				t.Fatalf("try %d: without data somebody shows a figure: %s", try, text)
			}
			continue
		}
		left := *api.Budget.RemainingPPM
		if lines["remaining"] != slo.Percent(left) || lines["spent"] != slo.SpentPercent(*api.Budget.SpentPPM) || lines["allowed"] != slo.Count(api.Budget.Allowed) ||
			lines["remaining_events"] != slo.Count(api.Budget.Remaining) || lines["chaos"] != slo.SpentPercent(*api.Budget.ChaosPPM) {
			t.Fatalf("try %d: explained %v, on the wire %s", try, lines, text)
		}
		if d.Remaining == nil || string(*d.Remaining) != slo.Ratio(left) {
			t.Fatalf("try %d: the gate says %v, the API %d ppm", try, d.Remaining, left)
		}
		if shown != float64(left)/1e6 {
			t.Fatalf("try %d: the metric says %v, the API %d ppm", try, shown, left)
		}
		for _, b := range api.Burns {
			switch {
			case b.RateMilli == nil:
			case metrics["burn_rate "+b.Window] != float64(*b.RateMilli)/1e3:
				t.Fatalf("try %d: over %s the metric says %v, the API %d", try, b.Window, metrics["burn_rate "+b.Window], *b.RateMilli)
			case lines["burn_"+b.Window] != "" && lines["burn_"+b.Window] != slo.RateMilli(*b.RateMilli):
				t.Fatalf("try %d: over %s explained as %s, on the wire %d", try, b.Window, lines["burn_"+b.Window], *b.RateMilli)
			}
		}
		if strings.Contains(string(text), "NaN") || strings.Contains(fmt.Sprint(lines), "NaN") {
			t.Fatalf("try %d: %s", try, text)
		}
	}
}
