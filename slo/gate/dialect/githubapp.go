package dialect

import (
	"bytes"
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// App calls GitHub's API as a GitHub App. It is safe for concurrent use.
type App struct {
	id     string
	key    *rsa.PrivateKey
	base   string // https://api.github.com, or https://HOST/api/v3
	client *http.Client

	mu     sync.Mutex
	tokens map[int64]token // by installation
}

type token struct {
	secret string
	until  time.Time
}

// NewApp returns the App of that id, with its private key in PEM, at an API.
func NewApp(id string, key []byte, api string) (*App, error) {
	u, err := url.Parse(api)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || u.Scheme != "https" && !(u.Scheme == "http" && loopback(u.Hostname())) {
		return nil, fmt.Errorf("GitHub's API: must be an https URL such as https://api.github.com, got %q", api)
	}
	if n, err := strconv.ParseInt(id, 10, 64); (err != nil || n <= 0) && !strings.HasPrefix(id, "Iv") {
		return nil, fmt.Errorf("GitHub App: its id must be a number or a client id, got %q", id)
	}
	private, err := parseKey(key)
	if err != nil {
		return nil, err
	}
	return &App{id: id, key: private, base: strings.TrimSuffix(api, "/"), tokens: map[int64]token{},
		client: &http.Client{Timeout: 10 * time.Second,
			// A redirect would carry the token to wherever it leads.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}, nil
}

func loopback(host string) bool {
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback() || host == "localhost"
}

func parseKey(text []byte) (*rsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("GitHub App: its private key must be PEM")
	}
	if k, err := x509.ParsePKCS1PrivateKey(block.Bytes); err == nil {
		return k, nil
	}
	other, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("GitHub App: read its private key: %w", err)
	}
	k, ok := other.(*rsa.PrivateKey)
	if !ok {
		return nil, errors.New("GitHub App: its private key must be RSA")
	}
	return k, nil
}

// run is the run that a callback belongs to. Whoever can sign an event must not be
// able to send our token elsewhere, so the address is only read: the calls are made
// to the API that is configured, about the repository that is named.
func (a *App) run(callback, repo string) (int64, error) {
	prefix, suffix := a.base+"/repos/"+repo+"/actions/runs/", "/deployment_protection_rule"
	if len(callback) > len(prefix) && strings.EqualFold(callback[:len(prefix)], prefix) {
		if number, ok := strings.CutSuffix(callback[len(prefix):], suffix); ok {
			if n, err := strconv.ParseInt(number, 10, 64); err == nil && n > 0 && strconv.FormatInt(n, 10) == number {
				return n, nil
			}
		}
	}
	return 0, fmt.Errorf("deployment_callback_url: must be %sRUN%s, got %.200q", prefix, suffix, callback)
}

// apiError is what GitHub answered that was no success.
type apiError struct {
	status int
	after  time.Duration // to wait before the next attempt, where it says so
	detail string
}

func (e *apiError) Error() string { return fmt.Sprintf("GitHub answered %d: %s", e.status, e.detail) }

// jwt is the App's own word, ten minutes at most; a minute back, for its clock.
func (a *App) jwt(now time.Time) (string, error) {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic("dialect: a map did not marshal: " + err.Error())
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]string{"alg": "RS256", "typ": "JWT"}) + "." +
		part(map[string]any{"iat": now.Add(-time.Minute).Unix(), "exp": now.Add(8 * time.Minute).Unix(), "iss": a.id})
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, a.key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign as the App: %w", err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

// asApp calls as the App itself.
func (a *App) asApp(ctx context.Context, now time.Time, method, path string, body, into any) error {
	word, err := a.jwt(now)
	if err != nil {
		return err
	}
	_, err = a.call(ctx, method, path, word, body, into)
	return err
}

// asInstallation calls with the rights it was given in p's repository.
func (a *App) asInstallation(ctx context.Context, now time.Time, p Pending, method, path string, body, into any) (status int, err error) {
	secret, installation, err := a.token(ctx, now, p)
	if err != nil {
		return 0, err
	}
	status, err = a.call(ctx, method, path, secret, body, into)
	if e, ok := errors.AsType[*apiError](err); ok && e.status == http.StatusUnauthorized {
		// Revoked, or its permissions have changed: the next attempt gets another.
		a.mu.Lock()
		delete(a.tokens, installation)
		a.mu.Unlock()
	}
	return status, err
}

func (a *App) token(ctx context.Context, now time.Time, p Pending) (string, int64, error) {
	installation := p.Installation
	if installation == 0 {
		var found struct{ ID int64 }
		if err := a.asApp(ctx, now, http.MethodGet, "/repos/"+p.Repo+"/installation", nil, &found); err != nil {
			return "", 0, fmt.Errorf("find the installation in %s: %w", p.Repo, err)
		}
		installation = found.ID
	}
	a.mu.Lock()
	held, ok := a.tokens[installation]
	a.mu.Unlock()
	if ok && held.until.Sub(now) > time.Minute {
		return held.secret, installation, nil
	}
	var made struct {
		Token     string    `json:"token"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := a.asApp(ctx, now, http.MethodPost, "/app/installations/"+strconv.FormatInt(installation, 10)+"/access_tokens", nil, &made); err != nil {
		return "", 0, fmt.Errorf("get a token of the installation: %w", err)
	}
	if made.Token == "" {
		return "", 0, errors.New("get a token of the installation: there is none in the answer")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tokens[installation] = token{made.Token, made.ExpiresAt}
	return made.Token, installation, nil
}

func (a *App) call(ctx context.Context, method, path, word string, body, into any) (status int, err error) {
	var payload io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return 0, fmt.Errorf("write to GitHub: %w", err)
		}
		payload = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, a.base+path, payload)
	if err != nil {
		return 0, fmt.Errorf("call GitHub: %w", err)
	}
	for name, value := range map[string]string{"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28",
		"User-Agent": "breakwater", "Authorization": "Bearer " + word} {
		req.Header.Set(name, value)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := a.client.Do(req)
	if err != nil {
		if e, ok := errors.AsType[*net.OpError](err); ok {
			err = e
		}
		return 0, fmt.Errorf("call GitHub: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4<<20))
	if err != nil {
		return resp.StatusCode, fmt.Errorf("read GitHub's answer: %w", err)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		e := &apiError{status: resp.StatusCode, detail: clip(strings.Join(strings.Fields(string(text)), " "), 200)}
		if n, err := strconv.ParseInt(resp.Header.Get("Retry-After"), 10, 64); err == nil && n > 0 {
			e.after = time.Duration(min(n, 3600)) * time.Second
		}
		return resp.StatusCode, e
	}
	if into != nil {
		if err := json.Unmarshal(text, into); err != nil {
			return resp.StatusCode, fmt.Errorf("read GitHub's answer: %w", err)
		}
	}
	return resp.StatusCode, nil
}
