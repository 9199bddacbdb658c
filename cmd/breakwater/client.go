package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// maxReply bounds what a verb reads of control's answer.
const maxReply = 16 << 20

// call asks control for path and decodes the answer into out, which may be nil,
// or a *[]byte for the answer as it is.
// Where control does not do it, refusedCode says with which code the verb ends.
func (s *settings) call(ctx context.Context, method, path string, body, out any) error {
	var payload io.Reader
	kind := "application/json"
	if text, ok := body.(document); ok {
		payload, kind = bytes.NewReader(text), "application/yaml"
	} else if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return exit(exitInternal, fmt.Errorf("write the request: %w", err))
		}
		payload = bytes.NewReader(b)
	}
	if err := s.checkControl(); err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, s.baseURL()+path, payload)
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--control: %w", err))
	}
	if body != nil {
		req.Header.Set("Content-Type", kind)
	}
	if s.token != "" {
		req.Header.Set("Authorization", "Bearer "+s.token)
	}
	client := &http.Client{Transport: clientTransport(), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return exit(exitUnknown, fmt.Errorf("ask control at %s: %w", s.baseURL(), err))
	}
	defer res.Body.Close()
	reply, err := io.ReadAll(io.LimitReader(res.Body, maxReply))
	if err != nil {
		return exit(exitUnknown, fmt.Errorf("read control's answer: %w", err))
	}
	if res.StatusCode >= 300 {
		return exit(refusedCode(res.StatusCode), fmt.Errorf("control at %s %s: %s", s.baseURL(), refusal(res), problemText(reply)))
	}
	if out == nil {
		return nil
	}
	if text, ok := out.(*[]byte); ok { // not JSON
		*text = reply
		return nil
	}
	return understand(reply, out)
}

// refusedCode is the exit code of an answer that is none. Only a rule that said
// no is a no; whoever is not let in, or asks for what is not there, does not know.
func refusedCode(status int) int {
	switch status {
	case http.StatusConflict, http.StatusPreconditionFailed, http.StatusLocked:
		return exitNo
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return exitUsage
	}
	return exitUnknown
}

// refusal says in words what a status means to who typed the verb.
func refusal(res *http.Response) string {
	switch res.StatusCode {
	case http.StatusUnauthorized:
		return "does not accept the token (--token, BREAKWATER_TOKEN)"
	case http.StatusForbidden:
		return "does not let this token do that"
	case http.StatusNotFound:
		return "does not know it"
	case http.StatusConflict:
		return "refuses"
	}
	return "answered " + res.Status
}

// checkControl catches an address that cannot be one before anybody is asked.
func (s *settings) checkControl() error {
	u, err := url.Parse(s.baseURL())
	if err != nil {
		return exit(exitUsage, fmt.Errorf("--control: %w", err))
	}
	if u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return exit(exitUsage, fmt.Errorf("--control: must be a URL such as http://127.0.0.1:8081, got %q", s.control))
	}
	return nil
}

// problemText is the sentence of a problem document, or the text as it came.
func problemText(body []byte) string {
	var p struct{ Title, Detail string }
	if err := json.Unmarshal(body, &p); err == nil && (p.Detail != "" || p.Title != "") {
		if p.Detail != "" {
			return p.Detail
		}
		return p.Title
	}
	return strings.TrimSpace(string(body[:min(len(body), 300)]))
}

// printJSON writes v indented.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// table writes rows under a head, columns aligned.
func table(w io.Writer, head []string, rows [][]string) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, strings.Join(head, "\t"))
	for _, r := range rows {
		fmt.Fprintln(t, strings.Join(r, "\t"))
	}
	return t.Flush()
}

func shortTime(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// outputs of -o that every listing verb knows.
var errOutput = errors.New("-o: must be table or json")

func checkOutput(o string) error {
	if o != "table" && o != "json" {
		return exit(exitUsage, fmt.Errorf("%w, got %q", errOutput, o))
	}
	return nil
}

// understand decodes an answer of control.
func understand(reply []byte, into any) error {
	if err := json.Unmarshal(reply, into); err != nil {
		return exit(exitUnknown, fmt.Errorf("control's answer is not what was asked for: %w", err))
	}
	return nil
}

// asker are the flags of a verb that asks control and prints what it says.
type asker struct {
	set    settings
	output string
}

func (a *asker) flags(cmd *cobra.Command) {
	a.set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "table or json")
}

// raw calls control, unless the answer could not be printed as is wanted.
func (a *asker) raw(cmd *cobra.Command, method, path string, body any) (reply json.RawMessage, err error) {
	if err := checkOutput(a.output); err != nil {
		return nil, err
	}
	err = a.set.call(cmd.Context(), method, path, body, &reply)
	return reply, err
}

// ask calls control and decodes the answer; done: there is nothing more to print, since
// it was printed as JSON, or failed.
func (a *asker) ask(cmd *cobra.Command, io streams, method, path string, body, into any) (done bool, err error) {
	reply, err := a.raw(cmd, method, path, body)
	if err != nil {
		return true, err
	}
	if err := understand(reply, into); err != nil {
		return true, err
	}
	if a.output == "json" {
		return true, fail(printJSON(io.out, reply))
	}
	return false, nil
}
