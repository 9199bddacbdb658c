package web

import (
	"compress/gzip"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
)

// policy lets a page load what this server serves and nothing else: no inline
// style or script, no frame, no form to another place, no request to another host.
const policy = "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; " +
	"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		next.ServeHTTP(w, r)
	})
}

// knownHost refuses names that are not ours. Without it a page of another site
// whose name is made to resolve to loopback could read and post here.
func (s *Server) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if host := hostOnly(r.Host); !ownHost(host) && !slices.Contains(s.cfg.Hosts, host) {
			http.Error(w, "this server does not answer for the name "+host+"; add it to its host names", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func hostOnly(hostport string) string {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	return strings.ToLower(strings.Trim(strings.TrimSuffix(host, "."), "[]"))
}

// ownHost: a bare address cannot be rebound, and localhost is ours by definition.
func ownHost(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func acceptsGzip(r *http.Request) bool {
	for part := range strings.SplitSeq(r.Header.Get("Accept-Encoding"), ",") {
		name, q, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" {
			q = strings.ReplaceAll(q, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.000")
		}
	}
	return false
}

// compressed zips pages. Only this package's own handlers stand behind it, and
// they write a page in one piece, so it needs no flushing and no hijacking.
func compressed(next http.Handler) http.Handler {
	pool := &sync.Pool{New: func() any { return gzip.NewWriter(nil) }}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Vary", "Accept-Encoding")
		if !acceptsGzip(r) || r.Method != http.MethodGet {
			next.ServeHTTP(w, r)
			return
		}
		z := pool.Get().(*gzip.Writer)
		defer pool.Put(z)
		zw := &zipWriter{ResponseWriter: w, z: z}
		next.ServeHTTP(zw, r)
		if zw.zipping {
			_ = z.Close() // fails only when the client is gone
		}
	})
}

// zipWriter compresses the body of answers that have one: a redirect or a 304
// must not grow a gzip trailer.
type zipWriter struct {
	http.ResponseWriter
	z              *gzip.Writer
	begun, zipping bool
}

func (w *zipWriter) WriteHeader(status int) {
	if !w.begun {
		w.begun = true
		if status == http.StatusOK || status >= 400 {
			w.zipping = true
			w.Header().Set("Content-Encoding", "gzip")
			w.Header().Del("Content-Length")
			w.z.Reset(w.ResponseWriter)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *zipWriter) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.zipping {
		return w.z.Write(p)
	}
	return w.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (w *zipWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
