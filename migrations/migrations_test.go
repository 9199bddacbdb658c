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

func TestHistogramsOfDifferentLengthAddUp(t *testing.T) {
	db := pgtest.Pool(t)
	for _, tt := range []struct{ a, b, want string }{
		{"{1,2,3}", "{10}", "{11,2,3}"},
		{"{10}", "{1,2,3}", "{11,2,3}"},
		{"{}", "{0,5}", "{0,5}"},
		{"{}", "{}", "{}"},
	} {
		var got string
		if err := db.QueryRow(t.Context(), `select histogram_add($1::text::bigint[], $2::text::bigint[])::text`, tt.a, tt.b).Scan(&got); err != nil || got != tt.want {
			t.Errorf("%s + %s: got %s, %v, want %s", tt.a, tt.b, got, err, tt.want)
		}
	}
	var sum string
	if err := db.QueryRow(t.Context(), `select histogram_sum(h)::text from (values ('{1}'::bigint[]), ('{0,0,4}'), ('{1,1}')) v (h)`).Scan(&sum); err != nil || sum != "{2,1,4}" {
		t.Errorf("got %s, %v", sum, err)
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

func TestPruneKeepsWhatDecisionsRead(t *testing.T) {
	db := pgtest.Pool(t)
	for _, days := range []int{1, 3, 5, 8, 34, 40} {
		at := noon.AddDate(0, 0, -days)
		for _, sql := range []string{
			`insert into batch (gateway, boot, seq, env, from_at, until_at, exchanges, lost, bad_lines, future, too_late, unkept, received_at)
			 values ('a', $1::timestamptz::text, 1, 'prod', $1, $1, 0, 0, 0, 0, 0, 0, $1)`,
			`insert into rollup_minute (service, env, route, upstream, experiment, at) values ('s', 'prod', 'r', 'u', '', $1)`,
			`insert into event (service, env, at, kind, gateway, experiment, request_id, body) values ('s', 'prod', $1, 'exchange', 'a', '', '', '{}')`,
			`insert into gateway_minute (env, gateway, at, covered_us, lost) values ('prod', 'a', $1, 0, 0)`,
		} {
			if _, err := db.Exec(t.Context(), sql, at); err != nil {
				t.Fatal(err)
			}
		}
	}
	var gone int64
	if err := db.QueryRow(t.Context(), `select ledger_prune($1)`, noon).Scan(&gone); err != nil {
		t.Fatal(err)
	}
	left := map[string]int{}
	for _, table := range []string{"batch", "rollup_minute", "event", "gateway_minute"} {
		var n int
		if err := db.QueryRow(t.Context(), `select count(*) from `+table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		left[table] = n
	}
	if left["batch"] != 2 || left["event"] != 3 || left["rollup_minute"] != 5 || left["gateway_minute"] != 5 || gone != 4+3+1+1 {
		t.Errorf("left %v, %d gone", left, gone)
	}
}
