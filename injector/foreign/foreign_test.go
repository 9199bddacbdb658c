package foreign

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

func file(text string) conf.File { return conf.File{Name: "theirs", Data: []byte(text)} }

// read parses what was imported.
func read(t *testing.T, in Imported) []scenario.Scenario {
	t.Helper()
	var out []scenario.Scenario
	for _, text := range in.Texts {
		set, _, err := scenario.Parse(conf.File{Name: "ours", Data: []byte(text)})
		if err != nil || len(set.Scenarios) != 1 {
			t.Fatalf("%v in\n%s", err, text)
		}
		out = append(out, set.Scenarios[0])
	}
	return out
}

func told(in Imported) string {
	var b strings.Builder
	for _, l := range in.Losses {
		b.WriteString(l.String() + "\n")
	}
	return b.String()
}

func TestToxics(t *testing.T) {
	for _, tt := range []struct {
		toxic string
		want  []fault.Fault // without ids
		loss  string
	}{
		{`{"type":"latency","stream":"downstream","toxicity":0.25,"attributes":{"latency":500,"jitter":100}}`,
			[]fault.Fault{{Kind: fault.Latency, Side: fault.ResponseSide, Delay: &fault.Delay{Dist: "uniform", MS: 500, JitterMS: 100}}}, "waits once"},
		{`{"type":"latency","stream":"upstream","attributes":{"latency":500}}`, []fault.Fault{{Kind: fault.Latency, Side: fault.RequestSide, LatencyMS: 500}}, "waits once"},
		{`{"type":"latency","attributes":{"latency":100,"jitter":300}}`,
			[]fault.Fault{{Kind: fault.Latency, Side: fault.ResponseSide, Delay: &fault.Delay{Dist: "uniform", MS: 100, JitterMS: 100}}}, "jitter: changed: 300 ms is cut"},
		{`{"type":"bandwidth","attributes":{"rate":10}}`, []fault.Fault{{Kind: fault.Drip, BytesPerSecond: 10_000}}, "rate is that of each answer"},
		{`{"type":"bandwidth","attributes":{"rate":0}}`, []fault.Fault{{Kind: fault.Blackhole}}, "becomes a blackhole"},
		{`{"type":"bandwidth","stream":"upstream","attributes":{"rate":10}}`, nil, "not slowed on their way up"},
		{`{"type":"slicer","attributes":{"average_size":100,"delay":50000}}`, []fault.Fault{{Kind: fault.Drip, BytesPerSecond: 2000}}, "become a drip of 2000 B/s"},
		{`{"type":"slicer","attributes":{"average_size":100}}`, nil, "pieces without a pause"},
		{`{"type":"slow_close","attributes":{"delay":1000}}`, nil, "nothing here waits for a close"},
		{`{"type":"timeout","attributes":{"timeout":0}}`, []fault.Fault{{Kind: fault.Blackhole}}, ""},
		{`{"type":"timeout","attributes":{"timeout":700}}`, []fault.Fault{{Kind: fault.Latency, LatencyMS: 700}, {Kind: fault.Drop, Phase: fault.BeforeUpstream}}, "its connection closes"},
		{`{"type":"reset_peer","attributes":{"timeout":0}}`, []fault.Fault{{Kind: fault.Reset, Phase: fault.BeforeUpstream}}, "not asked"},
		{`{"type":"reset_peer","attributes":{"timeout":20}}`, []fault.Fault{{Kind: fault.Latency, LatencyMS: 20}, {Kind: fault.Reset, Phase: fault.BeforeUpstream}}, ""},
		{`{"type":"limit_data","attributes":{"bytes":4096}}`, []fault.Fault{{Kind: fault.Truncate, Bytes: 4096}}, "body, not of a connection"},
		{`{"type":"limit_data","stream":"upstream","attributes":{"bytes":4096}}`, nil, "not cut on their way up"},
		{`{"type":"noop","attributes":{}}`, nil, `"noop" is not known`},
		{`{"type":"latency","toxicity":7,"attributes":{"latency":1}}`, nil, "toxicity must be 0 to 1"},
		{`{"type":"latency","attributes":{"latency":-1}}`, nil, "must be a whole number"},
		{`{"type":"latency","attributes":{"latency":900000}}`, []fault.Fault{{Kind: fault.Latency, Side: fault.ResponseSide, LatencyMS: 300_000}}, "cut to 300000 ms"},
	} {
		t.Run(tt.toxic, func(t *testing.T) {
			in, err := Toxiproxy(file(`[{"name":"redis","listen":"127.0.0.1:1","upstream":"a:2","toxics":[`+tt.toxic+`]}]`), Options{})
			if (err != nil) != (len(tt.want) == 0) {
				t.Fatalf("%v, %+v", err, in)
			}
			if !strings.Contains(told(in), tt.loss) || !strings.Contains(told(in), "[0].listen: not carried") {
				t.Errorf("told %q, want %q", told(in), tt.loss)
			}
			if err != nil {
				return
			}
			s := read(t, in)[0]
			if s.Target.Service != "redis" || s.Sample.Key != "connection" || len(s.Faults) != len(tt.want) {
				t.Fatalf("%+v", s)
			}
			if strings.Contains(tt.toxic, "0.25") && s.Sample.PPM != 250_000 {
				t.Errorf("share %d", s.Sample.PPM)
			}
			for i, want := range tt.want {
				got := s.Faults[i].Rule
				want.ID = got.ID
				a, _ := json.Marshal(got)
				b, _ := json.Marshal(want)
				if string(a) != string(b) {
					t.Errorf("fault %s, want %s", a, b)
				}
			}
		})
	}
}

func TestToxiproxyWhole(t *testing.T) {
	in, err := Toxiproxy(file(`{"Redis_Main":{"name":"Redis Main","enabled":false,"toxics":[]},
		"mysql":{"name":"mysql","enabled":true,"owner":"me","toxics":[
			{"name":"a","type":"latency","toxicity":1,"attributes":{"latency":10}},
			{"name":"b","type":"limit_data","toxicity":0.5,"attributes":{"bytes":10}}]}}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := read(t, in)
	if len(all) != 3 || all[0].Target.Service != "redis-main" || all[0].Faults[0].Rule.Kind != fault.Refuse || all[2].Sample.PPM != 500_000 {
		t.Errorf("%d scenarios\n%s", len(all), strings.Join(in.Texts, "---\n"))
	}
	for _, want := range []string{`proxy "Redis Main" is taken for the service redis-main`, "mysql.owner: not carried", "99% of the requests of mysql succeed"} {
		if !strings.Contains(told(in), want) {
			t.Errorf("%q is not told in\n%s", want, told(in))
		}
	}
	for _, bad := range []string{"", "7", "[1]", "[]", "{}", `[{"toxics":[{"type":"latency"}]}]`, "a: &x [*x]"} {
		if in, err := Toxiproxy(file(bad), Options{}); err == nil {
			t.Errorf("%q became %+v", bad, in)
		}
	}
}

const theirs = `{
  "version": "1.0.0", "title": "Does checkout survive a slow Redis?",
  "description": "We believe so.\u0085stop: []\nkind: Other", "tags": ["cache"], "contributions": {"availability": "high"},
  "configuration": {"host": "x"}, "secrets": {"s": {}},
  "controls": [{"name": "c", "provider": {"type": "python", "module": "evil"}}],
  "runtime": {"hypothesis": {"strategy": "continuously"}, "rollbacks": {"strategy": "always"}},
  "steady-state-hypothesis": {"title": "all well", "probes": [
    {"type": "probe", "name": "checkout answers", "tolerance": 200, "provider": {"type": "http", "url": "http://checkout.shop.svc:8080/health"}},
    {"type": "probe", "name": "in range", "tolerance": [200, 204], "provider": {"type": "http", "url": "http://checkout/"}},
    {"type": "probe", "name": "choice", "tolerance": [200, 201, 500], "provider": {"type": "http", "url": "http://cart/"}},
    {"type": "probe", "name": "by regex", "tolerance": {"type": "regex", "pattern": "ok"}, "provider": {"type": "http", "url": "http://checkout/"}},
    {"type": "probe", "name": "by code", "tolerance": true, "provider": {"type": "python", "module": "os", "func": "system"}}]},
  "method": [
    {"type": "action", "name": "slow", "pauses": {"after": 90}, "provider": {"type": "python", "module": "chaostoxi.toxic.actions", "func": "create_latency_toxic",
      "arguments": {"for_proxy": "redis", "toxic_name": "l", "latency": 5000, "jitter": 0}}},
    {"type": "action", "name": "delay", "pauses": {"before": 30}, "provider": {"type": "python", "module": "chaosistio.fault.actions", "func": "add_delay_fault",
      "arguments": {"virtual_service_name": "orders", "fixed_delay": "3s", "percentage": 12.5, "routes": []}}},
    {"type": "action", "name": "abort", "provider": {"type": "python", "module": "chaosistio.fault.actions", "func": "add_abort_fault",
      "arguments": {"virtual_service_name": "orders", "http_status": 503, "percentage": 12.5}}},
    {"type": "action", "name": "undo", "provider": {"type": "python", "module": "chaosistio.fault.actions", "func": "unset_fault", "arguments": {"virtual_service_name": "orders"}}},
    {"type": "action", "name": "rm", "provider": {"type": "process", "path": "rm", "arguments": "-rf /"}},
    {"type": "action", "name": "kill", "provider": {"type": "python", "module": "chaosk8s.pod.actions", "func": "terminate_pods"}}],
  "rollbacks": [{"type": "action", "name": "undo", "provider": {"type": "process", "path": "x"}}]
}`

func TestChaosToolkit(t *testing.T) {
	in, err := ChaosToolkit(file(theirs), Options{})
	if err != nil {
		t.Fatal(err)
	}
	all := read(t, in)
	if len(all) != 2 {
		t.Fatalf("%d scenarios, want one for each target and share\n%s", len(all), strings.Join(in.Texts, "---\n"))
	}
	redis, orders := all[0], all[1]
	if redis.Target.Service != "redis" || redis.Faults[0].Rule.LatencyMS != 5000 || redis.Sample.Key != "connection" || redis.Phases.Inject != 2*time.Minute {
		t.Errorf("%+v", redis)
	}
	if orders.Sample.PPM != 125_000 || len(orders.Faults) != 2 || orders.Faults[1].Rule.Status != 503 || orders.Sample.Key != "attempt" {
		t.Errorf("%+v", orders)
	}
	if redis.Title != "Does checkout survive a slow Redis?" || strings.Join(redis.Tags, " ") != "cache availability:high" {
		t.Errorf("title %q, tags %v", redis.Title, redis.Tags)
	}
	// Continuously: in all three phases.
	if len(redis.Steady) != 3 || len(redis.During) != 3 || len(redis.After) != 3 || len(redis.Stop) != 2 {
		t.Fatalf("hypothesis %+v %+v %+v", redis.Steady, redis.During, redis.After)
	}
	for i, want := range []string{"http://checkout.shop.svc:8080/health 200", "http://checkout/ 200-204", "http://cart/ 200 or 201 or 500"} {
		if p := redis.During[i].Probe; p == nil || p.URL+" "+p.Expects() != want {
			t.Errorf("probe %d is %+v, want %s", i, p, want)
		}
	}
	for _, want := range []string{
		"probes[0]: changed: control asks http://checkout.shop.svc:8080/health when each phase ends: allow it there by --probe-host checkout.shop.svc:8080",
		"probes[3].tolerance: not carried: a tolerance by regex", "probes[4]: not carried: a probe by python is code of others, and never run",
		"method[3]: not carried: unset_fault undoes", "method[4]: not carried: an action by process is never run", "method[5]: not carried: chaosk8s.pod.actions.terminate_pods",
		"rollbacks[0]: not carried", "controls[0]: not carried", "configuration: not carried", "secrets: not carried", "runtime.rollbacks.strategy: not carried",
		"method[1].routes: changed",
	} {
		if !strings.Contains(told(in), want) {
			t.Errorf("%q is not told in\n%s", want, told(in))
		}
	}
}

func TestChaosToolkitStrategies(t *testing.T) {
	for strategy, want := range map[string][3]int{"": {3, 0, 3}, "default": {3, 0, 3}, "before-method-only": {3, 0, 0}, "after-method-only": {0, 0, 3},
		"during-method-only": {0, 3, 0}, "continuously": {3, 3, 3}, "sometimes": {3, 0, 3}} {
		in, err := ChaosToolkit(file(strings.Replace(theirs, "continuously", strategy, 1)), Options{Service: "shop"})
		if err != nil {
			t.Fatal(err)
		}
		s := read(t, in)[0]
		if got := [3]int{len(s.Steady), len(s.During), len(s.After)}; got != want || s.Target.Service != "shop" {
			t.Errorf("%q: %v of %s, want %v of shop", strategy, got, s.Target.Service, want)
		}
	}
}

// Each kind of probe and tolerance that there is becomes a probe, or a line of what is
// not carried.
func TestChaosToolkitProbes(t *testing.T) {
	for _, tt := range []struct{ probe, want, loss string }{
		{`"tolerance": 200, "provider": {"type": "http", "url": "https://a:1/"}`, "https://a:1/ 200", "--probe-host a:1"},
		{`"tolerance": [200, 299], "provider": {"type": "http", "url": "http://a/"}`, "http://a/ 200-299", ""},
		{`"tolerance": [204], "provider": {"type": "http", "url": "http://a/", "method": "get"}`, "http://a/ 204", ""},
		{`"tolerance": {"type": "range", "target": "status", "range": [200, 204]}, "provider": {"type": "http", "url": "http://a/"}`, "http://a/ 200-204", ""},
		{`"tolerance": {"type": "regex", "target": "body", "pattern": "\\bup\\b"}, "provider": {"type": "http", "url": "http://a/"}`, `http://a/ 100-599 with \bup\b`, ""},
		{`"tolerance": {"type": "regex", "target": "body", "pattern": "(?!x)"}, "provider": {"type": "http", "url": "http://a/"}`, "", "its pattern is none of RE2"},
		{`"tolerance": {"type": "jsonpath", "path": "$.up", "target": "body"}, "provider": {"type": "http", "url": "http://a/"}`, "", "a tolerance by jsonpath of body"},
		{`"tolerance": {"type": "probe", "provider": {}}, "provider": {"type": "http", "url": "http://a/"}`, "", "a tolerance by probe of nothing"},
		{`"tolerance": [299, 200], "provider": {"type": "http", "url": "http://a/"}`, "", "two that are a range"},
		{`"tolerance": [], "provider": {"type": "http", "url": "http://a/"}`, "", "must be a status"},
		{`"tolerance": true, "provider": {"type": "http", "url": "http://a/"}`, "", "must be a status"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "http://a/", "method": "POST"}`, "", "a POST may change"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "http://${host}/"}`, "", "made of the configuration"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "ftp://a/"}`, "", "must be http or https"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "http://u:p@a/"}`, "", "without a password"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "http://a/", "headers": {"X": "y"}, "timeout": 30}`, "http://a/ 200", "provider.headers: not carried"},
		{`"tolerance": 200, "provider": {"type": "http", "url": "http://a/", "timeout": 30}`, "http://a/ 200", "provider.timeout: changed: 30 is not"},
		{`"tolerance": 200, "provider": {"type": "process", "path": "rm"}`, "", "code of others, and never run"},
	} {
		in, err := ChaosToolkit(file(`{"title": "t", "description": "d", "steady-state-hypothesis": {"title": "h", "probes": [{"type": "probe", "name": "p", `+tt.probe+`}]},
			"method": [{"type": "action", "name": "abort", "provider": {"type": "python", "module": "chaosistio.fault.actions", "func": "add_abort_fault",
			"arguments": {"virtual_service_name": "orders", "http_status": 503, "percentage": 50}}}]}`), Options{})
		if err != nil {
			t.Errorf("%s: %v", tt.probe, err)
			continue
		}
		got := ""
		if p := read(t, in)[0].Probes(); len(p) > 0 {
			got = p[0].URL + " " + p[0].Expects()
		}
		if got != tt.want || !strings.Contains(told(in), tt.loss) {
			t.Errorf("%s: %q, want %q; told %q, want %q", tt.probe, got, tt.want, told(in), tt.loss)
		}
	}
}

func TestChaosToolkitYAMLAndMistakes(t *testing.T) {
	in, err := ChaosToolkit(file("title: t\ndescription: d\nmethod:\n- type: action\n  name: x\n  provider:\n    type: python\n    module: chaostoxi.toxic.actions\n    func: create_limiter_toxic\n    arguments: {for_proxy: db, toxic_name: l, bytes_limit: 100}\n"), Options{})
	if err != nil || read(t, in)[0].Faults[0].Rule.Bytes != 100 {
		t.Errorf("%v %+v", err, in)
	}
	for _, bad := range []string{"", "[]", "{}", "title: t\ndescription: d\n", "title: t\ndescription: d\nmethod: []\n", "title: ["} {
		if in, err := ChaosToolkit(file(bad), Options{}); err == nil {
			t.Errorf("%q became %+v", bad, in)
		}
	}
}

func TestJournal(t *testing.T) {
	at := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	r := Run{ID: "r-1", Scenario: "slow", Title: "Slow", Service: "points", State: "completed", Verdict: "failed", Why: "d1",
		StartedAt: at, EndedAt: at.Add(time.Minute), Attempts: 100, Injected: 30,
		Receipts: []Receipt{{Gateway: "gw", Fault: "lat", Hash: "h", ArmedAt: at, RemovedAt: at.Add(30 * time.Second)}},
		Assertions: []Assertion{{ID: "s1", Phase: "steady", Result: "pass"}, {ID: "d1", Phase: "during", Result: "fail", Seen: "9 %"},
			{ID: "a1", Phase: "after", Result: "no_data"}}}
	text, err := Journal(r, "1")
	if err != nil {
		t.Fatal(err)
	}
	var j struct {
		Status    string
		Deviated  bool
		Start     string
		Duration  float64
		Run       []struct{ Status string }
		Rollbacks []struct{ Status string }
		Steady    struct {
			Before struct {
				Met bool `json:"steady_state_met"`
			}
			After struct {
				Met    bool `json:"steady_state_met"`
				Probes []struct{ Status string }
			}
			During []struct {
				Met bool `json:"steady_state_met"`
			}
		} `json:"steady_states"`
	}
	if err := json.Unmarshal(text, &j); err != nil {
		t.Fatal(err)
	}
	if j.Status != "completed" || !j.Deviated || j.Start != "2026-03-03T10:00:00.000000" || j.Duration != 60 || len(j.Run) != 1 || j.Rollbacks[0].Status != "succeeded" {
		t.Errorf("%s", text)
	}
	if !j.Steady.Before.Met || j.Steady.During[0].Met || j.Steady.After.Met || j.Steady.After.Probes[0].Status != "failed" {
		t.Errorf("steady states %+v: no data is nothing that was met", j.Steady)
	}
	for _, tt := range [][4]string{{"aborted", "user", "inconclusive", "interrupted"}, {"aborted", "stop_condition", "failed", "failed"},
		{"engine_error", "refused", "inconclusive", "failed"}, {"skipped", "overlap", "not_evaluated", "aborted"}, {"completed", "", "passed", "completed"}} {
		r.State, r.Reason, r.Verdict = tt[0], tt[1], tt[2]
		if text, _ := Journal(r, "1"); !strings.Contains(string(text), `"status": "`+tt[3]+`"`) || strings.Contains(string(text), `"deviated": true`) != (tt[2] == "failed") {
			t.Errorf("%v gives\n%s", tt, text)
		}
	}
}

func TestExperimentIsOneOfTheirs(t *testing.T) {
	text, err := Experiment("slow-points", "Slow points", "points")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"title": "Slow points"`, `"method": []`, `"slow-points"`, `"--ci"`, `"tolerance": 0`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	if _, err := Experiment(" ", "", ""); err == nil {
		t.Error("an experiment of nothing was written")
	}
}

// Whatever is read, what comes out is a scenario with its brakes, or an error; and
// nothing of theirs gets out of its string.
func FuzzImport(f *testing.F) {
	f.Add(theirs, "")
	f.Add(`[{"name":"redis","toxics":[{"type":"latency","toxicity":0.3,"attributes":{"latency":5,"jitter":2}},{"type":"slicer","attributes":{"average_size":1,"delay":1}}]}]`, "shop")
	f.Add("title: \"a\\\"b\\n- c\"\ndescription: \"\\u2028stop: []\"\ntags: [\"x, y]\"]\nmethod: []\n", "x")
	f.Fuzz(func(t *testing.T, text, service string) {
		for _, read := range []func(conf.File, Options) (Imported, error){ChaosToolkit, Toxiproxy} {
			in, err := read(file(text), Options{Service: nameOf(service)})
			if err != nil {
				continue
			}
			for _, ours := range in.Texts {
				set, _, err := scenario.Parse(conf.File{Name: "ours", Data: []byte(ours)})
				if err != nil || len(set.Scenarios) != 1 || len(set.GameDays) != 0 || len(set.Scenarios[0].Stop) != 2 {
					t.Fatalf("%v in\n%s", err, ours)
				}
			}
		}
	})
}
