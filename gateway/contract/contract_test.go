package contract

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/conf"
	"breakwater/internal/retrylog"
)

type fields map[string]string

func (f fields) Holds(name, value string) bool {
	for n, v := range f {
		if strings.EqualFold(n, name) && (value == "" || v == value) {
			return true
		}
	}
	return false
}

var agreed = Resilience{Name: "order-answers", Upstream: "order", Answers: []Answer{
	{503, "X-Backend-Status", "overloaded", "the pool is exhausted", Retry},
	{503, "Retry-After", "", "later", Pass},
	{503, "", "", "down", Never},
	{429, "", "", "too fast", Fallback},
}}

func TestFind(t *testing.T) {
	tests := []struct {
		status int
		head   fields
		want   int
	}{
		{503, fields{"x-backend-status": "overloaded", "retry-after": "1"}, 0},
		{503, fields{"x-backend-status": "Overloaded"}, 2},
		{503, fields{"retry-after": "1"}, 1},
		{503, nil, 2},
		{429, nil, 3},
		{500, nil, Unlisted},
	}
	for _, tt := range tests {
		if got := agreed.Find(tt.status, tt.head); got != tt.want {
			t.Errorf("%d %v is answer %d, want %d", tt.status, tt.head, got, tt.want)
		}
	}
	if got := agreed.Answers[0].String(); got != "503 with X-Backend-Status=overloaded" {
		t.Errorf("got %s", got)
	}
}

func at(sec int) func() time.Time { return func() time.Time { return time.Unix(int64(sec), 0) } }

func TestReactions(t *testing.T) {
	try := func(reason, skip string) retrylog.Try {
		return retrylog.Try{Status: 503, Reason: reason, Skip: skip}
	}
	tests := []struct {
		name   string
		ev     retrylog.Exchange
		try    int
		keeps  []Reaction
		breaks []Reaction
	}{
		{"asked again", retrylog.Exchange{Tries: []retrylog.Try{try("r", ""), {Status: 200}}}, 0, []Reaction{Retry}, []Reaction{Never, Fallback, Pass}},
		{"held back by a limit", retrylog.Exchange{Tries: []retrylog.Try{try("r", "attempts_exhausted")}}, 0, []Reaction{Retry}, []Reaction{Never, Pass, Fallback}},
		{"held back, and replaced", retrylog.Exchange{Tries: []retrylog.Try{try("r", "attempts_exhausted")}, Degraded: "return_503"}, 0, []Reaction{Retry, Fallback}, []Reaction{Never, Pass}},
		{"passed on", retrylog.Exchange{Tries: []retrylog.Try{try("", "secondary_unmatched")}}, 0, []Reaction{Never, Pass}, []Reaction{Retry, Fallback}},
		{"replaced", retrylog.Exchange{Tries: []retrylog.Try{try("", "status_not_listed")}, Degraded: "last_good"}, 0, []Reaction{Never, Fallback}, []Reaction{Retry, Pass}},
		{"touched by a drill", retrylog.Exchange{Tries: []retrylog.Try{{Status: 503, Fault: "f"}}}, 0, []Reaction{Retry, Never, Fallback, Pass}, nil},
		{"the client left", retrylog.Exchange{Tries: []retrylog.Try{try("", "client_gone")}}, 0, []Reaction{Retry, Never, Fallback, Pass}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			did := React(&tt.ev, tt.try)
			for i, list := range [][]Reaction{tt.keeps, tt.breaks} {
				for _, r := range list {
					w := NewWatch(Resilience{Answers: []Answer{{Status: 503, Reaction: r}}})
					w.Reacted(0, did, "route", at(1))
					if got := w.Stats().Differ; got != int64(i) {
						t.Errorf("%s: %d deviations from %s, want %d", tt.name, got, r, i)
					}
				}
			}
		})
	}
}

// However many kinds of deviations there are, they take bounded room; all are counted.
func TestWatchIsBounded(t *testing.T) {
	w := NewWatch(agreed)
	for i := range 200 {
		w.Answer(400+i%100, fields{}, fmt.Sprintf("route-%d", i%7), at(i))
	}
	s := w.Stats()
	if len(s.Deviations) != maxDeviations {
		t.Errorf("%d kinds are kept, want %d", len(s.Deviations), maxDeviations)
	}
	kept := s.More
	for _, d := range s.Deviations {
		kept += d.Count
	}
	// 429 and 503 are listed, each came twice.
	if s.Unlisted != 200-2 || kept != s.Unlisted {
		t.Errorf("%d unlisted, %d of them told", s.Unlisted, kept)
	}
	if NewWatch(agreed).Answer(204, fields{}, "r", at(0)) != Unlisted {
		t.Error("204 is an answer of the contract")
	}
}

func TestWatchAllocatesNothing(t *testing.T) {
	w := NewWatch(agreed)
	head := fields{"retry-after": "1"}
	var h Head = head
	did := Did{Reaction: Pass}
	now := time.Now
	w.Answer(500, h, "r", now) // the kind is known from then on
	if n := testing.AllocsPerRun(100, func() {
		i := w.Answer(503, h, "r", now)
		w.Reacted(i, did, "r", now)
		w.Answer(500, h, "r", now)
	}); n != 0 {
		t.Errorf("%v allocations an answer", n)
	}
}

func TestWatchTogether(t *testing.T) {
	w := NewWatch(agreed)
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			for i := range 500 {
				w.Answer(500+g, fields{}, "r", at(i))
				w.Reacted(2, Did{Reaction: Retry, Reason: "x"}, "r", at(i))
				w.Stats()
			}
		})
	}
	wg.Wait()
	if s := w.Stats(); s.Differ != 2000 || s.Unlisted != 1500 || s.Answers[2].Seen != 500 || s.Deviations[0].Count != 2000 {
		t.Errorf("got %+v", s)
	}
}

// Whatever a document says, reading it ends, and what was read without a mistake
// has no answer that another one hides.
func FuzzParseResilience(f *testing.F) {
	f.Add("name: a\nupstream: b\nanswers:\n  - {status: 503, header: {key: X-A, value: b}, meaning: m, reaction: retry}\n  - {status: 503, meaning: m, reaction: pass}\n")
	f.Add("name: a\nupstream: b\nanswers: [{status: 503, header: Retry-After, meaning: m, reaction: never}]\n")
	f.Add("answers: {}\n")
	f.Fuzz(func(t *testing.T, text string) {
		var log conf.Log
		docs := conf.Split(conf.File{Name: "f", Data: []byte(text)}, &log)
		if len(docs) == 0 {
			return
		}
		c, places := ParseResilience(docs[0].Root.Map())
		if len(places) != len(c.Answers) {
			t.Fatalf("%d answers at %d places", len(c.Answers), len(places))
		}
		if log.Err() != nil {
			return
		}
		for i, a := range c.Answers {
			head := fields{}
			if a.Header != "" {
				head[strings.ToLower(a.Header)] = a.Value
			}
			if got := c.Find(a.Status, head); got != i {
				t.Fatalf("answer %d of %+v is found as %d", i, c, got)
			}
		}
	})
}
