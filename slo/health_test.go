package slo

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestSLO_T27(t *testing.T) {
	for _, tt := range []struct {
		c     HealthCounts
		want  int64 // in ten-thousandths, unless hundredths of them
		below bool
	}{
		{HealthCounts{10_000, 0, 0, 0, 0}, 10_000, false},
		{HealthCounts{10_000, 20, 20, 0, 20}, 9457, false},
		{HealthCounts{10_000, 100, 100, 95, 5}, 9657, false},
		{HealthCounts{10_000, 200, 200, 178, 22}, 9025, false},
		{HealthCounts{10_000, 200, 200, 24, 176}, 5251, true},
		{HealthCounts{10_000, 200, 400, 200, 0}, 9365, false},
		{HealthCounts{10_000, 400, 400, 400, 0}, 9138, false},
		{HealthCounts{10_000, 500, 500, 445, 55}, 8379, true},
		{HealthCounts{10_000, 600, 600, 600, 0}, 8721, false},
		{HealthCounts{10_000, 3000, 6000, 300, 2700}, 731, true},
		{HealthCounts{10_000, 10_000, 20_000, 0, 10_000}, 0, true},
	} {
		s := tt.c.Score()
		if got := (s.PPM + 50) / 100; got != tt.want || s.Below() != tt.below || s.State != HealthScored {
			t.Errorf("%+v scores %d, below %v, want %d, %v", tt.c, s.PPM, s.Below(), tt.want*100, tt.below)
		}
	}
	if s := (HealthCounts{1_000_000, 1, 1, 0, 1}).Score(); (s.PPM+5)/10 != 99_997 {
		t.Errorf("one failed retry in a million scores %d", s.PPM)
	}
	if s := (HealthCounts{}).Score(); s.State != HealthNoData || s.Below() {
		t.Errorf("nothing scores %+v", s)
	}
	if s := (HealthCounts{Retried: 1}).Score(); s.State != HealthInconsistent || s.Below() {
		t.Errorf("retries of nothing score %+v", s)
	}
	if s := (HealthCounts{Requests: 99, Retried: 99, Retries: 99, Failed: 99}).Score(); !s.LowConfidence || s.Below() {
		t.Errorf("99 requests score %+v", s)
	}
	if s := (HealthCounts{Requests: 1000, Retried: 100, Retries: 100}).Score(); s.SuccessPPM != 0 || s.Useless != 500_000 {
		t.Errorf("retries that never ended score %+v", s)
	}
}

// 0.85 itself is healthy: the comparison is exact.
func TestHealthLineIsExact(t *testing.T) {
	// R = 4, T1 = 1, K = 0 of a made-up kind: t = 1/5, s = 1 => 1 - 0.24.
	c := HealthCounts{Requests: 700_000, Retried: 100_000, Recovered: 100_000} // t = 1/8: 1 - 0.15
	if s := c.Score(); s.PPM != HealthAuditPPM || s.Below() {
		t.Errorf("on the line it scores %+v", s)
	}
	c.Requests-- // t a little more
	if s := c.Score(); !s.Below() {
		t.Errorf("a little below the line it scores %+v", s)
	}
}

// More triggers, retries or failures never raise a score; a failure that becomes a
// recovery, and clean requests, never lower it.
func TestHealthScoreIsMonotone(t *testing.T) {
	exact := func(c HealthCounts) int64 { s := c.Score(); return s.PPM }
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		r := 1 + rng.Int64N(100_000)
		t1 := rng.Int64N(r + 1)
		s := rng.Int64N(t1 + 1)
		f := rng.Int64N(t1 - s + 1)
		c := HealthCounts{r, t1, t1 + rng.Int64N(t1+1), s, f}
		h := exact(c)
		if h < 0 || h > 1_000_000 {
			t.Fatalf("%+v scores %d", c, h)
		}
		worse := []HealthCounts{c.Plus(HealthCounts{Retries: 1 + rng.Int64N(1000)}), c.Plus(HealthCounts{Failed: 1 + rng.Int64N(1000)})}
		if t1 > 0 { // with none retried the rest has no meaning
			worse = append(worse, c.Plus(HealthCounts{Retried: 1 + rng.Int64N(1000)}))
		}
		for _, w := range worse {
			// Each of three deductions is rounded by itself.
			if t1 > 0 && s+f > 0 && exact(w) > h+1 {
				t.Fatalf("%+v scores %d, worse %+v scores %d", c, h, w, exact(w))
			}
		}
		better := []HealthCounts{c.Plus(HealthCounts{Requests: 1 + rng.Int64N(1000)})}
		if f > 0 {
			better = append(better, c.Plus(HealthCounts{Recovered: 1, Failed: -1}))
		}
		for _, b := range better {
			if exact(b) < h-1 {
				t.Fatalf("%+v scores %d, better %+v scores %d", c, h, b, exact(b))
			}
		}
	}
}

var healthNoon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

func healthRow(at time.Time, status int64, reason string, c HealthCounts) HealthRow {
	return HealthRow{Service: "order", Env: "prod", Upstream: "points", At: at, Status: status, Reason: reason, Counts: c}
}

// Integers are summed and then scored; deductions by reason add up.
func TestSLO_T28(t *testing.T) {
	at := healthNoon.Add(-HealthWindow)
	hs := Healths([]HealthRow{
		healthRow(at, 0, "", HealthCounts{Requests: 20_000}),
		healthRow(at, 503, "overloaded", HealthCounts{0, 1000, 1000, 890, 110}),
		healthRow(at, 503, "throttled", HealthCounts{0, 100, 300, 12, 88}),
	}, at, healthNoon)
	if len(hs) != 1 {
		t.Fatalf("%+v", hs)
	}
	h := hs[0]
	if h.Score.SuccessPPM != 820_000 || h.Counts != (HealthCounts{20_000, 1100, 1300, 902, 198}) {
		t.Errorf("success %d of %+v, want 0.82", h.Score.SuccessPPM, h.Counts)
	}
	if h.Score != h.Counts.Score() {
		t.Errorf("score %+v", h.Score)
	}
	var sum [3]int64
	var retried int64
	for _, r := range h.Reasons {
		sum[0], sum[1], sum[2], retried = sum[0]+r.Trigger, sum[1]+r.Useless, sum[2]+r.Load, retried+r.Counts.Retried
		if r.Counts.Requests != 20_000 {
			t.Errorf("%s is weighed by %d requests, not the upstream's", r.Reason, r.Counts.Requests)
		}
	}
	if sum != [3]int64{h.Score.Trigger, h.Score.Useless, h.Score.Load} || retried != h.Counts.Retried {
		t.Errorf("reasons add up to %v, want %+v", sum, h.Score)
	}
	if h.Reasons[0].Reason != "overloaded" || h.Reasons[0].Score.SuccessPPM != 890_000 || h.Reasons[1].Score.SuccessPPM != 120_000 {
		t.Errorf("reasons %+v", h.Reasons)
	}
}

func TestHealthAlarm(t *testing.T) {
	bad, good, between, few := HealthCounts{10_000, 200, 200, 24, 176}, HealthCounts{Requests: 10_000}, HealthCounts{10_000, 600, 600, 600, 0}, HealthCounts{50, 50, 50, 0, 50}
	for name, tt := range map[string]struct {
		windows []HealthCounts // oldest first; the last is over at noon
		on      bool
		since   int
	}{
		"one is not enough":             {[]HealthCounts{good, bad}, false, 0},
		"two in a row are":              {[]HealthCounts{good, bad, bad}, true, 1},
		"two apart are not":             {[]HealthCounts{bad, good, bad}, false, 0},
		"a gap is apart":                {[]HealthCounts{bad, {}, bad}, false, 0},
		"too few requests tell nothing": {[]HealthCounts{bad, few, bad}, false, 0},
		"few alone are no alarm":        {[]HealthCounts{few, few, few}, false, 0},
		"it stays on between the lines": {[]HealthCounts{bad, bad, between}, true, 0},
		"it ends when it is well":       {[]HealthCounts{bad, bad, between, good}, false, 0},
		"silence does not end it":       {[]HealthCounts{bad, bad, {}, few}, true, 0},
		"nor do a few that are well":    {[]HealthCounts{bad, bad, {Requests: 50}}, true, 0},
		"between the lines begins none": {[]HealthCounts{between, between, between}, false, 0},
	} {
		var rows []HealthRow
		begin := healthNoon.Add(-time.Duration(len(tt.windows)) * HealthWindow)
		for i, c := range tt.windows {
			if c != (HealthCounts{}) {
				rows = append(rows, healthRow(begin.Add(time.Duration(i)*HealthWindow), 503, "x", c))
			}
		}
		// A window still open says nothing.
		rows = append(rows, healthRow(healthNoon, 503, "x", bad))
		h := Healths(rows, begin, healthNoon.Add(time.Minute))[0]
		if h.Alarm != tt.on || tt.on && !h.Since.Equal(begin.Add(time.Duration(tt.since)*HealthWindow)) {
			t.Errorf("%s: alarm %v since %s", name, h.Alarm, h.Since)
		}
	}
}
