package store

import (
	"testing"
	"time"

	"breakwater/internal/histogram"
	"breakwater/internal/pgtest"
	"breakwater/slo/traffic"
)

func TestHeatAndWhatStandsAround(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	at := sloNoon.Add(-10 * time.Minute)
	// As it is kept: the count above the number of the bin.
	packed := []int64{30<<10 | int64(histogram.Index(4_000)), 2<<10 | int64(histogram.Index(900_000))}
	if _, err := db.Exec(t.Context(), `insert into rollup_minute (service, env, route, upstream, experiment, at, good, exchanges, hist, latency_max_us) values ('order', 'prod', 'a', 'u', '', $1, 32, 32, $2, 900000)`, at, packed); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `insert into facet_minute (service, env, dimension, value, at, bad, total) values ('order', 'prod', 'caller', 'web', $1, 1, 20),
		('points', 'prod', 'caller', 'order', $1, 7, 9), ('order', 'prod', 'code', '50003', $1, 5, 5), ('order', 'prod', 'kind', 'status_200', $1, 0, 5)`, at); err != nil {
		t.Fatal(err)
	}
	heat, err := s.Heat(t.Context(), "order", "prod", sloNoon.Add(-time.Hour), sloNoon, 2*time.Minute)
	if err != nil || len(heat) != 1 || histogram.Bins(heat[0].Hist).Count() != 32 || heat[0].MaxUS != 900_000 {
		t.Fatalf("heat %+v, %v", heat, err)
	}
	around, err := s.Around(t.Context(), "order", "prod", sloNoon.Add(-time.Hour), sloNoon)
	want := []traffic.Beside{{Side: "caller", Name: "web", Bad: 1, Total: 20}, {Side: "calls", Name: "points", Bad: 7, Total: 9}, {Side: "code", Name: "50003", Bad: 5, Total: 5}}
	if err != nil || len(around) != 3 || around[0] != want[0] || around[1] != want[1] || around[2] != want[2] {
		t.Errorf("around %+v, %v", around, err)
	}
}
