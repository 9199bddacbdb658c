package now

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"breakwater/slo"
)

// failing is a service of 600 requests a minute, of which bad fail in the minute that
// runs, beginning with second 20.
func failing(bad int64, facets ...Facet) Evidence {
	e := Evidence{Service: "order", Env: "prod", At: noon.Add(50 * time.Second), Until: noon.Add(49 * time.Second), Minutes: minutesOf(append(repeat(30, [2]int64{600, 0}), [2]int64{500, bad})...), Facets: facets}
	e.Minutes[len(e.Minutes)-1].Retried = 0
	for s := 20; s < 50; s++ {
		e.Seconds = append(e.Seconds, Second{noon.Add(time.Duration(s) * time.Second), bad / 30})
	}
	return e
}

func facet(dimension, value string, hits, total, was int64) Facet {
	return Facet{Dimension: dimension, Value: value, Hits: hits, Total: total, WasTotal: was}
}

// six instances in three racks; fails says how many tries of each did.
func instances(fails ...int64) (out []Facet) {
	racks := map[string]Facet{}
	for i, n := range fails {
		name, rack := string(rune('1'+i)), string(rune('a'+i/2))
		out = append(out, facet(ByInstance, "order-"+name, n, 100, 1000))
		r := racks[rack]
		racks[rack] = facet(ByRack, rack, r.Hits+n, r.Total+100, r.WasTotal+1000)
	}
	for _, rack := range []string{"a", "b", "c"} {
		out = append(out, racks[rack])
	}
	return out
}

func mark(kind slo.CauseKind, service, ref string, before time.Duration) slo.Cause {
	return slo.Cause{Kind: kind, Service: service, Ref: ref, From: noon.Add(20*time.Second - before), Actor: "ci"}
}

func revisions(before, after string) []Revision {
	return []Revision{{noon.Add(-time.Hour), "r1", before}, {noon, "r2", after}}
}

const (
	plainDoc   = `{"routes":[{"name":"a","service":"order","upstream":"order","timeout":3000000000},{"name":"b","service":"stock","timeout":1}],"upstreams":[{"name":"order","endpoints":[]}]}`
	stockDoc   = `{"routes":[{"name":"a","service":"order","upstream":"order","timeout":3000000000},{"name":"b","service":"stock","timeout":2}],"upstreams":[{"name":"order","endpoints":[]}]}`
	shortDoc   = `{"routes":[{"name":"a","service":"order","upstream":"order","timeout":2000000},{"name":"b","service":"stock","timeout":1}],"upstreams":[{"name":"order","endpoints":[]}]}`
	poolDoc    = `{"routes":[{"name":"a","service":"order","upstream":"order","timeout":3000000000},{"name":"b","service":"stock","timeout":1}],"upstreams":[{"name":"order","endpoints":[{"address":"x:1"}]}]}`
	errorsKind = "status_500"
)

func TestTheTrueCauseIsFirst(t *testing.T) {
	with := func(e Evidence, change func(*Evidence)) Evidence { change(&e); return e }
	callers := []Facet{facet(ByCaller, "web", 240, 300, 12000), facet(ByCaller, "app", 60, 200, 6000)}
	even := func(kind string, n int64) []Facet {
		return append(instances(n/6, n/6, n/6, n/6, n/6, n/6), facet(ByKind, kind, n, n, 0), facet(ByCaller, "web", n*2/3, 330, 12000), facet(ByCaller, "app", n/3, 170, 6000))
	}
	tests := []struct {
		name    string
		e       Evidence
		kind    Kind
		subject string
	}{
		{"one instance, and not its rack", failing(90, append(instances(2, 87, 0, 0, 1, 0), facet(ByKind, errorsKind, 90, 90, 0))...), AnInstance, "order-2"},
		{"a rack, and not its instances", failing(90, append(instances(44, 45, 1, 0, 0, 0), facet(ByKind, errorsKind, 90, 90, 0))...), ARack, "a"},
		{"a rack of one instance is that instance", failing(90, facet(ByInstance, "order-1", 90, 100, 1000), facet(ByInstance, "order-2", 0, 100, 1000),
			facet(ByRack, "a", 90, 100, 1000), facet(ByRack, "b", 0, 100, 1000), facet(ByKind, errorsKind, 90, 90, 0)), AnInstance, "order-1"},
		{"a caller, whatever route it takes", failing(60, append(even(errorsKind, 0), facet(ByKind, errorsKind, 60, 60, 0), facet(ByCaller, "partner", 59, 60, 2000), facet(ByCaller, "web", 1, 440, 16000),
			facet(ByRoute, "write", 60, 250, 9000), facet(ByRoute, "read", 0, 250, 9000))...), ACaller, "partner"},
		{"a callee that fails goes before its caller", with(failing(100, even(errorsKind, 100)...), func(e *Evidence) {
			e.Dependencies = []Dependency{{Service: "stock", Hits: 98, Total: 200, WasHits: 1, WasTotal: 9000, Kinds: []Facet{facet(ByKind, "try_timeout", 98, 98, 0)}},
				{Service: "coupon", Hits: 2, Total: 200, WasHits: 90, WasTotal: 9000}}
		}), ADependency, "stock"},
		{"a callee that always failed so is none", with(failing(100, even(errorsKind, 100)...), func(e *Evidence) {
			e.Dependencies = []Dependency{{Service: "stock", Hits: 98, Total: 200, WasHits: 4400, WasTotal: 9000}}
		}), AnUpstream, "order"},
		{"a deploy half a minute before", with(failing(100, even(errorsKind, 100)...), func(e *Evidence) { e.Marks = []slo.Cause{mark(slo.ByDeploy, "order", "v8", 30*time.Second)} }), ADeploy, "v8"},
		{"a canary on one instance is a deploy", with(failing(90, append(instances(0, 90, 0, 0, 0, 0), facet(ByKind, errorsKind, 90, 90, 0))...), func(e *Evidence) {
			e.Marks = []slo.Cause{mark(slo.ByDeploy, "order", "v8", 10*time.Second)}
		}), ADeploy, "v8"},
		{"a deploy of a quarter of an hour before is not", with(failing(90, append(instances(0, 90, 0, 0, 0, 0), facet(ByKind, errorsKind, 90, 90, 0))...), func(e *Evidence) {
			e.Marks = []slo.Cause{mark(slo.ByDeploy, "order", "v8", 15*time.Minute)}
		}), AnInstance, "order-2"},
		{"a deploy after it is not", with(failing(100, even(errorsKind, 100)...), func(e *Evidence) { e.Marks = []slo.Cause{mark(slo.ByDeploy, "order", "v8", -2*time.Minute)} }), AnUpstream, "order"},
		{"another service's deploy is not", with(failing(100, even(errorsKind, 100)...), func(e *Evidence) { e.Marks = []slo.Cause{mark(slo.ByDeploy, "coupon", "v8", time.Second)} }), AnUpstream, "order"},
		{"a revision that shortens its timeout", with(failing(100, even("timeout_total", 100)...), func(e *Evidence) {
			e.Marks, e.Revisions = []slo.Cause{mark(slo.ByConfig, "", "r2", 2*time.Second)}, revisions(plainDoc, shortDoc)
		}), AConfig, "r2"},
		{"a revision that moves its upstream goes before what its name does", with(failing(100, even("dns", 100)...), func(e *Evidence) {
			e.Marks, e.Revisions = []slo.Cause{mark(slo.ByConfig, "", "r2", 2*time.Second)}, revisions(plainDoc, poolDoc)
		}), AConfig, "r2"},
		{"a revision about others is not", with(failing(100, even("timeout_total", 100)...), func(e *Evidence) {
			e.Marks, e.Revisions = []slo.Cause{mark(slo.ByConfig, "", "r2", 2*time.Second)}, revisions(plainDoc, stockDoc)
		}), AnUpstream, "order"},
		{"an experiment, though breakers hide most of it", with(failing(100, append(even(errorsKind, 30), facet(ByKind, "breaker:open", 70, 70, 0))...), func(e *Evidence) {
			e.Experiments = []Experiment{{Run: "r-1", Title: "loss", Service: "order", Hits: 30, Touched: 60}}
			e.Marks = []slo.Cause{mark(slo.ByDeploy, "order", "v8", 30*time.Second)}
		}), AnExperiment, "r-1"},
		{"a limit too low", with(failing(0, append(callers, facet(ByKind, "limiter:rate", 300, 300, 0))...), func(e *Evidence) { e.Minutes[30].Throttled = 300 }), ALimit, "limiter"},
		{"a caller that floods its limit", with(failing(0, facet(ByCaller, "bot", 290, 300, 100), facet(ByCaller, "web", 10, 300, 12000), facet(ByKind, "limiter:rate", 300, 300, 0)),
			func(e *Evidence) { e.Minutes[30].Throttled = 300 }), ALoad, "bot"},
		{"a name that does not resolve", failing(100, even("dns", 100)...), AName, "order"},
		{"retries that make the load", with(failing(100, even("try_timeout", 100)...), func(e *Evidence) {
			e.Minutes[30].Attempts, e.Minutes[30].Retried = 1500, 500
			e.Facets = append(e.Facets, Facet{Dimension: ByUpstream, Value: "stock-db", Hits: 100, Total: 500})
		}), AStorm, "stock-db"},
		{"retries in vain of what refuses are no storm", with(failing(100, even("refused", 100)...), func(e *Evidence) { e.Minutes[30].Attempts = 1500 }), AnUpstream, "order"},
		{"an upstream that is slow", failing(100, even("try_timeout", 100)...), AnUpstream, "order"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Assess(tt.e, nil, tt.e.At)
			if s.State != Hit || len(s.Causes) == 0 || s.Causes[0].Kind != tt.kind || s.Causes[0].Subject != tt.subject {
				t.Fatalf("%s, want %s %s first:\n%s", s.State, tt.kind, tt.subject, s.Text())
			}
			// What comes first does not hang on the order in which things were read.
			rnd := rand.New(rand.NewPCG(1, 2))
			for range 5 {
				rnd.Shuffle(len(tt.e.Facets), func(i, j int) { tt.e.Facets[i], tt.e.Facets[j] = tt.e.Facets[j], tt.e.Facets[i] })
				if again := Assess(tt.e, nil, tt.e.At); !reflect.DeepEqual(causesOnly(again), causesOnly(s)) {
					t.Fatalf("shuffled:\n%s\nbefore:\n%s", again.Text(), s.Text())
				}
			}
		})
	}
}

func causesOnly(s Situation) (out []string) {
	for _, c := range s.Causes {
		out = append(out, string(c.Kind)+" "+c.Subject+" "+c.Text)
	}
	return out
}

// The numbers of the sources' own alert: 200 failures, 140 with code 50003, 120 in rack
// A with a fifth of the traffic, a callee that went from 0.4 % to 6 %.
func TestSLO_T34_TheSameNumbersOnThePage(t *testing.T) {
	e := failing(200, facet(ByCode, "50003", 140, 140, 0), facet(ByRack, "A", 120, 200, 0), facet(ByRack, "B", 80, 800, 0), facet(ByKind, "business_code", 200, 200, 0))
	e.Dependencies = []Dependency{{Service: "points", Hits: 60, Total: 1000, WasHits: 40, WasTotal: 10000, Kinds: []Facet{facet(ByKind, errorsKind, 60, 60, 0)}}}
	text := Assess(e, nil, e.At)
	all := strings.ReplaceAll(text.Text(), "\u202f", " ")
	for _, want := range []string{"Error code 50003: 70 %", "Rack A has 60 % of the failed tries with 20 % of the traffic (lift 3.0)", "points, which it calls, answers with errors: 6 % of the calls to it fail, 0.4 % before"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is missing in\n%s", want, all)
		}
	}
}

func FuzzAssess(f *testing.F) {
	seed, _ := json.Marshal(failing(90, instances(0, 88, 1, 0, 1, 0)...))
	f.Add(seed)
	f.Add([]byte(`{"Minutes":[{"At":"2026-03-10T12:00:00Z","FirstTryBad":9,"Exchanges":9,"Good":9}],"Seconds":[{"At":"9999-03-10T12:00:00Z","Failures":3}]}`))
	f.Add([]byte(`{"Minutes":[{"At":"2026-03-10T12:00:00Z","Bad":9223372036854775807,"Exchanges":-1}],"Facets":[{"Dimension":"rack","Hits":-5,"Total":3}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var e Evidence
		if json.Unmarshal(data, &e) != nil {
			return
		}
		s := Assess(e, nil, noon)
		for i, c := range s.Causes {
			if c.Rank != i+1 || i > 0 && c.Score > s.Causes[i-1].Score || c.ExplainedPPM < 0 || c.ExplainedPPM > million {
				t.Fatalf("cause %d is %+v", i, c)
			}
		}
		if _, err := json.Marshal(s); err != nil || s.Text() == "" || s.Markdown() == "" {
			t.Fatal(err)
		}
	})
}

func FuzzDiff(f *testing.F) {
	f.Add(plainDoc, shortDoc)
	f.Add(`{"routes":[{"service":"order","split":[{"upstream":"a"},3]}]}`, `{"upstreams":[{"name":"a"}]}`)
	f.Fuzz(func(t *testing.T, before, after string) {
		if same, ok := Diff(before, before, "order"); ok && len(same) > 0 {
			t.Fatalf("one document differs from itself: %q", same)
		}
		a, okA := Diff(before, after, "order")
		b, okB := Diff(after, before, "order")
		if okA != okB || len(a) != len(b) {
			t.Fatalf("%q one way, %q the other", a, b)
		}
	})
}
