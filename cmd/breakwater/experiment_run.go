package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// document is sent as it stands, and not as JSON.
type document []byte

// scenarioBody is what names a scenario to control: the id of one that it has, or a
// file, which is sent whole.
func scenarioBody(arg string) (any, error) {
	if !strings.ContainsAny(arg, "/.") {
		return struct {
			Scenario string `json:"scenario"`
		}{arg}, nil
	}
	text, err := os.ReadFile(arg)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(arg, "/") {
		return struct {
			Scenario string `json:"scenario"`
		}{arg}, nil // ids may hold a dot
	}
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("read the scenario: %w", err))
	}
	return document(text), nil
}

func experimentRun(io streams) *cobra.Command {
	var set settings
	var ci bool
	var output, junit string
	var limit time.Duration
	cmd := &cobra.Command{
		Use: "run SCENARIO|FILE", Short: "start a run of a scenario now; with --ci wait for its verdict",
		Long: "Starts a run of a scenario that control has, or of the document in a file. With --ci it waits for the\n" +
			"verdict and says it by its exit code; Ctrl-C, or --timeout, aborts the run and takes its faults back.\n\n" +
			"Exit code with --ci: 0 passed, 1 failed, 3 inconclusive or never started, 4 control is away, 5 engine error.",
		Example: "  breakwater experiment run demo-coupon-slow --token \"$TOKEN\"\n  breakwater experiment run demo-coupon-slow --ci --junit drill.xml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, "table", "json", "junit"); err != nil {
				return err
			}
			if !ci && (output != "table" || junit != "" || limit != 0) {
				return exit(exitUsage, errors.New("-o, --junit and --timeout: must go with --ci, since only a verdict can be written"))
			}
			body, err := scenarioBody(args[0])
			if err != nil {
				return err
			}
			var r drill
			// Not to be interrupted: a run whose name nobody learned could not be aborted.
			if err := set.call(context.WithoutCancel(cmd.Context()), http.MethodPost, "/api/v1/experiments", body, &r); err != nil {
				return err
			}
			if !ci {
				_, err := fmt.Fprintf(io.out, "%s %s\n", r.ID, r.State)
				return fail(err)
			}
			fmt.Fprintf(io.err, "%s %s\n", r.ID, r.State)
			w := watcher{set: &set, io: io, limit: limit, abort: true}
			reply, err := w.follow(cmd.Context(), r.ID)
			if err != nil {
				return err
			}
			return sayVerdict(io, reply, output, junit)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().BoolVar(&ci, "ci", false, "wait for the verdict")
	cmd.Flags().StringVarP(&output, "output", "o", "table", "what is written of the verdict: table, json or junit")
	cmd.Flags().StringVar(&junit, "junit", "", "file that takes the verdict as JUnit XML")
	cmd.Flags().DurationVar(&limit, "timeout", 0, "abort the run when it takes longer; 0: never")
	return cmd
}

func experimentWatch(io streams) *cobra.Command {
	var set settings
	var output string
	cmd := &cobra.Command{
		Use: "watch RUN", Short: "follow a run until it ends",
		Long:    "Follows a run and says its verdict by the exit code, as run --ci does. Ctrl-C stops watching; the run goes on.",
		Example: "  breakwater experiment watch r-0a1b2c", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, "table", "json", "junit"); err != nil {
				return err
			}
			w := watcher{set: &set, io: io}
			reply, err := w.follow(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return sayVerdict(io, reply, output, "")
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "what is written of the verdict: table, json or junit")
	return cmd
}

// How often a run is looked at, for how long control may be away meanwhile, and how
// long an aborted run may take to end: its lease and the verdict's reading.
const (
	watchEvery = time.Second
	awayFor    = time.Minute
	abortFor   = 45 * time.Second
)

// watcher follows one run.
type watcher struct {
	set   *settings
	io    streams
	limit time.Duration // 0: none
	abort bool          // the run ends with whoever watches it
	shown int           // events
}

// follow returns the run as it ended.
func (w *watcher) follow(ctx context.Context, id string) (json.RawMessage, error) {
	watching := ctx
	if w.limit > 0 {
		var cancel context.CancelFunc
		watching, cancel = context.WithTimeout(ctx, w.limit)
		defer cancel()
	}
	reply, err := w.until(watching, id)
	if watching.Err() == nil || !w.abort {
		return reply, err
	}
	why := "interrupted"
	if ctx.Err() == nil {
		why = fmt.Sprintf("it takes longer than %v", w.limit)
	}
	fmt.Fprintf(w.io.err, "%s: aborting %s\n", why, id)
	// Whoever goes away takes the fault along: nobody would see what it does.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortFor)
	defer cancel()
	if err := w.set.call(ending, http.MethodPost, "/api/v1/experiments/"+url.PathEscape(id)+"/abort", struct{}{}, nil); err != nil {
		return nil, fmt.Errorf("abort %s: %w", id, err)
	}
	return w.until(ending, id)
}

func (w *watcher) until(ctx context.Context, id string) (json.RawMessage, error) {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	heard := time.Now()
	for {
		var reply json.RawMessage
		err := w.set.call(ctx, http.MethodGet, "/api/v1/experiments/"+url.PathEscape(id), nil, &reply)
		switch {
		case err == nil:
			heard = time.Now()
			var r struct {
				EndedAt time.Time `json:"ended_at"`
				Events  []struct {
					At         time.Time
					Kind, Text string
				}
			}
			if err := understand(reply, &r); err != nil {
				return nil, err
			}
			for ; w.shown < len(r.Events); w.shown++ {
				e := r.Events[w.shown]
				fmt.Fprintf(w.io.err, "%s %s\n", e.At.UTC().Format(time.TimeOnly), e.Text)
			}
			if !r.EndedAt.IsZero() {
				return reply, nil
			}
		case ctx.Err() != nil:
		case !isAway(err) || time.Since(heard) >= awayFor:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, exit(exitUnknown, fmt.Errorf("run %s has not ended: %w", id, ctx.Err()))
		case <-tick.C:
		}
	}
}

// isAway reports whether err may pass by itself: control starts again, or its
// database does. That a run is not there does not.
func isAway(err error) bool {
	e, ok := errors.AsType[*exitError](err)
	return ok && e.code == exitUnknown && !strings.Contains(err.Error(), "does not ")
}

// sayVerdict writes how a run ended and gives the exit code that says it.
func sayVerdict(io streams, reply json.RawMessage, output, junit string) error {
	var r ended
	if err := understand(reply, &r); err != nil {
		return err
	}
	if junit != "" {
		if err := os.WriteFile(junit, r.junit(), 0o644); err != nil {
			return exit(exitInternal, fmt.Errorf("--junit: %w", err))
		}
	}
	var err error
	switch output {
	case "json":
		err = printJSON(io.out, reply)
	case "junit":
		_, err = io.out.Write(r.junit())
	default:
		err = r.table(io)
	}
	if err != nil {
		return exit(exitInternal, err)
	}
	return codeOnly(r.code())
}

// verdictCode is the exit code of a run that is shown, whether it ended or not.
func verdictCode(r drill) int {
	switch {
	case r.State == "engine_error":
		return exitInternal
	case r.Verdict == "failed":
		return exitNo
	case r.Verdict == "inconclusive":
		return exitHold
	}
	return exitOK
}
