package gameday

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/injector"
	"breakwater/injector/scenario"
	"breakwater/internal/conf"
)

// ErrContent means that another content was agreed to than would be run.
var ErrContent = errors.New("the game day is another one than was agreed to")

// ErrSelf means that somebody would agree to their own game day.
var ErrSelf = errors.New("who starts or commands a game day cannot approve it")

// ErrText means that what was sent is not enough.
var ErrText = errors.New("not enough is said")

// ErrOver means that the game day has ended.
var ErrOver = errors.New("the game day has ended")

// Import makes the game days of set the only ones that can be held by hand.
func (d *Desk) Import(ctx context.Context, set scenario.Set) error {
	docs := []Document{}
	for _, g := range set.GameDays {
		docs = append(docs, Document{g.Name, g.Title, g.Text, g.File})
	}
	return d.cfg.Ledger.SaveGameDays(ctx, docs)
}

// parse reads a game day as kept.
func parse(text string) (scenario.GameDay, error) {
	var log conf.Log
	for _, doc := range conf.Split(conf.File{Name: "gameday", Data: []byte(text)}, &log) {
		if g := scenario.DecodeGameDay(doc, &log); log.Err() == nil {
			g.Text = text
			return g, nil
		}
	}
	if err := log.Err(); err != nil {
		return scenario.GameDay{}, err
	}
	return scenario.GameDay{}, errors.New("holds no game day")
}

// content is what a game day would run now, against which services, and who has to
// agree to it.
func (d *Desk) content(ctx context.Context, g scenario.GameDay) (services []string, held injector.DayHeld, err error) {
	docs, err := d.cfg.Runs.Documents(ctx)
	if err != nil {
		return nil, held, err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return nil, held, err
	}
	traffic, err := d.cfg.Runs.Flows(ctx, now)
	if err != nil {
		return nil, held, err
	}
	for _, doc := range docs {
		if slices.Contains(g.Scenarios, doc.ID) && !slices.Contains(services, doc.Service) {
			services = append(services, doc.Service)
		}
	}
	held.Hash = injector.DayHash(g, docs)
	held.Needs, held.Owners = d.cfg.Scheduler.Needs(g, docs, traffic)
	return services, held, nil
}

func (d *Desk) document(ctx context.Context, name string) (Document, scenario.GameDay, error) {
	docs, err := d.cfg.Ledger.GameDays(ctx)
	if err != nil {
		return Document{}, scenario.GameDay{}, err
	}
	i := slices.IndexFunc(docs, func(x Document) bool { return x.Name == name })
	if i < 0 {
		return Document{}, scenario.GameDay{}, fmt.Errorf("game day %q: %w", name, injector.ErrNotFound)
	}
	g, err := parse(docs[i].Text)
	return docs[i], g, err
}

// Start holds a game day now, under the guards that its schedule would meet.
func (d *Desk) Start(ctx context.Context, name string) (Held, error) {
	actor := d.cfg.Actor(ctx)
	doc, g, err := d.document(ctx, name)
	if err != nil {
		return Held{}, err
	}
	services, _, err := d.content(ctx, g)
	if err != nil {
		return Held{}, err
	}
	if err := d.covers(ctx, services); err != nil {
		return Held{}, err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return Held{}, err
	}
	now = now.Truncate(time.Microsecond) // what the ledger keeps
	if err := d.cfg.Audit(ctx, actor, "gameday.start", name, ""); err != nil {
		return Held{}, err
	}
	return d.cfg.Ledger.Begin(ctx, doc, actor, now, func(due injector.Due) ([]injector.Run, injector.DayHeld, error) {
		runs, held, no := d.cfg.Scheduler.Plan(due, g, now, now)
		for i := range runs {
			runs[i].Actor = actor
		}
		return runs, held, refused(no)
	})
}

// refused is a stop as the error that fits it.
func refused(s injector.Stop) error {
	switch s.Reason {
	case "":
		return nil
	case injector.Overlap:
		return fmt.Errorf("%s: %w", s.Text, injector.ErrOverlap)
	case injector.Halted:
		return injector.ErrHalted
	case injector.ByFreeze, injector.NoBudget, injector.NoReading:
		return fmt.Errorf("%s: %w", s.Text, injector.ErrFrozen)
	}
	return &injector.DocumentError{Err: errors.New(s.Text)}
}

func (d *Desk) covers(ctx context.Context, services []string) error {
	for _, s := range services {
		if !d.cfg.Covers(ctx, s) {
			return fmt.Errorf("service %s: %w", s, injector.ErrScope)
		}
	}
	return nil
}

// find returns the game day by its id, or by its name: the one under way, else the
// next that comes, announced with this.
func (d *Desk) find(ctx context.Context, id string) (Held, []Note, error) {
	if !injector.Nameable(id) {
		return Held{}, nil, fmt.Errorf("game day %q: %w", id, injector.ErrNotFound)
	}
	h, notes, err := d.cfg.Ledger.HeldDay(ctx, id)
	if err == nil && h.StartedAt.IsZero() && h.EndedAt.IsZero() {
		return d.anew(ctx, h)
	}
	if !errors.Is(err, injector.ErrNotFound) {
		return h, notes, err
	}
	open, err := d.cfg.Ledger.HeldDays(ctx, true, 1000)
	if err != nil {
		return h, nil, err
	}
	slices.Reverse(open) // the earliest that has not ended
	for _, o := range open {
		if o.Name == id {
			return d.find(ctx, o.ID)
		}
	}
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return h, nil, err
	}
	for _, s := range all {
		if s.ID == id && s.Enabled {
			if h, err = d.announce(ctx, s); err != nil {
				return h, nil, err
			}
			return d.cfg.Ledger.HeldDay(ctx, h.ID)
		}
	}
	return h, nil, fmt.Errorf("game day %q: %w", id, injector.ErrNotFound)
}

// anew returns h with the content that it has by now: until it begins, documents
// may change, and what was agreed to before counts no more.
func (d *Desk) anew(ctx context.Context, h Held) (Held, []Note, error) {
	all, err := d.cfg.Runs.Schedules(ctx)
	if err != nil {
		return h, nil, err
	}
	for _, s := range all {
		if s.ID == h.Name && s.Enabled && s.NextAt.Equal(h.PlannedAt) {
			if _, err := d.announce(ctx, s); err != nil {
				return h, nil, err
			}
		}
	}
	return d.cfg.Ledger.HeldDay(ctx, h.ID)
}

// announce writes that the next one of s comes.
func (d *Desk) announce(ctx context.Context, s injector.Schedule) (Held, error) {
	g, err := parse(s.Text)
	if err != nil {
		return Held{}, err
	}
	_, c, err := d.content(ctx, g)
	if err != nil {
		return Held{}, err
	}
	h := Held{ID: injector.DayID(s.ID, s.NextAt), Name: s.ID, Title: s.Title, Actor: "schedule " + s.ID, Text: s.Text,
		Hash: c.Hash, Needs: c.Needs, Owners: c.Owners, PlannedAt: s.NextAt}
	return h, d.cfg.Ledger.Announce(ctx, h)
}

// Approve is one person's agreement to what a game day would run. Hash names the
// content that they have seen, "" the one it has. It starts by itself once enough
// people agree, and its time has come.
func (d *Desk) Approve(ctx context.Context, id, hash string) (Held, error) {
	actor := d.cfg.Actor(ctx)
	h, _, err := d.find(ctx, id)
	if err != nil {
		return h, err
	}
	g, err := parse(h.Text)
	if err != nil {
		return h, err
	}
	services, _, err := d.content(ctx, g)
	switch {
	case err != nil:
		return h, err
	case !h.EndedAt.IsZero():
		return h, fmt.Errorf("%s: %w", h.ID, ErrOver)
	case h.Actor == actor || g.Roles.Commander == actor:
		return h, errors.Join(ErrSelf, d.cfg.Audit(ctx, actor, "gameday.approve.refused", h.ID, ErrSelf.Error()))
	case hash != "" && hash != h.Hash:
		return h, fmt.Errorf("%s would run %s: %w", h.ID, short(h.Hash), ErrContent)
	}
	if err := d.covers(ctx, services); err != nil {
		return h, err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return h, err
	}
	if err := d.cfg.Audit(ctx, actor, "gameday.approve", h.ID, "content "+h.Hash); err != nil {
		return h, err
	}
	owns := slices.DeleteFunc(services, func(s string) bool { return !d.cfg.Owns(ctx, s) })
	if err := d.cfg.Ledger.Agree(ctx, injector.Approved{Day: h.ID, Actor: actor, Hash: h.Hash, Owns: owns, At: now}); err != nil {
		return h, err
	}
	if h, _, err = d.cfg.Ledger.HeldDay(ctx, h.ID); err != nil {
		return h, err
	}
	text := fmt.Sprintf("agrees to %s, %d of %d", short(h.Hash), h.Agreed(now), h.Needs)
	if waits := h.WaitsFor(now); waits != "" {
		text += "; it waits for " + waits
	}
	if err := d.cfg.Ledger.Write(ctx, h.ID, Note{At: now, Actor: actor, Kind: "approval", Text: text}); err != nil {
		return h, err
	}
	return h, d.release(ctx, h, now)
}

func short(hash string) string { return hash[:min(len(hash), 12)] }

// release lets the waiting runs of h go, where enough people agreed.
func (d *Desk) release(ctx context.Context, h Held, now time.Time) error {
	if h.StartedAt.IsZero() || h.WaitsFor(now) != "" {
		return nil
	}
	g, err := parse(h.Text)
	if err != nil {
		return fmt.Errorf("game day %s: %w", h.ID, err)
	}
	runs, err := d.cfg.Ledger.DayRuns(ctx, h.Name, h.PlannedAt)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range runs {
		if r.State != injector.PendingApproval {
			continue
		}
		m := injector.Move{Run: r.ID, From: r.State, To: injector.Scheduled, At: now, Actor: "gameday", Text: "the game day is approved"}
		// It may have waited for days: what guards its start is asked again.
		if no := injector.Left(d.cfg.Scheduler.Budgets, r.Service, g.LeftPPM); no.Reason != "" {
			m.To, m.Reason, m.Text = injector.Skipped, string(no.Reason), no.Text
		}
		err := d.cfg.Runs.Move(ctx, m)
		if !errors.Is(err, injector.ErrFenced) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Write adds a line of a person to the timeline.
func (d *Desk) Write(ctx context.Context, id, kind, text string) error {
	actor := d.cfg.Actor(ctx)
	if strings.TrimSpace(text) == "" || len(text) > 4000 || kind != "note" && kind != "debrief" {
		return fmt.Errorf("text: must be a note or a debrief of 1 to 4000 bytes: %w", ErrText)
	}
	h, _, err := d.find(ctx, id)
	if err == nil {
		err = d.partakes(ctx, h)
	}
	if err != nil {
		return err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if err := d.cfg.Audit(ctx, actor, "gameday."+kind, h.ID, text); err != nil {
		return err
	}
	return d.cfg.Ledger.Write(ctx, h.ID, Note{At: now, Actor: actor, Kind: kind, Text: text})
}

// partakes reports whether one of the services of a game day is of whoever asks: in a day of
// many services each of them has something to write down.
func (d *Desk) partakes(ctx context.Context, h Held) error {
	if d.cfg.Covers(ctx, "") {
		return nil // has a say over every service, whatever became of the document
	}
	g, err := parse(h.Text)
	if err != nil {
		return err
	}
	services, _, err := d.content(ctx, g)
	if err != nil || slices.ContainsFunc(services, func(s string) bool { return d.cfg.Covers(ctx, s) }) {
		return err
	}
	return fmt.Errorf("game day %s: %w", h.ID, injector.ErrScope)
}

// Abort ends all of a game day. It needs no more than a login.
func (d *Desk) Abort(ctx context.Context, id string) error {
	actor := d.cfg.Actor(ctx)
	h, _, err := d.find(ctx, id)
	if err != nil || !h.EndedAt.IsZero() {
		return err
	}
	now, err := d.cfg.Ledger.Now(ctx)
	if err != nil {
		return err
	}
	if err := d.cfg.Audit(ctx, actor, "gameday.abort", h.ID, ""); err != nil {
		return err
	}
	return d.stop(ctx, h, injector.Stop{Reason: injector.ByUser, Text: "stopped by " + actor}, actor, now)
}
