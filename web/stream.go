package web

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// The topics a page can listen to.
const (
	topicLedger = "ledger" // any figure of any objective
	topicDrills = "drills" // a run, its log, a schedule
)

// keep is how many announcements a client may have missed and still be told
// which topics they were of; one that missed more reloads everything.
const keep = 256

// hub passes announcements to open streams. An announcement is small and says
// only what changed; the page fetches it. So a slow reader costs one slot, and a
// burst of changes is one fetch.
type hub struct {
	boot string        // ids of another process must not be mistaken for ours
	done chan struct{} // closed when Run ends, so that streams do not hold up a shutdown

	mu      sync.Mutex
	seq     uint64
	history []announcement // the last of them, oldest first
	waiting map[chan struct{}]bool
	seen    map[string]uint64 // topic -> fingerprint at the last Tick
}

type announcement struct {
	seq    uint64
	topics []string
}

func newHub() *hub {
	return &hub{
		boot:    strconv.FormatInt(time.Now().UnixNano(), 36),
		done:    make(chan struct{}),
		waiting: map[chan struct{}]bool{},
		seen:    map[string]uint64{},
	}
}

func (h *hub) announce(topics ...string) {
	if len(topics) == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	h.history = append(h.history, announcement{h.seq, topics})
	if len(h.history) > keep {
		h.history = slices.Delete(h.history, 0, len(h.history)-keep)
	}
	for c := range h.waiting {
		select {
		case c <- struct{}{}:
		default: // it is already awake and will find this one too
		}
	}
}

// since returns the topics announced after seq, and the newest seq. lost: seq is
// further back than what is kept.
func (h *hub) since(seq uint64) (topics []string, last uint64, lost bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.history) > 0 && seq+1 < h.history[0].seq || seq > h.seq {
		return nil, h.seq, true
	}
	for _, a := range h.history {
		if a.seq <= seq {
			continue
		}
		for _, t := range a.topics {
			if !slices.Contains(topics, t) {
				topics = append(topics, t)
			}
		}
	}
	return topics, h.seq, false
}

func (h *hub) join() (wake chan struct{}, leave func()) {
	wake = make(chan struct{}, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting[wake] = true
	return wake, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.waiting, wake)
	}
}

// id and parse are the two directions of an event id.
func (h *hub) id(seq uint64) string { return h.boot + "-" + strconv.FormatUint(seq, 10) }

func (h *hub) parse(id string) (seq uint64, ok bool) {
	boot, n, found := strings.Cut(id, "-")
	seq, err := strconv.ParseUint(n, 10, 64)
	return seq, found && err == nil && boot == h.boot
}

// Stream is GET /api/v1/stream: server-sent events whose data names the topics
// that changed. A client that comes back with Last-Event-ID is told what it
// missed, or "reset" if that is no longer known.
func (s *Server) Stream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wake, leave := s.hub.join()
		defer leave()
		out := &events{w: w, rc: http.NewResponseController(w), patience: 2 * s.cfg.Heartbeat}
		h := w.Header()
		h.Set("Content-Type", "text/event-stream; charset=utf-8")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Accel-Buffering", "no") // nginx would hold events back

		_, seq, _ := s.hub.since(0)
		if id := r.Header.Get("Last-Event-ID"); id != "" {
			if known, ok := s.hub.parse(id); ok {
				seq = known
			} else if out.send("reset", s.hub.id(seq), nil) != nil {
				return
			}
		}
		// The first event gives the client an id to come back with.
		if out.send("hello", s.hub.id(seq), nil) != nil {
			return
		}
		beat := time.NewTicker(s.cfg.Heartbeat)
		defer beat.Stop()
		for {
			topics, last, lost := s.hub.since(seq)
			var err error
			switch {
			case lost:
				err = out.send("reset", s.hub.id(last), nil)
			case len(topics) > 0:
				err = out.send("changed", s.hub.id(last), topics)
			}
			if err != nil {
				return
			}
			seq = last
			select {
			case <-r.Context().Done():
				return
			case <-s.hub.done:
				return
			case <-wake:
			case <-beat.C:
				if out.beat() != nil {
					return
				}
			}
		}
	})
}

// events writes a stream. The server's WriteTimeout is one instant for the whole
// answer and would cut every stream at that age, so each write sets its own
// deadline; a client that does not read for so long is let go.
type events struct {
	w        http.ResponseWriter
	rc       *http.ResponseController
	patience time.Duration
}

func (e *events) send(event, id string, topics []string) error {
	data, err := json.Marshal(map[string][]string{"topics": topics})
	if err != nil {
		return err
	}
	return e.write(fmt.Sprintf("id: %s\nevent: %s\ndata: %s\n\n", id, event, data))
}

func (e *events) beat() error { return e.write(": still here\n\n") }

func (e *events) write(text string) error {
	if err := e.rc.SetWriteDeadline(time.Now().Add(e.patience)); err != nil {
		return fmt.Errorf("the connection takes no write deadline: %w", err)
	}
	if _, err := e.w.Write([]byte(text)); err != nil {
		return err
	}
	return e.rc.Flush()
}

// Tick compares what pages show with what they showed at the last tick and
// announces the difference. With no page open it asks nobody anything.
func (s *Server) Tick(ctx context.Context) {
	if !s.hub.watched() {
		return
	}
	since, away := s.cfg.Ledger.DatabaseAway()
	ledger := fingerprint(s.cfg.Ledger.Statuses(), since, away)
	topics := s.hub.news(topicLedger, ledger)
	topics = append(topics, s.setupNews(ctx)...)
	// With the database away there is nothing new to read from it.
	runs, err := s.cfg.Drills.Runs(ctx, 50)
	halt, errHalt := s.cfg.Drills.Halted(ctx)
	if err == nil && errHalt == nil {
		topics = append(topics, s.hub.news(topicDrills, fingerprint(runs, halt))...)
	}
	s.hub.announce(topics...)
}

func (h *hub) watched() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.waiting) > 0
}

// news returns the topic if its fingerprint is another than last time.
func (h *hub) news(topic string, print uint64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.seen[topic] == print {
		return nil
	}
	h.seen[topic] = print
	return []string{topic}
}

func fingerprint(values ...any) uint64 {
	sum := fnv.New64a()
	for _, v := range values {
		fmt.Fprintf(sum, "%v\x00", v)
	}
	return sum.Sum64()
}
