package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// writePair writes a fresh certificate of that serial number into dir.
func writePair(t *testing.T, dir string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "webhook"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour), DNSNames: []string{"webhook"}}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, kind string, b []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("tls.crt", "CERTIFICATE", der)
	write("tls.key", "PRIVATE KEY", private)
}

// admissionReview is what an API server posts about a new template of order.
const admissionReview = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","resource":{"group":"apps","version":"v1","resource":"deployments"},"namespace":"shop","name":"order",
"operation":"UPDATE","dryRun":%DRY%,"object":{"metadata":{"name":"order","uid":"d-1"},"spec":{"template":{"spec":{"containers":[{"image":"order:v2"}]}}}},
"oldObject":{"metadata":{"name":"order","uid":"d-1"},"spec":{"template":{"spec":{"containers":[{"image":"order:v1"}]}}}}}}`

// The role as it runs: TLS, a certificate that follows its file, control there,
// control away with a signed answer that stands in, and nothing known.
func TestWebhookServes(t *testing.T) {
	key, err := freeze.NewKey(bytes.Repeat([]byte{7}, 32))
	if err != nil {
		t.Fatal(err)
	}
	var away atomic.Bool
	var dryRuns atomic.Int64
	var verdict atomic.Pointer[gate.Verdict]
	set := func(v gate.Verdict) { verdict.Store(&v) }
	set(gate.Allow)
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if r.URL.Path == "/api/v1/gate/key" {
			_ = json.NewEncoder(w).Encode(map[string]string{"public_key": key.Public()})
			return
		}
		var q gate.Platform
		if r.URL.Path != "/api/v1/gate/platform" || json.NewDecoder(r.Body).Decode(&q) != nil || q.Service != "order" || q.Ref != "order:v2" || q.Env != "prod" || r.Header.Get("Authorization") != "Bearer bw_x" {
			t.Errorf("asked %s %+v", r.URL, q)
		}
		if q.DryRun {
			dryRuns.Add(1)
		}
		d := gate.Decision{Decision: *verdict.Load(), ReasonCode: "x", Reasons: []string{"because."}, DecisionID: "d-1", Service: q.Service, Env: q.Env, Kind: q.Kind, Ref: q.Ref,
			IssuedAt: time.Now().UTC(), ValidUntil: time.Now().UTC(), FallbackUntil: time.Now().UTC().Add(time.Hour)}
		if d.Signature, err = key.Sign(d); err != nil {
			t.Error(err)
		}
		_ = json.NewEncoder(w).Encode(d)
	}))
	defer control.Close()
	dir := t.TempDir()
	writePair(t, dir, 1)
	cert := &certificate{cert: filepath.Join(dir, "tls.crt"), key: filepath.Join(dir, "tls.key"), log: slog.New(slog.DiscardHandler)}
	if err := cert.load(); err != nil {
		t.Fatal(err)
	}
	opt := webhookOptions{onUnknown: "deny", unknownRollback: "allow", memory: gateMemory{dir: filepath.Join(dir, "memory")}}
	admission := opt.admission(streams{err: io.Discard}, &settings{control: control.URL, token: "bw_x", env: "prod"}, slog.New(slog.DiscardHandler))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveWebhook(ctx, l, admission, cert, slog.New(slog.DiscardHandler)) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	// Each post is a connection of its own, so that it sees the certificate of now.
	post := func(dry string) (allowed bool, text string, serial int64) {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
		resp, err := client.Post("https://"+l.Addr().String()+"/admission", "application/json", strings.NewReader(strings.Replace(admissionReview, "%DRY%", dry, 1)))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		b, _ := io.ReadAll(resp.Body)
		var answer struct{ Response struct{ Allowed bool } }
		if err := json.Unmarshal(b, &answer); err != nil || resp.StatusCode != 200 {
			t.Fatalf("%s %s: %v", resp.Status, b, err)
		}
		return answer.Response.Allowed, string(b), resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	if allowed, text, serial := post("true"); !allowed || serial != 1 || dryRuns.Load() != 1 {
		t.Errorf("a dry run: %s, serial %d", text, serial)
	}
	away.Store(true)
	if allowed, text, _ := post("false"); allowed || !strings.Contains(text, "unknown_denied") {
		t.Errorf("a dry run stands in for control: %s", text)
	}
	away.Store(false)
	if allowed, text, _ := post("false"); !allowed || !strings.Contains(text, `"decision-id":"d-1"`) {
		t.Errorf("control is there: %s", text)
	}
	away.Store(true)
	if allowed, text, _ := post("false"); !allowed {
		t.Errorf("its last signed answer does not stand in: %s", text)
	}
	away.Store(false)
	set(gate.Deny)
	if allowed, text, _ := post("false"); allowed {
		t.Errorf("denied: %s", text)
	}
	away.Store(true)
	if allowed, text, _ := post("false"); allowed || !strings.Contains(text, "Control is away") {
		t.Errorf("its last signed answer was deny: %s", text)
	}
	// Half of a renewal, then the whole.
	if err := os.WriteFile(filepath.Join(dir, "tls.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	half := &certificate{cert: cert.cert, key: cert.key, log: cert.log}
	if err := half.load(); err == nil {
		t.Error("half of a certificate is taken")
	}
	if _, _, serial := post("false"); serial != 1 {
		t.Errorf("serial %d", serial)
	}
	writePair(t, dir, 2)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if _, _, serial := post("false"); serial == 2 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new certificate is not taken")
		}
	}
}

func TestWebhookRefusesBadFlags(t *testing.T) {
	dir := t.TempDir()
	writePair(t, dir, 1)
	good := []string{"webhook", "--listen", "127.0.0.1:0", "--cert", filepath.Join(dir, "tls.crt"), "--key", filepath.Join(dir, "tls.key")}
	for name, args := range map[string][]string{"no environment": {"--env", ""}, "no certificate": {"--env", "prod", "--cert", "nowhere"},
		"what is no word": {"--env", "prod", "--on-unknown", "maybe"}, "no address": {"--env", "prod", "--control", "ftp://x"}} {
		var said bytes.Buffer
		if code := run(t.Context(), append(good, args...), streams{out: io.Discard, err: &said}); code != exitUsage {
			t.Errorf("%s: %d %s", name, code, said.String())
		}
	}
}
