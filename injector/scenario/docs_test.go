package scenario

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/conf"
)

func TestDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/experiments.md")
	if err != nil {
		t.Fatal(err)
	}
	samples := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(samples) < 2 {
		t.Fatalf("%d samples", len(samples))
	}
	for _, s := range samples {
		set, warnings, err := Parse(conf.File{Name: "experiments.md", Data: []byte(s[1])})
		if err != nil || len(warnings) > 0 || len(set.Scenarios) != 1 {
			t.Errorf("%v %v in\n%s", err, warnings, s[1])
		}
	}
	// Every kind of fault, form of assertion and objection is on the page.
	var words []string
	for _, k := range kinds() {
		words = append(words, string(k))
	}
	words = append(words, slices.Concat(Refusals(), []string{Toothless, TooWeak, Capped, Exempt, Radius, FewHits, TooShort, Storm, DeadBrake, WillFail})...)
	for _, w := range words {
		if !strings.Contains(string(page), "`"+w+"`") {
			t.Errorf("the page does not tell of %s", w)
		}
	}
	for _, f := range forms() {
		if !strings.Contains(string(page), "`"+f) {
			t.Errorf("the page does not tell of %s", f)
		}
	}
}
