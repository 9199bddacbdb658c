package front

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"breakwater/gateway/exchange"
)

func refuse(status int, reason string) *exchange.Refusal {
	return &exchange.Refusal{Policy: "ingress", Reason: reason, Status: status}
}

// fill makes x's request of r, or says why not. It fills what it can even then:
// a refused request is recorded too.
func (f *Front) fill(x *exchange.Exchange, r *http.Request) *exchange.Refusal {
	q := &x.Request
	peer, addr := peerOf(r)
	trusted := f.trusts(addr)
	q.Method, q.Peer, q.Connection, q.Proto = r.Method, peer, r.RemoteAddr, r.ProtoMajor*10+r.ProtoMinor
	f.name(x, r.Header.Get("X-Request-Id"), trusted)
	if why := f.limits(r); why != nil {
		return why
	}
	if why := f.place(x, r.RequestURI, r.Host); why != nil {
		return why
	}
	for name, values := range r.Header {
		for _, v := range values {
			q.Head.Add(name, v)
		}
	}
	if r.ProtoMajor == 1 && r.Method == http.MethodGet && r.ContentLength == 0 &&
		exchange.HasToken(strings.Join(r.Header["Connection"], ","), "upgrade") &&
		len(r.Header["Upgrade"]) == 1 && strings.EqualFold(r.Header["Upgrade"][0], "websocket") {
		q.Upgrade = "websocket"
	}
	for name := range r.Trailer {
		if exchange.TrailerAllowed(name) {
			q.Announced = append(q.Announced, name)
		}
	}
	f.clean(x, r.Host, trusted)
	return nil
}

func (f *Front) trusts(peer netip.Addr) bool { return f.cfg.Trusted != nil && f.cfg.Trusted(peer) }

// name gives x its id: the one that a trusted peer has given it, or a new one.
func (f *Front) name(x *exchange.Exchange, given string, trusted bool) {
	if !trusted || !plainID(given) {
		given = newID(x)
	}
	x.Event.RequestID = given
}

// place says where x's request goes to, in the one form that all share, or why
// nowhere.
func (f *Front) place(x *exchange.Exchange, target, host string) *exchange.Refusal {
	q := &x.Request
	// CONNECT asks for a tunnel past every rule.
	if q.Method == http.MethodConnect {
		return refuse(http.StatusMethodNotAllowed, "connect")
	}
	target, ok := originForm(target)
	if !ok {
		return refuse(http.StatusBadRequest, "target")
	}
	var err error
	if q.Path, q.Query, err = Normal(target); err != nil {
		return refuse(http.StatusBadRequest, "target")
	}
	if q.Query != "" && strings.Count(q.Query, "&")+strings.Count(q.Query, ";") >= f.cfg.Limits.Params {
		return refuse(http.StatusBadRequest, "query_parameters")
	}
	if !validHost(host) || host == "" && q.Proto >= 11 {
		return refuse(http.StatusBadRequest, "host")
	}
	q.Host = strings.ToLower(host)
	return nil
}

// clean takes out of the head what no client may say, or is for one connection
// only, and puts in what is ours to say.
func (f *Front) clean(x *exchange.Exchange, host string, trusted bool) {
	q := &x.Request
	peer, proto := q.Peer, q.Scheme
	if trusted {
		if before := joined(&q.Head, "X-Forwarded-For"); before != "" {
			peer = before + ", " + peer
		}
	}
	q.Head.StripHop() // first what Connection names, so that nothing of ours can be named away
	if trusted {
		x.InboundRetries = exchange.RetryCount(q.Head.Get("Retry-Count"))
		// 0 is a deadline too: nobody waits any more.
		if v := q.Head.Get("X-Breakwater-Deadline-Ms"); v == "0" || smallInt(v) > 0 {
			x.SetDeadline(x.Event.Start.Add(time.Duration(smallInt(v)) * time.Millisecond))
		}
		proto = orText(q.Head.Get("X-Forwarded-Proto"), proto)
		host = orText(q.Head.Get("X-Forwarded-Host"), host)
	}
	// Whoever asks may say how long the asking is worth.
	if d, ok := grpcTimeout(q.Head.Get("Grpc-Timeout")); ok {
		if left, bound := x.Remaining(x.Event.Start); !bound || d < left {
			x.SetDeadline(x.Event.Start.Add(d))
		}
	}
	q.Head.Keep(func(f exchange.Field) bool { return passes(f.Name, trusted) })
	q.Head.Add("X-Forwarded-For", peer)
	q.Head.Add("X-Forwarded-Proto", proto)
	if host != "" {
		q.Head.Add("X-Forwarded-Host", host)
	}
	q.Head.Add("X-Request-Id", x.Event.RequestID)
}

// joined is all values of name with commas between.
func joined(h *exchange.Head, name string) (all string) {
	n := 0
	for _, f := range h.Fields() {
		if same(f.Name, name) {
			if n++; n > 1 {
				all += ", "
			}
			all += f.Value
		}
	}
	return all
}

func orText(v, standard string) string {
	if v == "" {
		return standard
	}
	return v
}

// limits checks sizes before anything is looked at more closely.
func (f *Front) limits(r *http.Request) *exchange.Refusal {
	l := &f.cfg.Limits
	if len(r.RequestURI) > l.Target {
		return refuse(http.StatusRequestURITooLong, "target_size")
	}
	fields, size := 1, len(r.RequestURI)+len(r.Host)
	for name, values := range r.Header {
		fields += len(values)
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	if fields > l.Fields {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "head_fields")
	}
	if size > l.Head {
		return refuse(http.StatusRequestHeaderFieldsTooLarge, "head_size")
	}
	return nil
}

// originForm takes scheme and authority off an absolute target; net/http has put
// the authority into Host already (RFC 9112 section 3.2.2).
func originForm(target string) (string, bool) {
	if strings.HasPrefix(target, "/") {
		return target, true
	}
	for _, scheme := range []string{"http://", "https://"} {
		if len(target) > len(scheme) && strings.EqualFold(target[:len(scheme)], scheme) {
			rest := target[len(scheme):]
			i := strings.IndexAny(rest, "/?#")
			if i < 0 {
				return "/", true
			}
			if rest[i] == '?' {
				return "/" + rest[i:], true
			}
			return rest[i:], true
		}
	}
	return "", false // "*" of OPTIONS is for a server, and there is none here
}

// validHost takes a name or address with an optional port, and nothing that a
// URL could hold before or behind.
func validHost(host string) bool {
	if len(host) > 255+6 {
		return false
	}
	for i := range len(host) {
		if b := host[i]; !unreserved(b) && b != ':' && b != '[' && b != ']' {
			return false
		}
	}
	return true
}

// passes reports whether a field of the client goes on to the upstream. What
// speaks for the client's origin, or for us inside the mesh, is believed of
// trusted peers only; spelled with underscores, which some upstreams take for
// hyphens, it is believed of none.
func passes(name string, trusted bool) bool {
	plain := name
	if strings.IndexByte(name, '_') >= 0 {
		plain = strings.ReplaceAll(name, "_", "-")
		if special(plain) {
			return false
		}
	}
	switch plain[0] | 0x20 { // most names begin with none of these
	case 'x', 'f', 'r', 't':
	default:
		return true
	}
	switch len(plain) {
	case 12:
		if same(plain, "X-Request-Id") {
			return false // written anew, like the next ones
		}
	case 15:
		if same(plain, "X-Forwarded-For") {
			return false
		}
	case 16:
		if same(plain, "X-Forwarded-Host") {
			return false
		}
	case 17:
		if same(plain, "X-Forwarded-Proto") {
			return false
		}
	}
	return trusted || !control(plain)
}

// control reports whether a field speaks for the client's origin or for the mesh.
func control(name string) bool {
	for _, prefix := range []string{"X-Forwarded-", "X-Original-", "X-Breakwater-"} {
		if len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) {
			return true
		}
	}
	switch len(name) { // nothing is allocated for a name in capitals
	case 9:
		return same(name, "Forwarded") || same(name, "X-Real-Ip")
	case 11:
		return same(name, "Retry-Count")
	case 13:
		return same(name, "X-Rewrite-Url")
	case 14:
		return same(name, "True-Client-Ip")
	case 16:
		return same(name, "X-Backend-Status")
	}
	return false
}

// special reports whether a field is one whose twin with underscores must not
// reach an upstream.
func special(name string) bool {
	switch strings.ToLower(name) {
	case "transfer-encoding", "content-length", "content-type", "host", "connection", "x-request-id",
		"authorization", "cookie", "upgrade", "proxy-authorization", "keep-alive":
		return true
	}
	return control(name)
}

// smallInt reads a count; what is none is 0.
func smallInt(v string) int {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil {
		return 0
	}
	return int(n)
}

// grpcTimeout reads the field of a gRPC request: up to eight digits and a unit.
func grpcTimeout(v string) (time.Duration, bool) {
	if len(v) < 2 || len(v) > 9 {
		return 0, false
	}
	unit := time.Hour
	switch v[len(v)-1] {
	case 'H':
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, false
	}
	n, err := strconv.ParseUint(v[:len(v)-1], 10, 32)
	if err != nil {
		return 0, false
	}
	return time.Duration(min(n, uint64(24*365*time.Hour/unit))) * unit, true
}

// plainID reports whether a request id of a trusted peer is fit to be kept.
func plainID(id string) bool {
	if id == "" || len(id) > 64 {
		return false
	}
	for i := range len(id) {
		if !unreserved(id[i]) {
			return false
		}
	}
	return true
}

func newID(x *exchange.Exchange) string {
	var b [12]byte
	var id [2 * len(b)]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	hex.Encode(id[:], b[:])
	return x.Text(id[:])
}
