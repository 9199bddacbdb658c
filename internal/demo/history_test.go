package demo

import (
	"context"
	"reflect"
	"testing"
	"time"

	"breakwater/slo"
	"breakwater/slo/ingest"
)

func total(batches []*ingest.Batch, service string) slo.Tally {
	var t slo.Tally
	for _, b := range batches {
		for _, r := range b.Rows {
			if r.Service == service {
				t.Good += r.Good
				t.Bad += r.Bad
				t.Neutral += r.Neutral
				t.Exchanges += r.Exchanges
			}
		}
	}
	return t
}

var noon = time.Date(2026, 3, 4, 12, 34, 56, 0, time.UTC)

// The story must come out whatever the seed, the hour and the rate: points has a
// little left, and the scripted outage takes more than that.
func TestHistoryTellsTheStory(t *testing.T) {
	for i, rate := range []float64{20, 60, 400} {
		for seed := range uint64(4) {
			now := noon.Add(time.Duration(4*i+int(seed)) * 2 * time.Hour)
			batches := History(HistoryConfig{Seed: seed, Env: "demo", Until: now, Rate: rate})
			for service, want := range map[string][2]int64{Order: {200_000, 280_000}, Points: {980_000, 990_000}, Inventory: {430_000, 510_000}, Coupon: {80_000, 140_000}} {
				b := slo.Weigh(slo.Objective{TargetPPB: PastOf(service).TargetPPB}, total(batches, service))
				if b.SpentPPM < want[0] || b.SpentPPM > want[1] {
					t.Errorf("rate %v, seed %d: %s has spent %d ppm, want %v", rate, seed, service, b.SpentPPM, want)
				}
				if service != Points {
					continue
				}
				outage := int64(rate * (rateShare("points-deduct") + rateShare("points-balance")) * Script().For.Seconds())
				if b.Remaining <= 0 || b.Remaining > outage*3/4 {
					t.Errorf("rate %v, seed %d: points has %d left, an outage takes %d", rate, seed, b.Remaining, outage)
				}
			}
		}
	}
}

func TestHistoryIsSound(t *testing.T) {
	cfg := HistoryConfig{Seed: 3, Env: "demo", Until: noon}
	batches := History(cfg)
	if len(batches) != 31 { // thirty days and the begun hour
		t.Errorf("%d batches", len(batches))
	}
	type key struct {
		route string
		at    time.Time
	}
	seen := make(map[key]bool)
	var minutes int
	for i, b := range batches {
		if b.Key.Seq != int64(i+1) || b.Key.Last != (i == len(batches)-1) || i > 0 && !b.Key.From.Equal(batches[i-1].Key.Until) {
			t.Errorf("batch %d: %+v", i, b.Key)
		}
		if err := ingest.Check(&b.Key); err != nil {
			t.Error(err)
		}
		minutes += len(b.Minutes)
		var exchanges int64
		for _, r := range b.Rows {
			exchanges += r.Exchanges
			if r.At.Before(b.Key.From) || !r.At.Before(b.Key.Until) || seen[key{r.Route, r.At}] || !r.At.Equal(r.At.Truncate(time.Minute)) {
				t.Fatalf("row %+v is not of %+v, or twice", r.Key, b.Key)
			}
			seen[key{r.Route, r.At}] = true
			if r.Good < 0 || r.Bad < 0 || r.Good+r.Bad+r.Neutral != r.Exchanges || r.Hist.Bins().Count() != r.Good+r.Bad ||
				r.Attempts < r.Exchanges || r.Recovered > r.Retried || r.FirstTryBad < r.Bad {
				t.Fatalf("row %+v does not add up", r)
			}
		}
		if exchanges != b.Exchanges {
			t.Errorf("batch %d: %d exchanges, rows have %d", i, b.Exchanges, exchanges)
		}
	}
	if want := int(batches[len(batches)-1].Key.Until.Sub(batches[0].Key.From) / time.Minute); minutes != want {
		t.Errorf("%d minutes reported, want %d", minutes, want)
	}
	if !reflect.DeepEqual(batches, History(cfg)) {
		t.Error("one seed made two histories")
	}
	short := History(HistoryConfig{Seed: 3, Until: noon, Days: 15})
	if b := slo.Weigh(slo.Objective{TargetPPB: 999_000_000}, total(short, Points)); b.SpentPPM < 980_000 || b.SpentPPM > 990_000 {
		t.Errorf("fifteen days: points has spent %d ppm", b.SpentPPM)
	}
}

// keeper takes each batch once, like the ledger, until it forgets the keys.
type keeper struct {
	keys    map[int64]bool
	counted int
	stopped bool
}

func (k *keeper) Ingest(_ context.Context, batches ...*ingest.Batch) (already []bool, err error) {
	for _, b := range batches {
		was := k.keys[b.Key.Seq]
		k.keys[b.Key.Seq] = true
		if !was {
			k.counted++
		}
		k.stopped = k.stopped || b.Key.Last
		already = append(already, was)
	}
	return already, nil
}

func (k *keeper) GatewayStopped(_ context.Context, _, gateway string) (bool, error) {
	return k.stopped && gateway == HistoryGateway, nil
}

func TestBackfillCountsOnceThoughTheLedgerForgetsItsKeys(t *testing.T) {
	k := &keeper{keys: map[int64]bool{}}
	for start := range 3 {
		cfg := HistoryConfig{Until: noon.Add(time.Duration(start) * day)}
		if err := Backfill(t.Context(), k, cfg); err != nil || k.counted != 31 {
			t.Errorf("start %d: %d batches counted, %v; want 31", start, k.counted, err)
		}
		clear(k.keys) // as the ledger's pruning does
	}
}
