package spool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// A segment is open while it may be written and sealed once it was cut to its
// data; the name says which, so that a start need only look into open ones.
const (
	openExt   = ".open"
	sealedExt = ".log"
)

// segment is one file, mapped whole.
type segment struct {
	n     int64
	dir   string
	f     *os.File
	mem   []byte
	since time.Time // active since
	// reserved is where the next line goes; beyond the size the segment is
	// full. end is where its data ends then.
	reserved atomic.Int64
	end      atomic.Int64
	// What the disk has: inFile in the file itself, safe there or in the journal.
	inFile, safe int64
}

// newSegment makes segment n, with all its blocks allocated: a write to a
// mapping that finds no block kills the process.
func newSegment(dir string, n, size int64, allocate func(*os.File, int64) error) (*segment, error) {
	path := filepath.Join(dir, segmentName(n, openExt))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make segment: %w", err)
	}
	s := &segment{n: n, dir: dir, f: f}
	if err = allocate(f, size); err == nil {
		s.mem, err = unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(path)
		return nil, fmt.Errorf("make segment %s: %w", path, err)
	}
	return s, nil
}

type putResult int

const (
	written putResult = iota
	full
	faulted
)

// put reserves room and copies line into it. No lock: two writers never share a byte.
func (s *segment) put(line []byte) putResult {
	n := int64(len(line))
	off := s.reserved.Add(n) - n
	if off+n > int64(len(s.mem)) {
		if off <= int64(len(s.mem)) { // exactly one writer passes the end
			s.end.Store(off)
		}
		return full
	}
	if !guarded(func() { copy(s.mem[off:], line) }) {
		return faulted
	}
	return written
}

// retire makes every later put find the segment full.
func (s *segment) retire() {
	n := int64(len(s.mem)) + 1
	if off := s.reserved.Add(n) - n; off < n {
		s.end.Store(off)
	}
}

// limit is where the data ends, once all writers of a moment have left: at is
// what reserved was at that moment.
func (s *segment) limit(at int64) int64 {
	if at > int64(len(s.mem)) {
		return s.end.Load()
	}
	return at
}

// unmap ends the mapping. Nobody may be writing.
func (s *segment) unmap() error {
	s.end.Store(s.limit(s.reserved.Load()))
	mem := s.mem
	s.mem = nil
	return unix.Munmap(mem)
}

// seal cuts the file of an unmapped segment to its data, on disk.
func (s *segment) seal(sync func(*os.File) error) error {
	err := s.f.Truncate(s.end.Load())
	// After a failed sync nothing more is written here anyway; what can be read is shipped.
	err = errors.Join(err, sync(s.f), s.f.Close())
	return errors.Join(err, os.Rename(filepath.Join(s.dir, segmentName(s.n, openExt)), filepath.Join(s.dir, segmentName(s.n, sealedExt))))
}

// guarded runs a copy into a mapping and reports whether it came to its end: a
// broken disk, or a file cut by somebody, faults, and must cost an event, not
// the process.
func guarded(write func()) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if recover() != nil {
			ok = false
		}
	}()
	write()
	return true
}

func segmentName(n int64, ext string) string { return fmt.Sprintf("%08d%s", n, ext) }

// file is a segment on disk.
type file struct {
	n    int64
	open bool
	path string
	size int64
	mod  time.Time
}

// segments lists those of a boot in order.
func segments(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var out []file
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if ext != openExt && ext != sealedExt {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSuffix(e.Name(), ext), 10, 64)
		if err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // renamed or removed since
		}
		out = append(out, file{n: n, open: ext == openExt, path: filepath.Join(dir, e.Name()), size: info.Size(), mod: info.ModTime()})
	}
	sort.Slice(out, func(i, j int) bool { return out[i].n < out[j].n })
	return out, nil
}

// openSegment opens segment n for reading, whichever name it has at the moment:
// a seal renames once, in one direction.
func openSegment(dir string, n int64) (*os.File, error) {
	f, err := os.Open(filepath.Join(dir, segmentName(n, openExt)))
	if errors.Is(err, os.ErrNotExist) {
		f, err = os.Open(filepath.Join(dir, segmentName(n, sealedExt)))
	}
	return f, err
}
