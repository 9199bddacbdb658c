// Command breakwater is the one binary of the project: the gateway, control,
// and every verb people and pipelines type. This package is wiring only.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	_ "time/tzdata" // schedules name IANA zones; a scratch image has none

	"github.com/spf13/cobra"
)

// Exit codes of every verb (one table, docs/cli.md).
const (
	exitOK       = 0
	exitNo       = 1 // deny, failed verdict, invalid file, refused by a rule
	exitUsage    = 2 // the line typed is wrong, or control calls it a bad request
	exitHold     = 3 // hold, inconclusive, warnings under --strict
	exitUnknown  = 4 // nobody can say: no data, no such id, no database, not let in, unreachable
	exitInternal = 5
)

// exitError carries the code a verb ends with; a nil err prints nothing more.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func exit(code int, err error) error { return &exitError{code, err} }

// streams are what a verb reads and where it writes: results on out, everything
// else on err.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx = endWithParent(ctx)
	code := run(ctx, os.Args[1:], streams{in: os.Stdin, out: os.Stdout, err: os.Stderr})
	stop()
	os.Exit(code)
}

// run is main as a function, for tests.
func run(ctx context.Context, args []string, io streams) int {
	root := newRoot(io)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	ee, ok := errors.AsType[*exitError](err)
	if !ok {
		// cobra's own errors are all about usage
		fmt.Fprintf(io.err, "breakwater: %v\n", err)
		return exitUsage
	}
	if ee.err != nil {
		fmt.Fprintf(io.err, "breakwater: %v\n", ee.err)
	}
	return ee.code
}

func newRoot(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:           "breakwater",
		Short:         "chaos and SLO platform round a fault-injecting HTTP gateway",
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetOut(io.out)
	root.SetErr(io.err)
	root.AddCommand(
		newServe(io), newGateway(io), newControl(io), newDemo(io),
		newValidate(io), newExplain(io), newDoctor(io), newGate(io), newNow(io), newFreeze(io), newAlert(io), newSLO(io), newHealth(io), newIngest(io), newLimit(io),
		newExperiment(io), newGameday(io), newFinding(io), newReadiness(io), newHalt(io),
		newConfig(io), newWebhook(io), newToken(io), newUser(io), newAudit(io), newMigrate(io), newVersion(io),
	)
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.HasSubCommands() {
			needVerb(c)
		}
	}
	return root
}

// needVerb makes a group of verbs refuse to run without a known one. Left alone
// it would print its help and end with 0, which a pipeline takes for success.
func needVerb(group *cobra.Command) {
	group.Use, group.DisableFlagsInUseLine = group.Name()+" VERB", true
	group.Args = cobra.ArbitraryArgs
	group.SuggestionsMinimumDistance = 2
	// With an unknown verb its flags are unknown too; the verb is what to speak of.
	group.FParseErrWhitelist.UnknownFlags = true
	group.RunE = func(_ *cobra.Command, args []string) error {
		var verbs []string
		for _, c := range group.Commands() {
			verbs = append(verbs, c.Name())
		}
		known := "must be " + words(verbs)
		if len(args) == 0 {
			return exit(exitUsage, fmt.Errorf("%s: %s, got nothing", group.Name(), known))
		}
		if near := group.SuggestionsFor(args[0]); len(near) > 0 {
			known += "; did you mean " + words(near) + "?"
		}
		return exit(exitUsage, fmt.Errorf("%s: unknown verb %q: %s", group.Name(), args[0], known))
	}
}

func newVersion(io streams) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "print the version, revision and Go release",
		Example: "  breakwater version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version, revision := "devel", "unknown"
			goVersion := ""
			if info, ok := debug.ReadBuildInfo(); ok {
				goVersion = info.GoVersion
				if info.Main.Version != "" && info.Main.Version != "(devel)" {
					version = info.Main.Version
				}
				for _, s := range info.Settings {
					if s.Key == "vcs.revision" {
						revision = s.Value
					}
				}
			}
			_, err := fmt.Fprintf(io.out, "breakwater %s (revision %s, %s)\n", version, revision, goVersion)
			return err
		},
	}
}
