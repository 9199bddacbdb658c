package main

import (
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"breakwater/injector/foreign"
	"breakwater/internal/conf"
)

func experimentImport(io streams) *cobra.Command {
	var from, out string
	var opt foreign.Options
	var strict bool
	cmd := &cobra.Command{
		Use: "import FILE", Short: "make scenarios of an experiment of Chaos Toolkit, or of toxics of Toxiproxy",
		Long: "Reads a file, or standard input for -, and prints scenarios. What of it is not carried, or means something else\n" +
			"here, is told line by line on standard error. Nothing in it is ever run.\n\n" +
			"Exit code: 0 done, 1 it cannot be read, 3 something was lost and --strict was given.",
		Example: "  breakwater experiment import experiment.json --from chaostoolkit --service points\n  breakwater experiment import toxics.json --from toxiproxy --out ./config",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("from", from, "chaostoolkit", "toxiproxy"); err != nil {
				return err
			}
			f, err := readDocument(io, args[0])
			if err != nil {
				return err
			}
			read := foreign.ChaosToolkit
			if from == "toxiproxy" {
				read = foreign.Toxiproxy
			}
			in, err := read(f, opt)
			for _, l := range in.Losses {
				fmt.Fprintln(io.err, l)
			}
			if err != nil {
				return exit(exitNo, err)
			}
			if err := handOut(io, in.Texts, out); err != nil {
				return err
			}
			fmt.Fprintf(io.err, "%d scenarios, %d losses\n", len(in.Texts), len(in.Losses))
			if strict && len(in.Losses) > 0 {
				return codeOnly(exitHold)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "what the file is: chaostoolkit or toxiproxy")
	f.StringVar(&opt.Service, "service", "", "the target, whatever the file says")
	f.StringVar(&out, "out", "", "directory that takes one file a scenario; empty: standard output")
	f.BoolVar(&strict, "strict", false, "end with 3 when anything was lost")
	return cmd
}

func readDocument(io streams, name string) (conf.File, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "stdin"
		data, err = stdio.ReadAll(stdio.LimitReader(io.in, conf.MaxBytes+1))
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return conf.File{}, exit(exitUsage, fmt.Errorf("read the file: %w", err))
	}
	return conf.File{Name: name, Data: data}, nil
}

// handOut writes scenarios to a directory, and over nothing that is there.
func handOut(io streams, texts []string, dir string) error {
	if dir == "" {
		_, err := fmt.Fprint(io.out, strings.Join(texts, "---\n"))
		return fail(err)
	}
	for _, text := range texts {
		_, rest, _ := strings.Cut(text, "\nid: ")
		id, _, _ := strings.Cut(rest, "\n")
		name := filepath.Join(dir, id+".yaml")
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
		if err != nil {
			return exit(exitNo, fmt.Errorf("--out: %w", err))
		}
		_, err = f.WriteString(text)
		if err := errors.Join(err, f.Close()); err != nil {
			return exit(exitInternal, fmt.Errorf("--out: %w", err))
		}
		fmt.Fprintln(io.out, name)
	}
	return nil
}

func experimentExport(io streams) *cobra.Command {
	var set settings
	cmd := &cobra.Command{
		Use: "export RUN|SCENARIO", Short: "write a run as a journal of Chaos Toolkit, or a scenario as an experiment that runs it",
		Long:    "Of a run that has ended (r-...) it writes journal.json: status says how it went, deviated whether what was promised\nheld. Of a scenario it writes an experiment that runs it, and deviates where it does not pass.",
		Example: "  breakwater experiment export r-0a1b2c > journal.json\n  breakwater experiment export points-slow-5s > experiment.json", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text []byte
			var err error
			if strings.HasPrefix(args[0], "r-") {
				var r foreign.Run
				if err := set.call(cmd.Context(), http.MethodGet, "/api/v1/experiments/"+url.PathEscape(args[0]), nil, &r); err != nil {
					return err
				}
				if r.EndedAt.IsZero() {
					return exit(exitHold, fmt.Errorf("run %s is %s: a journal is of what has ended", r.ID, r.State))
				}
				text, err = foreign.Journal(r, "API v1")
			} else {
				var reply json.RawMessage
				body := struct {
					Scenario string `json:"scenario"`
				}{args[0]}
				if err := set.call(cmd.Context(), http.MethodPost, "/api/v1/experiments/preview", body, &reply); err != nil {
					return err
				}
				var p previewed
				if err := understand(reply, &p); err != nil {
					return err
				}
				text, err = foreign.Experiment(p.Scenario, p.Scenario, p.Service)
			}
			if err != nil {
				return exit(exitInternal, err)
			}
			_, err = io.out.Write(text)
			return fail(err)
		},
	}
	set.clientFlags(cmd.Flags())
	return cmd
}
