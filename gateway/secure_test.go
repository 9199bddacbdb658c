package gateway_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/gateway"
	"breakwater/gateway/config"
)

// issue writes a certificate for 127.0.0.1 that signs itself.
func issue(t *testing.T, dir string, serial int64) (files config.Identity) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files = config.Identity{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	for name, block := range map[string]*pem.Block{
		files.Cert: {Type: "CERTIFICATE", Bytes: der}, files.Key: {Type: "PRIVATE KEY", Bytes: private},
	} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestTLSOnBothSides: a client over TLS and HTTP/2, an upstream over TLS and
// HTTP/2, and nobody who is not whom the certificate names.
func TestTLSOnBothSides(t *testing.T) {
	files := issue(t, t.TempDir(), 1)
	cert, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.Proto+" "+r.Header.Get("X-Forwarded-Proto"))
	}))
	up.TLS, up.EnableHTTP2 = &tls.Config{Certificates: []tls.Certificate{cert}}, true
	up.StartTLS()
	t.Cleanup(up.Close)

	cfg := shop(strings.TrimPrefix(up.URL, "https://"))
	cfg.Gateway.TLS = &files
	cfg.Upstreams[0].Protocol, cfg.Upstreams[0].TLS = config.H2, &config.UpstreamTLS{CA: files.Cert}
	h := start(t, cfg, gateway.Config{})
	roots := x509.NewCertPool()
	pemText, err := os.ReadFile(files.Cert)
	if err != nil || !roots.AppendCertsFromPEM(pemText) {
		t.Fatal(err)
	}
	h.url = strings.Replace(h.url, "http:", "https:", 1)
	h.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	defer h.client.CloseIdleConnections()
	if status, body, _ := h.do(t, "GET", "/orders/1", ""); status != 200 || body != "HTTP/2.0 https" {
		t.Errorf("got %d %q", status, body)
	}

	// Files that cannot be read change nothing.
	broken := cfg
	broken.Upstreams = []config.Upstream{cfg.Upstreams[0]}
	broken.Upstreams[0].TLS = &config.UpstreamTLS{CA: filepath.Join(t.TempDir(), "none.pem")}
	if err := h.Apply(broken); err == nil {
		t.Error("a missing ca_file was applied")
	}
	if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 200 {
		t.Errorf("got %d after a refused configuration", status)
	}

	// Another authority is another set of connections.
	stranger := issue(t, t.TempDir(), 2)
	cfg.Upstreams = []config.Upstream{cfg.Upstreams[0]}
	cfg.Upstreams[0].TLS = &config.UpstreamTLS{CA: stranger.Cert}
	if err := h.Apply(cfg); err != nil {
		t.Fatal(err)
	}
	if status, _, _ := h.do(t, "GET", "/orders/1", ""); status != 502 {
		t.Errorf("got %d from an upstream that nobody vouches for", status)
	}
	if ev := h.records.wait(t, 3)[2]; len(ev.Tries) != 1 || ev.Tries[0].Kind != "tls" {
		t.Errorf("recorded %+v", ev.Tries)
	}
}
