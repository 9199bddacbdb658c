package demo

import (
	"bytes"
	"errors"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	var out bytes.Buffer
	l := NewLedger(&out)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for i, status := range []int{200, 201, 302, 400, 404, 429, 500, 503, 504, 0} {
		l.Add(Answer{ID: string(rune('a' + i)), Caller: "web", Service: Order, Status: status, At: at})
	}
	l.Add(Answer{ID: "cut", Service: Order, Status: 200, Err: "unexpected EOF"})
	l.Add(Answer{ID: "p", Service: Points, Status: 200})
	for c, want := range map[Class]int64{Good: 3, Neutral: 3, Bad: 3, Unanswered: 2} {
		if got := l.Count(Order, c); got != want {
			t.Errorf("order %s: got %d, want %d", c, got, want)
		}
	}
	if l.Total() != 10 || l.Counts()[Key{Points, Good}] != 1 {
		t.Errorf("total %d, counts %v", l.Total(), l.Counts())
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	// Another process reads it, even where the writer was killed in the middle of a line.
	again := NewLedger(nil)
	torn := append(bytes.Clone(out.Bytes()), `{"id":"torn","sta`...)
	if err := ReadAnswers(bytes.NewReader(torn), again.Add); err != nil {
		t.Fatal(err)
	}
	if again.Total() != l.Total() || again.Count(Order, Unanswered) != 2 {
		t.Errorf("read back %v, want %v", again.Counts(), l.Counts())
	}
	if err := ReadAnswers(bytes.NewReader([]byte("{}\nnonsense\n")), again.Add); err == nil {
		t.Error("a broken line in the middle was taken")
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestLedgerSaysWhenItCannotWrite(t *testing.T) {
	l := NewLedger(full{})
	for range 1000 {
		l.Add(Answer{ID: "x", Service: Order, Status: 200})
	}
	if err := l.Flush(); err == nil || l.Count(Order, Good) != 1000 {
		t.Errorf("got %v and %d", err, l.Count(Order, Good))
	}
}
