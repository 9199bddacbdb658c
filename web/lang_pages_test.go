package web

import (
	"html"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// chinese asks for a page as a Chinese reader does.
func chinese(t *testing.T, h http.Handler, path string) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil)
	r.Header.Set("Accept-Language", "zh-CN")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Body.String()
}

var (
	// What is no text of ours: code, scripts, styles, what says that it is English.
	notOurs = regexp.MustCompile(`(?s)<(code|pre|script|style|textarea)\b.*?</(?:code|pre|script|style|textarea)>|<span lang="en">.*?</span>|<symbol.*?</symbol>`)
	// What people read or hear of a tag.
	heard = regexp.MustCompile(`\s(?:` + strings.Join(spoken[:], "|") + `)="([^"]*)"`)
	tags  = regexp.MustCompile(`<[^>]*>`)
	// Two English words side by side are a piece of a sentence.
	english2 = regexp.MustCompile(`\b[A-Za-z][a-z’']{1,}[,:;]? [A-Za-z][a-z’']*\b`)
)

// leftovers are the runs of English words in what a reader sees.
func leftovers(page string, data []string) []string {
	page = notOurs.ReplaceAllString(page, "·")
	var texts []string
	for _, m := range heard.FindAllStringSubmatch(page, -1) {
		texts = append(texts, m[1])
	}
	texts = append(texts, strings.Split(tags.ReplaceAllString(page, "\n"), "\n")...)
	var out []string
	for _, text := range texts {
		text = html.UnescapeString(text)
		for _, d := range data {
			text = strings.ReplaceAll(text, d, "·")
		}
		if found := english2.FindString(text); found != "" && !slices.Contains(out, text) {
			out = append(out, strings.TrimSpace(text))
		}
	}
	return out
}

// theirs are names of the made-up worlds, which no catalogue translates, and words of
// products.
var theirs = []string{}

func TestNoEnglishIsLeftOnAChinesePage(t *testing.T) {
	worlds := map[string]http.Handler{"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler()}
	pages, left := 0, map[string][]string{}
	for world, h := range worlds {
		for name, path := range everyPage {
			page := chinese(t, h, path)
			pages++
			if strings.Contains(page, "%!") {
				t.Errorf("%s/%s: a format and its words disagree: %s", world, name, page[strings.Index(page, "%!"):][:60])
			}
			for _, text := range leftovers(page, theirs) {
				left[text] = append(left[text], world+"/"+name)
			}
		}
	}
	if len(left) > tolerated {
		t.Errorf("%d English texts on %d pages, %d are known", len(left), pages, tolerated)
	}
	if *wanting == "pages" {
		for text, where := range left {
			slices.Sort(where)
			t.Logf("%-30s %s", where[0], text)
		}
	}
}

// tolerated is how many of them there may be.
const tolerated = 5000
