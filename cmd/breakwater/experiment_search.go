package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// sought is what the verbs show of a search.
type sought struct {
	ID, Scenario, Service, Knob, State, Verdict, Reason, Why, Change, Previous, Settings, Run string

	EndedAt  time.Time `json:"ended_at"`
	Started  time.Time `json:"started_at"`
	Halvings int
	Shown    struct{ Pass, Fail, Hard, Soft, Resolution string }
	Probes   []struct {
		Run, Result, Why             string
		Value                        int64
		Attempts, Injected, Requests int64
	}
}

func experimentSearch(io streams) *cobra.Command {
	var set settings
	var wait bool
	cmd := &cobra.Command{
		Use: "search SCENARIO|FILE", Short: "find how much of a scenario's fault the system bears: the shock first, then by halving",
		Long: "Begins a search on the knob that the scenario's search block names. Each probe is a run of its own, with its\n" +
			"baseline, brakes and verdict. With --wait it ends with the report; Ctrl-C then aborts the search.\n\n" +
			"Exit code with --wait: 0 a boundary was found, or the shock was borne; 1 it is worse than the one before; 3 inconclusive.",
		Example: "  breakwater experiment search order-timeout-boundary --wait", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body, err := scenarioBody(args[0])
			if err != nil {
				return err
			}
			var s sought
			if err := set.call(context.WithoutCancel(cmd.Context()), http.MethodPost, "/api/v1/searches", body, &s); err != nil {
				return err
			}
			if !wait {
				_, err := fmt.Fprintf(io.out, "%s %s\n", s.ID, s.State)
				return fail(err)
			}
			if s, err = awaitSearch(cmd.Context(), &set, io, s.ID); err != nil {
				return err
			}
			if err := s.print(io); err != nil {
				return exit(exitInternal, err)
			}
			return codeOnly(s.code())
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended, and print its report")
	return cmd
}

// awaitSearch follows a search, and ends it when nobody follows it any more.
func awaitSearch(ctx context.Context, set *settings, io streams, id string) (s sought, err error) {
	path := "/api/v1/searches/" + url.PathEscape(id)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	heard, shown := time.Now(), 0
	for {
		switch err = set.call(ctx, http.MethodGet, path, nil, &s); {
		case err == nil:
			heard = time.Now()
			for ; shown < len(s.Probes); shown++ {
				p := s.Probes[shown]
				fmt.Fprintf(io.err, "%s: %s, %s\n", p.Run, p.Result, p.Why)
			}
			if s.State == "ended" {
				return s, nil
			}
		case ctx.Err() == nil && (!isAway(err) || time.Since(heard) >= awayFor):
			return s, err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortFor)
			defer cancel()
			fmt.Fprintf(io.err, "interrupted: aborting %s\n", id)
			if err := set.call(ending, http.MethodPost, path+"/abort", struct{}{}, &s); err != nil {
				return s, fmt.Errorf("abort %s: %w", id, err)
			}
			return s, nil
		}
	}
}

func (s sought) code() int {
	switch {
	case s.Verdict == "undone" || s.Verdict == "":
		return exitHold
	case s.Change == "worse":
		return exitNo
	}
	return exitOK
}

func (s sought) print(io streams) error {
	var rows [][]string
	for _, p := range s.Probes {
		rows = append(rows, []string{p.Run, fmt.Sprint(p.Value), p.Result, fmt.Sprintf("%d of %d", p.Injected, p.Attempts), fmt.Sprint(p.Requests), p.Why})
	}
	if err := table(io.out, []string{"PROBE", strings.ToUpper(s.Knob), "RESULT", "HIT", "REQUESTS", "WHY"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(io.out, "%s of %s, %s from %s to %s by %s: %s\n", s.ID, s.Scenario, s.Knob, s.Shown.Hard, s.Shown.Soft, s.Shown.Resolution, dash(s.Why))
	if err == nil && s.Change != "" {
		_, err = fmt.Fprintf(io.out, "since %s: %s (settings %s)\n", dash(s.Previous), s.Change, s.Settings)
	}
	return err
}

func experimentBoundary(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "boundary [SCENARIO|SEARCH]", Short: "list the boundaries that were found, or print the report of one search",
		Example: "  breakwater experiment boundary order-timeout-boundary", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, one := "/api/v1/searches", false
			if len(args) == 1 {
				if one = strings.HasPrefix(args[0], "s-"); one {
					path += "/" + url.PathEscape(args[0])
				} else {
					path += "?" + url.Values{"scenario": args[:1]}.Encode()
				}
			}
			var s sought
			var list struct{ Searches []sought }
			into := any(&list)
			if one {
				into = &s
			}
			if done, err := a.ask(cmd, io, http.MethodGet, path, nil, into); done {
				return err
			}
			if one {
				return fail(s.print(io))
			}
			var rows [][]string
			for _, s := range list.Searches {
				found := dash(s.Verdict)
				if s.Verdict == "found" {
					found = s.Shown.Pass + " to " + s.Shown.Fail
				}
				rows = append(rows, []string{s.ID, s.Scenario, s.Knob, found, dash(s.Change), fmt.Sprint(len(s.Probes)), shortTime(s.EndedAt)})
			}
			return fail(table(io.out, []string{"SEARCH", "SCENARIO", "KNOB", "BOUNDARY", "CHANGE", "PROBES", "ENDED"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}

func experimentAbort(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "abort RUN|SEARCH", Short: "stop a run, or a search with its probe, and take its faults back",
		Example: "  breakwater experiment abort r-0a1b2c", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			what := "experiments"
			if strings.HasPrefix(args[0], "s-") {
				what = "searches"
			}
			var r drill
			if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/"+what+"/"+url.PathEscape(args[0])+"/abort", struct{}{}, &r); err != nil {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s %s\n", r.ID, r.State)
			return fail(err)
		},
	}
	set.clientFlags(cmd.Flags())
	return cmd
}

func experimentApprove(io streams) *cobra.Command {
	var set settings
	var hash string
	cmd := &cobra.Command{
		Use: "approve RUN", Short: "agree to a waiting run that somebody else started",
		Long:    "Agrees to a run. In prod one approver is needed, and two for class C (a core service, or more than a tenth of\nall traffic), one of whom speaks for the service. Nobody approves their own.",
		Example: "  breakwater experiment approve r-0a1b2c --hash 0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{}
			if hash != "" {
				body["hash"] = hash
			}
			var r drill
			if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/experiments/"+url.PathEscape(args[0])+"/approve", body, &r); err != nil {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s %s\n", r.ID, r.State)
			return fail(err)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVar(&hash, "hash", "", "hash of the document that you have read; refused where the run has another")
	return cmd
}
