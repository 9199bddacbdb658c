package now

import (
	"testing"
	"time"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// minutes ending with the one that runs at noon; each is asked/bad.
func minutesOf(pairs ...[2]int64) (out []Minute) {
	for i, p := range pairs {
		out = append(out, Minute{At: noon.Add(time.Duration(i-len(pairs)+1) * time.Minute), Good: p[0] - p[1], Bad: p[1], Exchanges: p[0], Attempts: p[0], FirstTryBad: p[1]})
	}
	return out
}

func repeat(n int, p [2]int64) (out [][2]int64) {
	for range n {
		out = append(out, p)
	}
	return out
}

func TestFind(t *testing.T) {
	calm := [2]int64{600, 0}
	tests := []struct {
		name    string
		minutes []Minute
		want    State
		onset   time.Time
	}{
		{"nothing was ever reported", nil, NoData, time.Time{}},
		{"nothing for a quarter of an hour", []Minute{{At: noon.Add(-15 * time.Minute), Good: 100, Exchanges: 100}}, NoData, time.Time{}},
		{"hardly ever asked", []Minute{{At: noon.Add(-8 * time.Minute), Good: 100, Exchanges: 100}}, Fine, noon.Add(-9 * time.Minute)},
		{"all is well", minutesOf(repeat(20, calm)...), Fine, time.Time{}},
		{"two failures are no outage", minutesOf(append(repeat(20, calm), [2]int64{3, 2})...), Fine, time.Time{}},
		{"what is always so is no outage", minutesOf(repeat(20, [2]int64{600, 4})...), Fine, time.Time{}},
		{"one in fifty always is one", minutesOf(repeat(20, [2]int64{600, 12})...), Hit, noon.Add(-19 * time.Minute)},
		{"three minutes", minutesOf(append(repeat(20, calm), [2]int64{600, 60}, [2]int64{600, 60}, [2]int64{100, 10})...), Hit, noon.Add(-2 * time.Minute)},
		{"a minute without failures in between", minutesOf(append(repeat(20, calm), [2]int64{600, 60}, calm, calm, [2]int64{100, 10})...), Hit, noon.Add(-3 * time.Minute)},
		{"two outages are two", minutesOf(append(repeat(20, calm), [2]int64{600, 60}, calm, calm, calm, [2]int64{100, 10})...), Hit, noon},
		{"over for four minutes", minutesOf(append(append(repeat(20, calm), [2]int64{600, 60}), repeat(4, calm)...)...), Fine, noon.Add(-3 * time.Minute)},
		{"a quiet service that is down", minutesOf([2]int64{3, 3}), Hit, noon},
		{"half an hour does not become usual", minutesOf(append(repeat(29, calm), repeat(31, [2]int64{600, 8})...)...), Hit, noon.Add(-30 * time.Minute)},
		{"retries hide it", []Minute{{At: noon, Good: 600, Exchanges: 600, Attempts: 700, FirstTryBad: 100, Recovered: 100}}, Covered, noon},
		{"refused is hit", []Minute{{At: noon, Good: 600, Throttled: 100, Exchanges: 700}}, Hit, noon},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := Find(tt.minutes, noon.Add(30*time.Second))
			if s.State != tt.want || !tt.onset.IsZero() && !s.Onset.Equal(tt.onset) {
				t.Errorf("%s since %s, want %s since %s", s.State, s.Onset, tt.want, tt.onset)
			}
			if s.Onset.Before(s.Before) || s.To.Before(s.Onset) {
				t.Errorf("the span is %+v", s)
			}
		})
	}
}

func TestSinceIsTheSecond(t *testing.T) {
	at := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	span := Span{Onset: noon}
	if got := Since(span, nil); !got.Equal(noon) {
		t.Errorf("without kept failures %s, want the minute", got)
	}
	// One failure by nature, long before; then it begins.
	seconds := []Second{{at(3), 1}, {at(41), 2}, {at(42), 9}, {at(43), 8}, {at(44), 9}, {at(45), 9}, {at(46), 8}}
	if got := Since(span, seconds); !got.Equal(at(41)) {
		t.Errorf("since %s, want second 41", got)
	}
}
