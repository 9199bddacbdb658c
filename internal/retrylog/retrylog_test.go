package retrylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func full() []Record {
	at := time.Date(2026, 3, 1, 12, 30, 15, 123456000, time.UTC)
	return []Record{
		{Exchange: &Exchange{
			Count: 3, RequestID: "r-1", Start: at, End: at.Add(time.Second), Gateway: "gw", Env: "prod",
			Service: "order", Route: "order-create", Upstream: "order", Method: "POST", Caller: "web", Tenant: "t", Tier: "critical",
			Tries: []Try{
				{Endpoint: "127.0.0.1:1", Status: 503, LatencyUS: 12, Reason: "status_code_match=503", Skip: "deadline", Fault: "f1", PlannedUS: 5, ActualUS: 6, CutShort: true},
				{Endpoint: "127.0.0.1:2", Kind: "dial", LatencyUS: 40, WaitMS: 250, Cause: "dns"},
			},
			FirstStatus: 503, Status: 200, Outcome: OK, Timeout: "try", Reason: "status_code_match", Skip: "max_retries",
			RetryWaitMS: 250, LatencyUS: 300_000, BodyComplete: true, Degraded: "last_good", Refusal: "limiter:rate",
			Origin: "upstream", Observed: "limiter:rate", Experiment: "run-7", Synthetic: "opt_in", SamplePPM: 100_000, DepTimeouts: 2, BusinessCode: "OK", Revision: "abc", BytesOut: 99,
		}},
		{Exchange: &Exchange{Count: 1}},
		{Transition: &Transition{At: at, Gateway: "gw", Env: "prod", Policy: "breaker", Service: "order", Upstream: "u",
			Endpoint: "e", From: "closed", To: "open", Reason: "error rate"}},
		{Config: &Config{At: at, Gateway: "gw", Env: "prod", Revision: "2", Hash: "h", Error: "gw.yaml:6: no", Effective: "a: b\nc: d\n"}},
		{Notice: &Notice{At: at, Gateway: "gw", Env: "prod", Kind: "unclean_stop", Count: 4, Detail: "x"}},
	}
}

func TestWrittenRecordsReadBackEqual(t *testing.T) {
	for _, want := range full() {
		line := AppendRecord(nil, &want)
		got, err := Parse(line)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v from %s", got, err, line)
		}
	}
}

// Every field that has a tag is written: a field added to the structs and
// forgotten by the encoder shows here.
func TestTheLineIsWhatTheTagsSay(t *testing.T) {
	for _, r := range full() {
		want, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		line := AppendRecord(nil, &r)
		body := line[:bytes.LastIndex(line, []byte(`,"crc"`))]
		if got := string(body) + "}"; got != string(want) {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestHostileStringsDoNotBreakALine(t *testing.T) {
	for _, s := range []string{"\n", "a\r\nb", "\x00", "\x1b[2J", `"},"crc":"00000000"}`, "\\", "\xff\xfe", "é\u2028", "\x7f", strings.Repeat("\n", 300), "\xed\xa0\x80"} {
		r := Record{Exchange: &Exchange{Count: 1, Caller: s, Route: s, Tries: []Try{{Endpoint: s}}}}
		line := AppendRecord(nil, &r)
		if n := bytes.Count(line, []byte("\n")); n != 1 || line[len(line)-1] != '\n' || bytes.IndexByte(line, 0) >= 0 {
			t.Errorf("%q breaks the line %q", s, line)
		}
		got, err := Parse(line)
		if err != nil || got.Exchange.Caller != string([]rune(s)) { // a conversion that replaces byte by byte
			t.Errorf("%q read back as %+v, %v", s, got.Exchange, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	r := full()[0]
	good := AppendRecord(nil, &r)
	flipped := bytes.Clone(good)
	flipped[20] ^= 1
	for name, line := range map[string][]byte{
		"a flipped bit":    flipped,
		"nothing":          nil,
		"a newline":        []byte("\n"),
		"no checksum":      []byte(`{"exchange":{}}`),
		"upper case sum":   bytes.ToUpper(good),
		"half":             good[:len(good)/2],
		"no record":        sealed(`{"other":{}`),
		"two records":      sealed(`{"exchange":{"count":1},"notice":{}`),
		"a negative count": sealed(`{"exchange":{"count":-1}`),
		"no JSON":          sealed(`{"exchange":`),
	} {
		if rec, err := Parse(line); err == nil {
			t.Errorf("%s was accepted: %+v", name, rec)
		}
	}
}

func sealed(body string) []byte {
	return fmt.Appendf(nil, "%s,\"crc\":\"%08x\"}\n", body, crc32.Checksum([]byte(body), castagnoli))
}

func TestScan(t *testing.T) {
	recs := full()
	a, b := AppendRecord(nil, &recs[0]), AppendRecord(nil, &recs[4])
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zeros := make([]byte, 100_000)
	flipped := bytes.Clone(a)
	flipped[9] ^= 4
	tests := []struct {
		name string
		data []byte
		n    int
		want Stats
	}{
		{"nothing", nil, 0, Stats{}},
		{"two lines", join(a, b), len(a) + len(b), Stats{Records: 2}},
		{"a torn tail", join(a, b[:10]), len(a), Stats{Records: 1, Tail: 10}},
		{"zeros of preallocation", join(a, b, zeros), len(a) + len(b), Stats{Records: 2}},
		{"a torn tail before zeros", join(a, b[:10], zeros), len(a), Stats{Records: 1, Tail: 10}},
		{"a bad line between", join(a, flipped, b), 2*len(a) + len(b), Stats{Records: 2, Bad: 1}},
		{"a line never copied", join(a, zeros[:len(a)], b), 2*len(a) + len(b), Stats{Records: 2}},
		{"a line copied in part", join(a, a[:7], zeros[:len(a)-7], b), 2*len(a) + len(b), Stats{Records: 2, Bad: 1, Torn: 1}},
		{"a line whose end came first", join(zeros[:len(a)-7], a[len(a)-7:], b), len(a) + len(b), Stats{Records: 1, Bad: 1}},
		{"a line without its middle", join(a[:5], zeros[:len(a)-10], a[len(a)-5:], b), len(a) + len(b), Stats{Records: 1, Bad: 1, Torn: 1}},
		{"a line over the limit", join(a, bytes.Repeat([]byte("x"), 3*MaxLine), []byte("\n"), b), len(a) + 3*MaxLine + 1 + len(b), Stats{Records: 2, Bad: 1}},
		{"only zeros", zeros, 0, Stats{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, r := range []io.Reader{bytes.NewReader(tt.data), iotest.HalfReader(bytes.NewReader(tt.data)), iotest.DataErrReader(bytes.NewReader(tt.data))} {
				n, stats, err := Scan(r, func(Record) error { return nil })
				if n != int64(tt.n) || stats != tt.want || err != nil {
					t.Fatalf("got %d, %+v, %v, want %d, %+v", n, stats, err, tt.n, tt.want)
				}
			}
		})
	}
}

func TestScanStopsAtTheCallersError(t *testing.T) {
	r := full()[0]
	data := AppendRecord(AppendRecord(nil, &r), &r)
	full := errors.New("full")
	calls := 0
	_, _, err := Scan(bytes.NewReader(data), func(Record) error { calls++; return full })
	if !errors.Is(err, full) || calls != 1 {
		t.Errorf("got %v after %d calls", err, calls)
	}
}

func TestLinesTellWhereTheyBegin(t *testing.T) {
	r := full()[0]
	line := AppendRecord(nil, &r)
	data := bytes.Join([][]byte{line, make([]byte, 70), line}, nil)
	var at []int64
	_, _, err := Lines(bytes.NewReader(data), func(_ []byte, off int64) error { at = append(at, off); return nil })
	if want := []int64{0, int64(len(line)) + 70}; err != nil || !reflect.DeepEqual(at, want) {
		t.Errorf("lines begin at %v, %v, want %v", at, err, want)
	}
}

func FuzzScan(f *testing.F) {
	for _, r := range full() {
		f.Add(AppendRecord(nil, &r))
	}
	r := full()[1]
	line := AppendRecord(nil, &r)
	f.Add(append(bytes.Clone(line), line[:20]...))
	f.Add(append(append(bytes.Clone(line), 0, 0, 0), line...))
	f.Fuzz(func(t *testing.T, data []byte) {
		var kept []byte
		n, stats, err := Scan(bytes.NewReader(data), func(r Record) error { kept = AppendRecord(kept, &r); return nil })
		if err != nil || n > int64(len(data)) {
			t.Fatalf("%d of %d: %v", n, len(data), err)
		}
		// What was accepted once is accepted again, alone.
		m, again, err := Scan(bytes.NewReader(data[:n]), func(Record) error { return nil })
		if err != nil || m != n || again.Records != stats.Records || again.Bad != stats.Bad {
			t.Fatalf("second read: %d of %d, %+v of %+v, %v", m, n, again, stats, err)
		}
		m, again, err = Scan(bytes.NewReader(kept), func(Record) error { return nil })
		if err != nil || m != int64(len(kept)) || again.Records != stats.Records || again.Bad != 0 {
			t.Fatalf("written again: %d of %d, %+v of %+v, %v", m, len(kept), again, stats, err)
		}
	})
}

// FuzzParse gives any body its right checksum, so that the JSON is reached.
func FuzzParse(f *testing.F) {
	for _, r := range full() {
		line := AppendRecord(nil, &r)
		f.Add(string(line[:bytes.LastIndex(line, []byte(`,"crc"`))]))
	}
	f.Add(`{"exchange":{"count":1,"start":"9999-12-31T23:59:59-23:59","tries":[]}`)
	f.Fuzz(func(t *testing.T, body string) {
		first, err := Parse(sealed(body))
		if err != nil {
			return
		}
		line := AppendRecord(nil, &first)
		second, err := Parse(line)
		if err != nil {
			t.Fatalf("%q became %q: %v", body, line, err)
		}
		if again := AppendRecord(nil, &second); !bytes.Equal(again, line) {
			t.Fatalf("%q became %q, then %q", body, line, again)
		}
	})
}

func FuzzStrings(f *testing.F) {
	f.Add("web", "\x00\n")
	f.Add("\xff", `"`)
	f.Fuzz(func(t *testing.T, a, b string) {
		r := Record{Exchange: &Exchange{Count: 1, Caller: a, Tries: []Try{{Endpoint: b}}}}
		line := AppendRecord(nil, &r)
		if bytes.IndexByte(line, '\n') != len(line)-1 || bytes.IndexByte(line, 0) >= 0 {
			t.Fatalf("%q", line)
		}
		got, err := Parse(line)
		if err != nil || got.Exchange.Caller != string([]rune(a)) || got.Exchange.Tries[0].Endpoint != string([]rune(b)) {
			t.Fatalf("%q, %q read back as %+v, %v", a, b, got.Exchange, err)
		}
	})
}

func TestEncodingAllocatesNothing(t *testing.T) {
	recs := full()
	buf := make([]byte, 0, 4096)
	if n := testing.AllocsPerRun(100, func() {
		for i := range recs {
			buf = AppendRecord(buf[:0], &recs[i])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkAppendRecord(b *testing.B) {
	r := full()[0]
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		buf = AppendRecord(buf[:0], &r)
	}
	b.SetBytes(int64(len(buf)))
}
