package exchange

import (
	"io"
	"sync/atomic"
)

// Body is a request's body. It can keep what was read of it, up to a cap, so
// that a retry or a mirror can send it again.
type Body struct {
	// Length is the declared length; -1 where the client did not say.
	Length int64

	src  io.Reader
	kept []byte
	pos  int // next byte of kept to be read again
	max  int
	// watch looks at what comes from the source.
	watch func(p []byte, end bool) error
	// state is read by others than the goroutine that reads the body.
	state uint32
}

// Bits of a body's state.
const (
	bodyEOF  = 1 << iota // the source is at its end
	bodyLost             // more went by than kept may hold
)

func (b *Body) is(bit uint32) bool { return atomic.LoadUint32(&b.state)&bit != 0 }

func (b *Body) mark(bit uint32) { atomic.OrUint32(&b.state, bit) }

// Set gives the body its source; length -1 means unknown, src nil means none.
func (b *Body) Set(src io.Reader, length int64) {
	if src == nil {
		length = 0
	}
	b.reset()
	b.src, b.Length = src, length
	if src == nil {
		b.mark(bodyEOF)
	}
}

// Ended reports whether the source is at its end. It may be asked while another
// goroutine reads the body.
func (b *Body) Ended() bool { return b.is(bodyEOF) }

// Empty reports whether there is no body at all.
func (b *Body) Empty() bool { return b.src == nil }

// Keep asks that up to max bytes be kept for Rewind. To be called before the first Read.
func (b *Body) Keep(max int) { b.max = max }

// Watch has look see each piece that comes from the source, once, and whether it
// is the last; what is read again it does not see. An error of look becomes the
// reader's, and look is asked again if somebody reads on. To be called before the
// first Read; several may watch, the latest first.
func (b *Body) Watch(look func(p []byte, end bool) error) {
	if before := b.watch; before != nil {
		last := look
		look = func(p []byte, end bool) error {
			if err := last(p, end); err != nil {
				return err
			}
			return before(p, end)
		}
	}
	b.watch = look
}

// Read reads again what was kept, then the source.
func (b *Body) Read(p []byte) (int, error) {
	if b.pos < len(b.kept) {
		n := copy(p, b.kept[b.pos:])
		b.pos += n
		return n, nil
	}
	if b.is(bodyEOF) {
		return 0, io.EOF
	}
	n, err := b.src.Read(p)
	if b.watch != nil {
		if werr := b.watch(p[:n], err == io.EOF); werr != nil {
			return 0, werr
		}
	}
	if n > 0 && !b.is(bodyLost) {
		if len(b.kept)+n > b.max {
			b.mark(bodyLost)
			b.kept, b.pos = b.kept[:0], 0
		} else {
			b.kept = append(b.kept, p[:n]...)
			b.pos = len(b.kept)
		}
	}
	if err == io.EOF {
		b.mark(bodyEOF)
	}
	return n, err
}

// Rewind makes the next Read start at the first byte, or fails with
// ErrBodyTooBig where that is gone.
func (b *Body) Rewind() error {
	if b.is(bodyLost) {
		return ErrBodyTooBig
	}
	b.pos = 0
	return nil
}

// Replayable reports whether the body can be sent again as things stand: all that
// was read is kept. Of a body whose length nobody knows the rest may still come, and
// goes out behind what was kept; one known to be longer than may be kept is not
// begun anew. It may be asked while another goroutine reads the body.
func (b *Body) Replayable() bool {
	if b.Empty() {
		return true
	}
	return !b.is(bodyLost) && (b.is(bodyEOF) || b.Length < 0 || b.Length <= int64(b.max))
}

// Interrupt makes a Read of the source that waits, and every one to come, fail
// until Resume. It may be called from another goroutine than the reader's.
func (b *Body) Interrupt() {
	if s, ok := b.src.(Resumer); ok {
		s.Interrupt()
	}
}

// Resume undoes Interrupt, as far as the source can go on at all.
func (b *Body) Resume() {
	if s, ok := b.src.(Resumer); ok {
		s.Resume()
	}
}

// Resumer is a source whose reads can be interrupted.
type Resumer interface {
	Interrupter
	Resume()
}

// Kept returns the whole body where all of it has been read and kept.
func (b *Body) Kept() ([]byte, bool) { return b.kept, atomic.LoadUint32(&b.state) == bodyEOF }

func (b *Body) reset() { *b = Body{kept: b.kept[:0]} }
