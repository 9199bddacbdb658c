package gateway_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
	"breakwater/gateway/source"
	"breakwater/internal/conf"
)

// follow makes g serve by a file, as the command does, and returns how to change
// it: write returns what /debug/config says once the new text has been judged.
func follow(t *testing.T, g *gateway.Gateway, first string) (write func(text string) string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gw.yaml")
	if err := os.WriteFile(path, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	judged := make(chan string, 16)
	warn := func(err error) { g.Refused(err); judged <- err.Error() }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := source.File{Path: path, Poll: 2 * time.Millisecond, Warn: warn}.Follow(ctx, func(d source.Document) error {
			var log conf.Log
			cfg := config.Parse(d.Files, &log)
			var err error
			if config.Loadable(&log) {
				err = g.Apply(*cfg)
			} else {
				err = log.Err()
				g.Refused(err)
			}
			judged <- fmt.Sprint(err)
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	if got := <-judged; got != "<nil>" {
		t.Fatal(got)
	}
	return func(text string) string {
		next := path + ".new"
		if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, path); err != nil {
			t.Fatal(err)
		}
		select {
		case said := <-judged:
			return said
		case <-time.After(10 * time.Second):
			t.Fatal("nobody read the new document")
			return ""
		}
	}
}

// debug is what the admin port says of the configuration.
func debug(t *testing.T, g *gateway.Gateway) (revision, lastError string) {
	t.Helper()
	w := httptest.NewRecorder()
	g.Admin().ServeHTTP(w, httptest.NewRequest("GET", "/debug/config", nil))
	var v struct {
		Revision  string `json:"revision"`
		LastError string `json:"last_error"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v.Revision, v.LastError
}

func document(address string) string {
	return `apiVersion: breakwater/v1
kind: Upstream
name: order
endpoints: [{address: "` + address + `"}]
---
apiVersion: breakwater/v1
kind: Route
name: order
service: order
match: {path: "/orders/*"}
upstream: order
timeout: 5s
retry: {enabled: true, max_retries: 2, per_try_timeout: 800ms, retry_on_status: [502], backoff_base: 250ms, fallback_strategy: pass_through}
`
}

// refuses reloads with each bad document, and sees that the good one serves on and
// the reason is shown.
func refuses(t *testing.T, bad map[string][2]string) {
	t.Helper()
	up, _ := counted(t, 200)
	h := start(t, shop(up), gateway.Config{Log: slog.New(slog.DiscardHandler)})
	good := document(up)
	write := follow(t, h.Gateway, good)
	revision, _ := debug(t, h.Gateway)
	for name, change := range bad {
		text := change[0]
		if old, new, replace := strings.Cut(change[0], " => "); replace {
			if !strings.Contains(good, old) {
				t.Fatalf("%s: nothing to replace", name)
			}
			text = strings.Replace(good, old, new, 1)
		}
		said := write(text)
		now, reason := debug(t, h.Gateway)
		if !strings.Contains(said, change[1]) || reason != said {
			t.Errorf("%s: refused with %.200q, shown as %.200q, want %q", name, said, reason, change[1])
		}
		if now != revision {
			t.Errorf("%s: it serves by %s, not %s", name, now, revision)
		}
		if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 200 {
			t.Errorf("%s: got %d", name, status)
		}
	}
	if said := write(good + "\n"); said != "<nil>" {
		t.Errorf("a good document after them: %s", said)
	}
	if _, reason := debug(t, h.Gateway); reason != "" {
		t.Errorf("the reason is still shown: %s", reason)
	}
}

func TestReliability_X137(t *testing.T) {
	refuses(t, map[string][2]string{
		"a blank field":        {"timeout: 5s => timeout:", "timeout: must"},
		"a null field":         {"timeout: 5s => timeout: null", "timeout: must"},
		"an empty name":        {`upstream: order => upstream: ""`, "upstream: must"},
		"NaN":                  {"max_retries: 2 => max_retries: .nan", "max_retries: must"},
		"a negative time":      {"timeout: 5s => timeout: -1s", "timeout: must"},
		"an infinite number":   {"max_retries: 2 => max_retries: 1e400", "max_retries: must"},
		"a key twice":          {"timeout: 5s => timeout: 5s\ntimeout: 6s", "timeout"},
		"an unknown field":     {"timeout: 5s => tiemout: 5s", "did you mean timeout?"},
		"10 MB":                {strings.Repeat("# padding\n", 1<<20), "256 KiB"},
		"no documents at all":  {"{", "gw.yaml"},
		"a window that is off": {`match: {path: "/orders/*"} => match: {path: "/orders/*", windows: ["22:00-NaN UTC"]}`, "windows[0]: must"},
		"a weight of -1":       {"upstream: order\ntimeout => split: [{upstream: order, weight: -1}]\ntimeout", "weight: must"},
	})
}

func TestReliability_X139(t *testing.T) {
	refuses(t, map[string][2]string{
		"as long as a try":  {"backoff_base: 250ms => backoff_base: 800ms", "E-BACKOFF"},
		"longer than a try": {"backoff_base: 250ms => backoff_base: 2s", "E-BACKOFF"},
		"a shorter try":     {"per_try_timeout: 800ms => per_try_timeout: 250ms", "E-BACKOFF"},
	})
}

// X143: what no upstream may be is refused when the document is read, and again
// when its name is dialed.
func TestReliability_X143(t *testing.T) {
	refuses(t, map[string][2]string{
		"metadata":               {document("169.254.169.254:80"), "E-ADDRESS"},
		"a mapped address":       {document("[::ffff:127.0.0.1]:80"), "E-ADDRESS"},
		"metadata in a mapping":  {document("[::ffff:169.254.169.254]:80"), "E-ADDRESS"},
		"the unspecified":        {document("0.0.0.0:80"), "E-ADDRESS"},
		"the unspecified, long":  {document("[::]:80"), "E-ADDRESS"},
		"metadata by its number": {document("2852039166:80"), "E-ADDRESS"},
	})
	// Documents that never came through the parser: the dialer itself refuses.
	for _, address := range []string{"169.254.169.254:80", "[::ffff:169.254.169.254]:80", "0.0.0.0:80", "[fd00:ec2::254]:80", "224.0.0.1:80"} {
		h := start(t, shop(address), gateway.Config{Log: slog.New(slog.DiscardHandler)})
		begin := time.Now()
		status, text, _ := h.do(t, "GET", "/orders/1", "")
		if p := readProblem(t, text); status != 502 || p.Code != "dial" || time.Since(begin) > 3*time.Second || strings.Contains(text, "169.254") {
			t.Errorf("%s: got %d, %s", address, status, text)
		}
		if ev := h.records.wait(t, 1)[0]; len(ev.Tries) != 1 || ev.Tries[0].Kind != "dial" {
			t.Errorf("%s: tries %+v", address, ev.Tries)
		}
	}
}

// A name that means the upstream at first and the metadata service later.
func TestReliability_X143_Rebinding(t *testing.T) {
	up, calls := counted(t, 200)
	_, port, err := net.SplitHostPort(up)
	if err != nil {
		t.Fatal(err)
	}
	var rebound atomic.Bool
	resolver := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go answerDNS(theirs, func() [4]byte {
			if rebound.Load() {
				return [4]byte{169, 254, 169, 254}
			}
			return [4]byte{127, 0, 0, 1}
		})
		return ours, nil
	}}
	h := start(t, shop("shop.example.com.:"+port), gateway.Config{Dial: gateway.Guarded(resolver), Log: slog.New(slog.DiscardHandler)})
	if status, text, _ := h.do(t, "GET", "/orders/1", ""); status != 200 || calls.Load() != 1 {
		t.Fatalf("got %d, %s", status, text)
	}
	rebound.Store(true)
	next := shop("shop.example.com.:" + port)
	next.Upstreams[0].ConnectTimeout = time.Second // another pool: the next request dials
	if err := h.Apply(next); err != nil {
		t.Fatal(err)
	}
	status, text, _ := h.do(t, "GET", "/orders/1", "")
	if p := readProblem(t, text); status != 502 || p.Code != "dial" || calls.Load() != 1 {
		t.Errorf("got %d, %s after %d calls", status, text, calls.Load())
	}
}

// answerDNS answers each question on a stream: A with an address, others with none.
func answerDNS(c net.Conn, address func() [4]byte) {
	defer c.Close()
	for {
		var size [2]byte
		if _, err := c.Read(size[:1]); err != nil {
			return
		}
		if _, err := c.Read(size[1:]); err != nil {
			return
		}
		q := make([]byte, binary.BigEndian.Uint16(size[:]))
		for n := 0; n < len(q); {
			m, err := c.Read(q[n:])
			if err != nil {
				return
			}
			n += m
		}
		end := 12
		for end < len(q) && q[end] != 0 {
			end += int(q[end]) + 1
		}
		end += 5
		if end > len(q) {
			return
		}
		out := append([]byte{}, q[0], q[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0)
		out = append(out, q[12:end]...)
		if binary.BigEndian.Uint16(q[end-4:]) == 1 { // type A
			ip := address()
			out[7] = 1
			out = append(out, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, ip[0], ip[1], ip[2], ip[3])
		}
		binary.BigEndian.PutUint16(size[:], uint16(len(out)))
		if _, err := c.Write(append(size[:], out...)); err != nil {
			return
		}
	}
}

// F5 at a pace that a file on a disk does not have: every document is read and judged,
// one after another, under load. TestReliability_F5 of the command has the figure.
func TestReliability_F5_EveryDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	marks := make([]string, 8)
	var calls atomic.Int64
	for i := range marks {
		marks[i] = server(t, func(w http.ResponseWriter, _ *http.Request) {
			if calls.Add(1)%500 == 0 {
				w.WriteHeader(502) // its retry comes after some reloads
				return
			}
			_, _ = fmt.Fprint(w, marks[i])
		})
	}
	good := func(n int) string {
		return strings.Replace(document(marks[n%len(marks)]), "name: order\nservice", fmt.Sprintf("name: revision-%d\nservice", n), 1)
	}
	h := start(t, shop(marks[0]), gateway.Config{Log: slog.New(slog.DiscardHandler)})
	write := follow(t, h.Gateway, good(0))

	const most = 20_000 // requests
	var sent atomic.Int64
	var answers sync.Map // by request id
	var load sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		load.Go(func() {
			for sent.Add(1) <= most {
				select {
				case <-stop:
					return
				default:
				}
				res, err := h.client.Get(h.url + "/orders/1")
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 {
					t.Errorf("got %d %s, %v", res.StatusCode, body, err)
					return
				}
				answers.Store(res.Header.Get("X-Request-Id"), string(body))
			}
		})
	}
	routes := map[string]int{} // by revision: number of the document
	const documents = 600
	for n := range documents {
		text, want := good(n+1), "<nil>"
		if n%4 == 3 {
			text, want = strings.Replace(text, "backoff_base: 250ms", "backoff_base: 2s", 1), "E-BACKOFF"
		}
		if said := write(text); !strings.Contains(said, want) {
			t.Errorf("document %d: %s, want %s", n+1, said, want)
		}
		if revision, _ := debug(t, h.Gateway); want == "<nil>" {
			routes[revision] = n + 1
		}
	}
	close(stop)
	load.Wait()

	events := h.records.wait(t, 1)
	checked, retried := 0, 0
	for _, ev := range events {
		n, ok := routes[ev.Revision]
		body, answered := answers.Load(ev.RequestID)
		if !ok { // of the first document
			continue
		}
		checked++
		retried += len(ev.Tries) - 1
		endpoint := marks[n%len(marks)]
		if !answered || body != endpoint || ev.Route != fmt.Sprintf("revision-%d", n) {
			t.Fatalf("%+v was answered by %v; its revision is document %d with %s", ev, body, n, endpoint)
		}
		for _, try := range ev.Tries {
			if try.Endpoint != endpoint {
				t.Fatalf("%+v has a try at %s; its revision is document %d with %s", ev, try.Endpoint, n, endpoint)
			}
		}
	}
	if checked < documents || retried == 0 && calls.Load() > 2000 {
		t.Errorf("only %d requests by %d documents, %d retries", checked, len(routes), retried)
	}
	t.Logf("%d requests by %d documents, %d retries; %d poisoned", checked, len(routes), retried, documents/4)
}
