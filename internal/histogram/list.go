package histogram

import (
	"cmp"
	"slices"
)

// List is a histogram as it is stored and sent: count * 1024 + bin, in any order,
// a bin as often as it was added. Putting lists together adds them up; packed,
// two lists of the same values are equal element by element.
type List []int64

const (
	binBits = 10 // Size fits
	binMask = 1<<binBits - 1
	// longList is where a list is packed while it grows. A minute of anything
	// real has fewer bins, so the next packing is far away.
	longList = 512
)

// Add counts n values of us microseconds.
func (l *List) Add(us, n int64) {
	if n == 0 {
		return
	}
	e := n<<binBits | int64(Index(us))
	if last := len(*l) - 1; last >= 0 && (*l)[last]&binMask == e&binMask {
		(*l)[last] += e &^ binMask
		return
	}
	if len(*l) >= longList {
		l.Pack()
	}
	*l = append(*l, e)
}

// Merge adds the counts of other.
func (l *List) Merge(other List) {
	*l = append(*l, other...)
	if len(*l) > 2*longList {
		l.Pack()
	}
}

// Pack puts each bin down once, ascending.
func (l *List) Pack() {
	s := *l
	if len(s) < 2 {
		return
	}
	slices.SortFunc(s, func(a, b int64) int { return cmp.Compare(a&binMask, b&binMask) })
	kept := s[:1]
	for _, e := range s[1:] {
		if last := len(kept) - 1; kept[last]&binMask == e&binMask {
			kept[last] += e &^ binMask
		} else {
			kept = append(kept, e)
		}
	}
	*l = kept
}

// Bins are the counts of l by bin. A bin that is none counts as over the range.
func (l List) Bins() Bins {
	var b Bins
	for _, e := range l {
		i := min(int(e&binMask), Overflow)
		b.grow(i + 1)
		b[i] += e >> binBits
	}
	return b
}

// List are the bins of b that are not empty.
func (b Bins) List() List {
	l := List{}
	for i, n := range b {
		if n != 0 {
			l = append(l, n<<binBits|int64(i))
		}
	}
	return l
}
