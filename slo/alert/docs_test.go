package alert

import (
	"os"
	"regexp"
	"testing"

	"breakwater/internal/conf"
	"breakwater/slo/freeze"
)

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

// The documents that users copy are documents.
func TestDocsAreDocuments(t *testing.T) {
	for name, count := range map[string]func(files []conf.File, log *conf.Log) int{
		"alerts.md": func(f []conf.File, log *conf.Log) int { return len(ParseRoutes(f, log)) },
		"freeze.md": func(f []conf.File, log *conf.Log) int { return len(freeze.Parse(f, log)) },
	} {
		page, err := os.ReadFile("../../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		blocks := yamlBlock.FindAllSubmatch(page, -1)
		if len(blocks) == 0 {
			t.Errorf("%s shows no document", name)
		}
		for _, b := range blocks {
			var log conf.Log
			if n := count([]conf.File{{Name: name, Data: b[1]}}, &log); n != 1 || log.Err() != nil {
				t.Errorf("%s: %d documents, %v", name, n, log.Err())
			}
		}
	}
}
