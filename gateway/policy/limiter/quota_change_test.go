package limiter

import (
	"testing"
	"time"
)

func TestAQuotaChangesOneWay(t *testing.T) {
	own := Rate{100, time.Second, 50}
	for _, tt := range []struct {
		name   string
		change Change
		want   Rate
	}{
		{"none", Change{}, own},
		{"a half", Change{FactorPPM: 500_000}, Rate{100, 2 * time.Second, 25}},
		{"a third", Change{FactorPPM: 333_333}, Rate{100, 3_000_003_000, 16}},
		{"twice, but tightening", Change{FactorPPM: 2_000_000}, own},
		{"twice", Change{FactorPPM: 2_000_000, Relax: true}, Rate{100, time.Second / 2, 100}},
		{"a half, but relaxing", Change{FactorPPM: 500_000, Relax: true}, own},
		{"to a rate", Change{To: Rate{10, time.Second, 10}}, Rate{10, time.Second, 10}},
		{"to a larger rate, but tightening", Change{To: Rate{1000, time.Second, 10}}, own},
		{"to a larger rate", Change{To: Rate{1000, time.Second, 20}, Relax: true}, Rate{1000, time.Second, 50}},
		{"a half or a rate, whichever is less", Change{FactorPPM: 500_000, To: Rate{10, time.Second, 10}}, Rate{10, time.Second, 10}},
		{"a half, which is less than the rate", Change{FactorPPM: 500_000, To: Rate{90, time.Second, 10}}, Rate{100, 2 * time.Second, 25}},
		{"a bucket for what one request costs", Change{FactorPPM: 10_000}, Rate{100, 100 * time.Second, 7}},
	} {
		if got := tt.change.Rate(own, 7); got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := (Change{FactorPPM: 500_000}).Rate(Rate{}, 1); got != (Rate{}) {
		t.Errorf("no rate became %+v", got)
	}
}

// Whatever is asked for, the direction holds and a bucket can be filled.
func FuzzQuotaChange(f *testing.F) {
	f.Add(int64(100), int64(time.Second), int64(50), int64(500_000), int64(10), int64(time.Second), int64(10), false, int64(1))
	f.Add(int64(1_000_000), int64(24*time.Hour), int64(1_000_000), int64(1), int64(0), int64(0), int64(0), true, int64(1_000_000))
	f.Fuzz(func(t *testing.T, tokens, per, burst, factor, toTokens, toPer, toBurst int64, relax bool, least int64) {
		own := Rate{bound(tokens, 1, MaxTokens), time.Duration(bound(per, int64(time.Microsecond), int64(MaxPer))), bound(burst, 1, MaxBurst)}
		c := Change{FactorPPM: max(factor, 0), To: Rate{bound(toTokens, 0, MaxTokens), time.Duration(bound(toPer, int64(time.Microsecond), int64(MaxPer))), bound(toBurst, 1, MaxBurst)}, Relax: relax}
		got := c.Rate(own, bound(least, 1, MaxBurst))
		switch {
		case got.Tokens < 1 || got.Per < time.Microsecond || got.Per > 100*MaxPer || got.Burst < 1 || got.Burst > MaxBurst:
			t.Fatalf("%+v by %+v became %+v", own, c, got)
		case relax && slower(got, own), !relax && slower(own, got):
			t.Fatalf("%+v by %+v became %+v: the wrong way", own, c, got)
		}
	})
}
