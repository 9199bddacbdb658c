// Package breakwater_test holds the rules of the house as tests: who may import
// whom, where SQL, the clock and chance may stand, and how large a file may grow.
// ARCHITECTURE.md says why.
package breakwater_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// edges says what rooms may import of the house. "x/..." is x and all below it. A
// room that is not listed may not exist; the longest pattern that fits rules it.
// Tests may import more: policies are tested in pairs, rooms against a real store.
var edges = map[string]string{
	"cmd/breakwater": "...",
	// Values that everybody may hold.
	"internal/retrylog internal/histogram internal/conf internal/reply internal/lockfile": "",
	"internal/auth": "internal/reply",
	"internal/auth/oidc internal/auth/oidc/oidctest": "internal/auth",
	"migrations scenarios deploy/... injector/cron injector/search gateway/internal/window gateway/internal/arrival gateway/internal/socket internal/noisy": "",

	// The data plane knows no control code, and its policies not one another.
	"gateway":                               "gateway/... internal/retrylog internal/histogram internal/conf",
	"gateway/exchange gateway/mesh":         "internal/retrylog",
	"gateway/spool":                         "internal/retrylog internal/lockfile",
	"gateway/wire":                          "gateway/exchange gateway/internal/arrival gateway/internal/socket internal/retrylog",
	"gateway/front":                         "gateway/exchange gateway/internal/arrival gateway/internal/socket gateway/front/h1 internal/retrylog",
	"gateway/front/h1":                      "gateway/exchange",
	"gateway/policy/...":                    "gateway/exchange gateway/internal/window internal/retrylog internal/histogram internal/conf",
	"gateway/route":                         "gateway/exchange",
	"gateway/config":                        "gateway/exchange gateway/route gateway/contract gateway/policy/... internal/conf",
	"gateway/plan gateway/toxic":            "gateway/policy/fault",
	"gateway/lease":                         "gateway/plan gateway/policy/fault internal/retrylog",
	"gateway/quota gateway/quota/redistest": "gateway/policy/limiter",
	"gateway/explain":                       "gateway/exchange gateway/config gateway/route gateway/policy/... internal/retrylog internal/conf",
	"gateway/source gateway/contract":       "internal/conf internal/retrylog",

	// Of the gateway, control may know what it tells it, and plain values.
	"slo":      "internal/retrylog internal/histogram internal/conf",
	"slo/...":  "slo/... internal/auth internal/reply internal/retrylog internal/histogram internal/conf",
	"injector": "injector/... gateway/plan gateway/policy/fault gateway/explain internal/reply internal/retrylog internal/histogram internal/conf",
	"injector/gameday injector/finding injector/readiness": "injector/... internal/reply internal/conf",
	"injector/scenario injector/foreign":                   "injector/cron injector/scenario gateway/plan gateway/policy/fault internal/conf",
	"web/...": `web/... slo/... injector/... gateway/plan gateway/policy/fault gateway/contract gateway/explain scenarios
		internal/auth internal/reply internal/retrylog internal/histogram internal/conf`,

	// The store imports the domains; no domain imports the store.
	"internal/store":                   "slo/... injector/... gateway/plan gateway/policy/fault internal/auth internal/retrylog internal/histogram internal/conf",
	"internal/pglocal internal/pgtest": "internal/pglocal internal/lockfile migrations",
	"internal/demo":                    "slo slo/ingest internal/retrylog internal/histogram",
	"internal/conformance":             "gateway/... internal/retrylog internal/conf",
}

// homes says where a library may be imported, so that what does not use it does
// not pay for it, and one room has to change when it is replaced.
var homes = map[string]string{
	"github.com/jackc/pgx/":               "internal/store migrations internal/pgtest internal/pglocal cmd/breakwater", // cmd opens the pool
	"github.com/pressly/goose/":           "migrations",
	"github.com/robfig/cron/":             "injector/cron",
	"github.com/spf13/cobra":              "cmd/breakwater",
	"go.yaml.in/yaml/":                    "internal/conf",
	"github.com/prometheus/client_golang": "gateway gateway/spool gateway/lease slo slo/... injector web web/... cmd/breakwater internal/store",
	"go.etcd.io/etcd/":                    "gateway/source",
	"github.com/redis/":                   "gateway/quota",
	"github.com/oasdiff/":                 "gateway/contract",
	"go.opentelemetry.io/":                "gateway",
	"golang.org/x/crypto/argon2":          "internal/auth",
	"golang.org/x/oauth2":                 "internal/auth/oidc",
	"github.com/coreos/go-oidc/":          "internal/auth/oidc",
	"database/sql":                        "migrations",
}

// walk calls each for every file of the tree that could be committed.
func walk(each func(name string) error) error {
	return filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if d.IsDir() { // as in .gitignore
			if slices.Contains([]string{".git", "bin", ".state", "node_modules", "web/e2e/shots"}, name) || d.Name() == "node_modules" {
				return filepath.SkipDir
			}
			return nil
		}
		if d.Type().IsRegular() {
			return each(name)
		}
		return nil
	})
}

// source is one parsed Go file.
type source struct {
	name, dir string
	test      bool
	file      *ast.File
}

// parsed reads the tree once for all tests.
var parsed = sync.OnceValues(func() (out []source, err error) {
	err = walk(func(name string) error {
		if !strings.HasSuffix(name, ".go") || strings.Contains(name, "/testdata/") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		out = append(out, source{name, path.Dir(name), strings.HasSuffix(name, "_test.go"), f})
		return err
	})
	return out, err
})

var fset = token.NewFileSet()

func sources(t *testing.T) (*token.FileSet, []source) {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return fset, all
}

// fits reports whether room is named by one of the patterns.
func fits(room, patterns string) bool {
	return slices.ContainsFunc(strings.Fields(patterns), func(p string) bool {
		below, all := strings.CutSuffix(p, "...")
		return p == room || all && (strings.HasPrefix(room, below) || room+"/" == below)
	})
}

// ruleFor finds the row of edges for a room.
func ruleFor(room string) (allowed string, known bool) {
	best := -1
	for patterns, list := range edges {
		for _, p := range strings.Fields(patterns) {
			// The room's own name goes before any "...", a longer one before a shorter.
			rank := len(p)
			if p == room {
				rank = 1000
			}
			if fits(room, p) && rank > best {
				allowed, known, best = list, true, rank
			}
		}
	}
	return allowed, known
}

func TestImports(t *testing.T) {
	_, all := sources(t)
	for _, s := range all {
		allowed, known := ruleFor(s.dir)
		if s.test {
			continue
		}
		if !known {
			t.Errorf("%s: room %s is not in the table of edges", s.name, s.dir)
		}
		for _, spec := range s.file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if room, ours := strings.CutPrefix(imported, "breakwater/"); ours && !fits(room, allowed) {
				t.Errorf("%s: %s may not import %s", s.name, s.dir, room)
			}
			for library, rooms := range homes {
				if strings.HasPrefix(imported, library) && !fits(s.dir, rooms) {
					t.Errorf("%s: %s is imported only in %s", s.name, library, rooms)
				}
			}
		}
	}
}

func TestPackageDocs(t *testing.T) {
	_, all := sources(t)
	docs := make(map[string]string)
	for _, s := range all {
		if s.test {
			continue
		}
		if s.file.Doc != nil && docs[s.dir] != "" {
			t.Errorf("%s: a second package doc", s.name)
		}
		docs[s.dir] += s.file.Doc.Text()
	}
	for dir, doc := range docs {
		want := "Package " + path.Base(dir) + " "
		if strings.HasPrefix(dir, "cmd/") {
			want = "Command " + path.Base(dir) + " "
		}
		if !strings.HasPrefix(doc, want) {
			t.Errorf("%s: its doc must begin with %q, got %.60q", dir, want, doc)
		}
	}
}

// statement is the beginning of SQL as we write it, in lower case.
var statement = regexp.MustCompile(`^\s*(select\s[\s\S]*\bfrom\b|insert\s+into\s|update\s+\w+\s+set\s|delete\s+from\s|(create|drop|alter)\s+(table|index|type|function|schema)\s|truncate\s+\w+$|with\s+\w+\s+as\s*\()`)

func TestSQLStandsInTheStore(t *testing.T) {
	fset, all := sources(t)
	for _, s := range all {
		if s.test || fits(s.dir, "internal/store migrations internal/pgtest internal/pglocal") {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				if text, err := strconv.Unquote(lit.Value); err == nil && statement.MatchString(text) {
					t.Errorf("%s: SQL outside internal/store: %.60q", fset.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
}

// selectors calls each for every x.Name of a package that want names.
func selectors(s source, want func(importPath string) bool, each func(at token.Pos, name string)) {
	names := make(map[string]bool)
	for _, spec := range s.file.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil || !want(p) {
			continue
		}
		name := path.Base(p)
		if name == "v2" {
			name = path.Base(path.Dir(p))
		}
		if spec.Name != nil {
			name = spec.Name.Name
		}
		names[name] = true
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && names[x.Name] {
				each(sel.Pos(), sel.Sel.Name)
			}
		}
		return true
	})
}

// The core of a policy is told the time; only its layer reads the clock.
func TestClockOfPolicies(t *testing.T) {
	fset, all := sources(t)
	for _, s := range all {
		if s.test || !fits(s.dir, "gateway/policy/...") || path.Base(s.name) == "layer.go" {
			continue
		}
		selectors(s, func(p string) bool { return p == "time" }, func(at token.Pos, name string) {
			if slices.Contains([]string{"Now", "Since", "Until"}, name) {
				t.Errorf("%s: time.%s in the core of a policy: take now as an argument", fset.Position(at), name)
			}
		})
	}
}

// Chance is handed in, from a source with a seed; only wiring takes the process's own.
func TestNoGlobalRandom(t *testing.T) {
	fset, all := sources(t)
	harmless := []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "NewSource", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}
	for _, s := range all {
		if s.dir == "cmd/breakwater" {
			continue
		}
		selectors(s, func(p string) bool { return p == "math/rand" || p == "math/rand/v2" }, func(at token.Pos, name string) {
			if !slices.Contains(harmless, name) {
				t.Errorf("%s: rand.%s is global: pass a func() float64 or a source with a seed", fset.Position(at), name)
			}
		})
	}
}

// Nothing happens by being imported, and no package variable changes.
func TestNoInitAndNoGlobalState(t *testing.T) {
	fset, all := sources(t)
	vars := make(map[string]bool) // dir and name
	for _, s := range all {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == "init" && f.Recv == nil {
				t.Errorf("%s: func init", fset.Position(f.Pos()))
			}
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR && !s.test {
				for _, spec := range g.Specs {
					for _, name := range spec.(*ast.ValueSpec).Names {
						vars[s.dir+" "+name.Name] = name.Name != "_"
					}
				}
			}
		}
	}
	for _, s := range all {
		for _, d := range s.file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && !s.test {
				for _, x := range assigned(f) {
					if vars[s.dir+" "+x.Name] {
						t.Errorf("%s: package variable %s changes", fset.Position(x.Pos()), x.Name)
					}
				}
			}
		}
	}
}

// assigned lists the names that f sets and does not itself declare.
func assigned(f *ast.FuncDecl) []*ast.Ident {
	local := make(map[string]bool)
	var set []*ast.Ident
	note := func(x ast.Expr, declares bool) {
		if id, ok := x.(*ast.Ident); ok && declares {
			local[id.Name] = true
		} else if ok {
			set = append(set, id)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, x := range n.Lhs {
				note(x, n.Tok == token.DEFINE)
			}
		case *ast.IncDecStmt:
			note(n.X, false)
		case *ast.RangeStmt:
			note(n.Key, n.Tok == token.DEFINE)
			note(n.Value, n.Tok == token.DEFINE)
		case *ast.Field:
			for _, name := range n.Names {
				note(name, true)
			}
		case *ast.ValueSpec:
			for _, name := range n.Names {
				note(name, true)
			}
		}
		return true
	})
	return slices.DeleteFunc(set, func(x *ast.Ident) bool { return local[x.Name] })
}
