package finding

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"breakwater/injector"
)

// Config is what a Desk needs. Only Ledger has no default.
type Config struct {
	Ledger Ledger
	// Audit is told of every change by a person before it takes effect; nil: no audit.
	Audit func(ctx context.Context, actor, action, object, detail string) error
	// Actor says who asks; nil: "unknown".
	Actor func(ctx context.Context) string
	// Covers reports whether whoever asks has a say over a service; nil: everybody.
	Covers func(ctx context.Context, service string) bool
	// Tell tells people of a finding that was opened, came back or is late; nil:
	// nobody. What it says again, receivers may get again.
	Tell func(ctx context.Context, f Finding, why string) error
	// Incident describes what happened to a service; nil: scenarios are not made of it.
	Incident func(ctx context.Context, service string, from, until time.Time) (Incident, error)
	Log      *slog.Logger
}

// Desk is where runs are looked at for findings, and people act on them.
type Desk struct{ cfg Config }

// New returns a Desk.
func New(cfg Config) *Desk {
	if cfg.Audit == nil {
		cfg.Audit = func(context.Context, string, string, string, string) error { return nil }
	}
	if cfg.Actor == nil {
		cfg.Actor = func(context.Context) string { return "unknown" }
	}
	if cfg.Covers == nil {
		cfg.Covers = func(context.Context, string) bool { return true }
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{cfg}
}

// File draws findings from a run that has ended, once. The engine may call it when
// a run ends; Tick does for every run that nobody called it for.
func (d *Desk) File(ctx context.Context, r injector.Run) error {
	if !r.State.Ended() {
		return nil
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	sc, err := injector.ParseText(r.Text)
	if err != nil {
		// Nothing can be drawn from it, now or later.
		d.cfg.Log.Warn("a run's scenario cannot be read", "run", r.ID, "err", err)
	}
	changes, err := d.cfg.Ledger.FileRun(ctx, r, now, func(known []Finding) []Change {
		return Draw(r, sc, known, now)
	})
	if err != nil {
		return fmt.Errorf("findings of run %s: %w", r.ID, err)
	}
	for _, c := range changes {
		if c.Louder {
			d.tell(ctx, c.Finding, c.Event.Text)
		}
	}
	return nil
}

func (d *Desk) tell(ctx context.Context, f Finding, why string) {
	if d.cfg.Tell == nil {
		return
	}
	if err := d.cfg.Tell(ctx, f, why); err != nil {
		d.cfg.Log.Warn("nobody was told of a finding", "finding", f.ID, "err", err)
	}
}

// Tick files what has ended, and escalates what is late.
func (d *Desk) Tick(ctx context.Context) error {
	runs, err := d.cfg.Ledger.Unfiled(ctx, 50)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range runs {
		errs = append(errs, d.File(ctx, r))
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	late, err := d.cfg.Ledger.Findings(ctx, Filter{Overdue: true, Now: now})
	errs = append(errs, err)
	for _, f := range late {
		if !f.EscalatedAt.IsZero() {
			continue
		}
		f, err := d.cfg.Ledger.Turn(ctx, f.ID, func(f Finding) (Change, error) {
			if !f.Overdue(now) || !f.EscalatedAt.IsZero() {
				return Change{}, errAlready
			}
			f.EscalatedAt = now
			return Change{Finding: f, Event: Event{now, "engine", "overdue", "", "was due " + f.DueAt.UTC().Format(time.DateOnly) + " and is told to " + f.Owner}}, nil
		})
		if errors.Is(err, errAlready) {
			continue
		}
		if errs = append(errs, err); err == nil {
			d.tell(ctx, f, "it is overdue since "+f.DueAt.UTC().Format(time.DateOnly))
		}
	}
	return errors.Join(errs...)
}

var errAlready = errors.New("another control has done it")

// Run ticks every two seconds until ctx ends.
func (d *Desk) Run(ctx context.Context) error {
	t := time.NewTicker(2 * time.Second)
	defer t.Stop()
	for {
		if err := d.Tick(ctx); err != nil && ctx.Err() == nil {
			d.cfg.Log.Error("findings tick", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// Overdue lists severe findings that are late at now: what a freeze asks for.
func (d *Desk) Overdue(ctx context.Context, now time.Time) ([]Finding, error) {
	all, err := d.cfg.Ledger.Findings(ctx, Filter{Overdue: true, Now: now})
	var out []Finding
	for _, f := range all {
		if f.Severe() {
			out = append(out, f)
		}
	}
	return out, err
}

// ErrState means that a finding stands so that it cannot be done.
var ErrState = errors.New("the finding does not stand so")

// ErrSelf means that somebody would answer for their own.
var ErrSelf = errors.New("who owns a finding or claims that it is mended cannot accept its risk")

// ErrText means that what was sent is not enough.
var ErrText = errors.New("not enough is said")

// Claim says that a finding is mended, how in words. A run has to show it.
func (d *Desk) Claim(ctx context.Context, id, note string) (Finding, error) {
	actor := d.cfg.Actor(ctx)
	if len(strings.TrimSpace(note)) < 5 {
		return Finding{}, fmt.Errorf("note: must say in 5 letters or more what was changed: %w", ErrText)
	}
	f, now, err := d.stand(ctx, id)
	if err != nil {
		return f, err
	}
	if err := d.cfg.Audit(ctx, actor, "finding.claim", id, note); err != nil {
		return f, err
	}
	return d.cfg.Ledger.Turn(ctx, id, func(f Finding) (Change, error) {
		if f.State == Verified || f.State == Verifying {
			return Change{}, fmt.Errorf("%s is %s: %w", id, f.State, ErrState)
		}
		f.State, f.ClaimedBy, f.ClaimedAt = Claimed, actor, now
		return Change{Finding: f, Event: Event{now, actor, string(Claimed), "", note}}, nil
	})
}

// MaxRisk is how long a risk may be accepted for at once.
const MaxRisk = 366 * 24 * time.Hour

// Accept answers for a finding until an expiry. Neither its owner nor who says it
// is mended may.
func (d *Desk) Accept(ctx context.Context, id, reason string, until time.Time) (Finding, error) {
	actor := d.cfg.Actor(ctx)
	f, now, err := d.stand(ctx, id)
	switch {
	case err != nil:
		return f, err
	case len(strings.TrimSpace(reason)) < 10:
		return f, fmt.Errorf("reason: must say why in 10 letters or more: %w", ErrText)
	case !until.After(now) || until.After(now.Add(MaxRisk)):
		return f, fmt.Errorf("until: must lie within a year from now: %w", ErrText)
	case actor == f.Owner || actor == f.ClaimedBy:
		return f, errors.Join(ErrSelf, d.cfg.Audit(ctx, actor, "finding.accept.refused", id, ErrSelf.Error()))
	}
	if err := d.cfg.Audit(ctx, actor, "finding.accept", id, "until "+until.UTC().Format(time.RFC3339)+": "+reason); err != nil {
		return f, err
	}
	return d.cfg.Ledger.Turn(ctx, id, func(f Finding) (Change, error) {
		if f.State == Verified {
			return Change{}, fmt.Errorf("%s is %s: %w", id, f.State, ErrState)
		}
		f.State, f.RiskBy, f.RiskUntil, f.EscalatedAt = Accepted, actor, until.UTC(), time.Time{}
		return Change{Finding: f, Event: Event{now, actor, string(Accepted), "", reason}}, nil
	})
}

func (d *Desk) stand(ctx context.Context, id string) (Finding, time.Time, error) {
	f, _, err := d.cfg.Ledger.Finding(ctx, id)
	if err != nil {
		return f, time.Time{}, err
	}
	if !d.cfg.Covers(ctx, f.Service) {
		return f, time.Time{}, fmt.Errorf("service %s: %w", f.Service, injector.ErrScope)
	}
	now, err := d.cfg.Ledger.Now(ctx)
	return f, now, err
}
