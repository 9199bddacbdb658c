package gateway

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// What a census may take of memory and time. Between an upstream and us stand
// proxies that rename, drop and re-case fields; a condition on such a field never
// matches, and nothing else would say so.
const (
	censusNames  = 128 // different names of one upstream
	censusSlots  = 256 // of the table; a power of two
	censusProbes = 8
	censusName   = 64 // bytes of a name; longer ones are only counted

	lookAtFirst = 128 // answers of an upstream that are all looked at
	lookAtEvery = 64  // after these, of answers that are no failure
)

// headers are the censuses by upstream. They outlive snapshots; what the
// configuration relies on is told anew by each.
type headers struct {
	mu   sync.Mutex
	of   map[string]*census
	told map[string]bool // findings that a notice was written of
}

func newHeaders() *headers { return &headers{of: map[string]*census{}, told: map[string]bool{}} }

// census is which fields the answers of one upstream have: their names, and
// nothing of their values but what is nearly a value that a condition waits for.
// It is safe for concurrent use. An answer whose names are all known costs no
// lock and no allocation, and nearly all answers are not looked at.
type census struct {
	upstream string
	answers  atomic.Int64
	looked   atomic.Int64
	names    [censusSlots]atomic.Pointer[seenName]
	more     atomic.Int64 // sightings of names that found no place
	watched  atomic.Pointer[[]*watched]

	mu    sync.Mutex // of a new name
	count int
}

type seenName struct {
	name string
	seen atomic.Int64
}

// watched is a field that the configuration relies on.
type watched struct {
	reliance
	asked atomic.Int64 // answers looked at that could have had it
	seen  atomic.Int64 // that had it
	exact atomic.Int64 // with the value
	near  atomic.Pointer[string]
}

// census returns the one of upstream.
func (h *headers) census(upstream string) *census {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := h.of[upstream]
	if c == nil {
		c = &census{upstream: upstream}
		c.watched.Store(new([]*watched))
		h.of[upstream] = c
	}
	return c
}

// apply has every census watch what cfg relies on from now on, and forgets
// upstreams that cfg does not name.
func (h *headers) apply(cfg *config.Config) {
	named := map[string]bool{}
	for _, up := range cfg.Pools() {
		named[up.Name] = true
		h.census(up.Name).watch(relies(cfg, up.Name))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for name := range h.of {
		if !named[name] {
			delete(h.of, name)
		}
	}
}

// watch takes list over; counts of what was watched before go on.
func (c *census) watch(list []reliance) {
	before := *c.watched.Load()
	next := make([]*watched, 0, len(list))
	for _, r := range list {
		w := &watched{reliance: r}
		if i := slices.IndexFunc(before, func(w *watched) bool { return w.reliance.equal(r) }); i >= 0 {
			w.asked.Store(before[i].asked.Load())
			w.seen.Store(before[i].seen.Load())
			w.exact.Store(before[i].exact.Load())
			w.near.Store(before[i].near.Load())
		}
		next = append(next, w)
	}
	c.watched.Store(&next)
}

// layer looks at answers as they came from the wire; it stands under the faults,
// so that it sees the upstream and not the drill.
func (c *census) layer(next exchange.Service) exchange.Service {
	return exchange.Func(func(x *exchange.Exchange) error {
		err := next.Serve(x)
		if err == nil {
			c.look(&x.Response.Head, x.Response.Judged())
		}
		return err
	})
}

// look counts an answer, and looks at it where its turn has come. Failures are
// looked at always: fields that tell of overload stand on few other answers.
func (c *census) look(head *exchange.Head, status int) {
	n := c.answers.Add(1)
	if n > lookAtFirst && n%lookAtEvery != 0 && status < 400 {
		return
	}
	c.looked.Add(1)
	fields := head.Fields()
	for i := range fields {
		c.name(fields[i].Name)
	}
	for _, w := range *c.watched.Load() {
		w.look(fields, status)
	}
}

func (c *census) name(name string) {
	if len(name) == 0 || len(name) > censusName {
		c.more.Add(1)
		return
	}
	hash := nameHash(name)
	for i := range uint32(censusProbes) {
		s := c.names[(hash+i)%censusSlots].Load()
		if s == nil {
			c.insert(name, hash)
			return
		}
		if len(s.name) == len(name) && strings.EqualFold(s.name, name) {
			s.seen.Add(1)
			return
		}
	}
	c.more.Add(1)
}

func (c *census) insert(name string, hash uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range uint32(censusProbes) {
		slot := &c.names[(hash+i)%censusSlots]
		s := slot.Load()
		if s == nil {
			if c.count >= censusNames {
				break
			}
			s = &seenName{name: strings.Clone(name)}
			c.count++
			slot.Store(s)
		}
		if strings.EqualFold(s.name, name) {
			s.seen.Add(1)
			return
		}
	}
	c.more.Add(1)
}

// nameHash is FNV-1a without regard to ASCII case.
func nameHash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

func (w *watched) look(fields []exchange.Field, status int) {
	if w.concerns(status) {
		w.asked.Add(1)
	}
	present, exact := false, false
	for i := range fields {
		f := &fields[i]
		if !w.named(f.Name) {
			continue
		}
		present = true
		if w.Value == "" || f.Value == w.Value {
			exact = true
		} else if w.near.Load() == nil && nearValue(f.Value, w.Value) {
			v := strings.Clone(f.Value)
			w.near.Store(&v)
		}
	}
	if present {
		w.seen.Add(1)
	}
	if exact {
		w.exact.Add(1)
	}
}

// HeaderStats is what a census has found.
type HeaderStats struct {
	Answers  int64           `json:"answers"`
	LookedAt int64           `json:"looked_at"`
	Names    []HeaderName    `json:"names"`
	More     int64           `json:"more_names,omitempty"` // sightings of names that found no place
	Findings []HeaderFinding `json:"findings"`
}

// HeaderName is a field and on how many of the answers looked at it stood.
type HeaderName struct {
	Name string `json:"name"`
	Seen int64  `json:"seen"`
}

// list returns the names seen, the most frequent first.
func (c *census) list() []HeaderName {
	out := []HeaderName{}
	for i := range c.names {
		if s := c.names[i].Load(); s != nil {
			out = append(out, HeaderName{s.name, s.seen.Load()})
		}
	}
	slices.SortFunc(out, func(a, b HeaderName) int {
		if a.Seen != b.Seen {
			return int(b.Seen - a.Seen)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return out
}

// stats are the censuses by upstream, for /stats.
func (h *headers) stats() map[string]HeaderStats {
	out := map[string]HeaderStats{}
	for _, c := range h.all() {
		out[c.upstream] = HeaderStats{
			Answers: c.answers.Load(), LookedAt: c.looked.Load(), Names: c.list(), More: c.more.Load(), Findings: c.findings(),
		}
	}
	return out
}

func (h *headers) all() []*census {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []*census
	for _, c := range h.of {
		out = append(out, c)
	}
	return out
}

// tick writes a notice of each finding that is new, once.
func (h *headers) tick(notice func(retrylog.Notice)) {
	const most = 1024 // findings remembered; an operator has read enough by then
	for _, c := range h.all() {
		for _, f := range c.findings() {
			h.mu.Lock()
			said := h.told[f.Text] || len(h.told) >= most
			if !said {
				h.told[f.Text] = true
			}
			h.mu.Unlock()
			if !said {
				notice(retrylog.Notice{Kind: "header_never_seen", Count: f.Answers, Detail: f.Text})
			}
		}
	}
}

// notice makes something known that an operator must be able to count on.
func (g *Gateway) notice(n retrylog.Notice) {
	g.log.Warn(n.Kind, "count", n.Count, "detail", n.Detail)
	n.At, n.Gateway, n.Env = time.Now().UTC(), g.cfg.Name, g.cfg.Env
	if s := g.now.Load(); s != nil {
		n.Gateway, n.Env = s.name, s.env
	}
	g.cfg.Recorder.Record(&retrylog.Record{Notice: &n})
}
