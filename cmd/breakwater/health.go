package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/report"
)

func newHealth(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "health", Short: "how well retries serve each upstream, and what would make them better"}
	cmd.AddCommand(healthLs(io), healthAudit(io))
	return cmd
}

// healthAsk are the flags of both verbs.
type healthAsk struct {
	asker
	window  string
	reasons bool
}

func (a *healthAsk) flags(cmd *cobra.Command) {
	a.asker.flags(cmd)
	cmd.Flags().StringVar(&a.window, "window", "1h", "how far back to count, 5m to 24h")
}

func (a *healthAsk) ask(cmd *cobra.Command, upstream string, audit bool) (reply json.RawMessage, out report.Scores, err error) {
	q := url.Values{"window": {a.window}}
	for name, value := range map[string]string{"env": a.set.env, "upstream": upstream} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if audit {
		q.Set("audit", "true")
	}
	if reply, err = a.raw(cmd, http.MethodGet, "/api/v1/health-scores?"+q.Encode(), nil); err != nil {
		return nil, out, err
	}
	return reply, out, understand(reply, &out)
}

func healthLs(io streams) *cobra.Command {
	var ask healthAsk
	cmd := &cobra.Command{
		Use: "ls [UPSTREAM]", Short: "health scores of upstreams, with what was taken off and for what",
		Example: "  breakwater health ls\n  breakwater health ls points --window 6h --reasons", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			reply, out, err := ask.ask(cmd, first(args), false)
			if err != nil {
				return err
			}
			if ask.output == "json" {
				return fail(printJSON(io.out, reply))
			}
			var rows [][]string
			for _, h := range out.Scores {
				rows = append(rows, []string{h.Upstream, dash(h.Env), scoreText(h.ScorePPM, h.State), healthState(h), slo.Count(h.Counts.Requests),
					slo.Share(h.Counts.Retried, h.Counts.Requests), slo.Share(h.Counts.Recovered, h.Counts.Recovered+h.Counts.Failed), slo.Share(h.Counts.Retries, h.Counts.Requests),
					off(h.Deducted)})
				if !ask.reasons {
					continue
				}
				for _, r := range h.Reasons {
					rows = append(rows, []string{fmt.Sprintf("  %d", r.Status), "", scoreText(r.ScorePPM, slo.HealthScored), r.Reason, "",
						slo.Share(r.Counts.Retried, r.Counts.Requests), slo.Share(r.Counts.Recovered, r.Counts.Recovered+r.Counts.Failed), slo.Share(r.Counts.Retries, r.Counts.Requests),
						off(r.Deducted)})
				}
			}
			return fail(table(io.out, []string{"UPSTREAM", "ENV", "SCORE", "STATE", "REQUESTS", "RETRIED", "RECOVERED", "EXTRA LOAD", "TAKEN OFF"}, rows))
		},
	}
	ask.flags(cmd)
	cmd.Flags().BoolVar(&ask.reasons, "reasons", false, "with a line for each status and decision reason")
	return cmd
}

func healthAudit(io streams) *cobra.Command {
	var ask healthAsk
	cmd := &cobra.Command{
		Use: "audit [UPSTREAM]", Short: "what to change where a score is below 0.85, and the numbers that say so",
		Long: "Looks at the retry policy, at fields that policies rely on and that do not come, at which retries\n" +
			"recover, and at how long answers take. 1: a score is below the line, 4: there is no score.",
		Example: "  breakwater health audit points", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			reply, out, err := ask.ask(cmd, first(args), true)
			if err != nil {
				return err
			}
			code := exitUnknown
			for _, h := range out.Scores {
				switch {
				case h.ScorePPM == nil:
				case !h.Healthy:
					code = exitNo
				case code == exitUnknown:
					code = exitOK
				}
			}
			if ask.output == "json" {
				if err := printJSON(io.out, reply); err != nil {
					return fail(err)
				}
				return codeOnly(code)
			}
			for _, h := range out.Scores {
				if h.ScorePPM == nil || h.Healthy {
					continue
				}
				if _, err := fmt.Fprintf(io.out, "%s in %s scores %s: %s\n", h.Upstream, dash(h.Env), scoreText(h.ScorePPM, h.State), off(h.Deducted)); err != nil {
					return fail(err)
				}
				for _, a := range h.Audit {
					fmt.Fprintf(io.out, "\n  %s: %s\n", a.Subject, advice(a))
					fmt.Fprintf(io.out, "    %s.\n", a.Why)
				}
				fmt.Fprintln(io.out)
			}
			if code == exitUnknown {
				return exit(exitUnknown, fmt.Errorf("there is no health score: nothing was counted in the last %s", ask.window))
			}
			if code == exitOK {
				_, err = fmt.Fprintf(io.out, "nothing to advise: no score is below 0.85\n")
				return fail(err)
			}
			return codeOnly(code)
		},
	}
	ask.flags(cmd)
	return cmd
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func scoreText(ppm *int64, state slo.Scored) string {
	if ppm == nil {
		return string(state)
	}
	return fmt.Sprintf("%d.%04d", *ppm/1_000_000, *ppm%1_000_000/100)
}

func healthState(h report.Health) string {
	switch {
	case h.ScorePPM == nil:
		return string(h.State)
	case h.Alarm:
		return "alarm"
	case !h.Sure:
		return "too few requests"
	case !h.Healthy:
		return "below 0.85"
	}
	return "healthy"
}

// off says what was taken off, most first by how the score weighs it.
func off(d report.HealthParts) string {
	if d.Trigger+d.Useless+d.Load == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%s retried often, %s in vain, %s extra load", slo.Ratio(d.Trigger), slo.Ratio(d.Useless), slo.Ratio(d.Load))
}

func advice(a report.Advice) string {
	s := a.Should
	if a.Now != "" {
		s = a.Now + " -> " + s
	}
	if a.ScorePPM != nil {
		s += fmt.Sprintf(" (the score would have been %s)", scoreText(a.ScorePPM, slo.HealthScored))
	}
	return s
}
