package main

import (
	"testing"
	"time"

	"breakwater/internal/pgtest"
	"breakwater/internal/store"
)

// TestOverdueFindingsFreeze: a severe finding that is late stands among the freezes by
// hand, until it is claimed; a mild one, and one that is not due, never does.
func TestOverdueFindingsFreeze(t *testing.T) {
	db := pgtest.Pool(t)
	now := time.Date(2026, 3, 3, 10, 0, 0, 0, time.UTC)
	for id, x := range map[string]struct {
		severity string
		due      time.Time
	}{"f-late": {"high", now.Add(-time.Hour)}, "f-mild": {"medium", now.Add(-time.Hour)}, "f-soon": {"critical", now.Add(time.Hour)}} {
		_, err := db.Exec(t.Context(), `
insert into finding (id, service, scenario, assertion, title, expected, seen, severity, owner, state, due_at, opened_at, text, hash, config, run, last_run)
values ($1, 'points', $1, 'd1', 'errors', '<= 3 %', '12 %', $2, 'team', 'open', $3, $3, '', '', '', 'r', 'r')`, id, x.severity, x.due)
		if err != nil {
			t.Fatal(err)
		}
	}
	s := withFindings{store.New(db)}
	known, err := s.Known(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	if len(known.Orders) != 1 || known.Orders[0].ID != "f-late" || known.Orders[0].Service != "points" || !known.Orders[0].Live(now) {
		t.Errorf("%+v, want a freeze of points by the one that is late", known.Orders)
	}
	if _, err := db.Exec(t.Context(), `update finding set state = 'claimed_fixed' where id = 'f-late'`); err != nil {
		t.Fatal(err)
	}
	if known, err = s.Known(t.Context(), now); err != nil || len(known.Orders) != 0 {
		t.Errorf("%+v, %v, want none while somebody says that it is mended", known.Orders, err)
	}
}
