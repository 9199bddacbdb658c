package pgtest

import "testing"

func TestEachTestHasADatabaseOfItsOwn(t *testing.T) {
	a, b := Pool(t), Pool(t)
	if _, err := a.Exec(t.Context(), `insert into gateway (env, gateway, boot, seq, until_at, stopped, last_ack)
		values ('prod', 'gw', 'b', 1, now(), false, now())`); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.QueryRow(t.Context(), `select count(*) from gateway`).Scan(&n); err != nil || n != 0 {
		t.Errorf("the other database has %d gateways, %v", n, err)
	}
}
