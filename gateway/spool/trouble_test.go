package spool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/internal/retrylog"
)

// A small disk is filled and freed again and again: the counter of drops is
// exact, nothing acknowledged is lost, and records are taken again within a second.
func TestReliability_F22_AFullDiskDropsAndRecovers(t *testing.T) {
	var away atomic.Bool
	c := newControl(t, func(retrylog.Batch, []byte) (int, bool, bool) {
		if away.Load() {
			return 503, false, false
		}
		return 200, true, false
	})
	disk := t.TempDir()
	if mountSmall(t, disk) {
		cfg := config(t, filepath.Join(disk, "spool"), c)
		cfg.SegmentBytes = 512 << 10
		filler := filepath.Join(disk, "filler")
		fullDisk(t, c, cfg, &away, func(full bool) {
			if !full {
				if err := os.Remove(filler); err != nil {
					t.Fatal(err)
				}
				return
			}
			f, err := os.Create(filler)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
			if !errors.Is(err, unix.ENOSPC) {
				t.Fatal(err)
			}
		})
		return
	}
	// Not allowed to mount: the call that allocates says it.
	var full atomic.Bool
	cfg := config(t, t.TempDir(), c)
	cfg.allocate = func(f *os.File, size int64) error {
		if full.Load() {
			return unix.ENOSPC
		}
		return allocate(f, size)
	}
	fullDisk(t, c, cfg, &away, full.Store)
}

func fullDisk(t *testing.T, c *control, cfg Config, away *atomic.Bool, fill func(full bool)) {
	cfg.KeepBytes = 1
	s := open(t, cfg)
	stop := run(t, s)
	sent, n := 0, 0
	dropped := func() int64 { return s.counters.Load().dropped.Load() }
	for range 10 {
		fill(true)
		// Nothing is acknowledged meanwhile: a spool that ships as fast as it
		// writes lives on in the room it has, and rightly drops nothing.
		away.Store(true)
		eventually(t, "a drop", func() bool {
			for range 50 {
				s.one(fmt.Sprint(n))
				n++
			}
			return dropped() > int64(sent)
		})
		s.one("while full")
		fill(false)
		away.Store(false)
		since := time.Now()
		eventually(t, "records taken again", func() bool { return s.active.Load() != nil })
		// F22 asks for 1 s. Looks come every quarter of Every, 250 ms unless set;
		// the rest of this bound is for a test machine with other things to do.
		if took := time.Since(since); took > 5*time.Second {
			t.Errorf("took %v", took)
		}
		before := dropped()
		s.one(fmt.Sprint(n))
		n++
		if dropped() != before {
			t.Error("dropped with a segment at hand")
		}
		sent = int(before)
	}
	stop()
	got := c.seen(t)
	arrived := 0
	for _, times := range got.ids {
		arrived += times
	}
	if total := n + 10; int64(arrived)+dropped() != int64(total) || got.lost[s.id] != dropped() {
		t.Errorf("%d arrived, %d dropped of %d, %d said to be lost", arrived, dropped(), total, got.lost[s.id])
	}
	if got.notices["events_dropped"] == 0 {
		t.Error("no notice of the drops")
	}
}

func TestAStartOnAFullDiskServesAndBeginsLater(t *testing.T) {
	c := newControl(t)
	var full atomic.Bool
	full.Store(true)
	cfg := config(t, t.TempDir(), c)
	cfg.sync = func(f *os.File) error {
		if full.Load() {
			return unix.ENOSPC
		}
		return f.Sync()
	}
	s := open(t, cfg)
	stop := run(t, s)
	s.one("early")
	s.Begin()
	full.Store(false)
	eventually(t, "a segment", func() bool { return s.active.Load() != nil })
	s.Record(exchange("begun on a full disk"))
	s.one("late")
	stop()
	got := c.seen(t)
	if st := s.Stats(); st.Begun != 3 || st.Ended != 3 || st.Dropped != 1 || got.lost[s.id] != 1 || len(got.ids) != 2 {
		t.Errorf("%+v, %+v", st, got)
	}
}

func TestTheSizeBoundNeverDeletesWhatIsUnread(t *testing.T) {
	c := newControl(t)
	c.mu.Lock()
	c.answer = func(retrylog.Batch, []byte) (int, bool, bool) { return 503, false, false }
	c.mu.Unlock()
	cfg := config(t, t.TempDir(), c)
	cfg.MaxBytes, cfg.KeepBytes = 300<<10, 1
	s := open(t, cfg)
	stop := run(t, s)
	n := 0
	eventually(t, "the bound", func() bool {
		for range 100 {
			s.one(fmt.Sprint(n))
			n++
		}
		return strings.Contains(s.Stats().LastError, errBound.Error()) && s.active.Load() == nil
	})
	if size := s.Stats().Bytes; size > cfg.MaxBytes {
		t.Errorf("%d bytes are kept, the bound is %d", size, cfg.MaxBytes)
	}
	c.mu.Lock()
	c.answer = nil
	c.mu.Unlock()
	eventually(t, "room", func() bool { return s.active.Load() != nil })
	stop()
	got := c.seen(t)
	if d := s.Stats().Dropped; int64(len(got.ids))+d != int64(n) || got.lost[s.id] != d {
		t.Errorf("%d arrived, %d dropped of %d, %d said to be lost", len(got.ids), d, n, got.lost[s.id])
	}
}

// A segment that is cut under its mapping faults at the next copy; that costs
// the event, not the gateway.
func TestABrokenMappingCostsAnEventNotTheProcess(t *testing.T) {
	c := newControl(t)
	s := open(t, config(t, t.TempDir(), c))
	s.one("before")
	if err := s.active.Load().f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	s.one("into the hole")
	s.one("after")
	if d := s.counters.Load().dropped.Load(); d != 1 {
		t.Errorf("%d dropped, want 1", d)
	}
	run(t, s)()
	if got := c.seen(t); got.ids["after"] != 1 || got.lost[s.id] < 1 {
		t.Errorf("%+v", got)
	}
}

func TestAFailedSyncEndsTheSegmentNotTheShipping(t *testing.T) {
	c := newControl(t)
	var broken atomic.Bool
	cfg := config(t, t.TempDir(), c)
	cfg.dataSync = func(f *os.File) error {
		if broken.Load() && strings.HasSuffix(f.Name(), openExt) {
			return unix.EIO
		}
		return nil
	}
	cfg.writeSync = func(f *os.File, b []byte, at int64) error {
		if broken.Load() && filepath.Base(f.Name()) == journalName {
			return unix.EIO
		}
		_, err := f.WriteAt(b, at)
		return err
	}
	s := open(t, cfg)
	stop := run(t, s)
	first := s.active.Load()
	broken.Store(true)
	s.one("a")
	eventually(t, "another segment", func() bool { return s.active.Load() != first })
	broken.Store(false)
	s.one("b")
	stop()
	if got := c.seen(t); got.ids["a"] != 1 || got.ids["b"] != 1 || got.lost[s.id] != 0 {
		t.Errorf("%+v", got)
	}
}

func TestABatchThatIsRefusedForGoodGoesAside(t *testing.T) {
	c := newControl(t, func(_ retrylog.Batch, body []byte) (int, bool, bool) {
		if bytes.Contains(body, []byte("poison")) {
			return 422, false, false
		}
		return 200, true, false
	})
	dir := t.TempDir()
	s := open(t, config(t, dir, c))
	stop := run(t, s)
	s.one("good")
	eventually(t, "the first", func() bool { return c.seen(t).ids["good"] == 1 })
	s.one("poison")
	eventually(t, "it put aside", func() bool { return s.Stats().DeadBatches == 1 })
	s.one("later")
	stop()
	got := c.seen(t)
	if got.ids["later"] != 1 || got.ids["poison"] != 0 || got.lost[s.id] != 1 || !got.last[s.id] {
		t.Errorf("%+v", got)
	}
	aside := files(t, dir, asideDir, "*.ndjson")
	if len(aside) != 1 {
		t.Fatalf("aside: %v", aside)
	}
	if text, err := os.ReadFile(aside[0]); err != nil || !bytes.Contains(text, []byte("poison")) {
		t.Errorf("%q, %v", text, err)
	}
}

func TestABatchThatIsTooLargeIsHalved(t *testing.T) {
	c := newControl(t, func(_ retrylog.Batch, body []byte) (int, bool, bool) {
		if bytes.Count(body, []byte("\n")) > 3 {
			return 413, false, false
		}
		return 200, true, false
	})
	s := open(t, config(t, t.TempDir(), c))
	for i := range 40 {
		s.one(fmt.Sprint(i))
	}
	run(t, s)()
	if got := c.seen(t); len(got.ids) != 40 || got.lost[s.id] != 0 || !got.last[s.id] {
		t.Errorf("%+v", got)
	}
}

func TestAcknowledgedSegmentsGoAfterTheirTime(t *testing.T) {
	c := newControl(t)
	dir := t.TempDir()
	cfg := config(t, dir, c)
	first := open(t, cfg)
	first.one("x")
	run(t, first)()
	if n := len(files(t, dir, first.id, "*"+sealedExt)); n != 1 {
		t.Fatalf("%d segments kept for grep, want 1", n)
	}
	cfg.Keep, cfg.RotateEvery = time.Nanosecond, time.Millisecond
	s := open(t, cfg)
	stop := run(t, s)
	s.one("y")
	eventually(t, "the old folder gone", func() bool { return len(files(t, dir, first.id)) == 0 })
	eventually(t, "the rotated segment gone", func() bool {
		return c.seen(t).ids["y"] == 1 && len(files(t, dir, s.id, "*"+sealedExt)) == 0
	})
	stop()
}

func TestWithoutControlTheLogIsOnlyKept(t *testing.T) {
	dir := t.TempDir()
	for range 2 {
		s := open(t, config(t, dir, nil))
		stop := run(t, s)
		s.one("x")
		stop()
	}
	if n := len(files(t, dir, "*", "*"+sealedExt)); n != 2 {
		t.Errorf("%d segments, want 2", n)
	}
}

func TestTheClockNeverGoesBack(t *testing.T) {
	var c clock
	c.start()
	start := c.now()
	c.step(time.Second, time.Hour) // somebody set the machine's clock an hour ahead
	if d := c.now().Sub(start); d < time.Hour {
		t.Errorf("did not follow forward: %v", d)
	}
	before := c.offset.Load()
	c.step(3*time.Second, 0) // and back
	if off := time.Duration(before - c.offset.Load()); off != time.Second {
		t.Errorf("went back by %v within 2 s, want half of that", off)
	}
	for i := range 10_000 {
		c.step(time.Duration(4+i)*time.Second, 0)
	}
	if off := c.offset.Load(); off != 0 {
		t.Errorf("still %v ahead", time.Duration(off))
	}
}

func TestTheOlderSlotSurvivesAWriteCutShort(t *testing.T) {
	dir := t.TempDir()
	st, page, err := makeState(dir, (*os.File).Sync)
	if err != nil {
		t.Fatal(err)
	}
	countersOf(page).opened.Store(1)
	for seq := range int64(5) {
		if err := st.write(cursor{Seq: seq}, writeSync); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, stateName))
	if err != nil {
		t.Fatal(err)
	}
	for at := pageSize; at < 3*pageSize; at++ {
		if data[at] == 0 {
			continue
		}
		hurt := bytes.Clone(data)
		hurt[at] ^= 0xff
		if err := os.WriteFile(filepath.Join(dir, stateName), hurt, 0o644); err != nil {
			t.Fatal(err)
		}
		st, _, cur, err := readState(dir)
		if err != nil || cur.Seq != 3 && cur.Seq != 4 {
			t.Fatalf("byte %d: seq %d, %v", at, cur.Seq, err)
		}
		_ = st.f.Close()
	}
	if err := errors.Join(unix.Munmap(page), st.f.Close()); err != nil {
		t.Error(err)
	}
}
