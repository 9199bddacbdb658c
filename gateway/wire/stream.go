package wire

import "time"

// StreamIdle is the longest silence of an answer that has no deadline, where its
// route says nothing.
const StreamIdle = 5 * time.Minute

// Buffered is how much of the body has come already.
func (b *body) Buffered() int {
	if b.c == nil {
		return 0
	}
	return b.c.w - b.c.r
}
