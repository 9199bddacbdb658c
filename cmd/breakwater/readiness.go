package main

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"breakwater/injector/readiness"
)

func newReadiness(io streams) *cobra.Command {
	var a asker
	var answer, evidence string
	var no bool
	var days int
	cmd := &cobra.Command{
		Use: "readiness SERVICE", Short: "answer the fifteen questions that come before a drill", Args: cobra.ExactArgs(1),
		Long:    "Most answers are computed; what only people know is answered with --answer ITEM --evidence TEXT.\n--days N shows instead how it went, day by day.\nExit code 0: all fifteen are yes, 1: some are no, 4: some are not known.",
		Example: "  breakwater readiness points\n  breakwater readiness points --answer limits --evidence \"load test of May, wiki/limits\"\n  breakwater readiness points --days 90",
		RunE: func(cmd *cobra.Command, args []string) error {
			if days != 0 {
				if answer != "" {
					return exit(exitUsage, errors.New("--days shows what was; it does not go with --answer"))
				}
				return readyTrend(cmd, io, &a, args[0], days)
			}
			var out struct {
				Ready, Of int
				Answers   []struct{ ID, State, Question, Text string }
			}
			method, path, body := http.MethodGet, "/api/v1/readiness/"+url.PathEscape(args[0]), any(nil)
			if answer != "" {
				method, body = http.MethodPost, map[string]any{"item": answer, "yes": !no, "evidence": evidence}
			}
			reply, err := a.raw(cmd, method, path, body)
			if err != nil {
				return err
			}
			if err := understand(reply, &out); err != nil {
				return err
			}
			code := exitOK
			var rows [][]string
			for _, x := range out.Answers {
				rows = append(rows, []string{x.State, x.ID, x.Question, x.Text})
				switch {
				case x.State == "no":
					code = exitNo
				case x.State == "unknown" && code == exitOK:
					code = exitUnknown
				}
			}
			if a.output == "json" {
				if err := printJSON(io.out, reply); err != nil {
					return exit(exitInternal, err)
				}
				return codeOnly(code)
			}
			fmt.Fprintf(io.out, "%s: %d of %d\n", args[0], out.Ready, out.Of)
			if err := table(io.out, []string{"", "ITEM", "QUESTION", "KNOWN"}, rows); err != nil {
				return exit(exitInternal, err)
			}
			return codeOnly(code)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&answer, "answer", "", "answer this item by hand")
	f.StringVar(&evidence, "evidence", "", "where it can be looked at")
	f.BoolVar(&no, "no", false, "the answer is no")
	f.IntVar(&days, "days", 0, "show how many were yes on each of the last days, and what changed")
	return cmd
}

// readyTrend prints the days of a service, and what changed from one to the next.
func readyTrend(cmd *cobra.Command, io streams, a *asker, service string, days int) error {
	var out readiness.Trend
	path := "/api/v1/readiness/" + url.PathEscape(service) + "/trend?days=" + strconv.Itoa(days)
	if done, err := a.ask(cmd, io, http.MethodGet, path, nil, &out); done {
		return err
	}
	if len(out.Days) == 0 {
		return exit(exitUnknown, fmt.Errorf("nobody has looked at %s in these %d days", service, days))
	}
	changed := map[string][]string{}
	for _, c := range out.Changes {
		changed[c.Day] = append(changed[c.Day], fmt.Sprintf("%s %s (was %s)", c.Item, c.To, c.From))
	}
	var rows [][]string
	for _, d := range out.Days {
		rows = append(rows, []string{d.Day, fmt.Sprintf("%d of %d", d.Ready, d.Of), strconv.Itoa(d.No), strconv.Itoa(d.Unknown), strings.Join(changed[d.Day], ", ")})
	}
	fmt.Fprintf(io.out, "%s: %+d in %d days\n", service, out.Gained(), len(out.Days))
	return fail(table(io.out, []string{"DAY", "YES", "NO", "UNKNOWN", "CHANGED"}, rows))
}
