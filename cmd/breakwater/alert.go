package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo/alert"
)

func newAlert(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "alert", Short: "list incidents, say why somebody was told or not, acknowledge, silence, test receivers"}
	cmd.AddCommand(alertLs(io), alertShow(io), alertAck(io), alertSilence(io), alertTest(io))
	return cmd
}

func alertLs(io streams) *cobra.Command {
	var a asker
	var service, tier, find string
	var open bool
	cmd := &cobra.Command{
		Use: "ls", Short: "list incidents; --tier L3 lists what was only written down", Example: "  breakwater alert ls --open", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := url.Values{}
			for name, v := range map[string]string{"service": service, "tier": tier, "find": find} {
				if v != "" {
					q.Set(name, v)
				}
			}
			if open {
				q.Set("open", "true")
			}
			var list struct {
				Alerts []alert.Incident
				Notes  []alert.Jotting
			}
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/alerts?"+q.Encode(), nil, &list); done {
				return err
			}
			var rows [][]string
			if tier == string(alert.L3) {
				for _, n := range list.Notes {
					rows = append(rows, []string{shortTime(n.Last), n.Service, n.Env, fmt.Sprint(n.Count), n.Text})
				}
				return fail(table(io.out, []string{"LAST", "SERVICE", "ENV", "TIMES", "WHAT"}, rows))
			}
			for _, i := range list.Alerts {
				state := "open"
				switch {
				case i.ClosedAt != nil:
					state = "closed " + shortTime(*i.ClosedAt)
				case i.AckedBy != "":
					state = "open, " + i.AckedBy + " looks after it"
				}
				rows = append(rows, []string{i.ID, string(i.Tier), string(i.Severity), shortTime(i.OpenedAt), state, i.Title})
			}
			return fail(table(io.out, []string{"ID", "TIER", "SEVERITY", "OPENED", "STATE", "TITLE"}, rows))
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&service, "service", "", "only of this service")
	f.StringVar(&tier, "tier", "", "L1, L2 or L3")
	f.StringVar(&find, "find", "", "with --tier L3: only what contains this")
	f.BoolVar(&open, "open", false, "only what goes on")
	return cmd
}

func alertShow(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "show ID", Short: "one incident: its context, and why who was told and who was not", Example: "  breakwater alert show i-0123456789abcdef", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out struct {
				Alert alert.Incident
				Lines []string
				Why   []alert.Why
			}
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/alerts/"+url.PathEscape(args[0]), nil, &out); done {
				return err
			}
			if _, err := fmt.Fprintf(io.out, "%s %s  %s\n  %s\n\n", out.Alert.Tier, out.Alert.Severity, out.Alert.Title, strings.Join(out.Lines, "\n  ")); err != nil {
				return fail(err)
			}
			var rows [][]string
			for _, y := range out.Why {
				rows = append(rows, []string{shortTime(y.At), string(y.Kind), dash(y.Receiver), y.Outcome, y.Text})
			}
			return fail(table(io.out, []string{"AT", "WHAT", "RECEIVER", "OUTCOME", "WHY"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}

func alertAck(io streams) *cobra.Command {
	var a asker
	var note string
	cmd := &cobra.Command{
		Use: "ack ID", Short: "say that you look after an incident", Example: "  breakwater alert ack i-0123456789abcdef --note \"rolling back\"", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var i alert.Incident
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/alerts/"+url.PathEscape(args[0])+"/ack", map[string]any{"note": note}, &i); done {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s looks after %s\n", i.AckedBy, i.ID)
			return fail(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&note, "note", "", "what you do")
	return cmd
}

func alertSilence(io streams) *cobra.Command {
	var a asker
	var service, class, severity, reason string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "silence", Short: "keep matching incidents from being sent, for a while", Example: "  breakwater alert silence --service order --for 2h --reason \"planned move\"", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			body := map[string]any{"service": service, "env": a.set.env, "class": class, "severity": severity, "reason": reason, "until": time.Now().Add(lasts).UTC()}
			var s alert.Silence
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/silences", body, &s); done {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s holds until %s\n", s.ID, shortTime(s.Until))
			return fail(err)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&service, "service", "", "only of this service; empty: of all")
	f.StringVar(&class, "class", "", "errors, budget or silence; empty: all")
	f.StringVar(&severity, "severity", "", "the highest that is kept quiet: ticket, freeze or page; empty: all")
	f.StringVar(&reason, "reason", "", "why")
	f.DurationVar(&lasts, "for", time.Hour, "how long, up to 720h")
	return cmd
}

func alertTest(io streams) *cobra.Command {
	var a asker
	var receiver string
	cmd := &cobra.Command{
		Use: "test", Short: "send every receiver an incident that is none, and its end", Args: cobra.NoArgs,
		Long: "Exit code 1: a receiver did not take it.", Example: "  breakwater alert test",
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := ""
			if receiver != "" {
				q = "?receiver=" + url.QueryEscape(receiver)
			}
			var out struct{ Tried []alert.Tried }
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/alerts/test"+q, nil, &out); done {
				return err
			}
			var rows [][]string
			code := exitOK
			for _, t := range out.Tried {
				state := "took it"
				if !t.Sent {
					state, code = t.Error, exitNo
				}
				rows = append(rows, []string{t.Receiver, fmt.Sprintf("%d ms", t.TookMS), state})
			}
			if err := table(io.out, []string{"RECEIVER", "TOOK", "ANSWER"}, rows); err != nil {
				return fail(err)
			}
			return codeOnly(code)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&receiver, "receiver", "", "only this one, as route/receiver")
	return cmd
}
