package breaker

import "time"

// Stats is the state of a breaker, for people and gauges.
type Stats struct {
	State    State         `json:"state"`
	Level    int64         `json:"level"` // times in a row it opened, less what is forgotten
	Since    time.Time     `json:"since"` // when the state began
	OpenLeft time.Duration `json:"open_left,omitempty"`

	Total  int64 `json:"total"` // calls of the window
	Failed int64 `json:"failed"`
	Slow   int64 `json:"slow"`
	// RateMilli is the rate of those calls, in thousandths a second: what Feasible
	// is to be asked about.
	RateMilli int64 `json:"rate_milli"`
	Row       int64 `json:"row"`    // failures in a row
	Streak    int64 `json:"streak"` // windows in a row that breached

	Refused   int64         `json:"refused"` // since the start
	Probes    int64         `json:"probes"`  // since the start
	Flying    int64         `json:"flying"`  // probes under way
	Passed    int64         `json:"passed"`  // probe windows in a row
	NextProbe time.Duration `json:"next_probe,omitempty"`

	// Spent is the time in each state, and Turns the changes from one to another,
	// since the start, by the order of States.
	Spent [3]time.Duration `json:"spent"`
	Turns [3][3]int64      `json:"turns"`
}

// Stats at now.
func (b *Breaker) Stats(now time.Time) Stats {
	b.mu.Lock()
	defer b.unlock(now)
	t := b.tick(now)
	s := Stats{State: b.state(t), Refused: b.refused.Load(), Probes: b.probes.Load(), Row: b.row.Load(), Streak: b.streak}
	v := b.view.Load()
	since := b.since
	s.Level, s.Spent, s.Turns = b.level, b.spent, b.turns
	for i, d := range v.lasted(b.since, t) {
		s.Spent[i] += d
	}
	switch s.State {
	case Closed:
		s.Level = b.decayed(v.cfg, t)
		c := v.ring.Sum(now)
		s.Total, s.Failed, s.Slow = c.Total, c.Failed, c.Slow
		counted := min(v.cfg.span(), max(t-b.since, int64(v.cfg.Bucket)))
		s.RateMilli = int64(float64(c.Total) * 1000 * float64(time.Second) / float64(counted))
	case Open:
		s.OpenLeft = time.Duration(v.until - t)
	case HalfOpen:
		if v.state == Open { // no call has come yet
			since = v.until
			break
		}
		s.Flying, s.Passed, s.NextProbe = int64(len(b.half.flying)), b.half.passed, b.untilProbe(t)
	}
	s.Since = now.Add(time.Duration(since - t))
	return s
}
