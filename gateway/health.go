package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"breakwater/gateway/config"
	"breakwater/gateway/exchange"
	"breakwater/gateway/policy/balance"
	"breakwater/internal/retrylog"
)

// prober asks the endpoints of upstreams with a health block whether they are
// well. What it finds is a signal of its own: it neither makes nor ends an
// ejection, and no fault is ever injected into a probe.
type prober struct {
	g     *Gateway
	kick  chan struct{} // there is a new snapshot
	ended chan probeKey

	// Of the goroutine of run.
	seen *snapshot
	due  map[probeKey]time.Time
	busy map[probeKey]bool
}

type probeKey struct{ upstream, address string }

func newProber(g *Gateway) *prober {
	return &prober{
		g: g, kick: make(chan struct{}, 1), ended: make(chan probeKey),
		due: map[probeKey]time.Time{}, busy: map[probeKey]bool{},
	}
}

// applied tells that there is a new snapshot.
func (p *prober) applied() {
	select {
	case p.kick <- struct{}{}:
	default: // told already
	}
}

// run probes until ctx ends, and returns when the last probe has.
func (p *prober) run(ctx context.Context) {
	var probes sync.WaitGroup
	defer probes.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			for len(p.busy) > 0 {
				delete(p.busy, <-p.ended)
			}
			return
		case key := <-p.ended:
			delete(p.busy, key)
			continue
		case <-p.kick:
		case <-timer.C:
		}
		if next := p.tick(ctx, time.Now(), &probes); next > 0 {
			timer.Reset(next)
		}
	}
}

// tick begins the probes that are due, one at a time for an endpoint, and returns
// how long until the next is; 0: there is none to make.
func (p *prober) tick(ctx context.Context, now time.Time, probes *sync.WaitGroup) (next time.Duration) {
	s := p.g.now.Load()
	if s == nil {
		return 0
	}
	if s != p.seen {
		p.learn(s)
	}
	known := map[probeKey]time.Time{}
	for _, up := range s.cfg.Upstreams {
		if up.Health == nil {
			continue
		}
		for _, e := range up.Endpoints {
			key := probeKey{up.Name, e.Address}
			due := p.due[key] // zero for a new one: at once
			if !now.Before(due) {
				// Not in step with other gateways: a tenth of an interval to and fro.
				due = now.Add(up.Health.Interval*9/10 + time.Duration(p.g.cfg.Rand()*float64(up.Health.Interval)/5))
				if !p.busy[key] {
					p.busy[key] = true
					probes.Go(func() {
						p.probe(ctx, s, up, key.address)
						p.ended <- key
					})
				}
			}
			known[key] = due
			if left := max(due.Sub(now), time.Millisecond); next == 0 || left < next {
				next = left
			}
		}
	}
	p.due = known
	return next
}

// learn forgets what probes found where s has none any more.
func (p *prober) learn(s *snapshot) {
	p.seen = s
	for _, up := range s.cfg.Pools() {
		if up.Health == nil {
			p.g.state.pool(up.Name).Unprobed()
		}
	}
}

// probe asks one endpoint and notes what it found, for the whole upstream and for
// the parts of it that routes use.
func (p *prober) probe(ctx context.Context, s *snapshot, up config.Upstream, address string) {
	well := p.ask(ctx, up, address)
	if ctx.Err() != nil {
		return // the gateway stops, and nothing was found
	}
	h := balance.Health{HealthyAfter: up.Health.HealthyAfter, UnhealthyAfter: up.Health.UnhealthyAfter}
	for _, part := range s.cfg.Pools() {
		if part.Name != up.Name && !strings.HasPrefix(part.Name, up.Name+"/") {
			continue
		}
		if c, changed := p.g.state.pool(part.Name).Probed(address, h, well); changed {
			p.g.endpointChanged(part.Name, c)
		}
	}
}

// ask makes one request, on a connection of its own: it is to show that new ones
// can be made.
func (p *prober) ask(ctx context.Context, up config.Upstream, address string) (well bool) {
	up.ConnectTimeout = min(up.ConnectTimeout, up.Health.Timeout)
	w := p.g.state.unshared(up)
	w.Close() // from now on it keeps no connection
	defer w.Close()
	x := new(exchange.Exchange)
	x.Reset()
	x.Request.Method, x.Request.Host, x.Request.Path, x.Endpoint = "GET", address, up.Health.Path, address
	x.Request.Head.Add("User-Agent", "breakwater-health")
	x.Request.Body.Set(nil, 0)
	x.SetDeadline(time.Now().Add(up.Health.Timeout))
	token := x.Token()
	stop := context.AfterFunc(ctx, func() { token.Cancel(exchange.ErrClientGone) })
	defer stop()
	err := w.Serve(x)
	well = err == nil && balance.Healthy(x.Response.Status)
	x.End(exchange.Classify(err, x.Response.Status))
	return well
}

// unshared makes a transport of up that no traffic uses.
func (r *registry) unshared(up config.Upstream) transport {
	r.mu.Lock()
	secure := r.secured[up.Name].cfg
	r.mu.Unlock()
	return r.open(up, secure)
}

// endpointChanged tells people of an endpoint that is left out, or back.
func (g *Gateway) endpointChanged(upstream string, c balance.Change) {
	g.changed(retrylog.Transition{
		Policy: "balance", Upstream: upstream, Endpoint: c.Endpoint, From: string(c.From), To: string(c.To), Reason: c.Reason,
	})
}
