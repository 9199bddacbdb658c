package store_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"breakwater/injector"
)

// mux mounts the API as a control does, without the roles.
func mux(e *injector.Engine) *http.ServeMux {
	api, m := e.API(), http.NewServeMux()
	m.HandleFunc("GET /api/v1/experiments", api.List)
	m.HandleFunc("POST /api/v1/experiments", api.Create)
	m.HandleFunc("GET /api/v1/experiments/{id}", api.Show)
	m.HandleFunc("DELETE /api/v1/experiments/{id}", api.Delete)
	m.HandleFunc("GET /api/v1/experiments/{id}/evidence/{assertion}", api.Evidence)
	m.HandleFunc("POST /api/v1/experiments/preview", api.Preview)
	m.HandleFunc("POST /api/v1/experiments/{id}/abort", api.Abort)
	m.HandleFunc("POST /api/v1/experiments/{id}/approve", api.Approve)
	m.HandleFunc("GET /api/v1/searches", api.Searches)
	m.HandleFunc("POST /api/v1/searches", api.Seek)
	m.HandleFunc("GET /api/v1/searches/{id}", api.Search)
	m.HandleFunc("POST /api/v1/searches/{id}/abort", api.Abandon)
	m.HandleFunc("POST /api/v1/halt", api.Halt)
	m.HandleFunc("DELETE /api/v1/halt", api.Resume)
	m.HandleFunc("GET /api/v1/gamedays", api.GameDays)
	return m
}

func ask(m http.Handler, method, path, contentType, body string) *httptest.ResponseRecorder {
	req := httptest.NewRequest(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", contentType)
	rec := httptest.NewRecorder()
	m.ServeHTTP(rec, req)
	return rec
}

func TestAPI(t *testing.T) {
	d := newDrill(t)
	d.load(day("points", "0 10 * * 2"))
	e := d.engine(nil)
	steps := []struct {
		name, method, path, contentType, body string
		status                                int
		want                                  string
	}{
		{"nothing yet", "GET", "/api/v1/experiments", "", "", 200, `"experiments":[]`},
		{"a bad document is told at its place", "POST", "/api/v1/experiments", "application/yaml", strings.Replace(slowPoints, `"30%"`, "0.3", 1), 400, "sample.percent: must be a share"},
		{"an unknown scenario", "POST", "/api/v1/experiments", "application/json", `{"scenario":"nobody"}`, 404, "not found"},
		{"a field nobody knows", "POST", "/api/v1/experiments", "application/json", `{"scenario":"slow-points","percent":5}`, 400, `unknown field \"percent\"`},
		{"two values", "POST", "/api/v1/experiments", "application/json", `{"scenario":"slow-points"}{}`, 400, "must be"},
		{"a problem has one form", "POST", "/api/v1/experiments", "application/json", `{}`, 400,
			`{"type":"about:blank","title":"Bad Request","status":400,"code":"bad_request","detail":`},
		{"by id", "POST", "/api/v1/experiments", "application/json", `{"scenario":"slow-points"}`, 201, `"state":"scheduled"`},
		{"held", "POST", "/api/v1/experiments", "application/json", `{"scenario":"slow-points"}`, 409, "holds the target"},
		{"listed", "GET", "/api/v1/experiments", "", "", 200, `"scenario":"slow-points"`},
		{"unknown run", "GET", "/api/v1/experiments/r-0", "", "", 404, `"code":"not_found"`},
		{"no id at all", "GET", "/api/v1/experiments/%00", "", "", 404, `"code":"not_found"`},
		{"broken text", "GET", "/api/v1/experiments/r-%ff", "", "", 404, `"code":"not_found"`},
		{"nothing to abort", "POST", "/api/v1/experiments/r-%00/abort", "", "", 404, `"code":"not_found"`},
		{"nothing to approve", "POST", "/api/v1/experiments/r-%0a/approve", "", "", 404, `"code":"not_found"`},
		{"halt", "POST", "/api/v1/halt", "", "", 200, `"stopped":1`},
		{"again", "POST", "/api/v1/halt", "", "", 200, `"stopped":0`},
		{"nothing starts", "POST", "/api/v1/experiments", "application/yaml", slowPoints, 409, "halted"},
		{"resume", "DELETE", "/api/v1/halt", "", "", 204, ""},
		{"starts again", "POST", "/api/v1/experiments", "application/yaml", slowPoints, 201, `"warnings":[{"code":"no_match"`},
		{"game days", "GET", "/api/v1/gamedays", "", "", 200, `"local":"Tue 2026-03-10 10:00 UTC"`},
	}
	for _, s := range steps {
		d.pass(time.Second)
		rec := ask(mux(e), s.method, s.path, s.contentType, s.body)
		text := rec.Body.String() + rec.Header().Get("Content-Type")
		if rec.Code != s.status || !strings.Contains(text, s.want) {
			t.Errorf("%s: %d %s, want %d with %s", s.name, rec.Code, text, s.status, s.want)
		}
	}
	runs, err := d.Runs(t.Context(), 1)
	d.must(err)
	id := runs[0].ID
	if rec := ask(mux(e), "POST", "/api/v1/experiments/"+id+"/abort", "", ""); rec.Code != 200 || !strings.Contains(rec.Body.String(), `"state":"cancelled"`) {
		t.Errorf("abort: %d %s", rec.Code, rec.Body)
	}
	rec := ask(mux(e), "GET", "/api/v1/experiments/"+id, "", "")
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "stopped by anna") {
		t.Errorf("show: %d %s, want its log", rec.Code, rec.Body)
	}
}

func TestProdWaitsForSomebodyElse(t *testing.T) {
	d := newDrill(t)
	actor := "anna"
	now, err := d.Now(t.Context())
	d.must(err)
	for _, service := range []string{"points", "order"} { // in prod a drill that meets nobody is refused
		d.minute(service, "", "", now.Add(-time.Hour), 1000, 0, 0)
		d.measured(service, now.AddDate(0, 0, -20))
	}
	e := injector.New(injector.Config{Ledger: d, Env: "prod", Actor: func(context.Context) string { return actor }})
	r := d.start(e, slowPoints)
	if r.State != injector.PendingApproval {
		t.Fatalf("state %s, want pending_approval", r.State)
	}
	d.pass(time.Minute)
	d.tick(e)
	if got := d.run(r.ID); got.State != injector.PendingApproval {
		t.Errorf("it is %s without an approval", got.State)
	}
	if rec := ask(mux(e), "POST", "/api/v1/experiments/"+r.ID+"/approve", "", ""); rec.Code != http.StatusForbidden {
		t.Errorf("self-approval gave %d, want 403", rec.Code)
	}
	actor = "bert"
	if rec := ask(mux(e), "POST", "/api/v1/experiments/"+r.ID+"/approve", "", ""); rec.Code != http.StatusOK {
		t.Errorf("approval gave %d %s", rec.Code, rec.Body)
	}
	d.tick(e)
	if got := d.run(r.ID); got.State != injector.Arming {
		t.Errorf("it is %s after the approval, want arming", got.State)
	}
	if rec := ask(mux(e), "POST", "/api/v1/experiments/"+r.ID+"/abort", "", ""); rec.Code != http.StatusOK {
		t.Errorf("abort gave %d %s", rec.Code, rec.Body)
	}
	d.pass(time.Minute)
	d.tick(e)
	// Where nobody answers, it does not wait for ever.
	late := d.start(e, strings.Replace(slowPoints, "service: points}", "service: order}", 1))
	d.pass(injector.ApprovalFor + time.Minute)
	d.tick(e)
	if got := d.run(late.ID); got.State != injector.Expired {
		t.Errorf("it is %s after a week, want expired", got.State)
	}
}

func TestFiguresOfARunUnderWay(t *testing.T) {
	d := newDrill(t)
	e, g := d.engine(nil), newGateway("gw")
	d.poll(e, g)
	id := d.start(e, slowPoints).ID
	d.until(e, id, injector.Injecting, g)
	g.badPer = 2
	for range 4 {
		d.pass(time.Second)
		g.serve()
		d.poll(e, g)
	}
	running, err := e.Desk().Run(t.Context(), id)
	d.must(err)
	// The first second after the edge of a phase still belongs to the one before.
	if running.Attempts != 3*g.perPoll || running.Injected != running.Attempts*3/10 || running.Good == 0 {
		t.Errorf("while it runs %d of %d tries were hit, %d good", running.Injected, running.Attempts, running.Good)
	}
	list, err := e.Desk().Runs(t.Context(), 1)
	d.must(err)
	if l := list[0]; l.Attempts != running.Attempts || l.Injected != running.Injected || l.Good != running.Good || l.Bad != running.Bad {
		t.Errorf("the list says %d of %d, the run %d of %d", l.Injected, l.Attempts, running.Injected, running.Attempts)
	}
	rec := ask(mux(e), "GET", "/api/v1/experiments/"+id, "", "")
	if want := fmt.Sprintf(`"attempts":%d,"injected":%d`, running.Attempts, running.Injected); !strings.Contains(rec.Body.String(), want) {
		t.Errorf("%s lacks %s", rec.Body, want)
	}
	ended := d.until(e, id, injector.Completed, g)
	if shown, err := e.Desk().Run(t.Context(), id); err != nil || shown.Attempts != ended.Attempts || ended.Attempts <= running.Attempts {
		t.Errorf("%d tries at the end after %d under way, shown as %d, %v", ended.Attempts, running.Attempts, shown.Attempts, err)
	}
}

func TestTheLogOfARunNeverGoesBack(t *testing.T) {
	d := newDrill(t)
	e := d.engine(nil)
	id := d.start(e, slowPoints).ID
	early, _ := d.Now(t.Context())
	// Another control, whose look at the clock is older, writes last.
	d.must(d.Note(t.Context(), injector.Event{At: early.Add(-3 * time.Second), Run: id, Kind: "state", Text: "arming", Actor: "engine"}))
	events, err := e.Desk().Events(t.Context(), id)
	d.must(err)
	if len(events) != 2 || events[1].Text != "arming" || events[1].At.Before(events[0].At) {
		t.Errorf("the log reads %v", events)
	}
}
