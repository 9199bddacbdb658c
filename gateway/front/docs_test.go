package front_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"breakwater/gateway/config"
	"breakwater/internal/conf"
)

// The sample of the page on HTTP is without a mistake, and its reasons are those
// that the code gives.
func TestHTTPPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if sample == nil {
		t.Fatal("the page has no sample")
	}
	var log conf.Log
	cfg := config.Parse([]conf.File{{Name: "http.md", Data: sample[1]}}, &log)
	if all := log.All(); len(all) > 0 || cfg.Gateway.Connections.PerAddress != 200 || cfg.Gateway.TLS == nil {
		t.Errorf("the sample is read as %+v:\n%v", cfg.Gateway, all)
	}
	told := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\| [0-9, ]+ \\| `([a-z_]+)` \\|").FindAllSubmatch(page, -1) {
		told[string(m[1])] = false
	}
	told["malformed"] = true // the gateway's own word for what net/http refused
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`refuse\(http\.Status\w+, "([a-z_]+)"\)`).FindAllStringSubmatch(string(text), -1) {
			if _, ok := told[m[1]]; !ok {
				t.Errorf("%s refuses for %q, of which the page does not tell", name, m[1])
			}
			told[m[1]] = true
		}
	}
	for reason, given := range told {
		if !given {
			t.Errorf("the page tells of %q, for which nothing is refused", reason)
		}
	}
}
