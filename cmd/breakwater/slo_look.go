package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/report"
)

// stretch are the flags of a verb that looks at a stretch of time.
type stretch struct{ from, to string }

func (s *stretch) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.from, "from", "", "RFC 3339 instant; without it the beginning of the SLO's window")
	cmd.Flags().StringVar(&s.to, "to", "", "RFC 3339 instant; without it as far as data reaches")
}

func (s *stretch) query() url.Values {
	q := url.Values{}
	for name, value := range map[string]string{"from": s.from, "to": s.to} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return q
}

func sloWhy(io streams) *cobra.Command {
	var one oneSLO
	var when stretch
	cmd := &cobra.Command{
		Use: "why ID", Short: "what the failures of an SLO are put down to; the shares add up to 100 %",
		Example: "  breakwater slo why order-availability --from 2026-03-10T00:00:00Z", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out struct {
				Bad    int64            `json:"bad_events"`
				Causes []report.Portion `json:"causes"`
			}
			if done, err := one.ask(cmd, io, http.MethodGet, args[0], "/attribution", when.query(), nil, &out); done {
				return err
			}
			var rows [][]string
			for _, c := range out.Causes {
				rows = append(rows, []string{string(c.Kind), dash(c.Ref), slo.Share(c.Bad, out.Bad), slo.Count(c.Bad), clock(c.First), clock(c.Last), dash(c.Title)})
			}
			return fail(table(io.out, []string{"CAUSE", "REF", "SHARE", "FAILURES", "FIRST", "LAST", "TITLE"}, rows))
		},
	}
	one.flags(cmd)
	when.flags(cmd)
	return cmd
}

func clock(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return slo.Clock(*t)
}

func sloBacktest(io streams) *cobra.Command {
	var one oneSLO
	var when stretch
	asked := map[string]*string{}
	cmd := &cobra.Command{
		Use: "backtest ID", Short: "what another target, window or freeze policy would have done with what was counted",
		Long: "Replays the stored history, one evaluation a minute as far back as minutes are kept, else one an\n" +
			"hour. Each sees what was in its window then. Nothing is changed.",
		Example: "  breakwater slo backtest order-availability --target 99.9 --window 28d", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := when.query()
			for name, value := range asked {
				if *value != "" {
					q.Set(name, *value)
				}
			}
			var out report.Test
			if done, err := one.ask(cmd, io, http.MethodGet, args[0], "/backtest", q, nil, &out); done {
				return err
			}
			fmt.Fprintf(io.out, "%s %% over %s, %s to %s, one evaluation each %s\n%s valid, %s bad; %d freezes; at worst %s of the budget spent; %s left at the end\n\n",
				out.TargetPercent, slo.Span(time.Duration(out.WindowSeconds)*time.Second), slo.Clock(out.From), slo.Clock(out.To), slo.Span(time.Duration(out.StepSeconds)*time.Second),
				slo.Count(out.Valid), slo.Count(out.Bad), out.Freezes, slo.SpentPercent(out.WorstPPM), left(out.End))
			var rows [][]string
			for _, m := range out.Moves {
				rows = append(rows, []string{slo.Clock(m.At), string(m.From) + " -> " + string(m.To), slo.SpentPercent(m.SpentPPM), m.Reason})
			}
			for _, f := range out.Fires {
				rows = append(rows, []string{slo.Clock(f.From), f.Severity + " by rule " + f.Rule, slo.Count(f.Bad) + " failures", "until " + clock(f.To)})
			}
			return fail(table(io.out, []string{"AT", "WHAT", "HOW MUCH", "WHY"}, rows))
		},
	}
	one.flags(cmd)
	when.flags(cmd)
	for name, help := range map[string]string{
		"target": "another target, such as 99.9", "window": "another rolling window, such as 28d",
		"warn": "percent of the budget spent at which warn begins", "emergency": "at which emergency begins",
		"thaw": "percent of the budget that must be back", "hold": "for how long, such as 60m", "min_freeze": "how long a freeze lasts at least",
	} {
		asked[name] = cmd.Flags().String(name, "", help)
	}
	return cmd
}

func sloRecompute(io streams) *cobra.Command {
	var one oneSLO
	var dry bool
	cmd := &cobra.Command{
		Use: "recompute ID", Short: "add the window up again from its rows; --dry-run only says what would change",
		Long: "Sums that are not what their rows add up to are put right, with a row in the audit. Decisions that\n" +
			"were taken stay; those that today's figures would not repeat are listed. 1: something differs.",
		Example: "  breakwater slo recompute order-availability --dry-run", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out report.Recomputed
			q := url.Values{"dry_run": {strconv.FormatBool(dry)}}
			done, err := one.ask(cmd, io, http.MethodPost, args[0], "/recompute", q, nil, &out)
			if err != nil {
				return err
			}
			differs := func() error {
				if out.Changes {
					return exit(exitNo, nil)
				}
				return nil
			}
			if done {
				return differs()
			}
			verb := "put right"
			if dry {
				verb = "would be put right"
			}
			fmt.Fprintf(io.out, "%s minutes looked at; %d sums %s; %d decisions would differ\nshown: %s good, %s bad, %s left; recomputed: %s good, %s bad, %s left\n",
				slo.Count(out.Minutes), len(out.Wrong), verb, len(out.Decisions),
				slo.Count(out.Shown.Good), slo.Count(out.Shown.Bad), left(out.Shown), slo.Count(out.Fresh.Good), slo.Count(out.Fresh.Bad), left(out.Fresh))
			var rows [][]string
			for _, d := range out.Wrong {
				rows = append(rows, []string{slo.Clock(d.At), d.Span, fmt.Sprintf("%d good, %d bad", d.StoredGood, d.StoredBad), fmt.Sprintf("%d good, %d bad", d.Good, d.Bad)})
			}
			for _, d := range out.Decisions {
				rows = append(rows, []string{slo.Clock(d.At), string(d.From) + " -> " + string(d.To), fmt.Sprintf("%d good, %d bad, revision %d", d.ThenGood, d.ThenBad, d.ThenRevision),
					fmt.Sprintf("%d good, %d bad, revision %d: %s", d.Good, d.Bad, d.TodayRevision, d.Measured)})
			}
			if len(rows) > 0 {
				fmt.Fprintln(io.out)
				if err := table(io.out, []string{"AT", "WHAT", "STORED", "COUNTED"}, rows); err != nil {
					return fail(err)
				}
			}
			return differs()
		},
	}
	one.flags(cmd)
	cmd.Flags().BoolVar(&dry, "dry-run", false, "change nothing")
	return cmd
}

func sloCorrect(io streams) *cobra.Command {
	var one oneSLO
	var in report.Correction
	var from, to, mode, revoke string
	var list bool
	cmd := &cobra.Command{
		Use: "correct ID", Short: "take planned work out of a budget, with a reason; --list and --revoke",
		Long: "A correction removes its time (mode remove) or counts its failures as good (mode up). It is a row with\n" +
			"an author, stands in the audit, and is taken back with --revoke.",
		Example: "  breakwater slo correct order-availability --from 2026-03-10T22:00:00Z --to 2026-03-10T23:00:00Z --reason 'database upgrade'",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case list:
				var out struct{ Corrections []report.Correction }
				if done, err := one.ask(cmd, io, http.MethodGet, args[0], "/corrections", nil, nil, &out); done {
					return err
				}
				var rows [][]string
				for _, c := range out.Corrections {
					state := "in force"
					if c.RevokedAt != nil {
						state = "revoked by " + c.RevokedBy
					}
					rows = append(rows, []string{c.ID, slo.Clock(c.From), slo.Clock(c.To), string(c.Mode), state, c.Author, c.Reason})
				}
				return fail(table(io.out, []string{"ID", "FROM", "TO", "MODE", "STATE", "AUTHOR", "REASON"}, rows))
			case revoke != "":
				_, err := one.ask(cmd, io, http.MethodDelete, args[0], "/corrections/"+url.PathEscape(revoke), url.Values{"reason": {in.Reason}}, nil, nil)
				return err
			}
			var err error
			if in.From, err = time.Parse(time.RFC3339, from); err == nil {
				in.To, err = time.Parse(time.RFC3339, to)
			}
			if err != nil {
				return exit(exitUsage, fmt.Errorf("--from, --to: must be RFC 3339 instants such as 2026-03-10T12:00:00Z: %w", err))
			}
			in.Mode, in.Env = slo.CorrectionMode(mode), one.set.env
			var out report.Correction
			if done, err := one.ask(cmd, io, http.MethodPost, args[0], "/corrections", nil, in, &out); done {
				return err
			}
			_, err = fmt.Fprintf(io.out, "%s: %s to %s, mode %s\n", out.ID, slo.Clock(out.From), slo.Clock(out.To), out.Mode)
			return fail(err)
		},
	}
	one.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "first instant, RFC 3339")
	f.StringVar(&to, "to", "", "first instant after it")
	f.StringVar(&mode, "mode", "", "remove or up; without it remove for requests, up for time")
	f.StringVar(&in.Reason, "reason", "", "why; must be given")
	f.StringVar(&in.Ticket, "ticket", "", "where it is written down")
	f.BoolVar(&in.WholeService, "whole-service", false, "for every SLO of the service")
	f.StringVar(&revoke, "revoke", "", "id of a correction to take back")
	f.BoolVar(&list, "list", false, "list corrections")
	return cmd
}
