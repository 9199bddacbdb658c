package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/gate"
)

func newGate(io streams) *cobra.Command {
	var set settings
	var kind, ref, output, onUnknown, incident, attestation, tell string
	var lasts time.Duration
	var memory gateMemory
	var wait time.Duration
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "gate SERVICE",
		Short: "ask whether a release of a service may go out now",
		Long: "Asks the release gate. Exit code 0: allow, 1: deny, 2: no such kind or flag, 3: hold,\n" +
			"4: unknown (no data, no such service, token not accepted, control unreachable) unless\n" +
			"--on-unknown settles it, which is then said. While control is away, its last signed answer\n" +
			"to the very same question stands in for as long as that answer says, 15 minutes by default.\n" +
			"With --dry-run the answer and the exit code are the same, but control keeps no decision and\n" +
			"no override is used. Where a policy caps deploys an allow holds a slot until --tell says that\n" +
			"the deploy of the same --ref is over, or its lease ends.",
		Example: "  breakwater gate order --kind feature --ref \"$GIT_SHA\"\n" +
			"  breakwater gate order --env prod --ref \"$GIT_SHA\" --wait 30m\n" +
			"  breakwater gate order --env prod --ref \"$GIT_SHA\" --tell end",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			if err := oneOf("on-unknown", onUnknown, "", "allow", "deny"); err != nil {
				return err
			}
			if err := set.checkControl(); err != nil {
				return err
			}
			if err := oneOf("tell", tell, "", "begin", "end", "failed"); err != nil {
				return err
			}
			if tell != "" {
				return tellDeploy(cmd, io, &set, args[0], ref, tell, lasts)
			}
			r := gate.Request{Service: args[0], Env: set.env, Kind: gate.Kind(kind), Ref: ref, Incident: incident, Attestation: attestation, DryRun: dryRun}
			if wait < 0 {
				return exit(exitUsage, fmt.Errorf("--wait: must be a duration such as 30m, got %s", wait))
			}
			d, err := memory.askGate(cmd.Context(), io, &set, r, wait, waitEvery)
			code := gate.ExitCode(d, err, onUnknown)
			settled := ""
			if onUnknown != "" && code != exitUsage && (err != nil || d.Decision == gate.Unclear) {
				settled = "unknown, settled as " + onUnknown + " by --on-unknown"
			}
			if err != nil {
				fmt.Fprintf(io.err, "breakwater: no decision: %v\n", err)
				if settled != "" {
					fmt.Fprintf(io.err, "breakwater: %s\n", settled)
				}
				return codeOnly(code)
			}
			if output == "json" {
				if settled != "" { // the document stays what control answered
					fmt.Fprintf(io.err, "breakwater: %s\n", settled)
				}
				if err := printJSON(io.out, d); err != nil {
					return exit(exitInternal, err)
				}
				return codeOnly(code)
			}
			fmt.Fprintf(io.out, "%s  %s is %s\n", strings.ToUpper(string(d.Decision)), args[0], d.State)
			for _, r := range d.Reasons {
				fmt.Fprintf(io.out, "  %s\n", r)
			}
			if settled != "" {
				fmt.Fprintf(io.out, "  %s\n", settled)
			}
			if d.ThawAt != nil {
				fmt.Fprintf(io.out, "  thaws %s (in %s) if nothing else fails\n",
					d.ThawAt.UTC().Format("Mon 2 Jan 15:04 UTC"), time.Until(*d.ThawAt).Round(time.Minute))
			}
			return codeOnly(code)
		},
	}
	f := cmd.Flags()
	set.clientFlags(f)
	f.StringVar(&kind, "kind", "feature", "what goes out: "+kindNames())
	f.StringVar(&ref, "ref", "", "the commit or artefact that goes out")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	f.StringVar(&incident, "incident", "", "the declared incident that a reliability_fix is for")
	f.StringVar(&attestation, "attestation", "", "what breakwater freeze attest printed for this change")
	memory.flags(f)
	f.DurationVar(&wait, "wait", 0, "ask again until the answer is allow, for so long at most; then the last answer holds")
	f.BoolVar(&dryRun, "dry-run", false, "only ask: no decision is kept, no override is used; the exit code is as without it")
	f.StringVar(&tell, "tell", "", "do not ask: tell that the deploy of --ref did begin, end, or failed")
	f.DurationVar(&lasts, "lasts", slo.DeployLasts, "with --tell begin: for how long it counts as under way if nobody tells of its end")
	f.StringVar(&onUnknown, "on-unknown", "", "settle an unknown answer: allow or deny")
	return cmd
}

// codeOnly ends a verb whose result is already printed.
func codeOnly(code int) error {
	if code == exitOK {
		return nil
	}
	return exit(code, nil)
}

func kindNames() string {
	var names []string
	for _, k := range gate.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}
