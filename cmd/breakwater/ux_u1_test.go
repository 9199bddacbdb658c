package main

import (
	"flag"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

var (
	u1Seed    = flag.Uint64("u1.seed", 0, "seed of TestUX_U1; 0: a new one")
	u1Ledgers = flag.Int("u1.ledgers", 5, "random ledgers of TestUX_U1")
	u1First   = flag.Uint64("u1.first", 0, "number of the first ledger of TestUX_U1")
)

// TestUX_U1: whatever gateways reported and whatever was promised, a number is the
// same on pages, in their files, over the API, from the CLI, in the gate's answer and
// in metrics: to the last digit, and by an arithmetic of the test's own.
func TestUX_U1(t *testing.T) {
	if plain(t) {
		return
	}
	seed := *u1Seed
	if seed == 0 {
		seed = rand.Uint64()
	}
	d := newDesk(t, pgtest.DSN(t), controlOptions{openLoopback: true})
	compared := 0
	for i := range *u1Ledgers {
		n := *u1First + uint64(i)
		name := fmt.Sprintf("l%d", n)
		now := time.Now().UTC()
		l := drawLedger(rand.New(rand.NewPCG(seed, n)), name, now)
		l.write(t, d.db, d.c.store)
		if err := d.c.slo.Tick(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		s := &surfaces{desk: d, b: d.browser(), ledger: l}
		s.compare()
		compared += s.compared
		if t.Failed() {
			t.Fatalf("again by -run TestUX_U1 -u1.seed %d -u1.first %d -u1.ledgers 1", seed, n)
		}
	}
	t.Logf("seed %d: %d ledgers, %d figures compared", seed, *u1Ledgers, compared)
	if compared < 100**u1Ledgers {
		t.Errorf("only %d figures were compared", compared)
	}
}

// promise names one objective in one environment.
type promise struct{ id, env string }

// surfaces is everywhere a figure is shown.
type surfaces struct {
	*desk
	b        *browser
	ledger   *randomLedger
	want     map[promise]said
	spec     map[string]slo.Objective
	compared int
}

func (s *surfaces) compare() {
	s.want, s.spec = map[promise]said{}, map[string]slo.Objective{}
	for _, o := range s.ledger.objectives {
		s.spec[o.ID] = o
	}
	list := exact(s.t, s.get("/api/v1/slos")).(map[string]any)["slos"].([]any)
	for _, x := range list {
		o := x.(map[string]any)
		s.want[promise{text(o["id"]), text(o["env"])}] = ofAPI(o)
	}
	if len(s.want) == 0 {
		s.t.Fatal("nothing is evaluated")
	}
	s.programs()
	s.metricsToo()
	s.lists()
	for p := range s.want {
		s.page(p)
	}
	s.reckoned()
	for service := range s.ledger.envs {
		s.gates(service)
	}
}

func (s *surfaces) get(path string) string {
	s.t.Helper()
	p := s.b.get(path)
	if p.status != 200 {
		s.t.Fatalf("GET %s: %d to %q %.300s", path, p.status, p.to(), p.body)
	}
	return p.body
}

// same holds what a surface says of p against the API.
func (s *surfaces) same(where string, p promise, got said) {
	s.t.Helper()
	s.compared += len(got)
	if wrong := got.differs(s.want[p]); wrong != "" {
		s.t.Errorf("%s of %s in %q (%s): %s", where, p.id, p.env, s.spec[p.id].Promise(), wrong)
	}
	for name := range got {
		if _, ok := s.want[p][name]; !ok {
			s.t.Errorf("%s: the API does not tell %s", where, name)
		}
	}
}

// verbs are other ways to the API, and the CLI.
func (s *surfaces) programs() {
	ls := verb(s.t, "", "slo", "ls", "-o", "json", "--control", s.url)
	for _, x := range exact(s.t, ls.out).(map[string]any)["slos"].([]any) {
		o := x.(map[string]any)
		s.same("slo ls -o json", promise{text(o["id"]), text(o["env"])}, ofAPI(o))
	}
	rows := regexp.MustCompile(` {2,}`)
	table := verb(s.t, "", "slo", "ls", "--control", s.url).out
	for _, line := range strings.Split(strings.TrimSpace(table), "\n")[1:] {
		cells := rows.Split(line, -1)
		p := promise{cells[0], strings.TrimPrefix(cells[2], "-")}
		s.same("slo ls", p, said{"state": cells[4], "left": cells[5]})
	}
	for p, want := range s.want {
		q := "?env=" + p.env
		s.same("GET /api/v1/slos/{id}", p, ofAPI(exact(s.t, s.get("/api/v1/slos/"+p.id+q)).(map[string]any)))
		budget := exact(s.t, s.get("/api/v1/slos/"+p.id+"/budget"+q)).(map[string]any)["budget"].(map[string]any)
		got := said{}
		for _, name := range []string{"good_events", "bad_events", "valid_events", "allowed_events", "remaining_events", "spent_ppm", "remaining_ppm", "no_data"} {
			got[name] = text(budget[name])
		}
		s.same("GET /api/v1/slos/{id}/budget", p, got)
		if p.env == "" {
			continue
		}
		show := verb(s.t, "", "slo", "show", p.id, "--env", p.env, "-o", "json", "--control", s.url)
		s.same("slo show -o json", p, ofAPI(exact(s.t, show.out).(map[string]any)))
		out := verb(s.t, "", "slo", "show", p.id, "--env", p.env, "--control", s.url).out
		if head, _, _ := strings.Cut(out, "\n"); !strings.HasSuffix(head, ": "+want["state"]+", "+want["left"]+" left") {
			s.t.Errorf("slo show %s begins %q, want %s and %s left", p.id, head, want["state"], want["left"])
		}
	}
}

var gauge = regexp.MustCompile(`(?m)^breakwater_slo_(\w+)\{([^}]*)\} (\S+)$`)

// metricsToo: a metric is a float, so it is held against the integer it was made of.
func (s *surfaces) metricsToo() {
	got := map[promise]said{}
	for _, m := range gauge.FindAllStringSubmatch(s.get("/metrics"), -1) {
		labels := map[string]string{}
		for _, pair := range strings.Split(m[2], ",") {
			name, value, _ := strings.Cut(pair, "=")
			labels[name] = strings.Trim(value, `"`)
		}
		p := promise{labels["slo"], labels["env"]}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			s.t.Fatal(err)
		}
		whole := func(unit float64) string {
			n := math.Round(v * unit)
			if n/unit != v {
				s.t.Errorf("%s is no whole number of parts: %v", m[0], v)
			}
			return strconv.FormatFloat(n, 'f', 0, 64)
		}
		if got[p] == nil {
			got[p] = said{}
		}
		switch m[1] {
		case "budget_remaining_ratio":
			got[p]["remaining_ppm"] = whole(1e6)
		case "coverage_ratio":
			got[p]["coverage_ppm"] = whole(1e6)
		case "burn_rate":
			got[p]["burn_milli "+labels["window"]] = whole(1e3)
		case "state":
			if v == 1 {
				got[p]["state"] = labels["state"]
			}
		}
	}
	for p, want := range s.want {
		m := got[p]
		if m == nil {
			s.t.Errorf("no metric of %s in %q", p.id, p.env)
			continue
		}
		for name, value := range want { // what was not measured has no sample
			if _, there := m[name]; !there && (name == "remaining_ppm" || strings.HasPrefix(name, "burn_milli ")) {
				m[name] = ""
				_ = value
			}
		}
		s.same("/metrics", p, m)
	}
}

// stateShown is a state as a chip: where nothing was counted and nothing is held,
// there is no data.
func stateShown(want said) string {
	if want["no_data"] == "true" && (want["state"] == "normal" || want["state"] == "unknown") {
		return "no data"
	}
	return want["state"]
}

// reckoned weighs once more, from the rows that were drawn, what is plain enough.
func (s *surfaces) reckoned() {
	for p, want := range s.want {
		o := s.spec[p.id]
		if o.Terms != nil && !o.Terms.Informational {
			continue
		}
		open := s.ledger.until.Add(time.Minute - 1).Truncate(time.Minute)
		sum := func(window time.Duration) (good, bad int64) {
			for _, r := range s.ledger.rows {
				if r.service == o.Service && r.env == p.env && !r.at.Before(open.Add(-window)) && r.at.Before(open) {
					good, bad = good+r.good, bad+r.bad
				}
			}
			return good, bad
		}
		good, bad := sum(o.Window)
		got := said{"good_events": fmt.Sprint(good), "bad_events": fmt.Sprint(bad), "valid_events": fmt.Sprint(good + bad), "spent_ppm": "", "remaining_ppm": ""}
		room := big.NewInt(1_000_000_000 - o.TargetPPB)
		if valid := good + bad; valid > 0 {
			allowed := new(big.Int).Mul(room, big.NewInt(valid))
			spent := new(big.Rat).SetFrac(new(big.Int).Mul(big.NewInt(bad), big.NewInt(1_000_000_000)), allowed)
			spent.Mul(spent, big.NewRat(1_000_000, 1))
			up := new(big.Int).Add(spent.Num(), new(big.Int).Sub(spent.Denom(), big.NewInt(1)))
			up.Quo(up, spent.Denom())
			allowed.Quo(allowed, big.NewInt(1_000_000_000))
			got["spent_ppm"], got["remaining_ppm"] = up.String(), new(big.Int).Sub(big.NewInt(1_000_000), up).String()
			got["allowed_events"], got["remaining_events"] = allowed.String(), new(big.Int).Sub(allowed, big.NewInt(bad)).String()
		}
		for _, w := range slo.BurnWindows() {
			good, bad := sum(w)
			name := slo.Window(w)
			got["burn_bad "+name], got["burn_valid "+name] = fmt.Sprint(bad), fmt.Sprint(good+bad)
		}
		s.same("the rows as drawn", p, got)
		_ = want
	}
}

// query is an address with its parameters.
func query(path string, pairs ...string) string {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return path + "?" + q.Encode()
}
