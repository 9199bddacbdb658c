package front_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/gateway/exchange"
	"breakwater/gateway/front"
)

// played is a client's connection that has said all it will: reads give it in
// pieces, and then its end.
type played struct {
	mu     sync.Mutex
	in     []byte
	piece  int
	out    bytes.Buffer
	once   sync.Once
	closed chan struct{}
}

func play(in []byte, piece int) *played {
	return &played{in: in, piece: max(piece, 1), closed: make(chan struct{})}
}

func (p *played) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.in) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.in[:min(p.piece, len(p.in))])
	p.in = p.in[n:]
	return n, nil
}

func (p *played) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Write(b)
}

func (p *played) Close() error { p.once.Do(func() { close(p.closed) }); return nil }

// CloseWrite comes half a second before net/http closes what it has refused, and
// nothing is served after it.
func (p *played) CloseWrite() error { return p.Close() }

func (*played) LocalAddr() net.Addr                { return playedAddr }
func (*played) RemoteAddr() net.Addr               { return playedAddr }
func (*played) SetDeadline(time.Time) error        { return nil }
func (*played) SetReadDeadline(time.Time) error    { return nil }
func (*played) SetWriteDeadline(t time.Time) error { return nil }

var playedAddr = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1}

// heard is a request as the stack gets it: from here on both faces are one, so what
// goes to the upstream is the same where this is.
type heard struct {
	line    string // method, path, query, host, protocol
	fields  []string
	framing int64 // the body's length; -1: chunks
	body    string
	failed  bool // the body had no good end
	trailer []string
	names   []string // announced
}

func (h heard) String() string {
	return fmt.Sprintf("%s %q %d %q failed %v %q %q", h.line, h.fields, h.framing, h.body, h.failed, h.trailer, h.names)
}

// faces are the two, and what they let through to their stack.
type faces struct {
	f     *front.Front
	conns chan net.Conn
	mu    sync.Mutex
	got   []heard
}

func newFaces(t testing.TB) *faces {
	w := &faces{conns: make(chan net.Conn)}
	w.f = front.New(front.Config{
		Service: exchange.Func(w.serve), Log: slog.New(slog.DiscardHandler),
		Refuse: func(x *exchange.Exchange, why *exchange.Refusal) error {
			x.Response.Status, x.Response.Local = why.Status, true
			return nil
		},
	})
	s := w.f.Server() // of connections that are none of ours: net/http alone
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(w) }()
	t.Cleanup(func() { close(w.conns); <-done; _ = s.Close() })
	return w
}

func (w *faces) Accept() (net.Conn, error) {
	c, ok := <-w.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (w *faces) Close() error   { return nil }
func (w *faces) Addr() net.Addr { return playedAddr }

func (w *faces) serve(x *exchange.Exchange) error {
	q := &x.Request
	body, err := io.ReadAll(&q.Body)
	h := heard{
		line:   fmt.Sprintf("%q %q %q %q %d", q.Method, q.Path, q.Query, q.Host, q.Proto),
		fields: lines(&q.Head), framing: q.Body.Length, body: string(body), failed: err != nil, trailer: lines(&q.Trailer),
	}
	for _, name := range q.Announced {
		h.names = append(h.names, strings.Clone(name))
	}
	slices.Sort(h.names)
	h.names = slices.Compact(h.names)
	w.mu.Lock()
	w.got = append(w.got, h)
	w.mu.Unlock()
	x.Response.Status, x.Response.Length = 200, 2
	x.Response.Body = io.NopCloser(strings.NewReader("ok"))
	return nil
}

// lines are fields by name, in the order they came.
func lines(h *exchange.Head) (all []string) {
	for _, f := range h.Fields() {
		if name := textproto.CanonicalMIMEHeaderKey(f.Name); name != "X-Request-Id" {
			all = append(all, name+": "+f.Value)
		}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		a, _, _ = strings.Cut(a, ":")
		b, _, _ = strings.Cut(b, ":")
		return strings.Compare(a, b)
	})
	return all
}

func (w *faces) take() (got []heard) {
	w.mu.Lock()
	defer w.mu.Unlock()
	got, w.got = w.got, nil
	return got
}

// standard is what net/http's face lets through of in.
func (w *faces) standard(in []byte, piece int) []heard {
	p := play(slices.Clone(in), piece)
	w.conns <- p
	<-p.closed
	return w.take()
}

// auto is what the fast face lets through, and net/http of the rest that it hands
// over.
func (w *faces) auto(in []byte, piece int) (got []heard, rest []byte, out string) {
	p := play(slices.Clone(in), piece)
	rest = w.f.ServeFast(p)
	got = w.take()
	if rest != nil {
		rest = append(slices.Clone(rest), p.in...)
		got = append(got, w.standard(rest, piece)...)
	}
	return got, rest, p.out.String()
}

// excuses are the ways in which the fast face may let less through than net/http:
// messages that net/http repairs, and two readers may understand in two ways.
var excuses = []struct {
	why string
	are *regexp.Regexp
}{
	{"RFC 9112 section 2.2: a line that ends in a bare LF", regexp.MustCompile(`(^|[^\r])\n`)},
	{"section 2.2: a bare CR", regexp.MustCompile(`\r([^\n]|$)`)},
	{"section 5.2: a folded line, or white space before a field", regexp.MustCompile(`\r\n[ \t]`)},
	{"section 6.1: a length and a coding", regexp.MustCompile(`(?is)Content-Length.*Transfer-Encoding|Transfer-Encoding.*Content-Length`)},
	{"section 6.3: a length twice", regexp.MustCompile(`(?is)Content-Length.*Content-Length`)},
	{"RFC 9110 section 8.6: a length of 19 digits or more, which some readers cannot hold", regexp.MustCompile(`(?i)Content-Length:[ \t]*[0-9]{19}`)},
	{"RFC 9112 section 7.1.1: white space behind a chunk's size", regexp.MustCompile(`(?i)\n[0-9a-f]+[ \t]+(;|\r\n)`)},
	{"section 7.1.1: a control in a chunk's extension", regexp.MustCompile(`(?i)\n[0-9a-f]+;[^\r\n]*[\x00-\x08\x0b-\x1f\x7f]`)},
	{"section 7.1.1: a chunk's line of more than 1 KiB", regexp.MustCompile(`(?is)\n[0-9a-f]+;[^\r\n]{1000}`)},
	{"section 7.1.1: a chunk's size of 16 digits, or more framing than content", regexp.MustCompile(`(?i)\n[0-9a-f]{16}|\n[0-9a-f]+;`)},
	{"section 7.1.2: a trailer that is no field", regexp.MustCompile(`(?s)\n0+[^\n]*\r\n[^\r]`)},
}

// explained reports whether the fast face may have let less through of in. rest is
// what it handed over: net/http, for which the connection is new, does not know then
// that a POST went before, behind which it forgives up to four CR and LF. The fast
// face forgives one CRLF (RFC 9112 section 2.2).
func explained(in, rest []byte) bool {
	if len(rest) > 0 && (rest[0] == '\r' || rest[0] == '\n') {
		return true
	}
	return slices.ContainsFunc(excuses, func(e struct {
		why string
		are *regexp.Regexp
	}) bool {
		return e.are.Match(in)
	})
}

// unpragma takes out what net/http itself says: it gives each request with
// "Pragma: no-cache" a Cache-Control too (RFC 9111 section 5.4, which a gateway need
// not apply). The fast face passes on what was said.
func unpragma(h heard) heard {
	if i := slices.Index(h.fields, "Cache-Control: no-cache"); i >= 0 && slices.ContainsFunc(h.fields, func(f string) bool { return strings.HasPrefix(f, "Pragma: no-cache") }) {
		h.fields = slices.Delete(slices.Clone(h.fields), i, i+1)
	}
	return h
}

// agree holds what came of in on the fast face against net/http.
func agree(t *testing.T, w *faces, in []byte, piece int) {
	t.Helper()
	if bytes.HasPrefix(in, []byte("PRI * HTTP/2.0")) { // another protocol, and all of it net/http's
		return
	}
	std := w.standard(in, 1<<20)
	got, rest, out := w.auto(in, piece)
	for i, h := range got {
		if i >= len(std) {
			// net/http ends a connection behind a chunked upload; the fast face, whose
			// reader is strict, goes on.
			if i > 0 && slices.ContainsFunc(got[:i], func(h heard) bool { return h.framing < 0 }) {
				return
			}
			t.Fatalf("let through what net/http does not:\n%v\nof %q\nanswered %q", h, in, out)
		}
		want := std[i]
		if h.failed && want.failed { // neither forwards a whole request
			return
		}
		if h.failed && explained(in, rest) { // stricter in the middle of a body: nobody gets its end
			return
		}
		if a, b := unpragma(h).String(), unpragma(want).String(); a != b {
			t.Fatalf("request %d of %q\nis by the fast face, which hands over %q\n%s\nand by net/http\n%s", i, in, rest, a, b)
		}
	}
	if len(got) < len(std) && !explained(in, rest) {
		t.Fatalf("let %d of %d requests through, and nothing explains why:\n%q\nanswered %q", len(got), len(std), in, out)
	}
}

// FuzzReader: the fast face takes what net/http takes, or less, and understands it
// in the same way. What is less is named by excuses.
func FuzzReader(f *testing.F) {
	for _, raw := range hostile(f) {
		f.Add([]byte(raw), 1<<20)
	}
	const get, post = "GET /a?b=c HTTP/1.1\r\nHost: a\r\n", "POST /a HTTP/1.1\r\nHost: a\r\n"
	for _, raw := range []string{
		get + "\r\n" + get + "X: y\r\nx: z\r\n\r\n", get + "Pragma: no-cache\r\n\r\n", get + "Connection: close\r\n\r\n" + get + "\r\n",
		get + "Connection:o close\r\n\r\n" + get + "\r\n", get + "Connection: x,Close\ty\r\n\r\n" + get + "\r\n", get + "Connection: not-close\r\n\r\n" + get + "\r\n",
		post + "Content-Length: 5\r\n\r\nhello" + get + "\r\n", post + "Content-Length: 5\r\n\r\nhel",
		post + "Content-Length: 5\r\n\r\nhello\r\n" + get + "\r\n", get + "\r\n\r\n" + get + "\r\n",
		post + "Transfer-Encoding: chunked\r\nTrailer: X-Sum, Host\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n" + get + "\r\n",
		post + "Transfer-Encoding: Chunked\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n000\r\n\r\n",
		post + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\nhello" + get + "\r\n", "GET http://a/b HTTP/1.1\r\nHost: c\r\n\r\n" + get + "\r\n",
		"GET /a HTTP/1.0\r\n\r\n", "GET /%zz HTTP/1.1\r\nHost: a\r\n\r\n", "GET /a/../b HTTP/1.1\r\nHost: a\r\n\r\n", get + "Trailer: Content-Length\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		get + "Connection: X-A, host\r\nX-A: 1\r\nTE: trailers\r\nUpgrade: h2c\r\n\r\n", "GET /a HTTP/1.1\r\nHost: a:b:c\r\n\r\n", "GET /a HTTP/1.1\r\nHost:\r\n\r\n",
	} {
		f.Add([]byte(raw), 1<<20)
		f.Add([]byte(raw), 3)
	}
	w := newFaces(f)
	f.Fuzz(func(t *testing.T, in []byte, piece int) {
		hangs := time.AfterFunc(20*time.Second, func() { panic(fmt.Sprintf("hangs on %q by %d", in, piece)) })
		defer hangs.Stop()
		agree(t, w, in, piece)
	})
}

// TestExcuses: each excuse is needed, and for no more than it says.
func TestExcuses(t *testing.T) {
	const get, post = "GET /a HTTP/1.1\r\nHost: a\r\n", "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
	w := newFaces(t)
	for _, in := range []string{
		get + "X: y\n\r\n", "GET /a HTTP/1.1\nHost: a\r\n\r\n", get + "X: y\r\n z\r\n\r\n", get + "Content-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		get + "Content-Length: 0\r\nContent-Length: 0\r\n\r\n", post + "5 \r\nhello\r\n0\r\n\r\n", post + "5;" + strings.Repeat("x", 2000) + "\r\nhello\r\n0\r\n\r\n",
		post + "5;\x01\r\nhello\r\n0\r\n\r\n",
	} {
		std := w.standard([]byte(in), 1<<20)
		got, _, _ := w.auto([]byte(in), 1<<20)
		if len(std) == 0 || std[0].failed || len(got) > 0 && !got[0].failed {
			t.Errorf("%.80q: net/http let %v through, the fast face %v", in, std, got)
		}
		if !explained([]byte(in), nil) {
			t.Errorf("%.80q: nothing explains it", in)
		}
	}
	if fine := get + "\r\n" + strings.Replace(post, "/a", "/b", 1) + "5\r\nhello\r\n0\r\nX: y\r\n\r\n"; explained([]byte(strings.Replace(fine, "X: y\r\n", "", 1)), nil) {
		t.Errorf("%q needs no excuse", fine)
	}
}

// hostile are the raw messages of the cases that go through a whole gateway in
// internal/conformance.
func hostile(t testing.TB) (all []string) {
	t.Helper()
	raw, err := os.ReadFile("../../internal/conformance/http-hostile.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Raw   string   `json:"raw"`
		Parts []string `json:"parts"`
	}
	if err := json.Unmarshal(raw, &cases); err != nil {
		t.Fatal(err)
	}
	many := regexp.MustCompile(`(?s)\{\{(.*?)\*(\d+)\}\}`)
	for _, c := range cases {
		text := many.ReplaceAllStringFunc(c.Raw+strings.Join(c.Parts, ""), func(m string) string {
			of := many.FindStringSubmatch(m)
			n, _ := strconv.Atoi(of[2])
			return strings.Repeat(of[1], min(n, 70<<10/len(of[1])))
		})
		var latin []byte // a character of the file is a byte of the message
		for _, r := range text {
			latin = append(latin, byte(r))
		}
		all = append(all, string(latin))
	}
	return all
}

var _ http.Handler = (*front.Front)(nil)
