package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"breakwater/internal/retrylog"
)

// asideDir holds what could not be read or would not be taken, for a person to see.
const asideDir = "aside"

// boot is one run of a gateway, as the shipper sees it.
type boot struct {
	id, dir string
	state   *stateFile

	mu    sync.Mutex // guards what follows; the state file is the shipper's
	cur   cursor
	marks []mark
	ends  map[int64]int64 // where the data of closed segments ends

	maxLines int // of the next batch; less than usual after a 413
}

// mark is a watermark: every event that ended before until lies before off in
// segment seg, or is counted in lost.
type mark struct {
	until    time.Time
	seg, off int64
	lost     int64 // since the boot began
	final    bool  // no more will follow
	clean    bool
}

func (m mark) within(seg, off int64) bool { return m.seg < seg || m.seg == seg && m.off <= off }

// mostMarks bounds the list while control is away; thinned, a watermark only
// moves in larger steps.
const mostMarks = 4096

func (b *boot) add(m mark) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.marks) >= mostMarks {
		kept := b.marks[:0]
		for i := 1; i < len(b.marks); i += 2 {
			kept = append(kept, b.marks[i])
		}
		b.marks = kept
	}
	b.marks = append(b.marks, m)
}

func (b *boot) closedAt(seg, end int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ends[seg] = end
}

// acked reports whether all of segment n was acknowledged.
func (b *boot) acked(n int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cur.Done || n < b.cur.Seg
}

// recover takes over the boots that are over, oldest first.
func (s *Spool) recover() []retrylog.Notice {
	entries, err := os.ReadDir(s.cfg.Dir)
	if err != nil {
		s.say.error(s.cfg.Log, "read spool", err)
		return nil
	}
	var notices []retrylog.Notice
	for _, e := range entries { // sorted by name, which is by age
		if !e.IsDir() || e.Name() == asideDir {
			continue
		}
		dir := filepath.Join(s.cfg.Dir, e.Name())
		b, found, err := s.takeOver(dir, e.Name())
		if err != nil {
			found = append(found, s.setBootAside(dir, e.Name(), err)...)
		}
		if b != nil {
			s.old = append(s.old, b)
		}
		notices = append(notices, found...)
	}
	return notices
}

// setBootAside moves a boot out of the way that cannot be read. Nothing of it
// is deleted, but an empty folder.
func (s *Spool) setBootAside(dir, id string, why error) []retrylog.Notice {
	if files, err := segments(dir); err == nil && len(files) == 0 {
		_ = os.RemoveAll(dir) // the disk was full when it began
		return nil
	}
	err := os.MkdirAll(filepath.Join(s.cfg.Dir, asideDir), 0o700)
	if err == nil {
		err = os.Rename(dir, filepath.Join(s.cfg.Dir, asideDir, id))
	}
	s.cfg.Log.Error("spool of an earlier boot set aside", "boot", id, "err", errors.Join(why, err))
	return []retrylog.Notice{{Kind: "boot_unreadable", Count: 1, Detail: id + ": " + why.Error()}}
}

// takeOver seals what a boot left open and says what it lost.
func (s *Spool) takeOver(dir, id string) (*boot, []retrylog.Notice, error) {
	state, c, cur, err := readState(dir)
	if err != nil {
		return nil, nil, err
	}
	b := &boot{id: id, dir: dir, state: state, cur: cur, ends: map[int64]int64{}, maxLines: batchLines}
	if cur.Done {
		return b, nil, nil
	}
	var notices []retrylog.Notice
	var img *image
	if !cur.Recovered { // else everything of it is in the segments
		if img, err = readJournal(dir); err != nil {
			s.cfg.Log.Error("journal of an earlier boot not read", "boot", id, "err", err)
		}
	}
	until := c.until.Load() // what had ended then is written
	if img != nil {
		until = max(until, img.cut)
		if err := img.restore(dir, c); err != nil {
			s.cfg.Log.Error("segments of an earlier boot not restored", "boot", id, "err", err)
		}
	}
	lost, err := unfoldOld(dir, img, until, s.cfg.sync)
	if err != nil {
		s.cfg.Log.Error("folds of an earlier boot not written", "boot", id, "count", lost, "err", err)
		notices = append(notices, retrylog.Notice{Kind: "folds_lost", Count: lost, Detail: id})
	}
	files, err := segments(dir)
	if err != nil {
		return nil, nil, errors.Join(err, state.f.Close())
	}
	latest := time.UnixMicro(c.until.Load()).UTC()
	end := mark{seg: cur.Seg, off: cur.Off}
	for _, f := range files {
		if f.open {
			size, torn, last, err := sealOld(f, s.cfg.sync)
			if err != nil { // read as far as it goes
				s.cfg.Log.Error("segment of an earlier boot not sealed", "path", f.path, "err", err)
			}
			if torn {
				notices = append(notices, retrylog.Notice{Kind: "torn_tail", Count: 1, Detail: id + "/" + filepath.Base(f.path)})
			}
			f.size = size
			b.ends[f.n] = size
			if last.After(latest) {
				latest = last
			}
		}
		if f.n > end.seg || f.n == end.seg && f.size > end.off {
			end.seg, end.off = f.n, f.size
		}
	}
	if !cur.Recovered {
		b.cur.Recovered, b.cur.Clean = true, c.closed.Load() == 1
		// Begun and not recorded: what was in flight at the end.
		inFlight := max(0, c.begun.Load()-c.ended.Load())
		b.cur.EndUntil, b.cur.EndLost = latest, c.dropped.Load()+inFlight+lost
		if b.cur.EndUntil.Before(cur.Until) {
			b.cur.EndUntil = cur.Until
		}
		if !b.cur.Clean {
			notices = append(notices, retrylog.Notice{Kind: "unclean_stop", Count: inFlight, Detail: id})
		}
		if err := state.write(b.cur, s.cfg.writeSync); err != nil {
			s.say.error(s.cfg.Log, "write cursor", err)
		} else if err := dropJournal(dir); err != nil {
			s.cfg.Log.Error("journal of an earlier boot not removed", "boot", id, "err", err)
		}
	}
	end.until, end.lost, end.final, end.clean = b.cur.EndUntil, b.cur.EndLost, true, b.cur.Clean
	b.marks = []mark{end}
	return b, notices, nil
}

// sealOld cuts a segment that was left open behind its last line, and tells
// where that is and the first instant at which no event of it had yet to end.
func sealOld(f file, sync func(*os.File) error) (size int64, torn bool, last time.Time, err error) {
	h, err := os.OpenFile(f.path, os.O_RDWR, 0)
	if err != nil {
		return 0, false, last, err
	}
	defer h.Close()
	size, stats, err := retrylog.Lines(h, func(line []byte, _ int64) error {
		if t, ok := endOf(line); ok && !t.Before(last) {
			last = t.Add(time.Microsecond)
		}
		return nil
	})
	if err == nil {
		err = h.Truncate(size)
	}
	if err == nil {
		err = sync(h)
	}
	if err != nil {
		return size, stats.Tail > 0, last, err
	}
	if size == 0 {
		return 0, stats.Tail > 0, last, os.Remove(f.path)
	}
	return size, stats.Tail > 0, last, os.Rename(f.path, f.path[:len(f.path)-len(openExt)]+sealedExt)
}

// endOf finds when an exchange ended without reading its JSON: a start must not
// take long. Quotes within strings are escaped, so the key cannot be a value.
func endOf(line []byte) (time.Time, bool) {
	_, rest, ok := bytes.Cut(line, []byte(`,"end":"`))
	if !ok || !bytes.HasPrefix(line, []byte(`{"exchange"`)) {
		return time.Time{}, false
	}
	text, _, _ := bytes.Cut(rest, []byte(`"`))
	t, err := time.Parse(time.RFC3339Nano, string(text))
	return t, err == nil
}

// lines reads whole lines of a segment between from and limit, most of them at
// a time, and passes over what is no line. to is where the next batch begins.
func (b *boot) lines(seg, from, limit int64, most int) (body []byte, lines int, bad, to int64, err error) {
	f, err := openSegment(b.dir, seg)
	if err != nil {
		return nil, 0, 0, 0, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	enough := errors.New("enough")
	to = limit
	_, stats, err := retrylog.Lines(io.NewSectionReader(f, from, limit-from), func(line []byte, at int64) error {
		if lines == most || lines > 0 && len(body)+len(line) > batchBytes {
			to = from + at
			return enough
		}
		body = append(body, line...)
		lines++
		return nil
	})
	if errors.Is(err, enough) {
		err = nil
	}
	return body, lines, stats.Bad - stats.Torn, to, err
}
