package spool

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// journalOf is a journal of some frames in both halves, and the image after each frame
// of the younger one.
func journalOf(tb testing.TB) (data []byte, images []*image) {
	tb.Helper()
	j := journal{}
	dir := tb.TempDir()
	if err := j.begin(dir, 16*pageSize, func(*os.File) error { return nil }); err != nil {
		tb.Fatal(err)
	}
	defer j.f.Close()
	write := func(f *os.File, b []byte, at int64) error { _, err := f.WriteAt(b, at); return err }
	s := &slot{}
	x := plainOne("first", 1000).Exchange
	x.End = x.Start.Add(time.Millisecond)
	key := appendKey(nil, x, 1)
	s.begin(1, key, x)
	for range 2 {
		j.turn()
		images = nil
		for i := range 5 {
			b := frameBuffer(nil, &note{counters: [6]int64{1, int64(10 * j.gen), int64(i), 0, 7, 0}, cut: int64(j.gen)})
			b = appendBytesPart(b, 1, int64(100*i), bytes.Repeat([]byte{byte('a' + i)}, 100))
			b, _ = appendSlotPart(b, 5, s, i > 0)
			s.bump(x)
			if err := j.append(padFrame(b), write); err != nil {
				tb.Fatal(err)
			}
			now, err := readJournal(dir)
			if err != nil || now == nil {
				tb.Fatal(now, err)
			}
			images = append(images, now)
		}
	}
	data, err := os.ReadFile(filepath.Join(dir, journalName))
	if err != nil {
		tb.Fatal(err)
	}
	return data, images
}

func TestAJournalIsReadUpToItsFirstTornFrame(t *testing.T) {
	data, images := journalOf(t)
	for i, img := range images {
		if img.cut != 2 || img.begun() != 20 || img.ended() != int64(i) || len(img.pieces) != i+1 || img.slots[5].count.Load() != int64(6+i) {
			t.Errorf("after frame %d: %+v", i, img)
		}
	}
	// The younger half is the first one. Whatever byte of a frame is hurt, the
	// frames before it hold; without its first one the older half does.
	for frame := range images {
		for _, at := range []int{0, 4, 8, 12, 20, frameHead, frameHead + 40, frameHead + 100} {
			hurt := bytes.Clone(data)
			hurt[frame*pageSize+at] ^= 0x41
			got := parseJournal(hurt)
			if frame > 0 && !reflect.DeepEqual(got, images[frame-1]) {
				t.Errorf("frame %d hurt at %d: %+v", frame, at, got)
			}
			if frame == 0 && (got == nil || got.cut != 1 || got.ended() != 4) {
				t.Errorf("without its first frame: %+v", got)
			}
		}
	}
}

func TestAFrameOfAnotherTimeIsNone(t *testing.T) {
	data, images := journalOf(t)
	page := func(i int) []byte { return data[i*pageSize : (i+1)*pageSize] }
	half := len(data) / 2 / pageSize // pages
	late := bytes.Clone(data)
	copy(late[2*pageSize:], data[(half+2)*pageSize:len(data)-2*pageSize]) // of the generation before
	if got := parseJournal(late); !reflect.DeepEqual(got, images[1]) {
		t.Errorf("with frames of an earlier generation behind: %+v", got)
	}
	late = bytes.Clone(data)
	copy(late[2*pageSize:], page(3))
	if got := parseJournal(late); !reflect.DeepEqual(got, images[1]) {
		t.Errorf("with a frame missing: %+v", got)
	}
}

// What a journal has and the tables do not, and the other way round, is one line; a
// line that was written since is none.
func TestTheLaterOfTablesAndJournalCounts(t *testing.T) {
	const until = 1_000_000
	mk := func(endUS, count int64) *slot {
		x := plainOne("first", 1000).Exchange
		x.Start, x.End = time.UnixMicro(endUS-1000).UTC(), time.UnixMicro(endUS).UTC()
		s := &slot{}
		s.begin(1, appendKey(nil, x, 1), x)
		for range count - 1 {
			s.bump(x)
		}
		s.state.Store(slotReady)
		return s
	}
	for _, tt := range []struct {
		name                  string
		tables, journal, line int64 // counts; 0: not there
		endUS                 int64
		want                  int64
	}{
		{"tables alone", 5, 0, 0, until, 5},
		{"journal alone", 0, 5, 0, until, 5},
		{"tables later", 7, 5, 0, until, 7},
		{"journal later", 5, 7, 0, until, 7},
		{"written since", 0, 5, 7, until, 0},
		{"written, not yet free", 7, 5, 7, until, 0},
		{"cut before", 7, 5, 0, until - 1, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			data := make([]byte, 4*slotSize)
			if tt.tables > 0 {
				s, from := &slotsOf(data)[2], mk(tt.endUS, tt.tables)
				s.sum, s.key, s.n, s.text = from.sum, from.key, from.n, from.text
				for i, to := range s.sums() {
					to.Store(from.sums()[i].Load())
				}
				s.state.Store(slotReady)
			}
			img := &image{slots: map[int]*slot{}}
			if tt.journal > 0 {
				img.slots[2] = mk(tt.endUS, tt.journal)
			}
			var list []file
			if tt.line > 0 {
				path := filepath.Join(dir, segmentName(1, openExt))
				if err := os.WriteFile(path, mk(tt.endUS, tt.line).line(), 0o600); err != nil {
					t.Fatal(err)
				}
				list = append(list, file{n: 1, open: true, path: path})
			}
			lines, events := leftOver(data, img, until, list)
			if events != tt.want || len(lines) != int(min(1, tt.want)) {
				t.Errorf("%d events in %d lines, want %d", events, len(lines), tt.want)
			}
		})
	}
}

// A spool of before there were journals, and one whose journal could not be read.
func TestABootWithoutAJournalIsTakenOver(t *testing.T) {
	for _, how := range []string{"none", "empty", "nonsense"} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			s := open(t, config(t, dir, nil))
			for i := range 50 {
				s.one(fmt.Sprint(i))
				s.fold1(plainOne("fold", 1000))
			}
			if err := s.toDisk(); err != nil {
				t.Fatal(err)
			}
			abandon(s)
			path := filepath.Join(s.dir, journalName)
			err := os.Remove(path)
			if how != "none" {
				err = os.WriteFile(path, bytes.Repeat([]byte(how), 1000)[:len(how)%5*1000], 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			if ids, folded := takenOver(t, dir); len(ids) != 50 || folded != 50 {
				t.Errorf("%d lines, %d folded", len(ids), folded)
			}
			if left := files(t, dir, "*", journalName); len(left) != 0 {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

func FuzzJournal(f *testing.F) {
	data, _ := journalOf(f)
	f.Add(data, uint16(0), true)
	f.Add(data[:len(data)/2], uint16(7), true)
	f.Add([]byte(frameMagic), uint16(1), false)
	f.Add(data[frameHead:frameHead+200], uint16(1), false) // a payload without its frame
	f.Fuzz(func(t *testing.T, data []byte, cut uint16, file bool) {
		img := parseJournal(data)
		if !file { // a checksum is right for what was never written by us, too
			img = &image{slots: map[int]*slot{}}
			if !img.apply(data) {
				if len(img.slots) != 0 || len(img.pieces) != 0 || img.note != (note{}) {
					t.Fatalf("half of a frame counts: %+v", img)
				}
				return
			}
		}
		if img == nil {
			return
		}
		// What was accepted is said again by one frame, and read as the same.
		b := frameBuffer(nil, &img.note)
		for _, p := range img.pieces {
			b = appendBytesPart(b, p.segment, p.off, p.text)
		}
		for i, s := range img.slots {
			_ = s.line()
			b, _ = appendSlotPart(b, i, s, false)
		}
		b = padFrame(b)
		sealFrame(b, 3, 0)
		again := parseHalf(b, 3)
		if again == nil || again.note != img.note || len(again.pieces) != len(img.pieces) || !reflect.DeepEqual(again.slots, img.slots) {
			t.Fatalf("got %+v, want %+v", again, img)
		}
		for i, p := range again.pieces {
			if w := img.pieces[i]; p.segment != w.segment || p.off != w.off || !bytes.Equal(p.text, w.text) {
				t.Fatalf("piece %d: %+v, want %+v", i, p, w)
			}
		}
		// Cut anywhere, it is nothing: a frame counts whole.
		if torn := parseHalf(b[:int(cut)%(frameHead+1)], 3); torn != nil {
			t.Fatalf("a torn frame says %+v", torn)
		}
	})
}
