package main

import (
	"strings"
	"testing"

	"breakwater/internal/auth"
	"breakwater/internal/pgtest"
	"breakwater/internal/store"

	"github.com/jackc/pgx/v5/pgxpool"
)

func TestAuditIsListedAndItsEndCannotBeCut(t *testing.T) {
	dsn := pgtest.DSN(t)
	db, err := pgxpool.New(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	s := store.New(db)
	for _, action := range []string{"override.ask", "override.grant", "freeze.on"} {
		if err := s.Audit(t.Context(), auth.Entry{Actor: "ada", Action: action, Object: "order"}); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := s.AuditRows(t.Context(), 0, 10)
	if err != nil || len(rows) != 3 {
		t.Fatal(rows, err)
	}
	last := rows[2].Hash
	r := verb(t, "", "audit", "ls", "--db", dsn, "--action", "override", "--limit", "1")
	if r.want(t, exitOK); !strings.Contains(r.out, "override.grant") || strings.Contains(r.out, "override.ask") || strings.Contains(r.out, "freeze.on") {
		t.Errorf("listed\n%s", r.out)
	}
	verb(t, "", "audit", "verify", "--db", dsn, "--contains", last).want(t, exitOK)
	for _, sql := range []string{`alter table audit disable trigger audit_append_only`, `delete from audit where seq = 3`} {
		if _, err := db.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	verb(t, "", "audit", "verify", "--db", dsn).want(t, exitOK) // the chain alone does not show it
	verb(t, "", "audit", "verify", "--db", dsn, "--contains", last).want(t, exitNo, "cut off")
}
