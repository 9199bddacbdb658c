package spool

import (
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"breakwater/internal/retrylog"
)

// Plain successes that are alike are counted in a table and written as one line
// when their window is over. The tables lie in a shared mapping of a file of the
// boot, so what was counted survives a kill as a written line does, and the next
// boot writes it (unfold.go). What finds no room in a table gets a line of its
// own: folding saves work and never decides what is counted.
const (
	foldName   = "folds"
	foldTables = 3    // windows that may be open while the keeper is held up
	foldSlots  = 1024 // lines a window can have
	foldProbes = 32   // places a key may be at
	slotText   = 384
)

// slot is one line to be.
type slot struct {
	state   atomic.Uint32
	sum     uint32 // over text, for whoever finds it after a power cut
	hash    uint64
	count   atomic.Int64
	latency atomic.Int64 // sums, in microseconds and bytes
	try     atomic.Int64
	bytes   atomic.Int64
	min     atomic.Int64 // of the latencies
	max     atomic.Int64
	key, n  uint16 // text[:key] is what is alike, text[key:n] the first one's own
	_       [60]byte
	text    [slotText]byte
}

// States of a slot; the file begins with one, and never with a brace.
const (
	slotFree = iota
	slotReady
)

const slotSize = int(unsafe.Sizeof(slot{}))

// table is what is in memory of one window. Slots are given out in order, so that
// no more of the mapping is touched than is used.
type table struct {
	window atomic.Int64                 // 0: free
	given  atomic.Int64                 // slots given out, or asked for in vain
	index  [2 * foldSlots]atomic.Uint32 // by hash: number of a slot, from 1
}

// busy is in the index while its slot is filled.
const busy = 1 << 31

// folds are the tables of one boot.
type folds struct {
	f      *os.File
	mem    []byte
	cut    atomic.Int64 // what ended before it is in segments; Unix microseconds
	slots  []slot
	width  int64 // of a window, in microseconds
	seed   maphash.Seed
	tables [foldTables]table
}

// window is how long exchanges are folded into one line: up to a second, and
// never over the edge of a minute, in which rows are kept.
func window(every time.Duration) time.Duration {
	for _, w := range []time.Duration{1000, 500, 250, 100, 50, 20, 10, 5, 2} {
		if w *= time.Millisecond; w <= every {
			return w
		}
	}
	return time.Millisecond
}

// makeFolds makes the file of the tables in dir, all its blocks allocated.
func makeFolds(dir string, width time.Duration, allocate func(*os.File, int64) error) (*folds, error) {
	const size = foldTables * foldSlots * int(unsafe.Sizeof(slot{}))
	path := filepath.Join(dir, foldName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make folds: %w", err)
	}
	var mem []byte
	if err = allocate(f, int64(size)); err == nil {
		mem, err = unix.Mmap(int(f.Fd()), 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make folds: %w", err), f.Close(), os.Remove(path))
	}
	return &folds{f: f, mem: mem, slots: slotsOf(mem), width: width.Microseconds(), seed: maphash.MakeSeed()}, nil
}

func slotsOf(mem []byte) []slot {
	return unsafe.Slice((*slot)(unsafe.Pointer(unsafe.SliceData(mem))), len(mem)/slotSize)
}

// close forgets the tables; nobody may be counting.
func (f *folds) close() error {
	return errors.Join(unix.Munmap(f.mem), f.f.Close(), os.Remove(f.f.Name()))
}

// add counts x among those of the same fold, or reports that x needs a line of its own. The caller went
// through the gate before x.End was taken: a window is sealed when all have left
// who may belong to it.
func (f *folds) add(x *retrylog.Exchange, fold int64) (done bool) {
	if !plain(x) {
		return false
	}
	w := x.End.UnixMicro() / f.width
	i := int(w % foldTables)
	if w <= 0 || !f.tables[i].open(w) {
		return false
	}
	var buf [slotText]byte
	key := appendKey(buf[:0], x, fold)
	hash := maphash.Bytes(f.seed, key)
	guarded(func() { done = f.count(i, hash, key, x) })
	return done
}

// open reports whether t is the table of window w, or was free and is now.
func (t *table) open(w int64) bool {
	have := t.window.Load()
	if have == 0 && t.window.CompareAndSwap(0, w) {
		return true
	}
	return have == w || t.window.Load() == w
}

// count finds the slot of key, or takes one. No lock: whoever has marked a place
// of the index has it to himself until he says which slot it is.
func (f *folds) count(i int, hash uint64, key []byte, x *retrylog.Exchange) bool {
	t := &f.tables[i]
	slots := f.slots[i*foldSlots : (i+1)*foldSlots]
	for probe := range uint64(foldProbes) {
		place := &t.index[(hash+probe)%uint64(len(t.index))]
		n := place.Load()
		if n == 0 {
			if t.given.Load() >= foldSlots {
				return false
			}
			if place.CompareAndSwap(0, busy) {
				n = t.take(slots, hash, key, x)
				place.Store(n)
				return n != 0
			}
			n = busy
		}
		if n = await(place, n); n == 0 {
			return false
		}
		if s := &slots[n-1]; s.hash == hash && string(s.text[:s.key]) == string(key) {
			s.bump(x)
			return true
		}
	}
	return false
}

// take fills the next slot with x and returns its number, or 0 where there is none.
func (t *table) take(slots []slot, hash uint64, key []byte, x *retrylog.Exchange) uint32 {
	n := t.given.Add(1)
	if n > foldSlots {
		return 0
	}
	s := &slots[n-1]
	if !s.begin(hash, key, x) {
		return 0
	}
	s.state.Store(slotReady)
	return uint32(n)
}

// await waits for another who is filling a slot, which takes him 0.1 us; not for
// ever, as he may have been interrupted.
func await(place *atomic.Uint32, n uint32) uint32 {
	for range 100 {
		if n != busy {
			return n
		}
		runtime.Gosched()
		n = place.Load()
	}
	return n &^ busy
}

// bump counts one more. The count comes last: a kill between the lines leaves
// sums that are too great for the count, and not an exchange without any.
func (s *slot) bump(x *retrylog.Exchange) {
	for least := s.min.Load(); x.LatencyUS < least && !s.min.CompareAndSwap(least, x.LatencyUS); {
		least = s.min.Load()
	}
	for most := s.max.Load(); x.LatencyUS > most && !s.max.CompareAndSwap(most, x.LatencyUS); {
		most = s.max.Load()
	}
	s.latency.Add(x.LatencyUS)
	s.try.Add(x.Tries[0].LatencyUS)
	if x.BytesOut != 0 {
		s.bytes.Add(x.BytesOut)
	}
	s.count.Add(1)
}

// cutFolds writes the lines of all windows before w. keeping is held, and whoever
// counted in those windows has left the gate.
func (s *Spool) cutFolds(w int64) {
	f, whole := s.fold, true
	var over []int
	for i := range f.tables {
		if have := f.tables[i].window.Load(); have == 0 || have >= w {
			continue
		}
		over = append(over, i)
		for j := range f.given(i) {
			whole = s.unfold(&f.given(i)[j]) && whole
		}
	}
	if len(over) == 0 {
		return
	}
	f.cut.Store(min(w, math.MaxInt64/f.width) * f.width)
	// Lines must be on the disk before their slots are free: the disk may learn of
	// both in any order, and a power cut between them would take what was counted.
	// A journal learns of both in one frame.
	if !s.durable.hasJournal() {
		s.say.error(s.cfg.Log, "bring folded lines to the disk", s.toDisk())
	}
	s.durable.free(func() {
		for _, i := range over {
			f.free(i)
		}
	})
	var err error
	if !whole {
		err = errors.New("the mapping is broken")
	}
	s.say.error(s.cfg.Log, "read folds", err)
}

// free makes the slots of table i free.
func (f *folds) free(i int) {
	t, slots := &f.tables[i], f.given(i)
	guarded(func() {
		for j := range slots {
			slots[j].state.Store(slotFree)
		}
	})
	for j := range t.index {
		t.index[j].Store(0)
	}
	t.given.Store(0)
	t.window.Store(0)
}

// given are the slots of table i that hold something.
func (f *folds) given(i int) []slot {
	return f.slots[i*foldSlots:][:min(f.tables[i].given.Load(), foldSlots)]
}

// unfold writes the line of one slot. It reports whether the slot could be read.
func (s *Spool) unfold(from *slot) (whole bool) {
	var line []byte
	var count int64
	whole = guarded(func() {
		if from.state.Load() == slotReady {
			line, count = from.line(), from.count.Load()
		}
	})
	if line == nil {
		return whole
	}
	if s.active.Load() == nil || s.spare.Load() == nil {
		_ = s.fillUp() // the keeper says so when it looks again
	}
	e := s.gate.enter()
	defer s.gate.leave(e)
	if !s.write(line) {
		bump(&s.counters.Load().dropped, count)
		return true
	}
	s.metrics.folded.Add(count - 1)
	return true
}
