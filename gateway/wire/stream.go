package wire

// Buffered is how much of the body has come already.
func (b *body) Buffered() int {
	if b.c == nil {
		return 0
	}
	return b.c.w - b.c.r
}

// Over reports whether the body ends with what was read of it: its last chunk has
// come, and no trailers are behind it. The next Read then returns io.EOF at once.
func (b *body) Over() bool {
	return b.c != nil && b.kind == byChunks && b.left == 0 && b.begun &&
		string(b.c.buf[b.c.r:min(b.c.w, b.c.r+7)]) == "\r\n0\r\n\r\n"
}
