package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"
)

// previewed is what control says of a scenario before anything is started.
type previewed struct {
	Scenario string `json:"scenario"`
	Service  string `json:"service"`
	Refused  bool   `json:"refused"`
	Warnings []struct {
		Code, Text string
		Refuse     bool
	} `json:"warnings"`
	Requests int64  `json:"requests"`
	Hits     int64  `json:"hits"`
	FinalPPM int64  `json:"failing_requests_ppm"`
	UserPPM  int64  `json:"user_visible_ppm"`
	Tries    int64  `json:"tries_per_request_milli"`
	Failures *int64 `json:"failures"`
	Budget   *int64 `json:"budget_ppm"`
	Users    *int64 `json:"users"`
}

func experimentPreview(io streams) *cobra.Command {
	var set settings
	var output string
	cmd := &cobra.Command{
		Use: "preview SCENARIO", Short: "say what a scenario would do, and what speaks against it; starts nothing",
		Long:    "Says what a run would do by the traffic of the last ten minutes, and why it might show nothing\nor do more than was agreed. Exit code 0: it could start, 3: something is doubtful, 1: it would be refused.",
		Example: "  breakwater experiment preview demo-coupon-slow", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			body := struct {
				Scenario string `json:"scenario"`
			}{args[0]}
			var reply json.RawMessage
			if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/experiments/preview", body, &reply); err != nil {
				return err
			}
			var p previewed
			if err := understand(reply, &p); err != nil {
				return err
			}
			err := p.print(io, output, reply)
			if err != nil {
				return exit(exitInternal, err)
			}
			switch {
			case p.Refused:
				return codeOnly(exitNo)
			case len(p.Warnings) > 0:
				return codeOnly(exitHold)
			}
			return nil
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table or json")
	return cmd
}

func (p previewed) print(io streams, output string, reply json.RawMessage) error {
	if output == "json" {
		return printJSON(io.out, reply)
	}
	known := func(n *int64, format string) string {
		if n == nil {
			return "not known"
		}
		return fmt.Sprintf(format, *n)
	}
	share := func(ppm int64) string {
		return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%d.%04d", ppm/10_000, ppm%10_000), "0"), ".") + " %"
	}
	budget := "not known"
	if p.Budget != nil {
		budget = share(*p.Budget)
	}
	rows := [][]string{
		{"requests that match", fmt.Sprint(p.Requests)},
		{"tries that are hit", fmt.Sprint(p.Hits)},
		{"tries for each request", fmt.Sprintf("%d.%03d", p.Tries/1000, p.Tries%1000)},
		{"requests that fail after retries", share(p.FinalPPM)},
		{"requests that users see fail", share(p.UserPPM) + ", " + known(p.Failures, "%d")},
		{"of the budget of " + p.Service, budget},
		{"tenants or callers that are hit", known(p.Users, "%d")},
	}
	if err := table(io.out, []string{"FORECAST OF " + strings.ToUpper(p.Scenario), ""}, rows); err != nil {
		return err
	}
	for _, w := range p.Warnings {
		word := "doubtful"
		if w.Refuse {
			word = "refused"
		}
		if _, err := fmt.Fprintf(io.out, "%s (%s): %s\n", word, w.Code, w.Text); err != nil {
			return err
		}
	}
	return nil
}
