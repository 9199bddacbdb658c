package web

import (
	"net/http"
	"net/url"
	"strings"

	"breakwater/internal/auth"
	"breakwater/slo/freeze"
)

// PolicySave is how a policy that was tried comes into force.
type PolicySave struct {
	Place  string
	Closed string // why control cannot write it there; "": it can
	May    bool   // whoever looks may
	File   Link   // the document, to keep or to put there by hand
}

const policyHref = "/gate?view=policy"

// saving offers what may be done with a document that is good.
func (s *Server) saving(v view, p freeze.Policy) *PolicySave {
	out := &PolicySave{May: mayRule(v.r), File: Link{Name: "freeze-" + p.Name + ".yaml", Href: policyHref + "&" + url.Values{"policy": {v.r.URL.Query().Get("policy")}, "as": {"yaml"}}.Encode()}}
	out.Place, out.Closed = s.cfg.Releases.Shelf()
	return out
}

// mayRule: policies are for admins of all services.
func mayRule(r *http.Request) bool {
	who := auth.From(r.Context())
	return who.May(auth.Admin) && len(who.Services) == 0
}

// policyFile gives the document that was tried as a file; done: it did.
func (s *Server) policyFile(w http.ResponseWriter, v view, part PolicyPart) (done bool) {
	if v.r.URL.Query().Get("as") != "yaml" || part.Save == nil {
		return false
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Content-Disposition", `attachment; filename="`+part.Save.File.Name+`"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(strings.TrimSpace(part.Text) + "\n")) // the client may have gone
	return true
}

// savePolicy puts a policy in force, by the handler of the API.
func (s *Server) savePolicy(w http.ResponseWriter, r *http.Request) {
	if !mayRule(r) {
		s.trouble(w, s.look(r), http.StatusForbidden, "Not saved", "This takes an admin of all services.")
		return
	}
	status, why := relay(r, s.cfg.Releases.SavePolicy, http.MethodPost, nil, map[string]any{
		"document": strings.ReplaceAll(r.PostFormValue("policy"), "\r\n", "\n"), "reason": r.PostFormValue("reason")})
	if why != "" {
		s.trouble(w, s.look(r), status, "Not saved", sentence(why))
		return
	}
	s.Changed(topicLedger)
	http.Redirect(w, r, policyHref+"&said=saved", http.StatusSeeOther)
}
