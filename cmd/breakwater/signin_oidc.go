package main

import (
	"errors"
	"net/http"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/auth/oidc"
	"breakwater/web"
)

// ticketCookie keeps who set out for the provider.
const ticketCookie = "breakwater_ticket"

func (c *control) goToProvider(w http.ResponseWriter, r *http.Request) {
	if c.signin.oidc == nil {
		http.NotFound(w, r)
		return
	}
	location, ticket, err := c.signin.oidc.Start(r.Context(), web.LocalPath(r.URL.Query().Get("next")))
	if err != nil {
		c.pages.SignInFailed(c.signin.door, w, r, err)
		return
	}
	c.setTicket(w, r, ticket.Encode())
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, location, http.StatusSeeOther)
}

// setTicket gives the browser its ticket, or takes it away. Lax lets it come along
// when the provider's page leads back here.
func (c *control) setTicket(w http.ResponseWriter, r *http.Request, value string) {
	secure := c.signin.door.Secure(r)
	cookie := &http.Cookie{Name: auth.CookieName(ticketCookie, secure), Value: value, Path: "/", MaxAge: int(oidc.TicketFor / time.Second),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteLaxMode}
	if value == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(w, cookie)
}

func (c *control) backFromProvider(w http.ResponseWriter, r *http.Request) {
	if c.signin.oidc == nil {
		http.NotFound(w, r)
		return
	}
	next, err := c.vouched(w, r)
	if refused, ok := errors.AsType[*oidc.RefusedError](err); ok {
		err = &auth.RuleError{Why: refused.Why}
	}
	if err != nil {
		c.pages.SignInFailed(c.signin.door, w, r, err)
		return
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, next, http.StatusSeeOther)
}

// vouched opens a session for whom the provider vouches, and says where to go on.
func (c *control) vouched(w http.ResponseWriter, r *http.Request) (next string, err error) {
	secure := c.signin.door.Secure(r)
	cookie, err := r.Cookie(auth.CookieName(ticketCookie, secure))
	if err != nil {
		return "", &auth.RuleError{Why: "this browser did not begin a sign-in, or took longer than ten minutes; begin again"}
	}
	c.setTicket(w, r, "") // it is good once
	ticket, err := oidc.ParseTicket(cookie.Value)
	if err != nil {
		return "", &auth.RuleError{Why: "this browser's sign-in cannot be read; begin again"}
	}
	q := r.URL.Query()
	u, err := c.signin.oidc.Finish(r.Context(), ticket, q.Get("state"), q.Get("code"), q.Get("error"))
	if err != nil {
		return "", err
	}
	secret, _, err := c.signin.people.SignInVouched(r.Context(), u, r.RemoteAddr, auth.SessionSecret(r, secure))
	if err != nil {
		return "", err
	}
	auth.SetCookie(w, secret, secure)
	return web.LocalPath(ticket.Next), nil
}
