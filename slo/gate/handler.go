package gate

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/freeze"
)

// Source knows the last evaluation.
type Source interface{ Statuses() []slo.Status }

// Keeper keeps decisions.
type Keeper interface {
	SaveDecision(ctx context.Context, r Record) error
}

// Book is what is known beside the evaluation: policies, freezes by hand,
// overrides, deploys; and the key that signs.
type Book interface {
	Known() freeze.Known
	// Use uses the override id once more, unless it has been used up, revoked or
	// has expired meanwhile; once may name the change, and counts once.
	Use(ctx context.Context, id, once, decision string, now time.Time) (bool, error)
	// Key is the key that signs; false: there is none yet.
	Key() (freeze.Key, bool)
}

// Config is what a Gate needs.
type Config struct {
	Source Source
	Keeper Keeper // nil: decisions are not kept
	Book   Book   // nil: nothing but the evaluation is known, and Policy rules all
	Slots  Slots  // nil: nobody gives slots, and where deploys are capped none is let out
	Policy Policy // zero Stale: DefaultPolicy; for who has no Book
	Now    func() time.Time
	Log    *slog.Logger // nil: none
}

// Gate answers over HTTP.
type Gate struct{ cfg Config }

// New returns a Gate.
func New(cfg Config) *Gate {
	if cfg.Policy.Stale == 0 {
		cfg.Policy = DefaultPolicy()
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Gate{cfg}
}

// patience is how long an answer waits for being written down. A pipeline is
// answered even when the database is not.
const patience = 500 * time.Millisecond

// Answer decides r, signs the decision and keeps it. Where it could not be kept
// it has no id, since an id that nobody can look up is worse than none. Of a dry run
// nothing is kept.
func (g *Gate) Answer(ctx context.Context, r Request) Decision {
	if r.DryRun {
		return g.Look(r)
	}
	now := g.cfg.Now().UTC().Truncate(time.Microsecond)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := newID(now)
	d := g.judge(ctx, r, id, now)
	if g.cfg.Keeper == nil {
		return g.sign(d)
	}
	d.DecisionID = id
	d = g.sign(d)
	if err := g.cfg.Keeper.SaveDecision(ctx, Record{Request: r, Decision: d, At: now, By: auth.From(ctx).Name}); err != nil {
		g.cfg.Log.Warn("gate decision not kept", "service", r.Service, "env", r.Env, "decision", d.Decision, "err", err)
		d.DecisionID = ""
		d = g.sign(d)
	}
	return d
}

// Look decides r as Answer would, and has no effect: no override is used, nothing
// is kept, and the decision has no id.
func (g *Gate) Look(r Request) Decision {
	now := g.cfg.Now().UTC().Truncate(time.Microsecond)
	if g.cfg.Book == nil {
		return tried(r, Decide(r, g.cfg.Source.Statuses(), g.cfg.Policy, now))
	}
	r, note := g.attested(r, now)
	return tried(r, noted(Judge(r, Facts{Statuses: g.cfg.Source.Statuses(), Known: g.cfg.Book.Known()}, now), note))
}

// tried has the answer to a dry run say that it was one. It names no override as used.
func tried(r Request, d Decision) Decision {
	if !r.DryRun {
		return d
	}
	d.DryRun, d.Override = true, nil
	d.Reasons = append(d.Reasons, "This was a dry run: nothing was recorded, and no override was used.")
	return d
}

// attested looks at the attestation of r; the note says why it proves nothing.
func (g *Gate) attested(r Request, now time.Time) (_ Request, note string) {
	key, ok := g.cfg.Book.Key()
	if !ok || r.Attestation == "" {
		return r, ""
	}
	if _, err := key.Attested(r.Attestation, r.Service, r.Env, r.Kind, r.Ref, now); err != nil {
		return r, fmt.Sprintf("The attestation proves nothing: %v.", err)
	}
	r.Seen = freeze.Attested
	return r, ""
}

func noted(d Decision, note string) Decision {
	if note != "" && d.Decision != Allow {
		d.Reasons = append(d.Reasons, note)
	}
	return d
}

func (g *Gate) judge(ctx context.Context, r Request, id string, now time.Time) Decision {
	statuses := g.cfg.Source.Statuses()
	if g.cfg.Book == nil {
		return Decide(r, statuses, g.cfg.Policy, now)
	}
	r, note := g.attested(r, now)
	facts := Facts{Statuses: statuses, Known: g.cfg.Book.Known()}
	d, caps := judge(r, facts, now)
	// A slot comes before an override: what has to wait must not use it up.
	slot, ok := g.begin(ctx, &d, caps, id, now)
	if !ok {
		return noted(d, note)
	}
	d = g.override(ctx, r, d, facts, id, now)
	if slot != nil {
		d = g.begun(ctx, d, slot, caps, now)
	}
	return noted(d, note)
}

// override uses the override that d rests on, if it rests on one.
func (g *Gate) override(ctx context.Context, r Request, d Decision, facts Facts, id string, now time.Time) Decision {
	// What is known may be a second old, so the override itself has the last word.
	for tries := 0; d.Override != nil && tries < freeze.MaxUses; tries++ {
		override := *d.Override
		used, err := g.cfg.Book.Use(ctx, override, r.Once, id, now)
		if err != nil {
			g.cfg.Log.Warn("an override could not be used", "service", r.Service, "override", override, "err", err)
			d.Override = nil
			return d.say(Unclear, "override_not_recorded", "An override would let it pass, but that it is used could not be written down, so it does not count.")
		}
		if used {
			break
		}
		facts.Overrides = slices.Clone(facts.Overrides)
		for i := range facts.Overrides {
			if facts.Overrides[i].ID == override {
				facts.Overrides[i].Used = facts.Overrides[i].MaxUses
			}
		}
		d, _ = judge(r, facts, now)
	}
	return d
}

// sign signs d, where there is a key. An answer without a signature is as good
// while it is fresh; it only cannot stand in for control later.
func (g *Gate) sign(d Decision) Decision {
	d.Signature = nil
	if g.cfg.Book == nil {
		return d
	}
	if key, ok := g.cfg.Book.Key(); ok {
		sig, err := key.Sign(d)
		if err != nil {
			g.cfg.Log.Error("a decision was not signed", "err", err)
		}
		d.Signature = sig
	}
	return d
}

// Handler serves GET /api/v1/gate/decision?service&env&kind&ref: always 200 and
// one JSON, whatever is decided; problem+json only for a question that is none.
func (g *Gate) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			reply.Problem(w, http.StatusMethodNotAllowed, "method", "the gate answers GET only")
			return
		}
		q, err := Question(r.URL.Query())
		if err != nil {
			reply.Problem(w, http.StatusBadRequest, "bad_parameter", err.Error())
			return
		}
		if !auth.From(r.Context()).Covers(q.Service) {
			reply.Problem(w, http.StatusForbidden, "out_of_scope", fmt.Sprintf("this token does not speak for service %q", q.Service))
			return
		}
		reply.JSON(w, http.StatusOK, g.Answer(r.Context(), q))
	})
}

// newID is "d-", the time and chance: ids sort by when they were made.
func newID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails
	return "d-" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}
