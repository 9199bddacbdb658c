package readiness

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Day is how ready a service was when it was looked at last on one day.
type Day struct {
	Day     string           `json:"day"` // 2026-03-03, of UTC
	Ready   int              `json:"ready"`
	No      int              `json:"no"`
	Unknown int              `json:"unknown"`
	Of      int              `json:"of"`
	States  map[string]State `json:"states"` // of each item
	At      time.Time        `json:"at"`
}

// Change is an item that was answered otherwise than on the day before it in a Trend.
type Change struct {
	Day  string `json:"day"`
	Item string `json:"item"`
	From State  `json:"from"`
	To   State  `json:"to"`
}

// Trend is how ready one service was over time. A day on which nobody could look is
// not in it: nothing is filled in.
type Trend struct {
	Service string   `json:"service"`
	Days    []Day    `json:"days"`    // oldest first
	Changes []Change `json:"changes"` // newest first
}

// DayOf is a day made of answers given at now.
func DayOf(all []Answer, now time.Time) Day {
	states := make(map[string]State, len(all))
	for _, a := range all {
		states[a.ID] = a.State
	}
	return Counted(states, now)
}

// Counted is the day of now with these states.
func Counted(states map[string]State, now time.Time) Day {
	d := Day{Day: now.UTC().Format(time.DateOnly), Of: len(states), States: states, At: now.UTC()}
	for _, s := range states {
		switch s {
		case Yes:
			d.Ready++
		case No:
			d.No++
		default:
			d.Unknown++
		}
	}
	return d
}

// TrendOf puts days in order and says what changed from each to the next.
func TrendOf(service string, days []Day) Trend {
	t := Trend{Service: service, Days: slices.Clone(days), Changes: []Change{}}
	if t.Days == nil {
		t.Days = []Day{}
	}
	slices.SortFunc(t.Days, func(a, b Day) int { return a.At.Compare(b.At) })
	for i := len(t.Days) - 1; i > 0; i-- {
		for _, id := range Items() {
			// An item that one of the two days does not know was asked by another
			// version: it has not changed.
			from, was := t.Days[i-1].States[id]
			to, is := t.Days[i].States[id]
			if was && is && from != to {
				t.Changes = append(t.Changes, Change{t.Days[i].Day, id, from, to})
			}
		}
	}
	return t
}

// Gained is how many more answers are yes on the last day than on the first.
func (t Trend) Gained() int {
	if len(t.Days) == 0 {
		return 0
	}
	return t.Days[len(t.Days)-1].Ready - t.Days[0].Ready
}

// Days keeps them.
type Days interface {
	KeepReadyDay(ctx context.Context, service string, d Day) error
	// ReadyDays are those of one service, or of all for "", not older than since, the
	// oldest first.
	ReadyDays(ctx context.Context, service string, since time.Time) (map[string][]Day, error)
	// ReadyCounts are those of all, with the States of the last day of each alone: a
	// quarter of all services is long.
	ReadyCounts(ctx context.Context, since time.Time) (map[string][]Day, error)
}

// Recorder looks at every service again and again, so that there is a day to show
// for each day on which control ran. Several may do so: the newest look is kept.
type Recorder struct {
	Services func(ctx context.Context) ([]string, error)
	Assess   func(ctx context.Context, service string) ([]Answer, error)
	Now      func(ctx context.Context) (time.Time, error)
	Days     Days
	Log      *slog.Logger
	// Ready reports whether promises are evaluated; nil: they always are. A look before
	// would write down that nothing is promised, and that would stand for a quarter of an
	// hour.
	Ready func() bool
}

// lookEvery is how often a Recorder looks: the last look of a day is at most this
// much older than its end.
const lookEvery = 15 * time.Minute

// readyEvery is how often a Recorder that may not look yet asks whether it may.
const readyEvery = time.Second

// Run looks until ctx ends.
func (r *Recorder) Run(ctx context.Context) error {
	for r.Ready != nil && !r.Ready() {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(readyEvery):
		}
	}
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		if err := r.Tick(ctx); err != nil && ctx.Err() == nil {
			r.Log.Error("readiness is not written down", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Tick looks at every service once. One that cannot be looked at does not hide the
// others.
func (r *Recorder) Tick(ctx context.Context) error {
	services, err := r.Services(ctx)
	if err != nil {
		return err
	}
	var all error
	for _, s := range services {
		all = errors.Join(all, r.look(ctx, s))
	}
	return all
}

func (r *Recorder) look(ctx context.Context, service string) error {
	now, err := r.Now(ctx)
	if err != nil {
		return err
	}
	answers, err := r.Assess(ctx, service)
	if err != nil {
		return fmt.Errorf("assess %s: %w", service, err)
	}
	return r.Days.KeepReadyDay(ctx, service, DayOf(answers, now))
}

// Look is how trends are read: of every service that is known, by name, a service
// without a day among them.
func (r *Recorder) Look(ctx context.Context, service string, since time.Time) ([]Trend, error) {
	days, err := r.Days.ReadyDays(ctx, service, since)
	if err != nil {
		return nil, err
	}
	if service != "" {
		return []Trend{TrendOf(service, days[service])}, nil
	}
	return r.trends(ctx, days)
}

// Glance is Look at all services without what changed: only the last day of each has
// its States.
func (r *Recorder) Glance(ctx context.Context, since time.Time) ([]Trend, error) {
	days, err := r.Days.ReadyCounts(ctx, since)
	if err != nil {
		return nil, err
	}
	return r.trends(ctx, days)
}

func (r *Recorder) trends(ctx context.Context, days map[string][]Day) ([]Trend, error) {
	names, err := r.Services(ctx)
	if err != nil {
		return nil, err
	}
	out := []Trend{}
	for _, name := range slices.Sorted(slices.Values(names)) {
		out = append(out, TrendOf(name, days[name]))
	}
	return out, nil
}
