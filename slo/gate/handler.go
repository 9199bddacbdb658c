package gate

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// Source knows the last evaluation.
type Source interface{ Statuses() []slo.Status }

// Keeper keeps decisions.
type Keeper interface {
	SaveDecision(ctx context.Context, r Record) error
}

// Config is what a Gate needs.
type Config struct {
	Source Source
	Keeper Keeper // nil: decisions are not kept
	Policy Policy // zero Stale: DefaultPolicy
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

// Answer decides r and keeps the decision. Where it could not be kept it has no
// id, since an id that nobody can look up is worse than none.
func (g *Gate) Answer(ctx context.Context, r Request) Decision {
	now := g.cfg.Now().UTC().Truncate(time.Microsecond)
	d := Decide(r, g.cfg.Source.Statuses(), g.cfg.Policy, now)
	if g.cfg.Keeper == nil {
		return d
	}
	d.DecisionID = newID(now)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := g.cfg.Keeper.SaveDecision(ctx, Record{Request: r, Decision: d, At: now}); err != nil {
		g.cfg.Log.Warn("gate decision not kept", "service", r.Service, "env", r.Env, "decision", d.Decision, "err", err)
		d.DecisionID = ""
	}
	return d
}

// Handler serves GET /api/v1/gate/decision?service&env&kind&ref: always 200 and
// one JSON, whatever is decided; problem+json only for a question that is none.
func (g *Gate) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			auth.Problem(w, http.StatusMethodNotAllowed, "method", "the gate answers GET only")
			return
		}
		q, err := ask(r)
		if err != nil {
			auth.Problem(w, http.StatusBadRequest, "bad_parameter", err.Error())
			return
		}
		if !auth.From(r.Context()).Covers(q.Service) {
			auth.Problem(w, http.StatusForbidden, "out_of_scope", fmt.Sprintf("this token does not speak for service %q", q.Service))
			return
		}
		body, err := json.Marshal(g.Answer(r.Context(), q))
		if err != nil {
			auth.Problem(w, http.StatusInternalServerError, "internal", err.Error())
			return
		}
		w.Header().Set("Content-Type", "application/json")
		// A cached allow is an allow from missing data.
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(append(body, '\n')) // the client may have gone
	})
}

// longest is the most bytes of a parameter.
const longest = 256

func ask(r *http.Request) (Request, error) {
	v := r.URL.Query()
	for name, values := range v {
		switch {
		case !slices.Contains([]string{"service", "env", "kind", "ref"}, name):
			return Request{}, fmt.Errorf("%.40q is no parameter; there are service, env, kind and ref", name)
		case len(values) > 1:
			return Request{}, fmt.Errorf("%s: must be given once, got it %d times", name, len(values))
		case len(values[0]) > longest || strings.ContainsFunc(values[0], func(c rune) bool { return c < ' ' }):
			return Request{}, fmt.Errorf("%s: must be at most %d bytes of plain text", name, longest)
		}
	}
	q := Request{Service: v.Get("service"), Env: v.Get("env"), Kind: Kind(v.Get("kind")), Ref: v.Get("ref")}
	if q.Service == "" {
		return q, fmt.Errorf("service: must be given")
	}
	if q.Kind == "" {
		q.Kind = Feature
	}
	if !slices.Contains(Kinds(), q.Kind) {
		return q, fmt.Errorf("kind: must be one of %v, got %.40q", Kinds(), q.Kind)
	}
	return q, nil
}

// newID is "d-", the time and chance: ids sort by when they were made.
func newID(now time.Time) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(b[6:]) // never fails
	return "d-" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(b[:]))
}
