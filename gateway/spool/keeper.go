package spool

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/internal/retrylog"
)

// runKeeper sees to it that writers find a segment, takes watermarks, and
// deletes what was kept long enough.
func (s *Spool) runKeeper(ctx context.Context) {
	tick := time.NewTicker(s.cfg.Every / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
			s.keep()
		case <-tick.C:
			s.keep()
			// Soon after the edge of a period, which is the edge of a window.
			if period := s.clock.now().UnixNano() / int64(s.cfg.Every); period != s.lastCut {
				s.lastCut = period
				s.keeping.Lock()
				_ = s.cut(false) // only the last one may fail
				s.keeping.Unlock()
				s.say.error(s.cfg.Log, "delete old segments", s.tidy(0))
			}
		}
	}
}

// keep makes whatever of boot folder, active and spare segment is missing.
func (s *Spool) keep() {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	err := s.makeBoot()
	if err == nil && !s.closed {
		err = s.fillUp()
	}
	s.say.error(s.cfg.Log, "make room", err)
}

// fillUp adds the segments that are missing. keeping is held.
func (s *Spool) fillUp() (err error) {
	for err == nil && (s.active.Load() == nil || s.spare.Load() == nil) {
		err = s.addSegment()
	}
	return err
}

// makeBoot makes the folder of this boot. Until it succeeds, counters live in
// memory; then what they counted moves into the page that survives.
func (s *Spool) makeBoot() error {
	if s.live != nil || s.closed {
		return nil
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("make boot: %w", err)
	}
	fold, err := makeFolds(s.dir, window(s.cfg.Every), s.cfg.allocate)
	if err != nil {
		return err
	}
	state, page, err := makeState(s.dir, s.cfg.sync)
	if err != nil {
		return errors.Join(err, fold.close())
	}
	before, after := s.counters.Load(), countersOf(page)
	opened := before.opened.Load()
	after.opened.Store(opened)
	cur := cursor{Until: time.UnixMicro(opened).UTC()}
	if err := errors.Join(state.write(cur, s.cfg.writeSync), syncDir(s.dir), syncDir(s.cfg.Dir)); err != nil {
		return errors.Join(err, unix.Munmap(page), state.f.Close(), fold.close())
	}
	s.counters.Store(after)
	s.gate.drain() // nobody counts in memory any more
	after.begun.Add(before.begun.Load())
	after.ended.Add(before.ended.Load())
	after.dropped.Add(before.dropped.Load())
	s.page = page
	s.fold = fold
	s.durable.attach(fold, state.f)
	s.folds.Store(fold)
	s.liveMu.Lock()
	s.live = &boot{id: s.id, dir: s.dir, state: state, cur: cur, ends: map[int64]int64{}, maxLines: batchLines}
	s.liveMu.Unlock()
	return nil
}

// addSegment makes a segment and puts it where one is missing. Acknowledged
// segments give way to it, unread ones never do.
func (s *Spool) addSegment() error {
	seg, err := s.allocate()
	if err != nil {
		if terr := s.tidy(s.cfg.SegmentBytes); terr != nil {
			return errors.Join(err, terr)
		}
		if seg, err = s.allocate(); err != nil {
			return err
		}
	}
	s.number++
	// The journal does not make files: the name must be there after a power cut.
	s.say.error(s.cfg.Log, "bring a segment's name to the disk", errors.Join(s.cfg.sync(seg.f), syncDir(s.dir)))
	s.swap.Lock()
	resumed := s.active.Load() == nil
	if resumed {
		seg.since = time.Now()
		s.active.Store(seg)
	} else {
		s.spare.Store(seg)
	}
	s.swap.Unlock()
	if lost := s.counters.Load().dropped.Load(); resumed && lost > 0 {
		s.Record(&retrylog.Record{Notice: &retrylog.Notice{Kind: "events_dropped", Count: lost, Detail: "since the boot began"}})
	}
	return nil
}

var errBound = errors.New("the spool has reached its size bound")

func (s *Spool) allocate() (*segment, error) {
	total, _ := s.usage()
	if total+s.cfg.SegmentBytes > s.cfg.MaxBytes {
		return nil, fmt.Errorf("%w of %d bytes", errBound, s.cfg.MaxBytes)
	}
	return newSegment(s.dir, s.number+1, s.cfg.SegmentBytes, s.cfg.allocate)
}

// cut takes a watermark, the last one if final. keeping is held.
func (s *Spool) cut(final bool) (err error) {
	if s.live == nil {
		return nil
	}
	if final {
		s.folds.Store(nil) // what comes now has a line of its own, or is dropped
	}
	s.clock.follow()
	until := s.clock.now()
	over := int64(math.MaxInt64)
	if !final { // a window that is still open is not closed by a watermark
		over = until.UnixMicro() / s.fold.width
		until = time.UnixMicro(over * s.fold.width).UTC()
	}
	// Whoever took its End before until was inside; after this it has left, its
	// bytes are in a segment or its loss is counted.
	s.gate.drain()
	s.cutFolds(over)
	if final {
		err = s.dropSpare()
	}
	c := s.counters.Load()
	lost := c.dropped.Load()
	if final { // exchanges that the stop cuts off will never be recorded
		lost += max(0, c.begun.Load()-c.ended.Load())
	}

	if seg := s.active.Load(); seg != nil && (final || s.spare.Load() != nil && seg.reserved.Load() > 0 && s.aged(seg)) {
		seg.retire()
		s.next(seg)
	}
	s.swap.Lock()
	seg, retired := s.active.Load(), slices.Clone(s.retired)
	var at int64
	if seg != nil {
		at = seg.reserved.Load()
	}
	s.swap.Unlock()
	// What was reserved below at may still be under the pen of those who came
	// after the first drain.
	s.gate.drain()

	m := mark{until: until, lost: lost, final: final, clean: final}
	if len(retired) > 0 {
		// The next boot looks for lines in open segments only: of what is in others the
		// journal must know that it is cut.
		s.say.error(s.cfg.Log, "bring full segments to the disk", s.toDisk())
		if !s.durable.hasJournal() {
			// Freed slots must be free on disk before the segments are closed that hold
			// their lines: after a power cut the next boot looks only into open ones.
			s.say.error(s.cfg.Log, "sync folds", s.cfg.sync(s.fold.f))
		}
		s.sealAll(retired)
		last := slices.MaxFunc(retired, func(a, b *segment) int { return cmp.Compare(a.n, b.n) })
		s.lastSeg, s.lastOff = last.n, last.end.Load()
	}
	if seg != nil {
		s.lastSeg, s.lastOff = seg.n, seg.limit(at)
	}
	m.seg, m.off = s.lastSeg, s.lastOff
	guarded(func() {
		c.until.Store(until.UnixMicro())
		if final {
			c.closed.Store(1)
		}
	})
	s.live.add(m)
	signal(s.batches)
	return err
}

// aged reports whether seg was active long enough to be closed.
func (s *Spool) aged(seg *segment) bool {
	s.swap.Lock()
	defer s.swap.Unlock()
	return time.Since(seg.since) >= s.cfg.RotateEvery
}

// finish closes the log: what is recorded from here on is dropped.
func (s *Spool) finish() error {
	s.keeping.Lock()
	defer s.keeping.Unlock()
	return s.cut(true)
}

// dropSpare makes the active segment the last one.
func (s *Spool) dropSpare() error {
	s.swap.Lock()
	spare := s.spare.Swap(nil)
	s.swap.Unlock()
	if spare == nil {
		return nil
	}
	return errors.Join(unix.Munmap(spare.mem), spare.f.Close(), os.Remove(filepath.Join(s.dir, segmentName(spare.n, openExt))))
}

// release gives the mapped page back; late calls of Begin and Record count in memory.
func (s *Spool) release() {
	if s.live == nil {
		return
	}
	before, after := s.counters.Load(), &counters{}
	s.counters.Store(after)
	s.gate.drain()
	after.begun.Add(before.begun.Load())
	after.ended.Add(before.ended.Load())
	after.dropped.Add(before.dropped.Load())
	_ = unix.Munmap(s.page)
	s.page = nil
	s.say.error(s.cfg.Log, "close the journal", s.durable.close(s.cfg.sync))
	s.say.error(s.cfg.Log, "close folds", s.fold.close())
	_ = s.live.state.f.Close()
	for _, b := range s.old {
		_ = b.state.f.Close()
	}
}

// boots lists every boot of the directory, oldest first.
func (s *Spool) boots() []*boot {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	all := append([]*boot{}, s.old...)
	if s.live != nil {
		all = append(all, s.live)
	}
	return all
}

// usage is the size of all segments.
func (s *Spool) usage() (bytes int64, files int) {
	for _, b := range s.boots() {
		list, _ := segments(b.dir)
		for _, f := range list {
			bytes += f.size
			files++
		}
	}
	return bytes, files
}

// tidy deletes acknowledged segments, oldest first: those kept long enough,
// those over KeepBytes, and as many as it takes to free need bytes.
func (s *Spool) tidy(need int64) error {
	type done struct {
		file
		b *boot
	}
	var list []done
	var total int64
	var errs []error
	for _, b := range s.boots() {
		files, err := segments(b.dir)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, f := range files {
			if !f.open && (s.cfg.Control == "" || b.acked(f.n)) {
				list = append(list, done{f, b})
				total += f.size
			}
		}
		if b.id != s.id && len(files) == 0 && (s.cfg.Control == "" || b.over()) {
			errs = append(errs, s.forget(b))
		}
	}
	for _, d := range list {
		if need <= 0 && total <= s.cfg.KeepBytes && time.Since(d.mod) < s.cfg.Keep {
			continue
		}
		if err := os.Remove(d.path); err != nil {
			errs = append(errs, fmt.Errorf("delete segment: %w", err))
			continue
		}
		total -= d.size
		need -= d.size
	}
	return errors.Join(errs...)
}

// over reports whether nothing of the boot is left to be shipped.
func (b *boot) over() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cur.Done
}

// forget removes the folder of a boot that was shipped and kept.
func (s *Spool) forget(b *boot) error {
	s.liveMu.Lock()
	for i, o := range s.old {
		if o == b {
			s.old = append(append([]*boot{}, s.old[:i]...), s.old[i+1:]...)
			break
		}
	}
	s.liveMu.Unlock()
	return errors.Join(b.state.f.Close(), os.RemoveAll(b.dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
