package wire

import (
	"bytes"
	"io"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

// maxInformational is how many 1xx may come before the answer.
const maxInformational = 32

// readHead reads heads until the final one, and fills x.Response. An error is
// the connection's, or a badResponse.
func (c *conn) readHead(x *exchange.Exchange) error {
	c.late = 0
	for range maxInformational {
		raw, err := c.headText()
		if err != nil {
			return err
		}
		text := x.Text(raw)
		head := &x.Response.Head
		head.Reset()
		status, minor, err := parseHead(text, head)
		if err != nil {
			return err
		}
		if status >= 200 {
			x.Late += c.late
			return c.accept(x, status, minor)
		}
		if status == 101 {
			return c.tunnel(x)
		}
		head.StripHop()
		head.Del("Content-Length")
		if x.Inform != nil && status != 100 { // 100 is for whoever sent Expect, which is not passed on
			x.Inform(status, head)
		}
	}
	return badResponse("too many informational answers")
}

// memory returns a body for x's answer. Both the body and the text of the head, to
// which the fields point, outlive the use of the connection, which may serve others
// before x has ended: so they are x's and not the connection's.
func memory(x *exchange.Exchange) *body {
	b, ok := x.Response.Memory.(*body)
	if !ok {
		b = new(body)
		x.Response.Memory = b
	}
	*b = body{}
	return b
}

// headText reads up to the empty line and returns the head without it. It is
// valid until the next fill.
func (c *conn) headText() ([]byte, error) {
	seen := 0
	for {
		data := c.buf[c.r:c.w]
		for {
			i := bytes.IndexByte(data[seen:], '\n')
			if i < 0 {
				seen = len(data)
				break
			}
			end := seen + i
			if end == 0 || data[end-1] != '\r' {
				return nil, badResponse("line of the head ends in a bare LF")
			}
			if end >= 3 && data[end-2] == '\n' {
				c.r += end + 1
				return data[:end-1], nil
			}
			seen = end + 1
		}
		if want := "HTTP/1."; len(data) > 0 && !strings.HasPrefix(want, string(data[:min(len(data), len(want))])) {
			return nil, badResponse("answer does not begin like HTTP/1")
		}
		if len(data) >= c.pool.cfg.MaxHead {
			return nil, badResponse("head is longer than " + strconv.Itoa(c.pool.cfg.MaxHead) + " bytes")
		}
		if len(data) == len(c.buf) && c.buf != nil {
			c.buf = append(make([]byte, 0, 2*len(c.buf)), data...)
			c.buf, c.r, c.w = c.buf[:cap(c.buf)], 0, len(data)
		}
		if err := c.fillHead(); err != nil {
			return nil, err
		}
	}
}

// parseHead reads a head whose lines all end in CRLF.
func parseHead(text string, head *exchange.Head) (status, minor int, err error) {
	line, rest := cutLine(text)
	// "HTTP/1.1 200" and then a space and a reason, or nothing.
	if len(line) < 12 || line[:7] != "HTTP/1." || line[7] != '0' && line[7] != '1' || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return 0, 0, badResponse("status line is malformed")
	}
	for _, d := range []byte(line[9:12]) {
		if d < '0' || d > '9' {
			return 0, 0, badResponse("status is not a number")
		}
		status = status*10 + int(d-'0')
	}
	if status < 100 || status > 599 {
		return 0, 0, badResponse("status is out of range")
	}
	if !plain(line[12:]) {
		return 0, 0, badResponse("reason holds a control character")
	}
	for rest != "" {
		line, rest = cutLine(rest)
		name, value, err := parseField(line)
		if err != nil {
			return 0, 0, err
		}
		head.Add(name, value)
	}
	return status, int(text[7] - '0'), nil
}

// cutLine returns the first line of text, and what follows it. Every line of a
// head ends in CRLF, of which headText has seen to it.
func cutLine(text string) (line, rest string) {
	i := strings.IndexByte(text, '\n')
	if i < 1 {
		return text, ""
	}
	return text[:i-1], text[i+1:]
}

func parseField(line string) (name, value string, err error) {
	colon := strings.IndexByte(line, ':')
	if colon <= 0 {
		return "", "", badResponse("line of the head is no field")
	}
	name, value = line[:colon], line[colon+1:]
	for i := range len(name) {
		if !tchars[name[i]] { // a folded line begins with a space and ends here
			return "", "", badResponse("field name is malformed")
		}
	}
	for value != "" && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for value != "" && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	if !plain(value) {
		return "", "", badResponse("field value holds a control character")
	}
	return name, value, nil
}

// plain reports whether s holds no control character but a tab.
func plain[T string | []byte](s T) bool {
	for i := range len(s) {
		if b := s[i]; b < ' ' && b != '\t' || b == 0x7f {
			return false
		}
	}
	return true
}

// tchars are the bytes that may stand in a token (RFC 9110 section 5.6.2).
var tchars = func() (t [256]bool) {
	for _, b := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		t[b] = true
	}
	return t
}()

// accept takes a final head: how its body ends, and whether the connection may
// serve again (RFC 9112 section 6.3).
func (c *conn) accept(x *exchange.Exchange, status, minor int) error {
	r := &x.Response
	length, chunked, err := framing(&r.Head)
	if err != nil {
		return err
	}
	if chunked && minor == 0 {
		return badResponse("chunked in HTTP/1.0")
	}
	connection := r.Head.Get("Connection")
	c.keep = minor == 1 && !exchange.HasToken(connection, "close") || minor == 0 && exchange.HasToken(connection, "keep-alive")
	c.keepAlive = c.pool.cfg.IdleTimeout
	if _, after, ok := strings.Cut(r.Head.Get("Keep-Alive"), "timeout="); ok {
		digits, _, _ := strings.Cut(after, ",")
		if n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 16); err == nil {
			// A second less than declared, so that we are the one who closes.
			c.keepAlive = max(time.Duration(n)*time.Second-time.Second, 0)
		}
	}
	r.Head.StripHop()
	r.Head.Del("Content-Length")
	r.Status, r.Length = status, length

	b := memory(x)
	switch {
	case x.Request.Method == "HEAD" || status == 204 || status == 304:
		if status == 204 {
			r.Length = -1
		}
		c.release(x)
		return nil
	case chunked:
		b.kind, r.Length = byChunks, -1
	case length == 0:
		c.release(x)
		return nil
	case length > 0:
		b.kind, b.left = byLength, length
	default:
		b.kind, c.keep = byClose, false
	}
	b.c, b.x, b.try = c, x, len(x.Event.Tries)-1
	r.Body = b
	return nil
}

// framing reads the two fields that say where a body ends. Both together, two
// lengths, or any coding but chunked are refused: whoever reads them otherwise
// than we do could be made to see another answer.
func framing(head *exchange.Head) (length int64, chunked bool, err error) {
	length = -1
	for _, f := range head.Fields() {
		switch {
		case strings.EqualFold(f.Name, "Content-Length"):
			n, ok := parseLength(f.Value)
			if !ok || length >= 0 && n != length {
				return 0, false, badResponse("Content-Length is malformed or contradicts another")
			}
			length = n
		case strings.EqualFold(f.Name, "Transfer-Encoding"):
			if chunked || !strings.EqualFold(f.Value, "chunked") {
				return 0, false, badResponse("Transfer-Encoding is not exactly chunked")
			}
			chunked = true
		}
	}
	if chunked && length >= 0 {
		return 0, false, badResponse("both Content-Length and Transfer-Encoding")
	}
	return length, chunked, nil
}

func parseLength(v string) (int64, bool) {
	if v == "" || len(v) > 18 {
		return 0, false
	}
	var n int64
	for i := range len(v) {
		if v[i] < '0' || v[i] > '9' {
			return 0, false
		}
		n = n*10 + int64(v[i]-'0')
	}
	return n, true
}

// tunnel takes a 101, where one was asked for and this is it.
func (c *conn) tunnel(x *exchange.Exchange) error {
	r := &x.Response
	if x.Request.Upgrade == "" || !strings.EqualFold(r.Head.Get("Upgrade"), x.Request.Upgrade) ||
		!exchange.HasToken(r.Head.Get("Connection"), "upgrade") {
		return badResponse("101 that nobody asked for")
	}
	r.Head.StripHop()
	r.Head.Del("Content-Length")
	r.Status, r.Length = 101, -1
	r.Tunnel = &tunnel{c: c, x: x}
	c.setDeadline(time.Time{}) // a tunnel lasts for as long as its ends like
	return nil
}

// tunnel is the upstream's stream after a 101.
type tunnel struct {
	c    *conn
	x    *exchange.Exchange
	shut bool
}

func (t *tunnel) Read(p []byte) (int, error) {
	if t.c.r < t.c.w {
		n := copy(p, t.c.buf[t.c.r:t.c.w])
		t.c.r += n
		return n, nil
	}
	return t.c.nc.Read(p)
}

func (t *tunnel) Write(p []byte) (int, error) { return t.c.nc.Write(p) }

// CloseWrite tells the upstream that the client sends no more.
func (t *tunnel) CloseWrite() error {
	if w, ok := t.c.nc.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return t.c.nc.Close()
}

func (t *tunnel) Close() error {
	if !t.shut {
		t.shut = true
		t.c.drop(t.x)
	}
	return nil
}

var _ io.ReadWriteCloser = (*tunnel)(nil)
