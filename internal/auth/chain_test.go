package auth

import (
	"context"
	"testing"
	"time"
)

func TestChainProvesPieceByPiece(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	m := chainOf(t, 10)
	c := NewChain(m)
	check := func(at time.Time) Proof {
		t.Helper()
		p, err := c.Check(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	if p := check(now); p.Rows != 10 || p.Broken != nil || !p.Whole.Equal(now) || p.Last != m.rows[9].Hash {
		t.Errorf("got %+v", p)
	}
	if err := m.Audit(t.Context(), Entry{Actor: "ann", Action: "x", At: now}); err != nil {
		t.Fatal(err)
	}
	if p := check(now.Add(time.Minute)); p.Rows != 11 || !p.Since.Equal(now) {
		t.Errorf("one row later: %+v", p)
	}
	// A row that was proved is looked at again within the hour.
	m.rows[3].Actor = "bob"
	if p := check(now.Add(2 * time.Minute)); p.Broken != nil {
		t.Errorf("rows that were proved are walked at each look: %+v", p)
	}
	if p := check(now.Add(chainAgain)); p.Broken == nil || p.Broken.Seq != 4 {
		t.Errorf("an altered row, an hour later: %+v", p)
	}
	m.rows[3].Actor = "ann"
	if p := check(now.Add(chainAgain + time.Minute)); p.Broken != nil || p.Rows != 11 {
		t.Errorf("mended: %+v", p)
	}
}

// slowLog ends the walk's time after so many pages.
type slowLog struct {
	*memory
	pages int
	stop  context.CancelFunc
}

func (l *slowLog) AuditRows(ctx context.Context, after int64, limit int) ([]Row, error) {
	if l.pages--; l.pages < 0 {
		l.stop()
		return nil, ctx.Err()
	}
	return l.memory.AuditRows(ctx, after, limit)
}

func TestChainGoesOnWhereTimeEnded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := &slowLog{memory: chainOf(t, 3*verifyPage+5)}
	c := NewChain(l)
	for look, want := range []int64{2 * verifyPage, 3*verifyPage + 5} {
		ctx, stop := context.WithCancel(t.Context())
		l.pages, l.stop = 2, stop
		p, err := c.Check(ctx, now.Add(time.Duration(look)*time.Minute))
		if err != nil || p.Rows != want || p.Whole.IsZero() != (look == 0) {
			t.Errorf("look %d: %+v, %v, want %d rows", look+1, p, err, want)
		}
		stop()
	}
}
