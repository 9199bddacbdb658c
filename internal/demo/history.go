package demo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"breakwater/internal/retrylog"
	"breakwater/slo"
	"breakwater/slo/ingest"
)

// HistoryConfig shapes the past of the demo.
type HistoryConfig struct {
	Seed  uint64
	Env   string
	Until time.Time // its end; the minute under way is left to live traffic
	Days  int       // 0: 30, the window of the demo's promises
	Rate  float64   // requests a second of all callers; 0: DefaultRate
}

// HistoryGateway is the gateway that the history is said to come from.
const HistoryGateway = "history"

// Past is how one service stands at the end of the history.
type Past struct {
	Service string
	// TargetPPB is the promise, SpentPPM the part of its budget that is gone.
	TargetPPB, SpentPPM int64
	patches             []patch
}

// patch is a bad hour: when it began, how long it lasted, and its part, in parts
// per hundred, of what the bad hours spent together.
type patch struct {
	ago, length time.Duration
	part        int
}

const day = 24 * time.Hour

// Pasts tells the story: order is well, inventory has had bad days, coupon none
// to speak of, and points is one mishap away from a freeze. The first bad hour of
// points leaves the window within a day: then it thaws.
func Pasts() []Past {
	return []Past{
		{Order, 999_000_000, 240_000, []patch{{21*day + 9*time.Hour, 20 * time.Minute, 60}, {8*day + 5*time.Hour, 20 * time.Minute, 40}}},
		{Points, 999_000_000, 985_000, []patch{
			{29*day + 7*time.Hour, 40 * time.Minute, 24}, {17*day + 14*time.Hour, 50 * time.Minute, 33},
			{6*day + 7*time.Hour, time.Hour, 29}, {2*day + 3*time.Hour, 30 * time.Minute, 14}}},
		{Inventory, 999_000_000, 470_000, []patch{
			{24*day + 2*time.Hour, time.Hour, 45}, {12*day + 6*time.Hour, 40 * time.Minute, 30}, {3*day + 16*time.Hour, 40 * time.Minute, 25}}},
		{Coupon, 995_000_000, 110_000, []patch{{10*day + 11*time.Hour, 100 * time.Minute, 100}}},
	}
}

// PastOf is the Past of one service.
func PastOf(service string) Past {
	i := slices.IndexFunc(Pasts(), func(p Past) bool { return p.Service == service })
	if i < 0 {
		return Past{}
	}
	return Pasts()[i]
}

// PastLedger is where a history is kept.
type PastLedger interface {
	ingest.Store
	// GatewayStopped reports whether a gateway of that name said its last word.
	GatewayStopped(ctx context.Context, env, gateway string) (bool, error)
}

// Backfill hands the history to the ledger, a day at a time, as if a gateway had
// reported it, and does nothing where one stands already. Batch keys alone do not
// keep it from counting twice: the ledger forgets keys of days that a gateway
// could not report any more.
func Backfill(ctx context.Context, to PastLedger, cfg HistoryConfig) error {
	done, err := to.GatewayStopped(ctx, cfg.Env, HistoryGateway)
	if err != nil {
		return fmt.Errorf("back-fill: %w", err)
	}
	if done {
		return nil
	}
	for _, b := range History(cfg) {
		if _, err := to.Ingest(ctx, b); err != nil {
			return fmt.Errorf("back-fill the day before %s: %w", b.Key.Until.Format(time.RFC3339), err)
		}
	}
	return nil
}

// A row of the history stands for an hour; for ten minutes in a bad hour; and for
// a single minute in the last hours, where burn rates look at minutes.
const (
	coarse   = time.Hour
	fine     = 10 * time.Minute
	fineTail = 6 * time.Hour
)

// History makes the batches. They are the same for the same config.
func History(cfg HistoryConfig) []*ingest.Batch {
	cfg.Rate = cmp.Or(cfg.Rate, DefaultRate)
	cfg.Days = cmp.Or(cfg.Days, 30)
	until := cfg.Until.UTC().Truncate(time.Minute)
	from := until.Add(-time.Duration(cfg.Days) * day).Truncate(coarse)
	rows := make(map[time.Time][]ingest.Row) // by the beginning of a batch
	for _, p := range Pasts() {
		for _, r := range p.rows(cfg, from, until) {
			k := from.Add(r.At.Sub(from).Truncate(day))
			rows[k] = append(rows[k], r)
		}
	}
	var out []*ingest.Batch
	for at := from; at.Before(until); at = at.Add(day) {
		end := at.Add(day)
		if end.After(until) {
			end = until
		}
		// One boot for every seed and start, so that the ledger takes the
		// history once.
		b := &ingest.Batch{Received: until, Key: retrylog.Batch{Gateway: HistoryGateway, Env: cfg.Env, Boot: "backfill",
			Seq: int64(len(out) + 1), From: at, Until: end, Last: end.Equal(until)}}
		b.Rows = rows[at]
		slices.SortFunc(b.Rows, func(x, y ingest.Row) int {
			return cmp.Or(cmp.Compare(x.Service, y.Service), cmp.Compare(x.Route, y.Route), x.At.Compare(y.At))
		})
		for i := range b.Rows {
			b.Exchanges += b.Rows[i].Exchanges
		}
		for m := at; m.Before(end); m = m.Add(time.Minute) {
			b.Minutes = append(b.Minutes, ingest.Minute{At: m, CoveredUS: time.Minute.Microseconds()})
		}
		out = append(out, b)
	}
	return out
}

// rows makes the past of one service: the traffic first, then the everyday
// failures, then the bad hours, so large that exactly SpentPPM is gone.
func (p Past) rows(cfg HistoryConfig, from, until time.Time) []ingest.Row {
	rnd := rand.New(rand.NewPCG(cfg.Seed, uint64(draw(cfg.Seed, "history", p.Service)*(1<<53))))
	var ops []Operation
	var rates []float64
	for _, op := range Operations() {
		if op.Service == p.Service {
			ops = append(ops, op)
			rates = append(rates, cfg.Rate*rateShare(op.Route))
		}
	}
	var rows []ingest.Row
	var valid, bad int64
	for at := from; at.Before(until); {
		length := p.step(at, until)
		for i, op := range ops {
			n := rates[i] * dailyCurve(at) * length.Seconds() * (0.94 + 0.12*rnd.Float64())
			r := everyday(rnd, op, int64(n))
			r.Key = ingest.Key{Service: p.Service, Env: cfg.Env, Route: op.Route, Upstream: p.Service, At: at}
			rows = append(rows, r)
			valid += r.Good + r.Bad
			bad += r.Bad
		}
		at = at.Add(length)
	}
	// In whole events, so that no rate or seed leaves points without its mishap.
	budget := slo.Weigh(slo.Objective{TargetPPB: p.TargetPPB}, slo.Tally{Good: valid - bad, Bad: bad}).Allowed
	p.spend(rows, from, until, budget*p.SpentPPM/1_000_000-bad)
	for i := range rows {
		measure(&rows[i])
	}
	return rows
}

func (p Past) step(at, until time.Time) time.Duration {
	if until.Sub(at) <= fineTail {
		return time.Minute
	}
	if at.Minute() != 0 || p.during(at, at.Add(coarse), until) >= 0 {
		return fine
	}
	return coarse
}

// during finds the patch that overlaps [from, to); -1: none.
func (p Past) during(from, to, until time.Time) int {
	return slices.IndexFunc(p.patches, func(x patch) bool {
		begin := until.Add(-x.ago).Truncate(fine)
		return begin.Before(to) && from.Before(begin.Add(x.length))
	})
}

// spend turns n good answers bad, in the bad hours.
func (p Past) spend(rows []ingest.Row, from, until time.Time, n int64) {
	parts := 0
	for _, x := range p.patches {
		if !until.Add(-x.ago).Truncate(fine).Before(from) {
			parts += x.part
		}
	}
	if parts == 0 || n <= 0 {
		return
	}
	left := n
	for i, x := range p.patches {
		var hit []*ingest.Row
		var good int64
		for j := range rows {
			if p.during(rows[j].At, rows[j].At.Add(fine), until) == i {
				hit = append(hit, &rows[j])
				good += rows[j].Good
			}
		}
		// Never more than most of what there was: an outage has survivors.
		share := min(n*int64(x.part)/int64(parts), good*9/10, left)
		for _, r := range hit {
			more := share * r.Good / max(good, 1)
			r.Good -= more
			r.Bad += more
			left -= more
		}
	}
	// What rounding left over goes to the last bad hour, event by event.
	for j := len(rows) - 1; j >= 0 && left > 0; j-- {
		if p.during(rows[j].At, rows[j].At.Add(fine), until) >= 0 {
			more := min(left, rows[j].Good/20)
			rows[j].Good -= more
			rows[j].Bad += more
			left -= more
		}
	}
}

// rateShare is a route's part of Rate, calls by the order service included.
func rateShare(route string) float64 {
	weight := make(map[string]float64)
	for _, op := range Operations() {
		weight[op.Route] = float64(op.Weight) / 100
	}
	orders := weight["order-create"]
	switch route {
	case "inventory-reserve":
		return weight[route] + orders
	case "points-deduct":
		return weight[route] + orders/3
	case "coupon-redeem":
		return weight[route] + orders/4
	}
	return weight[route]
}

// dailyCurve is the hour's part of the mean: quiet at four in the morning, busy
// at four in the afternoon, less of it at the weekend.
func dailyCurve(at time.Time) float64 {
	hour := float64(at.Hour()) + float64(at.Minute())/60
	c := 1 - 0.55*math.Cos((hour-4)/24*2*math.Pi)
	if wd := at.Weekday(); wd == time.Saturday || wd == time.Sunday {
		c *= 0.75
	}
	return c
}

// everyday is n requests of an ordinary time: a few fail, and where the method
// allows it a second try makes most of those good.
func everyday(rnd *rand.Rand, op Operation, n int64) ingest.Row {
	var r ingest.Row
	r.Exchanges = n
	if op.Route == "coupon-get" {
		r.Neutral = n / 50
	}
	// Rounded up or down by chance, so that small rows add up to the right sum.
	r.FirstTryBad = int64(float64(n)/3000 + rnd.Float64())
	r.FirstTryBad = min(r.FirstTryBad, n-r.Neutral)
	if op.Method == "GET" {
		r.Retried, r.Recovered = r.FirstTryBad, r.FirstTryBad
	} else {
		r.Bad = r.FirstTryBad
	}
	r.Good = n - r.Neutral - r.Bad
	return r
}

// measure fills in what follows from the outcome: tries, and how long it took.
func measure(r *ingest.Row) {
	i := slices.IndexFunc(Operations(), func(o Operation) bool { return o.Route == r.Route })
	op := Operations()[i]
	if hard := r.Bad - max(0, r.FirstTryBad-r.Recovered); hard > 0 { // of a bad hour
		r.FirstTryBad += hard
		if op.Method == "GET" {
			r.Retried += hard
		}
	}
	r.Attempts = r.Exchanges + r.Retried
	// Sixteen equal parts of the curve that the shop's answers follow.
	const parts = 16
	valid := r.Good + r.Bad
	for k := int64(0); k < parts; k++ {
		d := (float64(k) + 0.5) / parts
		us := int64(2500 + d*d*d*18_000)
		if op.Route == "order-create" {
			us = us*2 + 9000 // it waits for two or three others
		}
		n := valid*(k+1)/parts - valid*k/parts
		r.Hist.Add(us, n)
		r.LatencyUS += us * n
	}
}
