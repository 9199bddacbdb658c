package demo

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"
	"time"
)

// Answer is one request that somebody in the demo got an answer to, or waited
// for in vain.
type Answer struct {
	ID string `json:"id"` // the sender's own; with Service it names one request
	// GatewayID is the id in the answer: the gateway's own, unless it believes ours.
	GatewayID string    `json:"gateway_id,omitempty"`
	Caller    string    `json:"caller"`
	Service   string    `json:"service"`
	Route     string    `json:"route"`
	Status    int       `json:"status"` // 0: no head came
	At        time.Time `json:"at"`     // when its last byte was there
	TookUS    int64     `json:"took_us"`
	Err       string    `json:"err,omitempty"` // why there is no whole answer
}

// Class is what an answer counts as. It is worked out here from the status alone
// and not taken from the code that counts, so that one can be held against the other.
type Class string

// The classes. Unanswered is a request without a whole answer: whether anything
// was counted for it, its sender cannot know.
const (
	Good       Class = "good"
	Bad        Class = "bad"
	Neutral    Class = "neutral"
	Unanswered Class = "unanswered"
)

// Class tells a's class.
func (a Answer) Class() Class {
	switch {
	case a.Err != "" || a.Status == 0:
		return Unanswered
	case a.Status >= 500:
		return Bad
	case a.Status >= 400:
		return Neutral
	}
	return Good
}

// Key is what a Ledger counts by.
type Key struct {
	Service string
	Class   Class
}

// Ledger is the senders' own exact book of what they were answered. It is safe
// for concurrent use.
type Ledger struct {
	mu     sync.Mutex
	counts map[Key]int64
	out    *bufio.Writer
	err    error // the first failed write; nothing is written after it
}

// NewLedger returns an empty Ledger that also writes each Answer to out, one line
// of JSON each; nil: nowhere.
func NewLedger(out io.Writer) *Ledger {
	l := &Ledger{counts: make(map[Key]int64)}
	if out != nil {
		l.out = bufio.NewWriter(out)
	}
	return l
}

// Add enters one answer.
func (l *Ledger) Add(a Answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts[Key{a.Service, a.Class()}]++
	if l.out == nil || l.err != nil {
		return
	}
	line, err := json.Marshal(a)
	if err == nil {
		_, err = l.out.Write(append(line, '\n'))
	}
	l.err = err
}

// Count tells how many answers of one service had one class.
func (l *Ledger) Count(service string, c Class) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[Key{service, c}]
}

// Counts copies all counts.
func (l *Ledger) Counts() map[Key]int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.counts)
}

// Total is the number of answers, whole ones only.
func (l *Ledger) Total() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	var n int64
	for k, v := range l.counts {
		if k.Class != Unanswered {
			n += v
		}
	}
	return n
}

// Flush hands on what is buffered, and reports the first error of any write.
func (l *Ledger) Flush() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.out != nil && l.err == nil {
		l.err = l.out.Flush()
	}
	if l.err != nil {
		return fmt.Errorf("write the answers: %w", l.err)
	}
	return nil
}

// ReadAnswers reads what a Ledger wrote. A last line without its end, as a kill
// leaves it, is passed over.
func ReadAnswers(r io.Reader, each func(Answer)) error {
	in := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the answers: %w", err)
		}
		var a Answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("answers, line %d: %w", n, err)
		}
		each(a)
	}
}
