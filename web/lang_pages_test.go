package web

import (
	"html"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/scenarios"
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
	// What people read or hear of a tag.
	heard = regexp.MustCompile(`\s(?:` + strings.Join(spoken[:], "|") + `)="([^"]*)"`)
	// Two English words side by side are a piece of a sentence.
	english2 = regexp.MustCompile(`\b[A-Za-z][a-z’']{1,}[,:;]? [A-Za-z][a-z’']*\b`)
)

// marked is what a page marks as English: names that people gave, and what no catalogue
// knows.
var marked = regexp.MustCompile(`<span lang="en">([^<]*)</span>`)

// english3 is a piece of an English sentence, whatever figures stand in it.
var english3 = regexp.MustCompile(`[A-Za-z][\pL\d’'%-]*(?:[,:;]?[ \x{202f}][\pL\d’'%-]+){2,}`)

// notOurs is what ends a part of a page that is no text of ours, if tag begins one:
// code, scripts, styles, what says that it is English.
func notOurs(tag string) (end string) {
	name, _, _ := strings.Cut(tag, " ")
	switch {
	case slices.Contains([]string{"code", "pre", "script", "style", "textarea", "symbol"}, name):
		return "</" + name + ">"
	case tag == `span lang="en"`:
		return "</span>"
	}
	return ""
}

// heardOf is what a reader sees or hears, one after the other.
func heardOf(page string) (out []string) {
	seen := ""
	for more := true; more; {
		var text, tag string
		text, page, more = strings.Cut(page, "<")
		tag, page, _ = strings.Cut(page, ">")
		seen += text
		if end := notOurs(tag); end != "" {
			_, page, _ = strings.Cut(page, end)
			seen += "·"
			continue
		}
		out, seen = append(out, seen), ""
		if slices.ContainsFunc(spoken[:], func(name string) bool { return strings.Contains(tag, name+`="`) }) {
			for _, m := range heard.FindAllStringSubmatch(tag, -1) {
				out = append(out, m[1])
			}
		}
	}
	return append(out, seen)
}

// leftovers are the runs of English words in what a reader sees.
func leftovers(page string) []string {
	var out []string
	for _, text := range heardOf(page) {
		text = html.UnescapeString(text)
		if !english2.MatchString(text) { // most are Chinese or figures; theirs is slow
			continue
		}
		text = theirs.ReplaceAllString(text, "·")
		if found := english2.FindString(text); found != "" && !slices.Contains(out, text) {
			out = append(out, strings.TrimSpace(text))
		}
	}
	return out
}

// sentences are what a page marks as English that is longer than a name of two words,
// and none of the names of the made-up worlds.
func sentences(page string) []string {
	var out []string
	for _, m := range marked.FindAllStringSubmatch(page, -1) {
		if text := html.UnescapeString(m[1]); english3.MatchString(theirs.ReplaceAllString(text, "·")) && !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// theirs are words of the made-up worlds and of products, which no catalogue holds, and
// sentences of other packages where a page cannot mark them: in an attribute, or after
// words of ours.
var theirs = regexp.MustCompile(strings.Join([]string{`Points answers after 5\x{202f}?\s?s`, `Low traffic at night, 2 req/s, all errors`, `Quarterly order chain`, `Release rehearsal`, `Weekly small drill`,
	`Do retries still hide a flaky instance\?`, `Search shock`, `schedule [a-z-]+`, `payment timeouts`, `Service Unavailable`, `incident\.yaml, incident`, `trace id`, `weekly, non-core`,
	`[\d.]+\x{202f}% of the error budget is spent(: [^.]*allowed)?`, `the day lies in a blackout`, `points is frozen`, `no control was there in time, decided \d+ s late`, `r-\d+ has not ended`,
	`vault vault-3`, `(?:primary|secondary) [a-z_]+`, `header X-[A-Za-z-]+`, `attempt \d+: connection refused`, `dial tcp .*`, `cannot be reached: .*`, `<img src=x>`, `[a-z-]+, [a-z-]+, [a-z-]+`, `gw\.yaml:.*`, `429 Too Many Requests`,
	`No trip on 429, waits kept`, `What happened to coupon on 2026-11-24`, `Catalogue truncates half of its JSON`, `moving to the new vault, CHG-77`, `Fallback body is marked`, `[Bb]reaker of points opened within 20\x{202f}?\s?s`, `[Aa]lert fires within 2\x{202f}?\s?min`,
	`[Pp]ayment timeouts at the bank`, `the pager stayed quiet, orders go on without points`, `[Tt]he fallback body lacks the currency; everything else held\.`, `order\.error_rate was .*expected`, `expected at most .* saw`, `silence s-0`, `breakwater serve --[a-z ]*`}, "|") + "|" + strings.Join(libraryTitles(), "|"))

// libraryTitles are those of the scenarios that come with breakwater: names, as users'
// own scenarios have them.
func libraryTitles() (out []string) {
	files, _ := fs.Glob(scenarios.Files, "*.yaml")
	for _, name := range files {
		text, _ := fs.ReadFile(scenarios.Files, name)
		for _, m := range regexp.MustCompile(`(?m)^title: (.*)$`).FindAllSubmatch(text, -1) {
			out = append(out, regexp.QuoteMeta(string(m[1])))
		}
	}
	return out
}

// The test below is as good as what it takes for English.
func TestEnglishIsSeen(t *testing.T) {
	page := `<p class="two words" title="Read this">读 <b>one more</b></p><code title="no sentence">x y</code><p>see <code>a b</code> over there</p><span lang="en">not ours</span><p>Points 甲 order</p>`
	if got := leftovers(page); !slices.Equal(got, []string{"Read this", "one more", "see · over there"}) {
		t.Errorf("%q", got)
	}
}

func TestNoEnglishIsLeftOnAChinesePage(t *testing.T) {
	worlds := map[string]http.Handler{"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler()}
	pages, left := 0, map[string][]string{}
	for world, h := range worlds {
		all := maps.Clone(everyPage)
		maps.Copy(all, daysPages())
		for name, path := range all {
			page := chinese(t, h, path)
			pages++
			if strings.Contains(page, "%!") {
				t.Errorf("%s/%s: a format and its words disagree: %s", world, name, page[strings.Index(page, "%!"):][:60])
			}
			for _, text := range slices.Concat(leftovers(page), sentences(page)) {
				left[text] = append(left[text], world+"/"+name)
			}
		}
	}
	desk := shop(noon)
	admin := http.StripPrefix("/admin", desk.server(t).Admin(Accounts{System: machine{desk}}))
	for _, path := range []string{"/config", "/deliveries", "/database", "/doctor"} {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8081/admin"+path, nil)
		r.Header.Set("Accept-Language", "zh")
		w := httptest.NewRecorder()
		admin.ServeHTTP(w, r.WithContext(auth.With(r.Context(), auth.Principal{Name: "root", Role: auth.Admin})))
		for _, text := range slices.Concat(leftovers(w.Body.String()), sentences(w.Body.String())) {
			left[text] = append(left[text], "admin"+path)
		}
	}
	for text, where := range left {
		slices.Sort(where)
		t.Errorf("%s: %q is English on a Chinese page", where[0], text)
	}
	if pages < 100 {
		t.Errorf("only %d pages", pages)
	}
}
