package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"breakwater/slo"
)

// silence is how long a gateway may say nothing before the watermark goes on
// without it; from then on it costs coverage.
const silence = 2 * time.Minute

// A service counts in every environment it was ever seen in. The watermark is
// the last instant all live gateways of the environment have reported; with none
// alive, the furthest any did.
const budgetsSQL = objectiveColumns + `,
    coalesce(e.env, '') as env, e.env is not null as seen, w.until_at,
    s.level, s.measured, s.since as state_since, s.frozen_at, s.good_since, s.at as state_at, s.reason
from objective o
left join (
    select service, env from slo_scope
    union
    select service, env from slo_dirty
) e on e.service = o.service
left join lateral (
    select coalesce(min(until_at) filter (where not stopped and last_ack >= @alive), max(until_at)) as until_at
    from gateway where env = e.env
) w on true
left join slo_state s on s.service = o.service and s.objective = o.id and s.env = e.env
where o.retired_at is null
order by o.service, o.id, e.env`

type budgetRow struct {
	objectiveRow
	Env        string
	Seen       bool
	UntilAt    *time.Time `db:"until_at"`
	Level      *string
	Measured   *string
	StateSince *time.Time `db:"state_since"`
	FrozenAt   *time.Time `db:"frozen_at"`
	GoodSince  *time.Time `db:"good_since"`
	StateAt    *time.Time `db:"state_at"`
	Reason     *string
}

func (r budgetRow) state() slo.State {
	if r.Level == nil {
		return slo.State{}
	}
	return slo.State{Level: slo.Level(*r.Level), Measured: slo.Level(*r.Measured), Since: timeOf(r.StateSince).UTC(),
		FrozenAt: timeOf(r.FrozenAt), GoodSince: timeOf(r.GoodSince), At: timeOf(r.StateAt), Reason: *r.Reason}
}

// snapshot reads everything at one instant.
func (s *Store) snapshot(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, do)
}

// ReadBudgets answers q from one snapshot: counts of windows that end at the
// same watermark, and the states they are to move, cannot disagree.
func (s *Store) ReadBudgets(ctx context.Context, q slo.Question) ([]slo.Measured, error) {
	var out []slo.Measured
	err := s.snapshot(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, budgetsSQL, pgx.StrictNamedArgs{"alive": q.Now.Add(-silence)})
		if err != nil {
			return err
		}
		found, err := pgx.CollectRows(rows, pgx.RowToStructByName[budgetRow])
		if err != nil {
			return err
		}
		out = make([]slo.Measured, len(found))
		for i, r := range found {
			o, err := r.value()
			if err != nil {
				return err
			}
			out[i] = slo.Measured{Objective: o.At(timeOf(r.UntilAt)), Env: r.Env, Seen: r.Seen, DataUntil: timeOf(r.UntilAt), State: r.state()}
		}
		if err := s.measure(ctx, tx, out, q); err != nil {
			return err
		}
		if !q.Whole {
			return nil
		}
		known := map[stretchOf]reported{}
		for i := range out {
			if err := coverage(ctx, tx, &out[i], q.Now, known); err != nil {
				return err
			}
			if err := groups(ctx, tx, &out[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read budgets: %w", err)
	}
	return out, nil
}

// reader gathers what has to be summed for many objectives, so that all of it is
// one question.
type reader struct {
	sums, hours asks
	wide        bool // hours are asked for of a promise that counts more than good and bad
	slices      []sliceAsk
	fill        []func(sums []slo.Tally, hours [][]hour)
}

// measure reads what was counted of each objective, over the spans of its frame.
func (s *Store) measure(ctx context.Context, tx pgx.Tx, out []slo.Measured, q slo.Question) error {
	corrections, err := activeCorrections(ctx, tx)
	if err != nil {
		return err
	}
	byID := map[string]slo.Objective{}
	for _, m := range out {
		byID[m.Objective.ID] = m.Objective
	}
	var r reader
	r.sums.shared = q.Now.UTC().Truncate(day).Add(-sharedBack)
	for i := range out {
		m := &out[i]
		members := []slo.Member{{Objective: m.Objective.ID, WeightPPM: 1_000_000}}
		if m.Objective.Spec().Indicator.Kind == slo.Composite {
			members = m.Objective.Spec().Indicator.Members
		}
		m.Parts = make([]slo.Counted, 0, len(members))
		for _, member := range members {
			if part, ok := byID[member.Objective]; ok {
				m.Parts = append(m.Parts, slo.Counted{Objective: part, WeightPPM: member.WeightPPM})
			}
		}
		frame := m.Objective.Frame(m.DataUntil)
		for _, c := range corrections {
			if touches(c, m) && c.To.After(frame.Back) && c.From.Before(frame.End) {
				m.Corrections = append(m.Corrections, c)
			}
		}
		for j := range m.Parts {
			r.part(m, &m.Parts[j], frame, q.Whole)
		}
	}
	counted, err := s.kept.tallies(ctx, tx, &r.sums)
	if err != nil {
		return err
	}
	hourly, err := hours(ctx, tx, &r.hours, !r.wide)
	if err != nil {
		return err
	}
	for _, fill := range r.fill {
		fill(counted, hourly)
	}
	return readSlices(ctx, tx, r.slices)
}

func touches(c slo.Correction, m *slo.Measured) bool {
	if c.Touches(m.Objective, m.Env) {
		return true
	}
	for _, p := range m.Parts {
		if c.Touches(p.Objective, m.Env) {
			return true
		}
	}
	return false
}

// part asks for one part of m. What a correction takes out is summed as well and
// taken off, so that corrected time costs no walk over minutes.
func (r *reader) part(m *slo.Measured, p *slo.Counted, f slo.Frame, whole bool) {
	service, env := p.Objective.Service, m.Env
	if m.Objective.Sliced() {
		r.slices = append(r.slices, sliceAsk{p, env, f.Back, f.Running.To})
		return
	}
	r.span(m, service, f.Closed, &p.Closed)
	r.span(m, service, f.Running, &p.Running)
	windows := m.Objective.Windows()
	p.Burns = make([]slo.Sums, len(windows))
	for i, w := range windows {
		r.span(m, service, f.Burn(m.Objective, w), &p.Burns[i])
	}
	if !whole {
		return
	}
	o := p.Objective
	r.wide = r.wide || !o.Plain()
	all := len(r.hours.service)
	r.hours.addHours(ask{service, env, f.Running.From, f.Running.To})
	removed, up := slo.Corrected(m.Corrections, f.Running.From, f.Running.To)
	for _, c := range append(removed[:len(removed):len(removed)], up...) {
		r.hours.addHours(ask{service, env, c.From, c.To})
	}
	r.fill = append(r.fill, func(_ []slo.Tally, hours [][]hour) {
		p.Hours = slots(o, hours[all], hours[all+1:all+1+len(removed)], hours[all+1+len(removed):all+1+len(removed)+len(up)])
	})
}

func (r *reader) span(m *slo.Measured, service string, p slo.Period, into *slo.Sums) {
	first := len(r.sums.service)
	removed, up := slo.Corrected(m.Corrections, p.From, p.To)
	r.sums.add(ask{service, m.Env, p.From, p.To})
	for _, c := range removed {
		r.sums.add(ask{service, m.Env, c.From, c.To})
	}
	for _, c := range up {
		r.sums.add(ask{service, m.Env, c.From, c.To})
	}
	r.fill = append(r.fill, func(sums []slo.Tally, _ [][]hour) {
		into.All = sums[first]
		for _, t := range sums[first+1 : first+1+len(removed)] {
			into.All = into.All.Minus(t)
		}
		for _, t := range sums[first+1+len(removed) : first+1+len(removed)+len(up)] {
			into.Up = into.Up.Plus(t)
		}
	})
}

// slots makes hours of o's events, less what was removed of each, and with what
// counts as up taken off the bad ones.
func slots(o slo.Objective, all []hour, removed, up [][]hour) []slo.Slot {
	valid, bad, chaos := o.Forms()
	off, good := byHour(removed), byHour(up)
	out := make([]slo.Slot, 0, len(all))
	for _, h := range all {
		t := h.tally.Minus(off[h.at])
		v := valid.Of(t)
		b := min(max(bad.Of(t)-bad.Of(good[h.at]), 0), v)
		if v > 0 {
			out = append(out, slo.Slot{At: h.at, For: time.Hour, Valid: v, Bad: b, ChaosBad: max(chaos.Of(t)-chaos.Of(good[h.at]), 0)})
		}
	}
	return out
}

func byHour(lists [][]hour) map[time.Time]slo.Tally {
	out := map[time.Time]slo.Tally{}
	for _, list := range lists {
		for _, h := range list {
			out[h.at] = out[h.at].Plus(h.tally)
		}
	}
	return out
}

const coverageSQL = `select measured_us, expected_us, lost from gateway_coverage(@env, @since, @until)`

// Hours are exact enough here: they were rolled up a moment ago, and the share
// lost is compared with a limit of ten percent.
const exchangesSQL = `
select coalesce(sum(exchanges), 0)::bigint from service_hour
where env = @env and at >= date_trunc('hour', @since::timestamptz, 'UTC') and at < @until`

// stretchOf names what gateways of an environment reported over a stretch of time.
type stretchOf struct {
	env          string
	since, until time.Time
}

// reported is that: it is of an environment, so hundreds of promises share a few.
type reported struct{ measured, expected, lost, counted int64 }

// coverage sets what share of the gateway-time since the objective began was
// reported, less the events known to be lost. Silence lowers it only once a
// gateway has left the watermark: a second of delay is not a hole. What was read
// for another objective of the same snapshot is known.
func coverage(ctx context.Context, tx pgx.Tx, m *slo.Measured, now time.Time, known map[stretchOf]reported) error {
	until := m.DataUntil
	if quiet := now.Add(-silence); until.Before(quiet) {
		until = quiet
	}
	since := m.Objective.Frame(m.DataUntil).Running.From
	if since.Before(m.Objective.Since) {
		since = m.Objective.Since
	}
	key := stretchOf{m.Env, since, until}
	r, ok := known[key]
	if !ok {
		args := pgx.StrictNamedArgs{"env": m.Env, "since": since, "until": until}
		if err := tx.QueryRow(ctx, coverageSQL, args).Scan(&r.measured, &r.expected, &r.lost); err != nil {
			return fmt.Errorf("coverage of %s: %w", m.Env, err)
		}
		if r.lost > 0 {
			if err := tx.QueryRow(ctx, exchangesSQL, args).Scan(&r.counted); err != nil {
				return fmt.Errorf("exchanges of %s: %w", m.Env, err)
			}
		}
		known[key] = r
	}
	m.CoveragePPM = slo.Part(r.measured, r.expected)
	m.Reported.Lost = r.lost
	m.Reported.MeasuredMins, m.Reported.ExpectedMins = r.measured/60_000_000, (r.expected+59_999_999)/60_000_000
	if r.lost > 0 {
		// What was lost had no service, so it is weighed against all traffic.
		m.CoveragePPM = m.CoveragePPM * slo.Part(r.counted, r.counted+r.lost) / 1_000_000
	}
	return nil
}

func ceilMinute(t time.Time) time.Time { return t.Add(time.Minute - 1).Truncate(time.Minute) }
