package spool

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"breakwater/internal/retrylog"
)

// plain reports whether the key and the sums of a slot say all there is to say
// of x, beside what its first one says for all.
func plain(x *retrylog.Exchange) bool {
	if x.Outcome != retrylog.OK || x.Status >= 400 || !x.BodyComplete || len(x.Tries) != 1 || x.Count > 1 ||
		x.LatencyUS < 0 || x.BytesOut < 0 || x.RetryWaitMS != 0 || x.DepTimeouts != 0 {
		return false
	}
	if x.Timeout != "" || x.Reason != "" || x.Skip != "" || x.Degraded != "" || x.Refusal != "" ||
		x.Experiment != "" || x.BusinessCode != "" || x.Observed != "" || x.Synthetic != "" || x.SamplePPM != 0 {
		return false
	}
	t := &x.Tries[0]
	if t.Kind != "" || t.Reason != "" || t.Skip != "" || t.Fault != "" || t.WaitMS != 0 || t.PlannedUS != 0 || t.ActualUS != 0 || t.CutShort {
		return false
	}
	// A slot has room for so much; with their lengths the rest takes less than 96.
	return len(x.Gateway)+len(x.Env)+len(x.Service)+len(x.Route)+len(x.Upstream)+len(x.Method)+len(x.Caller)+
		len(x.Tenant)+len(x.Tier)+len(x.Origin)+len(x.Revision)+len(t.Endpoint)+len(x.RequestID) <= slotText-96
}

// appendKey appends what exchanges of one line have in common.
func appendKey(b []byte, x *retrylog.Exchange, fold int64) []byte {
	b = appendText(b, x.Gateway)
	b = appendText(b, x.Env)
	b = appendText(b, x.Service)
	b = appendText(b, x.Route)
	b = appendText(b, x.Upstream)
	b = appendText(b, x.Method)
	b = appendText(b, x.Caller)
	b = appendText(b, x.Tenant)
	b = appendText(b, x.Tier)
	b = appendText(b, x.Origin)
	b = appendText(b, x.Revision)
	b = appendText(b, x.Tries[0].Endpoint)
	b = binary.AppendVarint(b, int64(x.Status))
	b = binary.AppendVarint(b, int64(x.FirstStatus))
	b = binary.AppendVarint(b, int64(x.Tries[0].Status))
	return binary.AppendVarint(b, fold)
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// begin fills a slot for x, or reports that it has no room.
func (s *slot) begin(hash uint64, key []byte, x *retrylog.Exchange) bool {
	b := append(s.text[:0], key...)
	b = appendText(b, x.RequestID)
	for _, t := range []time.Time{x.Start, x.End} {
		b = binary.AppendVarint(b, t.Unix())
		b = binary.AppendVarint(b, int64(t.Nanosecond()))
	}
	if len(b) > slotText {
		return false
	}
	s.hash, s.key, s.n = hash, uint16(len(key)), uint16(len(b))
	s.sum = crc32.Checksum(b, castagnoli)
	s.min.Store(x.LatencyUS)
	s.max.Store(x.LatencyUS)
	s.latency.Store(x.LatencyUS)
	s.try.Store(x.Tries[0].LatencyUS)
	s.bytes.Store(x.BytesOut)
	s.count.Store(1)
	return true
}

// line is the line of a slot, or nil where it holds nothing that can be read.
// It depends on the slot alone: by that the next boot knows a line again that
// was written and its slot not yet freed.
func (s *slot) line() []byte {
	n, count := int(s.n), s.count.Load()
	if n > slotText || count < 1 || crc32.Checksum(s.text[:n], castagnoli) != s.sum {
		return nil
	}
	r := reader{b: s.text[:n]}
	x := retrylog.Exchange{Count: count, Outcome: retrylog.OK, BodyComplete: true}
	var try retrylog.Try
	for _, to := range []*string{
		&x.Gateway, &x.Env, &x.Service, &x.Route, &x.Upstream, &x.Method, &x.Caller, &x.Tenant, &x.Tier, &x.Origin, &x.Revision, &try.Endpoint,
	} {
		*to = r.text()
	}
	x.Status, x.FirstStatus, try.Status = int(r.int()), int(r.int()), int(r.int())
	_ = r.int() // the fold
	x.RequestID = r.text()
	x.Start, x.End = r.time(), r.time()
	if r.bad {
		return nil
	}
	// The mean of values of one bin lies in it, and keeps their sum. A kill in the
	// middle of counting may leave a sum that is not theirs: hence the bounds.
	x.LatencyUS = max(s.min.Load(), min(s.latency.Load()/count, s.max.Load()))
	try.LatencyUS = s.try.Load() / count
	x.BytesOut = s.bytes.Load()
	x.Tries = []retrylog.Try{try}
	return retrylog.AppendRecord(nil, &retrylog.Record{Exchange: &x})
}

// reader takes apart what appendText and AppendVarint put together.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) text() string {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > uint64(len(r.b)-n) {
		r.bad = true
		return ""
	}
	s := string(r.b[n : n+int(v)])
	r.b = r.b[n+int(v):]
	return s
}

func (r *reader) time() time.Time { return time.Unix(r.int(), r.int()).UTC() }

// unfoldOld makes one more open segment of what a boot that is over had counted
// and not yet written, by its tables or by its journal, where it had one. It may be
// cut short and begun again at every step: the file is replaced by its text, the
// text becomes the segment, and only then are the segments closed in which lines
// are looked for. What cannot be written, on a full disk, is lost and counted; the
// file is put by.
func unfoldOld(dir string, img *image, until int64, sync func(*os.File) error) (lost int64, err error) {
	path := filepath.Join(dir, foldName)
	data, err := os.ReadFile(path)
	if isGone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read folds: %w", err)
	}
	files, err := segments(dir)
	if err != nil {
		return 0, err
	}
	if !bytes.HasPrefix(data, []byte("{")) { // a slot's state is none of the first
		lines, events := leftOver(data, img, until, files)
		if len(lines) == 0 {
			return 0, os.Remove(path)
		}
		if err := replace(path, bytes.Join(lines, nil), sync); err != nil {
			return events, errors.Join(fmt.Errorf("write folds: %w", err), os.Rename(path, path+".lost"))
		}
	}
	next := int64(1)
	if len(files) > 0 {
		next = files[len(files)-1].n + 1
	}
	return 0, errors.Join(os.Rename(path, filepath.Join(dir, segmentName(next, openExt))), syncDir(dir))
}

// leftOver returns the lines of the slots in data, or in the journal, that are not in
// a segment yet, and how many events they are. Closed segments need no look: before
// they were closed the journal had been told that what they hold is cut, or the
// tables that it is free.
func leftOver(data []byte, img *image, until int64, files []file) (lines [][]byte, events int64) {
	left := leftovers{}
	slots := slotsOf(data)
	for i := range slots {
		if slots[i].state.Load() == slotReady {
			left.add(&slots[i], until)
		}
	}
	if img != nil {
		for _, s := range img.slots {
			left.add(s, until)
		}
	}
	for _, f := range files {
		if !f.open || len(left) == 0 {
			continue
		}
		h, err := os.Open(f.path)
		if err != nil {
			continue // nor can it be shipped
		}
		_, _, _ = retrylog.Lines(h, func(line []byte, _ int64) error {
			left.written(line)
			return nil
		})
		_ = h.Close()
	}
	for _, at := range slices.Sorted(maps.Keys(left)) {
		for _, l := range left[at] {
			lines = append(lines, l.line)
			events += l.count
		}
	}
	return lines, events
}

// leftovers are lines to be, by the instant at which their first exchange ended, in
// Unix microseconds.
type leftovers map[int64][]leftover

type leftover struct {
	text           string // of the slot
	id             string
	line           []byte
	count, latency int64
}

// add takes s in, unless it was cut before until. The tables and the journal may
// know of the same slot at two moments, in either order: the later one counts.
func (l leftovers) add(s *slot, until int64) {
	line := s.line()
	end, one := identify(line)
	if one.id == "" || end < until {
		return
	}
	one.line, one.text = line, string(s.text[:s.n])
	for i := range l[end] {
		if have := &l[end][i]; have.text == one.text {
			if have.count < one.count {
				*have = one
			}
			return
		}
	}
	l[end] = append(l[end], one)
}

// written takes out what line is of. It may count more than the slot that is known:
// the line was written when the window was over. Should one request be the first of
// two slots, their latencies tell them apart.
func (l leftovers) written(line []byte) {
	if end, ok := endOf(line); !ok || l[end.UnixMicro()] == nil {
		return // most lines, and reading them would take long
	}
	end, one := identify(line)
	best, off := -1, int64(math.MaxInt64)
	for i, have := range l[end] {
		if d := max(have.latency-one.latency, one.latency-have.latency); have.id == one.id && d < off {
			best, off = i, d
		}
	}
	if best >= 0 {
		l[end] = slices.Delete(l[end], best, best+1)
	}
}

// identify tells whose line it is: the id is the same however many were counted.
func identify(line []byte) (end int64, one leftover) {
	r, err := retrylog.Parse(line)
	if err != nil || r.Exchange == nil || len(r.Exchange.Tries) != 1 {
		return 0, one
	}
	x := r.Exchange
	id := appendText(appendKey(nil, x, 0), x.RequestID)
	return x.End.UnixMicro(), leftover{id: string(binary.AppendVarint(id, x.Start.UnixNano())), count: x.Count, latency: x.LatencyUS}
}

// replace puts text where path was, whole or not at all.
func replace(path string, text []byte, sync func(*os.File) error) error {
	f, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = sync(f)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
