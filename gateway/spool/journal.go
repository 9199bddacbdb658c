package spool

import (
	"encoding/binary"
	"hash/crc32"
	"os"
	"path/filepath"
)

// The mapped files of a boot are what a kill leaves whole. What a power cut leaves
// of them is any mixture of old and new pages, and asking the disk for them page
// by page would disturb the requests that store into them. So what is new in them
// is copied into the journal, one file, in one write that returns when the disk has
// it. The journal is two halves of zeros, written beforehand, so that a write
// changes no metadata. A half begins with a frame that needs none before it; when it
// is full the other one begins.
const (
	journalName  = "journal"
	journalBytes = 8 << 20 // both halves
	frameMagic   = "BWJ1"
	// frameHead is magic, length of the payload, checksum of all that follows it,
	// generation of the half and number of the frame.
	frameHead = 4 + 4 + 4 + 8 + 8
)

// Parts of a frame's payload, behind its note.
const (
	partBytes  = 'b' // of a segment: number, offset, bytes
	partSlot   = 's' // a slot of the folds: index, sums, length of the key, text
	partCounts = 'c' // of a slot that is known: index, sums
)

// note is what a frame begins with.
type note struct {
	counters [6]int64 // in the order of counters
	cut      int64    // folds that ended before it, Unix microseconds, are lines of segments
}

func (n *note) begun() int64   { return n.counters[1] }
func (n *note) ended() int64   { return n.counters[2] }
func (n *note) dropped() int64 { return n.counters[3] }

// journal is the writer's side.
type journal struct {
	f    *os.File
	half int64 // size of one
	gen  uint64
	seq  uint64
	at   int64 // where the next frame begins in the half of gen
}

// begin makes the file anew, its blocks written: nothing of it counts before.
func (j *journal) begin(dir string, size int64, sync func(*os.File) error) error {
	path := filepath.Join(dir, journalName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	j.half = size / 2 / pageSize * pageSize
	if err = fill(f, 2*j.half); err == nil {
		err = sync(f)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return err
	}
	j.f, j.seq, j.at = f, 0, 0
	return nil
}

// turn makes the next frame the first of the other half.
func (j *journal) turn() { j.gen, j.seq, j.at = j.gen+1, 0, 0 }

// room is what fits behind the last frame.
func (j *journal) room() int64 { return j.half - j.at }

// append writes frame, which padFrame has ended, and returns when it is on the disk.
// A frame has pages of its own: no write that is cut short can hurt an earlier one.
func (j *journal) append(frame []byte, write func(*os.File, []byte, int64) error) error {
	sealFrame(frame, j.gen, j.seq)
	if err := write(j.f, frame, int64(j.gen%2)*j.half+j.at); err != nil {
		return err
	}
	j.seq++
	j.at += int64(len(frame))
	return nil
}

// drop makes the journal say nothing. What it said must not come to life again
// when the spool has gone on without it.
func (j *journal) drop(sync func(*os.File) error) {
	if j.f == nil {
		return
	}
	_ = j.f.Truncate(0)
	_ = sync(j.f)
	_ = j.f.Close()
	_ = os.Remove(j.f.Name())
	j.f = nil
}

func frameBuffer(b []byte, n *note) []byte {
	b = append(b[:0], make([]byte, frameHead)...)
	for _, v := range n.counters {
		b = binary.AppendVarint(b, v)
	}
	return binary.AppendVarint(b, n.cut)
}

func appendBytesPart(b []byte, segment, off int64, text []byte) []byte {
	b = append(b, partBytes)
	b = binary.AppendUvarint(b, uint64(segment))
	b = binary.AppendUvarint(b, uint64(off))
	b = binary.AppendUvarint(b, uint64(len(text)))
	return append(b, text...)
}

// appendSlotPart appends what slot i holds, or only its sums where the journal
// knows the rest, and returns the count it read.
func appendSlotPart(b []byte, i int, s *slot, known bool) (_ []byte, count int64) {
	part := byte(partSlot)
	if known {
		part = partCounts
	}
	b = binary.AppendUvarint(append(b, part), uint64(i))
	sums := s.sums()
	count = sums[0].Load()
	b = binary.AppendVarint(b, count)
	for _, v := range sums[1:] {
		b = binary.AppendVarint(b, v.Load())
	}
	if known {
		return b, count
	}
	b = binary.AppendUvarint(b, uint64(s.key))
	b = binary.AppendUvarint(b, uint64(s.n))
	return append(b, s.text[:min(int(s.n), slotText)]...), count
}

// padFrame says how long b is and fills it up to whole pages.
func padFrame(b []byte) []byte {
	copy(b, frameMagic)
	binary.LittleEndian.PutUint32(b[4:], uint32(len(b)-frameHead))
	if over := len(b) % pageSize; over != 0 {
		b = append(b, make([]byte, pageSize-over)...)
	}
	return b
}

func sealFrame(frame []byte, gen, seq uint64) {
	binary.LittleEndian.PutUint64(frame[12:], gen)
	binary.LittleEndian.PutUint64(frame[20:], seq)
	n := frameHead + int(binary.LittleEndian.Uint32(frame[4:]))
	binary.LittleEndian.PutUint32(frame[8:], crc32.Checksum(frame[12:n], castagnoli))
}
