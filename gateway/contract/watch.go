package contract

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/internal/retrylog"
)

// Deviations of one contract are kept up to this many kinds; more are counted.
const maxDeviations = 32

// Watch holds the answers of an upstream against its contract. It is safe for
// concurrent use; where the contract is kept it neither locks nor allocates.
type Watch struct {
	contract Resilience
	seen     []atomic.Int64 // of each answer
	unlisted atomic.Int64
	differ   atomic.Int64

	kinds atomic.Pointer[[]*deviation]
	more  atomic.Int64 // deviations of kinds that found no place
	mu    sync.Mutex   // of a new kind
}

// NewWatch begins to count.
func NewWatch(c Resilience) *Watch {
	w := &Watch{contract: c, seen: make([]atomic.Int64, len(c.Answers))}
	w.kinds.Store(new([]*deviation))
	return w
}

// Contract is what w watches.
func (w *Watch) Contract() Resilience { return w.contract }

// kind is what makes two deviations one.
type kind struct {
	answer int // of the contract; Unlisted
	status int
	got    Reaction
	route  string
	reason string
}

type deviation struct {
	kind
	count       atomic.Int64
	first, last atomic.Int64 // Unix milliseconds
}

// Answer counts an answer and says which of the contract's it is. What is not
// agreed on is a deviation where it is a failure: of statuses below 400 a contract
// need not speak.
func (w *Watch) Answer(status int, head Head, route string, now func() time.Time) int {
	i := w.contract.Find(status, head)
	if i != Unlisted {
		w.seen[i].Add(1)
		return i
	}
	if status >= 400 {
		w.unlisted.Add(1)
		w.note(kind{answer: Unlisted, status: status, route: route}, now())
	}
	return Unlisted
}

// Reacted holds what was made of answer i of the contract against what was agreed.
func (w *Watch) Reacted(i int, did Did, route string, now func() time.Time) {
	if i < 0 || i >= len(w.contract.Answers) || did.Reaction == "" {
		return
	}
	a := &w.contract.Answers[i]
	if did.keeps(a.Reaction) {
		return
	}
	w.differ.Add(1)
	w.note(kind{answer: i, status: a.Status, got: did.Reaction, route: route, reason: did.Reason}, now())
}

func (w *Watch) note(k kind, now time.Time) {
	if d := find(*w.kinds.Load(), k); d != nil {
		d.again(now)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	list := *w.kinds.Load()
	d := find(list, k)
	if d == nil {
		if len(list) >= maxDeviations {
			w.more.Add(1)
			return
		}
		k.reason = strings.Clone(k.reason) // may lie over a buffer of the request
		d = &deviation{kind: k}
		d.first.Store(now.UnixMilli())
		grown := append(slices.Clone(list), d)
		w.kinds.Store(&grown)
	}
	d.again(now)
}

func find(list []*deviation, k kind) *deviation {
	for _, d := range list {
		if d.kind == k {
			return d
		}
	}
	return nil
}

func (d *deviation) again(now time.Time) {
	d.count.Add(1)
	d.last.Store(now.UnixMilli())
}

// Did is what was made of one answer.
type Did struct {
	Reaction Reaction
	Reason   string // decision_reason or skip_reason
	// Held says that the policy wanted to ask again and one of its limits (number
	// of tries, method, deadline, budget ...) did not let it.
	Held bool
}

// keeps reports whether d is what was agreed. A retry that a limit held back is
// one all the same: a contract is about what an answer means and not about how
// often one may ask.
func (d Did) keeps(agreed Reaction) bool {
	switch agreed {
	case Retry:
		return d.Reaction == Retry || d.Held
	case Never:
		return d.Reaction != Retry && !d.Held
	case Fallback:
		return d.Reaction == Fallback
	}
	return d.Reaction == Pass && !d.Held
}

// React says what was made of the answer to try i of ev, which has come to its
// end. Reaction is "" where nothing can be said: the client left, or a fault of
// ours stands between.
func React(ev *retrylog.Exchange, i int) Did {
	t := &ev.Tries[i]
	switch {
	case t.Fault != "" || t.Skip == "client_gone" || ev.Outcome == retrylog.ClientAbort || ev.Outcome == retrylog.Panicked:
		return Did{}
	case i+1 < len(ev.Tries):
		return Did{Reaction: Retry, Reason: t.Reason}
	}
	d := Did{Reaction: Pass, Reason: t.Skip, Held: t.Reason != "" && t.Skip != ""}
	if ev.Degraded != "" {
		d.Reaction = Fallback
	}
	return d
}

// Stats are what a Watch has counted.
type Stats struct {
	Contract   string      `json:"contract"`
	Answers    []Count     `json:"answers"`
	Unlisted   int64       `json:"unlisted"`         // failures of which nothing was agreed
	Differ     int64       `json:"reactions_differ"` // answers of which something else was made
	Deviations []Deviation `json:"deviations"`
	More       int64       `json:"more_deviations,omitempty"` // of kinds beyond those listed
}

// Count is how often an answer came.
type Count struct {
	Answer
	Seen int64 `json:"seen"`
}

// Deviation is one kind of departure from the contract.
type Deviation struct {
	Text   string    `json:"text"`
	Route  string    `json:"route"`
	Status int       `json:"status"`
	Agreed Reaction  `json:"agreed,omitempty"` // "": nothing
	Got    Reaction  `json:"got,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Count  int64     `json:"count"`
	First  time.Time `json:"first"`
	Last   time.Time `json:"last"`
}

// Stats returns the counts, the most frequent deviation first.
func (w *Watch) Stats() Stats {
	s := Stats{Contract: w.contract.Name, Unlisted: w.unlisted.Load(), Differ: w.differ.Load(), More: w.more.Load(), Deviations: []Deviation{}}
	for i, a := range w.contract.Answers {
		s.Answers = append(s.Answers, Count{a, w.seen[i].Load()})
	}
	for _, d := range *w.kinds.Load() {
		out := Deviation{
			Route: d.route, Status: d.status, Got: d.got, Reason: d.reason, Count: d.count.Load(),
			First: time.UnixMilli(d.first.Load()).UTC(), Last: time.UnixMilli(d.last.Load()).UTC(),
		}
		out.Text = statusText(d.status) + " is not in the contract"
		if d.answer != Unlisted {
			a := w.contract.Answers[d.answer]
			out.Agreed = a.Reaction
			out.Text = a.String() + ": agreed " + string(a.Reaction) + ", got " + string(d.got)
		}
		if d.reason != "" {
			out.Text += " (" + d.reason + ")"
		}
		s.Deviations = append(s.Deviations, out)
	}
	slices.SortStableFunc(s.Deviations, func(a, b Deviation) int { return cmp.Compare(b.Count, a.Count) })
	return s
}

func statusText(status int) string { return strconv.Itoa(status) }
