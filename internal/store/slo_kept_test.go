package store

import (
	"context"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"breakwater/internal/pgtest"
	"breakwater/slo"
)

// spansAsked counts the spans that were summed.
type spansAsked struct{ n int }

func (s *spansAsked) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	if strings.HasPrefix(q.SQL, tallySQL) {
		s.n += len(q.Args[0].(pgx.StrictNamedArgs)["service"].([]string))
	}
	return ctx
}

func (*spansAsked) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Whoever kept sums reads what somebody without any reads, whatever came late, was
// summed by another replica, or went on in between; and asks for the last minutes alone
// where nothing did.
func TestKeptSumsAreThoseThatWouldBeRead(t *testing.T) {
	cfg, err := pgxpool.ParseConfig(pgtest.DSN(t))
	if err != nil {
		t.Fatal(err)
	}
	asked := &spansAsked{}
	cfg.ConnConfig.Tracer = asked
	db, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	s, other := New(db), New(db)
	importOne(t, s, sloObjective(30*24*time.Hour))
	until := sloNoon.Add(37*time.Minute + 20*time.Second)
	addGateway(t, db, "gw-1", until.Add(-31*24*time.Hour), until, until)
	rng := rand.New(rand.NewPCG(6, 6))
	add := func(ago time.Duration) {
		addMinutes(t, db, minute{service: "order", route: "r", at: until.Add(-ago).Truncate(time.Minute), good: 1 + rng.Int64N(90), bad: rng.Int64N(9)})
	}
	look := func(when string) int {
		t.Helper()
		asked.n = 0
		got, err := s.ReadBudgets(t.Context(), slo.Question{Now: until})
		n := asked.n
		if err != nil {
			t.Fatal(err)
		}
		want, err := New(db).ReadBudgets(t.Context(), slo.Question{Now: until})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %+v, %v\nwant %+v", when, got, err, want)
		}
		return n
	}
	for range 200 {
		add(time.Duration(rng.IntN(40000)) * time.Minute)
	}
	add(0)
	look("nothing is summed")
	if err := other.RollUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(0)
	all := look("another replica summed all")
	if few := look("nothing came"); few == 0 || few*2 > all {
		t.Errorf("%d of %d spans are asked for again", few, all)
	}
	for i := range 40 {
		switch rng.IntN(4) {
		case 0:
			until = until.Add(time.Duration(rng.IntN(50)) * time.Second)
			if _, err := db.Exec(t.Context(), `update gateway set until_at = $1, last_ack = $1`, until); err != nil {
				t.Fatal(err)
			}
		case 1:
			add(time.Duration(rng.IntN(30000)) * time.Minute)
			if rng.IntN(2) == 0 { // marked and summed between two looks
				if err := other.RollUp(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
		case 2:
			if err := s.RollUp(t.Context()); err != nil {
				t.Fatal(err)
			}
		default:
			add(time.Duration(rng.IntN(90)) * time.Second)
		}
		look("step " + string(rune('a'+i)))
	}
}
