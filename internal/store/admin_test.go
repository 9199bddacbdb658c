package store

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
)

func TestSizesOfTables(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	if _, err := db.Exec(t.Context(), `insert into event (service, env, at, kind, gateway, experiment, request_id, body)
		select 'order', 'prod', $1::timestamptz, 'exchange', 'gw', '', 'r' || n, '{"exchange":{}}' from generate_series(1, 2000) n`, sloNoon); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `analyze event`); err != nil {
		t.Fatal(err)
	}
	bytes, version, tables, err := s.Sizes(t.Context())
	if err != nil || version == "" || bytes == 0 {
		t.Fatalf("%d bytes, version %q, %v", bytes, version, err)
	}
	seen := map[string]TableSize{}
	for i, x := range tables {
		if _, twice := seen[x.Name]; twice || x.TotalBytes < x.TableBytes+x.IndexBytes || i > 0 && x.TotalBytes > tables[i-1].TotalBytes {
			t.Errorf("%+v", x)
		}
		seen[x.Name] = x
	}
	if e := seen["event"]; e.Rows != 2000 || e.Parts < 1 || e.TableBytes < 2000*50 || e.IndexBytes == 0 {
		t.Errorf("event: %+v", e)
	}
	if _, ok := seen["event_default"]; ok || seen["audit"].Name == "" && seen["token"].Name == "" {
		t.Errorf("partitions stand alone, or tables are missing: %d tables", len(tables))
	}
}

func TestWhatBecameOfMessages(t *testing.T) {
	db := pgtest.Pool(t)
	s := New(db)
	message := func(receiver, outcome string, minutes int) {
		t.Helper()
		at := sloNoon.Add(time.Duration(minutes) * time.Minute)
		var done *time.Time
		if outcome != "" {
			done = &at
		}
		if _, err := db.Exec(t.Context(), `insert into alert_outbox (message, incident, receiver, kind, body, created_at, due_at, done_at, outcome) values ('m', 'i', $1, 'opened', '{}', $2, $2, $3, $4)`, receiver, at, done, outcome); err != nil {
			t.Fatal(err)
		}
	}
	why := func(receiver, outcome, text string, minutes int) {
		t.Helper()
		if _, err := db.Exec(t.Context(), `insert into alert_why (incident, at, kind, receiver, outcome, text, took_ms) values ('i', $1, 'opened', $2, $3, $4, 12)`, sloNoon.Add(time.Duration(minutes)*time.Minute), receiver, outcome, text); err != nil {
			t.Fatal(err)
		}
	}
	message("all/slack", "sent", -50)
	message("all/slack", "sent", -30)
	message("all/slack", "superseded", -29)
	message("all/slack", "sent", -26*60) // yesterday
	why("all/slack", "failed", "attempt 1: refused", -51)
	why("all/slack", "sent", "", -30)
	message("all/pager", "gave_up", -40)
	message("all/pager", "", -5)
	why("all/pager", "gave_up", "410 Gone", -40)
	why("", "silenced", "nobody is told", -3) // why nobody was
	got, err := s.Deliveries(t.Context(), sloNoon.Add(-24*time.Hour))
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if p := got[0]; p.Receiver != "all/pager" || p.Sent != 0 || p.GaveUp != 1 || p.Waiting != 1 || p.Outcome != "gave_up" || p.Text != "410 Gone" || p.Took != 12*time.Millisecond || !p.SentAt.IsZero() {
		t.Errorf("%+v", p)
	}
	if s := got[1]; s.Receiver != "all/slack" || s.Sent != 2 || s.Outcome != "sent" || !s.SentAt.Equal(sloNoon.Add(-30*time.Minute)) || s.Waiting != 0 {
		t.Errorf("%+v", s)
	}
}
