package report

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
)

// Marker is a deploy or an incident on the wire.
type Marker struct {
	Service string     `json:"service"`
	Env     string     `json:"env"`
	Ref     string     `json:"ref"`
	Title   string     `json:"title"`
	At      *time.Time `json:"at"`     // null: now
	Ended   *time.Time `json:"end_at"` // of an incident; null: it goes on
}

// Mark serves POST /api/v1/events/deploys and /api/v1/events/incidents.
func (d *Desk) Mark(kind slo.CauseKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in Marker
		if !decode(w, r, &in) {
			return
		}
		who, now := auth.From(r.Context()), d.now().UTC()
		c := slo.Cause{Kind: kind, Service: in.Service, Env: in.Env, Ref: in.Ref, Title: in.Title, From: now, Actor: who.Name}
		if in.At != nil {
			c.From = in.At.UTC()
		}
		if in.Ended != nil {
			c.To = in.Ended.UTC()
		}
		switch {
		case in.Service == "" || in.Ref == "" || len(in.Ref) > 200 || len(in.Title) > 500:
			auth.Problem(w, http.StatusUnprocessableEntity, "bad_marker", "service and ref: must be given, ref up to 200 bytes, title up to 500")
			return
		case c.From.After(now.Add(2*time.Minute)) || !c.To.IsZero() && c.To.Before(c.From):
			auth.Problem(w, http.StatusUnprocessableEntity, "bad_marker", "at: must not be in the future, and end_at not before it")
			return
		case !who.Covers(in.Service):
			auth.Problem(w, http.StatusForbidden, "out_of_scope", "the token does not cover this service")
			return
		}
		if err := d.keeper.AddCause(r.Context(), c, now); err != nil {
			failed(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// maxQuestion bounds a body.
const maxQuestion = 64 << 10

func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	dec := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxQuestion))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		auth.Problem(w, http.StatusBadRequest, "bad_body", err.Error())
		return false
	}
	return true
}

func newID(prefix string) string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return prefix + "-" + hex.EncodeToString(b)
}
