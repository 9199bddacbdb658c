package main

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
)

// A page asks the database as often for fifty services as for five: what it needs of
// each is read at once. Time is measured by BenchmarkPages; this counts.
func TestPagesAskAsOftenForManyServices(t *testing.T) {
	if plain(t) {
		return
	}
	until := time.Now().UTC().Truncate(time.Minute)
	few := newCrowded(t, pgtest.DSN(t), crowd{services: 5, routes: 2, days: 1, hours: 2, until: until, much: 2}, false)
	many := newCrowded(t, pgtest.DSN(t), crowd{services: 50, routes: 2, days: 1, hours: 2, until: until, much: 2}, false)
	pages := many.pages(t)
	for _, path := range pages {
		var asked [2]int64
		for i, w := range []*crowded{few, many} {
			w.get(t, path) // what is remembered for a while is by now
			status, wire, body := w.get(t, path)
			if status != 200 {
				t.Errorf("%s: %d %.200s", path, status, body)
			}
			if wire > 100<<10 || len(body) > 700<<10 {
				t.Errorf("%s has %d bytes, %d over the wire", path, len(body), wire)
			}
			asked[i] = w.asked.n.Load()
		}
		// Who asks is looked up anew every few seconds, whatever the page. Without a
		// service, five more that are hit at the moment stand on the page of now: how many
		// are is a matter of the minute.
		more, most := int64(2), int64(40)
		if path == "/now" {
			more, most = 5*13, 40+5*13
		}
		if asked[1] > asked[0]+more || asked[1] > most {
			t.Errorf("%s: %d statements for 5 services, %d for 50", path, asked[0], asked[1])
		}
	}
	if len(pages) < 60 {
		t.Errorf("only %d pages", len(pages))
	}
}
