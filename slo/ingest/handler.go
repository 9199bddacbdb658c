package ingest

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"breakwater/internal/retrylog"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	maxBody     = 8 << 20  // as sent
	maxUnpacked = 32 << 20 // a packed body must not unpack without end
	maxLines    = 200_000  // nor may it be newlines all through: each costs a look
	maxHeader   = 4 << 10
	maxAtOnce   = 16              // batches in work; a gateway that waits has its spool
	storeWait   = 5 * time.Second // a batch that takes longer is sent again
)

// Config is what a Handler needs.
type Config struct {
	Store Store
	// Limit is the latency objective of a service and route, 0 for none. nil: none anywhere.
	Limit func(service, route string) time.Duration
	Now   func() time.Time // nil: time.Now
	// Audit notes that somebody begins to read a file in; an error keeps them from it. nil: nothing does.
	Audit func(ctx context.Context, action, object, detail string) error
	Log   *slog.Logger // nil: slog.Default
	// Metrics takes the counters of ingest; nil: none are kept.
	Metrics prometheus.Registerer
}

// Answer is the body of a 200: the batch is counted, by this request or one before.
type Answer struct {
	Acked    int64 `json:"acked"`
	Already  bool  `json:"already,omitempty"`
	BadLines int64 `json:"bad_lines,omitempty"`
	Future   int64 `json:"future,omitempty"`
	TooLate  int64 `json:"too_late,omitempty"`
}

// Handler serves POST /api/v1/events. It is safe for concurrent use.
type Handler struct {
	cfg     Config
	group   *group
	slots   chan struct{}
	folders sync.Pool // a batch is read, stored and answered before its folder is used again
	batches *prometheus.CounterVec
	events  *prometheus.CounterVec
}

// New returns a Handler.
func New(cfg Config) *Handler {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	h := &Handler{
		cfg:   cfg,
		group: newGroup(cfg.Store),
		slots: make(chan struct{}, maxAtOnce),
		batches: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_ingest_batches_total", Help: "Batches of retry-log lines received, by what came of them.",
		}, []string{"result"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "breakwater_ingest_events_total", Help: "Events of batches counted for the first time, by what came of them.",
		}, []string{"result"}),
	}
	if cfg.Metrics != nil {
		cfg.Metrics.MustRegister(h.batches, h.events)
	}
	return h
}

// ServeHTTP counts one batch. 200 means it is safe to forget; 503 to send the
// same bytes again; any other answer that the same bytes will never be taken.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve(w, r, false) }

// Files serves POST /api/v1/events/files: lines that come from a file and not
// from a gateway.
func (h *Handler) Files() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(w, r, true) })
}

func (h *Handler) serve(w http.ResponseWriter, r *http.Request, files bool) {
	select {
	case h.slots <- struct{}{}:
		defer func() { <-h.slots }()
	default:
		h.refuse(w, &problem{http.StatusServiceUnavailable, "busy", "too many batches are in work"})
		return
	}
	f, ok := h.folders.Get().(*folder)
	if !ok {
		f = newFolder()
	}
	defer h.folders.Put(f)
	if files {
		h.file(w, r, f)
		return
	}
	b, p := h.read(w, r, f)
	if p != nil {
		h.refuse(w, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	already, err := h.group.ingest(ctx, b)
	if err != nil {
		h.away(w, b, err)
		return
	}
	a := Answer{Acked: b.Key.Seq, Already: already}
	if already {
		h.batches.WithLabelValues("already").Inc()
	} else {
		a.BadLines, a.Future, a.TooLate = b.BadLines, b.Future, b.TooLate
		h.counted(b)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a) // a lost answer is a batch sent again
}

func (h *Handler) away(w http.ResponseWriter, b *Batch, err error) {
	h.cfg.Log.Warn("batch not stored", "gateway", b.Key.Gateway, "boot", b.Key.Boot, "seq", b.Key.Seq, "err", err)
	h.refuse(w, &problem{http.StatusServiceUnavailable, "store_away", "the ledger cannot be written at the moment; send the batch again"})
}

func (h *Handler) counted(b *Batch) {
	h.batches.WithLabelValues("counted").Inc()
	h.events.WithLabelValues("counted").Add(float64(b.Exchanges))
	h.events.WithLabelValues("lost").Add(float64(b.Key.Lost))
	h.events.WithLabelValues("bad_line").Add(float64(b.BadLines))
	h.events.WithLabelValues("future").Add(float64(b.Future))
	h.events.WithLabelValues("too_late").Add(float64(b.TooLate))
	h.events.WithLabelValues("unkept").Add(float64(b.Unkept))
	if b.Key.Lost+b.BadLines+b.Future+b.TooLate > 0 {
		h.cfg.Log.Warn("events missing from a batch", "gateway", b.Key.Gateway, "boot", b.Key.Boot, "seq", b.Key.Seq,
			"lost", b.Key.Lost, "bad_lines", b.BadLines, "future", b.Future, "too_late", b.TooLate)
	}
}

func (h *Handler) read(w http.ResponseWriter, r *http.Request, f *folder) (*Batch, *problem) {
	key, err := readKey(r.Header.Get(retrylog.BatchHeader))
	if err != nil {
		return nil, &problem{http.StatusBadRequest, "bad_batch", retrylog.BatchHeader + ": " + err.Error()}
	}
	body, p := unpacked(w, r)
	if p != nil {
		return nil, p
	}
	now := h.cfg.Now().UTC()
	f.begin(now, MaxLate, h.cfg.Limit)
	bad, err := f.read(body)
	if err != nil {
		return nil, unreadable(err)
	}
	return newBatch(key, f.done(), bad, now), nil
}

// unpacked is the body as it was before it was packed, within bounds.
func unpacked(w http.ResponseWriter, r *http.Request) (io.Reader, *problem) {
	body := io.Reader(http.MaxBytesReader(w, r.Body, maxBody))
	switch enc := r.Header.Get("Content-Encoding"); enc {
	case "", "identity":
	case "gzip":
		unzip, err := gzip.NewReader(body)
		if err != nil {
			return nil, unreadable(err)
		}
		body = unzip
	default:
		return nil, &problem{http.StatusUnsupportedMediaType, "bad_encoding", fmt.Sprintf("Content-Encoding: must be gzip or none, got %.40q", enc)}
	}
	return &capped{body, maxUnpacked, maxLines}, nil
}

// read adds every record of body and returns how many lines could not be read.
func (f *folder) read(body io.Reader) (bad int64, err error) {
	var x retrylog.Exchange // used again for every line, its tries' room too
	glanced := retrylog.Record{Exchange: &x}
	_, stats, err := retrylog.Lines(body, func(line []byte, _ int64) error {
		if glance(line, &x) {
			f.add(&glanced, line)
			return nil
		}
		rec, err := retrylog.Parse(line)
		if err != nil {
			bad++
			return nil
		}
		f.add(&rec, line)
		return nil
	})
	if stats.Tail > 0 {
		bad++ // the last line has no end
	}
	return bad + stats.Bad, err
}

func readKey(s string) (retrylog.Batch, error) {
	var k retrylog.Batch
	switch {
	case s == "":
		return k, errors.New("must be there")
	case len(s) > maxHeader:
		return k, fmt.Errorf("must be up to %d bytes, got %d", maxHeader, len(s))
	}
	if err := json.Unmarshal([]byte(s), &k); err != nil {
		return k, err
	}
	return k, Check(&k)
}

// capped fails after so many bytes or lines, where io.LimitReader would silently end.
type capped struct {
	r            io.Reader
	bytes, lines int
}

func (c *capped) Read(p []byte) (int, error) {
	if c.bytes <= 0 || c.lines < 0 {
		return 0, errTooLarge
	}
	n, err := c.r.Read(p[:min(len(p), c.bytes)])
	c.bytes -= n
	c.lines -= bytes.Count(p[:n], []byte{'\n'})
	return n, err
}

var errTooLarge = errors.New("too large")

// problem is an RFC 9457 answer.
type problem struct {
	status       int
	code, detail string
}

func unreadable(err error) *problem {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errTooLarge) {
		return &problem{http.StatusRequestEntityTooLarge, "too_large",
			fmt.Sprintf("a batch is up to %d bytes, %d unpacked, and %d lines", maxBody, maxUnpacked, maxLines)}
	}
	return &problem{http.StatusBadRequest, "unreadable", "read the batch: " + err.Error()}
}

func (h *Handler) refuse(w http.ResponseWriter, p *problem) {
	result := "refused"
	w.Header().Set("Content-Type", "application/problem+json")
	if p.status == http.StatusServiceUnavailable {
		result = "unavailable"
		w.Header().Set("Retry-After", strconv.Itoa(1))
	}
	h.batches.WithLabelValues(result).Inc()
	w.WriteHeader(p.status)
	_ = json.NewEncoder(w).Encode(struct {
		Title  string `json:"title"`
		Status int    `json:"status"`
		Code   string `json:"code"`
		Detail string `json:"detail"`
	}{http.StatusText(p.status), p.status, p.code, p.detail})
}
