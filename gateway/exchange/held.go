package exchange

import (
	"bytes"
	"io"

	"breakwater/internal/retrylog"
)

// HoldBody is how much of a held answer's body is read into memory, so that its
// connection is free during the back-off. A longer one keeps its connection.
const HoldBody = 64 << 10

// held is the last upstream answer, set aside while another try is made.
type held struct {
	response Response
	enders   []Ender // of a try whose body is still open
	outcome  retrylog.Outcome
	set      bool
	read     bytes.Buffer
}

func (h *held) reset() {
	h.response.reset()
	clear(h.enders)
	h.enders = h.enders[:0]
	h.set = false
	h.read.Reset()
}

// Hold sets the answer of the try begun at mark aside, and leaves x.Response
// free for the next one. An answer held before is dropped.
func (x *Exchange) Hold(mark int, o retrylog.Outcome) {
	x.Drop()
	h := &x.held
	h.response, x.Response = x.Response, h.response
	x.Response.reset()
	h.outcome, h.set = o, true

	if body := h.response.Body; body != nil {
		n, err := io.CopyN(&h.read, body, HoldBody+1)
		switch {
		case n <= HoldBody && err == io.EOF:
			_ = body.Close() // at its end: the connection goes back to the pool
			h.response.Body = io.NopCloser(bytes.NewReader(h.read.Bytes()))
		case err != nil: // cut: what was read is passed on, and then the cut
			_ = body.Close()
			h.response.Body = io.NopCloser(io.MultiReader(bytes.NewReader(h.read.Bytes()), failing{err}))
		default: // long: the rest stays on its connection
			h.response.Body = rest{io.MultiReader(bytes.NewReader(h.read.Bytes()), body), body}
			h.enders = append(h.enders, x.enders[mark:]...)
			clear(x.enders[mark:])
			x.enders = x.enders[:mark]
			return
		}
	}
	x.runEnders(mark, o)
}

// Held reports whether an answer is set aside, and its status.
func (x *Exchange) Held() (status int, ok bool) { return x.held.response.Status, x.held.set }

// Restore brings the held answer back into x.Response, which must be empty.
func (x *Exchange) Restore() bool {
	h := &x.held
	if !h.set {
		return false
	}
	x.Response, h.response = h.response, x.Response
	x.enders = append(x.enders, h.enders...)
	clear(h.enders)
	h.enders = h.enders[:0]
	h.set = false
	return true
}

// Drop gives the held answer up.
func (x *Exchange) Drop() {
	h := &x.held
	if !h.set {
		return
	}
	if h.response.Body != nil {
		_ = h.response.Body.Close()
	}
	for i := len(h.enders) - 1; i >= 0; i-- {
		h.enders[i].End(x, h.outcome)
	}
	h.reset()
}

type rest struct {
	io.Reader
	io.Closer
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
