package web

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/auth"
)

// daysPages are the pages of game days, findings and readiness.
func daysPages() map[string]string {
	return map[string]string{"gamedays": "/gamedays", "gameday": "/gamedays/quarterly-order-chain", "gameday-running": "/gamedays/weekly-small-drill", "gameday-over": "/gamedays/g-by-hand-1", "gamedays-week": "/gamedays?view=week", "gamedays-list": "/gamedays?view=list&zone=Asia/Shanghai",
		"findings": "/findings", "findings-all": "/findings?view=all&service=order", "finding": "/findings/f-0000000001", "finding-again": "/findings/f-0000000003", "readiness": "/readiness", "ready": "/readiness/order"}
}

func TestDaysPagesAreAsTheyWere(t *testing.T) {
	for world, build := range map[string]func(time.Time) *house{"shop": shop, "empty": empty, "lost": lost} {
		h := build(noon).server(t).Handler()
		for name, path := range daysPages() {
			if world != "shop" && strings.Contains(name, "-") {
				continue
			}
			_, _, body := get(t, h, path)
			golden(t, "days-"+world+"-"+name, hashes.ReplaceAllString(body, ".HASH.$1"))
		}
	}
	if files, _ := filepath.Glob("testdata/days-*.golden"); len(files) != len(daysPages())+2*6 {
		t.Errorf("%d golden pages", len(files))
	}
}

func TestWhatDaysPagesSay(t *testing.T) {
	thin := "\u202f"
	handlers := map[string]http.Handler{"shop": shop(noon).server(t).Handler(), "empty": empty(noon).server(t).Handler(), "lost": lost(noon).server(t).Handler()}
	for _, tt := range []struct {
		name, house, path string
		status            int
		want, not         []string
	}{
		{"a month with freezes, a blackout and what they skip", "shop", "/gamedays", 200, []string{"November 2026", "Times in Europe/Berlin", "coupon is frozen until Fri 27 Nov 22:39 at best. Next: Wed 2 Dec 11:00", "the day lies in a blackout", ">to 22:39<",
			`title="11:00 coupon, Coupon 429 drill, will be skipped: coupon is frozen until`, "1 of 2 approvals", "every Tuesday", "13:15Z", "called off"}, []string{"Hold it now"}},
		{"what did not begin, with its reason", "shop", "/gamedays", 200, []string{"r-1280 has not ended", ">overlap<", ">missed<", "4" + thin + "h 27" + thin + "min", "points is frozen"}, nil},
		{"another zone, another day", "shop", "/gamedays?zone=Asia/Tokyo&view=week&at=2026-12-01", 200, []string{"Week 49, 30 Nov to 6 Dec 2026", "Times in Asia/Tokyo", "22:15 points", `href="/gamedays?at=2026-12-08&amp;view=week&amp;zone=Asia%2FTokyo"`}, nil},
		{"a zone that is none is the schedules' own", "shop", "/gamedays?zone=../../etc/passwd", 200, []string{"Times in Europe/Berlin"}, []string{"passwd<"}},
		{"the machine's zone is nobody's", "shop", "/gamedays?zone=Local", 200, []string{"Times in Europe/Berlin"}, nil},
		{"a day that is none is today", "shop", "/gamedays?at=9999-99-99", 200, []string{"November 2026"}, nil},
		{"many of one schedule are one line", "shop", "/gamedays", 200, []string{"09:49 inventory and 3 more"}, nil},
		{"the list says what becomes of each", "shop", "/gamedays?view=list", 200, []string{">planned<", ">will be skipped<", ">failed<", "Release rehearsal"}, []string{`class="cal `}},
		{"an empty house", "empty", "/gamedays", 200, []string{"No schedule yet", "Every due instant of this time began"}, nil},
		{"the database is away", "lost", "/gamedays", 200, []string{"Game days cannot be read now"}, []string{"No schedule yet"}},
		{"a game day that waits for people", "shop", "/gamedays/quarterly-order-chain", 200, []string{"1 of 2", "sre-lead", "of another content, 0123456789ab", "inventory alone", "failures of order pass 8" + thin + "%", "4 of 15", "Call it off",
			"An approver can agree to it", `href="/api/v1/gamedays/g-`, "format=html", "format=md", "Times in Asia/Shanghai"}, []string{"/approve", "/notes"}},
		{"one under way", "shop", "/gamedays/weekly-small-drill", 200, []string{"Stop game day", "inject 7:12 of 10:00", "the pager stayed quiet", `href="/runs/r-1287"`}, []string{"Call it off"}},
		{"one that is over, with what it found", "shop", "/gamedays/g-by-hand-1", 200, []string{"Failed.", "lacks the currency", `href="/findings/f-0000000001"`}, []string{"/abort"}},
		{"no such game day", "shop", "/gamedays/none", 404, []string{"No game day none"}, nil},
		{"a game day while the database is away", "lost", "/gamedays/weekly-small-drill", 503, []string{"by themselves within 15 s"}, nil},
		{"findings that are not verified, what is due first on top", "shop", "/findings", 200, []string{"5 findings", "overdue by 5" + thin + "d", "came back 2 times", "Releases of points are frozen", "5 are open now", "nobody"}, []string{"Alert fires within"}},
		{"of one service, closed ones too", "shop", "/findings?view=all&service=order", 200, []string{"Alert fires within", ">verified<", "Drop the filter"}, []string{"Breaker of points", "Releases of points"}},
		{"by severity and state", "shop", "/findings?severity=medium&state=verifying", 200, []string{"Fallback body is marked"}, []string{"No trip on 429"}},
		{"only what is late", "shop", "/findings?view=overdue", 200, []string{"Breaker of points"}, []string{"Share of failed"}},
		{"nothing was found", "empty", "/findings", 200, []string{"Nothing was found yet"}, nil},
		{"findings while the database is away", "lost", "/findings", 200, []string{"Findings cannot be read now"}, []string{"Nothing was found yet"}},
		{"one finding with its evidence and its story", "shop", "/findings/f-0000000001", 200, []string{"Overdue since Thu 19 Nov", "Told to team-points", "/api/v1/experiments/r-1263/evidence/d1", "Weekly small drill", "is told to team-points"}, []string{"/close", "/accept"}},
		{"one said to be mended says when it is looked at", "shop", "/findings/f-0000000003", 200, []string{"It is looked at again Wed 25 Nov 10:00", "Coupon 429 drill", "By ben"}, nil},
		{"no such finding", "shop", "/findings/f-none", 404, []string{"No finding f-none"}, nil},
		{"the matrix, the least ready first, unknown hatched", "shop", "/readiness", 200, []string{"9 services", "not looked at", `class="cell hatch"><a href="/readiness/invoice-export#contract"`, "9/15", "&#43;2", "Services with yes"}, nil},
		{"one service with its evidence", "shop", "/readiness/order", 200, []string{"9 of 15", `<tr id="limits">`, "load test of May", `href="/runs/r-1270"`, "cadence: no to yes", `href="/findings?service=order&amp;view=all"`}, []string{"Answer it"}},
		{"nobody's service", "shop", "/readiness/nobody", 404, []string{"No service nobody"}, nil},
		{"readiness while the database is away", "lost", "/readiness", 200, []string{"Readiness cannot be read now"}, []string{"No service yet"}},
		{"no service yet", "empty", "/readiness", 200, []string{"No service yet"}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			status, _, body := get(t, handlers[tt.house], tt.path)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, w := range tt.want {
				if !strings.Contains(body, w) {
					t.Errorf("%q is not on the page", w)
				}
			}
			for _, n := range tt.not {
				if strings.Contains(body, n) {
					t.Errorf("%q is on the page", n)
				}
			}
		})
	}
}

// An unknown answer never looks like a yes.
func TestUnknownIsNeverGreen(t *testing.T) {
	_, _, body := get(t, shop(noon).server(t).Handler(), "/readiness")
	n := 0
	for cell := range strings.SplitSeq(body, `<td class="cell`) {
		if text, _, _ := strings.Cut(cell, "</td>"); strings.Contains(text, ">unknown<") {
			n++
			if !strings.HasPrefix(text, " hatch") || strings.Contains(text, "normal") {
				t.Errorf("an unknown cell is %s", text)
			}
		}
	}
	if n < 15+8 {
		t.Errorf("only %d unknown cells", n)
	}
}

func TestTablesOfDays(t *testing.T) {
	h := shop(noon).server(t).Handler()
	for at, want := range map[string]string{
		"/gamedays?format=csv&table=calendar":                        "2026-11-25T10:00:00Z,coupon-429-drill,Coupon 429 drill,coupon,will be skipped,coupon is frozen until",
		"/gamedays?format=csv&table=decisions":                       "hourly-flaky,2026-11-23T12:49:00Z,2026-11-23T12:49:00Z,overlap,r-1280 has not ended,",
		"/gamedays?format=csv&table=schedules":                       "coupon-429-drill,Coupon 429 drill,0 11 * * 3,Europe/Berlin,true,coupon-429,coupon,2026-11-25T10:00:00Z,coupon is frozen until",
		"/gamedays?format=csv&table=runs":                            "r-1287,weekly-small-drill,points-slow,points,injecting,",
		"/gamedays/weekly-small-drill?format=csv&table=timeline":     "note,points-owner,,\"the pager stayed quiet",
		"/gamedays/weekly-small-drill?format=csv&table=runs":         "1,r-1287,points-slow,points,injecting",
		"/gamedays/quarterly-order-chain?format=csv&table=checklist": "order,limits,yes,\"load test of May",
		"/findings?format=csv&severity=high":                         "f-0000000002,order,order-slow,d2,",
		"/findings?format=csv&table=weeks":                           "2026-11-24T14:27:12Z,5,2,",
		"/findings/f-0000000001?format=csv":                          "engine,overdue,,was due 2026-11-19 and is told to team-points",
		"/readiness?format=csv":                                      "order,2026-11-24T14:27:12Z,9,15,yes,unknown,no,unknown,",
		"/readiness/order?format=csv&table=trend":                    "order,2026-11-24,9,2,4,15",
		"/readiness/order?format=csv":                                "order,breaker,protection,",
	} {
		if status, _, body := get(t, h, at); status != 200 || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %q is not in\n%.1500s", at, status, want, body)
		}
	}
}

// Forms go through the handlers of the API, by the roles that it asks for, and never
// from another site. Stopping needs no more than a login.
func TestFormsOfDays(t *testing.T) {
	h := shop(noon)
	handler := h.server(t).Handler()
	post := func(path, site string, form url.Values) (int, string, string) {
		r := httptest.NewRequest(http.MethodPost, "http://localhost:8081"+path, strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", site)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w.Code, w.Header().Get("Location"), w.Body.String()
	}
	forms := []struct {
		path string
		form url.Values
		to   string
	}{
		{"/gamedays", url.Values{"gameday": {"release-rehearsal"}}, "/gamedays/release-rehearsal?said=started"},
		{"/gamedays/g-1/approve", url.Values{"hash": {"5f2c"}}, "/gamedays/g-1?said=approved"},
		{"/gamedays/g-1/notes", url.Values{"kind": {"note"}, "text": {"<b>quiet</b>"}}, "/gamedays/g-1?said=noted"},
		{"/findings/f-1/close", url.Values{"note": {"timeout lowered"}}, "/findings/f-1?said=claimed"},
		{"/findings/f-1/accept", url.Values{"reason": {"goes away in May"}, "days": {"90"}}, "/findings/f-1?said=accepted"},
		{"/readiness/order", url.Values{"item": {"limits"}, "yes": {"yes"}, "evidence": {"wiki/limits"}}, "/readiness/order?said=answered#limits"},
	}
	for _, f := range forms {
		if status, _, body := post(f.path, "same-origin", f.form); status != 403 || !strings.Contains(body, "This takes an ") {
			t.Errorf("a viewer's %s is %d", f.path, status)
		}
		if status, _, _ := post(f.path, "cross-site", f.form); status != 403 {
			t.Errorf("%s of another site is %d", f.path, status)
		}
	}
	if status, _, _ := post("/gamedays/g-1/abort", "cross-site", nil); status != 403 || len(h.stopped) != 0 {
		t.Errorf("another site stopped a game day: %d, %q", status, h.stopped)
	}
	if status, to, _ := post("/gamedays/g-1/abort", "same-origin", nil); status != 303 || to != "/gamedays/g-1?said=stopped" {
		t.Errorf("a viewer's stop is %d to %q", status, to)
	}
	h.mayLift = true
	for _, f := range forms {
		if status, to, body := post(f.path, "same-origin", f.form); status != 303 || to != f.to {
			t.Errorf("%s: %d to %q, %.300s", f.path, status, to, body)
		}
	}
	want := []string{`abort g-1 {}`, `start  {"gameday":"release-rehearsal"}`, `approve g-1 {"hash":"5f2c"}`, `write g-1 {"kind":"note","text":"\u003cb\u003equiet\u003c/b\u003e"}`, `close f-1 {"note":"timeout lowered"}`,
		`accept f-1 {"reason":"goes away in May","until":"2027-02-22T14:27:12Z"}`, `answer order {"evidence":"wiki/limits","item":"limits","yes":true}`}
	if !slices.Equal(h.stopped, want) {
		t.Errorf("asked %q, want %q", h.stopped, want)
	}
	if status, _, body := post("/gamedays/g-1/approve", "same-origin", url.Values{"hash": {"refuse"}}); status != 409 || !strings.Contains(body, "The game day is another one than was agreed to.") {
		t.Errorf("a refusal is %d, and the page must say why", status)
	}
	if status, _, _ := post("/gamedays/g-1/approve", "same-origin", nil); status != 422 || len(h.stopped) != len(want) {
		t.Errorf("an approval of nobody knows what is %d", status)
	}
	if status, _, body := post("/findings/f-0000000001/accept", "same-origin", url.Values{"reason": {"long enough"}, "days": {"9999"}}); status != 422 || !strings.Contains(body, "got 9999") {
		t.Errorf("a risk without an end is %d", status)
	}
}

// What may be done is offered to those who may, and not to those who may not by the
// rules of the desk: nobody approves their own, or answers for it.
func TestOffersOfDays(t *testing.T) {
	h := shop(noon)
	h.mayLift = true
	s := h.server(t)
	s.cfg.Actor = func(r *http.Request) string { return auth.From(r.Context()).Name }
	as := func(name, path string) string {
		r := httptest.NewRequest(http.MethodGet, "http://localhost:8081"+path, nil)
		r = r.WithContext(auth.With(r.Context(), auth.Principal{Name: name, Role: auth.Admin}))
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		return w.Body.String()
	}
	for _, tt := range []struct {
		who, path, form string
		offered         bool
	}{
		{"ada", "/gamedays/quarterly-order-chain", "/approve", true},
		{"sre-lead", "/gamedays/quarterly-order-chain", "/approve", false},     // commands it
		{"sre-operator", "/gamedays/quarterly-order-chain", "/approve", false}, // has agreed
		{"early-bird", "/gamedays/quarterly-order-chain", "/approve", true},    // to another content
		{"ada", "/gamedays/g-by-hand-1", "/approve", false},                    // is over
		{"ada", "/gamedays/g-by-hand-1", "/notes", true},
		{"ada", "/findings/f-0000000001", "/accept", true},
		{"team-points", "/findings/f-0000000001", "/accept", false}, // owns it
		{"ben", "/findings/f-0000000003", "/accept", false},         // said that it is mended
		{"ada", "/findings/f-0000000006", "/close", false},          // is verified
		{"ada", "/findings/f-0000000001", "/close", true},
		{"ada", "/readiness/order", "Answer it", true},
		{"ada", "/gamedays", "Hold it now", true},
	} {
		body := as(tt.who, tt.path)
		if tt.form[0] == '/' {
			tt.form = tt.form + `"><`
			body = strings.ReplaceAll(body, `/notes" id="note">`, `/notes"><`)
			body = strings.ReplaceAll(body, `id="note" method="post" action="`, `action="`)
		}
		if got := strings.Contains(body, tt.form); got != tt.offered {
			t.Errorf("%s at %s: %s offered %v, want %v", tt.who, tt.path, tt.form, got, tt.offered)
		}
	}
}

func TestMarkupInDaysIsEscaped(t *testing.T) {
	house := hostile(noon)
	house.mayLift = true
	h := house.server(t).Handler()
	pages := daysPages()
	pages["gamedays"], pages["called-off"] = "/gamedays?all=1", "/gamedays/"+house.held()[1].ID
	pages["query"] = "/findings?service=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&severity=%3Cimg%20src=x%20onerror=1%3E&state=%22%3E"
	pages["zone"] = "/gamedays?zone=%22%3E%3Cscript%3Ealert(1)%3C/script%3E&view=%3Cimg%20src=x%20onerror=1%3E&at=%22%3E"
	seen := 0
	for name, path := range pages {
		status, _, body := get(t, h, path)
		if strings.Contains(body, "<script>alert") || strings.Contains(body, "<img src=x") {
			t.Errorf("%s: stored markup came through", path)
		}
		for _, found := range refused(body) {
			t.Errorf("%s: %q", path, found)
		}
		if status == 200 && strings.Contains(body, "&lt;script&gt;") {
			seen++
		}
		_ = name
	}
	if seen < 10 {
		t.Errorf("only %d pages held any markup", seen)
	}
}

// The reader of some services is shown those alone.
func TestDaysOfOtherServicesAreNotShown(t *testing.T) {
	s := shop(noon).server(t)
	s.cfg.Covers = func(_ *http.Request, service string) bool { return service == "order" }
	h := s.Handler()
	if _, _, body := get(t, h, "/findings?view=all"); strings.Contains(body, "Breaker of points") || !strings.Contains(body, "Alert fires") {
		t.Error("findings of another service are shown, or the own are not")
	}
	if status, _, _ := get(t, h, "/findings/f-0000000001"); status != 404 {
		t.Errorf("a finding of another service is %d", status)
	}
	if _, _, body := get(t, h, "/readiness"); strings.Contains(body, `href="/readiness/points"`) || !strings.Contains(body, "1 service,") {
		t.Error("readiness of another service is shown")
	}
	if status, _, _ := get(t, h, "/readiness/points"); status != 404 {
		t.Errorf("readiness of another service is %d", status)
	}
}

// A calendar has each date once, whatever clocks do, and everything that happens in
// its span stands in it.
func TestCalendarHasEachDateOnce(t *testing.T) {
	zones := []string{"UTC", "Europe/Berlin", "America/Sao_Paulo", "Africa/Cairo", "Asia/Beirut", "Pacific/Apia", "Australia/Lord_Howe", "America/Havana"}
	for _, name := range zones {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		v := view{when: when{zone: zone, now: noon}}
		// Seventeen years where clocks are set nearby, and a few days of each year of the rest.
		const step = 7
		for day := time.Date(2011, 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < 2028; day = day.AddDate(0, 0, step) {
			_, before := day.AddDate(0, 0, -8).In(zone).Zone()
			_, after := day.AddDate(0, 0, 8).In(zone).Zone()
			if before == after && day.YearDay()%90 >= step {
				continue
			}
			for _, kind := range []string{"month", "week"} {
				v.r = httptest.NewRequest(http.MethodGet, "/gamedays?view="+kind+"&at="+day.Format(time.DateOnly), nil)
				c := calendarSpan(v.r, noon, zone)
				var all []happening
				for at := c.from; at.Before(c.until); at = at.Add(13 * time.Hour) {
					all = append(all, happening{at: at, key: at.String(), title: "x"})
				}
				cal := v.calendar(c, all, []stretch{{from: c.from.Add(-time.Hour), until: c.until.Add(time.Hour), text: "all"}, {from: c.from.Add(30 * time.Hour), until: c.from.Add(31 * time.Hour), text: "one"}})
				events, want := 0, c.from.In(zone)
				y, m, d := want.Date()
				for w, week := range cal.Weeks {
					for i, cell := range week.Days {
						if date := time.Date(y, m, d+7*w+i, 0, 0, 0, 0, time.UTC).Format(time.DateOnly); cell.ISO != date {
							t.Fatalf("%s %s %s: cell %d of week %d is %s, want %s", name, kind, day.Format(time.DateOnly), i, w, cell.ISO, date)
						}
						if cell.Lanes[0].Class == "" {
							t.Fatalf("%s %s: %s has no bar", name, kind, cell.ISO)
						}
						events += len(cell.Events)
					}
				}
				if events != len(all) || len(cal.Weeks) != c.weeks || want.Weekday() != time.Monday {
					t.Fatalf("%s %s %s: %d events of %d in %d weeks from %s", name, kind, day.Format(time.DateOnly), events, len(all), len(cal.Weeks), want)
				}
			}
		}
	}
}
