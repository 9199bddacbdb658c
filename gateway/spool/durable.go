package spool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// runDurable asks the disk every SyncEvery for what was written since it was asked
// last, away from those who write: a power cut takes no more than that and the time
// of one sync.
func (s *Spool) runDurable(ctx context.Context) {
	tick := time.NewTicker(s.cfg.SyncEvery)
	defer tick.Stop()
	var d disk
	defer d.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			s.say.error(s.cfg.Log, "bring the log to the disk", d.sync(s))
		}
	}
}

// disk is what was last brought to it. It has handles of its own: the keeper may
// seal and close a segment meanwhile.
type disk struct {
	segment, folds, state *os.File
	n                     int64 // of segment
	at, begun, ended      int64
}

// sync brings to the disk what changed since the last call. A boot without files
// has nothing to bring.
func (d *disk) sync(s *Spool) error {
	seg := s.newest()
	if seg == nil || s.folds.Load() == nil {
		return nil
	}
	var at, begun, ended = seg.reserved.Load(), int64(0), int64(0)
	guarded(func() { c := s.counters.Load(); begun, ended = c.begun.Load(), c.ended.Load() })
	if d.segment != nil && d.n == seg.n && d.at == at && d.begun == begun && d.ended == ended {
		return nil
	}
	before, err := d.open(s, seg.n)
	if err != nil {
		return err
	}
	files := append(before, d.folds, d.state, d.segment)
	errs := make([]error, len(files))
	var group sync.WaitGroup
	for i, f := range files {
		group.Go(func() { errs[i] = s.cfg.dataSync(f) })
	}
	group.Wait()
	for _, f := range before {
		_ = f.Close() // read only
	}
	if errs[len(errs)-1] != nil {
		s.giveUpSegment(seg) // what the disk refused once it may have forgotten
	}
	d.at, d.begun, d.ended = at, begun, ended
	return errors.Join(errs...)
}

// newest is the last segment that is not sealed, nil where there is none.
func (s *Spool) newest() *segment {
	s.swap.Lock()
	defer s.swap.Unlock()
	if seg := s.active.Load(); seg != nil || len(s.retired) == 0 {
		return seg
	}
	return s.retired[len(s.retired)-1]
}

// open sees to it that there are handles of the folds, the counters and segment n.
// The segments that filled up since the last call come back: nobody may have
// sealed them yet.
func (d *disk) open(s *Spool, n int64) (before []*os.File, err error) {
	if d.folds == nil {
		if d.folds, err = os.Open(filepath.Join(s.dir, foldName)); err != nil {
			return nil, fmt.Errorf("open the folds: %w", err)
		}
	}
	if d.state == nil {
		if d.state, err = os.Open(filepath.Join(s.dir, stateName)); err != nil {
			return nil, fmt.Errorf("open the counters: %w", err)
		}
	}
	if d.segment != nil && d.n == n {
		return nil, nil
	}
	next, err := openSegment(s.dir, n)
	if err != nil {
		return nil, fmt.Errorf("open segment %d: %w", n, err)
	}
	if d.segment != nil {
		before = append(before, d.segment)
	}
	for k := d.n + 1; k < n; k++ {
		if f, err := openSegment(s.dir, k); err == nil { // gone: shipped and deleted
			before = append(before, f)
		}
	}
	d.segment, d.n = next, n
	return before, nil
}

func (d *disk) close() {
	for _, f := range []*os.File{d.segment, d.folds, d.state} {
		if f != nil {
			_ = f.Close() // read only
		}
	}
}
