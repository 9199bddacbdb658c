package injector

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// trouble is an error that comes again at each tick of a run.
type trouble struct {
	since time.Time
	err   error
}

// troubleFor is how long a run may be in trouble. It leaves time for the faults to
// be gone, and the run to have ended, within one lease of the first error.
const troubleFor = 5 * time.Second

func (t trouble) again(err error, now time.Time) trouble {
	if t.since.IsZero() {
		t.since = now
	}
	t.err = err
	return t
}

func (t trouble) lasts(now time.Time) bool { return t.err != nil && now.Sub(t.since) >= troubleFor }

// giveUp ends a run that cannot be driven: nobody watches its faults.
func (d *drive) giveUp(ctx context.Context) error {
	why := fmt.Sprintf("the engine cannot go on: %v", d.trouble.err)
	switch d.run.State {
	case Scheduled:
		return d.move(ctx, Skip, Move{Reason: string(ByTrouble), Text: why})
	case Arming:
		return d.broken(ctx, ByTrouble, why)
	}
	return d.stop(ctx, Stop{ByTrouble, why})
}

// outlived reports whether the rules are gone whatever gateways would say: no plan
// has named them since the injection ended, and no lease is as old as that.
func (d *drive) outlived(err error) (bool, error) {
	ended := first(d.run.RecoverAt, d.trouble.since)
	if ended.IsZero() || d.now.Sub(ended) < LeaseFor+time.Second {
		return false, err
	}
	return true, nil
}

// removed reports whether every gateway is proven rid of the run's rules, and
// writes down each proof as it comes.
func (d *drive) removed(ctx context.Context) (bool, error) {
	at, err := d.planner.current(ctx, d.now)
	if err != nil {
		return d.outlived(err)
	}
	gateways, err := d.cfg.Ledger.Gateways(ctx)
	if err != nil {
		return d.outlived(err)
	}
	all := true
	for _, g := range gateways {
		if g.At.Before(d.run.StartedAt) {
			continue // not heard since before the run: it never had the rule
		}
		proven, byLease := gone(g, d.run.ID, at, d.now)
		if !proven {
			all = false
			continue
		}
		open := slices.ContainsFunc(d.run.Receipts, func(r Receipt) bool { return r.Gateway == g.Name && r.RemovedAt.IsZero() })
		if open {
			if err := d.cfg.Ledger.MarkRemoved(ctx, d.run.ID, g.Name, d.now, byLease); err != nil {
				return false, err
			}
			if byLease {
				if err := d.note(ctx, "receipt", "gateway "+g.Name+" gave no word: its lease has ended, and with it the fault"); err != nil {
					return false, err
				}
			}
		}
	}
	return all, nil
}
