package wire

// Buffered is how much of the body has come already.
func (b *body) Buffered() int {
	if b.c == nil {
		return 0
	}
	return b.c.w - b.c.r
}
