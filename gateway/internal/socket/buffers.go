package socket

import (
	"sync"
	"unsafe"
)

// Buffers lends buffers of one size to connections that have something to put in. It is
// safe for concurrent use.
type Buffers struct {
	size int
	free sync.Pool // *byte, of the first: a slice in an interface would be allocated
}

// NewBuffers returns Buffers of size bytes each.
func NewBuffers(size int) *Buffers { return &Buffers{size: size} }

// Lend returns a buffer with anything in it.
func (b *Buffers) Lend() []byte {
	if first, ok := b.free.Get().(*byte); ok {
		return unsafe.Slice(first, b.size)
	}
	return make([]byte, b.size)
}

// Back takes a buffer that nobody uses any more. Those of another size, which were made
// since it was lent, are not kept.
func (b *Buffers) Back(buf []byte) {
	if len(buf) == b.size && cap(buf) == b.size {
		b.free.Put(unsafe.SliceData(buf))
	}
}
