package dialect

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/gate"
)

// call is what Flagger posts to its webhooks.
type call struct {
	Name      string            `json:"name"`
	Namespace string            `json:"namespace"`
	Phase     string            `json:"phase"`
	Checksum  string            `json:"checksum"`
	Metadata  map[string]string `json:"metadata"`
}

// flagger reads a call and the question in it: the address says most, the canary's
// metadata the rest, and a canary is named as its service. A canary is asked about
// every few seconds; its checksum names the change, so that an override is used once.
func (d *Desk) flagger(w http.ResponseWriter, r *http.Request) (call, question, error) {
	var c call
	if err := body(w, r, &c); err != nil {
		return c, question{}, err
	}
	sent := map[string]string{"service": c.Name}
	for _, name := range []string{"service", "env", "kind", "ref", "incident", "attestation"} {
		if v := c.Metadata[name]; v != "" {
			sent[name] = v
		}
	}
	if c.Checksum != "" {
		sent["once"] = clip("flagger/"+c.Namespace+"/"+c.Name+"/"+c.Checksum, 256)
	}
	q, err := read(r, sent)
	return c, q, err
}

// plain answers Flagger, which logs the text. It takes 200 to 202 for a yes and
// everything above for a no, 204 too; 429 and 5xx it would send again.
func plain(w http.ResponseWriter, yes bool, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if !yes {
		w.WriteHeader(http.StatusForbidden)
	}
	_, _ = w.Write([]byte(text + "\n"))
}

// FlaggerConfirm serves POST /api/v1/gate/flagger/confirm, for the hooks
// confirm-rollout, confirm-traffic-increase, confirm-promotion, pre-rollout and
// rollout: what is not allowed does not go on, what is unknown neither.
func (d *Desk) FlaggerConfirm(w http.ResponseWriter, r *http.Request) {
	_, q, err := d.flagger(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	a := q.settle(d.cfg.Gate.Answer(r.Context(), q.Request))
	plain(w, a.Decision == gate.Allow, Text(a))
}

// FlaggerRollback serves POST /api/v1/gate/flagger/rollback, for the hook rollback,
// where a yes means: roll back. So it says yes only where it is known that the
// budget is spent and the change may not go out: a freeze by hand, a freeze that
// is about to end, and missing data are no reason to take a canary away.
func (d *Desk) FlaggerRollback(w http.ResponseWriter, r *http.Request) {
	_, q, err := d.flagger(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	q.Standing = true // the canary is out already
	a := d.cfg.Gate.Look(q.Request)
	spent := a.RestsOn != nil && a.RestsOn.Bad > a.RestsOn.Allowed
	if a.Decision != gate.Deny || a.State != slo.Frozen || !spent {
		plain(w, false, "No rollback. "+Text(a))
		return
	}
	a = d.cfg.Gate.Answer(r.Context(), q.Request)
	plain(w, a.Decision == gate.Deny, "Roll back. "+Text(a))
}

// FlaggerEvent serves POST /api/v1/gate/flagger/event, for the hook event. A canary
// that succeeded and names its ref in its metadata is marked as a deploy; succeeded or
// failed, it is under way no more.
func (d *Desk) FlaggerEvent(w http.ResponseWriter, r *http.Request) {
	c, q, err := d.flagger(w, r)
	if err != nil {
		refuse(w, err)
		return
	}
	d.cfg.Log.Info("flagger event", "service", q.Service, "canary", clip(c.Namespace+"/"+c.Name, 200), "phase", clip(c.Phase, 40), "event", clip(c.Metadata["eventMessage"], 200))
	ref := q.Ref
	now := d.cfg.Now().UTC()
	if d.cfg.Marks != nil && (c.Phase == "Failed" || c.Phase == "Succeeded" && ref == "") {
		end := slo.DeployEnd{Service: q.Service, Env: q.Env, Ref: ref, Key: slo.DeployKey(ref, q.Once), Outcome: slo.DeploySucceeded, By: auth.From(r.Context()).Name}
		if c.Phase == "Failed" {
			end.Outcome = slo.DeployFailed
		}
		if _, err := d.cfg.Marks.EndDeploy(r.Context(), end, now.Truncate(time.Microsecond)); err != nil {
			reply.Problem(w, http.StatusServiceUnavailable, "database_away", "that the deploy is over could not be written down; send it again")
			return
		}
		plain(w, true, "its deploy is over")
		return
	}
	if c.Phase != "Succeeded" || ref == "" || d.cfg.Marks == nil {
		plain(w, true, "taken")
		return
	}
	at := now
	if ms, err := strconv.ParseInt(c.Metadata["timestamp"], 10, 64); err == nil {
		// The clock of the cluster, as far as it can be believed.
		if told := time.UnixMilli(ms).UTC(); told.Before(now) && now.Sub(told) < 24*time.Hour {
			at = told
		}
	}
	mark := slo.Cause{Kind: slo.ByDeploy, Service: q.Service, Env: q.Env, Ref: ref, From: at, Actor: auth.From(r.Context()).Name,
		Title: clip(fmt.Sprintf("Flagger promoted canary %s/%s", c.Namespace, c.Name), 500)}
	if err := d.cfg.Marks.AddCause(r.Context(), mark, now); err != nil {
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the deploy could not be written down; send it again")
		return
	}
	plain(w, true, "marked as a deploy of "+ref)
}
