package spool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf16"

	"breakwater/internal/retrylog"
)

const (
	batchLines = 10_000
	batchBytes = 5 << 20
	// sendTimeout bounds one try. Control answers within a second or is ill.
	sendTimeout = 10 * time.Second
	// mostRefusals is how often control may call a batch wrong before its lines go aside.
	mostRefusals = 3
)

// runShipper sends one batch at a time: the boot that runs and the boots before
// it in turn, so that neither an outage's backlog nor fresh traffic starves the
// other. Closing, it returns once the boot's last batch was taken.
func (s *Spool) runShipper(ctx context.Context, closing bool) {
	failures := 0
	for ctx.Err() == nil {
		moved, err := false, error(nil)
		for _, b := range s.turn() {
			var did bool
			if did, err = s.shipNext(ctx, b); err != nil {
				break
			}
			moved = moved || did
			if did {
				failures = 0
			}
		}
		if ctx.Err() != nil {
			return
		}
		s.say.error(s.cfg.Log, "ship events", err)
		var pause time.Duration
		switch {
		case err != nil:
			// From a tenth of the usual pace to five times it.
			pause = min(5*s.cfg.Every, s.cfg.Every/10<<min(failures, 10))
			pause += time.Duration(s.cfg.Rand() * float64(pause) / 2)
			failures++
		case closing && s.live.over():
			return
		case moved:
			continue
		default:
			failures, pause = 0, s.cfg.Every
		}
		wake := s.batches
		if err != nil {
			wake = nil // a new watermark is no reason to knock sooner
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// turn is the running boot, and the oldest of those that are over and not yet shipped.
func (s *Spool) turn() []*boot {
	s.liveMu.Lock()
	defer s.liveMu.Unlock()
	var out []*boot
	if s.live != nil {
		out = append(out, s.live)
	}
	for _, b := range s.old {
		if !b.over() {
			return append(out, b)
		}
	}
	return out
}

// shipNext sends the next batch of b, or the one that was not yet answered.
func (s *Spool) shipNext(ctx context.Context, b *boot) (bool, error) {
	if b.over() {
		return false, nil
	}
	p, err := s.nextBatch(b)
	if p == nil || err != nil {
		return false, err
	}
	var body []byte
	if !p.Empty && p.To > p.From {
		if body, _, _, _, err = b.lines(p.Seg, p.From, p.To, p.Lines); err != nil {
			return false, err
		}
	}
	status, err := s.send(ctx, p, body)
	switch {
	case err == nil:
		s.metrics.sent.Add(1)
		return true, s.acknowledge(b, p)
	case status == http.StatusRequestEntityTooLarge && p.Lines > 1:
		// A definite no: it was not counted, so the key may go to fewer lines.
		b.maxLines = max(1, p.Lines/2)
		b.setPending(nil)
		return true, nil
	case status == http.StatusBadRequest, status == http.StatusConflict, status == http.StatusUnprocessableEntity,
		status == http.StatusRequestEntityTooLarge:
		p.Refused++
		if p.Refused >= mostRefusals {
			return true, s.giveUp(b, p, body, err)
		}
	}
	// Anything else, a wrong token and an unknown path too, is control's state
	// and not the batch's: it is sent again.
	return false, err
}

// nextBatch returns the batch to be sent, its boundary durable.
func (s *Spool) nextBatch(b *boot) (*pending, error) {
	b.mu.Lock()
	cur, marks := b.cur, b.marks
	b.mu.Unlock()
	if cur.Pending != nil {
		return cur.Pending, nil
	}
	if len(marks) == 0 {
		return nil, nil
	}
	last := marks[len(marks)-1]
	p, bad, err := s.fill(b, cur, last)
	if p == nil || err != nil {
		return nil, err
	}
	for _, m := range marks {
		if !m.within(p.Seg, p.To) {
			break
		}
		if m.until.After(p.Batch.Until) {
			p.Batch.Until = m.until
		}
		p.LostSaid = max(p.LostSaid, m.lost)
		p.Final, p.Batch.Last = m.final, m.final && m.clean
	}
	if p.Lines == 0 && bad == 0 && !p.Final && p.To == p.From && !p.Batch.Until.After(cur.Until) {
		return nil, nil // nothing to say yet
	}
	p.Batch.Lost = p.LostSaid - cur.LostSaid + bad
	s.metrics.bad.Add(bad)
	if bad > 0 {
		s.cfg.Log.Error("bad lines passed over", "boot", b.id, "segment", p.Seg, "from", p.From, "to", p.To, "count", bad)
		s.Record(&retrylog.Record{Notice: &retrylog.Notice{Kind: "bad_line", Count: bad,
			Detail: fmt.Sprintf("%s/%s, bytes %d to %d", b.id, segmentName(p.Seg, sealedExt), p.From, p.To)}})
	}
	cur.Pending = p
	if err := b.state.write(cur, s.cfg.writeSync); err != nil {
		return nil, err // unsent: a key must not go out whose bytes could be others after a crash
	}
	b.setPending(p)
	return p, nil
}

// fill finds the bytes of the next batch, up to the last watermark.
func (s *Spool) fill(b *boot, cur cursor, last mark) (p *pending, bad int64, err error) {
	p = &pending{Seg: cur.Seg, From: cur.Off, To: cur.Off, LostSaid: cur.LostSaid, Batch: retrylog.Batch{
		Gateway: s.cfg.Gateway, Env: s.cfg.Env, Boot: b.id, Seq: cur.Seq + 1, From: cur.Until, Until: cur.Until,
	}}
	for {
		limit := last.off
		if last.seg > p.Seg {
			if limit, err = b.end(p.Seg); err != nil {
				return nil, 0, err
			}
		}
		if p.From < limit {
			if b.id == s.id { // those of earlier boots are sealed
				// Lines are durable before their key is used: after a power cut the same
				// key must mean the same bytes. What cannot be made so, and still be
				// read, is shipped all the same.
				s.say.error(s.cfg.Log, "bring a batch to the disk", s.toDisk())
			}
			_, p.Lines, bad, p.To, err = b.lines(p.Seg, p.From, limit, b.maxLines)
			return p, bad, err
		}
		if last.seg <= p.Seg {
			return p, 0, nil
		}
		p.Seg, p.From, p.To = p.Seg+1, 0, 0
	}
}

// end is where the data of a closed segment ends; one that is gone is empty.
func (b *boot) end(n int64) (int64, error) {
	b.mu.Lock()
	end, ok := b.ends[n]
	b.mu.Unlock()
	if ok {
		return end, nil
	}
	f, err := openSegment(b.dir, n)
	if err != nil {
		if isGone(err) {
			return 0, nil
		}
		return 0, fmt.Errorf("read segment: %w", err)
	}
	defer f.Close()
	return f.Seek(0, io.SeekEnd)
}

func (b *boot) setPending(p *pending) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cur.Pending = p
}

// acknowledge moves the cursor behind p. It becomes durable with the next
// batch: should that never be, p is sent again and known.
func (s *Spool) acknowledge(b *boot, p *pending) error {
	b.maxLines = min(batchLines, 2*b.maxLines)
	b.mu.Lock()
	defer b.mu.Unlock()
	cur := b.cur
	cur.Seg, cur.Off, cur.Seq = p.Seg, p.To, p.Batch.Seq
	cur.Until, cur.LostSaid, cur.Pending, cur.Done = p.Batch.Until, p.LostSaid, nil, p.Final
	if cur.Done { // there is no next batch
		if err := b.state.write(cur, s.cfg.writeSync); err != nil {
			return err // p is sent again
		}
	}
	b.cur = cur
	for len(b.marks) > 0 && !b.marks[0].until.After(cur.Until) && b.marks[0].within(p.Seg, p.To) {
		b.marks = b.marks[1:]
	}
	for n := range b.ends {
		if n < p.Seg {
			delete(b.ends, n)
		}
	}
	return nil
}

// giveUp puts the lines of a batch aside that control calls wrong, and sends the
// rest of its meaning, the watermark and the loss, under its key. A batch that
// is refused even so is skipped; control sees the gap.
func (s *Spool) giveUp(b *boot, p *pending, body []byte, why error) error {
	s.metrics.dead.Add(1)
	s.cfg.Log.Error("batch set aside", "boot", b.id, "seq", p.Batch.Seq, "lines", p.Lines, "err", why)
	if p.Empty || len(body) == 0 {
		return s.acknowledge(b, p)
	}
	if err := s.setAside(fmt.Sprintf("%s-%d.ndjson", b.id, p.Batch.Seq), body); err != nil {
		s.cfg.Log.Error("batch not kept", "boot", b.id, "seq", p.Batch.Seq, "err", err)
	}
	var events int64
	_, _, _ = retrylog.Scan(bytes.NewReader(body), func(r retrylog.Record) error {
		if r.Exchange != nil {
			events += r.Exchange.Count
		}
		return nil
	})
	next := *p
	next.Batch.Lost += events
	next.Empty, next.Refused = true, 0
	b.mu.Lock()
	b.cur.Pending = &next
	cur := b.cur
	b.mu.Unlock()
	return b.state.write(cur, s.cfg.writeSync)
}

// send posts p once. The status is 0 where none came.
func (s *Spool) send(ctx context.Context, p *pending, body []byte) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(s.cfg.Control, "/")+"/api/v1/events", bytes.NewReader(body))
	if err != nil {
		return 0, fmt.Errorf("ship batch: %w", err)
	}
	key, err := json.Marshal(p.Batch)
	if err != nil {
		return 0, fmt.Errorf("ship batch: %w", err)
	}
	req.Header.Set(retrylog.BatchHeader, headerText(key))
	req.Header.Set("Content-Type", "application/x-ndjson")
	if s.cfg.Token != "" { // else the client adds it
		req.Header.Set("Authorization", "Bearer "+s.cfg.Token)
	}
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return 0, fmt.Errorf("ship batch %d: %w", p.Batch.Seq, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return 0, fmt.Errorf("ship batch %d: %w", p.Batch.Seq, err)
	}
	if resp.StatusCode != http.StatusOK {
		return resp.StatusCode, fmt.Errorf("ship batch %d: control answered %d: %s", p.Batch.Seq, resp.StatusCode, bytes.TrimSpace(text[:min(len(text), 300)]))
	}
	var answer struct {
		Acked int64 `json:"acked"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Acked < p.Batch.Seq {
		return 0, errors.Join(fmt.Errorf("ship batch %d: control acknowledged %d", p.Batch.Seq, answer.Acked), err)
	}
	return http.StatusOK, nil
}

// headerText escapes what is not plain ASCII, which a header may not carry.
func headerText(text []byte) string {
	var b strings.Builder
	for _, r := range string(text) {
		if r < 0x7f {
			b.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, u)
		}
	}
	return b.String()
}
