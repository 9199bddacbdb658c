package main

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"breakwater/internal/conf"
	"breakwater/slo"
	"breakwater/slo/openslo"
	"breakwater/slo/report"
)

func sloImport(io streams) *cobra.Command {
	var output string
	var strict bool
	cmd := &cobra.Command{
		Use: "import FILE|DIRECTORY|-...", Short: "turn SLOs of OpenSLO, Sloth, Pyrra and slo-generator into documents of ours",
		Long: "Writes OpenSLO v1 documents to standard output, and to standard error each mistake and whatever is\n" +
			"not carried over, at file:line:col. Objects with a mistake are left out, the others are written.\n" +
			"Exit code 0: all of it, 1: something was refused, 3: remarks under --strict.",
		Example: "  breakwater slo import sloth.yml windows.yml > config/slo.yaml", Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("output", output, "openslo", "json", "table"); err != nil {
				return err
			}
			var files []conf.File
			for _, path := range args {
				loaded, err := load(io.in, path)
				if err != nil {
					return exit(exitNo, err)
				}
				files = append(files, loaded...)
			}
			var log conf.Log
			im := openslo.Read(files, &log)
			if im.Documents == 0 && log.Err() == nil {
				return exit(exitNo, fmt.Errorf("%s: no document of OpenSLO, Sloth, Pyrra or slo-generator", strings.Join(args, ", ")))
			}
			for _, m := range log.All() {
				kind := "error"
				if m.IsWarning {
					kind = "note"
				}
				fmt.Fprintf(io.err, "%s: %s\n", kind, m.Error())
			}
			fmt.Fprintln(io.err, im.Summary(&log))
			if err := writeImport(io, im, &log, output); err != nil {
				return fail(err)
			}
			switch {
			case log.Err() != nil:
				return codeOnly(exitNo)
			case strict && len(log.Warnings()) > 0:
				return codeOnly(exitHold)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "openslo", "openslo (documents), table or json")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 3 where something is not carried over")
	return cmd
}

func writeImport(io streams, im openslo.Import, log *conf.Log, output string) error {
	switch output {
	case "json":
		type promise struct {
			ID       string `json:"id"`
			Service  string `json:"service"`
			Target   string `json:"target_percent"`
			Promise  string `json:"promise"`
			Document string `json:"document"`
		}
		out := struct {
			SLOs    []promise     `json:"slos"`
			Remarks conf.Mistakes `json:"findings"`
		}{[]promise{}, log.All()}
		for _, i := range im.Objectives {
			o := i.Objective
			out.SLOs = append(out.SLOs, promise{o.ID, o.Service, slo.TargetPercent(o.TargetPPB), o.Promise(), i.Document()})
		}
		return printJSON(io.out, out)
	case "table":
		var rows [][]string
		for _, i := range im.Objectives {
			o := i.Objective
			rows = append(rows, []string{o.ID, o.Service, slo.TargetPercent(o.TargetPPB), slo.Window(o.Window), o.Promise()})
		}
		return table(io.out, []string{"SLO", "SERVICE", "TARGET", "WINDOW", "PROMISE"}, rows)
	}
	for n, i := range im.Objectives {
		if n > 0 {
			fmt.Fprintln(io.out, "---")
		}
		if _, err := fmt.Fprint(io.out, i.Document()); err != nil {
			return err
		}
	}
	return nil
}

// promiseSource says where promises are taken from: files, or control.
type promiseSource struct {
	set  settings
	from []string
}

func (s *promiseSource) flags(cmd *cobra.Command) {
	s.set.clientFlags(cmd.Flags())
	cmd.Flags().StringArrayVar(&s.from, "from", nil, "file or directory of documents to take SLOs from, instead of asking control")
}

// read returns the promises of ids, or all.
func (s *promiseSource) read(cmd *cobra.Command, io streams, ids []string) ([]slo.Objective, error) {
	var all []slo.Objective
	var log conf.Log
	if len(s.from) > 0 {
		for _, path := range s.from {
			files, err := load(io.in, path)
			if err != nil {
				return nil, exit(exitNo, err)
			}
			for _, f := range files {
				all = append(all, openslo.Parse(f, &log).Objectives...)
			}
		}
		if err := log.Err(); err != nil {
			return nil, exit(exitNo, err)
		}
		return picked(all, ids)
	}
	if len(ids) == 0 {
		var list struct {
			SLOs []report.SLO `json:"slos"`
		}
		if err := s.set.call(cmd.Context(), http.MethodGet, "/api/v1/slos", nil, &list); err != nil {
			return nil, err
		}
		for _, o := range list.SLOs {
			ids = append(ids, o.ID)
		}
	}
	seen := map[string]bool{}
	for _, id := range ids {
		if seen[id] { // once for each environment
			continue
		}
		seen[id] = true
		var one report.SLO
		if err := s.set.call(cmd.Context(), http.MethodGet, "/api/v1/slos/"+url.PathEscape(id), nil, &one); err != nil {
			return nil, err
		}
		all = append(all, openslo.Parse(conf.File{Name: id, Data: []byte(one.Document)}, &log).Objectives...)
	}
	if err := log.Err(); err != nil {
		return nil, exit(exitInternal, err)
	}
	return all, nil
}

func picked(all []slo.Objective, ids []string) ([]slo.Objective, error) {
	if len(ids) == 0 {
		return all, nil
	}
	var out []slo.Objective
	for _, id := range ids {
		found := false
		for _, o := range all {
			if o.ID == id {
				out, found = append(out, o), true
			}
		}
		if !found {
			return nil, exit(exitUnknown, fmt.Errorf("no SLO %s is in the files", id))
		}
	}
	return out, nil
}

func sloExport(io streams) *cobra.Command {
	var source promiseSource
	var output string
	cmd := &cobra.Command{
		Use: "export [ID...]", Short: "write SLOs as OpenSLO documents, or as rules for Prometheus",
		Example: "  breakwater slo export > slo.yaml\n  breakwater slo export order-availability -o prometheus > rules.yaml",
		RunE: func(cmd *cobra.Command, ids []string) error {
			if err := oneOf("output", output, "openslo", "prometheus"); err != nil {
				return err
			}
			if output == "prometheus" {
				return writeRules(cmd, io, &source, ids)
			}
			list, err := source.read(cmd, io, ids)
			if err != nil {
				return err
			}
			for n, o := range list {
				if n > 0 {
					fmt.Fprintln(io.out, "---")
				}
				text := o.Text // what its author wrote, comments and all
				if text == "" {
					text = openslo.Export(o)
				}
				if _, err := fmt.Fprint(io.out, text); err != nil {
					return fail(err)
				}
			}
			return nil
		},
	}
	source.flags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", "openslo", "openslo or prometheus")
	return cmd
}

// writeRules writes the promises of ids, or all, as rules for Prometheus.
func writeRules(cmd *cobra.Command, io streams, source *promiseSource, ids []string) error {
	list, err := source.read(cmd, io, ids)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(io.out, openslo.Rules(list))
	return fail(err)
}
