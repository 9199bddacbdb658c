package now

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/slo"
)

// Situation is the whole answer about one service.
type Situation struct {
	Service string    `json:"service"`
	Env     string    `json:"env"`
	State   State     `json:"state"`
	At      time.Time `json:"at"`
	// DataUntil is how far the reports of gateways reach; null: nobody reports.
	DataUntil *time.Time `json:"data_until"`
	// Silent: there is no data since no gateway has reported for three minutes.
	Silent bool `json:"silent"`
	// Stale: the database is away, and this is what was last known.
	Stale      bool         `json:"stale"`
	Since      *time.Time   `json:"since"` // null: nobody suffers
	Headline   string       `json:"headline"`
	Who        Who          `json:"who"`
	Measure    Measure      `json:"measure"`
	Protecting []Protection `json:"protecting"`
	Causes     []Cause      `json:"causes"`
	Happened   []Happening  `json:"happened"`
}

// Who says who is hit.
type Who struct {
	Hits      int64   `json:"hits"`
	Asked     int64   `json:"asked"`
	Throttled int64   `json:"throttled"` // of hits: told to come later
	HitPPM    *int64  `json:"hit_ppm"`   // null: no data
	WasPPM    *int64  `json:"was_ppm"`   // before the onset; null: nothing was asked
	PerMinute int64   `json:"per_minute"`
	Callers   []Share `json:"callers"`
	Tenants   []Share `json:"tenants"`
	Routes    []Share `json:"routes"`
	Works     string  `json:"works"` // what goes on to work
	Text      string  `json:"text"`
}

// Share is one value's part of the failures and of the traffic.
type Share struct {
	Value      string `json:"value"`
	Hits       int64  `json:"hits"`
	Asked      int64  `json:"asked"`
	HitsPPM    int64  `json:"failures_ppm"` // of all failures
	TrafficPPM int64  `json:"traffic_ppm"`
	OwnPPM     int64  `json:"hit_ppm"` // of its own requests
}

// Measure says by what it is measured.
type Measure struct {
	Objective    string     `json:"objective"` // "": none is promised
	TargetPPB    int64      `json:"target_ppb"`
	SuccessPPM   *int64     `json:"success_ppm"`   // valid requests since the onset that were answered well
	FirstTryPPM  *int64     `json:"first_try_ppm"` // if no retry had helped
	BurnMilli    *int64     `json:"burn_milli"`    // over five minutes
	BurnHour     *int64     `json:"burn_hour_milli"`
	RemainingPPM *int64     `json:"remaining_ppm"`
	Level        slo.Level  `json:"level"`
	EmptyAt      *time.Time `json:"empty_at"`
	ThawAt       *time.Time `json:"thaw_at"`
	Text         string     `json:"text"`
}

// Protection is what acts, or does not.
type Protection struct {
	Kind  string     `json:"kind"`
	Acts  bool       `json:"acts"`
	Since *time.Time `json:"since,omitempty"`
	Text  string     `json:"text"`
}

// Happening is one line of what happened.
type Happening struct {
	At   time.Time `json:"at"`
	Kind string    `json:"kind"`
	Text string    `json:"text"`
}

const mostShares = 10

// Assess makes the answer of what is known. statuses are those of the service's
// objectives in its environment; none is no mistake.
func Assess(e Evidence, statuses []slo.Status, at time.Time) Situation {
	span := Find(e.Minutes, at)
	silent := span.State == Fine && !e.heard(at)
	if silent {
		span.State = NoData
	}
	w := newWeigher(&e, span)
	s := Situation{Service: e.Service, Env: e.Env, State: span.State, Silent: silent, At: at, Causes: []Cause{}}
	if !e.Until.IsZero() {
		s.DataUntil = &e.Until
	}
	if suffers := span.State == Hit || span.State == Covered; suffers {
		s.Since = &w.since
		s.Causes = w.rank()
	}
	s.Who = w.who()
	s.Measure = w.measure(statuses)
	s.Protecting = w.protecting(statuses)
	s.Happened = w.happened()
	s.Headline = headline(&s, at)
	return s
}

// heard says whether what is known reaches to at: that nobody complains is no news from
// somebody who no longer speaks.
func (e *Evidence) heard(at time.Time) bool {
	return at.Sub(e.Until) <= freshWithin || slices.ContainsFunc(e.Minutes, func(m Minute) bool { return m.Exchanges > 0 && at.Sub(m.At) <= freshWithin })
}

func headline(s *Situation, at time.Time) string {
	switch s.State {
	case NoData:
		text := "No data of " + s.Service + ": nothing was reported for ten minutes"
		if s.Silent {
			text = "No data of " + s.Service + ": no gateway has reported for three minutes"
		}
		if s.DataUntil != nil {
			text += ", reports reach until " + clock(*s.DataUntil)
		}
		return text + "."
	case Fine:
		return s.Service + " is fine: nobody is hit beyond what is usual."
	case Covered:
		return fmt.Sprintf("%s fails behind its retries and fallbacks since %s (%s); users are hardly hit.", s.Service, clock(*s.Since), slo.Span(max(at.Sub(*s.Since), 0).Truncate(time.Second)))
	}
	verb := "is failing"
	if s.Who.Throttled*2 > s.Who.Hits {
		verb = "refuses requests"
	}
	return fmt.Sprintf("%s %s since %s, for %s.", s.Service, verb, clock(*s.Since), slo.Span(max(at.Sub(*s.Since), 0).Truncate(time.Second)))
}

// clock is a time of day: what is asked now happened today.
func clock(t time.Time) string { return t.UTC().Format("15:04:05Z") }

func (w *weigher) who() Who {
	out := Who{Hits: w.now.Hits(), Asked: w.now.Asked(), Throttled: w.now.Throttled, Callers: []Share{}, Tenants: []Share{}, Routes: []Share{}}
	if w.span.State == NoData || out.Asked == 0 {
		out.Text = "no data"
		return out
	}
	out.HitPPM = new(part(out.Hits, out.Asked))
	if w.was.Asked() > 0 {
		out.WasPPM = new(part(w.was.Hits(), w.was.Asked()))
	}
	for _, list := range []struct {
		dimension string
		into      *[]Share
	}{{ByCaller, &out.Callers}, {ByTenant, &out.Tenants}, {ByRoute, &out.Routes}} {
		*list.into = w.shares(list.dimension, out)
	}
	if lasted := w.e.At.Sub(w.since); lasted >= time.Second {
		out.PerMinute = mulDiv(out.Hits, int64(time.Minute), int64(max(lasted, 10*time.Second)))
	}
	var whole []string
	for _, r := range out.Routes {
		if r.OwnPPM < leastPPM {
			whole = append(whole, r.Value)
		}
	}
	if len(whole) > 0 {
		slices.Sort(whole)
		out.Works = strings.Join(whole, ", ")
	}
	out.Text = fmt.Sprintf("%s of the requests of %s are hit: %s of %s", slo.Percent(*out.HitPPM), w.e.Service, slo.Count(out.Hits), slo.Count(out.Asked))
	var most []string
	for _, c := range out.Callers[:min(len(out.Callers), 3)] {
		if c.Hits > 0 {
			most = append(most, fmt.Sprintf("%s %s", c.Value, slo.Percent(c.HitsPPM)))
		}
	}
	if len(most) > 0 {
		out.Text += "; callers " + strings.Join(most, ", ")
	}
	return out
}

func (w *weigher) shares(dimension string, all Who) []Share {
	out := []Share{}
	for _, f := range w.e.Facets {
		if f.Dimension == dimension {
			out = append(out, Share{Value: f.Value, Hits: f.Hits, Asked: f.Total, HitsPPM: min(part(f.Hits, all.Hits), million),
				TrafficPPM: min(part(f.Total, all.Asked), million), OwnPPM: part(f.Hits, f.Total)})
		}
	}
	slices.SortStableFunc(out, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Hits, a.Hits), cmp.Compare(b.Asked, a.Asked), cmp.Compare(a.Value, b.Value))
	})
	return out[:min(len(out), mostShares)]
}

func (w *weigher) measure(statuses []slo.Status) Measure {
	m := Measure{Level: slo.Unknown}
	var parts []string
	if valid := w.now.Good + w.now.Bad; valid > 0 && w.span.State != NoData {
		// What was refused had no try that could fail, and is bad all the same.
		firstBad := min(max(w.now.FirstTryBad, w.now.Bad+w.now.Recovered), valid)
		m.SuccessPPM, m.FirstTryPPM = new(part(w.now.Good, valid)), new(part(valid-firstBad, valid))
		parts = append(parts, fmt.Sprintf("%s success", slo.Share(w.now.Good, valid)))
		if *m.FirstTryPPM != *m.SuccessPPM {
			parts[0] += fmt.Sprintf(" (%s at the first try)", slo.Share(valid-firstBad, valid))
		}
	}
	if w.now.Throttled > 0 {
		parts = append(parts, slo.Count(w.now.Throttled)+" told to come later, which no availability target counts")
	}
	if len(statuses) == 0 {
		m.Text = cmp.Or(strings.Join(append(parts, "nothing is promised for "+w.e.Service), "; "), "no data")
		return m
	}
	st, _ := slo.Worst(statuses)
	m.Objective, m.TargetPPB, m.Level = st.Objective.ID, st.Objective.TargetPPB, st.Level
	parts = append(parts, "target "+slo.Target(st.Objective.TargetPPB))
	for _, b := range []struct {
		window time.Duration
		into   **int64
	}{{5 * time.Minute, &m.BurnMilli}, {time.Hour, &m.BurnHour}} {
		if burn := st.Burn(b.window); !burn.NoData {
			*b.into = new(burn.RateMilli)
			parts = append(parts, fmt.Sprintf("burns at %s over %s", slo.Rate(burn), slo.Span(b.window)))
		}
	}
	if !st.Budget.NoData {
		m.RemainingPPM = new(st.Budget.RemainingPPM)
		parts = append(parts, slo.Percent(st.Budget.RemainingPPM)+" of the budget is left")
	}
	if !st.EmptyAt.IsZero() {
		m.EmptyAt = new(st.EmptyAt)
		parts = append(parts, "empty "+slo.Clock(st.EmptyAt))
	}
	if !st.ThawAt.IsZero() {
		m.ThawAt = new(st.ThawAt)
		parts = append(parts, "thaws "+slo.Clock(st.ThawAt))
	}
	m.Text = strings.Join(parts, "; ")
	return m
}
