package gate

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// longest is the most bytes of a parameter.
const longest = 256

// Question reads a question from the parameters of an address. What is no
// parameter is refused: a misspelt env would be asked about all of them.
func Question(v url.Values) (Request, error) {
	for name, values := range v {
		switch {
		case !slices.Contains([]string{"service", "env", "kind", "ref", "incident", "attestation", "once", "dry_run"}, name):
			return Request{}, fmt.Errorf("%.40q is no parameter; there are service, env, kind, ref, incident, attestation, once and dry_run", name)
		case len(values) > 1:
			return Request{}, fmt.Errorf("%s: must be given once, got it %d times", name, len(values))
		}
	}
	dry := v.Get("dry_run")
	if dry != "" && dry != "true" && dry != "false" {
		return Request{}, fmt.Errorf("dry_run: must be true or false, got %.40q", dry)
	}
	return Request{Service: v.Get("service"), Env: v.Get("env"), Kind: Kind(v.Get("kind")), Ref: v.Get("ref"),
		Incident: v.Get("incident"), Attestation: v.Get("attestation"), Once: v.Get("once"), DryRun: dry == "true"}.Check()
}

// Check completes r, or says why it is no question.
func (r Request) Check() (Request, error) {
	for name, value := range map[string]string{"service": r.Service, "env": r.Env, "kind": string(r.Kind), "ref": r.Ref,
		"incident": r.Incident, "attestation": r.Attestation, "once": r.Once} {
		if len(value) > longest && name != "attestation" || len(value) > 4096 || strings.ContainsFunc(value, func(c rune) bool { return c < ' ' }) {
			return r, fmt.Errorf("%s: must be at most %d bytes of plain text", name, longest)
		}
	}
	if r.Service == "" {
		return r, fmt.Errorf("service: must be given")
	}
	if r.Kind == "" {
		r.Kind = Feature
	}
	if !slices.Contains(Kinds(), r.Kind) {
		return r, fmt.Errorf("kind: must be one of %v, got %.40q", Kinds(), r.Kind)
	}
	return r, nil
}
