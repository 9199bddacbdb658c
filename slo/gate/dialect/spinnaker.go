package dialect

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo/gate"
)

// maxWait is how long a stage may wait for a thaw at most.
const maxWait = 7 * 24 * time.Hour

// ticket is a question that waits. It travels in the address that Spinnaker polls,
// so that it outlives every restart of ours; it grants nothing, since each poll
// asks the gate anew.
type ticket struct {
	Request   gate.Platform `json:"q"`
	OnUnknown string        `json:"u,omitempty"`
	Until     time.Time     `json:"t"`
}

// Spinnaker serves POST /api/v1/gate/spinnaker for the webhook stage with
// waitForCompletion: 202 and where to ask. The payload is a question as the native
// gate takes it, with wait, a duration, for how long a no is to be waited out.
func (d *Desk) Spinnaker(w http.ResponseWriter, r *http.Request) {
	sent := map[string]string{}
	if err := body(w, r, &sent); err != nil {
		refuse(w, err)
		return
	}
	wait := time.Duration(0)
	if text := sent["wait"]; text != "" {
		var err error
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			refuse(w, fmt.Errorf("wait: must be a duration up to %s such as 30m", maxWait))
			return
		}
	}
	delete(sent, "wait")
	if sent["once"] == "" {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		sent["once"] = "spinnaker/" + hex.EncodeToString(b[:])
	}
	q, err := read(r, sent)
	if err != nil {
		refuse(w, err)
		return
	}
	t := ticket{Request: gate.Platform{Service: q.Service, Env: q.Env, Kind: q.Kind, Ref: q.Ref, Incident: q.Incident, Attestation: q.Attestation, Once: q.Once},
		OnUnknown: q.onUnknown, Until: d.cfg.Now().UTC().Add(wait).Truncate(time.Second)}
	text, err := json.Marshal(t)
	if err != nil {
		reply.Problem(w, http.StatusInternalServerError, "internal", err.Error())
		return
	}
	at := base(r) + r.URL.Path + "/" + base64.RawURLEncoding.EncodeToString(text)
	w.Header().Set("Location", at)
	reply.JSON(w, http.StatusAccepted, map[string]string{"status": "PENDING", "status_url": at})
}

// base is the address that r was sent to, whole: Spinnaker follows no relative one.
func base(r *http.Request) string {
	scheme := "http"
	if r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + r.Host
}

// progress is what the polled address says.
type progress struct {
	Status   string `json:"status"`   // PENDING, ALLOWED or DENIED
	Progress string `json:"progress"` // why
	Said
}

// SpinnakerStatus serves GET /api/v1/gate/spinnaker/{ticket}.
func (d *Desk) SpinnakerStatus(w http.ResponseWriter, r *http.Request) {
	t, err := readTicket(r.PathValue("ticket"))
	if err != nil {
		refuse(w, err)
		return
	}
	if !auth.From(r.Context()).Covers(t.Request.Service) {
		refuse(w, fmt.Errorf("%w %.63q", errScope, t.Request.Service))
		return
	}
	q := question{t.request(), t.OnUnknown}
	// Only the answer that ends the waiting is an answer: polls are many.
	a := q.settle(d.cfg.Gate.Look(q.Request))
	over := !d.cfg.Now().Before(t.Until)
	if a.Decision == gate.Allow || over {
		a = q.settle(d.cfg.Gate.Answer(r.Context(), q.Request))
	}
	p := progress{Status: "PENDING", Said: said(a)}
	switch {
	case a.Decision == gate.Allow:
		p.Status = "ALLOWED"
	case over:
		p.Status = "DENIED"
	}
	p.Progress = p.Text
	if p.Status == "PENDING" {
		p.Progress = fmt.Sprintf("Waits until %s. %s", t.Until.Format(time.RFC3339), strings.Join(a.Reasons, " "))
		p.Text = p.Progress
	}
	reply.JSON(w, http.StatusOK, p)
}

func (t ticket) request() gate.Request {
	q := t.Request
	return gate.Request{Service: q.Service, Env: q.Env, Kind: q.Kind, Ref: q.Ref, Incident: q.Incident, Attestation: q.Attestation, Once: q.Once}
}

func readTicket(word string) (ticket, error) {
	var t ticket
	bad := errors.New("ticket: this is no address that was handed out")
	text, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || len(text) > 8192 {
		return t, bad
	}
	if err := object(text, &t); err != nil || t.Request.Seen != "" || t.Request.DryRun {
		return t, bad
	}
	if t.OnUnknown != "" && t.OnUnknown != "allow" && t.OnUnknown != "deny" {
		return t, bad
	}
	_, err = t.request().Check()
	return t, err
}
