package ingest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"breakwater/internal/retrylog"
)

// Lines in the shape in which ponytail writes them.
const (
	wroteTriggered = `{"level":"info","ts":"2024-06-15T02:14:22.883Z","caller":"ponytail/retry.go:127","msg":"retry triggered","request_id":"a1b2c3d4","upstream":"auth-service","status_code":503,"retry_count":1,"backoff_ms":250,"decision_reason":"header X-Backend-Status=overloaded"}`
	wroteSucceeded = `{"level":"info","ts":"2024-06-15T02:14:23.135Z","caller":"ponytail/retry.go:142","msg":"retry succeeded","request_id":"a1b2c3d4","upstream":"auth-service","final_status_code":200,"total_retries":1,"total_latency_ms":382}`
)

// read hands every line of text to a Log.
func read(text string) (recs []retrylog.Record, problems []string, l *Log) {
	l = &Log{Env: "prod", Source: "file"}
	for i, line := range strings.Split(text, "\n") {
		got, found := l.Line(int64(i+1), []byte(line))
		recs = append(recs, got...)
		for _, p := range found {
			problems = append(problems, p.String())
		}
	}
	for _, p := range l.Unsettled() {
		problems = append(problems, p.String())
	}
	return recs, problems, l
}

func TestTwoLinesOfAPonytailLogAreOneRetriedExchange(t *testing.T) {
	recs, problems, _ := read(wroteTriggered + "\n" + wroteSucceeded + "\n")
	if len(recs) != 1 || len(problems) != 0 {
		t.Fatalf("got %+v, %v", recs, problems)
	}
	x := recs[0].Exchange
	if x.Service != "auth-service" || x.Upstream != "auth-service" || x.RequestID != "a1b2c3d4" || x.Status != 200 || x.FirstStatus != 503 ||
		x.Reason != "header X-Backend-Status=overloaded" || x.LatencyUS != 382_000 || x.RetryWaitMS != 250 || len(x.Tries) != 2 ||
		!x.End.Equal(time.Date(2024, 6, 15, 2, 14, 23, 135e6, time.UTC)) || x.Route != "" || x.Method != "" {
		t.Errorf("got %+v", x)
	}
	now := x.End.Add(time.Hour)
	f := newFolder()
	f.begin(now, maxRetryAge, nil)
	f.add(&recs[0], retrylog.AppendRecord(nil, &recs[0]))
	out := f.done()
	want := Retry{RetryKey{"auth-service", "prod", "auth-service", 503, "header X-Backend-Status=overloaded", "", x.End.Truncate(time.Minute)}, 1, 1, 1, 0}
	if len(out.Rows) != 0 || len(out.Retries) != 1 || out.Retries[0] != want || len(out.Events) != 1 {
		t.Errorf("got %+v: of what share of all requests it is nothing is known", out)
	}
}

func TestALogIsReadWithWhatIsWrongAtItsPlace(t *testing.T) {
	tests := []struct {
		name, text string
		records    int
		problems   []string
	}{
		{"nothing", "", 0, nil},
		{"other messages of the program", `{"level":"info","msg":"started"}` + "\n" + `{"a":1}`, 0, nil},
		{"two retries", strings.Join([]string{
			wroteTriggered, edit(wroteTriggered, `"retry_count":1`, `"retry_count":2`), edit(wroteSucceeded, `"total_retries":1`, `"total_retries":2`)}, "\n"), 1, nil},
		{"two requests at once", strings.Join([]string{
			wroteTriggered, edit(wroteTriggered, "a1b2c3d4", "x"), edit(wroteSucceeded, "a1b2c3d4", "x"), wroteSucceeded}, "\n"), 2, nil},
		{"one id at two upstreams", strings.Join([]string{
			wroteTriggered, edit(wroteTriggered, "auth-service", "pay"), wroteSucceeded, edit(wroteSucceeded, "auth-service", "pay")}, "\n"), 2, nil},
		{"no JSON", "\n2024-06-15 retry triggered", 0, []string{"2:5: must be an object of JSON: invalid character '-' after top-level value"}},
		{"cut off", wroteTriggered[:40], 0, []string{"1:40: must be an object of JSON: unexpected end of JSON input"}},
		{"without an instant", edit(wroteTriggered, `"ts":"2024-06-15T02:14:22.883Z",`, ``), 0, []string{
			`1: ts: must be an instant such as "2024-06-15T02:14:22.883Z", got nothing`}},
		{"wrong fields, all at once", edit(edit(wroteTriggered, `503`, `"503"`), `"retry_count":1`, `"retry_count":0`), 0, []string{
			`1:156: status_code: must be a whole number from 0 to 599, got "503"`, `1:176: retry_count: must be a whole number from 1 to 1000, got 0`}},
		{"the line before is missing", wroteSucceeded, 1, []string{
			"1:106: request_id: no line before says what it was retried for; it counts without a reason"}},
		{"the line after is missing", wroteTriggered, 0, []string{`1: request_id: no line after says how "a1b2c3d4" ended; not counted`}},
		{"a retry is missing", strings.Join([]string{wroteTriggered, edit(wroteTriggered, `"retry_count":1`, `"retry_count":3`), wroteSucceeded}, "\n"), 1, []string{
			"2:174: retry_count: must be 2 after the lines before, got 3: some are missing"}},
		{"our own line, changed", `{"exchange":{"count":1},"crc":"00000000"}`, 0, []string{"1: checksum does not match: got 1e44d1c7, written 00000000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			recs, problems, _ := read(tt.text)
			if len(recs) != tt.records || fmt.Sprint(problems) != fmt.Sprint(tt.problems) {
				t.Errorf("got %d records and\n%s\nwant %d and\n%s", len(recs), strings.Join(problems, "\n"), tt.records, strings.Join(tt.problems, "\n"))
			}
		})
	}
}

func edit(line, old, with string) string { return strings.Replace(line, old, with, 1) }

func TestOurOwnLinesAreReadAsTheyAre(t *testing.T) {
	want := whole()
	recs, problems, _ := read(string(retrylog.AppendRecord(nil, &retrylog.Record{Exchange: &want})))
	if len(recs) != 1 || len(problems) != 0 || !same(recs[0].Exchange, &want) {
		t.Errorf("got %+v, %v", recs, problems)
	}
}

// Whatever a file holds, reading it ends, and what is made of it can be written
// and read again.
func FuzzLog(f *testing.F) {
	f.Add([]byte(wroteTriggered + "\n" + wroteSucceeded))
	f.Add([]byte(edit(wroteTriggered, `250`, `1e400`) + "\n" + edit(wroteSucceeded, `382`, `-1`)))
	f.Add([]byte(edit(wroteSucceeded, `"total_retries":1`, `"total_retries":1000`)))
	f.Add(retrylog.AppendRecord(nil, &retrylog.Record{Exchange: new(whole())}))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := &Log{Env: "prod", Source: "file"}
		for i, line := range bytes.Split(data, []byte("\n")) {
			recs, problems := l.Line(int64(i+1), line)
			for _, p := range problems {
				if p.Text == "" || p.Line != int64(i+1) || p.Col < 0 || p.Col > len(line)+1 {
					t.Fatalf("%+v in a line of %d bytes", p, len(line))
				}
			}
			for _, r := range recs {
				if _, err := retrylog.Parse(retrylog.AppendRecord(nil, &r)); err != nil {
					t.Fatalf("%+v: %v", r.Exchange, err)
				}
			}
		}
		l.Unsettled()
	})
}
