package injector

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/injector/scenario"
)

// Class says how much is at stake in a run.
type Class string

// ClassC is a run against a core service, or one that hits more than a tenth of all
// traffic.
const ClassC Class = "C"

// muchPPM is the share of all traffic beyond which a run is of class C.
const muchPPM = 100_000

// classOf is the class of a run of sc. Of a service whose traffic is not known, and
// that is not core, nothing is held against it.
func classOf(sc scenario.Scenario, f scenario.Facts) Class {
	if f.Core || f.SharePPM > muchPPM {
		return ClassC
	}
	return ""
}

// beside reports whether a runs at the same time as r, both of class C, where only
// one may. The runs of one game day are one undertaking, which people agreed to.
func (r Run) beside(a Active) bool {
	own := a.ID == r.ID || r.GameDay != "" && a.Schedule == r.Schedule && a.At.Equal(r.PlannedAt)
	return r.Class == ClassC && a.Class == ClassC && a.State.Active() && !own
}

// needs is how many people have to agree to a run of sc: where users are real one,
// and two of class C; elsewhere none, but for what does things twice.
func (e *Engine) needs(sc scenario.Scenario, f scenario.Facts) int {
	twice := slices.ContainsFunc(sc.Preflight(f), func(w scenario.Warning) bool { return w.Code == scenario.Unsafe })
	switch {
	case e.cfg.Env == "prod" && classOf(sc, f) == ClassC:
		return 2
	case e.cfg.Env == "prod" || twice:
		return 1
	}
	return 0
}

// Approval is one person's agreement to one content of a run.
type Approval struct {
	Actor string    `json:"actor"`
	Hash  string    `json:"hash"`
	Owner bool      `json:"owner,omitempty"` // speaks for the service
	At    time.Time `json:"at"`
}

// ApprovalLedger keeps who agreed to what.
type ApprovalLedger interface {
	// AddApproval writes a, once for each person, and returns all of the run.
	AddApproval(ctx context.Context, run string, a Approval) ([]Approval, error)
}

// ErrContent means that somebody agreed to another document than the run would run.
var ErrContent = errors.New("the document is another one than was agreed to")

// ErrOfDay means that somebody would agree to a part of a game day: people agree to
// all of it, or to nothing.
var ErrOfDay = errors.New("a run of a game day is agreed to with its game day")

// Approve is one person's agreement to a waiting run; hash names the document that
// they have seen, "" the one that it has. It starts once enough people agree: two
// for class C, one of whom speaks for the service.
func (e *Desk) Approve(ctx context.Context, id, hash, actor string) (waits string, err error) {
	r, now, err := e.stand(ctx, id)
	if err != nil {
		return "", err
	}
	if r.GameDay != "" && r.State == PendingApproval {
		return "", fmt.Errorf("run %s: %w", id, ErrOfDay)
	}
	if !e.cfg.Covers(ctx, r.Service) {
		return "", fmt.Errorf("service %s: %w", r.Service, ErrScope)
	}
	if r.Actor == actor {
		// Who tried it stands in the audit, as every refusal of a right does.
		return "", errors.Join(ErrSelf, e.cfg.Audit(ctx, actor, "run.approve.refused", id, ErrSelf.Error()))
	}
	if hash != "" && hash != r.Hash {
		return "", fmt.Errorf("run %s has document %s, not %s: %w", id, r.Hash, hash, ErrContent)
	}
	to, err := Step(r.State, Approve)
	if err != nil {
		return "", err
	}
	owner := e.cfg.Owns != nil && e.cfg.Owns(ctx, r.Service)
	if err := e.cfg.Audit(ctx, actor, "run.approve", id, "document "+r.Hash); err != nil {
		return "", err
	}
	all, err := e.cfg.Ledger.AddApproval(ctx, id, Approval{Actor: actor, Hash: r.Hash, Owner: owner, At: now})
	if err != nil {
		return "", err
	}
	if waits = waitsFor(r, all); waits != "" {
		return waits, e.cfg.Ledger.Note(ctx, Event{At: now, Run: id, Kind: "note", Text: "approved, and waits for " + waits, Actor: actor})
	}
	return "", e.cfg.Ledger.Move(ctx, Move{Run: id, From: r.State, To: to, At: now, Actor: actor, Text: "approved"})
}

// waitsFor says whose agreement r still needs, or "".
func waitsFor(r Run, all []Approval) string {
	who, owned := map[string]bool{}, false
	for _, a := range all {
		if a.Hash == r.Hash && a.Actor != r.Actor {
			who[a.Actor] = true
			owned = owned || a.Owner
		}
	}
	switch missing := max(r.Needs, 1) - len(who); {
	case missing == 1 && r.Class == ClassC && !owned:
		return "the owner of " + r.Service
	case missing > 0:
		return fmt.Sprintf("%d more", missing)
	case r.Class == ClassC && r.Needs > 1 && !owned:
		return "the owner of " + r.Service
	}
	return ""
}
