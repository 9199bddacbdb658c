package main

import (
	"bytes"
	"maps"
	"path/filepath"
	"testing"

	"breakwater/internal/demo"
)

// twin is a gateway that knows no control, under the same documents: what the
// machine does to both of them in a minute is not PostgreSQL's doing.
type twin struct {
	w       *world
	book    *demo.Ledger
	text    *bytes.Buffer
	process *process
	traffic func()
	log     gatewayLog
}

func (w *world) newTwin(rate float64) *twin {
	w.t.Helper()
	tw := &twin{w: w, text: &bytes.Buffer{}}
	tw.book = demo.NewLedger(tw.text)
	tw.process = w.alone("twin", filepath.Join(w.dir, "config"), "twin data", "twin admin")
	tr := demo.NewTraffic(demo.TrafficConfig{Seed: 8, Gateway: w.url["twin data"], Rate: rate, Ledger: tw.book, Prefix: "twin"})
	tw.traffic = w.background(tr.Run)
	return tw
}

func (tw *twin) stop() {
	tw.w.t.Helper()
	tw.traffic()
	tw.process.stop()
	tw.log = tw.w.loggedIn("twin-state")
}

func (tw *twin) answers(t *testing.T) (all []demo.Answer) {
	t.Helper()
	if err := tw.book.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := demo.ReadAnswers(tw.text, func(a demo.Answer) { all = append(all, a) }); err != nil {
		t.Fatal(err)
	}
	return all
}

func union(a, b map[string]bool) map[string]bool {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
