package spool

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is the state of a Spool, for /stats.
type Stats struct {
	Boot     string `json:"boot"`
	Begun    int64  `json:"begun"`
	Ended    int64  `json:"ended"`
	Dropped  int64  `json:"dropped"`
	Folded   int64  `json:"folded"` // counted in the line of another
	Segments int    `json:"segments"`
	Bytes    int64  `json:"bytes"`
	// AckedSeq and AckedUntil are of the last batch of this boot that control has.
	AckedSeq    int64     `json:"acked_seq"`
	AckedUntil  time.Time `json:"acked_until"`
	BadLines    int64     `json:"bad_lines"`
	DeadBatches int64     `json:"dead_batches"`
	// Unshipped names the earlier boots that are not wholly shipped yet.
	Unshipped []string `json:"unshipped"`
	LastError string   `json:"last_error,omitempty"`
}

// Stats tells what holds now.
func (s *Spool) Stats() Stats {
	st := Stats{Boot: s.id, Unshipped: []string{}, BadLines: s.metrics.bad.Load(), DeadBatches: s.metrics.dead.Load(), Folded: s.metrics.folded.Load(), LastError: s.say.text()}
	e := s.gate.enter()
	c := s.counters.Load()
	st.Begun, st.Ended, st.Dropped = c.begun.Load(), c.ended.Load(), c.dropped.Load()
	s.gate.leave(e)
	st.Bytes, st.Segments = s.usage()
	for _, b := range s.boots() {
		b.mu.Lock()
		if b.id == s.id {
			st.AckedSeq, st.AckedUntil = b.cur.Seq, b.cur.Until
		} else if !b.cur.Done {
			st.Unshipped = append(st.Unshipped, b.id)
		}
		b.mu.Unlock()
	}
	return st
}

type metrics struct {
	sent, bad, dead, folded atomic.Int64

	all []prometheus.Collector
}

// register makes the metrics read what is counted anyway: the hot path pays nothing.
func (s *Spool) register() error {
	if s.cfg.Registerer == nil {
		return nil
	}
	counter := func(name, help string, v func() int64) {
		s.metrics.all = append(s.metrics.all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 { return float64(v()) }))
	}
	gauge := func(name, help string, v func() float64) {
		s.metrics.all = append(s.metrics.all, prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, v))
	}
	counter("breakwater_spool_events_dropped_total", "Events that found no room in the spool.", func() int64 { return s.Stats().Dropped })
	counter("breakwater_spool_batches_acked_total", "Batches that control acknowledged.", s.metrics.sent.Load)
	counter("breakwater_spool_lines_bad_total", "Lines of segments that could not be read.", s.metrics.bad.Load)
	counter("breakwater_spool_batches_dead_total", "Batches that control refused for good.", s.metrics.dead.Load)
	gauge("breakwater_spool_size_bytes", "Size of all segments.", func() float64 { n, _ := s.usage(); return float64(n) })
	gauge("breakwater_spool_watermark_age_seconds", "Age of the last watermark that control acknowledged.", func() float64 {
		until := s.Stats().AckedUntil
		if until.IsZero() {
			until = s.clock.base
		}
		return time.Since(until).Seconds()
	})
	for i, c := range s.metrics.all {
		if err := s.cfg.Registerer.Register(c); err != nil {
			for _, c := range s.metrics.all[:i] {
				s.cfg.Registerer.Unregister(c)
			}
			return err
		}
	}
	return nil
}

func (s *Spool) unregister() {
	for _, c := range s.metrics.all {
		s.cfg.Registerer.Unregister(c)
	}
}

// saying logs an error when it begins and when it is over, and not a thousand
// times between.
type saying struct {
	mu   sync.Mutex
	last map[string]string
}

func (s *saying) error(log *slog.Logger, what string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, before := s.last[what]
	switch {
	case err != nil:
		if s.last == nil {
			s.last = map[string]string{}
		}
		s.last[what] = err.Error()
		if !before {
			log.Error("spool: "+what, "err", err)
		}
	case before:
		delete(s.last, what)
		log.Info("spool: " + what + ": well again")
	}
}

func (s *saying) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := ""
	for what, err := range s.last {
		if out != "" {
			out += "; "
		}
		out += what + ": " + err
	}
	return out
}

// mostAside bounds what is kept of batches that were refused.
const mostAside = 64 << 20

func (s *Spool) setAside(name string, body []byte) error {
	dir := filepath.Join(s.cfg.Dir, asideDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	var total int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if total+int64(len(body)) > mostAside {
		return errors.New("there is too much aside already")
	}
	return os.WriteFile(filepath.Join(dir, name), body, 0o600)
}

func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
