package slo

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Terms are what an objective promises where it is not the plain share of
// answered requests over a rolling window. The zero Terms are that plain promise.
type Terms struct {
	Indicator Indicator `json:"indicator"`
	Method    Method    `json:"method,omitempty"` // "": Occurrences
	// Slice is the span that is good or bad as a whole, and SlicePPB the share of
	// good events it needs, in parts per 10^9. For the two methods of time.
	Slice    time.Duration `json:"slice_ns,omitempty"`
	SlicePPB int64         `json:"slice_ppb,omitempty"`
	Calendar *Calendar     `json:"calendar,omitempty"` // nil: rolling
	// Planned is how many valid events a calendar period is expected to hold. 0:
	// unknown, and estimated from what came so far.
	Planned int64 `json:"planned,omitempty"`
	// AspirationPPB is the goal beyond the promise; it decides nothing.
	AspirationPPB int64     `json:"aspiration_ppb,omitempty"`
	Chaos         ChaosMode `json:"chaos,omitempty"`         // "": ChaosCount
	ChaosCapPPM   int64     `json:"chaos_cap_ppm,omitempty"` // of the budget, for ChaosCap
	Pairs         []Pair    `json:"pairs,omitempty"`         // nil: Pairs()
	AlertsOff     bool      `json:"alerts_off,omitempty"`
	Guard         *Guard    `json:"guard,omitempty"` // nil: DefaultGuard
	GroupBy       string    `json:"group_by,omitempty"`
	Informational bool      `json:"informational,omitempty"` // shown, never the reason of a state
}

// Kind is what an indicator looks at.
type Kind string

// The kinds of indicators.
const (
	Availability Kind = "availability" // valid requests that were answered well
	Latency      Kind = "latency"      // not slower than Limit, inclusive
	DepTimeout   Kind = "dep_timeouts" // without a timeout of any dependency
	RatioOf      Kind = "ratio"        // counters of one's own choice
	Freshness    Kind = "freshness"    // time in which the last good answer is not older than Limit
	Composite    Kind = "composite"    // several objectives as one
)

// Indicator says which events, or which spans of time, are good.
type Indicator struct {
	Kind  Kind          `json:"kind,omitempty"` // "": Availability
	Limit time.Duration `json:"limit_ns,omitempty"`
	// QuantilePPB is set where the promise was written as a quantile: "P95 within
	// 300 ms" is exactly "at least 95 % within 300 ms", and is kept as that.
	QuantilePPB int64     `json:"quantile_ppb,omitempty"`
	Bad         []Counter `json:"bad,omitempty"`   // of a ratio
	Total       []Counter `json:"total,omitempty"` // of a ratio
	Members     []Member  `json:"members,omitempty"`
}

// Member is a part of a composite. WeightPPM counts for Occurrences alone.
type Member struct {
	Objective string `json:"objective"`
	WeightPPM int64  `json:"weight_ppm"`
}

// Method is what a budget is made of.
type Method string

// The budgeting methods.
const (
	Occurrences     Method = "occurrences"      // events
	Timeslices      Method = "timeslices"       // slices of time, each good or bad
	RatioTimeslices Method = "ratio_timeslices" // slices of time, each as bad as its share of bad events
)

// ChaosMode says what the failures of experiments do to the budget. Both figures
// are always shown.
type ChaosMode string

// The modes. Users did suffer, so counting is the default.
const (
	ChaosCount   ChaosMode = "count"
	ChaosExclude ChaosMode = "exclude"
	ChaosCap     ChaosMode = "cap" // up to ChaosCapPPM of the budget is spared, the rest counts
)

// Quantile is the objective "the q quantile is within limit" as the ratio it is.
func Quantile(o Objective, qPPB int64, limit time.Duration) Objective {
	t := o.terms()
	t.Indicator = Indicator{Kind: Latency, Limit: limit, QuantilePPB: qPPB}
	o.TargetPPB, o.Terms = qPPB, &t
	return o
}

// terms are o's terms with what was left out filled in.
func (o Objective) terms() Terms {
	var t Terms
	if o.Terms != nil {
		t = *o.Terms
	}
	if t.Indicator.Kind == "" {
		t.Indicator.Kind = Availability
	}
	if t.Method == "" {
		t.Method = Occurrences
		if t.Indicator.Kind == Freshness {
			t.Method = Timeslices
		}
	}
	if t.Slice == 0 {
		t.Slice = time.Minute
	}
	if t.SlicePPB == 0 {
		t.SlicePPB = o.TargetPPB
	}
	if t.Chaos == "" {
		t.Chaos = ChaosCount
	}
	return t
}

// Spec returns o's terms with what was left out filled in.
func (o Objective) Spec() Terms { return o.terms() }

// Sliced reports whether o's budget is time and not events.
func (o Objective) Sliced() bool { return o.terms().Method != Occurrences }

// Limit is the latency limit o asks ingest to count by, 0 for none.
func (o Objective) Limit() time.Duration {
	if o.Terms != nil && o.Terms.Indicator.Kind == Latency {
		return o.Terms.Indicator.Limit
	}
	return 0
}

// ErrTerms is wrapped by every refusal of an objective's terms.
var ErrTerms = errors.New("bad objective")

// Check reports everything that is wrong with o, one error a mistake.
func (o Objective) Check() error {
	var errs []error
	bad := func(field, format string, args ...any) {
		errs = append(errs, fmt.Errorf("%w: %s: %s", ErrTerms, field, fmt.Sprintf(format, args...)))
	}
	t := o.terms()
	if o.TargetPPB <= 0 || o.TargetPPB >= whole {
		bad("target", "must be above 0 and below 100 %%, got %s %%", TargetPercent(o.TargetPPB))
		return errors.Join(errs...)
	}
	if o.Window < time.Minute || o.Window%time.Minute != 0 {
		bad("window", "must be whole minutes, got %s", o.Window)
	}
	switch t.Method {
	case Occurrences:
	case Timeslices, RatioTimeslices:
		if t.Slice < time.Minute || t.Slice > time.Hour || t.Slice%time.Minute != 0 || time.Hour%t.Slice != 0 {
			bad("slice", "must be whole minutes that divide an hour, got %s", t.Slice)
		}
		if t.SlicePPB < 0 || t.SlicePPB > whole {
			bad("slice target", "must be up to 100 %%, got %s %%", TargetPercent(t.SlicePPB))
		}
	default:
		bad("method", "must be %s, %s or %s, got %q", Occurrences, Timeslices, RatioTimeslices, t.Method)
	}
	t.Indicator.check(t.Method, bad)
	if t.Calendar != nil {
		if err := t.Calendar.Check(); err != nil {
			bad("calendar", "%v", err)
		}
	} else if t.Planned != 0 {
		bad("planned", "must go with a calendar period: a rolling window is weighed on what it holds")
	}
	if t.Planned < 0 {
		bad("planned", "must not be negative, got %d", t.Planned)
	}
	switch t.Chaos {
	case ChaosCount, ChaosExclude:
		if t.ChaosCapPPM != 0 {
			bad("chaos cap", "must go with mode %s, got mode %s", ChaosCap, t.Chaos)
		}
	case ChaosCap:
		if t.ChaosCapPPM <= 0 || t.ChaosCapPPM > million {
			bad("chaos cap", "must be above 0 and up to 100 %% of the budget, got %d ppm", t.ChaosCapPPM)
		}
	default:
		bad("chaos", "must be %s, %s or %s, got %q", ChaosCount, ChaosExclude, ChaosCap, t.Chaos)
	}
	if t.Chaos != ChaosCount && t.Method != Occurrences {
		bad("chaos", "must be %s where time is budgeted: a slice is not one failure", ChaosCount)
	}
	if t.GroupBy != "" && (t.GroupBy != "route" || t.Method != Occurrences || t.Indicator.Kind == Composite) {
		bad("group_by", "must be route, of an objective on requests, got %q", t.GroupBy)
	}
	for _, p := range t.Pairs {
		switch {
		case p.Long < 12*time.Minute || p.Long%(12*time.Minute) != 0:
			bad("burn rule "+p.Name, "its long window must be whole minutes in each twelfth, got %s", p.Long)
		case p.SpendPPM <= 0:
			bad("burn rule "+p.Name, "must spend more than 0 of the budget, got %d ppm", p.SpendPPM)
		case !p.Reachable(o):
			// Reported here, where somebody can change it: a rule that never fires
			// looks exactly like a service that never fails.
			bad("burn rule "+p.Name, "can never fire: even a total outage burns at %s only, and it waits for %s; spend up to %s within %s can",
				RateMilli(reach(o)), RateMilli(p.ThresholdMilli(o)), Percent(p.rescaled(o).SpendPPM), Span(p.Long))
		}
	}
	return errors.Join(errs...)
}

func (i Indicator) check(m Method, bad func(field, format string, args ...any)) {
	switch i.Kind {
	case Availability, DepTimeout:
	case Latency, Freshness:
		if i.Limit <= 0 {
			bad("limit", "must be a duration above 0, got %s", i.Limit)
		}
		if i.Kind == Freshness && (m != Timeslices || i.Limit > 24*time.Hour || i.Limit%time.Minute != 0) {
			bad("freshness", "must be budgeted in timeslices, with a limit of whole minutes up to a day, got %s and %s", m, i.Limit)
		}
	case RatioOf:
		if len(i.Bad) == 0 || len(i.Total) == 0 {
			bad("ratio", "must name counters for bad and for total")
		}
		for _, c := range slices.Concat(i.Bad, i.Total) {
			if !slices.Contains(Counters(), c) {
				bad("ratio", "must be of counters %v, got %q", Counters(), c)
			}
		}
	case Composite:
		if len(i.Members) == 0 {
			bad("composite", "must have members")
		}
		for _, m := range i.Members {
			if m.Objective == "" || m.WeightPPM <= 0 {
				bad("composite", "each member must name an objective and a weight above 0, got %q with %d ppm", m.Objective, m.WeightPPM)
			}
		}
	default:
		bad("indicator", "must be %s, %s, %s, %s, %s or %s, got %q", Availability, Latency, DepTimeout, RatioOf, Freshness, Composite, i.Kind)
	}
}

// CheckSet reports everything that is wrong with objectives, each alone and
// between them.
func CheckSet(objectives []Objective) error {
	var errs []error
	limits := map[string]Objective{}
	ids := map[string]Objective{}
	for _, o := range objectives {
		ids[o.ID] = o
		if err := o.Check(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", o.ID, err))
		}
	}
	for _, o := range objectives {
		if l := o.Limit(); l > 0 {
			// One exact counter a service: a histogram could only guess where in a
			// bin a limit lies.
			if other, ok := limits[o.Service]; ok && other.Limit() != l {
				errs = append(errs, fmt.Errorf("%w: %s: must have the latency limit %s of %s, since a service counts by one limit, got %s", ErrTerms, o.ID, other.Limit(), other.ID, l))
			}
			limits[o.Service] = o
		}
		for _, m := range o.terms().Indicator.Members {
			part, ok := ids[m.Objective]
			switch {
			case !ok:
				errs = append(errs, fmt.Errorf("%w: %s: member %q is no objective", ErrTerms, o.ID, m.Objective))
			case part.terms().Indicator.Kind == Composite:
				errs = append(errs, fmt.Errorf("%w: %s: member %s is a composite itself", ErrTerms, o.ID, m.Objective))
			case part.Sliced() != o.Sliced():
				errs = append(errs, fmt.Errorf("%w: %s: member %s must be budgeted in %s too, got %s", ErrTerms, o.ID, m.Objective, unitOf(o), unitOf(part)))
			case o.Sliced() && part.terms().Slice != o.terms().Slice:
				errs = append(errs, fmt.Errorf("%w: %s: member %s must have slices of %s too, got %s", ErrTerms, o.ID, m.Objective, o.terms().Slice, part.terms().Slice))
			}
		}
	}
	return errors.Join(errs...)
}

func unitOf(o Objective) string {
	if o.Sliced() {
		return "slices of time"
	}
	return "requests"
}
