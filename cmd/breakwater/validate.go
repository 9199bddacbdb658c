package main

import (
	"errors"
	"fmt"
	stdio "io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"breakwater/gateway/explain"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
	"breakwater/slo/alert"
	"breakwater/slo/freeze"
	"breakwater/slo/openslo"
)

func newValidate(io streams) *cobra.Command {
	var output string
	var strict, weaknesses bool
	cmd := &cobra.Command{
		Use:   "validate FILE|DIRECTORY|-...",
		Short: "check documents: every mistake at file:line:col, all at once",
		Long: "Reads documents as gateway and control would: routes, upstreams, retry policies, SLOs,\n" +
			"scenarios, game days, freeze policies, alert routes; - is standard input. To hold no document is a mistake too.\n" +
			"Exit code 0: good, 1: mistakes, 3: warnings under --strict.",
		Example: "  breakwater validate deploy/config\n  breakwater validate -o sarif gw.yaml > validate.sarif\n" +
			"  breakwater validate - < gw.yaml",
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := oneOf("output", output, append(explain.Formats(), "text")...); err != nil {
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
			found := check(files)
			if weaknesses {
				addWeaknesses(&found, files)
			}
			if err := found.Write(io.out, output, strict); err != nil {
				return exit(exitInternal, err)
			}
			return codeOnly(found.Code(strict))
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "table", "table, json, github (annotations of a pull request), sarif or junit")
	cmd.Flags().BoolVar(&strict, "strict", false, "exit 3 where there are warnings")
	cmd.Flags().BoolVar(&weaknesses, "weaknesses", false, "warn also of what is no mistake, and will not protect when it is needed (docs/weaknesses.md)")
	return cmd
}

// load reads what an argument names. A directory without documents counts as one
// empty file of its name, so that it can be told of.
func load(in stdio.Reader, path string) ([]conf.File, error) {
	if path == "-" {
		data, err := stdio.ReadAll(stdio.LimitReader(in, conf.MaxBytes+1))
		if err != nil {
			return nil, fmt.Errorf("read standard input: %w", err)
		}
		return []conf.File{{Name: "stdin", Data: data}}, nil
	}
	files, err := conf.Load(path)
	if err == nil && len(files) == 0 {
		files = []conf.File{{Name: path}}
	}
	return files, err
}

// check reads files for every room that reads documents.
func check(files []conf.File) explain.Report {
	report := explain.Validate(files)
	var log conf.Log
	for _, f := range files {
		openslo.Parse(f, &log)
	}
	freeze.Parse(files, &log)
	alert.ParseRoutes(files, &log)
	_, warnings, err := scenario.Parse(files...)
	found := slices.Concat(log.All(), warnings)
	if mistakes, ok := errors.AsType[conf.Mistakes](err); ok {
		found = append(found, mistakes...)
	}
	for _, m := range found {
		// What cannot be read as YAML is found by every reader.
		if slices.ContainsFunc(report.Findings, func(k *conf.Mistake) bool { return k.Error() == m.Error() }) {
			continue
		}
		report.Findings = append(report.Findings, m)
		if m.IsWarning {
			report.Warnings++
		} else {
			report.Errors++
		}
	}
	slices.SortStableFunc(report.Findings, func(a, b *conf.Mistake) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	report.OK = report.Errors == 0
	return report
}
