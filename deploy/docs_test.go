package deploy_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// binary builds breakwater once for all tests of this package.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "deploy-test-")
	if err != nil {
		return "", err
	}
	name := filepath.Join(dir, "breakwater")
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", name, "breakwater/cmd/breakwater")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-trimpath") // as make build does
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return name, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if name, err := binary(); err == nil {
		_ = os.RemoveAll(filepath.Dir(name))
	}
	os.Exit(code)
}

// known fails the test where the binary does not know args' verb or a flag.
func known(t *testing.T, args []string) {
	t.Helper()
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if len(args) == 0 {
		t.Error("no verb is named")
		return
	}
	help, err := exec.Command(name, args[0], "--help").CombinedOutput()
	if err != nil || !bytes.Contains(help, []byte("breakwater "+args[0])) {
		t.Errorf("breakwater does not know %q: %v", args[0], err)
		return
	}
	if len(args) > 1 && !strings.HasPrefix(args[1], "-") { // a verb of a group has flags of its own
		own, err := exec.Command(name, args[0], args[1], "--help").CombinedOutput()
		if err == nil && bytes.Contains(own, []byte("breakwater "+args[0]+" "+args[1])) {
			help = own
		}
	}
	for _, a := range args[1:] {
		if flag, _, _ := strings.Cut(a, "="); strings.HasPrefix(flag, "-") && !regexp.MustCompile(`(^|\s)`+regexp.QuoteMeta(flag)+`\b`).Match(help) {
			t.Errorf("breakwater %s does not know %s", args[0], flag)
		}
	}
}

// commands finds the command lines in the fenced blocks of a page, and in what
// it sets as code within a line.
func commands(text string) []string {
	var out []string
	fenced := false
	inline := regexp.MustCompile("`((?:[A-Z_]+=\\S+ )*(?:make|breakwater) [^`]+)`")
	start := regexp.MustCompile(`^(?:\$ )?(?:[A-Z_]+=\S+ )*((?:make|(?:\./bin/)?breakwater) .*)$`)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
			continue
		}
		if m := start.FindStringSubmatch(line); fenced && m != nil {
			out = append(out, m[1])
		}
		if !fenced {
			for _, m := range inline.FindAllStringSubmatch(line, -1) {
				if m := start.FindStringSubmatch(m[1]); m != nil {
					out = append(out, m[1])
				}
			}
		}
	}
	return out
}

// Each command that a page tells its reader to type is known to the Makefile or
// to the binary, with every flag.
func TestPagesNameRealCommands(t *testing.T) {
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	pages = append(pages, "../README.md", "../CONTRIBUTING.md", "../ARCHITECTURE.md")
	total := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, line := range commands(string(text)) {
			total++
			line, _, _ = strings.Cut(line, " #") // a remark
			line, _, _ = strings.Cut(line, " |")
			line, _, _ = strings.Cut(line, " &&")
			words := strings.Fields(line)
			t.Run(filepath.Base(page)+" "+line, func(t *testing.T) {
				if words[0] == "make" {
					if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(words[1]) + `:`).Match(makefile) {
						t.Errorf("make %s is no target", words[1])
					}
					return
				}
				known(t, words[1:])
			})
		}
	}
	if total < 10 {
		t.Errorf("only %d commands were found: the test does not see them", total)
	}
}

func TestCommandsAreFound(t *testing.T) {
	page := "Type `make demo` or `breakwater gate order --env demo`, not `make`.\n```sh\n$ DEMO_SECONDS=5 make demo\n./bin/breakwater serve --db auto\necho make x\n```\n"
	got := fmt.Sprint(commands(page))
	if want := "[make demo breakwater gate order --env demo make demo ./bin/breakwater serve --db auto]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
