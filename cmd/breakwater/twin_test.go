package main

import (
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"breakwater/internal/demo"
)

// twin is a gateway that knows no control, under the same documents: what the
// machine does to both of them in a minute is not PostgreSQL's doing.
type twin struct {
	w       *world
	book    *demo.Ledger
	answers *answerBook
	process *process
	traffic func()
}

func (w *world) newTwin(rate float64) *twin {
	w.t.Helper()
	tw := &twin{w: w, answers: &answerBook{}}
	tw.book = demo.NewLedger(tw.answers)
	tw.process = w.alone("twin", filepath.Join(w.dir, "config"), "twin data", "twin admin")
	tr := demo.NewTraffic(demo.TrafficConfig{Seed: 8, Gateway: w.url["twin data"], Rate: rate, Ledger: tw.book, Prefix: "twin"})
	tw.traffic = w.background(tr.Run)
	return tw
}

func (tw *twin) stop() {
	tw.w.t.Helper()
	tw.traffic()
	tw.process.stop()
}

func union(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// answerBook keeps what a ledger writes, to be read while it goes on.
type answerBook struct{ lockedBuffer }

// read gives all whole answers so far; flush the ledger before.
func (b *answerBook) read(t *testing.T) (all []demo.Answer) {
	t.Helper()
	text := b.String()
	text = text[:strings.LastIndexByte(text, '\n')+1]
	if err := demo.ReadAnswers(strings.NewReader(text), func(a demo.Answer) { all = append(all, a) }); err != nil {
		t.Fatal(err)
	}
	return all
}
