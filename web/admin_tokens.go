package web

import (
	"context"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
)

type adminTokens struct {
	adminFrame
	Tokens []tokenRow
	New    struct{ Name, Role, Services, Days string }
}

type tokenRow struct {
	Name, Role, Scope, By string
	Made, Ends            Time
	Chip                  Chip
	Live                  bool
	Href                  string
}

func (d *adminDesk) tokens(w http.ResponseWriter, r *http.Request) {
	said := map[string]string{"revoked": phrase("The token is revoked; every control refuses it within two seconds.")}[r.URL.Query().Get("said")]
	d.showTokens(w, r, http.StatusOK, adminTokens{adminFrame: adminFrame{Said: said}})
}

func (d *adminDesk) showTokens(w http.ResponseWriter, r *http.Request, status int, p adminTokens) {
	v := d.look(r)
	tokens, err := d.a.Tokens.Tokens(r.Context())
	if err != nil {
		d.cfg.Log.Error("tokens cannot be read", "err", err)
		p.Trouble = v.text(v.word(p.Trouble), v.say("The tokens cannot be read at the moment."))
		status = max(status, http.StatusServiceUnavailable)
	}
	p.Tabs = adminTabs("Tokens")
	for _, role := range auth.Roles() {
		p.Roles = append(p.Roles, string(role))
	}
	if p.New.Days == "" {
		p.New.Days = "90"
	}
	slices.Reverse(tokens) // newest first
	now := d.clockNow()
	for _, t := range tokens {
		row := tokenRow{Name: t.Name, Role: string(t.Role), Scope: scopeOf(t.Services), By: t.CreatedBy, Made: v.dated(t.CreatedAt), Ends: v.dated(t.ExpiresAt), Live: t.Live(now),
			Chip: Chip{"normal", "s-normal", "live"}, Href: "/admin/tokens/" + pathOf(t.Name)}
		switch {
		case !t.RevokedAt.IsZero():
			row.Chip = Chip{"unknown", "s-unknown", "revoked"}
		case !row.Live:
			row.Chip = Chip{"unknown", "s-unknown", "expired"}
		}
		p.Tokens = append(p.Tokens, row)
	}
	d.show(w, v, status, "admin-tokens", Page{Title: "Tokens", Crumbs: []Link{{Name: "Admin"}, {Name: "Tokens"}}, Topics: adminTopics}, p)
}

// maxDays is how far a token may reach: what shall live longer has no end.
const maxDays = 3660

func (d *adminDesk) createToken(w http.ResponseWriter, r *http.Request) {
	var p adminTokens
	p.New.Name, p.New.Role, p.New.Services, p.New.Days = r.PostFormValue("name"), r.PostFormValue("role"), r.PostFormValue("services"), r.PostFormValue("days")
	v := d.look(r)
	fail := func(status int, text string) {
		p.Trouble = text
		d.showTokens(w, r, status, p)
	}
	days, err := strconv.Atoi(strings.TrimSpace(p.New.Days))
	if err != nil || days < 0 || days > maxDays {
		fail(http.StatusUnprocessableEntity, v.say("Days must be a whole number from 0, which is without end, to %s.", strconv.Itoa(maxDays)))
		return
	}
	t := auth.Token{Name: strings.ToLower(strings.TrimSpace(p.New.Name)), Role: auth.Role(p.New.Role), Services: listField(p.New.Services),
		CreatedBy: d.cfg.Actor(r), CreatedAt: d.clockNow()}
	if days > 0 {
		t.ExpiresAt = t.CreatedAt.Add(time.Duration(days) * 24 * time.Hour)
	}
	// What the rules refuse is told as it is; the store is asked only after them.
	if err := auth.CheckToken(t); err != nil {
		fail(http.StatusUnprocessableEntity, asSentence(err.Error()))
		return
	}
	secret, err := auth.Issue(r.Context(), d.a.Tokens, t)
	if err != nil {
		fail(d.adminTrouble(err))
		return
	}
	d.forget()
	d.showTokens(w, r, http.StatusOK, adminTokens{adminFrame: adminFrame{Secret: secret, SecretOf: t.Name, SecretIs: "token"}})
}

func (d *adminDesk) revokeToken(w http.ResponseWriter, r *http.Request) {
	if err := auth.Revoke(r.Context(), d.a.Tokens, d.cfg.Actor(r), chi.URLParam(r, "name"), d.clockNow()); err != nil {
		status, text := d.adminTrouble(err)
		d.showTokens(w, r, status, adminTokens{adminFrame: adminFrame{Trouble: text}})
		return
	}
	d.forget()
	leave(w, r, "/admin/tokens?said=revoked")
}

func (d *adminDesk) forget() {
	if d.a.Forget != nil {
		d.a.Forget()
	}
}

func pathOf(name string) string { return url.PathEscape(name) }

type adminAudit struct {
	adminFrame
	Chain                 Chip
	Proof                 string
	Last                  string // hash of the last proved row
	Actor, Action, Object string
	Rows                  []auditLine
	Older, Newest         string // links; "": there is none
}

type auditLine struct {
	Seq                           string
	At                            Time
	Actor, Action, Object, Detail string
}

const (
	auditRows = 100
	// proveFor is how much of the chain one look may walk.
	proveFor = 2 * time.Second
)

func (d *adminDesk) audit(w http.ResponseWriter, r *http.Request) {
	v, q := d.look(r), r.URL.Query()
	p := adminAudit{Actor: q.Get("actor"), Action: q.Get("action"), Object: q.Get("object")}
	p.Tabs = adminTabs("Audit")
	before := int64(math.MaxInt64)
	if n, err := strconv.ParseInt(q.Get("before"), 10, 64); err == nil {
		before = n
	}
	status := http.StatusOK
	rows, err := d.a.Audit.AuditTail(r.Context(), before, auth.Entry{Actor: p.Actor, Action: p.Action, Object: p.Object}, auditRows)
	if err != nil {
		d.cfg.Log.Error("the audit cannot be read", "err", err)
		p.Trouble, status = v.say("The audit cannot be read at the moment."), http.StatusServiceUnavailable
	}
	for _, row := range rows {
		p.Rows = append(p.Rows, auditLine{itoa(row.Seq), v.short(row.At), row.Actor, row.Action, row.Object, row.Detail})
	}
	link := func(before int64) string {
		like := url.Values{}
		for _, f := range [][2]string{{"actor", p.Actor}, {"action", p.Action}, {"object", p.Object}} {
			if f[1] != "" {
				like.Set(f[0], f[1])
			}
		}
		if before > 0 {
			like.Set("before", itoa(before))
		}
		return "/admin/audit?" + like.Encode()
	}
	if len(rows) == auditRows {
		p.Older = link(rows[len(rows)-1].Seq)
	}
	if before != math.MaxInt64 {
		p.Newest = link(0)
	}
	d.prove(r.Context(), v, &p)
	d.show(w, v, status, "admin-audit", Page{Title: "Audit", Crumbs: []Link{{Name: "Admin"}, {Name: "Audit"}}, Topics: adminTopics}, p)
}

// prove says how far the chain of hashes is known to hold.
func (d *adminDesk) prove(ctx context.Context, v view, p *adminAudit) {
	ctx, cancel := context.WithTimeout(ctx, proveFor)
	defer cancel()
	proof, err := d.a.Chain.Check(ctx, d.clockNow())
	rows := v.count(int(proof.Rows), "row", "rows")
	p.Last = proof.Last
	switch {
	case proof.Broken != nil:
		p.Chain, p.Proof = Chip{"emergency", "s-emergency", "broken"}, asSentence(proof.Broken.Error())
	case err != nil:
		p.Chain, p.Proof = Chip{"unknown", "s-unknown", "not proved"}, v.say("The chain cannot be walked at the moment.")
	case proof.Whole.Before(proof.Since):
		p.Chain, p.Proof = Chip{"unknown", "s-unknown", "being proved"}, v.say("%s hold so far; look again to go on.", rows)
	default:
		p.Chain, p.Proof = Chip{"normal", "s-normal", "unbroken"}, v.say("%s, walked from the first since %s.", rows, v.short(proof.Since).Text)
	}
}
