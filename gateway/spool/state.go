package spool

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"breakwater/internal/retrylog"
)

// The state file has three pages. The first is mapped and holds counters that
// must survive a kill; the other two hold the cursor, written in turn. They are
// allocated at the start, so that a full disk cannot stop the shipping that
// would empty it.
const (
	stateName = "state"
	pageSize  = 4096
	magic     = "BWSPOOL1"
)

// counters is the first page.
type counters struct {
	magic  [8]byte
	opened atomic.Int64 // Unix microseconds
	begun  atomic.Int64 // exchanges
	ended  atomic.Int64
	// dropped counts events that found no room.
	dropped atomic.Int64
	until   atomic.Int64 // the last watermark, Unix microseconds
	closed  atomic.Int64 // 1: closed in good order
}

// all are the counters in their order on disk.
func (c *counters) all() [6]*atomic.Int64 {
	return [...]*atomic.Int64{&c.opened, &c.begun, &c.ended, &c.dropped, &c.until, &c.closed}
}

func bump(c *atomic.Int64, n int64) { guarded(func() { c.Add(n) }) }

// cursor is how far a boot was shipped.
type cursor struct {
	Seg int64 `json:"seg"` // acknowledged up to Off of segment Seg
	Off int64 `json:"off"`
	Seq int64 `json:"seq"` // of the last acknowledged batch
	// Until and LostSaid are what the acknowledged batches have said.
	Until    time.Time `json:"until"`
	LostSaid int64     `json:"lost_said"`
	// Pending was or will be sent: the same bytes under the same key, until control answers.
	Pending *pending `json:"pending,omitempty"`
	Done    bool     `json:"done,omitempty"` // nothing will follow
	// What the next boot found out about a boot that is over.
	Recovered bool      `json:"recovered,omitempty"`
	EndUntil  time.Time `json:"end_until,omitzero"`
	EndLost   int64     `json:"end_lost,omitempty"`
	Clean     bool      `json:"clean,omitempty"`
}

type pending struct {
	Batch    retrylog.Batch `json:"batch"`
	Seg      int64          `json:"seg"`
	From     int64          `json:"from"`
	To       int64          `json:"to"`
	Lines    int            `json:"lines"`
	LostSaid int64          `json:"lost_said"`
	Refused  int            `json:"refused,omitempty"`
	Empty    bool           `json:"empty,omitempty"` // its lines were poison and lie aside
	Final    bool           `json:"final,omitempty"`
}

// stateFile is the open state file of a boot.
type stateFile struct {
	f   *os.File
	gen uint64
}

// makeState writes a new state file and maps its first page.
func makeState(dir string, sync func(*os.File) error) (*stateFile, []byte, error) {
	f, err := os.OpenFile(filepath.Join(dir, stateName), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("make state: %w", err)
	}
	blank := make([]byte, 3*pageSize)
	copy(blank, magic)
	_, err = f.WriteAt(blank, 0)
	if err == nil {
		err = sync(f)
	}
	var page []byte
	if err == nil {
		page, err = unix.Mmap(int(f.Fd()), 0, pageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, fmt.Errorf("make state: %w", err)
	}
	_ = unix.Mlock(page) // where it is allowed: a page that is never read again cannot fail
	return &stateFile{f: f}, page, nil
}

func countersOf(page []byte) *counters { return (*counters)(unsafe.Pointer(&page[0])) }

// readState opens the state of a boot that is over.
func readState(dir string) (*stateFile, *counters, cursor, error) {
	f, err := os.OpenFile(filepath.Join(dir, stateName), os.O_RDWR, 0)
	if err != nil {
		return nil, nil, cursor{}, fmt.Errorf("read state: %w", err)
	}
	page := make([]byte, 3*pageSize)
	if _, err := f.ReadAt(page, 0); err != nil {
		_ = f.Close()
		return nil, nil, cursor{}, fmt.Errorf("read state: %w", err)
	}
	if string(page[:len(magic)]) != magic {
		_ = f.Close()
		return nil, nil, cursor{}, errors.New("read state: not a state file")
	}
	s, c := &stateFile{f: f}, &counters{}
	for i, v := range c.all() {
		v.Store(int64(binary.NativeEndian.Uint64(page[8+8*i:])))
	}
	cur := cursor{Until: time.UnixMicro(c.opened.Load()).UTC()}
	for slot := 1; slot <= 2; slot++ {
		if gen, text, ok := readSlot(page[slot*pageSize : (slot+1)*pageSize]); ok && gen > s.gen {
			var read cursor
			if json.Unmarshal(text, &read) == nil {
				s.gen, cur = gen, read
			}
		}
	}
	return s, c, cur, nil
}

const slotHead = 16 // length, checksum, generation

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func readSlot(b []byte) (gen uint64, text []byte, ok bool) {
	n := int(binary.LittleEndian.Uint32(b))
	if n == 0 || n > len(b)-slotHead {
		return 0, nil, false
	}
	sum := binary.LittleEndian.Uint32(b[4:])
	return binary.LittleEndian.Uint64(b[8:]), b[slotHead : slotHead+n], crc32.Checksum(b[8:slotHead+n], castagnoli) == sum
}

// write makes cur durable, and writes nothing but its page. The slot that is overwritten is the older one: a
// write cut short leaves the other.
func (s *stateFile) write(cur cursor, write func(*os.File, []byte, int64) error) error {
	text, err := json.Marshal(cur)
	if err != nil {
		return fmt.Errorf("write cursor: %w", err)
	}
	if len(text) > pageSize-slotHead {
		return fmt.Errorf("write cursor: %d bytes do not fit", len(text))
	}
	b := make([]byte, pageSize)
	binary.LittleEndian.PutUint32(b, uint32(len(text)))
	binary.LittleEndian.PutUint64(b[8:], s.gen+1)
	copy(b[slotHead:], text)
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[8:slotHead+len(text)], castagnoli))
	if err := write(s.f, b, int64(pageSize*(1+(s.gen+1)%2))); err != nil {
		return fmt.Errorf("write cursor: %w", err) // the next one goes there again: the other slot is whole
	}
	s.gen++
	return nil
}

// newID names a boot: ids sort by when they began.
func newID(now time.Time) string {
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], uint64(now.UnixMilli()))
	_, _ = rand.Read(b[8:]) // never fails
	return hex.EncodeToString(b[2:])
}
