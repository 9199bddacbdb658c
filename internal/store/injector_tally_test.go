package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/gateway/plan"
	"breakwater/injector"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"
)

func TestTalliesAreDifferencesOfOneBoot(t *testing.T) {
	d := newDrill(t)
	word := func(boot string, good, bad int64) {
		t.Helper()
		d.pass(5 * time.Second)
		d.must(d.SaveReceipt(t.Context(), d.at, plan.Receipt{Gateway: "gw", Boot: boot, Tallies: []plan.Tally{
			{Service: "order", Good: good, Bad: bad}, {Run: "r-1", Service: "order", Bad: bad, Attempts: good + bad, Injected: bad}}}))
	}
	since := d.at
	total := func(run string) (n injector.Point) {
		points, err := d.Tallies(t.Context(), "order", run, since, d.at)
		d.must(err)
		for _, p := range points {
			n.Good, n.Bad, n.Attempts, n.Injected = n.Good+p.Good, n.Bad+p.Bad, n.Attempts+p.Attempts, n.Injected+p.Injected
		}
		return n
	}
	word("b1", 1000, 10) // first seen after days of traffic: nobody knows when that was
	word("b1", 1100, 12)
	word("b1", 1050, 11) // a late answer
	word("b1", 1110, 12)
	word("b2", 7, 3) // a new process begins anew
	word("b2", 10, 4)
	if got := total(""); got.Good != 113 || got.Bad != 3 {
		t.Errorf("order: %+v, want 113 good and 3 bad", got)
	}
	if got := total("r-1"); got.Attempts != 116 || got.Injected != 3 {
		t.Errorf("r-1: %+v, want 116 tries and 3 hits", got)
	}
	d.pass(25 * time.Hour)
	d.must(d.PruneTallies(t.Context(), d.at))
	if got := total(""); got.Good != 0 {
		t.Errorf("%+v is left after a day without a run", got)
	}
	if got := total("r-1"); got.Attempts != 116 {
		t.Errorf("the run's own course was pruned to %+v", got)
	}
}

func TestOnlyWholeMinutesAreRead(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	at := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	for i := range 4 {
		_, err := db.Exec(t.Context(), `
insert into rollup_minute (service, env, route, upstream, experiment, at, good, exchanges, attempts, hist)
values ('order', 'demo', 'order-get', 'order', '', @at, 10, 10, 12, '{10241}')`, pgx.StrictNamedArgs{"at": at.Add(time.Duration(i) * time.Minute)})
		if err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		since, until time.Duration
		minutes      int64
	}{
		{0, 4 * time.Minute, 4},
		{time.Second, 4 * time.Minute, 3},
		{30 * time.Second, 3*time.Minute + 30*time.Second, 2},
		{10 * time.Second, 50 * time.Second, 0},
	}
	for _, tt := range tests {
		bins, err := s.Latencies(t.Context(), "order", at.Add(tt.since), at.Add(tt.until))
		if err != nil {
			t.Fatal(err)
		}
		var n int64
		for _, b := range bins {
			n += b
		}
		exchanges, attempts, err := s.Tries(t.Context(), "order", at.Add(tt.since), at.Add(tt.until))
		if err != nil || n != tt.minutes*10 || exchanges != tt.minutes*10 || attempts != tt.minutes*12 {
			t.Errorf("[%v, %v): %d latencies, %d requests, %d tries, %v; want those of %d minutes", tt.since, tt.until, n, exchanges, attempts, err, tt.minutes)
		}
	}
}

// TestEngineRun is the loop itself on the database's own clock.
func TestEngineRun(t *testing.T) {
	d := newDrill(t)
	e := injector.New(injector.Config{Ledger: d.Store, Owner: "one"})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- e.Run(ctx) }()
	r, _, err := e.Desk().Start(t.Context(), "", slowPoints, "anna")
	d.must(err)
	reached := func(want injector.State) bool {
		for limit := time.Now().Add(20 * time.Second); time.Now().Before(limit); time.Sleep(50 * time.Millisecond) {
			if d.run(r.ID).State == want {
				return true
			}
		}
		return false
	}
	if !reached(injector.Arming) {
		t.Fatalf("the run is %s, want arming", d.run(r.ID).State)
	}
	stop()
	d.must(<-done)
	// It was given back: another control need not wait for the lease.
	now, err := d.Store.Now(t.Context())
	d.must(err)
	held, err := d.Hold(t.Context(), "two", now)
	d.must(err)
	if len(held) != 1 || !held[0].Taken {
		t.Errorf("another control holds %+v, want the run at once", held)
	}
}
