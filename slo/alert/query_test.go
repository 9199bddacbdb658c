package alert

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/conf"
)

func TestWhatAPrometheusSays(t *testing.T) {
	const vector = `{"status":"success","data":{"resultType":"vector","result":`
	const scalar = `{"status":"success","data":{"resultType":"scalar","result":`
	for body, want := range map[string]string{
		vector + `[]}}`: "no",
		vector + `[{"metric":{"pool":"a"},"value":[1.5,"0.93"]}]}}`:                "yes 0.93 1",
		vector + `[{"metric":{},"value":[1.5,"0"]}]}}`:                             "yes 0 1", // up == 0
		vector + `[{"metric":{},"value":[1,"7"]},{"metric":{},"value":[1,"8"]}]}}`: "yes 7 2",
		scalar + `[1.5,"1"]}}`:                         "yes 1 1",
		scalar + `[1.5,"-0.00"]}}`:                     "no",
		vector + `[{"metric":{},"value":[1,"NaN"]}]}}`: "unknown",
		scalar + `[1,"NaN"]}}`:                         "unknown",
		vector + `null}}`:                              "unknown",
		vector + `[{}]}}`:                              "unknown",
		`{"status":"success","data":{"resultType":"matrix","result":[]}}`:                "unknown",
		`{"status":"error","errorType":"bad_data","error":"1:3: parse error","data":{}}`: "unknown",
		`{"status":"success"}`: "unknown",
		`<html>`:               "unknown",
		``:                     "unknown",
	} {
		got := "unknown"
		r, err := ReadReply([]byte(body))
		switch {
		case err == nil && r.Holds:
			got = strings.Join([]string{"yes", r.Value, string(rune('0' + r.Series))}, " ")
		case err == nil:
			got = "no"
		case !errors.Is(err, ErrNoReply):
			t.Errorf("%s: %v", body, err)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// An answer is a fact, and so is that there is none: an error never looks like health.
func TestQueriesBecomeFacts(t *testing.T) {
	var mu sync.Mutex
	say, asked := "", 0
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		if r.URL.Path != "/api/v1/query" || r.URL.Query().Get("query") != `in_use{pool="points"} > 90` || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("asked %s %q", r.URL, r.Header.Get("Authorization"))
		}
		if say == "down" {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"vector","result":[` + say + `]}}`))
	}))
	defer prometheus.Close()
	secret := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(secret, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	q := Query{Name: "points-pool", Service: "order", Env: "prod", URL: prometheus.URL + "/", Expr: `in_use{pool="points"} > 90`, Text: "the pool of points is nearly full", Every: 30 * time.Second, SecretFile: secret, AllowPrivate: true}
	var kept []Fact
	a := &Asker{Queries: func() []Query { return []Query{q} }, Keep: func(_ context.Context, f Fact) error { kept = append(kept, f); return nil }}
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		say  string
		want string // of the fact; "": none
		over bool
	}{
		{"", "", false},
		{`{"metric":{},"value":[1,"93"]}`, "the pool of points is nearly full (93)", false},
		{`{"metric":{},"value":[1,"93"]},{"metric":{},"value":[1,"95"]}`, "the pool of points is nearly full (93, and 1 series more)", false},
		{"", "the pool of points is nearly full", true},
		{"", "", false},
		{"down", "unknown whether the pool of points is nearly full: no answer to go by", false},
		{"", "the pool of points is nearly full", true},
	} {
		kept = nil
		mu.Lock()
		say = step.say
		mu.Unlock()
		a.Tick(t.Context(), now)
		switch {
		case step.want == "" && len(kept) > 0:
			t.Errorf("after %q it keeps %+v", step.say, kept)
		case step.want != "" && (len(kept) != 1 || !strings.HasPrefix(kept[0].Text, step.want) || kept[0].Until.After(now) == step.over || kept[0].By == "" || kept[0].Key != "query:points-pool"):
			t.Errorf("after %q it keeps %+v, want %q", step.say, kept, step.want)
		}
		a.Tick(t.Context(), now.Add(time.Second)) // not due
		now = now.Add(30 * time.Second)
	}
	if asked != 7 {
		t.Errorf("asked %d times in seven spans", asked)
	}
	kept, q.AllowPrivate = nil, false
	a.Tick(t.Context(), now)
	if len(kept) != 1 || !strings.Contains(kept[0].Text, "unknown") || asked != 7 {
		t.Errorf("a private address was asked without leave: %+v", kept)
	}
	q.AllowPrivate, kept = true, nil
	a.Guard = func(bool) func(string, string, syscall.RawConn) error {
		return func(string, string, syscall.RawConn) error { return errors.New("no route to host") }
	}
	a.Tick(t.Context(), now.Add(time.Minute))
	if len(kept) != 1 || !strings.Contains(kept[0].Text, "unknown") {
		t.Errorf("unreachable: %+v", kept)
	}
}

func TestQueriesInDocuments(t *testing.T) {
	read := func(text string) ([]Route, error) {
		var log conf.Log
		r := ParseRoutes([]conf.File{{Name: "r.yaml", Data: []byte("apiVersion: breakwater/v1\nkind: AlertRoute\nname: oncall\nto: [{type: slack, url_file: a}]\n" + text)}}, &log)
		return r, log.Err()
	}
	const good = `{name: pool, service: order, environment: prod, prometheus: "http://prom:9090", query: "x > 1", text: the pool is full}`
	routes, err := read("facts: [" + good + "]\n")
	if err != nil || len(routes) != 1 || len(routes[0].Queries) != 1 || routes[0].Queries[0].Every != 30*time.Second || routes[0].Queries[0].Expr != "x > 1" {
		t.Errorf("%+v, %v", routes, err)
	}
	for text, want := range map[string]string{
		"facts: [" + good + ", " + good + "]\n":                                       "r.yaml:5:",
		"facts: [{name: pool}]\n":                                                     "prometheus: must be given",
		strings.Replace("facts: ["+good+"]\n", "http://", "ftp://", 1):                "must be an http or https URL",
		strings.Replace("facts: ["+good+"]\n", "name: pool", "every: 1s, name: p", 1): "must be 5s to",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot %v, want %q", text, err, want)
		}
	}
}

// What is concluded from an answer holds of it: no series, no fact.
func FuzzReadReply(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"0"]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := ReadReply(body)
		if err != nil && (r.Holds || !errors.Is(err, ErrNoReply)) || err == nil && r.Holds && (r.Series == 0 || r.Value == "" || r.Value == "NaN") {
			t.Fatalf("%+v, %v", r, err)
		}
	})
}
