package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"breakwater/slo/now"
)

func newNow(io streams) *cobra.Command {
	var set settings
	var output string
	cmd := &cobra.Command{
		Use:   "now [SERVICE]",
		Short: "who is hit now, by what measure, what protects, and the likely causes",
		Long: "Without a service it shows the one that suffers most, and names the others. While the database is away\n" +
			"it says what was last known, and until when data reaches. 0: nobody is hit, 1: somebody is, 4: no data.",
		Example: "  breakwater now\n  breakwater now order --env prod -o md", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "md" {
				if err := checkOutput(output); err != nil {
					return exit(exitUsage, fmt.Errorf("-o: must be table, json or md, got %q", output))
				}
			}
			q := url.Values{}
			if len(args) == 1 {
				q.Set("service", args[0])
			}
			if set.env != "" {
				q.Set("env", set.env)
			}
			var reply json.RawMessage
			if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/now?"+q.Encode(), nil, &reply); err != nil {
				return err
			}
			var a now.Answer
			if err := understand(reply, &a); err != nil {
				return err
			}
			if output == "json" {
				if err := printJSON(io.out, reply); err != nil {
					return fail(err)
				}
				return codeOnly(nowCode(a.Situation))
			}
			if a.Situation == nil {
				return exit(exitUnknown, fmt.Errorf("no service has a promise, and none was named"))
			}
			text := a.Situation.Text()
			if output == "md" {
				text = a.Situation.Markdown()
			}
			if _, err := fmt.Fprint(io.out, text); err != nil {
				return fail(err)
			}
			for _, s := range a.Others {
				if _, err := fmt.Fprintf(io.out, "\nAlso: %s\n", s.Headline); err != nil {
					return fail(err)
				}
			}
			return codeOnly(nowCode(a.Situation))
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json or md")
	return cmd
}

// nowCode says with the exit code whether somebody is hit.
func nowCode(s *now.Situation) int {
	switch {
	case s == nil || s.State == now.NoData:
		return exitUnknown
	case s.State == now.Hit:
		return exitNo
	}
	return exitOK
}
