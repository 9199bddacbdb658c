// Package spool keeps the retry log on disk and ships it to control, each batch
// until it is acknowledged.
//
// A record is copied into a shared mapping of the open segment, so what Record
// took survives a kill at once, and traffic never waits: a record that finds no
// room is dropped and counted. Segments are plain lines of JSON; the directory
// holds one folder a boot.
package spool

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/internal/lockfile"
	"breakwater/internal/retrylog"
	"github.com/prometheus/client_golang/prometheus"
)

// Config of a Spool. Zero values are the defaults named.
type Config struct {
	Dir          string // made where it is missing
	Gateway, Env string

	// Control is the URL batches go to, without a path. Empty: nothing is
	// shipped, the log is only kept.
	Control string
	Token   string
	Client  *http.Client // nil: a plain one

	SegmentBytes int64 // 8 MiB, allocated ahead
	MaxBytes     int64 // 1 GiB: all segments together; beyond it records are dropped
	// Every is how often a watermark is taken and shipped: 1 s.
	Every time.Duration
	// SyncEvery is how often the log is brought to the disk: 10 ms. Negative: only
	// before a batch is sent, and when a segment ends.
	SyncEvery time.Duration
	// RotateEvery closes a segment that is not full: 1 min.
	RotateEvery time.Duration
	// Keep and KeepBytes bound what stays for grep after it was acknowledged: 1 h and 256 MiB.
	Keep      time.Duration
	KeepBytes int64

	Rand       func() float64 // spreads retries; nil spreads nothing
	Registerer prometheus.Registerer
	Log        *slog.Logger // nil: slog.Default

	allocate func(*os.File, int64) error
	sync     func(*os.File) error
	dataSync func(*os.File) error // without what only the times of a file need
	// writeSync returns when the bytes are on the disk, and touches no others of the file.
	writeSync    func(f *os.File, b []byte, at int64) error
	journalBytes int64
}

func (c *Config) defaults() {
	for _, d := range []struct {
		v   *int64
		def int64
	}{{&c.SegmentBytes, 8 << 20}, {&c.MaxBytes, 1 << 30}, {&c.KeepBytes, 256 << 20}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&c.Every, time.Second}, {&c.RotateEvery, time.Minute}, {&c.Keep, time.Hour}} {
		if *d.v <= 0 {
			*d.v = d.def
		}
	}
	if c.Client == nil {
		c.Client = &http.Client{}
	}
	if c.Rand == nil {
		c.Rand = func() float64 { return 0 }
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.allocate == nil {
		c.allocate = allocate
	}
	if c.sync == nil {
		c.sync = (*os.File).Sync
	}
	if c.dataSync == nil {
		c.dataSync = dataSync
	}
	if c.writeSync == nil {
		c.writeSync = writeSync
	}
	if c.journalBytes == 0 {
		c.journalBytes = journalBytes
	}
	if c.SyncEvery == 0 {
		c.SyncEvery = 10 * time.Millisecond
	}
}

// Spool is the log of one boot of one gateway, and the shipper of what earlier
// boots left. Begin and Record are safe for concurrent use.
type Spool struct {
	cfg   Config
	id    string
	dir   string // of this boot
	clock clock
	lock  *lockfile.Lock

	gate     gate
	folds    atomic.Pointer[folds] // nil: every exchange is a line
	counters atomic.Pointer[counters]
	active   atomic.Pointer[segment]
	spare    atomic.Pointer[segment]
	swap     sync.Mutex // held for the exchange of two pointers, at the end of a segment
	retired  []*segment // no writer begins on them any more; guarded by swap
	wake     chan struct{}
	bufs     sync.Pool

	running sync.Mutex // Ship or Close, not both
	keeping sync.Mutex // one keeper's step at a time
	number  int64      // of the newest segment; the keeper's
	page    []byte     // mapped page behind counters; nil until there is room for it
	lastCut int64      // number of the period in which the last watermark was taken
	fold    *folds
	lastSeg int64 // where the last watermark lies
	lastOff int64

	durable durable

	live    *boot // nil until its files could be made
	liveMu  sync.Mutex
	old     []*boot // the shipper's
	batches chan struct{}
	say     saying
	metrics metrics
	closed  bool
}

// Open begins a boot and takes over what earlier boots in the directory left:
// torn tails are cut, exchanges in flight at a kill are counted. A full disk is
// no error: the Spool then drops, and begins as soon as there is room.
func Open(cfg Config) (*Spool, error) {
	cfg.defaults()
	if len(cfg.Gateway) > 256 || len(cfg.Env) > 256 {
		return nil, fmt.Errorf("open spool: gateway and env must be at most 256 bytes long")
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	// Two processes in one directory would each ship the other's open segments.
	lock, err := lockfile.Take(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	s := &Spool{
		cfg: cfg, id: newID(time.Now()), lock: lock,
		wake: make(chan struct{}, 1), batches: make(chan struct{}, 1),
	}
	s.dir = filepath.Join(cfg.Dir, s.id)
	s.bufs.New = func() any { b := make([]byte, 0, 2048); return &b }
	s.clock.start()
	s.counters.Store(&counters{})
	s.counters.Load().opened.Store(s.clock.now().UnixMicro())
	if err := s.register(); err != nil {
		lock.Release()
		return nil, fmt.Errorf("open spool: %w", err)
	}
	notices := s.recover()
	s.keep()
	for i := range notices {
		s.Record(&retrylog.Record{Notice: &notices[i]})
	}
	// The first time takes longer; no request waits for it yet.
	s.say.error(s.cfg.Log, "bring the log to the disk", s.toDisk())
	return s, nil
}

// Boot is the id under which this process's batches go.
func (s *Spool) Boot() string { return s.id }

// Begin says that an exchange has begun. Exactly one Record with an Exchange
// follows; the difference is what a kill may lose, and the next boot reports it.
func (s *Spool) Begin() {
	e := s.gate.enter()
	defer s.gate.leave(e)
	bump(&s.counters.Load().begun, 1)
}

// Record copies r into the log before it returns; it never blocks. It sets
// r.Exchange.End, so that no event can end before a watermark that is already
// on its way, and fills an empty Gateway, Env and At.
func (s *Spool) Record(r *retrylog.Record) {
	e := s.gate.enter()
	defer s.gate.leave(e)
	n := s.complete(r)
	if f := s.folds.Load(); r.Fold != 0 && r.Exchange != nil && f != nil && f.add(r.Exchange, r.Fold) {
		bump(&s.counters.Load().ended, n)
		return
	}
	buf := s.bufs.Get().(*[]byte)
	defer s.bufs.Put(buf)
	line := retrylog.AppendRecord((*buf)[:0], r)
	if cap(line) <= 64<<10 { // one enormous record must not stay in the pool
		*buf = line
	}
	c := s.counters.Load()
	if len(line) == 0 || len(line) > retrylog.MaxLine || !s.write(line) {
		bump(&c.dropped, n)
	}
	if r.Exchange != nil {
		bump(&c.ended, n)
	}
}

// complete fills what is the spool's to know and returns how many events r is.
func (s *Spool) complete(r *retrylog.Record) int64 {
	now := s.clock.now()
	fill := func(gateway, env *string, at *time.Time) {
		if *gateway == "" {
			*gateway = s.cfg.Gateway
		}
		if *env == "" {
			*env = s.cfg.Env
		}
		if at.IsZero() {
			*at = now
		}
	}
	switch {
	case r.Exchange != nil:
		r.Exchange.End = now
		fill(&r.Exchange.Gateway, &r.Exchange.Env, &r.Exchange.End)
		return max(1, r.Exchange.Count)
	case r.Transition != nil:
		fill(&r.Transition.Gateway, &r.Transition.Env, &r.Transition.At)
	case r.Config != nil:
		fill(&r.Config.Gateway, &r.Config.Env, &r.Config.At)
	case r.Notice != nil:
		fill(&r.Notice.Gateway, &r.Notice.Env, &r.Notice.At)
	}
	return 1
}

// write puts line into the active segment, or the next one where it is full.
func (s *Spool) write(line []byte) bool {
	for range 4 {
		seg := s.active.Load()
		if seg == nil {
			return false
		}
		switch seg.put(line) {
		case written:
			return true
		case faulted: // the disk is broken under the mapping
			seg.retire()
			s.next(seg)
			return false
		case full:
			if !s.next(seg) {
				return false
			}
		}
	}
	return false
}

// next replaces seg, which is full, by the spare. It reports whether there is
// another segment to try.
func (s *Spool) next(seg *segment) bool {
	s.swap.Lock()
	defer s.swap.Unlock()
	if s.active.Load() != seg {
		return s.active.Load() != nil
	}
	spare := s.spare.Swap(nil)
	if spare != nil {
		spare.since = time.Now()
	}
	s.active.Store(spare)
	s.retired = append(s.retired, seg)
	signal(s.wake)
	return spare != nil
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Ship keeps the log in order and ships it until ctx ends. It belongs to the
// life of a Spool even where there is no control.
func (s *Spool) Ship(ctx context.Context) error {
	s.running.Lock()
	defer s.running.Unlock()
	if s.closed {
		return nil
	}
	var group sync.WaitGroup
	group.Go(func() { s.runKeeper(ctx) })
	if s.cfg.SyncEvery > 0 {
		group.Go(func() { s.runDurable(ctx) })
	}
	if s.cfg.Control != "" {
		group.Go(func() { s.runShipper(ctx, false) })
	}
	group.Wait()
	return nil
}

// Close ends the boot in good order, once Ship has returned: the last batch,
// marked as such, is sent until ctx ends; what could not be sent is left to the
// next boot. Records after Close are dropped.
func (s *Spool) Close(ctx context.Context) error {
	s.running.Lock()
	defer s.running.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.finish()
	if s.cfg.Control != "" && s.live != nil {
		s.runShipper(ctx, true)
	}
	s.release()
	s.unregister()
	s.lock.Release()
	return err
}
