package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// runDurable brings to the disk every SyncEvery what was recorded since, away from
// those who record: a power cut takes no more than that and the time of one write.
func (s *Spool) runDurable(ctx context.Context) {
	tick := time.NewTicker(s.cfg.SyncEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.say.error(s.cfg.Log, "bring the log to the disk", s.toDisk())
		}
	}
}

// durable knows what the disk has. While there is no journal, on a full disk or
// after an error of it, the mapped files themselves are synced.
type durable struct {
	mu      sync.Mutex // held for a write, and by whoever frees slots or mappings
	sealing sync.Mutex // held while segments that are in no list any more are synced

	fold    *folds // nil: the boot has no files
	state   *os.File
	journal journal
	retry   time.Time // no journal is begun before
	last    note
	seen    [foldTables]struct {
		window int64
		counts [foldSlots]int64
	}
	buf []byte
}

// span is a segment and where its data ends.
type span struct {
	*segment
	end int64
}

// toDisk returns when whatever was recorded before the call is on the disk.
func (s *Spool) toDisk() error {
	d := &s.durable
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fold == nil {
		return nil
	}
	// The counters first: what they count as ended is then in what is read after
	// them. And what the cut says to be in segments is there already.
	now := s.note()
	open := s.unsealed()
	if !d.news(&now, open) {
		return nil
	}
	done, err := d.write(s, &now, open)
	if !done {
		// The journal goes last: until the files are synced it alone has what was new.
		failed := d.syncFiles(s, open)
		d.journal.drop(s.cfg.sync)
		done, err = failed == nil, errors.Join(err, failed)
	}
	if done {
		d.last = now
	}
	return err
}

func (s *Spool) note() (n note) {
	guarded(func() {
		for i, v := range s.counters.Load().all() {
			n.counters[i] = v.Load()
		}
	})
	n.cut = s.durable.fold.cut.Load()
	return n
}

// unsealed lists the segments that are not sealed and what is in them: all that was
// recorded before the call, and nothing that is still under somebody's pen.
func (s *Spool) unsealed() (open []span) {
	s.swap.Lock()
	for _, seg := range s.retired {
		open = append(open, span{seg, 0})
	}
	if seg := s.active.Load(); seg != nil {
		open = append(open, span{seg, 0})
	}
	s.swap.Unlock()
	for i := range open {
		open[i].end = open[i].reserved.Load()
	}
	s.gate.drain()
	for i := range open {
		open[i].end = open[i].limit(open[i].end)
	}
	return open
}

// news reports whether anything was recorded since the last call.
func (d *durable) news(now *note, open []span) bool {
	return now.begun() != d.last.begun() || now.ended() != d.last.ended() || now.dropped() != d.last.dropped() || now.cut != d.last.cut ||
		slices.ContainsFunc(open, func(o span) bool { return o.end > o.safe })
}

// write brings what is new into the journal, or reports that there is none.
func (d *durable) write(s *Spool, now *note, open []span) (done bool, err error) {
	j := &d.journal
	whole := j.f == nil
	if whole {
		if time.Now().Before(d.retry) {
			return false, nil
		}
		d.retry = time.Now().Add(time.Second)
		if err := j.begin(s.dir, s.cfg.journalBytes, s.cfg.sync); err != nil {
			return false, fmt.Errorf("begin the journal: %w", err)
		}
	}
	var frame []byte
	if !whole {
		frame = d.frame(now, open, false)
	}
	if frame == nil {
		// An error ends the segment. What it has may still find room here.
		err = d.settle(s, open)
		j.turn()
		frame = d.frame(now, open, true)
	}
	failed := errors.New("what is new does not fit")
	if frame != nil {
		failed = j.append(frame, s.cfg.writeSync)
	}
	if failed != nil {
		return false, fmt.Errorf("write the journal: %w", errors.Join(err, failed))
	}
	for _, o := range open {
		o.safe = o.end
	}
	return true, err
}

// settle brings segments to the disk of which the other half of the journal would
// have to hold much, and waits for those that are being sealed.
func (d *durable) settle(s *Spool, open []span) (err error) {
	d.sealing.Lock()
	defer d.sealing.Unlock()
	var size int64
	for _, o := range open {
		size += o.end - o.inFile
	}
	if size <= d.journal.half/4 {
		return nil
	}
	for _, o := range open {
		err = errors.Join(err, s.syncSegment(o))
	}
	return err
}

// frame is what is new, or all that the disk does not have elsewhere if whole; nil
// if that does not fit behind what the journal holds.
func (d *durable) frame(now *note, open []span, whole bool) []byte {
	b := frameBuffer(d.buf, now)
	size := int64(0)
	for _, o := range open {
		size += o.end - o.from(whole)
	}
	if size > d.journal.room() {
		return nil
	}
	for _, o := range open {
		from := o.from(whole)
		if from == o.end {
			continue
		}
		// A segment whose file was cut under its mapping has nothing to read any more.
		guarded(func() { b = appendBytesPart(b, o.n, from, o.mem[from:o.end]) })
	}
	guarded(func() {
		for i := range d.fold.tables {
			b = d.table(b, i, whole)
		}
	})
	b = padFrame(b)
	d.buf = b
	if cap(b) > 1<<20 { // one enormous frame must not stay
		d.buf = nil
	}
	if int64(len(b)) > d.journal.room() {
		return nil
	}
	return b
}

// from is where what is new of a segment begins.
func (o span) from(whole bool) int64 {
	if whole {
		return o.inFile
	}
	return o.safe
}

// table appends the slots of table i that count more than they did. They stay where
// they are: whoever frees them holds mu.
func (d *durable) table(b []byte, i int, whole bool) []byte {
	seen, window := &d.seen[i], d.fold.tables[i].window.Load()
	if window == 0 {
		return b
	}
	if whole || seen.window != window {
		clear(seen.counts[:])
		seen.window = window
	}
	slots := d.fold.given(i)
	for k := range slots {
		s := &slots[k]
		if s.state.Load() != slotReady {
			continue
		}
		if s.count.Load() != seen.counts[k] {
			b, seen.counts[k] = appendSlotPart(b, i*foldSlots+k, s, seen.counts[k] != 0)
		}
	}
	return b
}

// syncFiles is what is done without a journal.
func (d *durable) syncFiles(s *Spool, open []span) (err error) {
	for _, o := range open {
		err = errors.Join(err, s.syncSegment(o))
	}
	return errors.Join(err, s.cfg.dataSync(d.fold.f), s.cfg.dataSync(d.state))
}

// syncSegment brings a segment to the disk. One that cannot be synced is written no
// more: what the disk refused once it may have forgotten, and the next sync would
// know nothing of it.
func (s *Spool) syncSegment(o span) error {
	if o.end == o.inFile {
		return nil
	}
	if err := s.cfg.dataSync(o.f); err != nil {
		s.giveUpSegment(o.segment)
		return fmt.Errorf("sync segment %d: %w", o.n, err)
	}
	o.inFile, o.safe = o.end, o.end
	return nil
}

// giveUpSegment ends seg where it is. The gate keeps its mapping alive meanwhile.
func (s *Spool) giveUpSegment(seg *segment) {
	e := s.gate.enter()
	defer s.gate.leave(e)
	if s.active.Load() == seg {
		seg.retire()
		s.next(seg)
	}
}

// sealAll cuts segments that are full to their data. keeping is held. They leave
// the list before the disk has them: until then the journal keeps what it holds.
func (s *Spool) sealAll(retired []*segment) {
	d := &s.durable
	d.mu.Lock()
	for _, r := range retired {
		s.say.error(s.cfg.Log, "unmap segment", r.unmap())
	}
	s.swap.Lock()
	s.retired = s.retired[len(retired):]
	s.swap.Unlock()
	d.sealing.Lock()
	defer d.sealing.Unlock()
	d.mu.Unlock()
	for _, r := range retired {
		s.say.error(s.cfg.Log, "seal segment", r.seal(s.cfg.sync))
		s.live.closedAt(r.n, r.end.Load())
	}
}

// free runs what makes slots free, while nobody copies them.
func (d *durable) free(what func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what()
}

// attach says which files there are to bring to the disk, close that there are none
// any more.
func (d *durable) attach(fold *folds, state *os.File) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fold, d.state = fold, state
}

func (d *durable) close(sync func(*os.File) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fold == nil {
		return nil
	}
	// All segments are sealed and nothing is in the folds: the counters say it.
	err := sync(d.state)
	if f := d.journal.f; f != nil {
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	d.fold, d.journal.f = nil, nil
	return err
}

// hasJournal reports whether the journal takes what the files need not bring.
func (d *durable) hasJournal() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.journal.f != nil
}
