package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// drill is what the verbs show of an experiment; the API has more.
type drill struct {
	ID       string    `json:"id"`
	Scenario string    `json:"scenario"`
	Service  string    `json:"service"`
	State    string    `json:"state"`
	Verdict  string    `json:"verdict"`
	Why      string    `json:"why"`
	Reason   string    `json:"reason"`
	InjectAt time.Time `json:"inject_at"`
	Attempts int64     `json:"attempts"`
	Injected int64     `json:"injected"`
}

func newExperiment(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "experiment", Short: "list, preview, start, watch, show, approve and abort experiments; search boundaries; import and export"}
	cmd.AddCommand(experimentLs(io), experimentPreview(io), experimentRun(io), experimentWatch(io), experimentShow(io), experimentApprove(io),
		experimentAbort(io), experimentSearch(io), experimentBoundary(io), experimentImport(io), experimentExport(io))
	return cmd
}

func experimentLs(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "ls", Short: "list the newest experiments", Example: "  breakwater experiment ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list struct {
				Experiments []drill `json:"experiments"`
			}
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/experiments", nil, &list); done {
				return err
			}
			var rows [][]string
			for _, r := range list.Experiments {
				rows = append(rows, []string{r.ID, r.Scenario, r.Service, r.State, dash(r.Verdict),
					fmt.Sprintf("%d of %d", r.Injected, r.Attempts), shortTime(r.InjectAt)})
			}
			return fail(table(io.out, []string{"RUN", "SCENARIO", "SERVICE", "STATE", "VERDICT", "INJECTED", "INJECTING SINCE"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}

func experimentShow(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "show RUN", Short: "print one run with its receipts and assertions, as JSON",
		Long:    "Prints the run. Exit code 0: passed or still under way, 1: failed, 3: inconclusive, 5: engine error.",
		Example: "  breakwater experiment show r-0a1b2c", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var reply json.RawMessage
			if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/experiments/"+url.PathEscape(args[0]), nil, &reply); err != nil {
				return err
			}
			if err := printJSON(io.out, reply); err != nil {
				return exit(exitInternal, err)
			}
			var r drill
			if err := understand(reply, &r); err != nil {
				return err
			}
			return codeOnly(verdictCode(r))
		},
	}
	set.clientFlags(cmd.Flags())
	return cmd
}

func newHalt(io streams) *cobra.Command {
	var set settings
	var lift bool
	cmd := &cobra.Command{
		Use: "halt", Short: "stop all faults everywhere; nothing starts until it is lifted",
		Example: "  breakwater halt\n  breakwater halt --lift", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if lift {
				if err := set.call(cmd.Context(), http.MethodDelete, "/api/v1/halt", nil, nil); err != nil {
					return err
				}
				_, err := fmt.Fprintln(io.out, "experiments may start again")
				return fail(err)
			}
			var done struct {
				Stopped int `json:"stopped"`
			}
			if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/halt", struct{}{}, &done); err != nil {
				return err
			}
			_, err := fmt.Fprintf(io.out, "halted, %d runs stopped; nothing starts until breakwater halt --lift\n", done.Stopped)
			return fail(err)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().BoolVar(&lift, "lift", false, "let experiments start again")
	return cmd
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
