package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"syscall"
	"time"

	"breakwater/gateway/exchange"
)

// bodyKind is how the end of a body is told.
type bodyKind int

const (
	byLength bodyKind = iota
	byChunks
	byClose
)

// drainMax is how much of an unwanted body is read to save its connection, and
// drainFor how long that may take.
const (
	drainMax = 4 << 10
	drainFor = 50 * time.Millisecond
)

// maxChunkLine bounds a chunk's size line with its extensions, and maxTrailer
// all trailers together.
const (
	maxChunkLine = 1 << 10
	maxTrailer   = 16 << 10
)

// body reads an answer's body. At its end the connection goes back to the pool;
// an error, or Close before the end, gives the connection up.
type body struct {
	c    *conn // nil once given back or up
	x    *exchange.Exchange
	try  int // its entry in the event
	kind bodyKind
	left int64 // of the length, or of the chunk
	// begun: a chunk was read, its CRLF is to come before the next size.
	begun    bool
	err      error // what Read says from now on
	until    time.Time
	piece    io.LimitedReader // of SendTo
	draining bool             // has a deadline of its own
}

func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.read(p)
	switch {
	case err == nil:
	case err == io.EOF:
		b.err = io.EOF
		b.c.release(b.x)
		b.c = nil
	default:
		b.err = b.cut(err)
	}
	if n > 0 {
		return n, nil // an error comes with the next call
	}
	return 0, b.err
}

func (b *body) read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	switch b.kind {
	case byClose:
		return b.some(p)
	case byChunks:
		if b.left == 0 {
			if err := b.nextChunk(); err != nil {
				return 0, err
			}
		}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.some(p)
	b.left -= int64(n)
	if err == nil && b.left == 0 && b.kind == byLength {
		return n, io.EOF
	}
	return n, cut(err)
}

// some reads from the buffer, or from the connection past it.
func (b *body) some(p []byte) (int, error) {
	c := b.c
	if c.r < c.w {
		n := copy(p, c.buf[c.r:c.w])
		c.r += n
		return n, nil
	}
	if err := b.arm(); err != nil {
		return 0, err
	}
	if len(p) >= len(c.buf) {
		return c.read(p)
	}
	if err := c.fill(); err != nil {
		return 0, err
	}
	n := copy(p, c.buf[c.r:c.w])
	c.r += n
	return n, nil
}

// arm makes the next read of the connection obey the exchange: its deadline,
// which may have changed since the head, or else the longest silence.
func (b *body) arm() error {
	if b.draining {
		return nil
	}
	if cause := b.x.Waiting(b.c); cause != nil {
		return cause
	}
	set := b.c.setReadDeadline
	if b.c.send != nil {
		set = b.c.setDeadline // the upload goes on by the new deadline too
	}
	deadline, ok := b.x.Deadline()
	if !ok || b.x.Streaming {
		set(b.x.Patience(time.Now(), b.c.pool.cfg.StreamIdle))
	} else if !deadline.Equal(b.until) {
		if b.c.send == nil {
			b.c.allow(deadline, time.Time{})
		} else {
			set(deadline)
		}
		b.until = deadline
	}
	return nil
}

// nextChunk reads up to the data of the next chunk; io.EOF after the last one
// and its trailers.
func (b *body) nextChunk() error {
	if b.begun {
		line, err := b.line(2)
		if err != nil {
			return err
		}
		if len(line) > 0 {
			return badResponse("chunk is longer than its size")
		}
	}
	line, err := b.line(maxChunkLine)
	if err != nil {
		return err
	}
	digits, _, _ := bytes.Cut(line, []byte{';'})
	digits = bytes.TrimRight(digits, " \t") // RFC 9112 section 7.1.1: bad whitespace before an extension
	if len(digits) == 0 || len(digits) > 15 {
		return badResponse("chunk size is malformed")
	}
	size := int64(0)
	for i := range len(digits) {
		d := strings.IndexByte("0123456789abcdef", digits[i]|0x20)
		if d < 0 || digits[i] < '0' {
			return badResponse("chunk size is malformed")
		}
		size = size<<4 | int64(d)
	}
	b.begun, b.left = true, size
	if size > 0 {
		return nil
	}
	return b.trailers()
}

func (b *body) trailers() error {
	for total := 0; ; {
		line, err := b.line(maxTrailer)
		if err != nil {
			return err
		}
		if len(line) == 0 {
			return io.EOF
		}
		if total += len(line); total > maxTrailer {
			return badResponse("trailers are too long")
		}
		name, value, err := parseField(string(line)) // of its own memory: the buffer goes on
		if err != nil {
			return err
		}
		if exchange.TrailerAllowed(name) {
			b.x.Response.Trailer.Add(name, value)
		}
	}
}

// line reads a line of at most most bytes that ends in CRLF and returns it without,
// valid until the next read. It goes through the buffer, which holds readSize at least.
func (b *body) line(most int) ([]byte, error) {
	c := b.c
	for {
		data := c.buf[c.r:c.w]
		if i := bytes.IndexByte(data, '\n'); i >= 0 {
			if i == 0 || data[i-1] != '\r' {
				return nil, badResponse("line between chunks ends in a bare LF")
			}
			text := data[:i-1]
			if !plain(text) {
				return nil, badResponse("line between chunks holds a control character")
			}
			c.r += i + 1
			return text, nil
		}
		if len(data) >= min(most, len(c.buf)) {
			return nil, badResponse("line between chunks is too long")
		}
		if err := b.arm(); err != nil {
			return nil, err
		}
		if err := c.fill(); err != nil {
			return nil, cut(err)
		}
	}
}

// cut gives the connection up and names the reason, for the reader and in the
// event.
func (b *body) cut(err error) error {
	c, x := b.c, b.x
	b.c = nil
	c.drop(x)
	kind := exchange.BodyCut
	switch {
	case c.send != nil && c.send.sourceErr != nil && !errors.Is(c.send.sourceErr, errStopped):
		return c.send.sourceErr // not the upstream's fault
	case x.Cause() != nil:
		kind, err = exchange.Canceled, x.Cause()
	case timeout(err):
		kind, err = exchange.Canceled, context.DeadlineExceeded
	case errors.Is(err, syscall.ECONNRESET):
		kind = exchange.ResetAfterFirst
	}
	if b.try >= 0 && b.try < len(x.Event.Tries) {
		x.Event.Tries[b.try].Kind = string(kind)
	}
	return &exchange.UpstreamError{Kind: kind, Endpoint: c.endpoint, Err: err}
}

// Close ends the use of the body. One that is nearly at its end is read on, to
// keep the connection.
func (b *body) Close() error {
	if b.c == nil {
		return nil
	}
	if b.kind != byClose && (b.kind == byChunks || b.left <= drainMax) && b.c.keep {
		b.c.setReadDeadline(time.Now().Add(drainFor))
		b.draining = true
		if b.drain() {
			return nil
		}
	}
	if b.c != nil {
		b.c.drop(b.x)
		b.c = nil
	}
	b.err = errClosed
	return nil
}

var errClosed = errors.New("answer is closed")

// drain reads up to drainMax and reports whether that was all.
func (b *body) drain() bool {
	c := b.c
	var scratch [1 << 10]byte
	for total := 0; total <= drainMax; {
		if c.cancelled.Load() {
			return false
		}
		n, err := b.read(scratch[:])
		total += n
		if err == io.EOF {
			b.err, b.c = io.EOF, nil
			c.release(b.x)
			return true
		}
		if err != nil {
			return false
		}
	}
	return false
}
