package web

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
)

// Accounts is what the pages of an admin need.
type Accounts struct {
	People *auth.People
	Tokens auth.Store
	Audit  AuditLog
	Chain  *auth.Chain
	// System is the machinery: configurations, deliveries, the database, gateways.
	System System
	// Documents are the revisions of what control reads; nil: it reads none.
	Documents Documents
	// Forget makes a revocation hold with the next request; nil: within two seconds.
	Forget func()
}

// AuditLog is the end of the audit, newest first.
type AuditLog interface {
	AuditTail(ctx context.Context, before int64, like auth.Entry, limit int) ([]auth.Row, error)
}

// adminTopics are none: these pages hold forms and secrets shown once, which must
// not be taken away under somebody's hands.
const adminTopics = "accounts"

// adminNav is where an admin of everything can go. Who administers some services
// has no business with accounts.
func adminNav(r *http.Request) []Link {
	if !administers(auth.From(r.Context())) {
		return nil
	}
	return []Link{
		{Name: "People", Href: "/admin/", Icon: "book", Head: "Admin"},
		{Name: "Tokens", Href: "/admin/tokens", Icon: "check"},
		{Name: "Audit", Href: "/admin/audit", Icon: "list"},
		{Name: "Configuration", Href: "/admin/config", Icon: "gear"},
		{Name: "Health", Href: "/admin/doctor", Icon: "info"},
	}
}

func administers(p auth.Principal) bool { return p.May(auth.Admin) && len(p.Services) == 0 }

// Admin serves the pages under /admin. Whoever stands before it lets in admins only.
func (s *Server) Admin(a Accounts) http.Handler {
	d := &adminDesk{s, a}
	r := chi.NewRouter()
	r.Use(secured, compressed, d.all)
	r.Get("/", d.people)
	r.Post("/users", d.createUser)
	r.Post("/users/{name}", d.changeUser)
	r.Post("/users/{name}/reset", d.resetUser)
	r.Post("/users/{name}/disable", d.disableUser)
	r.Post("/users/{name}/enable", d.enableUser)
	r.Get("/tokens", d.tokens)
	r.Post("/tokens", d.createToken)
	r.Post("/tokens/{name}/revoke", d.revokeToken)
	r.Get("/audit", d.audit)
	r.Get("/config", d.configs)
	r.Get("/config/{number}", d.rollback)
	r.Post("/config/{number}", d.rollBack)
	r.Get("/deliveries", d.deliveries)
	r.Get("/database", d.database)
	r.Get("/doctor", d.doctor)
	r.NotFound(s.notFound)
	return r
}

type adminDesk struct {
	*Server
	a Accounts
}

// all keeps out an admin of some services: they could give themselves the rest.
func (d *adminDesk) all(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !administers(auth.From(r.Context())) {
			d.trouble(w, d.look(r), http.StatusForbidden, "Not allowed", "These pages are for admins of all services.")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		next.ServeHTTP(w, r)
	})
}

// adminFrame is what the pages under /admin share.
type adminFrame struct {
	Tabs          []Link
	Said, Trouble string
	// Secret is shown this once: SecretOf says whose, SecretIs what it is.
	Secret, SecretOf, SecretIs string
	Roles                      []string
}

func adminTabs(here string) []Link {
	tabs := []Link{{Name: "People", Href: "/admin/"}, {Name: "Tokens", Href: "/admin/tokens"}, {Name: "Audit", Href: "/admin/audit"},
		{Name: "Configuration", Href: "/admin/config"}, {Name: "Deliveries", Href: "/admin/deliveries"}, {Name: "Database", Href: "/admin/database"}, {Name: "Health", Href: "/admin/doctor"}}
	for i := range tabs {
		tabs[i].Here = tabs[i].Name == here
	}
	return tabs
}

type adminPeople struct {
	adminFrame
	People []personRow
	// New is the form as it was sent, to be sent again.
	New struct{ Name, Role, Services string }
}

type personRow struct {
	Name, Role, Services, Scope, How string
	SignedIn                         Time
	Chip                             Chip
	Href                             string
	Self, Local, Disabled            bool
	Roles                            []roleOption
}

type roleOption struct {
	Name string
	Here bool
}

func (d *adminDesk) people(w http.ResponseWriter, r *http.Request) {
	said := map[string]string{"changed": phrase("The account is changed."), "disabled": phrase("The account is disabled, and signed out everywhere."),
		"enabled": phrase("The account may sign in again.")}[r.URL.Query().Get("said")]
	d.showPeople(w, r, http.StatusOK, adminPeople{adminFrame: adminFrame{Said: said}})
}

func (d *adminDesk) showPeople(w http.ResponseWriter, r *http.Request, status int, p adminPeople) {
	v := d.look(r)
	users, err := d.a.People.Users(r.Context())
	if err != nil {
		d.cfg.Log.Error("people cannot be read", "err", err)
		p.Trouble = v.text(v.word(p.Trouble), v.say("The accounts cannot be read at the moment."))
		status = max(status, http.StatusServiceUnavailable)
	}
	p.Tabs = adminTabs("People")
	for _, role := range auth.PeopleRoles() {
		p.Roles = append(p.Roles, string(role))
	}
	me := auth.From(r.Context())
	for _, u := range users {
		row := personRow{Name: u.Name, Role: string(u.Role), Services: strings.Join(u.Services, ", "), Scope: scopeOf(u.Services), How: "password",
			SignedIn: v.dated(u.SignedInAt), Href: "/admin/users/" + pathOf(u.Name), Self: me.Via == auth.BySession && me.Name == u.Name,
			Local: u.Issuer == "", Disabled: !u.Live(), Chip: Chip{"normal", "s-normal", "may sign in"}}
		switch {
		case row.Disabled:
			row.Chip = Chip{"unknown", "s-unknown", "disabled"}
		case u.MustChange:
			row.Chip = Chip{"warn", "s-warn", "first password"}
		}
		if !row.Local {
			row.How = u.Issuer
		}
		for _, role := range auth.PeopleRoles() {
			row.Roles = append(row.Roles, roleOption{string(role), role == u.Role})
		}
		p.People = append(p.People, row)
	}
	d.show(w, v, status, "admin", Page{Title: "People", Crumbs: []Link{{Name: "Admin"}, {Name: "People"}}, Topics: adminTopics}, p)
}

func scopeOf(services []string) string {
	if len(services) == 0 {
		return phrase("all services")
	}
	return strings.Join(services, ", ")
}

// listField reads names set apart by commas or blanks.
func listField(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
}

func (d *adminDesk) createUser(w http.ResponseWriter, r *http.Request) {
	var p adminPeople
	p.New.Name, p.New.Role, p.New.Services = r.PostFormValue("name"), r.PostFormValue("role"), r.PostFormValue("services")
	u := auth.User{Name: strings.ToLower(strings.TrimSpace(p.New.Name)), Role: auth.Role(p.New.Role), Services: listField(p.New.Services)}
	password, err := d.a.People.Create(r.Context(), d.cfg.Actor(r), u)
	if err != nil {
		status, text := d.adminTrouble(err)
		p.Trouble = text
		d.showPeople(w, r, status, p)
		return
	}
	d.showPeople(w, r, http.StatusOK, adminPeople{adminFrame: adminFrame{Secret: password, SecretOf: u.Name, SecretIs: phrase("first password")}})
}

func (d *adminDesk) changeUser(w http.ResponseWriter, r *http.Request) {
	err := d.a.People.Change(r.Context(), d.cfg.Actor(r), chi.URLParam(r, "name"), auth.Role(r.PostFormValue("role")), listField(r.PostFormValue("services")))
	d.saved(w, r, err, "changed")
}

func (d *adminDesk) disableUser(w http.ResponseWriter, r *http.Request) {
	d.saved(w, r, d.a.People.Disable(r.Context(), d.cfg.Actor(r), chi.URLParam(r, "name")), "disabled")
}

func (d *adminDesk) enableUser(w http.ResponseWriter, r *http.Request) {
	d.saved(w, r, d.a.People.Enable(r.Context(), d.cfg.Actor(r), chi.URLParam(r, "name")), "enabled")
}

func (d *adminDesk) saved(w http.ResponseWriter, r *http.Request, err error, said string) {
	if err != nil {
		status, text := d.adminTrouble(err)
		d.showPeople(w, r, status, adminPeople{adminFrame: adminFrame{Trouble: text}})
		return
	}
	leave(w, r, "/admin/?said="+said)
}

func (d *adminDesk) resetUser(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "name")
	password, err := d.a.People.Reset(r.Context(), d.cfg.Actor(r), name, "")
	if err != nil {
		d.saved(w, r, err, "")
		return
	}
	d.showPeople(w, r, http.StatusOK, adminPeople{adminFrame: adminFrame{Secret: password, SecretOf: name, SecretIs: phrase("first password")}})
}

func (d *adminDesk) adminTrouble(err error) (int, string) {
	rule, isRule := errors.AsType[*auth.RuleError](err)
	switch {
	case isRule:
		return http.StatusUnprocessableEntity, asSentence(rule.Why)
	case errors.Is(err, auth.ErrTaken):
		return http.StatusConflict, phrase("That name was used before, for an account or a token. Names are not used twice: the audit speaks by them.")
	case errors.Is(err, auth.ErrLastAdmin):
		return http.StatusConflict, phrase("This is the last admin who may sign in; make another one first.")
	case errors.Is(err, auth.ErrNoUser), errors.Is(err, auth.ErrNoToken):
		return http.StatusNotFound, asSentence(err.Error())
	}
	d.cfg.Log.Error("accounts cannot be changed", "err", err)
	return http.StatusServiceUnavailable, phrase("Nothing was changed: the database does not take it at the moment.")
}

// dated is a day with its year; accounts and tokens live long. Zero is nothing.
func (w when) dated(t time.Time) Time {
	if t.IsZero() {
		return Time{}
	}
	return Time{w.iso(t), w.written(t.In(w.zone), "2 Jan 2006 15:04")}
}

// clockNow is the instant of an expiry or a walk; pages have their own clock.
func (d *adminDesk) clockNow() time.Time { return d.cfg.Now().UTC() }

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
