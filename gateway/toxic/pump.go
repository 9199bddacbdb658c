package toxic

import (
	"cmp"
	"net"
	"sync/atomic"
	"time"

	"breakwater/gateway/policy/fault"
)

const (
	piece  = 16 << 10 // of a read
	queued = 64       // pieces that may be on their way, as on a long line
)

// chunk is a piece of a stream; end is its last one, without data.
type chunk struct {
	data   []byte
	number int64
	at     time.Time // when it came
	end    bool
}

// pump carries one direction of a link. What it reads waits in a queue for its time,
// so that a delay is no limit on how much passes.
type pump struct {
	link     *link
	at       *atomic.Pointer[set]
	dir      string
	src, dst net.Conn
	queue    chan chunk

	// Of the goroutine that writes.
	states map[string]*state // of toxics that hit this connection, by name
	free   time.Time         // when the line has sent what it was given
}

// state is what one toxic did to one direction of one connection.
type state struct {
	since     time.Time
	sent      int64
	swallowed bool
	live      bool
}

func (p *pump) read() {
	for n := int64(0); ; n++ {
		buf := make([]byte, piece)
		k, err := p.src.Read(buf)
		if k > 0 && !p.push(chunk{data: buf[:k], number: n, at: time.Now()}) {
			return
		}
		if err != nil {
			p.push(chunk{end: true, number: n, at: time.Now()})
			return
		}
	}
}

func (p *pump) push(c chunk) bool {
	select {
	case p.queue <- c:
		return true
	case <-p.link.done:
		return false
	}
}

func (p *pump) write() {
	for {
		toxics, changed := p.look()
		var closing time.Time // when a timeout ends the connection
		for _, t := range toxics {
			if d := t.ms("timeout"); t.Type == "timeout" && d > 0 {
				if at := p.states[t.Name].since.Add(d); closing.IsZero() || at.Before(closing) {
					closing = at
				}
			}
		}
		over, stop := p.timer(closing)
		select {
		case <-p.link.done:
			stop()
			return
		case <-changed:
		case <-over:
			stop()
			p.link.close()
			return
		case c := <-p.queue:
			stop()
			if !p.pass(c) {
				return
			}
		}
		stop()
	}
}

// look returns the toxics that hit this connection now.
func (p *pump) look() (toxics []*toxic, changed <-chan struct{}) {
	s := p.at.Load()
	for _, st := range p.states {
		st.live = false
	}
	for _, t := range s.toxics {
		if !t.hits(p.link.proxy.name, p.link.number) {
			continue
		}
		toxics = append(toxics, t)
		st := p.states[t.Name]
		if st == nil {
			st = &state{since: time.Now()}
			p.states[t.Name] = st
		}
		st.live = true
	}
	for name, st := range p.states {
		if st.live {
			continue
		}
		if st.swallowed { // what is gone would be missed in the middle
			p.link.close()
		}
		delete(p.states, name)
	}
	return toxics, s.changed
}

// pass sends c when its time has come, and reports whether more may follow.
func (p *pump) pass(c chunk) bool {
	if !p.delay(c) {
		return false
	}
	toxics, _ := p.look()
	for _, t := range toxics {
		if t.Type == "timeout" && !c.end {
			p.states[t.Name].swallowed = true
			return true
		}
	}
	if c.end {
		if half, ok := p.dst.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			return false
		}
		p.link.close()
		return false
	}
	for len(c.data) > 0 {
		if !p.send(&c) {
			return false
		}
	}
	return true
}

// delay waits until c may go on, by the latencies and resets that are in force, also
// if they change meanwhile.
func (p *pump) delay(c chunk) bool {
	for {
		toxics, changed := p.look()
		due, reset := c.at, time.Time{}
		for _, t := range toxics {
			switch {
			case t.Type == "latency":
				due = due.Add(p.latency(t, c.number))
			case t.Type == "slow_close" && c.end:
				due = due.Add(t.ms("delay"))
			case t.Type == "reset_peer":
				at := c.at.Add(t.ms("timeout"))
				if reset.IsZero() || at.Before(reset) {
					reset = at
				}
			}
		}
		until := due
		if !reset.IsZero() {
			until = reset
		}
		again, ok := p.wait(until, changed)
		switch {
		case !ok:
			return false
		case again:
			continue
		case !reset.IsZero():
			p.link.end(true)
			return false
		}
		return true
	}
}

// latency of a chunk is a function of names and numbers, as every fault's is.
func (p *pump) latency(t *toxic, number int64) time.Duration {
	jitter := t.Attributes["jitter"]
	if jitter == 0 {
		return t.ms("latency")
	}
	u := fault.Unit(t.Name+p.link.proxy.name, p.link.number<<20+number)
	return t.ms("latency") + time.Duration((2*u-1)*float64(t.ms("jitter")))
}

// send sends as much of c as may go in one write, when the line is free for it.
func (p *pump) send(c *chunk) bool {
	for {
		toxics, changed := p.look()
		n, ready, pause := int64(len(c.data)), p.free, time.Duration(0)
		var limit *state
		rate, stuck := int64(0), false // the lowest rate, in bytes a millisecond
		for _, t := range toxics {
			st := p.states[t.Name]
			switch a := t.Attributes; t.Type {
			case "bandwidth":
				if a["rate"] == 0 {
					stuck = true // as in Toxiproxy: nothing goes by
					continue
				}
				n = min(n, a["rate"]*100) // a tenth of a second
				if rate == 0 || a["rate"] < rate {
					rate = a["rate"]
				}
			case "slicer":
				n = min(n, p.slice(t, c.number, int64(len(c.data))))
				pause = max(pause, time.Duration(a["delay"])*time.Microsecond)
			case "limit_data":
				left := a["bytes"] - st.sent
				if left <= 0 {
					p.link.close()
					return false
				}
				if left <= n {
					n, limit = left, st
				}
			}
		}
		if rate == 0 && pause == 0 {
			ready = time.Time{}
		}
		if stuck {
			ready = time.Now().Add(time.Hour) // until somebody changes it
		}
		again, ok := p.wait(ready, changed)
		if !ok {
			return false
		}
		if again || stuck {
			continue
		}
		if _, err := p.dst.Write(c.data[:n]); err != nil {
			p.link.close()
			return false
		}
		c.data = c.data[n:]
		for _, t := range toxics {
			if t.Type == "limit_data" {
				p.states[t.Name].sent += n
			}
		}
		if limit != nil {
			p.link.close()
			return false
		}
		// From when it was free, and not from now: what a wait took too long is made up for.
		from := p.free
		if now := time.Now(); from.IsZero() || now.Sub(from) > 100*time.Millisecond {
			from = now
		}
		if rate > 0 {
			pause += time.Duration(n) * time.Millisecond / time.Duration(rate)
		}
		p.free = from.Add(pause)
		return true
	}
}

// slice is how long the next slice is, of a chunk of which left bytes are left.
func (p *pump) slice(t *toxic, number, left int64) int64 {
	size, vary := max(t.Attributes["average_size"], 1), t.Attributes["size_variation"]
	u := fault.Unit(t.Name+"/slice", p.link.number<<20+number<<8+left)
	return max(size+int64((2*u-1)*float64(vary)), 1)
}

// wait waits until an instant, and reports whether the toxics have changed before;
// ok is false where the link is over.
func (p *pump) wait(until time.Time, changed <-chan struct{}) (again, ok bool) {
	if until.IsZero() || time.Until(until) <= 0 {
		return false, true
	}
	over, stop := p.timer(until)
	defer stop()
	select {
	case <-over:
		return false, true
	case <-changed:
		return true, true
	case <-p.link.done:
		return false, false
	}
}

// timer rings at an instant, by the gateway's alarm where there is one; the zero time
// is never.
func (p *pump) timer(at time.Time) (over <-chan struct{}, stop func()) {
	if at.IsZero() {
		return nil, func() {}
	}
	return p.link.proxy.server.cfg.Alarm.After(cmp.Or(max(time.Until(at), 0), 1))
}
