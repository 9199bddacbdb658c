// Package h1 reads requests of HTTP/1.1 as a gateway must, and writes answers. It
// takes a message only where every other reader takes it for the same one, so what
// it lets through cannot hide a second request. It holds bytes and rules alone: no
// connection, no clock.
package h1

// Verdict says what is to be done with what a client sent.
type Verdict int

// The verdicts. Refuse and RefuseCoding are messages that two readers could take
// for different ones; whoever sent them is told 400 or 501, and nothing behind them
// on the connection is looked at.
const (
	More         Verdict = iota // it is not whole yet
	Take                        // it is sound
	HandOver                    // another reader knows it: another version, a rare form
	Refuse                      // 400
	RefuseCoding                // 501: a transfer coding nobody here knows (RFC 9112 section 6.1)
)

// Status is what a client is told whose message is refused.
func (v Verdict) Status() int {
	if v == RefuseCoding {
		return 501
	}
	return 400
}

// What a byte may be part of.
const (
	inToken  = 1 << iota // tchar: methods and names of fields (RFC 9110 section 5.6.2)
	inValue              // field-content: visible, space, tab, obs-text (RFC 9110 section 5.5)
	inTarget             // visible ASCII: a request target (RFC 9112 section 3.2)
)

var classes = func() (t [256]byte) {
	for b := 0x21; b < 0x7f; b++ {
		t[b] = inValue | inTarget
	}
	for b := 0x80; b < 0x100; b++ {
		t[b] = inValue
	}
	t[' '], t['\t'] = inValue, inValue
	for b := byte('0'); b <= '9'; b++ {
		t[b] |= inToken
	}
	for b := byte('a'); b <= 'z'; b++ {
		t[b] |= inToken
		t[b-'a'+'A'] |= inToken
	}
	for _, b := range []byte("!#$%&'*+-.^_`|~") {
		t[b] |= inToken
	}
	return t
}()

// only reports whether s holds bytes of that class alone.
func only(s string, class byte) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return true
}
