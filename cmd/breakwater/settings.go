package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"breakwater/gateway/toxic"
)

// settings are the flags that several verbs share. Each can be given as a
// BREAKWATER_* variable too; the flag wins.
type settings struct {
	config   string // file or directory of documents
	listen   string
	admin    string
	control  string // where control listens, or for a client: its base URL
	stateDir string
	env      string
	db       string
	token    string

	toxiproxy  string        // address of the API like Toxiproxy's; empty: none
	toxicLease time.Duration // how long toxics live without a word of a client
}

func env(name, otherwise string) string {
	if v, ok := os.LookupEnv("BREAKWATER_" + name); ok {
		return v
	}
	return otherwise
}

func (s *settings) configFlag(f *pflag.FlagSet) {
	f.StringVar(&s.config, "config", env("CONFIG", ""), "file or directory of configuration documents (BREAKWATER_CONFIG)")
}

func (s *settings) gatewayFlags(f *pflag.FlagSet) {
	f.StringVar(&s.listen, "listen", env("LISTEN", ":8080"), "address of the data plane (BREAKWATER_LISTEN)")
	f.StringVar(&s.admin, "admin", env("ADMIN", "127.0.0.1:15000"), "address of the gateway's admin port (BREAKWATER_ADMIN)")
}

func (s *settings) toxiproxyFlags(f *pflag.FlagSet) {
	f.StringVar(&s.toxiproxy, "toxiproxy", env("TOXIPROXY", ""), "address of an API like Toxiproxy's, such as 127.0.0.1:8474; empty: none (BREAKWATER_TOXIPROXY)")
	f.DurationVar(&s.toxicLease, "toxiproxy-lease", toxic.DefaultLease, "how long its toxics live after the last request to it")
}

func (s *settings) stateFlags(f *pflag.FlagSet) {
	f.StringVar(&s.stateDir, "state-dir", env("STATE_DIR", defaultStateDir()), "directory for spool, private database and locks (BREAKWATER_STATE_DIR)")
	f.StringVar(&s.env, "env", env("ENV", "prod"), "environment this belongs to, unless the documents say; caps and approvals bind in prod (BREAKWATER_ENV)")
}

func (s *settings) dbFlag(f *pflag.FlagSet) {
	dsn := os.Getenv("DATABASE_URL")
	if dsn == "" {
		dsn = "auto"
	}
	f.StringVar(&s.db, "db", env("DB", dsn), "PostgreSQL DSN, or auto for a private cluster (BREAKWATER_DB, DATABASE_URL)")
}

func (s *settings) controlListenFlag(f *pflag.FlagSet) {
	f.StringVar(&s.control, "control", env("CONTROL", "127.0.0.1:8081"), "address control listens on: pages and API (BREAKWATER_CONTROL)")
}

// clientFlags are those of a verb that asks a running control.
func (s *settings) clientFlags(f *pflag.FlagSet) {
	f.StringVar(&s.control, "control", env("CONTROL", "http://127.0.0.1:8081"), "base URL of control (BREAKWATER_CONTROL)")
	f.StringVar(&s.token, "token", env("TOKEN", ""), "API token (BREAKWATER_TOKEN)")
	f.StringVar(&s.env, "env", env("ENV", ""), "environment; empty: the one control serves (BREAKWATER_ENV)")
}

// baseURL is control as a URL, whether it was given as one or as host:port.
func (s *settings) baseURL() string {
	url := strings.TrimSuffix(s.control, "/")
	if !strings.Contains(url, "://") {
		url = "http://" + url
	}
	return url
}

func defaultStateDir() string {
	if dir := os.Getenv("STATE_DIRECTORY"); dir != "" { // set by systemd
		return dir
	}
	if dir := os.Getenv("XDG_STATE_HOME"); dir != "" {
		return filepath.Join(dir, "breakwater")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "breakwater")
	}
	return filepath.Join(home, ".local", "state", "breakwater")
}

// newLog returns the process's logger: one JSON line an event, on w.
func newLog(w io.Writer, role string) *slog.Logger {
	return slog.New(slog.NewJSONHandler(w, nil)).With("role", role)
}

// oneOf checks the value of a flag; "" among allowed lets the flag be left out.
func oneOf(flag, value string, allowed ...string) error {
	if slices.Contains(allowed, value) {
		return nil
	}
	named := slices.DeleteFunc(slices.Clone(allowed), func(a string) bool { return a == "" })
	return exit(exitUsage, fmt.Errorf("--%s: must be %s, got %q", flag, words(named), value))
}

// words joins alternatives: a, b or c.
func words(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	last := len(list) - 1
	return strings.Join(list[:last], ", ") + " or " + list[last]
}
