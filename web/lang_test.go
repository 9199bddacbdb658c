package web

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"breakwater/injector/readiness"
)

var wanting = flag.String("wanting", "", "print the entries a catalogue lacks whose origin contains this text, ready to paste; \"all\" prints every one")

// texts is every English text that a catalogue must hold: where it comes from, and
// whether it is a format.
type texts struct {
	from   map[string]string
	format map[string]bool
}

func (t *texts) add(key, from string, format bool) {
	key = keyOf(key)
	if !hasLetter(key) {
		return
	}
	if t.from[key] == "" || from < t.from[key] {
		t.from[key] = from
	}
	t.format[key] = t.format[key] || format
}

// worded are the fields whose literals a template shows through word.
var worded = map[string][]string{
	"Chip": {"2", "Text"}, "Link": {"Name", "Head"}, "Page": {"Title"}, "troubleView": {"Title", "Text"}, "Fact": {"Name"},
}

// closed are the words of other packages that come by as values. Each is looked up by
// word or of; what a package adds is missing here until somebody sees it.
var closed = map[string][]string{
	"a duration": {"unit|d", "unit|h", "unit|min", "unit|s", "unit|ms"},
	"a day":      {"Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"},
	"lists":      {"%s and %s"},
	"a level":    {"normal", "warn", "emergency", "frozen", "unknown"},
	"a table": {"answers", "burn rates", "calendar", "causes", "changes", "checklist", "decisions", "deliveries", "deploys", "documents", "failures", "findings", "freezes", "gateways", "measures", "quarters", "readiness", "requests", "revisions", "runs",
		"scenarios", "schedules", "services", "shares", "slos", "story", "tables", "timeline", "trend", "tries", "weeks", "why", "verdicts", "overrides", "open", "all", "notes", "silences", "states", "spans", "transitions", "limits", "refusals", "burndown", "who spent it", "overlays", "tokens", "results"},
	"a policy":           {"policy|breaker", "policy|limiter", "policy|concurrency", "policy|retry budget", "policy|retry_budget", "policy|ejection", "policy|fallback", "policy|retry", "policy|timeout"},
	"a kind of change":   {"feature", "config", "dependency", "reliability fix", "security fix", "rollback", "scale", "experiment"},
	"a reason":           {"rate limited", "retry budget", "local refusal", "client abort", "upstream failure"},
	"why it was refused": {"refused|open", "refused|rate limited", "refused|full", "refused|shed"},
	"a comparison":       {"against baseline", "against control"},
	"a deploy":           {"succeeded", "rolled back"},
	"a cron text": {"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday",
		"February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"},
	"how a number was made": {"Good requests", "Good time", "Good slices", "Good shares", "Target", "What was promised.", "Allowed failures", "Failures left", "Below zero the promise is broken.",
		"So many of the valid requests may fail before the promise is broken.", "Budget spent", "Share of the error budget that is gone.", "Budget left",
		"Never shown fuller than it is: what is spent is rounded up, what is left down.", "Thaws", "The end of the freeze if nothing fails until then.", "Budget empty",
		"When the promise breaks if the last hour goes on.", "State", "Spent by experiments", "Users felt these too, so they are part of what is spent.", "Coverage",
		"Below the policy's line nothing is concluded: the state is held.", "No valid request in this span.", "Good at the first try", "Burn rate, 5~min", "Burn rate, 30~min", "Burn rate, 1~h", "Burn rate, 2~h", "Burn rate, 6~h", "Burn rate, 1~d", "Burn rate, 3~d",
		"No valid request was counted: there is nothing to judge, and nothing is assumed."},
	"a breaker": {"breaker|open", "breaker|half-open", "breaker|closed", "breaker|no data", "breaker|accepting", "breaker|full"},
}

// every gathers the texts of templates and of Go.
func every(t *testing.T) *texts {
	t.Helper()
	out := &texts{map[string]string{}, map[string]bool{}}
	for set, words := range closed {
		for _, w := range words {
			out.add(w, "words of "+set, false)
		}
	}
	for set, words := range closedSets {
		for _, w := range words {
			out.add(w, "words of "+set, false)
		}
	}
	for _, a := range readiness.Assess(readiness.Facts{}) {
		for _, w := range []string{a.Group, a.Question, (lang{}).itemWords(a.ID)} {
			out.add(w, "words of readiness", false)
		}
	}
	files, err := fs.Glob(templateFiles, "templates/*.html")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d templates, %v", len(files), err)
	}
	for _, f := range files {
		body, err := templateFiles.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		_, err = rewrite(string(body), false, func(key string) (string, bool) { out.add(key, f, false); return "", false })
		if err != nil {
			t.Errorf("%s: %v", f, err)
		}
		for _, m := range wordActions.FindAllStringSubmatch(string(body), -1) {
			key := m[2]
			if m[1] != "" {
				key = m[1] + "|" + key
			}
			out.add(key, f, false)
		}
	}
	out.source(t)
	return out
}

var wordActions = regexp.MustCompile(`\{\{(?:word|of "(\w+)") "([^"]+)"\}\}`)

// source reads the calls that make texts out of the Go of this package.
func (x *texts) source(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") || strings.HasPrefix(name, "lang") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				x.call(t, name, fset, n)
			case *ast.CompositeLit:
				x.literal(name, n, "")
			}
			return true
		})
	}
}

func (x *texts) call(t *testing.T, file string, fset *token.FileSet, n *ast.CallExpr) {
	fun := ""
	switch f := n.Fun.(type) {
	case *ast.Ident:
		if fun = f.Name; fun != "phrase" {
			return
		}
	case *ast.SelectorExpr:
		fun = f.Sel.Name
	}
	arg := func(i int) (string, bool) {
		if i >= len(n.Args) {
			return "", false
		}
		return constant(n.Args[i])
	}
	key, ok, must, format := "", true, true, false
	switch fun {
	case "say":
		key, ok = arg(0)
		format = true
	case "count":
		key, ok = arg(2)
		key, format = "%s "+key, true
	case "phrase":
		key, ok = arg(0)
	case "read":
		if key, ok = arg(1); len(n.Args) != 3 {
			return
		}
		must = false
	case "operator", "approver", "asked": // what was not done, for a reader who may not
		for i := range n.Args {
			if lit, ok := arg(i); ok && strings.Contains(lit, " ") {
				x.add(lit, file, false)
			}
		}
		return
	case "trouble": // s.trouble(w, v, status, title, text)
		for _, i := range []int{3, 4} {
			if lit, ok := arg(i); ok {
				x.add(lit, file, false)
			}
		}
		return
	case "word":
		key, ok = arg(0)
		must = false
	case "of":
		var kind string
		if key, ok = arg(1); ok {
			kind, ok = arg(0)
			key = kind + "|" + key
		}
		must = false
	case "written":
		key, ok = arg(1)
		must = false
	default:
		return
	}
	if ok {
		x.add(key, file, format)
	} else if must {
		t.Errorf("%s: %s wants a literal, so that its translation can be looked for", fset.Position(n.Pos()), fun)
	}
}

// literal reads worded fields; of says the type where the literal leaves it out.
func (x *texts) literal(file string, n *ast.CompositeLit, of string) {
	elem := ""
	switch typ := n.Type.(type) {
	case *ast.Ident:
		of = typ.Name
	case *ast.ArrayType:
		of = ""
		if id, ok := typ.Elt.(*ast.Ident); ok {
			elem = id.Name
		}
	}
	for i, e := range n.Elts {
		field, value := strconv.Itoa(i), e
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			value = kv.Value
			if id, ok := kv.Key.(*ast.Ident); ok {
				field = id.Name
			}
		}
		if inner, ok := value.(*ast.CompositeLit); ok && inner.Type == nil && elem != "" {
			x.literal(file, inner, elem)
		}
		if !slices.Contains(worded[of], field) {
			continue
		}
		if key, ok := constant(value); ok {
			x.add(key, file, false)
		}
	}
}

// constant is a string literal, or several joined by +.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		a, ok := constant(e.X)
		b, also := constant(e.Y)
		return a + b, ok && also
	}
	return "", false
}

// untold is how many texts may lack a translation, and how many entries may be unused.
const untold = 0

func TestTheCatalogueHoldsEveryText(t *testing.T) {
	want := every(t)
	for _, l := range languages {
		c, err := readCatalogue(catalogueFiles, l.tag, l.name)
		if err != nil {
			t.Fatal(err)
		}
		var lacks []string
		for _, key := range slices.SortedFunc(maps.Keys(want.from), func(a, b string) int { return strings.Compare(want.from[a]+a, want.from[b]+b) }) {
			if c.text[key] == "" {
				lacks = append(lacks, key)
			}
		}
		if *wanting != "" {
			last := ""
			for _, key := range lacks {
				if from := want.from[key]; *wanting == "all" || strings.Contains(from, *wanting) {
					if from != last {
						fmt.Printf("\n# %s\n", from)
					}
					last = from
					fmt.Printf("%s\n\t\n", key)
				}
			}
		}
		if len(lacks) > untold {
			t.Errorf("%s: %d texts have no translation; catalogue/%s wants (with what it means after the tab):", l.tag, len(lacks), l.tag)
			for _, key := range lacks[:min(len(lacks), 20)] {
				t.Errorf("\n# %s\n%s\n\t\n", want.from[key], key)
			}
		}
		unused := 0
		for key, from := range c.from {
			if want.from[key] == "" {
				if unused++; unused <= untold {
					continue
				}
				t.Errorf("%s: %q is nowhere in the pages any more", from, key)
			} else if err := agrees(key, c.text[key], want.format[key]); err != nil {
				t.Errorf("%s: %q: %v", from, key, err)
			}
		}
	}
}

var verbs = regexp.MustCompile(`%(?:\[(\d+)\])?([-+# 0-9.]*)([a-zA-Z%])`)

// agrees compares what both sides fill in.
func agrees(key, text string, format bool) error {
	if !format {
		return nil // marks are looked at when the template is rewritten
	}
	kinds := func(s string) (map[int]string, error) {
		out, next := map[int]string{}, 1
		for _, m := range verbs.FindAllStringSubmatch(s, -1) {
			if m[3] == "%" {
				continue
			}
			if m[1] != "" {
				next, _ = strconv.Atoi(m[1])
			}
			out[next] = m[2] + m[3]
			next++
		}
		if left := strings.Count(verbs.ReplaceAllString(s, ""), "%"); left > 0 {
			return nil, fmt.Errorf("a lone %% in %q: write %%%%", s)
		}
		return out, nil
	}
	a, err := kinds(key)
	if err != nil {
		return err
	}
	b, err := kinds(text)
	if err != nil {
		return err
	}
	if !maps.Equal(a, b) {
		return fmt.Errorf("fills in %v, its translation %q fills in %v", a, text, b)
	}
	return nil
}
