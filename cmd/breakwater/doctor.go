package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/spf13/cobra"

	"breakwater/gateway/explain"
	"breakwater/internal/conf"
)

// finding is one line of the doctor.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // ok, warn, fail or skip
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what helps
}

// doctor goes through everything that has to stand before breakwater does.
type doctor struct {
	set    settings
	client *http.Client
	now    func() time.Time
	found  []finding
	// examined is control's, where a page asks for it again and again.
	examined *byFiles[examined]
}

func newDoctor(io streams) *cobra.Command {
	var set settings
	var output string
	var strict bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "look at gateway, control, database, clock, spool and documents, and say what to do",
		Long: "Asks the gateway's admin port and control, looks at the database, the state directory\n" +
			"and the documents, and holds the clocks against this machine's. What is not there at\n" +
			"all and was not named is passed over.\n" +
			"Exit code 0: all is well, 1: something is broken, 3: only warnings, under --strict.",
		Example: "  breakwater doctor --config gw.yaml",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if err := set.checkControl(); err != nil {
				return err
			}
			d := &doctor{set: set, client: &http.Client{Transport: clientTransport(), Timeout: 5 * time.Second}, now: time.Now, examined: &byFiles[examined]{}}
			defer d.client.CloseIdleConnections()
			d.examine(cmd.Context(), given(cmd.Flags()))
			if err := d.write(io.out, output); err != nil {
				return exit(exitInternal, err)
			}
			return codeOnly(d.code(strict))
		},
	}
	f := cmd.Flags()
	set.configFlag(f)
	set.stateFlags(f)
	set.dbFlag(f)
	f.StringVar(&set.admin, "admin", env("ADMIN", "127.0.0.1:15000"), "address of the gateway's admin port (BREAKWATER_ADMIN)")
	f.StringVar(&set.control, "control", env("CONTROL", "http://127.0.0.1:8081"), "base URL of control (BREAKWATER_CONTROL)")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	f.BoolVar(&strict, "strict", false, "exit 3 where there are warnings")
	return cmd
}

func (d *doctor) say(check, state, do, format string, args ...any) {
	d.found = append(d.found, finding{check, state, fmt.Sprintf(format, args...), do})
}

func (d *doctor) ok(check, format string, args ...any) { d.say(check, "ok", "", format, args...) }

func (d *doctor) code(strict bool) int {
	warned := false
	for _, f := range d.found {
		if f.State == "fail" {
			return exitNo
		}
		warned = warned || f.State == "warn"
	}
	if strict && warned {
		return exitHold
	}
	return exitOK
}

func (d *doctor) write(w stdio.Writer, output string) error {
	if output == "json" {
		return printJSON(w, d.found)
	}
	rows := make([][]string, len(d.found))
	for i, f := range d.found {
		rows[i] = []string{f.State, f.Check, f.Text}
		if f.Do != "" {
			rows[i][2] += "; " + f.Do
		}
	}
	return table(w, []string{"STATE", "CHECK", "WHAT"}, rows)
}

func (d *doctor) examine(ctx context.Context, named func(flag string) bool) {
	d.documents(named)
	d.stateDir()
	d.gateway(ctx, named)
	d.control(ctx, named)
	d.database(ctx, named)
}

func (d *doctor) documents(named func(string) bool) {
	if d.set.config == "" {
		d.say("config", "skip", "give --config to have the documents looked at", "no documents were named")
		return
	}
	files, err := conf.Load(d.set.config)
	if err != nil {
		d.say("config", "fail", "see --config", "cannot be read: %v", err)
		return
	}
	if len(files) == 0 {
		files = []conf.File{{Name: d.set.config}}
	}
	seen := d.examined.of(files, examineFiles)
	r := seen.report
	if n := seen.weak; n > 0 {
		d.say("weakness", "warn", "breakwater validate --weaknesses "+d.set.config+" says which and where", "the documents show %d ways in which they will not protect", n)
	} else if r.OK {
		d.ok("weakness", "the documents show none")
	}
	do := "breakwater validate " + d.set.config + " says where"
	switch {
	case !r.OK:
		d.say("config", "fail", do, "%d mistakes", r.Errors)
	case r.Warnings > 0:
		d.say("config", "warn", do, "revision %s with %d warnings", r.Revision, r.Warnings)
	case r.Routes == 0:
		d.say("config", "warn", "a gateway serves only once there is a route", "there is no Route document")
	default:
		d.ok("config", "revision %s, %d routes", r.Revision, r.Routes)
	}
}

// examined is what there is to say of documents.
type examined struct {
	report explain.Report
	weak   int // of what is no mistake, and will not protect when it is needed
}

func examineFiles(files []conf.File) examined {
	r := check(files)
	with := r
	addWeaknesses(&with, files)
	return examined{r, len(with.Findings) - len(r.Findings)}
}

// stateDir looks at the directory itself and how much room its disk has.
func (d *doctor) stateDir() {
	info, err := os.Stat(d.set.stateDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.say("state", "warn", "it is made at the first start; elsewhere: --state-dir", "%s is not there", d.set.stateDir)
		return
	case err != nil:
		d.say("state", "fail", "see who may read it", "%v", err)
		return
	case !info.IsDir():
		d.say("state", "fail", "give another --state-dir", "%s is no directory", d.set.stateDir)
		return
	}
	if _, err := os.Stat(filepath.Join(d.set.stateDir, "halt")); err == nil {
		d.say("halt", "warn", "remove "+filepath.Join(d.set.stateDir, "halt")+" to allow faults again", "faults are halted by a file")
	}
	var fs syscall.Statfs_t
	if err := syscall.Statfs(d.set.stateDir, &fs); err != nil {
		d.say("state", "warn", "", "%s: %v", d.set.stateDir, err)
		return
	}
	free := uint64(fs.Bavail) * uint64(fs.Bsize)
	const little = 1 << 30
	if free < little {
		d.say("state", "warn", "make room: events that find none are dropped, and counted", "%s has %d MiB left", d.set.stateDir, free>>20)
		return
	}
	d.ok("state", "%s, %d GiB free", d.set.stateDir, free>>30)
}

// get asks for a JSON value. skew is how far the other's clock is from ours; what
// the answer's Date says is whole seconds.
func (d *doctor) get(ctx context.Context, url string, out any) (status int, skew time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, 0, err
	}
	res, err := d.client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	defer res.Body.Close()
	text, err := stdio.ReadAll(stdio.LimitReader(res.Body, maxReply))
	if err != nil {
		return res.StatusCode, 0, err
	}
	if at, err := http.ParseTime(res.Header.Get("Date")); err == nil {
		skew = at.Add(500 * time.Millisecond).Sub(d.now()).Round(time.Second)
	}
	if out == nil || res.StatusCode != http.StatusOK {
		return res.StatusCode, skew, nil
	}
	return res.StatusCode, skew, json.Unmarshal(text, out)
}

func (d *doctor) clock(of string, skew time.Duration) {
	const much = 2 * time.Second // a minute row takes events this late without a word
	if skew.Abs() > much {
		d.say("clock", "warn", "let both follow one time service: minutes are cut by these clocks", "that of %s is %s off this machine's", of, skew)
		return
	}
	d.ok("clock", "%s and this machine agree", of)
}

func (d *doctor) control(ctx context.Context, named func(string) bool) {
	status, skew, err := d.get(ctx, d.set.baseURL()+"/healthz", nil)
	if err != nil {
		d.away("control", d.set.baseURL(), named("control"), err)
		return
	}
	if status != http.StatusOK {
		d.say("control", "fail", "see its log", "%s answered %d", d.set.baseURL(), status)
		return
	}
	status, _, err = d.get(ctx, d.set.baseURL()+"/readyz", nil)
	if err != nil || status != http.StatusOK {
		d.say("control", "fail", "its log says what it waits for, mostly the database", "%s runs and is not ready (%d)", d.set.baseURL(), status)
	} else {
		d.ok("control", "%s is ready", d.set.baseURL())
	}
	d.clock("control", skew)
}

// away tells of a role that cannot be reached: a failure where somebody says that
// it has to be there.
func (d *doctor) away(check, address string, named bool, err error) {
	state, do := "skip", "start it, or name it by --"+map[string]string{"gateway": "admin", "control": "control"}[check]
	if named {
		state, do = "fail", "see whether it runs and listens there"
	}
	if op, ok := errors.AsType[*net.OpError](err); ok {
		err = op
	}
	d.say(check, state, do, "nobody answers at %s: %v", strings.TrimPrefix(address, "http://"), err)
}

func (d *doctor) database(ctx context.Context, named func(string) bool) {
	if d.set.db == "auto" {
		if clusterAt(filepath.Join(d.set.stateDir, "pg")) {
			d.ok("database", "a private one, in %s", d.set.stateDir)
		} else {
			d.say("database", "skip", "control makes one at its first start, or give --db", "there is no private one in %s", d.set.stateDir)
		}
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	db, err := pgx.Connect(ctx, d.set.db)
	if err != nil {
		d.say("database", "fail", "see --db, DATABASE_URL, and whether it runs", "cannot be reached: %v", err)
		return
	}
	defer func() { _ = db.Close(context.WithoutCancel(ctx)) }()
	if err := db.Ping(ctx); err != nil {
		d.say("database", "fail", "see its log", "does not answer: %v", err)
		return
	}
	d.ok("database", "PostgreSQL %s", db.PgConn().ParameterStatus("server_version"))
}
