package gateway_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/policy/fault"
	"breakwater/internal/conf"
)

// The sample of the page on faults is documents without a mistake, and says what it
// is said to; its table has every kind.
func TestFaultsPage(t *testing.T) {
	page, err := os.ReadFile("../docs/faults.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no sample")
	}
	var log conf.Log
	c := config.Parse([]conf.File{{Name: "faults.yaml", Data: m[1]}}, &log)
	want := fault.Caps{MaxPPM: 200_000, MaxLatency: 10 * time.Second, MaxSleeps: 500, MaxDuration: time.Hour}
	if all := log.All(); len(all) > 0 || c.Gateway.Caps != want || !c.Routes[0].EnvoyFaultHeaders || !c.Routes[0].FaultVisible || !c.Routes[1].NoFaults {
		t.Errorf("%+v\n%v", c.Gateway.Caps, log.All())
	}
	for _, f := range everyKind() {
		if !strings.Contains(string(page), "| `"+string(f.Kind)+"` |") {
			t.Errorf("no row for %s", f.Kind)
		}
	}
}
