package gateway_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/policy/fault"
	"breakwater/internal/retrylog"
)

// haunted is a gateway with a table of faults that the test arms.
type haunted struct {
	*house
	table   *fault.Table
	address string
}

func haunt(t *testing.T, cfg config.Config) *haunted {
	t.Helper()
	alarm, err := fault.NewAlarm()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = alarm.Close() })
	table := fault.NewTable(fault.Caps{})
	table.SleepBy(alarm)
	h := start(t, cfg, gateway.Config{Faults: table, Rand: func() float64 { return 0 }})
	return &haunted{h, table, strings.TrimPrefix(h.url, "http://")}
}

// arm makes faults the whole of what is armed, for as long as control would lease them.
func (h *haunted) arm(t testing.TB, faults ...fault.Fault) {
	t.Helper()
	var leases []fault.Lease
	for _, f := range faults {
		leases = append(leases, fault.Lease{Fault: f, Hash: fmt.Sprint(f), Until: time.Now().Add(15 * time.Second)})
	}
	if _, refused := h.table.Replace(time.Now(), leases); len(refused) > 0 {
		t.Fatalf("refused %+v", refused)
	}
}

func (h *haunted) injected() (n int64) {
	for _, t := range h.table.Tallies() {
		n += t.Injected
	}
	return n
}

// last waits for the nth record, from 1, and returns it.
func (h *haunted) last(t *testing.T, n int) retrylog.Exchange {
	t.Helper()
	return h.records.wait(t, n)[n-1]
}

// whole is a fault of kind for every try of the shop's service.
func whole(kind fault.Kind, change ...func(*fault.Fault)) fault.Fault {
	f := fault.Fault{ID: string(kind), Run: "run-1", Seed: "s", PPM: 1_000_000, Target: fault.Target{Service: "order"}, Kind: kind}
	for _, c := range change {
		c(&f)
	}
	return f
}

func atEdge(f *fault.Fault) { f.Position, f.Key = fault.AtEdge, fault.KeyRequest }

// wired is an answer of HTTP/1.1 as its bytes came.
type wired struct {
	raw    []byte // all of it
	status int
	head   http.Header
	length int64  // that the head promises; -1: none
	body   []byte // chunks taken apart
	whole  bool   // it came to its own end
	err    error  // of the connection, where it did not
}

// ask sends one raw request on a connection of its own, and reads until the answer
// or the connection is at its end.
func (h *haunted) ask(t testing.TB, method, path string, fields ...string) wired {
	t.Helper()
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	return askOn(t, c, method, path, fields...)
}

func askOn(t testing.TB, c net.Conn, method, path string, fields ...string) (got wired) {
	t.Helper()
	text := method + " " + path + " HTTP/1.1\r\nHost: app.example\r\n"
	for i := 0; i+1 < len(fields); i += 2 {
		text += fields[i] + ": " + fields[i+1] + "\r\n"
	}
	if _, err := io.WriteString(c, text+"\r\n"); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	defer func() { got.raw = seen.Bytes() }()
	r := bufio.NewReaderSize(io.TeeReader(c, &seen), 1)
	got.length = -1
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			got.err = err
			return got
		}
		if line == "\r\n" {
			break
		}
		lines = append(lines, strings.TrimSuffix(line, "\r\n"))
	}
	got.status, _ = strconv.Atoi(strings.Fields(lines[0])[1])
	got.head = http.Header{}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		got.head.Add(name, value)
	}
	switch n, err := strconv.ParseInt(got.head.Get("Content-Length"), 10, 64); {
	case err == nil:
		if got.length = n; method == "HEAD" {
			n = 0
		}
		got.body, got.err = io.ReadAll(io.LimitReader(r, n))
		got.whole = int64(len(got.body)) == n
	case got.head.Get("Transfer-Encoding") == "chunked":
		got.body, got.err = io.ReadAll(httputil.NewChunkedReader(r))
		if got.whole = got.err == nil; got.whole {
			_, _ = r.ReadString('\n') // the end of the trailers
		}
	default:
		got.body, got.err = io.ReadAll(r)
	}
	return got
}

// stream is an answer of HTTP/2 as its frames came.
type stream struct {
	head  map[string]string
	body  []byte
	ended bool           // by itself
	reset *http2.ErrCode // or by this
}

// dialH2 is a raw connection of HTTP/2 by prior knowledge.
type dialH2 struct {
	net.Conn
	*http2.Framer
	next uint32
}

func (h *haunted) dialH2(t testing.TB) *dialH2 {
	t.Helper()
	c, err := net.Dial("tcp", h.address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(20 * time.Second))
	d := &dialH2{c, http2.NewFramer(c, c), 1}
	d.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 24}); err != nil {
		t.Fatal(err)
	}
	return d
}

// get asks on a stream and reads frames until that stream is over.
func (d *dialH2) get(t testing.TB, path string, fields ...string) stream {
	t.Helper()
	var block bytes.Buffer
	enc := hpack.NewEncoder(&block)
	all := append([]string{":method", "GET", ":scheme", "http", ":authority", "app.example", ":path", path}, fields...)
	for i := 0; i+1 < len(all); i += 2 {
		_ = enc.WriteField(hpack.HeaderField{Name: all[i], Value: all[i+1]})
	}
	id := d.next
	d.next += 2
	if err := d.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndStream: true, EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	got := stream{head: map[string]string{}}
	for {
		f, err := d.ReadFrame()
		if err != nil {
			t.Fatalf("after %+v: %v", got, err)
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				_ = d.WriteSettingsAck()
			}
		case *http2.PingFrame:
			_ = d.WritePing(true, f.Data)
		case *http2.GoAwayFrame:
			t.Fatalf("go away: %v", f.ErrCode)
		}
		if f.Header().StreamID != id {
			continue
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				got.head[field.Name] = field.Value
			}
			got.ended = f.StreamEnded()
		case *http2.DataFrame:
			got.body = append(got.body, f.Data()...)
			got.ended = f.StreamEnded()
		case *http2.RSTStreamFrame:
			code := f.ErrCode
			got.reset = &code
		}
		if got.ended || got.reset != nil {
			return got
		}
	}
}

// isReset reports whether err is the reset of a connection, and no end.
func isReset(err error) bool {
	return err != nil && !errors.Is(err, io.EOF) && strings.Contains(err.Error(), "connection reset")
}

// readHead reads one head as it comes.
func readHead(r *bufio.Reader) (head []byte, err error) {
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		if head = append(head, line...); len(line) == 2 {
			return head, nil
		}
	}
}

func admin(g *gateway.Gateway, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.Admin().ServeHTTP(w, httptest.NewRequest(method, "http://127.0.0.1"+path, nil))
	return w
}
