package balance

import (
	"time"

	"breakwater/gateway/exchange"
	"breakwater/internal/retrylog"
)

// Gate stands before one endpoint and may keep tries from it: a breaker, a limit.
// Every pick asks it, so it answers without a lock.
type Gate interface {
	// Shut reports whether a try could not enter at now; asking changes nothing.
	Shut(now time.Time) bool
	// Wants reports whether the next try should come here though others look
	// better: an endpoint that is being tried out gets no probe by its cost.
	Wants(now time.Time) bool
	// Enter lets a try in, or says why not. Both nil: it may go, and the gate does
	// not want to hear of it again.
	Enter(x *exchange.Exchange, now time.Time) (Pass, *exchange.Refusal)
}

// Pass is a try's leave at one gate. It ends with the try, whatever became of it,
// and is not used after.
type Pass interface {
	exchange.Ender
	// Answered tells how the head of the answer came out.
	Answered(x *exchange.Exchange, now time.Time, r Result)
}

const (
	// maxGates is how many gates an endpoint may have.
	maxGates = 2
	// maxRefused is at how many endpoints a try may find the place just taken.
	maxRefused = 8
)

// admit picks an endpoint whose gates let x in. Who is refused at the last moment,
// since another took the place, goes elsewhere.
func (b *balancer) admit(x *exchange.Exchange, now time.Time) (*Endpoint, [maxGates]Pass, *exchange.Refusal) {
	var none [maxGates]Pass
	var refused []*Endpoint
	var refusal *exchange.Refusal
	for len(refused) < maxRefused {
		e := b.wanted(x, refused, now)
		if e == nil {
			e = pick(&b.cfg, b.endpoints, x.Event.Tries, refused, now)
		}
		if e == nil {
			break
		}
		passes, no := e.enter(x, now)
		if no == nil {
			return e, passes, nil
		}
		refusal = no
		refused = append(refused, e)
	}
	if refusal == nil {
		// A gate that is shut knows best why; and it may have opened since.
		for _, e := range b.endpoints {
			if e.ready(now) && len(e.gates) > 0 {
				passes, no := e.enter(x, now)
				if no == nil {
					return e, passes, nil
				}
				return nil, none, no
			}
		}
		refusal = &exchange.Refusal{Policy: "balance", Reason: "no_endpoint", Status: 503, RetryAfter: soonest(b.endpoints, now)}
	}
	return nil, none, refusal
}

// enter passes all gates of e, or none.
func (e *Endpoint) enter(x *exchange.Exchange, now time.Time) (passes [maxGates]Pass, no *exchange.Refusal) {
	mark := x.Mark()
	for i, g := range e.gates {
		p, no := g.Enter(x, now)
		if no != nil {
			x.EndTo(mark, retrylog.LocalRefusal)
			return passes, no
		}
		if p != nil {
			passes[i] = p
			x.OnEnd(p)
		}
	}
	return passes, nil
}

// wanted is the endpoint that has to have x, first try or not: the one whose turn a
// probe of the service is, or one that is being tried out itself.
func (b *balancer) wanted(x *exchange.Exchange, refused []*Endpoint, now time.Time) *Endpoint {
	n := len(b.endpoints)
	if x.Probe > 0 && len(x.Event.Tries) == 0 && n > 0 {
		q := query{refused: refused, now: now}
		for i := range n {
			if e := b.endpoints[(int(x.Probe-1)+i)%n]; q.fits(e) {
				return e
			}
		}
		return nil
	}
	if b.pool.held.Load() == 0 || len(x.Event.Tries) > 0 {
		return nil // a retry is to succeed
	}
	q := query{refused: refused, now: now}
	for _, e := range b.endpoints {
		for _, g := range e.gates {
			if g.Wants(now) && q.fits(e) {
				return e
			}
		}
	}
	return nil
}

// limit sets how large a share of the endpoints may be out.
func (p *Pool) limit(e Ejection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mostPPM = e.MaxPPM; p.mostPPM <= 0 {
		p.mostPPM = defaultMaxPPM
	}
}

// Hold takes address out on behalf of its breaker, if there is room: together with
// those that are out already it may not be more than the share of Ejection.
func (p *Pool) Hold(address string, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.nodes[address]
	if e == nil || e.held.Load() {
		return e != nil
	}
	out := int64(1)
	for _, other := range p.nodes {
		if other != e && other.State(now) != Ready {
			out++
		}
	}
	if out*million > p.mostPPM*int64(len(p.nodes)) {
		return false
	}
	e.held.Store(true)
	p.held.Add(1)
	return true
}

// Free ends what Hold began.
func (p *Pool) Free(address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if e := p.nodes[address]; e != nil && e.held.Swap(false) {
		p.held.Add(-1)
	}
}
