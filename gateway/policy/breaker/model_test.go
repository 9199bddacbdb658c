package breaker

import (
	"slices"
	"time"
)

// tenth is the grain of time in the model.
const tenth = 100 * time.Millisecond

// model is the obvious breaker: it keeps everything that happened since it last
// changed, walks through time a tenth of a second at a time, and works everything
// out anew at each step. Times are in tenths.
type model struct {
	cfg           Config
	now           int64
	state         State
	since, closed int64
	level         int64
	gen           int
	results       []result
	row           int64
	last          bool         // verdict on the last window
	calls         []*modelCall // under way
	probes        []*modelProbe
	next, credit  int64
	latest        int64 // probe window
}

type result struct{ at, total, failed, slow int64 }

type modelCall struct {
	at      int64
	gen     int
	counted bool
	slowAt  int64
	probe   *modelProbe
}

type modelProbe struct {
	at, window    int64
	out           bool
	dropped       bool
	failed, taken bool
}

func tenths(d time.Duration) int64 { return int64(d / tenth) }

func (m *model) turn(to State, deeper int64) {
	if m.state == Closed {
		m.level = max(0, m.level-(m.now-m.closed)/tenths(m.cfg.Decay))
	}
	m.level += deeper
	m.state, m.since, m.gen = to, m.now, m.gen+1
	m.last = false
	m.results, m.row, m.probes, m.next, m.credit, m.latest = nil, 0, nil, 0, 0, -1
	if to == Closed {
		m.closed = m.now
	}
}

// walk lets time pass until now.
func (m *model) walk(now int64) {
	for m.now < now {
		m.now++
		m.tick()
	}
}

func (m *model) tick() {
	switch m.state {
	case Closed:
		w := tenths(m.cfg.Window)
		if m.cfg.Rule == Windows && m.cfg.Windows == 2 && m.now%w == 0 {
			// A verdict stands, though a slow call of that window should fail later.
			before := m.last
			m.last = m.breached(m.between(m.now-w, m.now))
			if before && m.last {
				m.turn(Open, 1)
				return
			}
		}
		if m.cfg.SlowPPM == 0 {
			return
		}
		n := int64(0)
		for _, c := range m.calls {
			if c.gen == m.gen && !c.counted && c.at+tenths(m.cfg.SlowAfter) == m.now {
				c.counted, c.slowAt = true, m.now
				n++
			}
		}
		if n > 0 {
			m.results = append(m.results, result{m.now, n, 0, n})
			m.weigh()
		}
	case HalfOpen:
		m.judge()
		for _, p := range m.probes {
			if m.state != HalfOpen || !p.out {
				continue
			}
			switch {
			case m.cfg.SlowPPM > 0 && m.now-p.at == tenths(m.cfg.SlowAfter):
				p.out, p.taken, p.failed = false, true, true
				m.judge()
			case m.now-p.at == tenths(m.cfg.HalfOpen.Stuck):
				if !slices.ContainsFunc(m.probes, func(p *modelProbe) bool { return p.taken }) {
					m.turn(Open, 0)
					return
				}
				p.out, p.dropped = false, true
				m.judge()
			}
		}
	}
}

// between sums what happened in [from, until).
func (m *model) between(from, until int64) (sum result) {
	for _, r := range m.results {
		if r.at >= from && r.at < until {
			sum.total, sum.failed, sum.slow = sum.total+r.total, sum.failed+r.failed, sum.slow+r.slow
		}
	}
	return sum
}

// window sums the buckets that count now.
func (m *model) window() result {
	b := tenths(m.cfg.Bucket)
	first := m.now/b - m.cfg.Window.Milliseconds()/m.cfg.Bucket.Milliseconds() + 1
	return m.between(first*b, m.now+1)
}

func (m *model) breached(r result) bool {
	c := m.cfg
	if r.total == 0 || r.total < c.MinRequests {
		return false
	}
	share := float64(r.failed) / float64(r.total)
	limit := float64(c.ErrorPPM) / 1e6
	return c.ErrorPPM > 0 && (share > limit || share == limit && !c.Above) || m.slowed(r)
}

func (m *model) slowed(r result) bool {
	return m.cfg.SlowPPM > 0 && r.total >= m.cfg.MinRequests && float64(r.slow)/float64(r.total) >= float64(m.cfg.SlowPPM)/1e6
}

// weigh trips by the result just taken in.
func (m *model) weigh() {
	r, trip := m.window(), false
	switch {
	case m.cfg.Rule == Dual && m.cfg.Mode == And:
		trip = m.row >= m.cfg.Consecutive && m.breached(r) || m.slowed(r)
	case m.cfg.Rule == Dual:
		trip = m.row >= m.cfg.Consecutive || m.breached(r)
	case m.cfg.Windows == 1:
		trip = m.breached(r)
	}
	if trip {
		m.turn(Open, 1)
	}
}

func (m *model) openFor() int64 {
	d := m.cfg.OpenFor
	for range m.level - 1 {
		d = min(2*d, m.cfg.MaxOpen)
	}
	return tenths(min(d, m.cfg.MaxOpen))
}

func (m *model) stateNow() State {
	if m.state == Open && m.now >= m.since+m.openFor() {
		return HalfOpen
	}
	return m.state
}

func (m *model) allow() *modelCall {
	if m.state != m.stateNow() {
		m.turn(HalfOpen, 0)
	}
	switch m.state {
	case Closed:
		c := &modelCall{at: m.now, gen: m.gen}
		m.calls = append(m.calls, c)
		return c
	case Open:
		return nil
	}
	h := m.cfg.HalfOpen
	w := int64(0)
	if !h.Simple {
		w = (m.now - m.since) / tenths(h.Window)
	}
	if w != m.latest {
		m.latest, m.credit = w, 0
	}
	admitted := int64(0)
	for _, p := range m.probes {
		if p.window == w && !p.dropped {
			admitted++
		}
	}
	if admitted >= h.Probes {
		return nil
	}
	if !h.Simple {
		switch {
		case m.now >= m.next:
			m.next = m.now + tenths(h.Window)/h.Probes
		case m.credit > 0:
			m.credit--
		default:
			return nil
		}
	}
	p := &modelProbe{at: m.now, window: w, out: true}
	m.probes = append(m.probes, p)
	c := &modelCall{at: m.now, gen: m.gen, probe: p}
	m.calls = append(m.calls, c)
	return c
}

// judge works out what all probes so far say.
func (m *model) judge() {
	h := m.cfg.HalfOpen
	passed := int64(0)
	for w := int64(0); ; w++ {
		var out, finished, failed int64
		later := false
		for _, p := range m.probes {
			later = later || p.window > w
			if p.window != w {
				continue
			}
			if p.out {
				out++
			}
			if p.taken {
				finished++
			}
			if p.failed {
				failed++
			}
		}
		if failed > 0 && (h.Simple || (h.Probes-failed)*million < h.PassPPM*h.Probes) {
			m.turn(Open, 1)
			return
		}
		if h.Simple {
			if finished >= h.Probes {
				m.turn(Closed, 0)
			}
			return
		}
		if passed >= 0 && out == 0 && m.now >= m.since+(w+1)*tenths(h.Window) {
			switch {
			case finished == 0:
			case (finished-failed)*million < h.PassPPM*finished:
				m.turn(Open, 1)
				return
			default:
				if passed++; passed >= h.PassWindows {
					m.turn(Closed, 0)
					return
				}
			}
		} else {
			passed = -1 << 40 // later ones can only fail early
		}
		if !later {
			return
		}
	}
}

func (m *model) done(c *modelCall, r Result) {
	m.calls = slices.DeleteFunc(m.calls, func(o *modelCall) bool { return o == c })
	if c.gen != m.gen {
		return
	}
	if p := c.probe; p != nil {
		if !p.out {
			return
		}
		p.out = false
		switch r {
		case Ignored:
			p.dropped = true
			if p.window == m.latest {
				m.credit++
			}
		default:
			p.taken, p.failed = true, r == Failure
		}
		m.judge()
		return
	}
	slow := m.cfg.SlowPPM > 0 && !c.counted && m.now-c.at >= tenths(m.cfg.SlowAfter)
	if slow {
		c.counted, c.slowAt = true, m.now
		m.results = append(m.results, result{m.now, 1, 0, 1})
		m.weigh()
	}
	if r == Ignored || c.gen != m.gen {
		return
	}
	failed := int64(0)
	if r == Failure {
		m.row++
		failed = 1
	} else {
		m.row = 0
	}
	if c.counted {
		if failed > 0 {
			m.results = append(m.results, result{c.slowAt, 0, 1, 0})
			m.weigh()
		}
		return
	}
	m.results = append(m.results, result{m.now, 1, failed, 0})
	m.weigh()
}
