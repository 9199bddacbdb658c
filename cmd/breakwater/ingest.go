package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	stdio "io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"breakwater/internal/retrylog"
	"breakwater/slo/ingest"
)

func newIngest(io streams) *cobra.Command {
	var set settings
	var in fileReader
	var output string
	cmd := &cobra.Command{
		Use:   "ingest FILE|-...",
		Short: "read log files into the ledger, each line once",
		Long: "Reads lines of our own retry log and those of a ponytail log; - is standard input.\n" +
			"A file is known by its content: read again, grown or renamed, each line counts once.\n" +
			"A ponytail log names only what was retried. Its exchanges count among the retries of\n" +
			"their upstream, and in no SLO: how many requests there were it does not say.\n" +
			"Exit code 0: all counted, 1: lines that cannot be, 3: warnings under --strict.",
		Example: "  breakwater ingest gateway.log\n  kubectl logs deploy/gateway -c ponytail | breakwater ingest -",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := oneOf("output", output, "text", "json"); err != nil {
				return err
			}
			in.set, in.io = &set, io
			return in.run(cmd.Context(), args, output)
		},
	}
	set.clientFlags(cmd.Flags())
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text or json")
	cmd.Flags().StringVar(&in.source, "source", "file", "name under which the lines stand in the ledger; files that begin alike need different ones")
	cmd.Flags().BoolVar(&in.dryRun, "dry-run", false, "read and say what would be counted, and ask nobody")
	cmd.Flags().BoolVar(&in.strict, "strict", false, "exit 3 where there are warnings")
	return cmd
}

// fileReader is the verb.
type fileReader struct {
	set            *settings
	io             streams
	source         string
	dryRun, strict bool
}

// readIn is what came of one file.
type readIn struct {
	File     string       `json:"file"`
	Lines    int64        `json:"lines"`
	Other    int64        `json:"other_messages"`
	Already  int64        `json:"lines_read_before"`
	Counted  int64        `json:"exchanges_counted"`
	Future   int64        `json:"in_the_future,omitempty"`
	TooLate  int64        `json:"too_old,omitempty"`
	Retries  []retrySum   `json:"retries,omitempty"`
	Unknown  []string     `json:"unknown,omitempty"`
	Problems []lineNotice `json:"problems,omitempty"`
	bad      bool
}

type lineNotice struct {
	Severity string `json:"severity"`
	Text     string `json:"text"`
}

type retrySum struct {
	Upstream  string `json:"upstream"`
	Status    int64  `json:"status_code"`
	Reason    string `json:"decision_reason"`
	Retried   int64  `json:"retried"`
	Succeeded int64  `json:"succeeded"`
	Failed    int64  `json:"failed"`
}

// unknowns are what no ponytail log says; the ledger leaves it open.
var unknowns = []string{
	"requests that were not retried: no share, no SLO and no health score can be told from these lines",
	"service (the upstream stands for it), route, method, caller, endpoints, latency of single tries",
}

func (f *fileReader) run(ctx context.Context, files []string, output string) error {
	if f.set.env == "" {
		f.set.env = "prod"
	}
	var all []*readIn
	code := exitOK
	for _, path := range files {
		r, err := f.file(ctx, path)
		if r != nil {
			all = append(all, r)
			if r.bad {
				code = exitNo
			} else if len(r.Problems) > 0 && f.strict && code == exitOK {
				code = exitHold
			}
		}
		if err != nil {
			if output == "text" {
				f.write(all)
			}
			return err
		}
	}
	if output == "json" {
		if err := printJSON(f.io.out, map[string]any{"files": all}); err != nil {
			return exit(exitInternal, err)
		}
	} else {
		f.write(all)
	}
	if code != exitOK {
		return exit(code, nil)
	}
	return nil
}

func (f *fileReader) write(all []*readIn) {
	for _, r := range all {
		for _, p := range r.Problems {
			fmt.Fprintf(f.io.err, "%s\n", p.Text)
		}
		counted := "counted"
		if f.dryRun {
			counted = "would be counted"
		}
		fmt.Fprintf(f.io.out, "%s: %d lines: %d exchanges %s", r.File, r.Lines, r.Counted, counted)
		if r.Already > 0 {
			fmt.Fprintf(f.io.out, "; the first %d lines were read before", r.Already)
		}
		if r.Other > 0 {
			fmt.Fprintf(f.io.out, "; %d lines are other messages", r.Other)
		}
		if r.Future+r.TooLate > 0 {
			fmt.Fprintf(f.io.out, "; %d ended in the future, %d too long ago", r.Future, r.TooLate)
		}
		fmt.Fprintln(f.io.out)
		if len(r.Retries) > 0 {
			var rows [][]string
			for _, s := range r.Retries {
				rows = append(rows, []string{s.Upstream, strconv.FormatInt(s.Status, 10), s.Reason,
					strconv.FormatInt(s.Retried, 10), strconv.FormatInt(s.Succeeded, 10), strconv.FormatInt(s.Failed, 10)})
			}
			_ = table(f.io.out, []string{"UPSTREAM", "STATUS", "REASON", "RETRIED", "SUCCEEDED", "FAILED"}, rows)
		}
		for _, u := range r.Unknown {
			fmt.Fprintf(f.io.out, "not known: %s\n", u)
		}
	}
}

// part is what is read and not sent yet.
type part struct {
	from     int64
	before   string
	body     []byte
	records  int
	first    time.Time
	last     time.Time
	exchange int64
}

// A part is sent when it is as long as a gateway's batch.
const (
	partRecords = 2000
	partBytes   = 2 << 20
)

func (f *fileReader) file(ctx context.Context, path string) (*readIn, error) {
	var src stdio.Reader = f.io.in
	name := "stdin"
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, exit(exitNo, err)
		}
		defer file.Close()
		src, name = file, path
	}
	r := &readIn{File: name}
	log := &ingest.Log{Env: f.set.env, Source: f.source}
	lines := bufio.NewReaderSize(src, 64<<10)
	sum := sha256.New()
	retries := map[retrySum]*retrySum{}
	var key retrylog.Batch
	var known ingest.Cursor
	var p part
	note := func(found ...ingest.Problem) {
		for _, n := range found {
			s := "error"
			if n.Warning {
				s = "warning"
			}
			r.bad = r.bad || !n.Warning
			text := name + ":" + n.String()
			if n.Warning {
				text += " (warning)"
			}
			r.Problems = append(r.Problems, lineNotice{s, text})
		}
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, stdio.EOF) {
			return r, exit(exitNo, fmt.Errorf("read %s: %w", name, err))
		}
		if len(line) > 0 {
			if line[len(line)-1] != '\n' && !json.Valid(line) { // it is still being written
				note(ingest.Problem{Line: r.Lines + 1, Text: "has no end yet; read the file again later", Warning: true})
				break
			}
			r.Lines++
			line = bytes.TrimSuffix(line, []byte("\n"))
			sum.Write(line)
			sum.Write([]byte("\n"))
			if r.Lines == 1 {
				key = retrylog.Batch{Gateway: f.source, Env: f.set.env, Boot: identity(f.source, line)}
				if known, err = f.cursor(ctx, key); err != nil {
					return r, err
				}
				r.Already, p.from, p.before = known.Line, known.Line, known.Hash
			}
			recs, found := log.Line(r.Lines, line)
			note(found...)
			for i := range recs {
				p.add(&recs[i], r.Lines > known.Line, retries, r)
			}
			if r.Lines == known.Line && digest(sum) != known.Hash {
				return r, exit(exitNo, fmt.Errorf("%s: begins like a file that was read before and is another one by line %d: give it a --source of its own", name, known.Line))
			}
			if p.records >= partRecords || len(p.body) >= partBytes {
				if err := f.send(ctx, &p, key, r, digest(sum)); err != nil {
					return r, err
				}
			}
		}
		if len(line) == 0 || errors.Is(err, stdio.EOF) {
			break
		}
	}
	if r.Lines < known.Line {
		return r, exit(exitNo, fmt.Errorf("%s: was longer when it was read before: %d lines, now %d", name, known.Line, r.Lines))
	}
	if p.records > 0 {
		if err := f.send(ctx, &p, key, r, digest(sum)); err != nil {
			return r, err
		}
	}
	note(log.Unsettled()...)
	r.Other = log.Other
	for _, s := range retries {
		r.Retries = append(r.Retries, *s)
	}
	slices.SortFunc(r.Retries, func(a, b retrySum) int {
		return cmp.Or(cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Status, b.Status), cmp.Compare(a.Reason, b.Reason))
	})
	if len(r.Retries) > 0 {
		r.Unknown = unknowns
	}
	return r, nil
}

// identity names a file by how it begins.
func identity(source string, first []byte) string {
	h := sha256.Sum256(append([]byte(source+"\n"), first...))
	return hex.EncodeToString(h[:12])
}

func digest(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)[:16]) }

// add takes a record. What a line before the cursor completed is counted already,
// and only told of.
func (p *part) add(rec *retrylog.Record, fresh bool, retries map[retrySum]*retrySum, r *readIn) {
	if x := rec.Exchange; x != nil {
		if x.Origin == ingest.FromPonytail {
			k := retrySum{Upstream: x.Upstream, Status: int64(x.FirstStatus), Reason: x.Reason}
			s := retries[k]
			if s == nil {
				s = &retrySum{Upstream: k.Upstream, Status: k.Status, Reason: k.Reason}
				retries[k] = s
			}
			s.Retried++
			if x.Outcome == retrylog.OK {
				s.Succeeded++
			} else {
				s.Failed++
			}
		}
		if fresh {
			p.exchange += x.Count
			if p.first.IsZero() || x.End.Before(p.first) {
				p.first = x.End
			}
			if x.End.After(p.last) {
				p.last = x.End
			}
		}
	}
	if fresh {
		p.body = retrylog.AppendRecord(p.body, rec)
		p.records++
	}
}

// cursor asks how far a file was read.
func (f *fileReader) cursor(ctx context.Context, key retrylog.Batch) (ingest.Cursor, error) {
	if f.dryRun {
		return ingest.Cursor{}, nil
	}
	key.Seq, key.From, key.Until = 1, time.Unix(0, 0).UTC(), time.Unix(0, 0).UTC()
	a, err := f.post(ctx, key, ingest.FileSpan{From: 1, Before: "?"}, nil)
	return a.Cursor, err
}

// send sends a part and begins the next.
func (f *fileReader) send(ctx context.Context, p *part, key retrylog.Batch, r *readIn, after string) error {
	if f.dryRun {
		r.Counted += p.exchange
	} else {
		key.Seq, key.From, key.Until = r.Lines, p.first, p.last
		if key.From.IsZero() { // no exchange among the records
			key.From, key.Until = time.Unix(0, 0).UTC(), time.Unix(0, 0).UTC()
		}
		a, err := f.post(ctx, key, ingest.FileSpan{From: p.from, Before: p.before, After: after}, p.body)
		if err != nil {
			return err
		}
		r.Counted, r.Future, r.TooLate = r.Counted+a.Counted, r.Future+a.Future, r.TooLate+a.TooLate
		r.bad = r.bad || a.Future+a.TooLate > 0
	}
	*p = part{from: r.Lines, before: after, body: p.body[:0]}
	return nil
}

// post asks control, again where it says that the ledger is away for a moment.
func (f *fileReader) post(ctx context.Context, key retrylog.Batch, span ingest.FileSpan, body []byte) (a ingest.FileAnswer, err error) {
	batch, err := json.Marshal(key)
	if err != nil {
		return a, exit(exitInternal, err)
	}
	file, err := json.Marshal(span)
	if err != nil {
		return a, exit(exitInternal, err)
	}
	if err := f.set.checkControl(); err != nil {
		return a, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.set.baseURL()+"/api/v1/events/files", bytes.NewReader(body))
	if err != nil {
		return a, exit(exitUsage, fmt.Errorf("--control: %w", err))
	}
	req.Header.Set(retrylog.BatchHeader, string(batch))
	req.Header.Set(ingest.FileHeader, string(file))
	if f.set.token != "" {
		req.Header.Set("Authorization", "Bearer "+f.set.token)
	}
	client := &http.Client{Transport: clientTransport(), Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	res, err := client.Do(req)
	if err != nil {
		return a, exit(exitUnknown, fmt.Errorf("ask control at %s: %w", f.set.baseURL(), err))
	}
	defer res.Body.Close()
	reply, err := stdio.ReadAll(stdio.LimitReader(res.Body, maxReply))
	if err != nil {
		return a, exit(exitUnknown, fmt.Errorf("read control's answer: %w", err))
	}
	switch res.StatusCode {
	case http.StatusOK:
		if err := understand(reply, &a); err != nil {
			return a, err
		}
		return a, nil
	case http.StatusConflict:
		return a, exit(exitNo, errors.New("somebody else reads the same file at this moment; read it again"))
	case http.StatusUnprocessableEntity:
		return a, exit(exitNo, errors.New(problemText(reply)))
	}
	return a, exit(refusedCode(res.StatusCode), fmt.Errorf("control at %s %s: %s", f.set.baseURL(), refusal(res), problemText(reply)))
}
