package main

import (
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/gateway/config"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/scenarios"
)

var (
	weakAll  = flag.Bool("weaknesses", false, "drill every kind of planted weakness and run the whole library, not a part of them")
	weakSeed = flag.Uint64("weakness-seed", 0, "seed of the generated shops; 0: a new one")
)

// weaknessSeed is printed with every failure: the same one makes the same shops.
func weaknessSeed() uint64 {
	if *weakSeed != 0 {
		return *weakSeed
	}
	return uint64(time.Now().UnixNano())
}

// library reads the drills of scenarios/.
func library(t testing.TB) map[string]scenario.Scenario {
	t.Helper()
	names, err := fs.Glob(scenarios.Files, "*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var files []conf.File
	for _, name := range names {
		data, err := scenarios.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, conf.File{Name: name, Data: data})
	}
	set, _, err := scenario.Parse(files...)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]scenario.Scenario{}
	for _, s := range set.Scenarios {
		out[s.ID] = s
	}
	return out
}

// named is one name of a weakness and where it was found.
type named struct{ code, by, text string }

// look asks all that can be asked before a drill: the validator, and what preflight
// says of the whole library against the shop's traffic.
func (s *weakShop) look(t testing.TB, lib map[string]scenario.Scenario) (out []named) {
	t.Helper()
	files := []conf.File{s.file()}
	r := check(files)
	addWeaknesses(&r, files)
	for _, m := range r.Findings {
		if !m.IsWarning {
			t.Errorf("shop %d (%s, %s) is no configuration: %v", s.n, s.kind, s.where, m)
		}
		out = append(out, named{m.Code, byDocuments, m.Error()})
	}
	var log conf.Log
	cfg := config.Parse(files, &log)
	for _, id := range slices.Sorted(maps.Keys(lib)) {
		sc, ok := s.meant(lib[id])
		if !ok {
			continue
		}
		for _, w := range sc.Preflight(s.facts(cfg, sc)) {
			if w.Refuse && ofTheShop(w.Code) {
				out = append(out, named{w.Code, byPreflight, id + ": " + w.Text})
			}
		}
	}
	return out
}

// ofTheShop reports whether an objection is about what would be drilled; others
// speak of the drill: too short, too few hits, too costly.
func ofTheShop(code string) bool {
	return slices.Contains([]string{scenario.CannotTrip, scenario.SlowBlind, scenario.NoFallback, scenario.Exempt, scenario.NoOwner, scenario.NoRoute, scenario.NoTarget}, code)
}

// meant is a drill of the library against this shop's services.
func (s *weakShop) meant(sc scenario.Scenario) (scenario.Scenario, bool) {
	if !slices.Contains(s.services(), sc.Target.Service) || sc.Sample.PPM == 0 {
		return sc, false
	}
	sc.Accept = nil // what an author accepts is not thereby sound
	sc.Target.Service = s.svc(sc.Target.Service)
	sc.Target.Routes = slices.Clone(sc.Target.Routes)
	for i, r := range sc.Target.Routes {
		sc.Target.Routes[i] = s.svc(r)
	}
	for _, list := range []*[]scenario.Assertion{&sc.Steady, &sc.During, &sc.After} {
		*list = slices.Clone(*list)
		for i, a := range *list {
			if a.Service != "" {
				(*list)[i].Service = s.svc(a.Service)
			}
			if a.While != "" {
				(*list)[i].While = s.svc(a.While)
			}
		}
	}
	return sc, true
}

var (
	drilledRoutes   = regexp.MustCompile(`[\[ ](?:points|inventory|order|coupon|payment)-[a-z]+[,\]]`)
	drilledServices = regexp.MustCompile(`(service: |sli: |amplification: |retries: |repeats: |breaker: |flaps: |burn_rate: |breaker\()(order|points|inventory|coupon|payment|catalog)\b`)
)

// renamed writes the services and routes of a drill as they are called here.
func (s *weakShop) renamed(text string) string {
	text = drilledRoutes.ReplaceAllStringFunc(text, func(m string) string { return m[:1] + s.svc(m[1:len(m)-1]) + m[len(m)-1:] })
	return drilledServices.ReplaceAllString(text, fmt.Sprintf("${1}s%d-${2}", s.n))
}

// facts are what control would know of a drill's target: the documents, and traffic
// of ten minutes.
func (s *weakShop) facts(cfg *config.Config, sc scenario.Scenario) scenario.Facts {
	f := scenario.Facts{TargetPPB: map[string]int64{}, Traffic: map[string]scenario.Traffic{}, Prod: true, Readied: true, Alerted: true}
	factsOf(cfg, sc.Target, &f)
	for _, v := range cfg.Services {
		if v.Name == sc.Target.Service {
			f.Owner = v.Owner
		}
	}
	for _, name := range s.services() {
		f.TargetPPB[s.svc(name)] = 990_000_000
		n := s.rps[name] * 600
		f.Traffic[s.svc(name)] = scenario.Traffic{Span: 10 * time.Minute, Requests: n, Matched: n}
	}
	return f
}

// plantedShops are n shops of each kind, and sound ones after them.
func plantedShops(seed uint64, each, sound int) (out []*weakShop, kinds []plantedKind) {
	n := 1
	for range each {
		for _, w := range weaknesses() {
			s := soundShop(seed, n, nil)
			s.kind = w.kind
			s.where = w.plant(s)
			out, kinds = append(out, s), append(kinds, w)
			n++
		}
	}
	for range sound {
		out = append(out, soundShop(seed, n, nil))
		n++
	}
	return out, kinds
}

// score is how often a kind was planted, and found by its name.
type score struct {
	w              plantedKind
	planted, found int
	also           []string
}

func printScores(t testing.TB, scores []score) (planted, found int) {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%-55s %-18s %-10s %s\n", "KIND", "NAME", "FOUND BY", "FOUND")
	by := map[string][2]int{}
	for _, s := range scores {
		fmt.Fprintf(&b, "%-55s %-18s %-10s %d of %d %s\n", s.w.kind, s.w.code, s.w.by, s.found, s.planted, strings.Join(s.also, " "))
		planted, found = planted+s.planted, found+s.found
		by[s.w.by] = [2]int{by[s.w.by][0] + s.found, by[s.w.by][1] + s.planted}
	}
	for _, k := range []string{byDocuments, byPreflight, byDrill} {
		fmt.Fprintf(&b, "by %s: %d of %d\n", k, by[k][0], by[k][1])
	}
	t.Logf("\n%s", b.String())
	return planted, found
}

// Every weakness that shows before a drill is found by its name, and nothing at all
// is found in what is sound.
func TestPlantedWeaknesses(t *testing.T) {
	if plain(t) {
		return
	}
	seed := weaknessSeed()
	t.Logf("seed %d", seed)
	lib := library(t)
	each, sound := 1, 10
	if *weakAll {
		each, sound = 4, 40
	}
	shops, kinds := plantedShops(seed, each, sound)
	var scores []score
	for i, s := range shops {
		found := s.look(t, lib)
		if s.kind == "" {
			for _, f := range found {
				t.Errorf("seed %d: sound shop %d: %s by %s: %s", seed, s.n, f.code, f.by, f.text)
			}
			continue
		}
		w := kinds[i]
		at := slices.IndexFunc(scores, func(x score) bool { return x.w.kind == w.kind })
		if at < 0 {
			at = len(scores)
			scores = append(scores, score{w: w})
		}
		if w.by == byDrill {
			for _, f := range found { // nobody may guess what only a drill can know
				t.Errorf("seed %d: shop %d (%s at %s): %s by %s: %s", seed, s.n, w.kind, s.where, f.code, f.by, f.text)
			}
			continue
		}
		scores[at].planted++
		if slices.ContainsFunc(found, func(f named) bool { return f.code == w.code && f.by == w.by }) {
			scores[at].found++
		} else {
			t.Errorf("seed %d: shop %d (%s at %s) was not found as %s: %v", seed, s.n, w.kind, s.where, w.code, found)
		}
		for _, f := range found {
			if f.code != w.code && !slices.Contains(scores[at].also, "+"+f.code) {
				scores[at].also = append(scores[at].also, "+"+f.code)
			}
		}
	}
	printScores(t, scores)
}

// Every name that finders give, and what to do about it, is on the page, and its
// commands are those of the program.
func TestWeaknessesPage(t *testing.T) {
	text, err := os.ReadFile("../../docs/weaknesses.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	var codes []string
	for _, name := range []string{"../../gateway/explain/weakness.go", "../../injector/scenario/weakness.go", "validate_weakness.go"} {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^\t\w+ += "([A-Za-z_-]+[A-Za-z])" +//`).FindAllStringSubmatch(string(source), -1) {
			codes = append(codes, m[1])
		}
	}
	for _, w := range weaknesses() {
		codes = append(codes, w.code)
	}
	if len(codes) < 60 {
		t.Errorf("only %d codes were read", len(codes))
	}
	for _, code := range codes {
		if !strings.Contains(page, "`"+code+"`") {
			t.Errorf("the page does not tell of %s", code)
		}
	}
	for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
		for line := range strings.Lines(m[1]) {
			words := strings.Fields(line)
			cmd, rest, err := newRoot(streams{}).Find(words[1:])
			if err != nil || words[0] != "breakwater" {
				t.Errorf("%s: %v", line, err)
				continue
			}
			if err := cmd.ParseFlags(rest); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
	}
}

// What validate and doctor say of a document that is good and weak.
func TestValidateWeaknesses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "gw.yaml")
	write(t, file, strings.Replace(ailing, "UPSTREAM", "127.0.0.1:1", 1))
	r := verb(t, "", "validate", file)
	r.want(t, exitOK)
	if strings.Contains(r.out, "W-NO-TOTAL") {
		t.Errorf("weaknesses are told unasked:\n%s", r.out)
	}
	r = verb(t, "", "validate", "--weaknesses", "--strict", file)
	r.want(t, exitHold)
	if !strings.Contains(r.out, "routes") && !strings.Contains(r.out, "timeout: is not given") || !strings.Contains(r.out, "W-NO-TOTAL") || !strings.Contains(r.out, "W-NO-LIMIT") {
		t.Errorf("got\n%s", r.out)
	}
	found := doctored(t, exitNo, "--config", file, "--admin", "127.0.0.1:1", "--control", "http://127.0.0.1:1", "--state-dir", t.TempDir())
	if f := found["weakness"]; f.State != "warn" || !strings.Contains(f.Do, "validate --weaknesses") {
		t.Errorf("got %+v", f)
	}
}
