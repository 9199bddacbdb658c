package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/slo"
	"breakwater/slo/freeze"
)

func newFreeze(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "freeze", Short: "list freezes, freeze by hand, ask for and grant overrides"}
	cmd.AddCommand(freezeLs(io), freezeOn(io), freezeOff(io), freezeOverride(io), freezeGrant(io), freezeRevoke(io), freezeOverrides(io), freezeAttest(io))
	return cmd
}

func freezeLs(io streams) *cobra.Command {
	var a asker
	var all bool
	cmd := &cobra.Command{
		Use: "ls [SERVICE]", Short: "list what is frozen, by budget or by hand, and its overrides", Example: "  breakwater freeze ls", Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := url.Values{}
			if len(args) == 1 {
				q.Set("service", args[0])
			}
			if all {
				q.Set("all", "1")
			}
			var list struct{ Freezes []freeze.Freeze }
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/freezes?"+q.Encode(), nil, &list); done {
				return err
			}
			var rows, overrides [][]string
			for _, f := range list.Freezes {
				state, thaw := string(f.State), time.Time{}
				if f.ThawAt != nil {
					thaw = *f.ThawAt
				}
				for _, o := range f.Orders {
					state += fmt.Sprintf(", by hand %s (%s: %s)", o.ID, o.By, o.Reason)
				}
				rows = append(rows, []string{f.Service, dash(f.Env), state, shortTime(thaw), dash(f.Policy), passNames(f.Passes)})
				for _, o := range f.Overrides {
					overrides = append(overrides, []string{o.ID, o.Service, short(o.Ref), o.State(time.Now()), fmt.Sprintf("%d/%d", o.Used, o.MaxUses), shortTime(o.ExpiresAt), o.AskedBy, dash(o.GrantedBy), o.Ticket})
				}
			}
			if err := table(io.out, []string{"SERVICE", "ENV", "STATE", "THAWS", "POLICY", "MAY PASS"}, rows); err != nil {
				return fail(err)
			}
			var held struct{ Measures []freeze.Shown }
			if err := a.set.call(cmd.Context(), http.MethodGet, "/api/v1/measures?"+q.Encode(), nil, &held); err != nil {
				return err
			}
			if err := measuresTable(io, held.Measures); err != nil {
				return fail(err)
			}
			var under struct {
				Deploys []slo.Deploy
				Caps    []freeze.CapState
			}
			if err := a.set.call(cmd.Context(), http.MethodGet, "/api/v1/deploys?"+q.Encode(), nil, &under); err != nil {
				return err
			}
			if err := deploysTable(io, under.Deploys, under.Caps); err != nil || len(overrides) == 0 {
				return fail(err)
			}
			fmt.Fprintln(io.out)
			return fail(table(io.out, []string{"OVERRIDE", "SERVICE", "REF", "STATE", "USED", "EXPIRES", "ASKED BY", "GRANTED BY", "TICKET"}, overrides))
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "services that are not frozen, too")
	return cmd
}

func passNames(passes []freeze.Pass) string {
	var names []string
	for _, p := range passes {
		names = append(names, string(p.Kind))
	}
	return dash(strings.Join(names, ","))
}

func short(ref string) string {
	if len(ref) > 20 {
		return ref[:17] + "..."
	}
	return ref
}

func freezeOn(io streams) *cobra.Command {
	var a asker
	var reason, ticket string
	var lasts time.Duration
	cmd := &cobra.Command{
		Use: "on SERVICE", Short: "freeze releases of a service by hand, whatever its budget", Example: "  breakwater freeze on order --reason \"sale day\" --for 12h", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"env": a.set.env, "reason": reason, "ticket": ticket}
			if lasts > 0 {
				body["until"] = time.Now().Add(lasts).UTC()
			}
			var o freeze.Order
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/freezes/"+url.PathEscape(args[0]), body, &o); done {
				return err
			}
			until := "until it is taken back"
			if o.Until != nil {
				until = "until " + shortTime(*o.Until)
			}
			_, err := fmt.Fprintf(io.out, "%s: %s is frozen %s\n", o.ID, o.Service, until)
			return fail(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is shown to whoever is held up")
	cmd.Flags().StringVar(&ticket, "ticket", "", "incident or ticket")
	cmd.Flags().DurationVar(&lasts, "for", 0, "how long; 0: until it is taken back")
	return cmd
}

func freezeOff(io streams) *cobra.Command {
	var a asker
	var id string
	cmd := &cobra.Command{
		Use: "off SERVICE", Short: "take freezes by hand back", Args: cobra.ExactArgs(1),
		Long: "A freeze of the budget ends by itself when enough of it is back; a single change passes\n" +
			"it by an override. Exit code 1: no freeze by hand holds.",
		Example: "  breakwater freeze off order",
		RunE: func(cmd *cobra.Command, args []string) error {
			q := ""
			if id != "" {
				q = "?id=" + url.QueryEscape(id)
			}
			var out struct{ Ended []string }
			if done, err := a.ask(cmd, io, http.MethodDelete, "/api/v1/freezes/"+url.PathEscape(args[0])+q, nil, &out); done {
				return err
			}
			_, err := fmt.Fprintf(io.out, "ended %s\n", strings.Join(out.Ended, ", "))
			return fail(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&id, "id", "", "only this one")
	return cmd
}

func freezeOverride(io streams) *cobra.Command {
	var a asker
	var ref, reason, ticket string
	var lasts time.Duration
	var uses int64
	cmd := &cobra.Command{
		Use: "override SERVICE", Short: "ask to let one commit or artefact through a freeze; somebody else grants it",
		Example: "  breakwater freeze override order --env prod --ref \"$GIT_SHA\" --reason \"customers cannot pay\" --ticket INC-7", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]any{"env": a.set.env, "ref": ref, "reason": reason, "ticket": ticket, "max_uses": uses, "expires_at": time.Now().Add(lasts).UTC()}
			var o freeze.Override
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/freezes/"+url.PathEscape(args[0])+"/override", body, &o); done {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s is asked for. Somebody else grants it with\n  breakwater freeze grant %s %s\n", o.ID, o.Service, o.ID)
			return fail(err)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&ref, "ref", "", "the commit or artefact that is to go out, and nothing else")
	f.StringVar(&reason, "reason", "", "why, in 10 bytes or more")
	f.StringVar(&ticket, "ticket", "", "incident or ticket")
	f.DurationVar(&lasts, "for", time.Hour, "how long, up to 24h")
	f.Int64Var(&uses, "uses", 1, "how often it may be used, up to 20")
	return cmd
}

func freezeGrant(io streams) *cobra.Command {
	return overrideVerb(io, "grant", "grant an override that somebody else asked for; needs the role approver", "granted")
}

func freezeRevoke(io streams) *cobra.Command {
	return overrideVerb(io, "revoke", "take an override back", "revoked")
}

func overrideVerb(io streams, verb, what, past string) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: verb + " SERVICE ID", Short: what, Example: "  breakwater freeze " + verb + " order o-0123456789abcdef", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var o freeze.Override
			path := "/api/v1/freezes/" + url.PathEscape(args[0]) + "/override/" + url.PathEscape(args[1]) + "/" + verb
			if done, err := a.ask(cmd, io, http.MethodPost, path, nil, &o); done {
				return err
			}
			_, err := fmt.Fprintf(io.out, "%s is %s: %s of %s, until %s, %d of %d uses left\n", o.ID, past, o.Ref, o.Service, shortTime(o.ExpiresAt), o.MaxUses-o.Used, o.MaxUses)
			return fail(err)
		},
	}
	a.flags(cmd)
	return cmd
}

func freezeAttest(io streams) *cobra.Command {
	var a asker
	var kind, ref string
	cmd := &cobra.Command{
		Use: "attest SERVICE", Short: "sign that one change is of one kind, for an annotation or gate --attestation",
		Example: "  breakwater freeze attest order --env prod --kind security_fix --ref \"$GIT_SHA\"", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var out struct{ Attestation string }
			body := map[string]any{"env": a.set.env, "kind": kind, "ref": ref}
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/freezes/"+url.PathEscape(args[0])+"/attest", body, &out); done {
				return err
			}
			_, err := fmt.Fprintln(io.out, out.Attestation)
			return fail(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&kind, "kind", "", "what it is: "+kindNames())
	cmd.Flags().StringVar(&ref, "ref", "", "the commit or artefact")
	return cmd
}
