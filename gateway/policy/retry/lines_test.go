package retry

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// The pair of lines of the ponytail text, field for field.
func TestLines(t *testing.T) {
	u := &upstream{answers: []answer{busy, {status: 200, takes: 2 * ms}}}
	run(t, bench(), Deps{}, u, nil, func(x *exchange.Exchange, err error, lines string) {
		want := `{"level":"info","ts":"2000-01-01T00:00:00.000Z","caller":"retry/layer.go","msg":"retry triggered","request_id":"a1b2c3d4","upstream":"auth-service","status_code":503,"retry_count":1,"backoff_ms":250,"decision_reason":"header X-Backend-Status=overloaded"}
{"level":"info","ts":"2000-01-01T00:00:00.252Z","caller":"retry/layer.go","msg":"retry succeeded","request_id":"a1b2c3d4","upstream":"auth-service","final_status_code":200,"total_retries":1,"total_latency_ms":252}
`
		if lines != want {
			t.Errorf("got\n%swant\n%s", lines, want)
		}
	})
	u = &upstream{answers: []answer{busy}}
	post := func(x *exchange.Exchange) { x.Request.Method = "POST" }
	run(t, bench(), Deps{}, u, post, func(x *exchange.Exchange, err error, lines string) {
		want := `{"level":"info","ts":"2000-01-01T00:00:00.000Z","caller":"retry/layer.go","msg":"retry skipped","request_id":"a1b2c3d4","upstream":"auth-service","status_code":503,"retry_count":0,"matched_index":1,"skip_reason":"non_idempotent"}
`
		if lines != want {
			t.Errorf("got\n%swant\n%s", lines, want)
		}
	})
	u = &upstream{answers: []answer{{status: 502}}}
	run(t, bench(), Deps{}, u, nil, func(x *exchange.Exchange, err error, lines string) {
		if n := strings.Count(lines, `"msg":"retry triggered"`); n != 2 {
			t.Errorf("%d triggered lines, want 2", n)
		}
		if !strings.HasSuffix(lines, `"msg":"retry failed","request_id":"a1b2c3d4","upstream":"auth-service","final_status_code":502,"total_retries":2,"total_latency_ms":750}`+"\n") {
			t.Errorf("last line is none of a failed retry:\n%s", lines)
		}
	})
}

// Whatever a request id holds, a line is one line of JSON that says it.
func FuzzLines(f *testing.F) {
	f.Add("a1b2", "auth\"service\\")
	f.Add("x\"}\n{\"level\":\"forged", "\xff\x00\u2028")
	f.Fuzz(func(t *testing.T, id, up string) {
		var out bytes.Buffer
		NewLines(&out).Retry(Line{Message: Triggered, RequestID: id, Upstream: up, Reason: "r"})
		line, ok := strings.CutSuffix(out.String(), "\n")
		if !ok || strings.Contains(line, "\n") {
			t.Fatalf("not one line: %q", out.String())
		}
		var got map[string]any
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if utf8.ValidString(id) && got["request_id"] != id {
			t.Fatalf("request id %q came out as %q", id, got["request_id"])
		}
	})
}

// The example of the text itself, byte for byte but for who wrote it: a try that
// fails after 130 ms at .753, a wait of 250 ms, an answer 2 ms later.
func TestLinesOfTheText(t *testing.T) {
	bubble(t, func() {
		time.Sleep(time.Until(time.Date(2024, 6, 15, 2, 14, 22, 753e6, time.UTC)))
		var out bytes.Buffer
		first := busy
		first.takes = 130 * ms
		u := &upstream{answers: []answer{first, {status: 200, takes: 2 * ms}}, start: time.Now()}
		x := new(exchange.Exchange)
		x.Reset()
		x.Request.Method, x.Event.RequestID = "GET", "a1b2c3d4"
		x.Request.Body.Set(nil, 0)
		if err := exchange.Chain(u, Layer(bench(), Deps{Endpoints: 1, Upstream: "auth-service", Log: NewLines(&out)})).Serve(x); err != nil {
			t.Error(err)
		}
		want := `{"level":"info","ts":"2024-06-15T02:14:22.883Z","caller":"ponytail/retry.go:127","msg":"retry triggered","request_id":"a1b2c3d4","upstream":"auth-service","status_code":503,"retry_count":1,"backoff_ms":250,"decision_reason":"header X-Backend-Status=overloaded"}
{"level":"info","ts":"2024-06-15T02:14:23.135Z","caller":"ponytail/retry.go:142","msg":"retry succeeded","request_id":"a1b2c3d4","upstream":"auth-service","final_status_code":200,"total_retries":1,"total_latency_ms":382}
`
		caller := regexp.MustCompile(`"caller":"[^"]*"`)
		if got := out.String(); caller.ReplaceAllString(got, "") != caller.ReplaceAllString(want, "") {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		x.End(retrylog.OK)
	})
}
