package injector

import (
	"context"
	"slices"
	"time"

	"breakwater/gateway/policy/fault"
	"breakwater/injector/scenario"
	"breakwater/internal/retrylog"
)

// maxRepeats bounds the requests that are looked at for one expectation, the newest.
const maxRepeats = 5000

// repeats looks at what became of requests whose answer was lost after the service had
// done its work, and that were asked again: by its status the service says whether it
// knew them.
func (d *drive) repeats(ctx context.Context, a scenario.Assertion, from, to time.Time) (Seen, error) {
	hit, err := d.cfg.Ledger.HitRequests(ctx, d.run.ID, maxRepeats)
	if err != nil {
		return Seen{}, err
	}
	seen := Seen{From: from, Until: to}
	lost := lostAfter(d.sc)
	for _, x := range hit {
		if x.Service != a.Service {
			continue
		}
		known, again := repeated(x, lost, a.Repeated.Statuses)
		seen.Part, seen.Whole = seen.Part+known, seen.Whole+again
	}
	if seen.Whole == 0 {
		seen.Missing = "nothing: no request was asked again after its answer was lost"
	}
	return seen, nil
}

// lostAfter are the faults of sc that take an answer away once the work is done, or
// have it done twice.
func lostAfter(sc scenario.Scenario) (ids []string) {
	for _, f := range sc.Faults {
		if f.Rule.Phase == fault.AfterUpstream {
			ids = append(ids, f.ID)
		}
	}
	return ids
}

// repeated counts the tries of x that follow a lost answer and were answered, and those
// whose answer says that the work had been done.
func repeated(x retrylog.Exchange, lost []string, say []scenario.Statuses) (known, again int64) {
	for i := 1; i < len(x.Tries); i++ {
		try := x.Tries[i]
		if !slices.Contains(lost, x.Tries[i-1].Fault) || try.Status == 0 || slices.Contains(lost, try.Fault) {
			continue
		}
		again++
		if scenario.Among(say, try.Status) {
			known++
		}
	}
	return known, again
}
