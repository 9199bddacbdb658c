package front

import (
	"encoding/binary"
	"errors"
	"time"
)

// The frames of HTTP/2 that are looked at (RFC 9113 section 6).
const (
	frameData         = 0
	frameHeaders      = 1
	framePriority     = 2
	frameReset        = 3
	frameSettings     = 4
	framePushPromise  = 5
	framePing         = 6
	frameContinuation = 9

	flagEndStream  = 0x1 // ACK of SETTINGS and PING
	flagEndHeaders = 0x4
)

const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// What a client may do in a second. net/http answers each of these frames, and
// bounds none of them.
const (
	maxResets = 100  // streams begun and taken back: CVE-2023-44487
	maxIdle   = 1000 // frames that ask for work and carry nothing, while we have nothing to send either
)

var (
	errResets  = errors.New("too many streams reset")
	errIdle    = errors.New("too many frames without content")
	errBlock   = errors.New("head is too long")
	errPreface = errors.New("preface of HTTP/2 is missing")
	errNoHTTP2 = errors.New("HTTP/2 was not agreed upon")
)

// frames follows one direction of an HTTP/2 connection from frame to frame.
type frames struct {
	head [9]byte
	have int // bytes of head
	left int // bytes of the payload to come
}

// between reports whether the last frame was whole.
func (f *frames) between() bool { return f.have == 0 && f.left == 0 }

// scan tells each frame that begins in p.
func (f *frames) scan(p []byte, each func(kind, flags byte, length int, stream uint32) error) error {
	for len(p) > 0 {
		if f.left > 0 {
			n := min(f.left, len(p))
			f.left -= n
			p = p[n:]
			continue
		}
		n := copy(f.head[f.have:], p)
		f.have += n
		p = p[n:]
		if f.have < len(f.head) {
			return nil
		}
		f.have = 0
		f.left = int(f.head[0])<<16 | int(f.head[1])<<8 | int(f.head[2])
		if err := each(f.head[3], f.head[4], f.left, binary.BigEndian.Uint32(f.head[5:])&(1<<31-1)); err != nil {
			return err
		}
	}
	return nil
}

// client judges the frames that a client sends.
type client struct {
	since        time.Time // the second that is counted
	resets, idle int
	block        int    // bytes of the head block under way
	open         bool   // its end has not come
	last         uint32 // highest stream
}

// frame takes one frame in. work is how many frames we sent since the last call.
func (c *client) frame(now time.Time, most int, kind, flags byte, length int, stream uint32, work bool) error {
	if now.Sub(c.since) >= time.Second {
		c.since, c.resets, c.idle = now, 0, 0
	}
	if work {
		c.idle = 0 // a gRPC client measures the line with a ping for each answer
	}
	c.last = max(c.last, stream)
	switch kind {
	case frameHeaders, frameContinuation:
		if kind == frameHeaders {
			c.block = 0
		}
		c.block += length
		c.open = flags&flagEndHeaders == 0
		if c.block > most {
			return errBlock
		}
		if length == 0 && c.open {
			c.idle++
		}
	case frameReset:
		c.resets++
	case frameData:
		if length == 0 && flags&flagEndStream == 0 {
			c.idle++
		}
	case framePing, frameSettings:
		if flags&flagEndStream == 0 {
			c.idle++
		}
	case framePriority, framePushPromise:
		c.idle++
	}
	switch {
	case c.resets > maxResets:
		return errResets
	case c.idle > maxIdle:
		return errIdle
	}
	return nil
}

// goAway is the last frame of a connection whose client does not behave: code 11,
// enhance your calm.
func goAway(last uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(
		[]byte{0, 0, 8, 7, 0, 0, 0, 0, 0}, last), 11)
}
