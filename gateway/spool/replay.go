package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"maps"
	"os"
	"path/filepath"
	"sync/atomic"
)

// nextFrame takes the first frame off a half. What is torn, or left from an earlier
// generation, is none.
func nextFrame(half []byte) (payload, rest []byte, gen, seq uint64, ok bool) {
	if len(half) < frameHead || string(half[:len(frameMagic)]) != frameMagic {
		return nil, nil, 0, 0, false
	}
	n := uint64(binary.LittleEndian.Uint32(half[4:]))
	if n > uint64(len(half)-frameHead) {
		return nil, nil, 0, 0, false
	}
	end := frameHead + int(n)
	if crc32.Checksum(half[12:end], castagnoli) != binary.LittleEndian.Uint32(half[8:]) {
		return nil, nil, 0, 0, false
	}
	next := min((end+pageSize-1)/pageSize*pageSize, len(half))
	return half[frameHead:end], half[next:], binary.LittleEndian.Uint64(half[12:]), binary.LittleEndian.Uint64(half[20:]), true
}

// piece is bytes of a segment.
type piece struct {
	segment, off int64
	text         []byte
}

// image is what a journal says of its boot.
type image struct {
	note
	pieces []piece
	slots  map[int]*slot
}

// readJournal reads the journal of a boot that is over; nil where there is none, or
// it says nothing.
func readJournal(dir string) (*image, error) {
	data, err := os.ReadFile(filepath.Join(dir, journalName))
	if isGone(err) {
		return nil, nil
	}
	return parseJournal(data), err
}

// parseJournal takes the younger of the halves that begin well, up to its first
// frame that is not whole.
func parseJournal(data []byte) *image {
	half := len(data) / 2
	var best *image
	var bestGen uint64
	for _, h := range [][]byte{data[:half], data[half:]} {
		if _, _, gen, seq, ok := nextFrame(h); !ok || seq != 0 || best != nil && gen < bestGen {
			continue
		} else if img := parseHalf(h, gen); img != nil {
			best, bestGen = img, gen
		}
	}
	return best
}

func parseHalf(half []byte, gen uint64) *image {
	var img *image
	for want := uint64(0); ; want++ {
		payload, rest, g, seq, ok := nextFrame(half)
		if !ok || g != gen || seq != want {
			return img
		}
		next := image{slots: map[int]*slot{}}
		if img != nil {
			next = *img
		}
		if !next.apply(payload) {
			return img
		}
		img, half = &next, rest
	}
}

// apply adds a frame, or nothing of one that makes no sense.
func (m *image) apply(payload []byte) bool {
	r := reader{b: payload}
	var n note
	for i := range n.counters {
		n.counters[i] = r.int()
	}
	n.cut = r.int()
	var pieces []piece
	slots := map[int]*slot{}
	for len(r.b) > 0 && !r.bad {
		part := r.b[0]
		r.b = r.b[1:]
		switch part {
		case partBytes:
			p := piece{segment: r.size(1 << 40), off: r.size(1 << 40)}
			p.text = r.bytes()
			pieces = append(pieces, p)
		case partSlot:
			i, s := r.slot()
			slots[i] = s
		case partCounts:
			i, s := r.counts(m.slots)
			slots[i] = s
		default:
			r.bad = true
		}
	}
	if r.bad {
		return false
	}
	m.note = n
	m.pieces = append(m.pieces, pieces...)
	maps.Copy(m.slots, slots)
	return true
}

func (r *reader) slot() (int, *slot) {
	i, s := int(r.size(foldTables*foldSlots-1)), &slot{}
	r.sums(s)
	s.key = uint16(r.size(slotText))
	text := r.bytes()
	r.bad = r.bad || len(text) > slotText || int(s.key) > len(text)
	s.n = uint16(copy(s.text[:], text))
	s.sum = crc32.Checksum(s.text[:s.n], castagnoli)
	s.state.Store(slotReady)
	return i, s
}

func (r *reader) counts(known map[int]*slot) (int, *slot) {
	i, s := int(r.size(foldTables*foldSlots-1)), &slot{}
	if have := known[i]; have != nil {
		s.sum, s.key, s.n, s.text = have.sum, have.key, have.n, have.text
		s.state.Store(slotReady)
	} else {
		r.bad = true
	}
	r.sums(s)
	return i, s
}

func (r *reader) sums(s *slot) {
	for _, to := range s.sums() {
		to.Store(r.int())
	}
}

// sums are what changes of a slot, in the order of the journal: the count first, so
// that whoever reads them may find sums that are too great for it, and no exchange
// without any.
func (s *slot) sums() [6]*atomic.Int64 {
	return [...]*atomic.Int64{&s.count, &s.latency, &s.try, &s.bytes, &s.min, &s.max}
}

// size reads a number that is at most most.
func (r *reader) size(most uint64) int64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return int64(v)
}

// bytes reads what text reads, without a copy.
func (r *reader) bytes() []byte {
	n := r.size(uint64(len(r.b)))
	if r.bad || n > int64(len(r.b)) {
		r.bad = true
		return nil
	}
	b := r.b[:n:n]
	r.b = r.b[n:]
	return b
}

// restore writes into the segments that were left open what the journal has of them
// and they do not, and moves the counters on. What is in them behind that was not
// yet due on the disk; where it is there, it is read. It may be cut short and begun
// again: the journal goes last.
func (m *image) restore(dir string, c *counters) error {
	for i, v := range c.all() {
		v.Store(max(v.Load(), m.counters[i]))
	}
	files, err := segments(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range files {
		if f.open {
			errs = append(errs, m.restoreSegment(f))
		}
	}
	return errors.Join(errs...)
}

func (m *image) restoreSegment(f file) error {
	h, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, p := range m.pieces {
		if p.segment != f.n {
			continue
		}
		have := make([]byte, len(p.text))
		if n, _ := h.ReadAt(have, p.off); n == len(have) && bytes.Equal(have, p.text) {
			continue
		}
		if _, err := h.WriteAt(p.text, p.off); err != nil {
			return errors.Join(err, h.Close())
		}
	}
	return h.Close() // whoever seals it syncs it
}

func dropJournal(dir string) error {
	if err := os.Remove(filepath.Join(dir, journalName)); err != nil && !isGone(err) {
		return err
	}
	return nil
}
