package exchange

import "unsafe"

// text is memory of an exchange's own for what is read or made while it lasts: the
// heads of request and answer, ids. It is used again for the next exchange.
type text struct {
	free  []byte // behind what is taken
	whole []byte // the piece that free is the rest of
}

const (
	textPiece = 2 << 10
	// One long head must not cost memory for ever.
	textKept = 16 << 10
)

// Text returns a copy of p that lasts until x ends. It is of the goroutine that
// serves x alone.
func (x *Exchange) Text(p []byte) string {
	if len(p) == 0 {
		return ""
	}
	t := &x.text
	if len(p) > len(t.free) {
		t.whole = make([]byte, max(textPiece, 2*len(t.whole), len(p)))
		t.free = t.whole
	}
	n := copy(t.free, p)
	s := unsafe.String(&t.free[0], n) // not written again before reset
	t.free = t.free[n:]
	return s
}

// reset frees all. Whoever kept a string of the exchange that is over would read
// those of another one: under the race detector it reads nonsense instead, so that
// tests find it.
func (t *text) reset() {
	if scribble {
		used := t.whole[:len(t.whole)-len(t.free)]
		for i := range used {
			used[i] = '?'
		}
	}
	if len(t.whole) > textKept {
		t.whole = nil
	}
	t.free = t.whole
}
