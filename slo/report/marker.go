package report

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
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
	// Phase is begin or end of a deploy; "": it is done, and was not told of before.
	Phase string `json:"phase"`
	// Outcome is how it ended: succeeded, unless said, or failed.
	Outcome slo.DeployOutcome `json:"outcome"`
	// Lasts is for how many seconds a deploy that began counts as under way if it is not
	// heard of again; 0: half an hour.
	Lasts int64 `json:"lasts_seconds"`
}

// Mark serves POST /api/v1/events/deploys and /api/v1/events/incidents.
func (d *Desk) Mark(kind slo.CauseKind) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in Marker
		if !reply.Decode(w, r, &in) {
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
			reply.Problem(w, http.StatusUnprocessableEntity, "bad_marker", "service and ref: must be given, ref up to 200 bytes, title up to 500")
			return
		case c.From.After(now.Add(2*time.Minute)) || !c.To.IsZero() && c.To.Before(c.From):
			reply.Problem(w, http.StatusUnprocessableEntity, "bad_marker", "at: must not be in the future, and end_at not before it")
			return
		case !who.Covers(in.Service):
			reply.OutOfScope(w)
			return
		case in.Phase != "" || in.Outcome != "" || in.Lasts != 0:
			d.phase(w, r, kind, in, now)
			return
		}
		if err := d.keeper.AddCause(r.Context(), c, now); err != nil {
			failed(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

// phase takes the beginning or the end of a deploy.
func (d *Desk) phase(w http.ResponseWriter, r *http.Request, kind slo.CauseKind, in Marker, now time.Time) {
	bad := func(detail string) { reply.Problem(w, http.StatusUnprocessableEntity, "bad_marker", detail) }
	lasts, who := time.Duration(in.Lasts)*time.Second, auth.From(r.Context()).Name
	switch {
	case kind != slo.ByDeploy:
		bad("phase, outcome and lasts_seconds: are for deploys")
	case in.At != nil || in.Ended != nil:
		bad("phase: begins and ends now; at and end_at are for a deploy that is told of once it is done")
	case in.Phase == "begin" && in.Outcome == "":
		if in.Lasts == 0 {
			lasts = slo.DeployLasts
		}
		if in.Lasts < 0 || in.Lasts > int64(slo.MaxDeployLasts/time.Second) || lasts < slo.MinDeployLasts {
			bad("lasts_seconds: must be 60 to 86400")
			return
		}
		begun, _, err := d.keeper.BeginDeploy(r.Context(), slo.Deploy{Service: in.Service, Env: in.Env, Ref: in.Ref, Key: slo.DeployKey(in.Ref, ""), By: who,
			Until: now.Add(lasts).Truncate(time.Microsecond)}, nil, now.Truncate(time.Microsecond))
		if err != nil {
			failed(w, err)
			return
		}
		reply.JSON(w, http.StatusCreated, begun)
	case in.Phase == "end" && in.Lasts == 0 && (in.Outcome == "" || in.Outcome == slo.DeploySucceeded || in.Outcome == slo.DeployFailed):
		if in.Outcome == "" {
			in.Outcome = slo.DeploySucceeded
		}
		ended, err := d.keeper.EndDeploy(r.Context(), slo.DeployEnd{Service: in.Service, Env: in.Env, Ref: in.Ref, Key: slo.DeployKey(in.Ref, ""), Outcome: in.Outcome, By: who}, now.Truncate(time.Microsecond))
		if err != nil {
			failed(w, err)
			return
		}
		reply.JSON(w, http.StatusOK, map[string]int{"ended": ended})
	default:
		bad("phase: must be begin, with lasts_seconds, or end, with outcome succeeded or failed")
	}
}

func newID(prefix string) string {
	b := make([]byte, 6)
	_, _ = rand.Read(b) // never fails
	return prefix + "-" + hex.EncodeToString(b)
}
