package front_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
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

// TestFrontPage: the page on the two faces has a sample without a mistake, names
// files that there are, and says the truth on how much code there is to be trusted.
func TestFrontPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/front.md")
	if err != nil {
		t.Fatal(err)
	}
	sample := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	var log conf.Log
	if config.Parse([]conf.File{{Name: "front.md", Data: sample[1]}}, &log); len(log.All()) > 0 {
		t.Error(log.All())
	}
	for _, m := range regexp.MustCompile("`((?:h1/)?[a-z0-9_]+\\.go)`").FindAllSubmatch(page, -1) {
		if _, err := os.Stat(string(m[1])); err != nil {
			t.Error(err)
		}
	}
	for _, m := range regexp.MustCompile(`(?m)^    go test (\./\S+) .*?-(?:run|fuzz) '?(\w+)`).FindAllSubmatch(page, -1) {
		found := false
		files, err := filepath.Glob(filepath.Join("../..", string(m[1]), "*_test.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			found = found || regexp.MustCompile(`func (Test|Fuzz)\w*`+string(m[2])+`|func `+string(m[2])).Match(text)
		}
		if !found {
			t.Errorf("%s has no test %s", m[1], m[2])
		}
	}
	trusted, err := filepath.Glob("h1/*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range append(trusted, "fast.go", "fast_body.go", "write.go") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") && !strings.HasSuffix(name, "_test.go") {
				lines++
			}
		}
	}
	if lines >= 900 {
		t.Errorf("%d lines are to be trusted, the page says less than 900", lines)
	}
	t.Logf("%d lines", lines)
}
