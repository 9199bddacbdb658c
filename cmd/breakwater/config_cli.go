package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"breakwater/internal/store"
	"breakwater/web"
)

func newConfig(io streams) *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "what the documents of control were, what changed, and back to an earlier state"}
	cmd.AddCommand(configLs(io), configShow(io), configDiff(io), configRollback(io))
	return cmd
}

func configLs(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "ls", Short: "list the revisions of the documents, newest first", Example: "  breakwater config ls", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var list struct{ Revisions []web.DocumentRevision }
			if done, err := a.ask(cmd, io, http.MethodGet, "/api/v1/config/revisions", nil, &list); done {
				return err
			}
			var rows [][]string
			for _, r := range list.Revisions {
				rows = append(rows, []string{strconv.FormatInt(r.Number, 10), shortTime(r.At), stateOf(r), howOf(r), r.By, dash(r.Gateway), dash(r.Reason)})
			}
			return fail(table(io.out, []string{"REVISION", "AT", "STATE", "HOW", "BY", "GATEWAYS CALL IT", "REASON"}, rows))
		},
	}
	a.flags(cmd)
	return cmd
}

func stateOf(r web.DocumentRevision) string {
	switch {
	case r.InPlace && len(r.Mistakes) > 0:
		return "in place, has mistakes"
	case r.InPlace:
		return "in place"
	case len(r.Mistakes) > 0:
		return "has mistakes"
	}
	return "earlier"
}

func howOf(r web.DocumentRevision) string {
	switch r.How {
	case store.DocumentsWritten:
		return "written by a page"
	case store.DocumentsRolledBack:
		return fmt.Sprintf("roll back to %d", r.Restores)
	}
	return "found on disk"
}

// revisionArg reads the number of a revision.
func revisionArg(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 {
		return 0, exit(exitUsage, fmt.Errorf("REVISION: must be a number that config ls shows, got %q", text))
	}
	return n, nil
}

func configShow(io streams) *cobra.Command {
	var a asker
	var dir string
	cmd := &cobra.Command{
		Use: "show REVISION", Short: "print the documents of a revision, or write them into an empty directory",
		Long: "Prints the files one after the other, each under a comment with its name. With --dir\n" +
			"they are written as files: to be put back by hand where control itself may not write.",
		Example: "  breakwater config show 12\n  breakwater config show 12 --dir ./r12", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := revisionArg(args[0])
			if err != nil {
				return err
			}
			var d store.Documents
			if done, err := a.ask(cmd, io, http.MethodGet, fmt.Sprintf("/api/v1/config/revisions/%d", number), nil, &d); done {
				return err
			}
			if dir != "" {
				return saveDocuments(io, dir, d.Files)
			}
			for _, f := range d.Files {
				if _, err := fmt.Fprintf(io.out, "# %s\n%s---\n", f.Name, withNewline(f.Text)); err != nil {
					return fail(err)
				}
			}
			return nil
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&dir, "dir", "", "a directory to write them to; it must be empty, or is made")
	return cmd
}

func withNewline(text string) string {
	if strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// saveDocuments never writes over a file: the directory is ours alone.
func saveDocuments(io streams, dir string, files []store.DocumentFile) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return exit(exitInternal, err)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) > 0 {
		return exit(exitUsage, errors.Join(fmt.Errorf("--dir: %s must be empty", dir), err))
	}
	for _, f := range files {
		if f.Name != filepath.Base(f.Name) || strings.HasPrefix(f.Name, ".") {
			return exit(exitUnknown, fmt.Errorf("control's answer has a file called %q", f.Name))
		}
		if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(f.Text), 0o644); err != nil {
			return exit(exitInternal, err)
		}
	}
	_, err := fmt.Fprintf(io.out, "%d files in %s\n", len(files), dir)
	return fail(err)
}

func configDiff(io streams) *cobra.Command {
	var a asker
	cmd := &cobra.Command{
		Use: "diff REVISION", Short: "what a roll back to a revision would change now",
		Long: "Compares the documents that are in place with those of a revision. Exit code 0: it could\n" +
			"be put back, or is in place; 1: it has mistakes, or control may not write there.",
		Example: "  breakwater config diff 12", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := revisionArg(args[0])
			if err != nil {
				return err
			}
			var c web.DocumentChange
			if done, err := a.ask(cmd, io, http.MethodGet, fmt.Sprintf("/api/v1/config/revisions/%d/changes", number), nil, &c); done {
				return err
			}
			return printChange(io, c)
		},
	}
	a.flags(cmd)
	return cmd
}

// printChange writes what would change; an error says why it cannot.
func printChange(io streams, c web.DocumentChange) error {
	if len(c.Files) == 0 {
		_, err := fmt.Fprintf(io.out, "revision %d is in place: nothing differs\n", c.Revision.Number)
		return fail(err)
	}
	for _, f := range c.Files {
		fmt.Fprintf(io.out, "%s: %s, %d lines more, %d lines less\n", f.Name, f.What, f.Added, f.Removed)
		for _, l := range f.Lines {
			fmt.Fprintf(io.out, "%s %s\n", l.Mark, l.Text)
		}
	}
	if len(c.Mistakes) > 0 {
		return exit(exitNo, fmt.Errorf("revision %d has mistakes:\n%s", c.Revision.Number, strings.Join(c.Mistakes, "\n")))
	}
	if c.Closed != "" {
		return exit(exitNo, errors.New(c.Closed))
	}
	return nil
}

func configRollback(io streams) *cobra.Command {
	var a asker
	var reason string
	var yes bool
	cmd := &cobra.Command{
		Use: "rollback REVISION", Short: "put the documents of a revision back, as a new revision",
		Long: "Shows what changes. With --yes the files of control are written as they were; gateways\n" +
			"that follow them take it within seconds. Doing it twice is doing it once. It takes an admin.\n" +
			"Exit code 0: done, or in place already; 1: refused, with the mistakes of the revision or because\n" +
			"the documents changed meanwhile; 2: no --yes, nothing was written.",
		Example: "  breakwater config rollback 12 --reason \"timeouts of r13 were too short\" --yes", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := revisionArg(args[0])
			if err != nil {
				return err
			}
			if err := checkOutput(a.output); err != nil {
				return err
			}
			if why := web.ReasonRule(reason); why != "" {
				return exit(exitUsage, fmt.Errorf("--reason: %s", why))
			}
			var c web.DocumentChange
			if err := a.set.call(cmd.Context(), http.MethodGet, fmt.Sprintf("/api/v1/config/revisions/%d/changes", number), nil, &c); err != nil {
				return err
			}
			if a.output == "table" {
				if err := printChange(io, c); err != nil {
					return err
				}
			}
			if !yes && len(c.Files) > 0 {
				return exit(exitUsage, errors.New("--yes: must be given to write this; nothing was written"))
			}
			var made rolledBack
			if done, err := a.ask(cmd, io, http.MethodPost, "/api/v1/config/rollback", rollBackAsk{number, c.Newest, reason}, &made); done {
				return err
			}
			if !made.Changed {
				return nil
			}
			_, err = fmt.Fprintf(io.out, "revision %d is put back, as revision %d\n", number, made.Revision.Number)
			return fail(err)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, in 10 bytes or more; it stands in the audit and beside the revision")
	cmd.Flags().BoolVar(&yes, "yes", false, "write it; without it only what would change is shown")
	return cmd
}
