package web

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// fetched is what came over the wire.
type fetched struct {
	head  http.Header
	bytes int
	text  string
}

// fetch asks as a browser does.
func fetch(t *testing.T, url string) fetched {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %d, %v", url, res.StatusCode, err)
	}
	f := fetched{res.Header, len(raw), string(raw)}
	if res.Header.Get("Content-Encoding") == "gzip" {
		z, err := gzip.NewReader(strings.NewReader(f.text))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := io.ReadAll(z)
		if err != nil {
			t.Fatal(err)
		}
		f.text = string(plain)
	}
	return f
}

var (
	loads   = regexp.MustCompile(`(?:src|href|data-plot)="(/static/[^"]+)"`)
	modules = regexp.MustCompile(`(?:from|import) ?\(?["']\./([^"']+)["']`)
	urls    = regexp.MustCompile(`url\(["']?([^"')]+)`)
)

// weight is what a browser with an empty cache loads for a page: the page, and all that
// it names, and what that names in turn. Headers are not counted, nor is what a browser
// keeps of other visits: assets are immutable.
func weight(t *testing.T, base, path string) (sum int, parts map[string]int) {
	t.Helper()
	page := fetch(t, base+path)
	parts = map[string]int{path: page.bytes}
	sum = page.bytes
	todo := []string{}
	for _, m := range loads.FindAllStringSubmatch(page.text, -1) {
		todo = append(todo, m[1])
	}
	for len(todo) > 0 {
		name := todo[0]
		todo = todo[1:]
		if _, known := parts[name]; known {
			continue
		}
		f := fetch(t, base+name)
		if !strings.Contains(f.head.Get("Cache-Control"), "immutable") {
			t.Errorf("%s may be asked for again: %s", name, f.head.Get("Cache-Control"))
		}
		if len(f.text) > 1024 && f.head.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s comes in %d bytes, not compressed", name, f.bytes)
		}
		parts[name] = f.bytes
		sum += f.bytes
		for _, m := range modules.FindAllStringSubmatch(f.text, -1) {
			todo = append(todo, "/static/"+m[1])
		}
		for _, m := range urls.FindAllStringSubmatch(f.text, -1) {
			if !strings.HasPrefix(m[1], "#") && !strings.HasPrefix(m[1], "data:") {
				todo = append(todo, "/static/"+strings.TrimPrefix(m[1], "/static/"))
			}
		}
	}
	return sum, parts
}

// The first page of an installation with 200 services, with everything it loads, comes in
// at most 120 KiB; so does any page with a chart, whose library the first one has no need of.
func TestWeightOfTheFirstPage(t *testing.T) {
	server := httptest.NewServer(many(noon, 200).server(t).Handler())
	defer server.Close()
	for _, path := range []string{"/", "/?view=table", "/?tv=1", "/now", "/services/service-001", "/slos/service-001-availability", "/gate", "/slos"} {
		sum, parts := weight(t, server.URL, path)
		if len(parts) < 10 {
			t.Errorf("%s loads only %v", path, parts)
		}
		if sum > 120<<10 {
			t.Errorf("%s weighs %d bytes, at most %d: %v", path, sum, 120<<10, parts)
		}
		t.Logf("%s: %.1f KiB, of them %.1f the page", path, float64(sum)/1024, float64(parts[path])/1024)
	}
}

// However many services there are, a page shows so many rows and offers the rest.
func TestRowsAreBounded(t *testing.T) {
	const services = 420
	h := many(noon, services).server(t).Handler()
	rows := func(body string) int { return strings.Count(body, "<tr") + strings.Count(body, `class="card svc"`) }
	for path, offers := range map[string]bool{"/": true, "/?view=table": true, "/slos": true, "/now": true, "/gate": true, "/readiness": true, "/retries": false, "/breakers": false, "/gamedays": false, "/alerts": false, "/findings": false,
		"/find?q=service": false, "/requests": false, "/simulator": false, "/?tv=1": true} {
		_, _, body := get(t, h, path)
		if n := rows(body); n > 400 { // a chart has a table of its own
			t.Errorf("%s has %d rows", path, n)
		}
		if offers && !strings.Contains(body, "Show all") {
			t.Errorf("%s does not offer the rest", path)
		}
		if len(body) > 600<<10 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	if _, _, body := get(t, h, "/findings"); strings.Count(body, "banner emergency") != 1 || !strings.Contains(body, " and 318 more services are frozen</b>") {
		t.Error("services that findings hold are not told in one line")
	}
	for _, path := range []string{"/?all=1", "/?view=table&all=1", "/slos?all=1", "/now?all=1", "/gate?all=1"} {
		if _, _, body := get(t, h, path); rows(body) < services {
			t.Errorf("%s does not show them all", path)
		}
	}
}

// A stream that nobody reads for long holds its place and no more, whatever happens.
func TestAnOpenStreamHoldsNoMore(t *testing.T) {
	s := shop(noon).server(t)
	var leave []func()
	for range 50 {
		_, gone := s.hub.join()
		leave = append(leave, gone)
	}
	_, first, _ := s.hub.since(0)
	for range 100 * keep {
		s.hub.announce(topicLedger, topicDrills)
	}
	if len(s.hub.history) != keep || cap(s.hub.history) > 4*keep || len(s.hub.waiting) != 50 {
		t.Errorf("%d announcements are kept in room for %d, %d wait", len(s.hub.history), cap(s.hub.history), len(s.hub.waiting))
	}
	for wake := range s.hub.waiting {
		if len(wake) != 1 {
			t.Errorf("%d wakings lie before a stream", len(wake))
		}
	}
	if topics, _, lost := s.hub.since(first); !lost || topics != nil {
		t.Errorf("an old id is still known: %v, %v", topics, lost)
	}
	for _, gone := range leave {
		gone()
	}
	if len(s.hub.waiting) != 0 {
		t.Errorf("%d wait who have left", len(s.hub.waiting))
	}
}
