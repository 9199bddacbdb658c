package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// LogPart is what the gate answered.
type LogPart struct {
	Sub, Trouble string
	Rows         []LoggedRow
	Service      string
	Services     []string
	Older        string
	Take         Take
}

// LoggedRow is one decision.
type LoggedRow struct {
	At                     Time
	Service, Href, Env     string
	Mark                   Chip
	Would                  string
	Kind, Ref, By          string
	Why, ReasonID, ID, API string
}

const mostLogged = 100

func (s *Server) gateLog(v view, o *gateView) []sheet {
	part, q := &o.Log, v.r.URL.Query()
	out := sheet{name: "decisions", columns: []string{"at", "decision_id", "service", "env", "kind", "ref", "asked_by", "decision", "would", "state", "reason_code", "proven_by", "override", "policy", "reason"}}
	for _, svc := range v.services {
		if s.cfg.Covers(v.r, svc.Name) {
			part.Services = append(part.Services, svc.Name)
		}
	}
	search := gate.Search{Service: q.Get("service"), Limit: mostLogged}
	if at, err := time.Parse(time.RFC3339Nano, q.Get("before")); err == nil {
		search.Before = at
	}
	if q.Get("format") != "" {
		search.Limit = 1000
	}
	part.Service, part.Take = search.Service, o.Take["decisions"]
	list, err := s.cfg.Releases.Decisions(v.r.Context(), search)
	if part.Trouble = s.read(v, "Decisions", err); err != nil {
		return []sheet{out}
	}
	for _, d := range list {
		a := d.Answer
		override := ""
		if a.Override != nil {
			override = *a.Override
		}
		out.rows = append(out.rows, []field{instant(d.At), txt(a.DecisionID), txt(a.Service), txt(a.Env), txt(string(a.Kind)), txt(a.Ref), txt(d.By), txt(string(a.Decision)), txt(string(a.Would)), txt(string(a.State)),
			txt(a.ReasonCode), txt(string(a.ProvenBy)), txt(override), txt(a.Policy), txt(strings.Join(a.Reasons, " "))})
		row := LoggedRow{At: v.short(d.At), Service: a.Service, Href: serviceHref(a.Service), Env: a.Env, Mark: verdictMark(a.Decision), Kind: spaced(string(a.Kind)), Ref: a.Ref, By: d.By,
			ReasonID: a.ReasonCode, ID: a.DecisionID, API: "/api/v1/gate/decisions/" + url.PathEscape(a.DecisionID)}
		if a.Would != "" {
			row.Would = v.say("would be %s", v.word(string(a.Would)))
		}
		if len(a.Reasons) > 0 {
			row.Why = v.text(v.tellAll(a.Reasons)...)
		}
		part.Rows = append(part.Rows, row)
	}
	part.Sub = v.say("%s, newest first", v.count(len(part.Rows), "decision", "decisions"))
	if len(list) == search.Limit {
		part.Older = with(v.r, "before", list[len(list)-1].At.UTC().Format(time.RFC3339Nano))
	}
	return []sheet{out}
}

// GlassPart is who asked to pass a freeze.
type GlassPart struct {
	Sub, Trouble, Next string
	Rows               []OverrideRow
	MayAsk             bool
	Services           []string
	Take               Take
}

// OverrideRow is one request to pass a freeze.
type OverrideRow struct {
	ID, Service, Href, Env, Ref string
	State                       Chip
	Asked                       Time
	AskedBy, GrantedBy          string
	Expires                     Time
	ExpiresIn, Used             string
	Ticket, Reason, Budget      string
	Grant, Revoke, Own          string // where forms post; Own: why there is none
}

// lookBackOverrides is how far back they are shown.
const lookBackOverrides = 90 * 24 * time.Hour

func (s *Server) breakGlass(v view, o *gateView) []sheet {
	part := &o.Glass
	out := sheet{name: "overrides", columns: []string{"id", "service", "env", "ref", "state", "asked_by", "asked_at", "granted_by", "granted_at", "expires_at", "used", "max_uses", "revoked_by", "ticket", "reason"}}
	list, err := s.cfg.Releases.Overrides(v.r.Context(), v.now.Add(-lookBackOverrides))
	part.MayAsk, part.Take = s.cfg.MayLift(v.r), o.Take["overrides"]
	for _, svc := range v.services {
		if s.cfg.Covers(v.r, svc.Name) {
			part.Services = append(part.Services, svc.Name)
		}
	}
	if part.Trouble = s.read(v, "Overrides", err); err != nil {
		return []sheet{out}
	}
	pending, granted := 0, 0
	for _, x := range list {
		state := x.State(v.now)
		out.rows = append(out.rows, []field{txt(x.ID), txt(x.Service), txt(x.Env), txt(x.Ref), txt(state), txt(x.AskedBy), instant(x.AskedAt), txt(x.GrantedBy), maybe(x.GrantedAt), instant(x.ExpiresAt), num(x.Used), num(x.MaxUses), txt(x.RevokedBy), txt(x.Ticket), txt(x.Reason)})
		switch state {
		case "pending":
			pending++
		case "granted":
			granted++
		}
		if len(part.Rows) < 100 {
			part.Rows = append(part.Rows, s.overrideRow(v, x, state))
		}
	}
	part.Sub = v.clauses(v.count(pending, "waits for somebody to grant it", "wait for somebody to grant them"), v.count(granted, "lets something out now", "let something out now"))
	return []sheet{out}
}

func (s *Server) overrideRow(v view, x freeze.Override, state string) OverrideRow {
	row := OverrideRow{ID: x.ID, Service: x.Service, Href: serviceHref(x.Service), Env: x.Env, Ref: x.Ref, Asked: v.short(x.AskedAt), AskedBy: x.AskedBy, GrantedBy: x.GrantedBy, Expires: v.short(x.ExpiresAt),
		Used: v.say("%s of %s", slo.Count(x.Used), slo.Count(x.MaxUses)), Ticket: x.Ticket, Reason: x.Reason}
	if x.Env == "" {
		row.Env = "everywhere"
	}
	if b := x.AskedOn; b != nil && b.Base > 0 {
		row.Budget = v.say("%s failures of %s allowed when it was asked for", slo.Count(b.Bad), slo.Count(b.Allowed))
	}
	path := "/gate/overrides/" + url.PathEscape(x.Service) + "/" + url.PathEscape(x.ID)
	switch state {
	case "granted":
		row.State = Chip{"fg-warn", "s-warn", "granted"}
	case "pending":
		row.State = Chip{"fg-unknown", "s-unknown", "pending"}
		if s.cfg.MayGrant(v.r) {
			if x.AskedBy == s.cfg.Actor(v.r) {
				row.Own = v.say("somebody else must grant it")
			} else {
				row.Grant = path + "/grant"
			}
		}
	default:
		row.State = Chip{"fg-normal", "s-nodata", state}
		if x.RevokedBy != "" {
			row.State.Text = v.say("%s by %s", v.word(row.State.Text), x.RevokedBy)
		}
	}
	if x.RevokedAt == nil && v.now.Before(x.ExpiresAt) {
		row.ExpiresIn, row.Revoke = v.in(x.ExpiresAt), path+"/revoke"
	}
	return row
}

const glassHref = "/gate?view=overrides"

func (s *Server) askOverride(w http.ResponseWriter, r *http.Request) {
	if !s.operator(w, r, "Not asked for") {
		return
	}
	wrong := func(status int, why string) { s.refuse(w, r, s.gate, "override", status, "Not asked for", why) }
	minutes, err := strconv.Atoi(strings.TrimSpace(r.PostFormValue("minutes")))
	if err != nil || minutes < 1 || minutes > int(freeze.MaxLife/time.Minute) {
		wrong(http.StatusUnprocessableEntity, phrase("For how long: must be 1 minute to 24 hours."))
		return
	}
	uses, err := strconv.ParseInt(strings.TrimSpace(r.PostFormValue("uses")), 10, 64)
	if err != nil {
		wrong(http.StatusUnprocessableEntity, phrase("How often: must be a number."))
		return
	}
	service := r.PostFormValue("service")
	status, why := relay(r, s.cfg.Releases.Ask, http.MethodPost, map[string]string{"service": service}, map[string]any{
		"env": r.PostFormValue("env"), "ref": strings.TrimSpace(r.PostFormValue("ref")), "reason": r.PostFormValue("reason"), "ticket": r.PostFormValue("ticket"),
		"max_uses": uses, "expires_at": s.cfg.Now().UTC().Add(time.Duration(minutes) * time.Minute)})
	if why != "" {
		wrong(status, sentence(why))
		return
	}
	s.Changed(topicLedger)
	http.Redirect(w, r, glassHref+"&said=asked", http.StatusSeeOther)
}

func (s *Server) grantOverride(w http.ResponseWriter, r *http.Request) {
	if !s.cfg.MayGrant(r) {
		s.trouble(w, s.look(r), http.StatusForbidden, "Not granted", "This takes an approver, who is not the one who asked.")
		return
	}
	s.override(w, r, s.cfg.Releases.Grant, phrase("Not granted"), "granted")
}

// revokeOverride takes no more than a login: to close a gate is the safe side.
func (s *Server) revokeOverride(w http.ResponseWriter, r *http.Request) {
	s.override(w, r, s.cfg.Releases.Revoke, phrase("Not revoked"), "revoked")
}

func (s *Server) override(w http.ResponseWriter, r *http.Request, call http.HandlerFunc, title, said string) {
	status, why := relay(r, call, http.MethodPost, map[string]string{"service": chi.URLParam(r, "service"), "id": chi.URLParam(r, "id")}, nil)
	if why != "" {
		s.trouble(w, s.look(r), status, title, sentence(why))
		return
	}
	s.Changed(topicLedger)
	http.Redirect(w, r, glassHref+"&said="+said, http.StatusSeeOther)
}
