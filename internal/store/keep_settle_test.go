package store_test

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/retrylog"
	"breakwater/internal/store"
)

// Days that nothing comes to any more are given their index once; those that batches still
// reach are not, and a row that comes all the same is counted.
func TestDaysThatAreOverGetAnIndex(t *testing.T) {
	db := pgtest.Pool(t)
	s := store.New(db)
	h := handler(s, noon)
	if code, _ := post(h, key("gw", "b", 1), []retrylog.Record{exchange(200, noon)}); code != 200 {
		t.Fatalf("got %d", code)
	}
	if k := keep(t, s, noon); k.Settled != 0 {
		t.Errorf("%d days were settled while rows may come to them", k.Settled)
	}
	// Two days back and three ahead were there at noon: five of them are over in five days.
	if k := keep(t, s, noon.AddDate(0, 0, 5)); k.Settled != 5 {
		t.Errorf("%d days were settled, want 5", k.Settled)
	}
	if k := keep(t, s, noon.AddDate(0, 0, 5).Add(time.Minute)); k.Settled != 0 {
		t.Errorf("%d days were settled again", k.Settled)
	}
	if n := number(t, db, `select count(*) from pg_indexes where tablename = 'service_minute_' || $1 and indexdef like '%INCLUDE (good, bad, chaos_bad)%'`, noon.Format("20060102")); n != 1 {
		t.Errorf("the day has %d such indexes", n)
	}
	if _, err := db.Exec(t.Context(), `insert into rollup_minute (service, env, route, upstream, experiment, at, good, bad) values ('order', 'prod', 'late', 'up', '', $1, 7, 1)`, noon); err != nil {
		t.Fatal(err)
	}
	if n := number(t, db, `select sum(good + bad)::bigint from service_minute where at >= $1 and at < $1 + interval '1 minute'`, noon); n != 9 {
		t.Errorf("%d in the minute, want 9", n)
	}
	for d := 10; d <= 60; d += 5 { // they go with their days
		keep(t, s, noon.AddDate(0, 0, d))
	}
	if n := number(t, db, `select count(*) from pg_indexes where indexname = $1`, "service_minute_"+noon.Format("20060102")+"_whole"); n != 0 {
		t.Error("the index outlived its day")
	}
}
