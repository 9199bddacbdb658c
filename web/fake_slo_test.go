package web

import (
	"context"
	"time"

	"breakwater/slo"
)

func (h *house) Attribution(_ context.Context, o slo.Objective, _ string, _, to time.Time) ([]slo.Portion, error) {
	if h.broken != nil {
		return nil, h.broken
	}
	var bad int64
	for _, st := range h.statuses {
		if st.Objective.ID == o.ID {
			bad = st.Budget.Tally.Bad
		}
	}
	var failed []slo.Failed
	for i, part := range []int64{35, 29, 15, 6, 5} {
		f := slo.Failed{At: to.Truncate(time.Minute).Add(-time.Duration(6-i) * 96 * time.Hour), Bad: bad * part / 100}
		if i == 3 {
			f.Experiment = "r-1287"
		}
		failed = append(failed, f, slo.Failed{At: f.At.Add(5 * time.Minute), Experiment: f.Experiment, Bad: 1})
	}
	var sum int64
	for _, f := range failed {
		sum += f.Bad
	}
	failed = append(failed, slo.Failed{At: to.Truncate(time.Minute), Bad: bad - sum})
	at := func(i int) time.Time { return failed[2*i].At }
	return slo.Attribute(failed, []slo.Cause{
		{Kind: slo.ByDeploy, Ref: "1.42", Title: "rolled back", From: at(0)}, {Kind: slo.ByIncident, Ref: "INC-198", Title: "payment timeouts", From: at(1), To: at(1).Add(time.Hour)},
		{Kind: slo.ByIncident, Ref: "INC-207", Title: "inventory pool", From: at(2), To: at(2).Add(time.Hour)}, {Kind: slo.ByConfig, Ref: "r118", From: at(4)},
	}), nil
}

// Backtests replays an even month with two accidents.
func (h *house) Backtests(_ context.Context, all []slo.Objective, p slo.Policy, _ string, _, to time.Time) ([]slo.Backtest, error) {
	if to.IsZero() {
		to = h.now
	}
	from := to.Add(-30 * 24 * time.Hour).Truncate(time.Hour)
	var slots []slo.Slot
	for at := from.Add(-30 * 24 * time.Hour); at.Before(to); at = at.Add(time.Hour) {
		s := slo.Slot{At: at, For: time.Hour, Valid: 150_000, Bad: 20}
		if n := int(at.Sub(from) / time.Hour); n == 432 || n == 433 {
			s.Bad = 9_000
		}
		slots = append(slots, s)
	}
	var out []slo.Backtest
	for _, o := range all {
		out = append(out, slo.Try(o, p, slots, from, to.Truncate(time.Hour), time.Hour))
	}
	return out, h.broken
}

func (h *house) Causes(_ context.Context, service, _ string, from, to time.Time) ([]slo.Cause, error) {
	span := to.Sub(from)
	return []slo.Cause{
		{Kind: slo.ByIncident, Service: service, Ref: "INC-198", Title: "payment timeouts", From: from.Add(span * 31 / 100), To: from.Add(span * 36 / 100), Actor: "anna"},
		{Kind: slo.ByDeploy, Service: service, Ref: "1.42", From: from.Add(span * 62 / 100), Actor: "ci"},
		{Kind: slo.ByConfig, Ref: "r118", Title: "configuration r118", From: from.Add(span * 64 / 100), Actor: "gateway"},
	}, h.broken
}

func (h *house) Transitions(_ context.Context, service string, since time.Time, _ int) ([]slo.Transition, error) {
	move := func(at time.Time, from, to slo.Level) slo.Transition {
		return slo.Transition{Service: service, Objective: service + "-availability", Env: "production", At: at, From: from, To: to, Reason: "41.2\u202f% of the error budget is spent."}
	}
	third := h.now.Sub(since) / 3
	list := []slo.Transition{move(h.now.Add(-third), slo.Normal, slo.Warn)}
	if service == "coupon" {
		list = []slo.Transition{move(h.now.Add(-third/2), slo.Emergency, slo.Frozen), move(h.now.Add(-third), slo.Frozen, slo.Emergency), move(h.now.Add(-third*2), slo.Emergency, slo.Frozen)}
	}
	return list, h.broken
}

func (h *house) Revisions(context.Context, string, int) ([]slo.Objective, error) {
	return nil, h.broken
}
