package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	weakness "breakwater/injector/finding" // doctor has findings of its own
)

// foundOne is a finding as the API shows it.
type foundOne struct {
	weakness.Finding
	Overdue  bool
	Evidence string
}

func newFinding(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "finding", Short: "list what drills found, say that it is mended, answer for it, make a scenario of an incident"}
	cmd.AddCommand(findingLs(io), findingClose(io), findingAccept(io), findingScenario(io))
	return cmd
}

func findingLs(io streams) *cobra.Command {
	var a asker
	var service, state string
	var all, overdue bool
	cmd := &cobra.Command{
		Use: "ls", Short: "list findings that are not closed", Example: "  breakwater finding ls --service points", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			if service != "" {
				q.Set("service", service)
			}
			if state != "" {
				q.Set("state", state)
			}
			if !all && state == "" {
				q.Set("open", "1")
			}
			if overdue {
				q.Set("overdue", "1")
			}
			var list struct{ Findings []foundOne }
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/findings?"+q.Encode(), nil, &list); done {
				return err
			}
			var rows [][]string
			for _, f := range list.Findings {
				due := f.DueAt.UTC().Format(time.DateOnly)
				if f.Overdue {
					due += " overdue"
				}
				rows = append(rows, []string{f.ID, f.Service, f.Scenario + "/" + f.Assertion, f.Severity, f.Owner, strings.ReplaceAll(string(f.State), "_", " "), due,
					"expected " + f.Expected + ", saw " + f.Seen})
			}
			return fail(table(io.out, []string{"FINDING", "SERVICE", "SCENARIO", "SEVERITY", "OWNER", "STATE", "DUE", "WHAT"}, rows))
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&service, "service", "", "only of this service")
	f.StringVar(&state, "state", "", "only in this state: "+stateNames())
	f.BoolVar(&all, "all", false, "closed ones too")
	f.BoolVar(&overdue, "overdue", false, "only what is late")
	return cmd
}

func stateNames() string {
	var out []string
	for _, s := range weakness.States() {
		out = append(out, string(s))
	}
	return words(out)
}

func findingClose(io streams) *cobra.Command {
	var a asker
	var note string
	cmd := &cobra.Command{
		Use: "close FINDING", Short: "say that a finding is mended; the next game day has to show it", Args: cobra.ExactArgs(1),
		Long:    "A finding is closed by a drill, not by a word: the next game day of its service runs the\nscenario that found it, as it was then.",
		Example: "  breakwater finding close f-0123456789 --note \"timeout lowered to 800 ms\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return findingTurn(cmd, io, &a, args[0]+"/close", map[string]any{"note": note})
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&note, "note", "", "what was changed")
	return cmd
}

func findingAccept(io streams) *cobra.Command {
	var a asker
	var reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "accept FINDING", Short: "answer for a finding until an expiry; needs the role approver", Args: cobra.ExactArgs(1),
		Example: "  breakwater finding accept f-0123456789 --for 720h --reason \"the service is taken down in a month\"",
		RunE: func(cmd *cobra.Command, args []string) error {
			return findingTurn(cmd, io, &a, args[0]+"/accept", map[string]any{"reason": reason, "until": time.Now().Add(lasts).UTC()})
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, in 10 letters or more")
	cmd.Flags().DurationVar(&lasts, "for", 30*24*time.Hour, "how long, up to a year")
	return cmd
}

func findingTurn(cmd *cobra.Command, io streams, a *asker, what string, body any) error {
	id, verb, _ := strings.Cut(what, "/")
	var f foundOne
	if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/findings/"+url.PathEscape(id)+"/"+verb, body, &f); done {
		return err
	}
	_, err := fmt.Fprintf(io.out, "%s is %s\n", f.ID, strings.ReplaceAll(string(f.State), "_", " "))
	return fail(err)
}

func findingScenario(io streams) *cobra.Command {
	var set settings
	var from, until, owner, file string
	cmd := &cobra.Command{
		Use: "scenario SERVICE", Short: "write a scenario that does again what the retry log says happened", Args: cobra.ExactArgs(1),
		Example: "  breakwater finding scenario points --from 2026-03-03T10:00:00Z --until 2026-03-03T10:20:00Z --file points-again.yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			q := url.Values{"service": {args[0]}, "from": {from}, "until": {until}, "owner": {owner}}
			var text []byte
			if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/findings/scenario?"+q.Encode(), nil, &text); err != nil {
				return err
			}
			if file == "" {
				_, err := io.out.Write(text)
				return fail(err)
			}
			return fail(os.WriteFile(file, text, 0o644))
		},
	}
	set.clientFlags(cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "begin of the bad time, RFC 3339")
	f.StringVar(&until, "until", "", "its end")
	f.StringVar(&owner, "owner", "", "who would own what it finds; empty: team-SERVICE")
	f.StringVar(&file, "file", "", "where to write it; empty: standard output")
	return cmd
}
