package main

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/report"
)

func newSLO(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "slo", Short: "list SLOs, explain their numbers, look back and correct"}
	cmd.AddCommand(sloLs(io), sloShow(io), sloRules(io), sloWhy(io), sloBacktest(io), sloRecompute(io), sloCorrect(io),
		sloImport(io), sloExport(io), sloReport(io))
	return cmd
}

func sloLs(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "ls", Short: "list SLOs with what is left of their budgets", Example: "  breakwater slo ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list struct {
				SLOs []report.SLO `json:"slos"`
			}
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/slos", nil, &list); done {
				return err
			}
			var rows [][]string
			for _, s := range list.SLOs {
				until := time.Time{}
				if s.DataUntil != nil {
					until = *s.DataUntil
				}
				rows = append(rows, []string{s.ID, s.Service, dash(s.Env), s.TargetPercent, string(s.State), left(s.Budget), shortTime(until)})
			}
			return fail(table(io.out, []string{"SLO", "SERVICE", "ENV", "TARGET", "STATE", "BUDGET LEFT", "DATA UNTIL"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}

func left(b report.Budget) string {
	if b.RemainingPPM == nil {
		return "no data"
	}
	return slo.Percent(*b.RemainingPPM)
}

// oneSLO are the flags of a verb that looks at one SLO.
type oneSLO struct{ asker }

// ask is asker's, of path below one SLO; into is nil where there is no answer.
func (o *oneSLO) ask(cmd *cobra.Command, io streams, method, id, path string, query url.Values, body, into any) (done bool, err error) {
	if query == nil {
		query = url.Values{}
	}
	if o.set.env != "" {
		query.Set("env", o.set.env)
	}
	full := "/api/v1/slos/" + url.PathEscape(id) + path
	if len(query) > 0 {
		full += "?" + query.Encode()
	}
	if into == nil {
		return true, o.set.call(cmd.Context(), method, full, body, nil)
	}
	return o.asker.ask(cmd, io, method, full, body, into)
}

func sloShow(io streams) *cobra.Command {
	var one oneSLO
	var explained bool
	cmd := &cobra.Command{
		Use: "show ID", Short: "show one SLO; --explain prints each number's formula with its integers",
		Example: "  breakwater slo show order-availability --explain", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var s report.SLO
			if done, err := one.ask(cmd, io, http.MethodGet, args[0], "", nil, nil, &s); done {
				return err
			}
			head := fmt.Sprintf("%s of %s in %s: %s, %s left\n%s\n%s\n\n", s.ID, s.Service, dash(s.Env), s.State, left(s.Budget), s.Promise, s.Reason)
			if _, err := fmt.Fprint(io.out, head); err != nil {
				return fail(err)
			}
			header, rows := []string{"NUMBER", "VALUE"}, [][]string{}
			for _, l := range s.Explain {
				row := []string{l.Label, l.Value}
				if explained {
					row = append(row, l.Formula)
				}
				rows = append(rows, row)
			}
			if explained {
				header = append(header, "FORMULA")
			}
			return fail(table(io.out, header, rows))
		},
	}
	one.flags(cmd)
	cmd.Flags().BoolVar(&explained, "explain", false, "with the formula of each number")
	return cmd
}

func sloRules(io streams) *cobra.Command {
	var one oneSLO
	var from []string
	cmd := &cobra.Command{
		Use: "rules ID...", Short: "the burn rules of one SLO, and what each is worth; -o prometheus writes those of several as a file",
		Example: "  breakwater slo rules order-availability\n  breakwater slo rules -o prometheus > rules.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			if one.output == "prometheus" {
				return writeRules(cmd, io, &promiseSource{set: one.set, from: from}, args)
			}
			if err := cobra.ExactArgs(1)(cmd, args); err != nil {
				return exit(exitUsage, err)
			}
			var s report.SLO
			if done, err := one.ask(cmd, io, http.MethodGet, args[0], "", nil, nil, &s); done {
				return err
			}
			var rows [][]string
			for _, r := range s.Rules {
				state := "quiet"
				if r.Firing {
					state = "fires"
				}
				rows = append(rows, []string{r.Name, r.Severity, r.Long + " and " + r.Short, slo.RateMilli(r.RateMilli), slo.Percent(r.SpendPPM),
					slo.Span(time.Duration(r.DetectsOutage) * time.Second), state, r.Reason})
			}
			return fail(table(io.out, []string{"RULE", "SEVERITY", "WINDOWS", "ABOVE", "SPENDS", "SEES AN OUTAGE AFTER", "NOW", "WHY"}, rows))
		},
	}
	one.flags(cmd)
	cmd.Flags().Lookup("output").Usage = "table, json or prometheus"
	cmd.Flags().StringArrayVar(&from, "from", nil, "with -o prometheus: file or directory of documents, instead of asking control")
	return cmd
}
