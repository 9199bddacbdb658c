// Package oidctest is an OpenID provider for tests.
package oidctest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Issuer is a small OpenID provider over TLS, with a key of its own: it hands out
// codes, holds them to the PKCE challenge, and signs id tokens.
type Issuer struct {
	*httptest.Server
	Key    *rsa.PrivateKey
	Claims map[string]any                  // of who signs in next; they go over ours
	Forge  func(head, body map[string]any) // changes a token before it is signed
	Signer *rsa.PrivateKey                 // another than Key: its tokens do not hold

	mu    sync.Mutex
	codes map[string]url.Values // what the code was asked with
}

// New starts a provider that knows the client "breakwater" with the secret
// "s3cret"; it ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &Issuer{Key: key, Signer: key, codes: map[string]url.Values{}, Claims: map[string]any{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"}, "response_types_supported": []string{"code"}, "subject_types_supported": []string{"public"}})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, map[string]any{"keys": []any{map[string]any{"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "k1",
			"n": b64(key.N.Bytes()), "e": b64(big.NewInt(int64(key.E)).Bytes())}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		code := newCode()
		p.mu.Lock()
		p.codes[code] = q
		p.mu.Unlock()
		to, err := url.Parse(q.Get("redirect_uri"))
		if err != nil || q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" {
			http.Error(w, "invalid_request", http.StatusBadRequest)
			return
		}
		to.RawQuery = url.Values{"code": {code}, "state": {q.Get("state")}}.Encode()
		http.Redirect(w, r, to.String(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", p.token)
	p.Server = httptest.NewTLSServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *Issuer) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, known := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code")) // good once
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	if !known || id != "breakwater" || secret != "s3cret" || b64(sum[:]) != asked.Get("code_challenge") || r.PostFormValue("redirect_uri") != asked.Get("redirect_uri") {
		w.WriteHeader(http.StatusBadRequest)
		reply(w, map[string]string{"error": "invalid_grant"})
		return
	}
	head := map[string]any{"alg": "RS256", "kid": "k1", "typ": "JWT"}
	body := map[string]any{"iss": p.URL, "sub": "sub-1", "aud": "breakwater", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
		"nonce": asked.Get("nonce"), "preferred_username": "Ann"}
	maps.Copy(body, p.Claims)
	if p.Forge != nil {
		p.Forge(head, body)
	}
	reply(w, map[string]any{"access_token": "a", "token_type": "Bearer", "expires_in": 60, "id_token": p.sign(head, body)})
}

func (p *Issuer) sign(head, body map[string]any) string {
	h, _ := json.Marshal(head)
	b, _ := json.Marshal(body)
	text := b64(h) + "." + b64(b)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, p.Signer, crypto.SHA256, sum[:])
	if err != nil {
		panic(err)
	}
	if head["alg"] == "none" {
		sig = nil
	}
	return text + "." + b64(sig)
}

func b64(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

func reply(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}

func newCode() string {
	var b [16]byte
	rand.Read(b[:])
	return b64(b[:])
}
