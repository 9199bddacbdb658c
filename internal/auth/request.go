package auth

import (
	"context"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"breakwater/internal/reply"
)

// secretOf takes the secret from a Bearer header, or from the password of HTTP
// Basic, which every browser can ask for.
func secretOf(r *http.Request) (string, bool) {
	scheme, rest, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	switch {
	case scheme == "":
		return "", false
	case strings.EqualFold(scheme, "Bearer"):
		return strings.TrimSpace(rest), true
	case strings.EqualFold(scheme, "Basic"):
		_, password, _ := r.BasicAuth()
		return password, true
	}
	return "", true
}

// find looks the secret up, in the same time whichever token it is like.
func (g *Guard) find(ctx context.Context, secret string) (Token, bool, error) {
	tokens, err := g.list(ctx)
	if err != nil {
		return Token{}, false, err
	}
	h := HashOf(secret)
	at := -1
	for i := range tokens {
		at = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(h[:], tokens[i].Hash[:]), i, at)
	}
	if at < 0 {
		return Token{}, false, nil
	}
	return tokens[at], true, nil
}

// hostAllowed: a plain address cannot be rebound by DNS, a name can.
func (g *Guard) hostAllowed(host string) bool {
	name := hostname(host)
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return strings.EqualFold(name, "localhost") || slices.ContainsFunc(g.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) })
}

func hostname(host string) string {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// fromLoopback: the listener, the peer and the name asked for are all this
// machine's own, and no proxy stands between.
func fromLoopback(r *http.Request) bool {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !loopback(hostname(local.String())) || !loopback(hostname(r.RemoteAddr)) {
		return false
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via"} {
		if _, there := r.Header[name]; there {
			return false
		}
	}
	host := hostname(r.Host)
	return strings.EqualFold(host, "localhost") || loopback(host)
}

func loopback(addr string) bool {
	a, err := netip.ParseAddr(addr)
	return err == nil && a.Unmap().IsLoopback()
}

// refusal is why a request was not let in.
type refusal struct {
	status         int
	reason, detail string
	name           string // of the token, where it is known
}

func foreignHost(host string) refusal {
	return refusal{http.StatusForbidden, "host", fmt.Sprintf("this server is not asked under the name %.100q; list it with --host", host), ""}
}

// refuse answers with a problem (RFC 9457), or leads a browser to where it can
// sign in. A refused change is audited too, at a bounded rate: whoever has no
// token must not be able to fill the database.
func (g *Guard) refuse(w http.ResponseWriter, r *http.Request, p Principal, why refusal) {
	if g.cfg.Audit != nil && changes(r.Method) && why.status != http.StatusServiceUnavailable {
		g.denied(r, why)
	}
	if g.lead(w, r, p, why) {
		return
	}
	if why.status == http.StatusUnauthorized {
		// A browser that can sign in must not ask for a password by itself, for an
		// image or a stream, over the page.
		if g.cfg.People == nil || r.Header.Get("Sec-Fetch-Mode") == "" {
			w.Header().Add("WWW-Authenticate", `Basic realm="breakwater", charset="UTF-8"`)
		}
		w.Header().Add("WWW-Authenticate", `Bearer realm="breakwater"`)
	}
	reply.Problem(w, why.status, why.reason, why.detail)
}

func (g *Guard) denied(r *http.Request, why refusal) {
	skipped, ok := g.denials.take(time.Now())
	if !ok {
		return
	}
	detail := fmt.Sprintf("%d %s from %s", why.status, why.reason, r.RemoteAddr)
	if skipped > 0 {
		detail += fmt.Sprintf("; %d more were not written", skipped)
	}
	actor := why.name
	if actor == "" {
		actor = "unknown"
	}
	// Hanging up must not keep a refusal out of the audit.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), deniedWait)
	defer cancel()
	e := Entry{Actor: actor, Action: "request.denied", Object: r.Method + " " + r.URL.Path, Detail: detail}
	if err := g.cfg.Audit.Audit(ctx, e); err != nil {
		g.cfg.Log.Error("a refusal was not audited", "err", err)
	}
}

// deniedWait is how long a refusal waits for its row.
const deniedWait = 5 * time.Second

// lead answers a person's browser: to the sign-in, to the change of the first
// password, or with a page that says no. Machines, and who sent a token, get a
// problem; false: nothing was answered.
func (g *Guard) lead(w http.ResponseWriter, r *http.Request, p Principal, why refusal) bool {
	if g.cfg.People == nil || !wantsPage(r) {
		return false
	}
	to := ""
	switch why.reason {
	case "no_token", "no_session", "session_ended":
		to = "/signin?" + url.Values{"next": {r.URL.RequestURI()}}.Encode()
		if changes(r.Method) {
			// What was pressed is not pressed again by signing in: it must be said.
			to = "/signin?said=again"
		}
	case "password_change":
		to = "/password"
	default:
		if g.cfg.Page == nil || p.Via == "" {
			return false
		}
		g.cfg.Page(w, r, why.status, why.detail)
		return true
	}
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther)
	return true
}

// wantsPage: a browser says that it takes HTML; what asks for anything asks for data.
func wantsPage(r *http.Request) bool {
	return strings.Contains(r.Header.Get("Accept"), "text/html") && r.Header.Get("Authorization") == "" && !strings.HasPrefix(r.URL.Path, "/api/")
}

func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// bucket lets ten rows through at once and one a second after that.
type bucket struct {
	mu      sync.Mutex
	used    float64
	at      time.Time
	skipped int64
}

const bucketSize = 10

func (b *bucket) take(now time.Time) (skipped int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used = max(0, b.used-now.Sub(b.at).Seconds())
	b.at = now
	if b.used+1 > bucketSize {
		b.skipped++
		return 0, false
	}
	b.used++
	skipped, b.skipped = b.skipped, 0
	return skipped, true
}
