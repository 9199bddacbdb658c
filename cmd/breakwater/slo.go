package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/report"
)

func newSLO(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "slo", Short: "list SLOs and explain their numbers"}
	cmd.AddCommand(sloLs(io), sloShow(io))
	return cmd
}

func sloLs(io streams) *cobra.Command {
	var set settings
	var output string
	cmd := &cobra.Command{
		Use: "ls", Short: "list SLOs with what is left of their budgets", Example: "  breakwater slo ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			var reply json.RawMessage
			if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/slos", nil, &reply); err != nil {
				return err
			}
			if output == "json" {
				return fail(printJSON(io.out, reply))
			}
			var list struct {
				SLOs []report.SLO `json:"slos"`
			}
			if err := json.Unmarshal(reply, &list); err != nil {
				return exit(exitUnknown, fmt.Errorf("control's answer is not what was asked for: %w", err))
			}
			var rows [][]string
			for _, s := range list.SLOs {
				left := "no data"
				if s.Budget.RemainingPPM != nil {
					left = slo.Percent(*s.Budget.RemainingPPM)
				}
				until := time.Time{}
				if s.DataUntil != nil {
					until = *s.DataUntil
				}
				rows = append(rows, []string{s.ID, s.Service, dash(s.Env), s.TargetPercent, string(s.State), left, shortTime(until)})
			}
			return fail(table(io.out, []string{"SLO", "SERVICE", "ENV", "TARGET", "STATE", "BUDGET LEFT", "DATA UNTIL"}, rows))
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func sloShow(io streams) *cobra.Command {
	var set settings
	var explained bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "show one SLO; --explain prints each number's formula with its integers",
		Example: "  breakwater slo show order-availability --explain", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/api/v1/slos/" + url.PathEscape(args[0])
			if explained {
				path += "?explain=1"
			}
			var reply json.RawMessage
			if err := set.call(cmd.Context(), http.MethodGet, path, nil, &reply); err != nil {
				return err
			}
			return fail(printJSON(io.out, reply))
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().BoolVar(&explained, "explain", false, "with the formula of each number")
	return cmd
}
