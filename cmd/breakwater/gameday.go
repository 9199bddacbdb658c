package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/injector/gameday"
)

// heldDay is what the verbs show of a game day; the API has more.
type heldDay struct {
	ID, Name, Title, Hash, State, Stopped string
	Needs                                 int       `json:"needs_approvals"`
	PlannedAt                             time.Time `json:"planned_at"`
	Approvals                             []struct {
		Actor  string
		Counts bool
	}
}

// agreed counts the approvals that are of the content it would run.
func (h heldDay) agreed() (n int) {
	for _, a := range h.Approvals {
		if a.Counts {
			n++
		}
	}
	return n
}

func newGameday(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "gameday", Short: "list game days, say when they come, start, approve and stop them, write notes, send the report"}
	cmd.AddCommand(gamedayLs(io), gamedayNext(io), gamedayRun(io), gamedayApprove(io), gamedayAbort(io), gamedayNote(io), gamedayReport(io))
	return cmd
}

func gamedayLs(io streams) *cobra.Command {
	var a asker
	var held bool
	cmd := &cobra.Command{
		Use: "ls", Short: "list the schedules, or what is and was held", Example: "  breakwater gameday ls\n  breakwater gameday ls --held", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if held {
				return gamedayHeld(cmd, io, &a)
			}
			var list struct {
				Days []struct {
					Name, Title, Cron, Zone string
					NextAt                  time.Time `json:"next_at"`
					LastRun                 string    `json:"last_run"`
				} `json:"gamedays"`
			}
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/gamedays", nil, &list); done {
				return err
			}
			var rows [][]string
			for _, d := range list.Days {
				rows = append(rows, []string{d.Name, d.Title, d.Cron + " " + d.Zone, shortTime(d.NextAt), dash(d.LastRun)})
			}
			return fail(table(io.out, []string{"GAME DAY", "TITLE", "SCHEDULE", "NEXT", "LAST RUN"}, rows))
		},
	}
	a.flags(cmd)
	cmd.Flags().BoolVar(&held, "held", false, "those that come, run and were held, newest first")
	return cmd
}

func gamedayHeld(cmd *cobra.Command, io streams, a *asker) error {
	var list struct{ Held []heldDay }
	if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/gamedays/held", nil, &list); done {
		return err
	}
	var rows [][]string
	for _, h := range list.Held {
		rows = append(rows, []string{h.ID, h.Name, shortTime(h.PlannedAt), strings.ReplaceAll(h.State, "_", " "), fmt.Sprintf("%d/%d", h.agreed(), h.Needs), dash(h.Stopped)})
	}
	return fail(table(io.out, []string{"ID", "GAME DAY", "PLANNED", "STATE", "AGREED", "ENDED EARLY"}, rows))
}

func gamedayNext(io streams) *cobra.Command {
	var a asker
	var n int
	cmd := &cobra.Command{
		Use: "next NAME", Short: "say when a game day comes, in its zone and in UTC", Example: "  breakwater gameday next weekly-small-drill", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var p gameday.Preview
			if done, err := a.ask(cmd, io, http.MethodGet, fmt.Sprintf("/api/v1/gamedays/%s/next?n=%d", url.PathEscape(args[0]), n), nil, &p); done {
				return err
			}
			fmt.Fprintf(io.out, "%s: %s\n", p.Name, p.Words)
			var rows [][]string
			for _, c := range p.Coming {
				note := c.Note
				if c.Skipped != "" {
					note = "will be skipped: " + strings.ReplaceAll(c.Skipped, "_", " ")
				}
				rows = append(rows, []string{c.Local, shortTime(c.UTC), dash(note)})
			}
			return fail(table(io.out, []string{"LOCAL", "UTC", "NOTE"}, rows))
		},
	}
	a.flags(cmd)
	cmd.Flags().IntVarP(&n, "number", "n", 5, "how many, up to 100")
	return cmd
}

// gamedayAct is a verb that does one thing to a game day and says how it stands.
func gamedayAct(io streams, use, short, example string, ask func(name string) (path string, body any)) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example, Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var h heldDay
			path, body := ask(args[0])
			if done, err := a.ask(cmd, io, http.MethodPost, path, body, &h); done {
				return err
			}
			return fail(sayHeld(io, h))
		},
	}
	a.flags(cmd)
	return cmd
}

func sayHeld(io streams, h heldDay) error {
	_, err := fmt.Fprintf(io.out, "%s %s, %d of %d approvals\n", h.ID, strings.ReplaceAll(h.State, "_", " "), h.agreed(), h.Needs)
	return err
}

func gamedayRun(io streams) *cobra.Command {
	return gamedayAct(io, "run NAME", "hold a game day now", "  breakwater gameday run weekly-small-drill", func(name string) (string, any) {
		return "/api/v1/gamedays", map[string]string{"gameday": name}
	})
}

func gamedayAbort(io streams) *cobra.Command {
	return gamedayAct(io, "abort ID", "stop all of a game day, or call the next one off", "  breakwater gameday abort weekly-small-drill", func(id string) (string, any) {
		return "/api/v1/gamedays/" + url.PathEscape(id) + "/abort", struct{}{}
	})
}

func gamedayApprove(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "approve ID", Short: "agree to a game day as it stands; never to one's own",
		Long:    "Takes the id of one that is held, or a name: the one under way, else the next. What is agreed\nto is its content by now; when documents change before it begins, it counts no more.",
		Example: "  breakwater gameday approve weekly-small-drill", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/api/v1/gamedays/" + url.PathEscape(args[0])
			var seen heldDay
			if err := a.set.call(cmd.Context(), http.MethodGet, path, nil, &seen); err != nil {
				return err
			}
			var h heldDay
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/gamedays/"+url.PathEscape(seen.ID)+"/approve", map[string]string{"hash": seen.Hash}, &h); done {
				return err
			}
			return fail(sayHeld(io, h))
		},
	}
	a.flags(cmd)
	return cmd
}

func gamedayNote(io streams) *cobra.Command {
	var set settings
	var debrief bool
	cmd := &cobra.Command{
		Use: "note ID TEXT", Short: "write a line into the timeline, or the debrief", Example: "  breakwater gameday note weekly-small-drill \"the pager stayed quiet\"", Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			body := map[string]string{"kind": "note", "text": args[1]}
			if debrief {
				body["kind"] = "debrief"
			}
			return set.call(cmd.Context(), http.MethodPost, "/api/v1/gamedays/"+url.PathEscape(args[0])+"/notes", body, nil)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().BoolVar(&debrief, "debrief", false, "what was learned, for the report")
	return cmd
}

func gamedayReport(io streams) *cobra.Command {
	var set settings
	var format, file string
	cmd := &cobra.Command{
		Use: "report ID", Short: "write what happened as one file for people who were not there", Args: cobra.ExactArgs(1),
		Example: "  breakwater gameday report g-1a2b3c-0a1b2c --format html --file gameday.html",
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != "html" && format != "md" {
				return exit(exitUsage, fmt.Errorf("--format: must be html or md, got %q", format))
			}
			var text []byte
			path := "/api/v1/gamedays/" + url.PathEscape(args[0]) + "/report?format=" + format
			if err := set.call(cmd.Context(), http.MethodGet, path, nil, &text); err != nil {
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
	cmd.Flags().StringVar(&format, "format", "md", "html or md")
	cmd.Flags().StringVar(&file, "file", "", "where to write it; empty: standard output")
	return cmd
}
