package explain

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// The samples of the page on routing are documents without a mistake, and its
// request comes where the page says.
func TestRoutingPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "routing.md", Data: []byte(strings.Join(blocks, "---\n"))}}, &log)
	if all := log.All(); len(all) > 0 || len(blocks) != 3 {
		t.Fatalf("%d blocks:\n%v", len(blocks), all)
	}
	m := regexp.MustCompile(`echo '(\{.*\})' \| breakwater explain`).FindSubmatch(page)
	if m == nil {
		t.Fatal("the page has no sample request")
	}
	s, err := ParseSample(m[1])
	if err != nil {
		t.Fatal(err)
	}
	a, err := Explain(cfg, s)
	if err != nil || a.Route != "order-get" || len(a.Split) != 3 || a.Split[1] != (Share{"order/version=v2", 90_000}) {
		t.Errorf("got %+v, %v", a, err)
	}
}
