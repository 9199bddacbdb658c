package main

import (
	"bytes"
	"maps"
	"net"
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
	listeners := map[string]net.Listener{}
	for _, name := range []string{"data", "admin"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = l.Close() })
		listeners[name] = l
	}
	tw.process = w.process("twin", listeners, "gateway", "--name", "twin", "--env", "test", "--state-dir", filepath.Join(w.dir, "twin"),
		"--config", filepath.Join(w.dir, "config"), "--listen", listeners["data"].Addr().String(), "--admin", listeners["admin"].Addr().String())
	tw.process.start()
	w.url["twin"] = "http://" + listeners["admin"].Addr().String()
	w.ready("twin")
	tr := demo.NewTraffic(demo.TrafficConfig{Seed: 8, Gateway: "http://" + listeners["data"].Addr().String(), Rate: rate, Ledger: tw.book, Prefix: "twin"})
	tw.traffic = w.background(tr.Run)
	return tw
}

func (tw *twin) stop() {
	tw.w.t.Helper()
	tw.traffic()
	tw.process.stop()
	tw.log = tw.w.loggedIn("twin")
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
