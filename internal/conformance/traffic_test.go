package conformance_test

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/config"
)

// The figure is of 200 000: go test ./internal/conformance -run Traffic -traffic 200000 -v
var traffic = flag.Int("traffic", 20_000, "exchanges of TestTraffic")

// TestTraffic sends valid exchanges of all shapes to a server, directly and through
// both faces, and holds what comes back and what the server saw against one another.
func TestTraffic(t *testing.T) {
	if testing.Short() {
		t.Skip("a load of its own: part of make test, not of make check")
	}
	up := httptest.NewServer(http.HandlerFunc(echo))
	defer up.Close()
	direct := strings.TrimPrefix(up.URL, "http://")
	to := config.Upstream{Endpoints: []config.Endpoint{{Address: direct}}}
	targets := []target{
		{"direct", direct, false},
		{"fast", listen(t, config.Gateway{Front: config.FrontAuto}, to), false},
		{"standard", listen(t, config.Gateway{Front: config.FrontStandard}, to), true},
	}
	total, until := *traffic, time.Time{}
	if total == 20_000 { // beside other tests: as many of them as there is time for
		until = time.Now().Add(12 * time.Second)
	}
	const workers = 8
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			w := &worker{t: t, targets: targets, conns: make([]*link, len(targets)), draw: rand.New(rand.NewPCG(1, uint64(i)))}
			n := 0
			for ; n < total/workers && !t.Failed() && (until.IsZero() || time.Now().Before(until)); n++ {
				w.one()
			}
			for _, c := range w.conns {
				if c != nil {
					_ = c.Close()
				}
			}
			t.Logf("worker %d: %d exchanges with each, over %d connections to the server itself", i, n, w.opened)
		})
	}
	all.Wait()
}

type target struct {
	name, address string
	standard      bool // net/http serves it, from the first request on
}

type link struct {
	net.Conn
	r *bufio.Reader
	// standard is net/http's face: a chunked upload ends its connection, since it
	// takes framings for good that others read in another way.
	standard bool
}

// ends reports whether the connection ends behind m.
func (c *link) ends(m message, i int) bool {
	c.standard = c.standard || i > 0 && m.odd // handed over, with all that follows
	return m.close || c.standard && m.chunked
}

type worker struct {
	t       *testing.T
	targets []target
	conns   []*link
	draw    *rand.Rand
	opened  int
}

// message is a request and what is to become of its connection.
type message struct {
	raw     []byte
	method  string
	cuts    []int // where a write ends
	chunked bool
	close   bool
	odd     bool // not for the fast face
}

// one sends the same messages to all targets: mostly one, at times several at once.
func (w *worker) one() {
	batch := []message{w.message()}
	for len(batch) < 4 && w.draw.IntN(10) == 0 && !batch[len(batch)-1].close {
		batch = append(batch, w.message())
	}
	var first []string
	for i, to := range w.targets {
		seen, err := w.send(i, batch)
		if err != nil {
			w.t.Errorf("%s: %v after %.500q, for\n%.900q", to.name, err, seen, raws(batch))
			return
		}
		if first == nil {
			first = seen
		} else if !slices.Equal(first, seen) {
			w.t.Errorf("directly\n%.1200q\n%s\n%.1200q\nfor\n%.900q", first, to.name, seen, raws(batch))
			return
		}
	}
}

func raws(batch []message) (all []string) {
	for _, m := range batch {
		all = append(all, string(m.raw))
	}
	return all
}

// send sends batch to a target and reads the answers. Where a connection ends before
// the batch does, because its target says so, the rest goes over a new one.
func (w *worker) send(i int, batch []message) (seen []string, err error) {
	for len(batch) > 0 {
		c := w.conns[i]
		if c == nil {
			nc, err := net.Dial("tcp", w.targets[i].address)
			if err != nil {
				return seen, err
			}
			c = &link{nc, bufio.NewReader(nc), w.targets[i].standard}
			w.conns[i] = c
			if i == 0 {
				w.opened++
			}
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		sent := 1
		for !c.ends(batch[sent-1], i) && sent < len(batch) {
			sent++
		}
		if err := write(c, batch[:sent]); err != nil {
			return seen, err
		}
		for n, m := range batch[:sent] {
			one, closes, err := read(c.r, m.method)
			if err != nil {
				return seen, err
			}
			seen = append(seen, one)
			if want := n == sent-1 && c.ends(m, i); closes != want {
				return seen, fmt.Errorf("says that the connection ends: %v, want %v", closes, want)
			}
			if closes {
				if _, err := c.r.ReadByte(); err != io.EOF {
					return seen, fmt.Errorf("after the last answer comes %v, and not the end", err)
				}
				_ = c.Close()
				w.conns[i] = nil
			}
		}
		batch = batch[sent:]
	}
	return seen, nil
}

// write sends a batch at once, or a single message in its pieces.
func write(c net.Conn, batch []message) error {
	var all []byte
	for _, m := range batch {
		all = append(all, m.raw...)
	}
	if len(batch) == 1 {
		for _, cut := range batch[0].cuts {
			if _, err := c.Write(all[:cut]); err != nil {
				return err
			}
			all = all[cut:]
		}
	}
	_, err := c.Write(all)
	return err
}

// ours are fields that a gateway adds, and those that say when and not what.
var ours = []string{"Date", "X-Request-Id", "Traceparent", "Connection"}

// read renders an answer: its 1xx, status, fields, framing, body and trailers.
func read(r *bufio.Reader, method string) (seen string, closes bool, err error) {
	for {
		res, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			return seen, false, err
		}
		if res.StatusCode == http.StatusContinue {
			continue // whoever answers it, and whether there is need to
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return seen, false, fmt.Errorf("read the body after %d bytes: %w", len(body), err)
		}
		for _, name := range ours {
			res.Header.Del(name)
		}
		text := string(body)
		if i := strings.IndexByte(text, '\n'); i >= 0 {
			text = fmt.Sprintf("%s and %x", text[:i], sha256.Sum256(body[i:]))
		}
		seen += fmt.Sprintf("%d %v %d %v %s %v; ", res.StatusCode, lines(res.Header), res.ContentLength, res.TransferEncoding, text, lines(res.Trailer))
		if res.StatusCode >= 200 {
			return seen, res.Close, nil
		}
	}
}

func lines(h http.Header) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		all = append(all, fmt.Sprintf("%s=%q", name, h[name]))
	}
	return all
}

// message makes a request of some shape, which asks for an answer of some shape.
func (w *worker) message() message {
	d, oneIn := w.draw, func(n int) bool { return w.draw.IntN(n) == 0 }
	m := message{method: pick(d, "GET", "GET", "GET", "HEAD", "POST", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "PURGE")}
	path := pick(d, "/", "/orders/1", "/a/b/c", "/caf%C3%A9", "/a%20b", "/x~y_z-1.html", "/"+strings.Repeat("long/", 100)+"1")
	if oneIn(3) {
		path += pick(d, "?a=b", "?a=b&c=d%20e", "?q="+strings.Repeat("x", 500))
	}
	version, host := "1.1", pick(d, "shop.example", "shop.example:8080", "127.0.0.1", "[::1]:80")
	if oneIn(40) {
		version, m.close, m.odd = "1.0", true, true
	}
	if oneIn(40) {
		path, m.odd = "http://"+host+path, true
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/%s\r\n%s: %s\r\n", m.method, path, version, pick(d, "Host", "host", "HOST"), host)
	fmt.Fprintf(&b, "X-Shape: %s\r\n", w.shape())
	for i := range d.IntN(20) {
		fmt.Fprintf(&b, "%s: %s\r\n", pick(d, "X-T-A", "x-t-a", "X-T-"+strconv.Itoa(i)), pick(d, "", "v", "a, b", "\"q\\\"\"", "\xff\xfe", strings.Repeat("y", d.IntN(300))))
	}
	if oneIn(50) {
		fmt.Fprintf(&b, "X-T-Big: %s\r\n", strings.Repeat("z", 4000+d.IntN(20000)))
	}
	if oneIn(20) && version == "1.1" {
		m.close = true
		b.WriteString("Connection: close\r\n")
	}
	size := []int{0, d.IntN(10), d.IntN(2000), d.IntN(100_000)}[d.IntN(4)]
	body := make([]byte, size)
	for i := range body {
		body[i] = byte('a' + (i+size)%26)
	}
	expect := oneIn(40) && version == "1.1" && m.method != "GET" && m.method != "HEAD"
	switch {
	case m.method == "GET" && !oneIn(10) || m.method == "HEAD" || oneIn(4): // none
		b.WriteString("\r\n")
	case version == "1.0" || oneIn(2):
		if expect && size > 0 {
			m.odd = true
			b.WriteString("Expect: 100-continue\r\n")
		}
		fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n%s", size, body)
	default:
		m.chunked = true
		trailers := d.IntN(3)
		fmt.Fprintf(&b, "%s\r\n", pick(d, "Transfer-Encoding: chunked", "transfer-encoding: Chunked"))
		for i := range trailers {
			fmt.Fprintf(&b, "Trailer: X-T-%d\r\n", i)
		}
		b.WriteString("\r\n")
		for len(body) > 0 {
			n := min(1+d.IntN(20_000), len(body))
			fmt.Fprintf(&b, pick(d, "%x", "%X", "000%x")+pick(d, "", "", ";ext", ";a=\"b c\"")+"\r\n%s\r\n", n, body[:n])
			body = body[n:]
		}
		b.WriteString(pick(d, "0", "000", "0;last") + "\r\n")
		for i := range trailers {
			fmt.Fprintf(&b, "X-T-%d: %d\r\n", i, size)
		}
		b.WriteString("\r\n")
	}
	m.raw = b.Bytes()
	for oneIn(20) && len(m.cuts) < 3 {
		m.cuts = append(m.cuts, d.IntN(max(len(m.raw)/4, 1)))
	}
	return m
}

func pick(d *rand.Rand, from ...string) string { return from[d.IntN(len(from))] }

// shape asks for an answer: status, length, how it is framed, trailers, hints.
func (w *worker) shape() string {
	d := w.draw
	status := pick(d, "200", "200", "200", "200", "201", "204", "304", "404", "302", "299")
	length := []int{0, d.IntN(100), d.IntN(5000), d.IntN(150_000)}[d.IntN(4)]
	return fmt.Sprintf("%s %d %s %d %d", status, length, pick(d, "length", "length", "chunks", "pieces"), d.IntN(3), max(d.IntN(20)-18, 0))
}

// echo answers in the shape that is asked for, with what it saw of the request.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var status, length, trailers, hints int
	var mode string
	if _, serr := fmt.Sscan(r.Header.Get("X-Shape"), &status, &length, &mode, &trailers, &hints); err != nil || serr != nil {
		http.Error(w, fmt.Sprint(err, serr), http.StatusInternalServerError)
		return
	}
	fields := http.Header{}
	for name, values := range r.Header {
		if strings.HasPrefix(name, "X-T-") {
			fields[name] = values
		}
	}
	text := fmt.Sprintf("%s %s %s %x %d %v %q %q\n", r.Method, r.URL.RequestURI(), r.Host, sha256.Sum256(body), r.ContentLength, r.TransferEncoding,
		lines(fields), lines(r.Trailer))
	if status == http.StatusNoContent || status == http.StatusNotModified || r.Method == http.MethodHead {
		w.Header().Set("X-Echo", fmt.Sprintf("%x", sha256.Sum256([]byte(text))))
	}
	h := w.Header()
	h["Date"] = []string{"Thu, 01 Jan 2026 00:00:00 GMT"}
	h.Set("Content-Type", "text/plain")
	h["X-Twice"] = []string{"a", "b"}
	for range hints * r.ProtoMinor { // HTTP/1.0 knows none
		h.Set("Link", "</s.css>")
		w.WriteHeader(http.StatusEarlyHints)
		h.Del("Link")
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		w.WriteHeader(status)
		return
	}
	whole := text + strings.Repeat("0123456789abcdef", length/16)
	if mode == "length" {
		h.Set("Content-Length", strconv.Itoa(len(whole)))
	}
	w.WriteHeader(status)
	if mode == "pieces" {
		for len(whole) > 10_000 {
			_, _ = io.WriteString(w, whole[:10_000])
			whole = whole[10_000:]
			_ = http.NewResponseController(w).Flush()
		}
	}
	_, _ = io.WriteString(w, whole)
	if mode != "length" && r.ProtoMinor == 1 {
		for i := range trailers {
			h.Set(http.TrailerPrefix+"X-End-"+strconv.Itoa(i), strconv.Itoa(length))
		}
	}
}
