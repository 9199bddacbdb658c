package retrylog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// ErrCRC says that a line is not what was written.
var ErrCRC = errors.New("checksum does not match")

// MaxLine bounds one line; a longer one is bad.
const MaxLine = 1 << 20

// trailer is the last member of every line; its eight digits follow "crc":".
const trailer = `,"crc":"00000000"}`

// Check reports whether line, with or without its newline, is whole: its
// checksum is right. It does not look at the JSON.
func Check(line []byte) error {
	line = bytes.TrimSuffix(line, []byte("\n"))
	at := len(line) - len(trailer)
	if at < 0 || string(line[at:at+8]) != trailer[:8] || string(line[len(line)-2:]) != `"}` {
		return fmt.Errorf("%w: the line does not end in its checksum", ErrCRC)
	}
	var sum uint32
	for _, c := range line[at+8 : at+16] {
		var d byte
		switch {
		case c >= '0' && c <= '9':
			d = c - '0'
		case c >= 'a' && c <= 'f':
			d = c - 'a' + 10
		default:
			return fmt.Errorf("%w: %q is no hexadecimal digit", ErrCRC, c)
		}
		sum = sum<<4 | uint32(d)
	}
	if got := crc32.Checksum(line[:at], castagnoli); got != sum {
		return fmt.Errorf("%w: got %08x, written %08x", ErrCRC, got, sum)
	}
	return nil
}

// Parse reads one line, with or without its newline, and checks its checksum.
func Parse(line []byte) (Record, error) {
	if err := Check(line); err != nil {
		return Record{}, err
	}
	var r Record
	if err := json.Unmarshal(line, &r); err != nil {
		return Record{}, fmt.Errorf("read record: %w", err)
	}
	set := 0
	for _, is := range []bool{r.Exchange != nil, r.Transition != nil, r.Config != nil, r.Notice != nil} {
		if is {
			set++
		}
	}
	if set != 1 {
		return Record{}, fmt.Errorf("read record: must hold one of exchange, transition, config, notice, got %d", set)
	}
	if r.Exchange != nil && r.Exchange.Count < 1 {
		return Record{}, fmt.Errorf("read record: count must be at least 1, got %d", r.Exchange.Count)
	}
	return r, nil
}

// Stats counts what a Scan met.
type Stats struct {
	Records int64
	// Bad counts lines that could not be read and were passed over; Torn those
	// of them that hold NUL bytes: they were being written when the process died.
	Bad, Torn int64
	// Tail counts the bytes after the last newline, zeros of preallocation left out.
	Tail int64
}

// Scan reads every record of r. n is the offset after the last line: what
// follows, without a newline or never written, is a torn tail to be cut. A bad
// line is counted, and reading goes on at the next newline. An error of fn or
// of r ends the scan.
func Scan(r io.Reader, fn func(Record) error) (n int64, stats Stats, err error) {
	n, stats, err = Lines(r, func(line []byte, _ int64) error {
		rec, err := Parse(line)
		if err != nil {
			return errBad
		}
		return fn(rec)
	})
	return n, stats, err
}

var errBad = errors.New("bad line")

// Lines is Scan without the JSON: fn gets each line whose checksum is right,
// newline included, and the offset where it begins. The line is only lent.
func Lines(r io.Reader, fn func(line []byte, at int64) error) (n int64, stats Stats, err error) {
	s := newSplitter(r)
	for {
		line, at, err := s.next()
		if err == io.EOF {
			stats.Tail = s.tail
			return n, stats, nil
		}
		if err != nil {
			return n, stats, err
		}
		n = s.pos
		if line == nil { // over MaxLine
			stats.Bad++
			continue
		}
		// A line that died in the middle of being copied leaves zeros before
		// its good successor: no good line holds a NUL.
		torn := false
		if bytes.IndexByte(line, 0) >= 0 { // the first is found much faster than the last
			i := bytes.LastIndexByte(line, 0)
			torn = len(bytes.Trim(line[:i], "\x00")) > 0
			line, at = line[i+1:], at+int64(i)+1
		}
		if torn {
			stats.Bad++
			stats.Torn++
		}
		if len(line) <= 1 {
			continue
		}
		if Check(line) == nil {
			err = fn(line, at)
		} else {
			err = errBad
		}
		switch {
		case err == nil:
			stats.Records++
		case errors.Is(err, errBad):
			if !torn { // else both halves are one line, already counted
				stats.Bad++
			}
		default:
			return n, stats, err
		}
	}
}

// splitter cuts a stream into lines within a bounded buffer.
type splitter struct {
	r    io.Reader
	buf  []byte
	from int   // buf[from:] is not handed out yet
	pos  int64 // offset of buf[from]
	tail int64
	eof  bool
}

func newSplitter(r io.Reader) *splitter { return &splitter{r: r, buf: make([]byte, 0, 64<<10)} }

// next returns a line with its newline, or nil for one over MaxLine, and its offset.
func (s *splitter) next() (line []byte, at int64, err error) {
	at = s.pos
	skipping := false
	seen := 0 // of buf[from:], without a newline
	for {
		rest := s.buf[s.from:]
		if i := bytes.IndexByte(rest[seen:], '\n'); i >= 0 {
			end := seen + i + 1
			s.from += end
			s.pos += int64(end)
			if skipping {
				return nil, at, nil
			}
			return rest[:end:end], at, nil
		}
		// Zeros of preallocation are no line, however many.
		if s.zeroPrefix(rest) {
			at = s.pos
			rest = s.buf[s.from:]
		}
		seen = len(rest)
		if seen > MaxLine {
			skipping = true
			s.pos += int64(seen)
			s.from = len(s.buf)
			seen = 0
		}
		if s.eof {
			s.tail = int64(len(bytes.TrimRight(s.buf[s.from:], "\x00")))
			if skipping {
				s.tail += s.pos - at
			}
			return nil, at, io.EOF
		}
		if err := s.fill(); err != nil {
			return nil, at, err
		}
	}
}

// zeroPrefix drops a leading run of NUL bytes and reports whether there was one.
func (s *splitter) zeroPrefix(rest []byte) bool {
	n := len(rest) - len(bytes.TrimLeft(rest, "\x00"))
	s.from += n
	s.pos += int64(n)
	return n > 0
}

func (s *splitter) fill() error {
	if s.from > 0 {
		s.buf = s.buf[:copy(s.buf, s.buf[s.from:])]
		s.from = 0
	}
	if len(s.buf) == cap(s.buf) {
		grown := make([]byte, len(s.buf), 2*cap(s.buf))
		copy(grown, s.buf)
		s.buf = grown
	}
	for range 100 {
		n, err := s.r.Read(s.buf[len(s.buf):cap(s.buf)])
		s.buf = s.buf[:len(s.buf)+n]
		if err == io.EOF {
			s.eof = true
			return nil
		}
		if err != nil || n > 0 {
			return err
		}
	}
	return io.ErrNoProgress
}
