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
	list    string
	again   []string
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

func TestGitHubIsApprovedAtThaw(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	if rec := w.deliver("deployment_protection_rule", "g-1", w.requested()); rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.tick(t)
	if len(w.hub.reports) != 1 || w.hub.review != "" || !strings.Contains(w.hub.reports[0], "Decision `d-") {
		t.Fatalf("reported %q, reviewed %q", w.hub.reports, w.hub.review)
	}
	for range 100 { // the same state is told once
		w.pass(6 * time.Second)
		w.tick(t)
	}
	if len(w.hub.reports) != 1 || len(w.kept) != 1 {
		t.Errorf("%d reports, %d decisions kept", len(w.hub.reports), len(w.kept))
	}
	w.hook = NewGitHub(w.cfg) // another process, the same shelf
	w.set(slo.Normal)
	w.pass(6 * time.Second)
	w.tick(t)
	if w.hub.review != "approved" || w.hub.tokens != 1 || len(w.shelf.audited) != 1 || w.shelf.audited[0].Action != "github.approved" || !strings.Contains(w.hub.comment, w.kept[1].Decision.DecisionID) {
		t.Errorf("reviewed %q with %q, %d tokens, audited %+v", w.hub.review, w.hub.comment, w.hub.tokens, w.shelf.audited)
	}
	w.pass(time.Minute)
	w.tick(t)
	if len(w.shelf.done) != 1 || len(w.kept) != 2 {
		t.Errorf("it goes on: %v, %d", w.shelf.done, len(w.kept))
	}
}

func TestGitHubReportsAreFewAndShort(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.statuses[0].Reason = strings.Repeat("@ann says that it is spent. ", 100)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	for i := range 40 {
		w.pass(31 * time.Second)
		if i%2 == 1 {
			w.blind()
		}
		w.tick(t)
	}
	if len(w.hub.reports) != maxReports || w.hub.review != "" || len(w.shelf.done) != 0 {
		t.Fatalf("%d reports, reviewed %q, done %v", len(w.hub.reports), w.hub.review, w.shelf.done)
	}
	for _, text := range w.hub.reports {
		if len(text) > maxComment || strings.Contains(text, "@ann") || !strings.HasSuffix(text, "`.") {
			t.Errorf("%d bytes: %s", len(text), text)
		}
	}
	w.set(slo.Normal)
	w.pass(time.Minute)
	w.tick(t)
	if w.hub.review != "approved" {
		t.Errorf("reviewed %q", w.hub.review)
	}
}

// GitHub away: tried again ever more slowly, nothing forgotten, nothing doubled.
func TestGitHubAway(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.hub.away = 503
	var tried int
	for range 200 {
		before := w.shelf.rows["deployment/acme/shop/42/production/501"].Attempts
		w.tick(t)
		if w.shelf.rows["deployment/acme/shop/42/production/501"].Attempts > before {
			tried++
		}
		w.pass(6 * time.Second)
	}
	if tried < 5 || tried > 20 || len(w.shelf.done) != 0 {
		t.Errorf("tried %d times in 20 minutes, done %v", tried, w.shelf.done)
	}
	w.hub.away = 0
	w.hook = NewGitHub(w.cfg)
	w.pass(6 * time.Minute)
	w.tick(t)
	if w.hub.review != "approved" {
		t.Errorf("reviewed %q", w.hub.review)
	}
	// A run that is gone is let go, a revoked token replaced.
	w.deliver("deployment_protection_rule", "g-2", w.requested("501=>502"))
	for range 400 {
		w.pass(6 * time.Second)
		w.tick(t)
	}
	if got := w.shelf.done["deployment/acme/shop/42/production/502"]; got != gaveUp {
		t.Errorf("a run that is decided: %q", got)
	}
}

func TestGitHubUnknownIsNeverApproved(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	w.blind()
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "" || len(w.hub.reports) != 1 || !strings.Contains(w.hub.reports[0], "unknown") {
		t.Errorf("reviewed %q, reported %q", w.hub.review, w.hub.reports)
	}
	w.pass(patience + time.Hour)
	w.tick(t)
	if w.hub.review != "" || w.shelf.done["deployment/acme/shop/42/production/501"] != expired {
		t.Errorf("reviewed %q, done %v", w.hub.review, w.shelf.done)
	}
	// Without a row in the audit nothing is approved.
	w = newGitHubWorld(t, slo.Normal)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	due, _ := w.shelf.ClaimPending(t.Context(), w.clock(), 1)
	w.shelf.err = fmt.Errorf("away")
	_ = w.hook.step(t.Context(), due[0], w.clock())
	if w.hub.review != "" {
		t.Errorf("approved without an audit")
	}
}

func TestGitHubRejectsAtOnceWhereAsked(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.cfg.Reject = true
	w.hook = NewGitHub(w.cfg)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "rejected" || len(w.hub.reports) != 0 {
		t.Errorf("reviewed %q, %d reports", w.hub.review, len(w.hub.reports))
	}
}

func TestGitHubKnowsARollback(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	w.known.Causes = []slo.Cause{{Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: "newer", From: noon.Add(-time.Hour)}, {Kind: slo.ByDeploy, Service: "order", Env: "prod", Ref: sha, From: noon.Add(-3 * time.Hour)}}
	w.cfg.Ran = func(service, env, sha string) bool { return w.Known().Ran(service, env, sha) }
	w.hook = NewGitHub(w.cfg)
	w.deliver("deployment_protection_rule", "g-1", w.requested())
	w.tick(t)
	if w.hub.review != "approved" || w.kept[0].Decision.Kind != "rollback" || w.kept[0].Decision.ProvenBy != "history" {
		t.Errorf("reviewed %q as %+v", w.hub.review, w.kept)
	}
}

func TestCheckRun(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	suite := `{"action":"requested","check_suite":{"head_sha":"` + sha + `"},"repository":{"full_name":"acme/shop"},"sender":{}}`
	if rec := w.deliver("check_suite", "g-1", suite); rec.Code != 202 {
		t.Fatalf("%d %s", rec.Code, rec.Body)
	}
	w.tick(t)
	w.pass(31 * time.Second)
	w.blind()
	w.tick(t)
	w.pass(31 * time.Second)
	w.set(slo.Normal)
	w.tick(t)
	// Never neutral or skipped: a branch rule would let those pass.
	if got := strings.Join(w.hub.checks, ", "); got != "POST failure, PATCH action_required, PATCH success" {
		t.Errorf("checks: %s", got)
	}
	if len(w.shelf.audited) != 3 || w.hub.tokens != 1 {
		t.Errorf("%d audited, %d tokens", len(w.shelf.audited), w.hub.tokens)
	}
}

func TestReliability_X167_GitHub(t *testing.T) {
	w := newGitHubWorld(t, slo.Frozen)
	first := w.deliver("deployment_protection_rule", "g-1", w.requested())
	again := w.deliver("deployment_protection_rule", "g-1", w.requested())
	other := w.deliver("deployment_protection_rule", "g-2", w.requested()) // ids are not signed
	if first.Code != 202 || again.Code != 202 || again.Body.String() != first.Body.String() || other.Code != 202 || !strings.Contains(other.Body.String(), "known already") || len(w.shelf.rows) != 1 {
		t.Fatalf("%d, %d %s, %d %s, %d rows", first.Code, again.Code, again.Body, other.Code, other.Body, len(w.shelf.rows))
	}
	twice := w.requested(`"environment":"production"=>"environment":"production","environment":"staging"`)
	signed := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			r.Body = io.NopCloser(strings.NewReader(text))
		}
	}
	for name, tt := range map[string]struct {
		text  string
		alter func(*http.Request)
		want  int
	}{
		"one space more":         {w.requested(), signed(w.requested(`,=>, `)), 401},
		"no signature":           {w.requested(), func(r *http.Request) { r.Header.Del("X-Hub-Signature-256") }, 401},
		"two signatures":         {w.requested(), func(r *http.Request) { r.Header.Add("X-Hub-Signature-256", "sha256=00") }, 401},
		"the old SHA-1":          {w.requested(), func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha1=00") }, 401},
		"an empty signature":     {w.requested(), func(r *http.Request) { r.Header.Set("X-Hub-Signature-256", "sha256=") }, 401},
		"no id":                  {w.requested(), func(r *http.Request) { r.Header.Del("X-GitHub-Delivery") }, 401},
		"a key twice":            {twice, func(*http.Request) {}, 400},
		"older than a run waits": {w.requested("2026-03-10=>2026-02-01"), func(*http.Request) {}, 401},
	} {
		if rec := w.deliver("deployment_protection_rule", "x-"+name, tt.text, tt.alter); rec.Code != tt.want || len(w.shelf.rows) != 1 {
			t.Errorf("%s: %d %s, want %d", name, rec.Code, rec.Body, tt.want)
		}
	}
	w.shelf.err = fmt.Errorf("away")
	if rec := w.deliver("deployment_protection_rule", "g-3", w.requested("501=>503")); rec.Code != 503 {
		t.Errorf("the database is away: %d", rec.Code)
	}
	w.shelf.err = nil
	delete(w.shelf.seen, "githubg-3") // its claim lasts a minute
	if rec := w.deliver("deployment_protection_rule", "g-3", w.requested("501=>503")); rec.Code != 202 || len(w.shelf.rows) != 2 {
		t.Errorf("delivered again: %d %s", rec.Code, rec.Body)
	}
}

// Our token goes nowhere but to the API that is configured, about the repository
// that is named.
func TestGitHubCallbackLeadsNowhereElse(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	good := w.hub.srv.URL + "/repos/acme/shop/actions/runs/42/deployment_protection_rule"
	for i, bad := range []string{"", "http://169.254.169.254/latest", strings.Replace(good, "http://", "http://evil@", 1), "http://evil.example/repos/acme/shop/actions/runs/42/deployment_protection_rule",
		strings.Replace(good, "127.0.0.1", "127.0.0.1.evil.example", 1), strings.Replace(good, "/42/", "/../../../../app/42/", 1), good + "?x=1", good + "#x", strings.Replace(good, "/42/", "/042/", 1),
		strings.Replace(good, "/42/", "/-1/", 1), strings.Replace(good, "acme/shop", "acme/other", 1), strings.Replace(good, "http:", "file:", 1)} {
		if rec := w.deliver("deployment_protection_rule", fmt.Sprint("g", i), w.requested(good+"=>"+bad)); rec.Code != 422 || len(w.shelf.rows) != 0 {
			t.Errorf("%q: %d %s", bad, rec.Code, rec.Body)
		}
	}
	for _, repo := range []string{"acme/shop/x", "../shop", "acme/..", "acme"} {
		text := strings.ReplaceAll(w.requested(), "acme/shop", repo)
		if rec := w.deliver("deployment_protection_rule", "r"+repo, text); rec.Code != 422 {
			t.Errorf("%q: %d", repo, rec.Code)
		}
	}
	for _, api := range []string{"http://github.example", "https://u@api.github.com", "ftp://api.github.com", "api.github.com", "https://api.github.com?x"} {
		if _, err := NewApp("1", nil, api); err == nil || !strings.Contains(err.Error(), "API") {
			t.Errorf("%s: %v", api, err)
		}
	}
}

func TestGitHubTellsAgainWhatNobodyHeard(t *testing.T) {
	w := newGitHubWorld(t, slo.Normal)
	at := func(ago time.Duration) string { return noon.Add(-ago).Format(time.RFC3339) }
	w.hub.list = `[
		{"id":11,"guid":"a","delivered_at":"` + at(2*time.Hour) + `","status_code":502,"event":"deployment_protection_rule"},
		{"id":12,"guid":"a","delivered_at":"` + at(time.Hour) + `","status_code":0,"event":"deployment_protection_rule"},
		{"id":21,"guid":"b","delivered_at":"` + at(2*time.Hour) + `","status_code":503,"event":"deployment_protection_rule"},
		{"id":22,"guid":"b","delivered_at":"` + at(time.Hour) + `","status_code":202,"event":"deployment_protection_rule"},
		{"id":31,"guid":"c","delivered_at":"` + at(time.Hour) + `","status_code":422,"event":"deployment_protection_rule"},
		{"id":41,"guid":"d","delivered_at":"` + at(80*time.Hour) + `","status_code":502,"event":"deployment_protection_rule"},
		{"id":51,"guid":"e","delivered_at":"` + at(time.Hour) + `","status_code":502,"event":"installation"}]`
	if err := w.hook.Recover(t.Context(), w.clock()); err != nil || strings.Join(w.hub.again, " ") != "12" {
		t.Errorf("delivered again: %v, %v", w.hub.again, err)
	}
}
