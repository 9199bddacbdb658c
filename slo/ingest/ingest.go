// Package ingest turns batches of retry-log lines into minute rows, each batch
// counted once.
package ingest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"breakwater/internal/retrylog"
)

// Batch is what one request adds to the ledger.
type Batch struct {
	Key      retrylog.Batch
	Received time.Time
	BadLines int64
	Folded
	// Minutes is what the batch says of its gateway's time, ascending.
	Minutes []Minute
	// File is set where it comes from a file and not from a gateway: it then says
	// nothing of anybody's time, and is added only where it joins on to what was
	// read before. Key.Seq is the number of its last line.
	File *FileSpan
}

// Minute is a part of a minute that a gateway has reported on.
type Minute struct {
	At        time.Time
	CoveredUS int64
	Lost      int64 // events known to be missing
}

// Store keeps the ledger. It adds all batches or none. A batch whose key it knows
// it does not add again, and says so.
type Store interface {
	Ingest(ctx context.Context, batches ...*Batch) (already []bool, err error)
}

// Check reports everything that is wrong with the identity of a batch.
func Check(k *retrylog.Batch) error {
	var errs []error
	for _, f := range []struct{ name, value string }{{"gateway", k.Gateway}, {"boot", k.Boot}} {
		if f.value == "" || clean(f.value) != f.value {
			errs = append(errs, fmt.Errorf("%s: must be 1 to %d bytes of text, got %.40q", f.name, maxKey, f.value))
		}
	}
	if clean(k.Env) != k.Env {
		errs = append(errs, fmt.Errorf("env: must be up to %d bytes of text, got %.40q", maxKey, k.Env))
	}
	if k.Seq < 1 {
		errs = append(errs, fmt.Errorf("seq: must be at least 1, got %d", k.Seq))
	}
	if k.Lost < 0 {
		errs = append(errs, fmt.Errorf("lost: must not be negative, got %d", k.Lost))
	}
	if k.From.IsZero() || k.Until.Before(k.From) {
		errs = append(errs, fmt.Errorf("from, until: must be instants in this order, got %s and %s",
			k.From.Format(time.RFC3339Nano), k.Until.Format(time.RFC3339Nano)))
	}
	return errors.Join(errs...)
}

// newBatch puts together what was read under a key.
func newBatch(k retrylog.Batch, f Folded, badLines int64, now time.Time) *Batch {
	// A clock ahead of ours must not promise what has not happened yet, nor one
	// that was away say that it reported what came too late to be counted.
	k.From, k.Until = k.From.UTC(), k.Until.UTC()
	if latest := now.Add(MaxAhead); k.Until.After(latest) {
		k.Until = latest
		if k.From.After(latest) {
			k.From = latest
		}
	}
	b := &Batch{Key: k, Received: now, BadLines: badLines, Folded: f}
	from := k.From
	if oldest := now.Add(-MaxLate); from.Before(oldest) {
		from = oldest
	}
	b.Minutes = minutes(from, k.Until)
	// Whatever a batch lost, it lost before its end.
	if lost := k.Lost + badLines + f.TooLate + f.Future; lost > 0 {
		if len(b.Minutes) == 0 {
			b.Minutes = []Minute{{At: k.Until.Truncate(time.Minute)}}
		}
		b.Minutes[len(b.Minutes)-1].Lost = lost
	}
	return b
}

// minutes cuts [from, until) at whole minutes.
func minutes(from, until time.Time) []Minute {
	var out []Minute
	for from.Before(until) {
		at := from.Truncate(time.Minute)
		end := at.Add(time.Minute)
		if end.After(until) {
			end = until
		}
		out = append(out, Minute{At: at, CoveredUS: end.Sub(from).Microseconds()})
		from = end
	}
	return out
}
