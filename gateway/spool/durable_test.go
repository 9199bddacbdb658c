package spool

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
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

// cut makes in to what a power cut leaves of from: of what was not synced each page
// has reached the disk with the given chance.
func (p *platter) cut(t *testing.T, r *rand.Rand, from, to string, percent int) {
	t.Helper()
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
		for at := 0; at < len(now); at += pageSize {
			if end := min(at+pageSize, len(now)); r.IntN(100) < percent {
				copy(kept[at:end], now[at:end])
			}
		}
		return os.WriteFile(filepath.Join(to, rel), kept, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// F8: whatever was recorded when a sync began is there after a power cut, once,
// whichever part of the rest has reached the disk.
func TestReliability_F8_NothingSyncedIsLostInAPowerCut(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	dir := t.TempDir()
	p := &platter{files: map[uint64][]byte{}}
	cfg := config(t, dir, nil)
	cfg.SyncEvery, cfg.sync, cfg.dataSync = -1, p.sync, p.sync
	s := open(t, cfg)
	stop := run(t, s)
	var d disk
	defer d.close()

	lines, folded := map[string]bool{}, int64(0) // recorded
	sure, sureFolded := map[string]bool{}, int64(0)
	for round := range *clones {
		for i := range r.IntN(400) {
			dropped := s.counters.Load().dropped.Load()
			if i%2 == 0 {
				id := fmt.Sprintf("line-%d-%d", round, i)
				s.one(id)
				if s.counters.Load().dropped.Load() == dropped {
					lines[id] = true
				}
				continue
			}
			rec := exchange("fold")
			rec.Fold = 1
			s.Begin()
			s.Record(rec)
			if s.counters.Load().dropped.Load() == dropped {
				folded++
			}
		}
		if r.IntN(3) > 0 {
			if err := d.sync(s); err != nil {
				t.Fatal(err)
			}
			clear(sure)
			for id := range lines {
				sure[id] = true
			}
			sureFolded = folded
		}
		after := t.TempDir()
		s.keeping.Lock() // a power cut happens at one instant
		p.cut(t, r, dir, after, []int{0, 50, 100}[round%3])
		s.keeping.Unlock()
		got, count := takenOver(t, after)
		for id := range sure {
			if got[id] != 1 {
				t.Errorf("cut %d: %s is there %d times", round, id, got[id])
			}
		}
		for id, n := range got {
			if n > 1 || !lines[id] {
				t.Errorf("cut %d: %s is there %d times", round, id, n)
			}
		}
		if count < sureFolded || count > folded {
			t.Errorf("cut %d: %d folded ones, want %d to %d", round, count, sureFolded, folded)
		}
		if t.Failed() {
			break
		}
	}
	stop()
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
		cfg.dataSync = func(*os.File) error {
			mu.Lock()
			defer mu.Unlock()
			syncs = append(syncs, time.Now())
			return nil
		}
		s := open(t, cfg)
		stop := run(t, s)
		defer stop()
		eventually(t, "what opening wrote is synced", func() bool { mu.Lock(); defer mu.Unlock(); return len(syncs) >= 3 })
		time.Sleep(50 * time.Millisecond)
		mu.Lock()
		idle := len(syncs)
		mu.Unlock()
		if idle > 6 {
			nt.Errorf("%d files were synced while nothing was written", idle)
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
		if len(syncs) < idle+3*15 || longest > 30*time.Millisecond {
			nt.Errorf("%d files synced in 300 ms, at most %s apart", len(syncs)-idle, longest)
		}
	})
}
