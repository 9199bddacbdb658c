package config

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"breakwater/gateway/policy/retry"
	"breakwater/internal/conf"
)

// The samples of the page on retries are documents without a mistake, its table of
// waits is what Backoff says, and it names every reason there is.
func TestRetryPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/retry.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	var log conf.Log
	c := Parse([]conf.File{{Name: "retry.md", Data: []byte(strings.Join(blocks, "---\n"))}}, &log)
	for _, m := range log.All() {
		if m.Code != "W-UNUSED" { // two upstreams stand for themselves
			t.Error(m)
		}
	}
	if len(c.Routes) != 3 || c.Routes[1].Retry.PerTry.Milliseconds() != 300 || len(c.Routes[2].Retry.Rules) != 3 {
		t.Errorf("routes %+v", c.Routes)
	}
	for _, u := range c.Upstreams {
		if want := retry.DefaultBudget(); u.Name != "reports" && u.Budget() != want {
			t.Errorf("%s has %+v, the page calls it the default", u.Name, u.Budget())
		}
		if u.Name == "reports" && u.Budget() != retry.DefaultConcurrency() {
			t.Errorf("%s has %+v", u.Name, u.Budget())
		}
	}
	for _, skip := range []string{
		retry.SkipRefused, retry.SkipStatus, retry.SkipSecondary, retry.SkipLate, retry.SkipRule, retry.SkipFallback, retry.SkipConnect,
		retry.SkipAttempts, retry.SkipMethod, retry.SkipBody, retry.SkipRetryCount, retry.SkipClientGone, retry.SkipRACap, retry.SkipRADeadline,
		retry.SkipDeadline, retry.SkipErrorRate, retry.SkipNoOtherHost, retry.SkipBudget,
	} {
		if !strings.Contains(string(page), "`"+skip+"`") {
			t.Errorf("the page lacks %s", skip)
		}
	}
	for _, trigger := range triggers() {
		if !strings.Contains(string(page), "`"+trigger+":") {
			t.Errorf("the page lacks %s", trigger)
		}
	}
}
