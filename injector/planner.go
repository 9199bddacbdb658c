package injector

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"breakwater/gateway/plan"
	"breakwater/injector/scenario"
	"breakwater/internal/reply"
)

// Planner serves the plan. It is computed from the ledger by whichever control
// is asked, so any of them may answer any gateway, and a control that owns
// nothing can still say that nothing is wanted any more.
type Planner struct {
	cfg   Config
	parse func(Run) (scenario.Scenario, error)

	mu      sync.Mutex
	changed chan struct{} // closed at a hint

	stops stops
}

func newPlanner(cfg Config, parse func(Run) (scenario.Scenario, error)) *Planner {
	return &Planner{cfg: cfg, parse: parse, changed: make(chan struct{})}
}

// Between two looks at the ledger while a poll waits, where no hint comes; and
// the longest wait a gateway may ask for.
const (
	lookEvery = 250 * time.Millisecond
	maxWait   = 30 * time.Second
)

// wake tells waiting polls to look again.
func (p *Planner) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Planner) hint() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.changed
}

// listen passes on what other controls change; when it breaks, polls still look.
func (p *Planner) listen(ctx context.Context) {
	for ctx.Err() == nil {
		err := p.cfg.Ledger.Listen(ctx, p.wake)
		if ctx.Err() != nil {
			return
		}
		p.cfg.Log.Warn("listen for changes", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
}

// Plan is what holds at now.
func (p *Planner) Plan(ctx context.Context, now time.Time) (plan.Plan, error) {
	out, _, err := p.compute(ctx, now, 0)
	return out, err
}

// compute is Plan for a poll that has waited here already.
func (p *Planner) compute(ctx context.Context, now time.Time, waited time.Duration) (plan.Plan, Stamped, error) {
	var measures []plan.Measure
	if p.cfg.Measures != nil {
		var err error
		if measures, err = p.cfg.Measures(ctx); err != nil {
			return plan.Plan{}, Stamped{}, fmt.Errorf("read the measures: %w", err)
		}
	}
	var out plan.Plan
	var live []Run
	at, err := p.cfg.Ledger.NumberPlan(ctx, now, func(runs []Run) string {
		var hash string
		runs = p.stops.alive(runs)
		out, hash = Compose(runs, measures, p.parse)
		live = runs
		return hash
	})
	if err != nil {
		return plan.Plan{}, Stamped{}, fmt.Errorf("number the plan: %w", err)
	}
	out.Epoch, out.Revision = at.Epoch, at.Revision
	within(out.Faults, live, now, waited)
	return out, at, nil
}

// within ends leases with their run's claim: this control may answer polls for a
// run whose own control has just died. A gateway counts from when it sent its
// poll, so what the poll has waited here is added. As much earlier as a lease is
// shorter than a claim: then the fault is gone when the claim is.
const early = LeaseFor - plan.FaultTTLMS*time.Millisecond

func within(faults []plan.Leased, runs []Run, now time.Time, waited time.Duration) {
	for i := range faults {
		for _, r := range runs {
			if r.ID == faults[i].Fault.Run {
				left := r.LeaseUntil.Sub(now) + waited - early
				faults[i].TTLMS = min(faults[i].TTLMS, max(1, left.Milliseconds()))
			}
		}
	}
}

// current is the number of the plan that holds at now.
func (p *Planner) current(ctx context.Context, now time.Time) (Stamped, error) {
	_, at, err := p.compute(ctx, now, 0)
	return at, err
}

// ServeHTTP answers GET /api/v1/plan: at once where the plan differs from the
// epoch and revision asked with, else when it changes or the wait is over.
//
// With the ledger away there is no answer: a plan from memory would renew the
// leases of faults that nobody watches any more. But where somebody asked to stop
// meanwhile there is one that needs no ledger: no faults.
func (p *Planner) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	epoch, errEpoch := number(q.Get("epoch"))
	revision, errRevision := number(q.Get("revision"))
	wait := time.Duration(0)
	var errWait error
	if text := q.Get("wait"); text != "" {
		wait, errWait = time.ParseDuration(text)
	}
	if errEpoch != nil || errRevision != nil || errWait != nil || wait < 0 {
		reply.Problem(w, http.StatusBadRequest, "bad_request", "epoch and revision must be numbers and wait a duration such as 5s")
		return
	}
	ctx := r.Context()
	if text := r.Header.Get(plan.ReceiptHeader); text != "" {
		var receipt plan.Receipt
		if err := json.Unmarshal([]byte(text), &receipt); err != nil || receipt.Gateway == "" {
			reply.Problem(w, http.StatusBadRequest, "bad_request", plan.ReceiptHeader+" must be one line of JSON that names its gateway")
			return
		}
		if err := p.save(ctx, receipt); p.stops.any() && err != nil {
			reply.JSON(w, http.StatusOK, nothing(epoch, revision))
			return
		} else if err != nil {
			p.away(w, err)
			return
		}
	}
	out, err := p.await(ctx, epoch, revision, min(wait, maxWait))
	if err != nil && p.stops.any() {
		out, err = nothing(epoch, revision), nil
	}
	if err != nil {
		p.away(w, err)
		return
	}
	reply.JSON(w, http.StatusOK, out)
}

func (p *Planner) save(ctx context.Context, r plan.Receipt) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	now, err := p.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	return p.cfg.Ledger.SaveReceipt(ctx, now, r)
}

func (p *Planner) await(ctx context.Context, epoch, revision int64, wait time.Duration) (plan.Plan, error) {
	began := time.Now()
	over := time.NewTimer(wait)
	defer over.Stop()
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for last := false; ; {
		hint := p.hint() // before the look, or a change between the two is missed
		out, err := p.see(ctx, began)
		if err != nil || last || wait == 0 || out.Epoch != epoch || out.Revision != revision {
			return out, err
		}
		select {
		case <-ctx.Done():
			return plan.Plan{}, ctx.Err()
		case <-over.C:
			last = true // one more look: the answer renews leases, so it must be true now
		case <-hint:
		case <-look.C:
		}
	}
}

// see is one look at the ledger for a poll that began then.
func (p *Planner) see(ctx context.Context, began time.Time) (plan.Plan, error) {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	now, err := p.cfg.Ledger.Now(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	out, _, err := p.compute(ctx, now, time.Since(began))
	return out, err
}

func (p *Planner) away(w http.ResponseWriter, err error) {
	p.cfg.Log.Warn("plan not served", "err", err)
	w.Header().Set("Retry-After", "1")
	reply.Problem(w, http.StatusServiceUnavailable, "ledger_away", "the ledger cannot be read")
}

func number(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	return strconv.ParseInt(text, 10, 64)
}
