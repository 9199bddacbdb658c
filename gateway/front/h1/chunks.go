package h1

import (
	"bytes"
	"errors"
	"strings"

	"breakwater/gateway/exchange"
)

// Bounds of what is not content. No client needs more, and each byte of it is read
// for nothing (CVE-2023-39326).
const (
	MaxLine    = 1 << 10  // of a chunk's size with its extensions
	MaxTrailer = 4 << 10  // all trailers together
	maxExcess  = 16 << 10 // framing beyond twice the content
)

// ErrChunks is a body whose chunks are none.
var ErrChunks = errors.New("chunks are malformed")

type part int

const (
	size part = iota
	data
	dataEnd
	trailers
	over
)

// Chunks reads the framing of a chunked body (RFC 9112 section 7.1). Its zero value
// is at the beginning of one.
type Chunks struct {
	part   part
	left   int64 // of the data of the chunk under way
	excess int64
	behind int // bytes of trailers
	bad    bool
}

// Over reports that the last chunk and all trailers were read.
func (c *Chunks) Over() bool { return c.part == over }

// Left is how much data comes next; 0 asks for Next.
func (c *Chunks) Left() int64 { return c.left }

// Took says that n of the data that Left promised were read.
func (c *Chunks) Took(n int) { c.left -= int64(n) }

// Next reads the framing that p begins with and returns how much of p that is. It
// comes to an end where data is next, the body is over, or p holds too little, and
// never leaves more than MaxTrailer unread. Trailers that may be passed on are added.
func (c *Chunks) Next(p []byte, trailer *exchange.Head) (used int, err error) {
	if c.bad {
		return 0, ErrChunks
	}
	used, err = c.next(p, trailer)
	c.bad = err != nil // whoever reads on must not find his feet again
	return used, err
}

func (c *Chunks) next(p []byte, trailer *exchange.Head) (used int, err error) {
	for c.left == 0 && c.part != over {
		if c.part == data {
			c.part = dataEnd
		}
		most := MaxLine
		if c.part == trailers {
			most = MaxTrailer - c.behind
		}
		line, whole, err := cutLine(p[used:], most)
		if err != nil || !whole {
			return used, err
		}
		used += len(line) + 2
		switch c.part {
		case dataEnd: // and nothing else: the chunk was as long as it said
			if len(line) > 0 {
				return used, ErrChunks
			}
			c.part = size
		case size:
			if c.left, err = c.size(line); err != nil {
				return used, err
			}
			if c.part = data; c.left == 0 {
				c.part = trailers
			}
		case trailers:
			if len(line) == 0 {
				c.part = over
				break
			}
			c.behind += len(line) + 2
			name, value, ok := field(string(line)) // of its own memory: the buffer goes on
			if !ok {
				return used, ErrChunks
			}
			if exchange.TrailerAllowed(name) { // RFC 9110 section 6.5.1
				trailer.Add(name, value)
			}
		}
	}
	return used, nil
}

// cutLine takes a line of at most most bytes off p. It ends in CRLF, and a CR or LF
// stands nowhere else in it.
func cutLine(p []byte, most int) (line []byte, whole bool, err error) {
	i := bytes.IndexByte(p, '\r')
	switch {
	case i < 0:
		i = len(p)
	case i+1 < len(p) && p[i+1] != '\n':
		return nil, false, ErrChunks
	}
	if i+2 > most {
		return nil, false, ErrChunks
	}
	for _, b := range p[:i] {
		if classes[b]&inValue == 0 {
			return nil, false, ErrChunks
		}
	}
	return p[:i], i+1 < len(p), nil
}

// size reads "1*HEXDIG [; extensions]" (RFC 9112 section 7.1.1). Space around the
// digits is a mistake some readers forgive, and some do not.
func (c *Chunks) size(line []byte) (int64, error) {
	digits, _, _ := bytes.Cut(line, []byte{';'})
	if len(digits) == 0 || len(digits) > 15 {
		return 0, ErrChunks
	}
	n := int64(0)
	for _, b := range digits {
		d := strings.IndexByte("0123456789abcdef", b|0x20)
		if d < 0 || b < '0' {
			return 0, ErrChunks
		}
		n = n<<4 | int64(d)
	}
	c.excess = max(c.excess+int64(len(line))+4-16-2*n, 0)
	if c.excess > maxExcess {
		return 0, ErrChunks
	}
	return n, nil
}
