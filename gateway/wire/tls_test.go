package wire_test

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"breakwater/gateway/exchange"
	"breakwater/gateway/wire"
	"breakwater/internal/retrylog"
)

// TestTLSUpstreams: both protocols, and whom they do not believe.
func TestTLSUpstreams(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	quiet := log.New(io.Discard, "", 0) // handshakes are to fail
	s.Config.ErrorLog = quiet
	s.StartTLS()
	t.Cleanup(s.Close)
	address := strings.TrimPrefix(s.URL, "https://")
	old := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	old.Config.ErrorLog = quiet
	old.StartTLS() // HTTP/1 alone
	t.Cleanup(old.Close)
	plain := upstream(t, func(c net.Conn, r *bufio.Reader) { _, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n") })

	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	roots.AddCert(old.Certificate())
	for _, tt := range []struct {
		name, address string
		cfg           *tls.Config
		h2            bool
		want          string
		kind          exchange.Kind
	}{
		{"HTTP/1.1", address, &tls.Config{RootCAs: roots}, false, "HTTP/1.1", ""},
		{"HTTP/2", address, &tls.Config{RootCAs: roots}, true, "HTTP/2.0", ""},
		{"a name of its own", address, &tls.Config{RootCAs: roots, ServerName: "example.com"}, false, "HTTP/1.1", ""},
		{"another name", address, &tls.Config{RootCAs: roots, ServerName: "other.example"}, false, "", exchange.TLS},
		{"an unknown authority", address, &tls.Config{RootCAs: x509.NewCertPool()}, true, "", exchange.TLS},
		{"no TLS at all", plain, &tls.Config{RootCAs: roots}, false, "", exchange.TLS},
		{"no HTTP/2", strings.TrimPrefix(old.URL, "https://"), &tls.Config{RootCAs: roots}, true, "", exchange.TLS},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var svc interface {
				exchange.Service
				Idle(string) int
				Close()
			} = wire.NewTLSPool(wire.Config{}, tt.cfg)
			if tt.h2 {
				svc = wire.NewH2(wire.Config{}, tt.cfg)
			}
			defer svc.Close()
			for range 2 {
				x := request("GET", tt.address, "-")
				err := svc.Serve(x)
				if kindOf(err) != tt.kind || (err == nil) != (tt.kind == "") {
					t.Fatalf("got %v, want kind %q", err, tt.kind)
				}
				if err != nil {
					return
				}
				body, err := io.ReadAll(x.Response.Body)
				if err != nil || string(body) != tt.want {
					t.Errorf("got %q, %v, want %q", body, err, tt.want)
				}
				x.End(retrylog.OK)
			}
			idle(t, svc, tt.address)
		})
	}
}
