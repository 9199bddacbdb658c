package spool

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/noisy"
	"breakwater/internal/retrylog"
)

var clones = flag.Int("clones", 24, "power cuts of TestReliability_F8_NothingSyncedIsLostInAPowerCut")

// platter is what the disk holds of each file for certain: what was in it when it
// was last synced.
type platter struct {
	mu    sync.Mutex
	files map[uint64][]byte // by inode
}

func (p *platter) sync(f *os.File) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	p.mu.Lock() // a sync never takes back what another one brought
	defer p.mu.Unlock()
	data := make([]byte, st.Size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) { // cut to its data meanwhile
		return err
	}
	p.files[st.Ino] = data[:n]
	return nil
}

// write is a write that is synced. Before it is, mid sees what a power cut may leave
// of it.
func (p *platter) write(f *os.File, b []byte, at int64, mid func()) error {
	var st syscall.Stat_t
	if err := syscall.Fstat(int(f.Fd()), &st); err != nil {
		return err
	}
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	mid()
	p.mu.Lock()
	defer p.mu.Unlock()
	have := p.files[st.Ino]
	if need := int(at) + len(b); len(have) < need {
		have = append(bytes.Clone(have), make([]byte, need-len(have))...)
		p.files[st.Ino] = have
	}
	copy(have[at:], b)
	return nil
}

// cut makes in to what a power cut leaves of from: of what was not synced each page,
// or each sector, has reached the disk with the given chance.
func (p *platter) cut(t *testing.T, r *rand.Rand, from, to string, percent int) {
	t.Helper()
	unit := []int{512, pageSize}[r.IntN(2)]
	p.mu.Lock()
	defer p.mu.Unlock()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(from, path)
		if err != nil || e.IsDir() {
			return os.MkdirAll(filepath.Join(to, rel), 0o700)
		}
		now, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		kept := make([]byte, len(now)) // allocated blocks read as zeros
		copy(kept, p.files[info.Sys().(*syscall.Stat_t).Ino])
		for at := 0; at < len(now); at += unit {
			if end := min(at+unit, len(now)); r.IntN(100) < percent {
				copy(kept[at:end], now[at:end])
			}
		}
		return os.WriteFile(filepath.Join(to, rel), kept, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// outage is a spool with power cuts at every write and every sync of the disk.
type outage struct {
	t   *testing.T
	r   *rand.Rand
	p   *platter
	dir string
	s   *Spool

	lines, sure        map[string]bool // recorded, and recorded before a sync that has returned
	folded, sureFolded int64
	chance, cuts       int // of a cut in 100, and those there were
	broken             bool
}

func (o *outage) config() Config {
	cfg := config(o.t, o.dir, nil)
	cfg.SyncEvery, cfg.SegmentBytes, cfg.RotateEvery = -1, 16<<10, time.Nanosecond
	synced := func(f *os.File) error {
		o.maybe()
		if err := o.p.sync(f); err != nil {
			return err
		}
		o.maybe()
		return nil
	}
	cfg.sync, cfg.dataSync = synced, synced
	cfg.writeSync = func(f *os.File, b []byte, at int64) error {
		if o.broken && filepath.Base(f.Name()) == journalName {
			_, _ = f.WriteAt(b[:o.r.IntN(len(b))], at)
			return syscall.EIO
		}
		o.maybe()
		if err := o.p.write(f, b, at, o.maybe); err != nil {
			return err
		}
		o.maybe()
		return nil
	}
	return cfg
}

// maybe cuts the power at this instant, by chance, and looks at what is left.
func (o *outage) maybe() {
	if o.s == nil || o.t.Failed() || o.cuts >= *clones || o.r.IntN(100) >= o.chance {
		return
	}
	o.cuts++
	after := o.t.TempDir()
	o.p.cut(o.t, o.r, o.dir, after, []int{0, 50, 100}[o.cuts%3])
	got, count := takenOver(o.t, after)
	for id := range o.sure {
		if got[id] != 1 {
			o.t.Errorf("cut %d: %s is there %d times", o.cuts, id, got[id])
		}
	}
	for id, n := range got {
		if n > 1 || !o.lines[id] {
			o.t.Errorf("cut %d: %s is there %d times", o.cuts, id, n)
		}
	}
	if count < o.sureFolded || count > o.folded {
		o.t.Errorf("cut %d: %d folded ones, want %d to %d", o.cuts, count, o.sureFolded, o.folded)
	}
	if err := os.RemoveAll(after); err != nil {
		o.t.Error(err)
	}
}

func (o *outage) record(n int) {
	for range n {
		before := o.s.counters.Load().dropped.Load()
		if o.r.IntN(2) == 0 {
			id := fmt.Sprintf("line-%d", len(o.lines))
			o.s.one(id)
			if o.s.counters.Load().dropped.Load() == before {
				o.lines[id] = true
			}
			continue
		}
		rec := exchange("fold")
		rec.Fold = 1 + o.r.Int64N(5)
		rec.Exchange.LatencyUS = 1000 * rec.Fold
		o.s.fold1(rec)
		if o.s.counters.Load().dropped.Load() == before {
			o.folded++
		}
	}
}

func (o *outage) sync() {
	if o.s.toDisk() != nil { // of the journal: the files were synced instead
		if err := o.s.toDisk(); err != nil && !o.broken {
			o.t.Error(err)
		}
	}
	o.sure, o.sureFolded = maps.Clone(o.lines), o.folded
}

// F8: whatever was recorded when a sync began is there after a power cut, once,
// whichever part of the rest has reached the disk: at every write and every sync, in
// their middle too, while segments fill up, windows end, the halves of the journal
// are turned, and it breaks.
func TestReliability_F8_NothingSyncedIsLostInAPowerCut(t *testing.T) {
	o := &outage{
		t: t, r: rand.New(rand.NewPCG(8, 8)), p: &platter{files: map[uint64][]byte{}}, dir: t.TempDir(),
		lines: map[string]bool{}, chance: 10,
	}
	s := open(t, o.config())
	o.s = s
	for round := 0; o.cuts < *clones && !t.Failed(); round++ {
		o.record(o.r.IntN([]int{4, 80}[round/50%2]))
		if o.r.IntN(10) == 0 {
			o.broken = !o.broken
			s.durable.retry = time.Time{}
		}
		switch o.r.IntN(8) {
		case 0: // some windows end, and what was full is sealed
			s.keep()
			s.keeping.Lock()
			if err := s.cut(false); err != nil {
				t.Error(err)
			}
			s.keeping.Unlock()
		case 1, 2: // recorded, and not synced
			o.maybe()
		default:
			o.sync()
		}
		if len(o.lines) > 1000 { // it would take longer and show no more
			o.again()
			s = o.s
		}
	}
	o.chance = 0
	o.end()
}

// While a segment is being sealed it is in no list, and the disk may have its last
// lines in the journal alone: the half that has them must stay.
func TestReliability_F8_AHalfIsKeptForASegmentThatIsBeingSealed(t *testing.T) {
	cfg := config(t, t.TempDir(), nil)
	cfg.SyncEvery = -1
	sealing, turned := "", make(chan error, 1)
	var s *Spool
	cfg.sync = func(f *os.File) error {
		if f.Name() != sealing {
			return nil
		}
		for range 400 { // more than a half has room for
			s.one("next")
		}
		go func() { turned <- s.toDisk() }()
		select {
		case err := <-turned:
			turned <- err
			t.Error("the half was turned while the segment was not on the disk")
		case <-time.After(100 * time.Millisecond): // it would take a millisecond
		}
		return nil
	}
	s = open(t, cfg)
	first := s.active.Load()
	for s.active.Load() == first {
		s.one("first")
	}
	if err := s.toDisk(); err != nil {
		t.Fatal(err)
	}
	s.keep()
	sealing = first.f.Name()
	s.keeping.Lock()
	err := s.cut(false)
	s.keeping.Unlock()
	sealing = ""
	if err = errors.Join(err, <-turned); err != nil {
		t.Error(err)
	}
	o := outage{t: t, s: s}
	o.end()
}

// again begins with an empty directory.
func (o *outage) again() {
	o.end()
	o.s = nil
	o.dir = o.t.TempDir()
	o.lines, o.sure, o.folded, o.sureFolded, o.broken = map[string]bool{}, nil, 0, 0, false
	o.s = open(o.t, o.config())
}

func (o *outage) end() {
	if err := o.s.Close(context.Background()); err != nil {
		o.t.Error(err)
	}
}

// takenOver is what the next boot ships of dir: lines by id, and folded ones.
func takenOver(t *testing.T, dir string) (ids map[string]int, folded int64) {
	t.Helper()
	c := newControl(t)
	again := open(t, config(t, dir, c))
	stop := run(t, again)
	eventually(t, "the old boot shipped", func() bool { return len(again.Stats().Unshipped) == 0 })
	stop()
	ids = map[string]int{}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, body := range c.bodies {
		_, _, err := retrylog.Scan(bytes.NewReader(body), func(r retrylog.Record) error {
			switch x := r.Exchange; {
			case x == nil:
			case x.RequestID == "fold":
				folded += x.Count
			default:
				ids[x.RequestID]++
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
	return ids, folded
}

// F8: between the end of a sync and the next one lie some 10 ms, as long as there
// is something to sync, and no sync is made for nothing.
func TestReliability_F8_TheDiskIsAskedAllTheTime(t *testing.T) {
	noisy.Try(t, func(nt testing.TB) {
		var mu sync.Mutex
		var syncs []time.Time
		cfg := config(t, nt.TempDir(), nil)
		cfg.Every = time.Hour // the keeper's own are not looked at
		cfg.writeSync = func(f *os.File, b []byte, at int64) error {
			_, err := f.WriteAt(b, at)
			mu.Lock()
			defer mu.Unlock()
			syncs = append(syncs, time.Now())
			return err
		}
		s := open(t, cfg)
		stop := run(t, s)
		defer stop()
		eventually(t, "what opening wrote is synced", func() bool { mu.Lock(); defer mu.Unlock(); return len(syncs) >= 1 })
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		idle := len(syncs)
		mu.Unlock()
		if idle > 4 { // the cursor's, and what opening wrote
			nt.Errorf("%d writes were synced while nothing was recorded", idle)
		}
		for range 300 {
			s.one("x")
			time.Sleep(time.Millisecond)
		}
		mu.Lock()
		defer mu.Unlock()
		longest := time.Duration(0)
		for i := idle + 1; i < len(syncs); i++ {
			longest = max(longest, syncs[i].Sub(syncs[i-1]))
		}
		if len(syncs) < idle+15 || longest > 30*time.Millisecond {
			nt.Errorf("%d writes synced in 300 ms, at most %s apart", len(syncs)-idle, longest)
		}
	})
}
