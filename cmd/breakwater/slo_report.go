package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"
)

func sloReport(io streams) *cobra.Command {
	var set settings
	var output string
	asked := map[string]*string{}
	cmd := &cobra.Command{
		Use: "report", Short: "a week or a quarter of error budgets by team and service, as Markdown, page or JSON",
		Long: "The period is the last one that is over or, with --at, the one that holds that day. Page and Markdown\n" +
			"are whole in themselves: they can be mailed or kept.",
		Example: "  breakwater slo report --period quarter --at 2026-02-10 -o html > q1.html", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := oneOf("output", output, "md", "html", "json"); err != nil {
				return err
			}
			q := url.Values{"format": {output}}
			for name, value := range asked {
				if *value != "" {
					q.Set(name, *value)
				}
			}
			if set.env != "" {
				q.Set("env", set.env)
			}
			var text []byte
			if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/reports/budget?"+q.Encode(), nil, &text); err != nil {
				return err
			}
			_, err := io.out.Write(text)
			return fail(err)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "md", "md, html or json")
	for name, help := range map[string]string{
		"period": "week, month or quarter; without it week", "at": "a day within the period, such as 2026-03-10", "zone": "IANA time zone in which periods begin; without it UTC",
		"service": "of this service alone", "team": "of this team alone",
	} {
		asked[name] = cmd.Flags().String(name, "", help)
	}
	return cmd
}
