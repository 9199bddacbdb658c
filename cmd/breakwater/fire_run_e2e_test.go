package main

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"breakwater/internal/pglocal"
)

// killDatabase is kill -9 of the postmaster; what of its connections is under way
// is cut, and it is started again.
func (f *fire) killDatabase(away time.Duration) {
	f.t.Helper()
	if err := syscall.Kill(f.pg.Pid(), syscall.SIGKILL); err != nil {
		f.t.Fatal(err)
	}
	<-f.pg.Done()
	pause(f.t, away)
	_ = f.pg.Stop() // gives up what it held; the process is gone
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pg, err := pglocal.Start(ctx, f.pgCfg)
	if err != nil {
		f.t.Fatal(err)
	}
	f.pg = pg
}

// X145, X146, X148, X150: nothing that was acknowledged to the log is lost or
// counted twice, whoever is killed; what finds no room is counted as lost.
func TestReliability_X145_X146_X148_X150_TruthUnderFire(t *testing.T) {
	if slow(t) {
		return
	}
	f := newFire(t)
	requests := fireRequests(t)
	seconds := max(30, requests/2500)
	rate := requests / seconds * 5 / 4 // some time goes by dead
	gateways := []*fireGateway{
		{name: "a", until: requests, bytes: 1 << 30},
		{name: "b", until: requests, bytes: 2 << 20}, // a few seconds without control fill it
	}
	for _, g := range gateways {
		g.dir = filepath.Join(f.dir, g.name)
		if err := os.MkdirAll(g.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.kill)
		f.start(g, rate)
	}
	running := func() bool {
		for _, g := range gateways {
			begun, _ := f.truth(g)
			if int64(len(begun)) < requests {
				return true
			}
		}
		return false
	}
	var kills struct{ control, database int }
	filled := false
	for began := time.Now(); running() && time.Since(began) < time.Duration(seconds)*8*time.Second; {
		pause(t, time.Duration(300+f.rnd.IntN(1500))*time.Millisecond)
		switch n := f.rnd.IntN(10); {
		case !filled && time.Since(began) > time.Duration(seconds)*time.Second/3:
			// Long enough for b's disk, which holds a few seconds.
			f.killDatabase(time.Duration(2<<20/(rate*400)+3) * time.Second)
			filled = true
			kills.database++
		case n < 3:
			gateways[0].kill()
			f.start(gateways[0], rate)
		case n < 6:
			gateways[1].kill()
			f.start(gateways[1], rate)
		case n < 8:
			f.control.kill()
			kills.control++
			f.control.start()
		default:
			kills.database++
			f.killDatabase(0)
		}
	}
	close(f.calm)
	f.ready("control")
	for _, g := range gateways {
		g.kill() // it may have ended by itself
		f.start(g, rate)
		if err := g.cmd.Wait(); err != nil {
			t.Fatalf("gateway %s ended with %v:\n%s", g.name, err, tail(filepath.Join(f.dir, g.name+".log")))
		}
		g.cmd = nil
	}
	t.Logf("killed: gateway a %d times, b %d, control %d, PostgreSQL %d", gateways[0].kills, gateways[1].kills, kills.control, kills.database)

	for _, g := range gateways {
		begun, done := f.truth(g)
		counted := f.counted("fire-" + g.name)
		var n int64
		for _, c := range counted {
			n += c
		}
		lost := f.lostOf(g.name)
		t.Logf("gateway %s: %d requests, %d recorded, %d counted, %d lost", g.name, len(begun), len(done), n, lost)
		if int64(len(begun)) < requests {
			t.Errorf("gateway %s: only %d of %d requests were made", g.name, len(begun), requests)
		}
		// Of what was begun all is counted, or counted as lost; a kill between the
		// truth's line and the spool's own count leaves one open each, and one between
		// an event's line and the count of ends tells it as lost though it is there.
		if open := int64(len(begun)) - n - lost; open < -int64(g.kills) || open > int64(g.kills) {
			t.Errorf("gateway %s: %d requests are neither counted nor lost, after %d kills", g.name, open, g.kills)
		}
		if g.name == "b" {
			if lost == 0 {
				t.Errorf("the disk of b never filled up: this test tests less than it says")
			}
			continue // its old segments have given way to new ones
		}
		if lost > int64(g.kills) {
			t.Errorf("gateway a lost %d events; at most the one in flight at each of %d kills may be", lost, g.kills)
		}
		ids, classes := f.logged(g)
		if !maps.Equal(classes, counted) {
			t.Errorf("gateway a: counted %v, the log on its disk says %v", counted, classes)
		}
		for i := range done {
			if x := fireExchange("a", i); !ids[x.RequestID] {
				t.Errorf("%s was recorded and is not in the log", x.RequestID)
			}
		}
	}
	var measured, expected, lost int64
	err := f.db.QueryRow(t.Context(), `select measured_us, expected_us, lost from gateway_coverage('fire', $1, $2)`, f.began, time.Now()).Scan(&measured, &expected, &lost)
	if err != nil || lost != f.lostOf("a")+f.lostOf("b") || measured > expected {
		t.Errorf("coverage %d of %d us, %d lost, %v", measured, expected, lost, err)
	}
}

func (f *fire) lostOf(gateway string) (n int64) {
	f.t.Helper()
	if err := f.db.QueryRow(context.Background(), `select coalesce(sum(lost), 0)::bigint from gateway_minute where gateway = $1`, gateway).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
