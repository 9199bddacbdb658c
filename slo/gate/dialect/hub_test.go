package dialect

import (
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/auth"
	"breakwater/slo"
	"breakwater/slo/webhook"
)

// shelf is a Shelf and a webhook.Seen in memory. It outlives a GitHub, as a
// database outlives a process.
type shelf struct {
	mu      sync.Mutex
	rows    map[string]Pending
	due     map[string]time.Time
	done    map[string]string
	audited []auth.Entry
	seen    map[string]*webhook.Answer
	err     error
}

func (s *shelf) AddPending(_ context.Context, p Pending, now time.Time) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.rows[p.Key]; ok || s.err != nil {
		return false, s.err
	}
	s.rows[p.Key], s.due[p.Key] = p, now
	return true, nil
}

func (s *shelf) ClaimPending(_ context.Context, now time.Time, limit int) (out []Pending, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, p := range s.rows {
		if s.done[key] == "" && !s.due[key].After(now) && len(out) < limit {
			out = append(out, p)
		}
	}
	return out, s.err
}

func (s *shelf) DeferPending(_ context.Context, p Pending, due time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[p.Key], s.due[p.Key] = p, due
	return nil
}

func (s *shelf) ClosePending(_ context.Context, p Pending, outcome string, _ time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rows[p.Key], s.done[p.Key] = p, outcome
	return nil
}

func (s *shelf) Audit(_ context.Context, e auth.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.audited = append(s.audited, e)
	return s.err
}

func (s *shelf) SeenWebhook(_ context.Context, source, id string, _ time.Time) (bool, *webhook.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, there := s.seen[source+id]
	if !there {
		s.seen[source+id] = nil
	}
	return !there, a, s.err
}

func (s *shelf) AnsweredWebhook(_ context.Context, source, id string, a webhook.Answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[source+id] = &a
	return nil
}

// hub is GitHub's API by its documentation: tokens only for a JWT of the App that
// lives ten minutes at most, ten reports a deployment, comments of 1024 characters,
// and one review.
type hub struct {
	t       *testing.T
	key     *rsa.PublicKey
	now     func() time.Time
	srv     *httptest.Server
	mu      sync.Mutex
	away    int // status of every answer; 0: it is there
	reports []string
	review  string
	comment string
	checks  []string // method and conclusion
	tokens  int
	refused int // reviews and reports that were one too many, or too long
	list    string
	again   []string
	gets    map[string]string // what is read beside, by path; else it is not there
	got     []string
}

func newHub(t *testing.T, key *rsa.PublicKey, now func() time.Time) *hub {
	h := &hub{t: t, key: key, now: now, list: "[]"}
	h.srv = httptest.NewServer(h)
	t.Cleanup(h.srv.Close)
	return h
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	say := func(status int, text string) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}
	if h.away != 0 {
		say(h.away, `{"message":"away"}`)
		return
	}
	word := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	var body map[string]any
	_ = json.NewDecoder(r.Body).Decode(&body)
	asApp := strings.HasPrefix(r.URL.Path, "/app/") || strings.HasSuffix(r.URL.Path, "/installation")
	if asApp && !h.jwt(word) || !asApp && word != "ghs_token" {
		say(401, `{"message":"Bad credentials"}`)
		return
	}
	if r.Method == "GET" && !asApp {
		h.got = append(h.got, r.URL.Path)
		if text, ok := h.gets[r.URL.Path]; ok {
			say(200, text)
		} else {
			say(404, `{"message":"Not Found"}`)
		}
		return
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /repos/acme/shop/installation":
		say(200, `{"id":7}`)
	case "POST /app/installations/7/access_tokens":
		h.tokens++
		say(201, `{"token":"ghs_token","expires_at":"`+h.now().Add(time.Hour).UTC().Format(time.RFC3339)+`"}`)
	case "POST /repos/acme/shop/actions/runs/42/deployment_protection_rule":
		comment, _ := body["comment"].(string)
		state, decided := body["state"]
		switch {
		case body["environment_name"] != "production" || len([]rune(comment)) > 1024 || h.review != "" || !decided && len(h.reports) >= 10:
			h.refused++
			say(422, `{"message":"Validation Failed"}`)
		case decided:
			h.review, h.comment = state.(string), comment
			w.WriteHeader(204)
		default:
			h.reports = append(h.reports, comment)
			w.WriteHeader(204)
		}
	case "POST /repos/acme/shop/check-runs", "PATCH /repos/acme/shop/check-runs/99":
		if r.Method == "POST" && body["head_sha"] != sha || body["name"] == nil || body["status"] != "completed" || body["output"].(map[string]any)["summary"] == "" {
			say(422, `{}`)
			return
		}
		h.checks = append(h.checks, r.Method+" "+body["conclusion"].(string))
		say(201, `{"id":99}`)
	case "GET /app/hook/deliveries":
		say(200, h.list)
	case "POST /app/hook/deliveries/12/attempts":
		h.again = append(h.again, "12")
		say(202, `{}`)
	default:
		h.t.Errorf("GitHub was asked %s %s", r.Method, r.URL.Path)
		say(404, `{"message":"Not Found"}`)
	}
}

func (h *hub) jwt(word string) bool {
	parts := strings.Split(word, ".")
	if len(parts) != 3 {
		return false
	}
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	text, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Iat, Exp int64
		Iss      string
	}
	_ = json.Unmarshal(text, &claims)
	now := h.now().Unix()
	return err == nil && rsa.VerifyPKCS1v15(h.key, crypto.SHA256, sum[:], sig) == nil && claims.Iss == "1234" && claims.Iat <= now && claims.Exp > now && claims.Exp-now <= 600
}

const sha = "d6fde92930d4715a2b49857d24b940956b26d2d3"

var hookSecret = []byte("0123456789abcdef0123")

// githubWorld is GitHub, a gate, and what waits between them.
type githubWorld struct {
	*world
	hub   *hub
	shelf *shelf
	cfg   GitHubConfig
	hook  *GitHub
}

func newGitHubWorld(t *testing.T, level slo.Level) *githubWorld {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	w := &githubWorld{world: newWorld(level), shelf: &shelf{rows: map[string]Pending{}, due: map[string]time.Time{}, done: map[string]string{}, seen: map[string]*webhook.Answer{}}}
	w.hub = newHub(t, &key.PublicKey, w.clock)
	app, err := NewApp("1234", pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)}), w.hub.srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = GitHubConfig{Gate: w.gate, Shelf: w.shelf, Seen: w.shelf, App: app, Secret: hookSecret, Now: w.clock, Checks: "prod",
		Services: map[string]string{"acme/shop": "order"}, Envs: map[string]string{"production": "prod"}}
	w.hook = NewGitHub(w.cfg)
	return w
}

// requested is a delivery as GitHub documents it, about run 42.
func (w *githubWorld) requested(changes ...string) string {
	text := fmt.Sprintf(`{"action":"requested","environment":"production","event":"push","deployment_callback_url":"%s/repos/acme/shop/actions/runs/42/deployment_protection_rule",`+
		`"deployment":{"id":501,"sha":"%s","ref":"main","task":"deploy","environment":"production","created_at":"2026-03-10T11:59:00Z"},"pull_requests":[],`+
		`"repository":{"id":1,"full_name":"acme/shop","owner":{"login":"acme"}},"sender":{"login":"ann"},"installation":{"id":7},"organization":{"login":"acme"}}`, w.hub.srv.URL, sha)
	for _, c := range changes {
		from, to, _ := strings.Cut(c, "=>")
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

func (w *githubWorld) deliver(event, id, text string, alter ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/api/v1/gate/github", strings.NewReader(text))
	mac := hmac.New(sha256.New, hookSecret)
	mac.Write([]byte(text))
	r.Header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	r.Header.Set("X-GitHub-Delivery", id)
	r.Header.Set("X-GitHub-Event", event)
	for _, a := range alter {
		a(r)
	}
	rec := httptest.NewRecorder()
	w.hook.Handler().ServeHTTP(rec, r)
	return rec
}

func (w *githubWorld) tick(t *testing.T) {
	t.Helper()
	if err := w.hook.Tick(t.Context(), w.clock()); err != nil {
		t.Fatal(err)
	}
}
