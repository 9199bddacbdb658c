package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	stdio "io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"breakwater/gateway/config"
	"breakwater/gateway/explain"
	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

func newExplain(io streams) *cobra.Command {
	var set settings
	var sample, event, output string
	cmd := &cobra.Command{
		Use:   "explain [FILE|-]",
		Short: "say what would happen to one exchange: retried or not, when, and why",
		Long: "Reads a sample exchange as JSON, from a file or - for standard input, or takes a\n" +
			"captured one by its request id, and asks the engine that serves traffic: the route,\n" +
			"each condition and gate in order, when each retry would go out, what the client gets.\n\n" +
			"Fields: path, method, host, headers, body_bytes, deadline_ms, peer, tried; then status,\n" +
			"response_headers, response_body and latency_ms, or failure (" + strings.Join(explain.Kinds(), ", ") + "),\n" +
			"for all tries alike, or answers, a list of {status, headers, body, failure, latency_ms}, one\n" +
			"for each; at, when the request comes. docs/explain.md has them all.\n\n" +
			"--event looks into the spool under --state-dir, and then asks control for it. Exit code\n" +
			"1: the documents have mistakes, 4: nobody has an event of that id.",
		Example: "  echo '{\"path\": \"/points/balance/u-1\", \"status\": 502}' | breakwater explain --config gw.yaml -\n" +
			"  breakwater explain --config gw.yaml --event 7f3c9a",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output); err != nil {
				return err
			}
			switch {
			case event != "" && (len(args) > 0 || cmd.Flags().Changed("sample")):
				return exit(exitUsage, errors.New("--event: must not stand beside a sample"))
			case len(args) > 0 && cmd.Flags().Changed("sample"):
				return exit(exitUsage, errors.New("--sample: must not stand beside a file"))
			case len(args) > 0:
				sample = args[0]
			}
			cfg, err := explainedConfig(set.config)
			if err != nil {
				return err
			}
			answer, err := set.explain(cmd.Context(), io.in, cfg, sample, event)
			if err != nil {
				return err
			}
			if output == "json" {
				return fail(printJSON(io.out, answer))
			}
			return fail(answer.Text(io.out))
		},
	}
	f := cmd.Flags()
	set.configFlag(f)
	f.StringVar(&sample, "sample", "-", "file with the sample exchange as JSON, or - for standard input")
	f.StringVar(&event, "event", "", "request id of a captured exchange to explain instead of a sample")
	f.StringVarP(&output, "output", "o", "table", "table or json")
	set.stateFlags(f)
	f.StringVar(&set.control, "control", env("CONTROL", "http://127.0.0.1:8081"), "base URL of control, for --event (BREAKWATER_CONTROL)")
	f.StringVar(&set.token, "token", env("TOKEN", ""), "API token, for --event (BREAKWATER_TOKEN)")
	return cmd
}

// explainedConfig reads the documents as a gateway would.
func explainedConfig(path string) (*config.Config, error) {
	if path == "" {
		return nil, exit(exitUsage, errors.New("--config: must name a file or directory of documents"))
	}
	files, err := conf.Load(path)
	if err != nil {
		return nil, exit(exitUsage, fmt.Errorf("--config: %w", err))
	}
	var log conf.Log
	cfg := config.Parse(files, &log)
	if !config.Loadable(&log) {
		return nil, exit(exitNo, log.Err())
	}
	return cfg, nil
}

func (s *settings) explain(ctx context.Context, in stdio.Reader, cfg *config.Config, sample, event string) (a explain.Answer, err error) {
	if event == "" {
		text, err := readSample(in, sample)
		if err != nil {
			return a, exit(exitUsage, fmt.Errorf("--sample: %w", err))
		}
		parsed, err := explain.ParseSample(text)
		if err != nil {
			return a, exit(exitUsage, err)
		}
		if a, err = explain.Explain(cfg, parsed); err != nil {
			return a, exit(exitUsage, err)
		}
		return a, nil
	}
	captured, err := s.captured(ctx, event)
	if err != nil {
		return a, err
	}
	parsed, err := explain.FromEvent(captured)
	if err != nil {
		return a, exit(exitUnknown, fmt.Errorf("event %s: %w", event, err))
	}
	if a, err = explain.Explain(cfg, parsed); err != nil {
		return a, exit(exitUnknown, fmt.Errorf("event %s: %w", event, err))
	}
	a.Compare(captured)
	return a, nil
}

func readSample(in stdio.Reader, path string) ([]byte, error) {
	if path == "-" {
		return stdio.ReadAll(stdio.LimitReader(in, explain.MaxSample+1))
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return stdio.ReadAll(stdio.LimitReader(file, explain.MaxSample+1))
}

// captured finds the exchange with a request id: in the spool of this machine's
// gateway, which keeps the last hour, else at control.
func (s *settings) captured(ctx context.Context, id string) (*retrylog.Exchange, error) {
	here, err := inSpool(filepath.Join(s.stateDir, "spool"), id)
	if here != nil {
		return here, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, exit(exitUnknown, fmt.Errorf("look for event %s: %w", id, err))
	}
	there, err := s.atControl(ctx, id)
	if err != nil {
		return nil, exit(exitUnknown, fmt.Errorf("no event %s: it is not in the spool under %s, and %w", id, s.stateDir, err))
	}
	return there, nil
}

// inSpool looks through every segment under dir, and returns the last exchange of
// that id. Segments that go while it looks are no mistake.
func inSpool(dir, id string) (found *retrylog.Exchange, err error) {
	quoted, err := json.Marshal(id)
	if err != nil {
		return nil, err
	}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			if path != dir && errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if ext := filepath.Ext(path); d.IsDir() || ext != ".open" && ext != ".log" {
			return nil
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) { // sealed under another name, or gone
			file, err = os.Open(strings.TrimSuffix(path, ".open") + ".log")
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer file.Close()
		_, _, err = retrylog.Lines(file, func(line []byte, _ int64) error {
			if !bytes.Contains(line, quoted) {
				return nil
			}
			if r, err := retrylog.Parse(line); err == nil && r.Exchange != nil && r.Exchange.RequestID == id {
				found = r.Exchange
			}
			return nil
		})
		return err
	})
	return found, err
}

func (s *settings) atControl(ctx context.Context, id string) (*retrylog.Exchange, error) {
	if err := s.checkControl(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.baseURL()+"/api/v1/events/"+url.PathEscape(id), nil)
	if err != nil {
		return nil, err
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	client := &http.Client{Transport: clientTransport()}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("control cannot be asked: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("control at %s %s", s.baseURL(), refusal(res))
	}
	text, err := stdio.ReadAll(stdio.LimitReader(res.Body, retrylog.MaxLine))
	if err != nil {
		return nil, fmt.Errorf("control's answer: %w", err)
	}
	var r retrylog.Record
	if err := json.Unmarshal(text, &r); err == nil && r.Exchange != nil {
		return r.Exchange, nil
	}
	var ev retrylog.Exchange
	if err := json.Unmarshal(text, &ev); err != nil || ev.RequestID == "" {
		return nil, errors.New("control's answer is no event")
	}
	return &ev, nil
}
