package main

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"breakwater/slo/freeze"
)

func freezeOverrides(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "overrides", Short: "how often freezes were passed, by quarter and by whom, counted from the audit",
		Example: "  breakwater freeze overrides", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var out struct{ Quarters []freeze.OverrideQuarter }
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/freezes/overrides", nil, &out); done {
				return err
			}
			var rows [][]string
			add := func(quarter, who string, asked, granted, used int64, revoked string) {
				rows = append(rows, []string{quarter, who, fmt.Sprint(asked), fmt.Sprint(granted), fmt.Sprint(used), revoked})
			}
			for _, q := range out.Quarters {
				add(q.Name, "all", q.Asked, q.Granted, q.Used, fmt.Sprint(q.Revoked))
				for _, p := range q.People {
					add("", p.Who, p.Asked, p.Granted, p.Used, "")
				}
			}
			return fail(table(io.out, []string{"QUARTER", "WHO", "ASKED", "GRANTED", "USED", "REVOKED"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}
