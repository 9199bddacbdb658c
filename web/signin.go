package web

import (
	"bytes"
	"errors"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"breakwater/internal/auth"
)

// Door is what the pages of the sign-in need.
type Door struct {
	People *auth.People
	Secure func(*http.Request) bool // whether a request came over TLS, to us or a proxy
	// Provider is what the button of another way in says; "": there is none. The
	// way itself begins at /signin/oidc.
	Provider string
}

// maxForm is more than any form of these pages sends.
const maxForm = 64 << 10

type doorView struct {
	Title, Theme, Env         string
	Next, Name, Said, Trouble string
	Provider, ProviderHref    string
	MustChange                bool
	Min, Max                  int
}

// Who is what a page shows of who looks at it.
type Who struct {
	Name, Role string
	Signed     bool // with a session, which can end
	SignIn     bool // nobody signed in, but somebody could
}

// whoAsks is nil where nobody stands before the pages.
func whoAsks(r *http.Request) *Who {
	p := auth.From(r.Context())
	switch p.Via {
	case auth.BySession:
		return &Who{Name: p.Name, Role: string(p.Role), Signed: true}
	case auth.ByLoopback:
		return &Who{Name: p.Name, Role: string(p.Role), SignIn: true}
	case auth.ByToken:
		return &Who{Name: p.Name, Role: string(p.Role)}
	}
	return nil
}

// LocalPath is next where it is a page of ours, and the overview where it is
// anything else: a link to the sign-in must not lead on to another site.
func LocalPath(next string) string {
	odd := func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' || r > 0x7e }
	u, err := url.Parse(next)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || u.Opaque != "" ||
		!strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.ContainsFunc(next, odd) {
		return "/"
	}
	for _, door := range []string{"/signin", "/signout", "/password"} {
		if u.Path == door || strings.HasPrefix(u.Path, door+"/") {
			return "/"
		}
	}
	q := u.Query()
	q.Del("fragment")
	if strings.HasPrefix(u.EscapedPath(), "//") {
		return "/"
	}
	return (&url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: q.Encode()}).String()
}

// Static serves styles, scripts and icons, which hold no secret: the sign-in needs
// them too.
func (s *Server) Static() http.Handler { return secured(s.assets) }

// SignInPage is the form.
func (s *Server) SignInPage(d Door) http.Handler {
	return secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		said := map[string]string{
			"out":   phrase("You are signed out."),
			"again": phrase("You were not signed in any more, so what you pressed was not done. Sign in and press it again."),
		}[r.URL.Query().Get("said")]
		s.door(w, r, d, http.StatusOK, "signin", doorView{Title: "Sign in", Next: LocalPath(r.URL.Query().Get("next")), Said: said})
	}))
}

// SignIn takes the form.
func (s *Server) SignIn(d Door) http.Handler {
	return secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		v := doorView{Title: "Sign in", Next: LocalPath(r.PostFormValue("next")), Name: r.PostFormValue("name")}
		secure := d.Secure(r)
		secret, u, err := d.People.SignIn(r.Context(), v.Name, r.PostFormValue("password"), r.RemoteAddr, auth.SessionSecret(r, secure))
		if err != nil {
			var status int
			status, v.Trouble = s.doorTrouble(w, s.lang(r), err)
			if errors.Is(err, auth.ErrCredentials) {
				v.Trouble = s.lang(r).say("Name and password do not fit.")
			}
			s.door(w, r, d, status, "signin", v)
			return
		}
		auth.SetCookie(w, secret, secure)
		if u.MustChange {
			v.Next = "/password?" + url.Values{"next": {v.Next}}.Encode()
		}
		leave(w, r, v.Next)
	}))
}

// SignInFailed shows the form again with what went wrong on another way in.
func (s *Server) SignInFailed(d Door, w http.ResponseWriter, r *http.Request, err error) {
	status, text := s.doorTrouble(w, s.lang(r), err)
	secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.door(w, r, d, status, "signin", doorView{Title: "Sign in", Next: "/", Trouble: text})
	})).ServeHTTP(w, r)
}

// SignOut ends the session. Without one there is nothing to end.
func (s *Server) SignOut(d Door) http.Handler {
	return secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		secure := d.Secure(r)
		if secret := auth.SessionSecret(r, secure); secret != "" {
			if err := d.People.SignOut(r.Context(), secret); err != nil {
				s.cfg.Log.Error("a session was not ended", "err", err)
				s.door(w, r, d, http.StatusServiceUnavailable, "signin", doorView{Title: phrase("Not signed out"), Next: "/",
					Trouble: s.lang(r).say("The session could not be ended while the database is away: it ends by itself after 12 hours without use. Try again later, and close the browser.")})
				return
			}
		}
		auth.SetCookie(w, "", secure)
		leave(w, r, "/signin?said=out")
	}))
}

// PasswordPage asks for a new password.
func (s *Server) PasswordPage(d Door) http.Handler {
	return secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.door(w, r, d, http.StatusOK, "signin-password", doorView{Title: "Change the password", Next: LocalPath(r.URL.Query().Get("next")), Name: auth.From(r.Context()).Name})
	}))
}

// Password takes the new password, ends every session of the person, and goes on
// in a new one.
func (s *Server) Password(d Door) http.Handler {
	return secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		name := auth.From(r.Context()).Name
		v := doorView{Title: "Change the password", Next: LocalPath(r.PostFormValue("next")), Name: name}
		if r.PostFormValue("new") != r.PostFormValue("again") {
			v.Trouble = s.lang(r).say("The two new passwords are not the same.")
			s.door(w, r, d, http.StatusUnprocessableEntity, "signin-password", v)
			return
		}
		secret, err := d.People.ChangePassword(r.Context(), name, r.PostFormValue("present"), r.PostFormValue("new"), r.RemoteAddr)
		if err != nil {
			var status int
			status, v.Trouble = s.doorTrouble(w, s.lang(r), err)
			s.door(w, r, d, status, "signin-password", v)
			return
		}
		auth.SetCookie(w, secret, d.Secure(r))
		leave(w, r, v.Next)
	}))
}

// doorTrouble is the status and the words of what went wrong.
func (s *Server) doorTrouble(w http.ResponseWriter, l lang, err error) (int, string) {
	if many, ok := errors.AsType[*auth.TooManyError](err); ok {
		seconds := max(1, int64(math.Ceil(many.After.Seconds())))
		w.Header().Set("Retry-After", strconv.FormatInt(seconds, 10))
		return http.StatusTooManyRequests, l.say("Too many tries. Wait %s.", l.count(int(seconds), "second", "seconds"))
	}
	if rule, ok := errors.AsType[*auth.RuleError](err); ok {
		return http.StatusUnprocessableEntity, asSentence(rule.Why)
	}
	if errors.Is(err, auth.ErrCredentials) {
		return http.StatusForbidden, asSentence(err.Error())
	}
	s.cfg.Log.Error("nobody can sign in", "err", err)
	return http.StatusServiceUnavailable, l.say("Nobody new can sign in at the moment: the accounts cannot be read. Who is signed in reads on; tokens go on working.")
}

func asSentence(text string) string {
	if text == "" {
		return ""
	}
	if !latin(text) {
		return strings.TrimSuffix(text, "。") + "。"
	}
	return sentenceCase(text) + "."
}

func (s *Server) door(w http.ResponseWriter, r *http.Request, d Door, status int, name string, v doorView) {
	v.Theme, v.Env, v.Min, v.Max = theme(w, r), s.cfg.Env, auth.MinPassword, auth.MaxPassword
	if d.Provider != "" {
		v.Provider, v.ProviderHref = d.Provider, "/signin/oidc?"+url.Values{"next": {v.Next}}.Encode()
	}
	v.MustChange = name == "signin-password" && r.Method == http.MethodGet
	s.keepLang(w, r)
	s.send(w, s.lang(r), status, name, "door", v)
}

func leave(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// Refused is the page of whoever signed in and may not see this one.
func (s *Server) Refused(w http.ResponseWriter, r *http.Request, status int, detail string) {
	secured(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v := s.look(r)
		s.trouble(w, v, status, "Not allowed", v.text(asSentence(detail), v.say("Who administers breakwater can give you another role.")))
	})).ServeHTTP(w, r)
}

// send renders a page that stands alone, in one piece.
func (s *Server) send(w http.ResponseWriter, l lang, status int, page, layout string, content any) {
	var body bytes.Buffer
	if err := s.pages.of(l, page).ExecuteTemplate(&body, layout, content); err != nil {
		s.cfg.Log.Error("page cannot be rendered", "page", page, "err", err)
		http.Error(w, "this page cannot be shown; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // a client that left is nobody's error
}
