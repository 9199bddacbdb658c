package now

import (
	"testing"
	"time"
)

// What a breaker refused had no try that could fail: without that, the first try would
// seem better than what users got in the end.
func TestTheFirstTryIsNeverBetterThanTheLast(t *testing.T) {
	at := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	e := Evidence{Service: "points", Env: "prod", At: at, Until: at}
	for i := range 30 {
		m := Minute{At: at.Add(time.Duration(i-30) * time.Minute), Good: 100, Exchanges: 100, Attempts: 100}
		if i >= 20 {
			m.Good, m.Bad, m.FirstTryBad, m.Recovered = 55, 45, 8, 5
		}
		e.Minutes = append(e.Minutes, m)
	}
	m := Assess(e, nil, at).Measure
	if m.SuccessPPM == nil || m.FirstTryPPM == nil || *m.SuccessPPM != 550_000 || *m.FirstTryPPM != 500_000 {
		t.Errorf("success %v, at the first try %v, want 55 %% and 50 %%", m.SuccessPPM, m.FirstTryPPM)
	}
}
