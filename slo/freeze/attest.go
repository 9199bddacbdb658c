package freeze

import (
	"net/http"
	"slices"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
)

// Attest serves POST /api/v1/freezes/{service}/attest: a signed word that one change
// is of one kind, for up to a week.
func (d *Desk) Attest(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Env       string     `json:"env"`
		Kind      Kind       `json:"kind"`
		Ref       string     `json:"ref"`
		ExpiresAt *time.Time `json:"expires_at"` // null: in a day
	}
	service, ok := d.open(w, r, &in)
	if !ok {
		return
	}
	now, who := d.instant(), auth.From(r.Context()).Name
	s := Statement{Service: service, Env: in.Env, Kind: in.Kind, Ref: in.Ref, By: who, ExpiresAt: now.Add(24 * time.Hour)}
	if in.ExpiresAt != nil {
		s.ExpiresAt = in.ExpiresAt.UTC()
	}
	if !slices.Contains(Kinds(), s.Kind) || s.Ref == "" || !plain(s.Ref, 256) || !s.ExpiresAt.After(now) || s.ExpiresAt.Sub(now) > 7*24*time.Hour {
		d.refused(w, r, service, refuse("bad_attestation", "kind and ref: must be given; expires_at: must be within a week"))
		return
	}
	key, ok := d.book.Key()
	if !ok {
		reply.Away(w)
		return
	}
	word, err := key.Attest(s)
	if err == nil {
		err = d.ledger.Audit(r.Context(), auth.Entry{Actor: who, Action: "change.attest", Object: service + slash(s.Env), Detail: string(s.Kind) + " " + s.Ref})
	}
	if err != nil {
		reply.Away(w)
		return
	}
	reply.JSON(w, http.StatusCreated, map[string]any{"attestation": word, "statement": s})
}

func slash(env string) string {
	if env == "" {
		return ""
	}
	return "/" + env
}

// PublicKey serves GET /api/v1/gate/key.
func (d *Desk) PublicKey(w http.ResponseWriter, _ *http.Request) {
	key, ok := d.book.Key()
	if !ok {
		reply.Away(w)
		return
	}
	reply.JSON(w, http.StatusOK, map[string]string{"key": key.ID, "alg": "ed25519", "public_key": key.Public()})
}
