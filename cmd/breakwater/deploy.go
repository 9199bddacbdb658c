package main

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/spf13/cobra"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// deployRoutes are who may see what is under way, which pipelines tell of by
// /events/deploys, and how often freezes were passed; and who may put a policy in force.
func (c *control) deployRoutes(r chi.Router, asks func(http.Handler) http.Handler, desk *freeze.Desk) {
	r.With(asks).Get("/deploys", desk.Deploys(c.store))
	r.With(asks).Get("/freezes/overrides", desk.OverrideQuarters(c.store))
	r.With(c.guard.Require(auth.Viewer)).Get("/policies", desk.Policies)
	r.With(c.guard.Require(auth.Admin)).Post("/policies", desk.SavePolicy(policyShelf{c}))
}

// tellDeploy tells control that a deploy began, ended or failed.
func tellDeploy(cmd *cobra.Command, io streams, set *settings, service, ref, what string, lasts time.Duration) error {
	if ref == "" {
		return exit(exitUsage, fmt.Errorf("--ref: must name the commit or artefact that --tell is about"))
	}
	body := map[string]any{"service": service, "env": set.env, "ref": ref}
	switch what {
	case "begin":
		body["phase"], body["lasts_seconds"] = "begin", int64(lasts/time.Second)
		var d slo.Deploy
		if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/events/deploys", body, &d); err != nil {
			return err
		}
		_, err := fmt.Fprintf(io.out, "%s: the deploy of %s %s is under way, until %s if nobody tells of its end\n", d.ID, d.Service, short(d.Ref), shortTime(d.Until))
		return fail(err)
	case "end":
		body["phase"], body["outcome"] = "end", slo.DeploySucceeded
	default:
		body["phase"], body["outcome"] = "end", slo.DeployFailed
	}
	var out struct{ Ended int }
	if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/events/deploys", body, &out); err != nil {
		return err
	}
	text := "noted; it held no slot any more"
	if out.Ended > 0 {
		text = "noted; its slot is free"
	}
	_, err := fmt.Fprintln(io.out, text)
	return fail(err)
}

// deploysTable prints the caps that hold and the deploys under way.
func deploysTable(io streams, list []slo.Deploy, caps []freeze.CapState) error {
	var rows [][]string
	for _, c := range caps {
		state := fmt.Sprintf("%d of %d taken", c.Taken, c.AtMost)
		if c.DryRun {
			state += ", dry run"
		}
		rows = append(rows, []string{c.Service, c.Env, c.Text, state, c.Policy})
	}
	if len(rows) > 0 {
		fmt.Fprintln(io.out)
		if err := table(io.out, []string{"SERVICE", "ENV", "CAP ON DEPLOYS", "SLOTS", "POLICY"}, rows); err != nil {
			return err
		}
	}
	rows = nil
	for _, d := range list {
		if d.Live(time.Now()) {
			rows = append(rows, []string{d.ID, d.Service, dash(d.Env), dash(short(d.Ref)), d.By, shortTime(d.Begun), shortTime(d.Until)})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	fmt.Fprintln(io.out)
	return table(io.out, []string{"DEPLOY", "SERVICE", "ENV", "REF", "BY", "SINCE", "AT THE LATEST UNTIL"}, rows)
}
