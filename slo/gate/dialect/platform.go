package dialect

import (
	"fmt"
	"net/http"
	"slices"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// Platform serves POST /api/v1/gate/platform, which our own webhook asks with what
// it has seen in a cluster. It answers as the native gate does.
func (d *Desk) Platform(w http.ResponseWriter, r *http.Request) {
	var in gate.Platform
	if err := body(w, r, &in); err != nil {
		refuse(w, err)
		return
	}
	q, err := gate.Request{Service: in.Service, Env: in.Env, Kind: in.Kind, Ref: in.Ref, Incident: in.Incident, Attestation: in.Attestation, Once: in.Once, Seen: in.Seen}.Check()
	switch {
	case err != nil:
		refuse(w, err)
		return
	// An attestation is for the gate to read itself, and a label nobody has looked at.
	case in.Seen != "" && in.Seen != freeze.History:
		refuse(w, fmt.Errorf("seen: must be %s or left out, got %.40q", freeze.History, in.Seen))
		return
	case !auth.From(r.Context()).Covers(q.Service):
		refuse(w, fmt.Errorf("%w %.63q", errScope, q.Service))
		return
	}
	if in.DryRun {
		reply.JSON(w, http.StatusOK, d.cfg.Gate.Look(q))
		return
	}
	reply.JSON(w, http.StatusOK, d.cfg.Gate.Answer(r.Context(), q))
}

// services lists what in scope of r there is to be asked about, in env.
func (d *Desk) services(r *http.Request, env string) []string {
	var out []string
	for _, s := range d.cfg.Source.Statuses() {
		if service := s.Objective.Service; (env == "" || s.Env == env) && auth.From(r.Context()).Covers(service) {
			out = append(out, service)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
