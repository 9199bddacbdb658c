package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"breakwater/internal/retrylog"
)

// FileHeader carries a FileSpan as JSON, where lines come from a file and not
// from a gateway.
const FileHeader = "X-Breakwater-File"

// FromPonytail is the Origin of an exchange that was put together from the lines
// of a ponytail log. Such a log names only what was retried: its exchanges count
// among the retries of their upstream, and in no objective.
const FromPonytail = "ponytail_log"

// How far back a file may reach. Minutes are kept for 35 days; what was retried is
// kept by the day for five years.
const (
	maxFileAge  = 34 * 24 * time.Hour
	maxRetryAge = 5 * 365 * 24 * time.Hour
)

// FileSpan says which part of a file a batch is. A file is known by its content:
// Hash is over all of it up to a line, so that it may be read again, whole, grown
// or under another name, and each line counts once.
type FileSpan struct {
	From   int64  `json:"from"`   // lines before the first of the batch
	Before string `json:"before"` // hash of those, "" for none
	After  string `json:"after"`  // hash up to the batch's last line
	// Gateways are those whose own lines are in the batch, and when: had they
	// reported that time themselves, it would count twice.
	Gateways []GatewaySpan `json:"-"`
	// Oldest is how far back minutes are kept: to a day before it nothing is added
	// where only its sum is left.
	Oldest time.Time `json:"-"`
}

// GatewaySpan is a time in which a gateway's exchanges ended.
type GatewaySpan struct {
	Env, Gateway string
	From, To     time.Time
}

// A Cursor is how far a file was read in.
type Cursor struct {
	Line int64  `json:"line"`
	Hash string `json:"hash"`
}

// ErrElsewhere says that a batch does not join on to what was read of its file.
type ErrElsewhere struct{ Cursor }

func (e *ErrElsewhere) Error() string {
	return fmt.Sprintf("the file was read up to line %d", e.Line)
}

// ErrReported says that a gateway has reported the lines of a file itself.
type ErrReported struct {
	GatewaySpan
	Boot string
}

func (e *ErrReported) Error() string {
	return fmt.Sprintf("gateway %s of %s has reported the time from %s to %s itself (boot %s): read in, it would count twice",
		e.Gateway, e.Env, e.From.UTC().Format(time.RFC3339), e.To.UTC().Format(time.RFC3339), e.Boot)
}

// ErrClosed says that the minutes of a day are gone, and its sums are final.
type ErrClosed struct {
	Service string
	Day     time.Time
}

func (e *ErrClosed) Error() string {
	return fmt.Sprintf("the retries of %s on %s are summed up, and their minutes gone: nothing can be added to that day",
		e.Service, e.Day.UTC().Format(time.DateOnly))
}

// FileAnswer is the body of a 200 to a part of a file, and of a 409 to one that
// does not join on.
type FileAnswer struct {
	Cursor
	Counted int64 `json:"counted"`
	Future  int64 `json:"future,omitempty"`
	TooLate int64 `json:"too_late,omitempty"`
}

// Cursors is what a Store can do besides, where files are read in.
type Cursors interface {
	FileCursor(ctx context.Context, k retrylog.Batch) (Cursor, error)
}

// file counts a part of a file. One that ends before it begins asks how far the
// file was read.
func (h *Handler) file(w http.ResponseWriter, r *http.Request, f *folder) {
	b, p := h.readFile(w, r, f)
	if p != nil {
		h.refuse(w, p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeWait)
	defer cancel()
	if b.Key.Seq <= b.File.From {
		h.cursor(ctx, w, b.Key)
		return
	}
	already, err := h.cfg.Store.Ingest(ctx, b)
	if e, ok := errors.AsType[*ErrElsewhere](err); ok {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(FileAnswer{Cursor: e.Cursor})
		return
	}
	if reported, ok := errors.AsType[*ErrReported](err); ok {
		h.refuse(w, &problem{http.StatusUnprocessableEntity, "reported", reported.Error()})
		return
	}
	if closed, ok := errors.AsType[*ErrClosed](err); ok {
		h.refuse(w, &problem{http.StatusUnprocessableEntity, "closed", closed.Error()})
		return
	}
	if err != nil {
		h.away(w, b, err)
		return
	}
	a := FileAnswer{Cursor: Cursor{b.Key.Seq, b.File.After}}
	if !already[0] {
		a.Counted, a.Future, a.TooLate = b.Exchanges, b.Future, b.TooLate
		h.counted(b)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(a)
}

func (h *Handler) cursor(ctx context.Context, w http.ResponseWriter, k retrylog.Batch) {
	s, ok := h.cfg.Store.(Cursors)
	if !ok {
		h.refuse(w, &problem{http.StatusNotImplemented, "no_files", "this ledger takes no files"})
		return
	}
	c, err := s.FileCursor(ctx, k)
	if err == nil && h.cfg.Audit != nil {
		err = h.cfg.Audit(ctx, "ingest.file", k.Gateway+"/"+k.Boot, fmt.Sprintf("read in from line %d on", c.Line+1))
	}
	if err != nil {
		h.away(w, &Batch{Key: k}, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(FileAnswer{Cursor: c})
}

func (h *Handler) readFile(w http.ResponseWriter, r *http.Request, f *folder) (*Batch, *problem) {
	key, err := readKey(r.Header.Get(retrylog.BatchHeader))
	if err != nil {
		return nil, &problem{http.StatusBadRequest, "bad_batch", retrylog.BatchHeader + ": " + err.Error()}
	}
	var span FileSpan
	text := r.Header.Get(FileHeader)
	if len(text) > maxHeader {
		err = fmt.Errorf("must be up to %d bytes, got %d", maxHeader, len(text))
	} else if err = json.Unmarshal([]byte(text), &span); err == nil && (span.From < 0 || (span.From == 0) != (span.Before == "")) {
		err = errors.New("from and before: must both be there or not")
	}
	if err != nil {
		return nil, &problem{http.StatusBadRequest, "bad_file", FileHeader + ": " + err.Error()}
	}
	body, p := unpacked(w, r)
	if p != nil {
		return nil, p
	}
	now := h.cfg.Now().UTC()
	f.begin(now, maxRetryAge, h.cfg.Limit)
	reach := reach{oldest: now.Add(-maxFileAge)}
	f.before = reach.see
	bad, err := f.read(body)
	f.before = nil
	if err != nil {
		return nil, unreadable(err)
	}
	b := newBatch(key, f.done(), bad, now)
	b.Minutes = nil
	span.Gateways, span.Oldest = reach.spans, now.Add(-maxFileAge)
	b.File = &span
	return b, nil
}

// reach notes whose lines a part of a file holds.
type reach struct {
	oldest time.Time
	spans  []GatewaySpan
}

// see reports whether x may be counted: the minutes of its day are kept.
func (g *reach) see(x *retrylog.Exchange) bool {
	if x.Origin == FromPonytail {
		return true
	}
	if x.End.Before(g.oldest) {
		return false
	}
	for i := range g.spans {
		s := &g.spans[i]
		if s.Env == x.Env && s.Gateway == x.Gateway {
			if x.End.Before(s.From) {
				s.From = x.End
			}
			if x.End.After(s.To) {
				s.To = x.End
			}
			return true
		}
	}
	g.spans = append(g.spans, GatewaySpan{Env: clean(x.Env), Gateway: clean(x.Gateway), From: x.End, To: x.End})
	return true
}
