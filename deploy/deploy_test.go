// Package deploy_test reads what this folder ships with the parsers of those who
// will read it, and holds every command line in it, in the README and in docs
// against the binary's own help. Images are not run here.
package deploy_test

import (
	"bufio"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

func TestCompose(t *testing.T) {
	name, err := filepath.Abs("compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	load := func(env types.Mapping) (*types.Project, error) {
		return loader.LoadWithContext(context.Background(), types.ConfigDetails{
			WorkingDir: filepath.Dir(name), ConfigFiles: []types.ConfigFile{{Filename: name}}, Environment: env})
	}
	if _, err := load(nil); err == nil || !strings.Contains(err.Error(), "POSTGRES_PASSWORD") {
		t.Errorf("without a password: got %v, want to be told", err)
	}
	p, err := load(types.Mapping{"POSTGRES_PASSWORD": "secret"})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.GetService("breakwater")
	if err != nil {
		t.Fatal(err)
	}
	known(t, b.Command)
	if dockerfile := filepath.Join(b.Build.Context, b.Build.Dockerfile); dockerfile != filepath.Join(filepath.Dir(name), "Dockerfile") {
		t.Errorf("builds %s", dockerfile)
	}
	if dsn := b.Environment["BREAKWATER_DB"]; dsn == nil || !strings.Contains(*dsn, "secret@postgres:5432") {
		t.Errorf("the database is at %v", dsn)
	}
	if c := b.DependsOn["postgres"].Condition; c != types.ServiceConditionHealthy {
		t.Errorf("starts when postgres is %q", c)
	}
	if !b.ReadOnly || !slices.Contains(b.CapDrop, "ALL") || !slices.Contains(b.SecurityOpt, "no-new-privileges:true") {
		t.Error("breakwater has rights it does not need")
	}
	for _, port := range b.Ports {
		if port.Target == 8081 && port.HostIP != "127.0.0.1" {
			t.Errorf("control is open on %q", port.HostIP)
		}
	}
	for _, v := range b.Volumes {
		if v.Type == types.VolumeTypeBind {
			if _, err := os.Stat(v.Source); err != nil {
				t.Error(err)
			}
		} else if _, ok := p.Volumes[v.Source]; !ok {
			t.Errorf("volume %s is not declared", v.Source)
		}
	}
	pg, err := p.GetService("postgres")
	if err != nil || pg.HealthCheck == nil || len(pg.Ports) != 0 {
		t.Errorf("postgres has no health check, or is open to the network: %v", err)
	}
}

// instruction is one line of a Dockerfile, continuations joined.
type instruction struct {
	name string
	args string
}

func dockerfile(t *testing.T) []instruction {
	t.Helper()
	b, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	var out []instruction
	text := strings.ReplaceAll(string(b), "\\\n", " ")
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, args, _ := strings.Cut(line, " ")
		out = append(out, instruction{name, strings.TrimSpace(args)})
	}
	return out
}

// A small strict reader: BuildKit's own would bring two hundred modules along.
func TestDockerfile(t *testing.T) {
	allowed := strings.Fields("FROM WORKDIR COPY RUN USER ENV VOLUME EXPOSE ENTRYPOINT CMD")
	stages := map[string]bool{}
	var last []instruction // of the final stage
	for i, in := range dockerfile(t) {
		if !slices.Contains(allowed, in.name) || in.args == "" {
			t.Errorf("%s %s: not an instruction we use", in.name, in.args)
		}
		if i == 0 && in.name != "FROM" {
			t.Error("does not begin with FROM")
		}
		switch in.name {
		case "FROM":
			last = nil
			f := strings.Fields(in.args)
			if len(f) == 3 && f[1] == "AS" {
				stages[f[2]] = true
			} else if len(f) != 1 {
				t.Errorf("FROM %s", in.args)
			}
		case "COPY":
			f := strings.Fields(in.args)
			plain := slices.DeleteFunc(slices.Clone(f), func(a string) bool { return strings.HasPrefix(a, "--") })
			if len(plain) < 2 {
				t.Errorf("COPY %s", in.args)
			}
			for _, a := range f {
				if from, ok := strings.CutPrefix(a, "--from="); ok && !stages[from] {
					t.Errorf("COPY from %s, which was not built", from)
				}
			}
		}
		last = append(last, in)
	}
	one := func(name string) string {
		i := slices.IndexFunc(last, func(in instruction) bool { return in.name == name })
		if i < 0 {
			t.Errorf("the image has no %s", name)
			return ""
		}
		return last[i].args
	}
	if base := one("FROM"); base != "scratch" {
		t.Errorf("the image stands on %s, want scratch", base)
	}
	if user := one("USER"); user == "" || strings.HasPrefix(user, "0") || strings.HasPrefix(user, "root") || !regexp.MustCompile(`^\d+:\d+$`).MatchString(user) {
		t.Errorf("runs as %q: must be a number above 0, which a cluster can check", user)
	}
	if slices.ContainsFunc(last, func(in instruction) bool { return in.name == "RUN" }) {
		t.Error("RUN in an image without a shell")
	}
	if e := one("ENTRYPOINT"); e != `["/breakwater"]` {
		t.Errorf("starts %s", e)
	}
	var args []string
	for _, m := range regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(one("CMD"), -1) {
		args = append(args, m[1])
	}
	known(t, args)
	// The language of go.mod and of the image move together.
	mod, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(mod)
	if from := dockerfile(t)[0].args; !strings.HasPrefix(from, "golang:"+string(version[1])+"-") {
		t.Errorf("builds with %s, go.mod says %s", from, version[1])
	}
}

// unit reads a systemd unit strictly: sections, Key=value, comments.
func unit(t *testing.T, name string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	section := ""
	key := regexp.MustCompile(`^([A-Z][A-Za-z]+)=(.*)$`)
	scan := bufio.NewScanner(bytes.NewReader(b))
	for n := 1; scan.Scan(); n++ {
		line := strings.TrimSpace(scan.Text())
		switch m := key.FindStringSubmatch(line); {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
		case m == nil || section == "":
			t.Errorf("%s:%d: %q is no setting of a section", name, n, line)
		default:
			if _, twice := out[section+"."+m[1]]; twice {
				t.Errorf("%s:%d: %s is set twice", name, n, m[1])
			}
			out[section+"."+m[1]] = m[2]
		}
	}
	return out
}

func TestUnit(t *testing.T) {
	u := unit(t, "breakwater.service")
	for key, want := range map[string]string{
		"Service.DynamicUser": "yes", "Service.ProtectSystem": "strict", "Service.ProtectHome": "yes", "Service.PrivateTmp": "yes",
		"Service.NoNewPrivileges": "yes", "Service.StateDirectory": "breakwater", "Service.KillMode": "mixed",
		"Service.CapabilityBoundingSet": "", "Service.RestrictAddressFamilies": "AF_UNIX AF_INET AF_INET6",
		"Service.SystemCallFilter": "@system-service", "Install.WantedBy": "multi-user.target",
	} {
		if got, ok := u[key]; !ok || got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	words := strings.Fields(u["Service.ExecStart"])
	if len(words) < 2 || words[0] != "/usr/local/bin/breakwater" {
		t.Fatalf("starts %q", words)
	}
	known(t, words[1:])
	if i := slices.Index(words, "--state-dir"); i < 0 || words[i+1] != "/var/lib/"+u["Service.StateDirectory"] {
		t.Errorf("keeps its state outside of StateDirectory: %q", words)
	}

	tool, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Log("systemd is not on this machine: only the settings were checked")
		return
	}
	t.Run("systemd-analyze", func(t *testing.T) {
		// It insists that the program is there: any will do for this.
		b, err := os.ReadFile("breakwater.service")
		if err != nil {
			t.Fatal(err)
		}
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(t.TempDir(), "breakwater.service")
		if err := os.WriteFile(copied, bytes.ReplaceAll(b, []byte(words[0]), []byte(self)), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(tool, "verify", "--man=no", copied).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, copied) || strings.Contains(line, "breakwater.service") {
				t.Errorf("systemd-analyze: %s", line)
			}
		}
		if err != nil && len(out) == 0 {
			t.Error(err)
		}
	})
}

// The documents that the folder brings along are good ones.
func TestConfig(t *testing.T) {
	name, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(name, "validate", "config/breakwater.yaml").CombinedOutput(); err != nil {
		t.Errorf("breakwater validate: %v\n%s", err, out)
	}
}
