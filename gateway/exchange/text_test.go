package exchange

import (
	"bytes"
	"strings"
	"testing"
)

// TestText: strings of an exchange keep what they said until it is over, however
// much comes after them, and the next one costs no memory.
func TestText(t *testing.T) {
	x := new(Exchange)
	x.Reset()
	var all []string
	for i := range 300 {
		p := bytes.Repeat([]byte{byte('a' + i%26)}, i)
		all = append(all, x.Text(p))
		for j := range p {
			p[j] = '!'
		}
	}
	for i, s := range all {
		if s != strings.Repeat(string(rune('a'+i%26)), i) {
			t.Fatalf("text %d became %.40q", i, s)
		}
	}
	x.Reset()
	if len(x.text.whole) > textKept {
		t.Errorf("%d bytes kept after an exchange that needed much", len(x.text.whole))
	}
	head := bytes.Repeat([]byte("x"), 700)
	if n := testing.AllocsPerRun(100, func() {
		x.Reset()
		_, _ = x.Text(head), x.Text(head[:24])
	}); n > 0 {
		t.Errorf("%v allocations an exchange", n)
	}
}
