package web

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
)

func reader(t *testing.T) lang {
	t.Helper()
	c, err := readCatalogue(catalogueFiles, "zh-CN", "中文")
	if err != nil {
		t.Fatal(err)
	}
	return lang{c}
}

func TestSentencesOfOtherPackagesAreToldInTheLanguageOfTheReader(t *testing.T) {
	zh := reader(t)
	tests := []struct{ name, said, want string }{
		{"figures stand as they are", "101.8\u202f% of the error budget is spent: 41\u202f895 failed, 41\u202f176 were allowed.", "错误预算已消耗 101.8\u202f%：失败 41\u202f895，允许 41\u202f176。"},
		{"a sentence inside a sentence", "Points (demo): error budget of points-availability is nearly spent: 98.6\u202f% of the error budget is spent; emergency begins at 80\u202f%.",
			"Points（demo）：points-availability 的错误预算即将耗尽：错误预算已消耗 98.6\u202f%；达到 80\u202f% 即为紧急。"},
		{"several, one after the other", "At 1× a full budget lasts exactly 30\u202fd; at this pace 1\u202fd 4\u202fh. It spent <0.1\u202f% of the whole budget.",
			"燃烧率为 1× 时，完整预算恰好持续 30\u202f天；按当前速度为 1\u202f天 4\u202f小时。它消耗了全部预算的 <0.1\u202f%。"},
		{"states of a breaker, which mean something else elsewhere", "breaker of points: half-open to open, 2 of 2 probes failed", "points 的断路器：半开 → 断开，2 次探测中失败 2"},
		{"at the beginning of a sentence on the page", "Breaker of points: open to half-open, it was open for 10s", "points 的断路器：断开 → 半开，已断开 10s"},
		{"after the name of what it is about", "demo-coupon-slow: completed: passed: everything held", "demo-coupon-slow：已完成：通过：断言全部成立"},
		{"clauses of which each is known", "opens at 30\u202f% of failures, from 20 calls in 10s on, open for 10s", "失败达 30\u202f% 时断开、10s 内至少 20 次调用、断开 10s"},
		{"one clause that is not known", "opens at 30\u202f% of failures, and sings", "opens at 30\u202f% of failures, and sings"},
		{"a name that begins like one", "Releases are frozen over the holidays", "Releases are frozen over the holidays"},
		{"a name with a colon", "search: a shock", "search: a shock"},
		{"nothing", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := zh.tell(tt.said); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
			if got := (lang{}).tell(tt.said); got != tt.said {
				t.Errorf("in English it is %s", got)
			}
		})
	}
}

// People's own words may look like many sentences in one another: what they cost is
// bounded, and they stay as they are.
func TestTellingIsBounded(t *testing.T) {
	zh := reader(t)
	for _, words := range []string{"a: ", "a. ", "a, ", "a: b, c; d. ", "open; open, open: "} {
		said := strings.Repeat(words, 2000) + "and sings"
		x := teller{zh, mostLooks}
		if got := x.tell(said); got != said {
			t.Errorf("%q, over and over, is told as %.60q", words, got)
		}
	}
	x := teller{zh, mostLooks}
	x.tell("Points (demo): error budget of points-availability is nearly spent: 98.6\u202f% of the error budget is spent; emergency begins at 80\u202f%.")
	if looks := mostLooks - x.left; looks > 10 {
		t.Errorf("%d looks at a sentence of ours", looks)
	}
}

func TestMistakesOfTellingsAreToldAtTheirPlace(t *testing.T) {
	files := fstest.MapFS{"catalogue/xx/told.txt": {Data: []byte("a {1} b\n\t{1}\na {0}{1} b\n\t{0}{1}\nc {0} d\n\t没有\ne {0}\n\t{0} {1}\nf {0}\n\t[0]\nf {0}\n\t{0}\n")}}
	_, err := readCatalogue(files, "xx", "X")
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"xx/told.txt:2: blank {1}", "xx/told.txt:4: words must stand between", "xx/told.txt:6: a blank", "xx/told.txt:8: there is no {1}", "xx/told.txt:12: \"f {0}\" is translated already, at xx/told.txt:9"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in\n%v", want, err)
		}
	}
}

// What a telling knows a sentence by must still stand in the source of some package:
// a sentence that is said otherwise now would be English on a Chinese page.
func TestWhatIsToldIsStillSaid(t *testing.T) {
	said := literals(t, "../slo", "../injector", "../gateway", "../cmd/breakwater")
	cut := regexp.MustCompile(`\{\d+\}|\d+|[^\pL_ ’'/-]+`)
	c := reader(t).words
	if len(c.toldFrom) < 300 {
		t.Fatalf("only %d tellings", len(c.toldFrom))
	}
	for key, from := range c.toldFrom {
		for _, phrase := range cut.Split(key, -1) {
			words := strings.Fields(strings.ToLower(phrase))
			if n := spokenIn(said, words); n > 1+len(words)/2 {
				t.Errorf("%s: nobody says %q any more", from, phrase)
			}
		}
	}
}

// spokenIn is of how many literals, at least, words are put together: a name between
// two of them is no blank where it is one of a closed set. More than there are words:
// one of them is in none.
func spokenIn(said string, words []string) (n int) {
	for i := 0; i < len(words); n++ {
		j := len(words)
		for ; j > i && !strings.Contains(said, strings.Join(words[i:j], " ")); j-- {
		}
		if j == i {
			return len(words) + 2
		}
		i = j
	}
	return n
}

// literals are the strings in the Go files below dirs, tests apart, in lower case.
func literals(t *testing.T, dirs ...string) string {
	t.Helper()
	var out strings.Builder
	fset := token.NewFileSet()
	for _, dir := range dirs {
		err := fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(fset, filepath.Join(dir, path), nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if lit, ok := n.(*ast.BasicLit); ok {
					if s, ok := constant(lit); ok {
						out.WriteString(strings.ToLower(s) + "\n" + strings.ReplaceAll(strings.ToLower(s), "_", " ") + "\n")
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out.String()
}
