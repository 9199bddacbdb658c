package migrations_test

import (
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/migrations"
)

func open(t *testing.T, dsn string) *pgxpool.Pool {
	t.Helper()
	db, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func TestReplicasThatStartTogetherMigrateOnce(t *testing.T) {
	dsn := pgtest.Empty(t)
	if pending, err := migrations.Pending(t.Context(), open(t, dsn)); err != nil || !pending {
		t.Fatalf("an empty database: pending %v, %v", pending, err)
	}
	var wg sync.WaitGroup
	for range 3 {
		db := open(t, dsn)
		wg.Go(func() {
			if err := migrations.Up(t.Context(), db); err != nil {
				t.Error(err)
			}
			if err := db.Ping(t.Context()); err != nil {
				t.Errorf("the pool was closed: %v", err)
			}
		})
	}
	wg.Wait()
	db := open(t, dsn)
	if pending, err := migrations.Pending(t.Context(), db); err != nil || pending {
		t.Errorf("afterwards: pending %v, %v", pending, err)
	}
	var twice int
	if err := db.QueryRow(t.Context(), `select count(*) - count(distinct version_id) from goose_db_version`).Scan(&twice); err != nil || twice != 0 {
		t.Errorf("%d steps were recorded twice, %v", twice, err)
	}
}

// A histogram is count * 1024 + bin, so 3073 is three in bin 1.
func TestHistogramsAddUp(t *testing.T) {
	db := pgtest.Pool(t)
	for _, tt := range []struct{ sql, want string }{
		{`histogram_pack(histogram_add('{1024,2049}', '{5121}'))`, "{1024,7169}"},
		{`histogram_pack(histogram_add('{5121}', '{1024,2049}'))`, "{1024,7169}"},
		{`histogram_add('{}', '{}')`, "{}"},
		{`histogram_bins('{1024,5121,2051}')`, "{1,5,0,2}"},
		{`histogram_bins('{}')`, "{}"},
		{`histogram_add(array_fill(1024::bigint, '{150}'), array_fill(1025::bigint, '{43}'))`, "{153600,44033}"}, // long enough to be packed
	} {
		var got string
		if err := db.QueryRow(t.Context(), `select (`+tt.sql+`)::text`).Scan(&got); err != nil || got != tt.want {
			t.Errorf("%s: got %s, %v, want %s", tt.sql, got, err, tt.want)
		}
	}
	var sum, merged string
	err := db.QueryRow(t.Context(), `select histogram_sum(h)::text, histogram_merge(h)::text
		from (select '{1024}'::bigint[] as h union all select '{4098,1025}' from generate_series(1, 3000)) as v`).Scan(&sum, &merged)
	if err != nil || sum != "{1,3000,12000}" || merged != "{1024,3072001,12288002}" {
		t.Errorf("got %s and %s, %v", sum, merged, err)
	}
	if err := db.QueryRow(t.Context(), `select histogram_sum(h)::text from (select '{}'::bigint[] as h where false) as v`).Scan(&sum); err != nil || sum != "{}" {
		t.Errorf("of nothing: got %s, %v", sum, err)
	}
}

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// boot reports [from, to) minutes after noon, whole.
func boot(t *testing.T, db *pgxpool.Pool, gateway, name string, from, to int, stopped bool) {
	t.Helper()
	at := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	if _, err := db.Exec(t.Context(), `insert into gateway_boot (env, gateway, boot, from_at, until_at, seq, batches, stopped)
		values ('prod', $1, $2, $3, $4, 1, 1, $5)`, gateway, name, at(from), at(to), stopped); err != nil {
		t.Fatal(err)
	}
	for m := from; m < to; m++ {
		if _, err := db.Exec(t.Context(), `insert into gateway_minute (env, gateway, at, covered_us, lost) values ('prod', $1, $2, 60000000, 1)`, gateway, at(m)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCoverage(t *testing.T) {
	type report struct {
		gateway, boot string
		from, to      int
		stopped       bool
	}
	tests := []struct {
		name               string
		reports            []report
		since, until       int // minutes after noon
		measured, expected int64
	}{
		{"nobody ever reported", nil, 0, 60, 0, 0},
		{"one gateway all the time", []report{{"a", "1", 0, 60, false}}, 0, 60, 60, 60},
		{"silent since minute 40", []report{{"a", "1", 0, 40, false}}, 0, 60, 40, 60},
		{"stopped in good order at 40", []report{{"a", "1", 0, 40, true}}, 0, 60, 40, 40},
		{"killed at 20, back at 30", []report{{"a", "1", 0, 20, false}, {"a", "2", 30, 60, false}}, 0, 60, 50, 60},
		{"stopped at 20, back at 30", []report{{"a", "1", 0, 20, true}, {"a", "2", 30, 60, false}}, 0, 60, 50, 50},
		{"two gateways, one silent", []report{{"a", "1", 0, 60, false}, {"b", "1", 0, 30, false}}, 0, 60, 90, 120},
		{"only a part of it is asked", []report{{"a", "1", 0, 60, false}}, 10, 30, 20, 20},
		{"gone for good after a day", []report{{"a", "1", 0, 60, false}}, 0, 3 * 24 * 60, 60, 25 * 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			db := pgtest.Pool(t)
			for _, r := range tt.reports {
				boot(t, db, r.gateway, r.boot, r.from, r.to, r.stopped)
			}
			var measured, expected, lost int64
			err := db.QueryRow(t.Context(), `select measured_us, expected_us, lost from gateway_coverage('prod', $1, $2)`,
				noon.Add(time.Duration(tt.since)*time.Minute), noon.Add(time.Duration(tt.until)*time.Minute)).Scan(&measured, &expected, &lost)
			if err != nil || measured != tt.measured*60e6 || expected != tt.expected*60e6 || lost != tt.measured {
				t.Errorf("got %d of %d minutes, %d lost, %v, want %d of %d", measured/60e6, expected/60e6, lost, err, tt.measured, tt.expected)
			}
		})
	}
}
