package dialect

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/gate"
	"breakwater/slo/webhook"
)

// Pending is a run, or a commit, that waits at GitHub for a decision.
type Pending struct {
	Key          string    `json:"key"`  // names the effect: told twice, it waits once
	Kind         string    `json:"kind"` // deployment or check
	Repo         string    `json:"repo"` // owner/name
	Run          int64     `json:"run,omitempty"`
	Environment  string    `json:"environment,omitempty"` // as GitHub calls it
	SHA          string    `json:"sha"`
	Installation int64     `json:"installation,omitempty"` // 0: is looked up
	Service      string    `json:"service"`
	Env          string    `json:"env"` // as we call it
	At           time.Time `json:"at"`

	// How far it has come.
	Told     string    `json:"told,omitempty"` // what GitHub was told last
	ToldAt   time.Time `json:"told_at,omitzero"`
	Reports  int       `json:"reports,omitempty"`
	CheckID  int64     `json:"check_id,omitempty"`
	Attempts int       `json:"attempts,omitempty"` // in a row that failed
	Gone     int       `json:"gone,omitempty"`     // of these, those that say there is no such run

	// What its labels prove, by what ran and when they were read.
	Labelled   gate.Kind `json:"labelled,omitempty"`
	LabelNote  string    `json:"label_note,omitempty"` // why they prove nothing
	LabelsOver string    `json:"labels_over,omitempty"`
	LabelsAt   time.Time `json:"labels_at,omitzero"`
}

// Shelf keeps what waits, over restarts and among replicas.
type Shelf interface {
	// AddPending keeps p, unless its key is there; false: it is.
	AddPending(ctx context.Context, p Pending, now time.Time) (bool, error)
	// ClaimPending takes up to limit that are due; nobody else gets them for a while.
	ClaimPending(ctx context.Context, now time.Time, limit int) ([]Pending, error)
	// DeferPending puts p back until due; ClosePending ends it.
	DeferPending(ctx context.Context, p Pending, due time.Time) error
	ClosePending(ctx context.Context, p Pending, outcome string, now time.Time) error
	Audit(ctx context.Context, e auth.Entry) error
}

// GitHubConfig is an App of GitHub and what its repositories are called here.
type GitHubConfig struct {
	Gate  Gate
	Shelf Shelf
	Seen  webhook.Seen
	App   *App
	// Secret is that of the App's webhook.
	Secret []byte
	// Services is by owner/name of a repository; one that is missing is named as its
	// service. Envs is by name of an environment at GitHub.
	Services, Envs map[string]string
	// Ran reports whether a commit ran before what runs now: then it is a rollback.
	Ran func(service, env, sha string) bool
	// Labels are the kinds that labels of pull requests stand for, and Owners the logins
	// that may set them; empty: whoever maintains or administers the repository. Running
	// is the commit that runs now; "": nobody knows. Without Labels none is looked at.
	Labels  map[string]gate.Kind
	Owners  []string
	Running func(service, env string) string
	// Marks takes deployments that are over; nil: their slots end by their leases.
	Marks Marks
	// Checks, where set, is the environment that commits get a check run for.
	Checks string
	// Reject answers a no at once, instead of letting the run wait for the thaw.
	Reject bool
	Now    func() time.Time // nil: the clock
	Log    *slog.Logger     // nil: none
}

// GitHub answers deployment protection rules and check runs.
type GitHub struct{ cfg GitHubConfig }

// NewGitHub returns a GitHub.
func NewGitHub(cfg GitHubConfig) *GitHub {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Ran == nil {
		cfg.Ran = func(string, string, string) bool { return false }
	}
	if cfg.Running == nil {
		cfg.Running = func(string, string) string { return "" }
	}
	return &GitHub{cfg}
}

// Handler serves POST /api/v1/gate/github: the App's webhook. It only keeps what it
// was told, so that GitHub is answered at once and nothing is lost; Run does the rest.
func (g *GitHub) Handler() http.Handler {
	return webhook.Receiver{Source: "github", Secret: signature(g.cfg.Secret), Who: auth.Principal{Name: "github", Role: auth.Pipeline},
		Seen: g.cfg.Seen, Now: g.cfg.Now, Log: g.cfg.Log}.Then(http.HandlerFunc(g.take))
}

// signature checks as GitHub signs: HMAC-SHA256 over the raw body. The id of a
// delivery is not signed and no time is either, so a message that is played again
// under another id is known by its effect, and its age by the deployment's own.
type signature []byte

func (s signature) Check(h http.Header, body []byte, _ time.Time) (string, error) {
	id, given := h.Values("X-GitHub-Delivery"), h.Values("X-Hub-Signature-256")
	if len(id) != 1 || id[0] == "" || len(id[0]) > 100 || len(given) != 1 || len(s) == 0 {
		return "", fmt.Errorf("%w: its delivery id or its signature is missing, or stands twice", webhook.ErrForged)
	}
	word, ok := strings.CutPrefix(given[0], "sha256=")
	got, err := hex.DecodeString(word)
	mac := hmac.New(sha256.New, s)
	mac.Write(body)
	if !ok || err != nil || !hmac.Equal(got, mac.Sum(nil)) {
		return "", fmt.Errorf("%w: its signature does not fit", webhook.ErrForged)
	}
	return id[0], nil
}

// event is what is read of GitHub's events. Only action, repository and sender are
// always there.
type event struct {
	Action      string `json:"action"`
	Environment string `json:"environment"`
	CallbackURL string `json:"deployment_callback_url"`
	Deployment  struct {
		ID        int64     `json:"id"`
		SHA       string    `json:"sha"`
		CreatedAt time.Time `json:"created_at"`
		// Environment is here in a deployment_status, which has none of its own.
		Environment string `json:"environment"`
	} `json:"deployment"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Status struct {
		State string `json:"state"`
	} `json:"deployment_status"`
	CheckSuite struct {
		SHA string `json:"head_sha"`
	} `json:"check_suite"`
	CheckRun struct {
		SHA string `json:"head_sha"`
	} `json:"check_run"`
}

// patience is how long a run waits at GitHub at most.
const patience = 30 * 24 * time.Hour

var errStale = errors.New("the deployment is older than a run can wait")

func (g *GitHub) take(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body) // bounded by the receiver
	var e event
	if err == nil {
		err = object(text, &e)
	}
	if err == nil && r.Header.Get("X-GitHub-Event") == "deployment_status" {
		g.over(w, r, e)
		return
	}
	var p *Pending
	if err == nil {
		p, err = g.pending(r.Header.Get("X-GitHub-Event"), r.Header.Get("X-GitHub-Delivery"), e)
	}
	switch {
	case errors.Is(err, errStale):
		reply.Problem(w, http.StatusUnauthorized, "stale", err.Error())
		return
	case err != nil:
		reply.Problem(w, http.StatusUnprocessableEntity, "bad_event", err.Error())
		return
	case p == nil:
		reply.JSON(w, http.StatusOK, map[string]string{"status": "nothing to decide"})
		return
	}
	added, err := g.cfg.Shelf.AddPending(r.Context(), *p, g.cfg.Now().UTC())
	if err != nil {
		g.cfg.Log.Error("a run of GitHub is not kept", "repo", p.Repo, "run", p.Run, "err", err)
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "the run cannot be written down at present; deliver it again")
		return
	}
	status := "waits for a decision"
	if !added {
		status = "known already"
	}
	reply.JSON(w, http.StatusAccepted, map[string]string{"status": status, "service": p.Service, "env": p.Env})
}

var fullName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}$`)

var hexSHA = regexp.MustCompile(`^[0-9a-f]{40,64}$`)

// pending is what an event makes wait; nil: nothing.
func (g *GitHub) pending(name, delivery string, e event) (*Pending, error) {
	repo := e.Repository.FullName
	p := &Pending{Repo: repo, Installation: e.Installation.ID, At: g.cfg.Now().UTC()}
	switch {
	case name == "deployment_protection_rule" && e.Action == "requested":
		if !fullName.MatchString(repo) || strings.HasPrefix(repo, ".") || strings.Contains(repo, "/.") {
			return nil, errors.New("repository.full_name: must be owner/name")
		}
		run, err := g.cfg.App.run(e.CallbackURL, repo)
		if err != nil {
			return nil, err
		}
		if e.Environment == "" || len(e.Environment) > 255 {
			return nil, errors.New("environment: must be given")
		}
		if at := e.Deployment.CreatedAt; !at.IsZero() && p.At.Sub(at) > patience {
			return nil, errStale
		}
		which := strconv.FormatInt(e.Deployment.ID, 10)
		if e.Deployment.ID == 0 {
			which = delivery
		}
		p.Kind, p.Run, p.Environment, p.SHA, p.Env = "deployment", run, e.Environment, e.Deployment.SHA, named(g.cfg.Envs, e.Environment, e.Environment)
		p.Key = fmt.Sprintf("deployment/%s/%d/%s/%s", strings.ToLower(repo), run, e.Environment, which)
	case g.cfg.Checks != "" && (name == "check_suite" && (e.Action == "requested" || e.Action == "rerequested") || name == "check_run" && e.Action == "rerequested"):
		p.SHA = e.CheckSuite.SHA
		if name == "check_run" {
			p.SHA = e.CheckRun.SHA
		}
		if !fullName.MatchString(repo) || !hexSHA.MatchString(p.SHA) {
			return nil, errors.New("repository.full_name and head_sha: must be given")
		}
		p.Kind, p.Env = "check", g.cfg.Checks
		p.Key = fmt.Sprintf("check/%s/%s/%s", strings.ToLower(repo), p.SHA, delivery)
		if e.Action == "requested" {
			p.Key = fmt.Sprintf("check/%s/%s", strings.ToLower(repo), p.SHA)
		}
	default:
		return nil, nil
	}
	p.Service = g.service(repo)
	return p, nil
}

// service is what a repository is called here.
func (g *GitHub) service(repo string) string {
	_, last, _ := strings.Cut(repo, "/")
	return named(g.cfg.Services, repo, last)
}

func named(names map[string]string, name, otherwise string) string {
	if v, ok := names[name]; ok {
		return v
	}
	return otherwise
}

// outcomes are the states of a deployment in which it is over.
var outcomes = map[string]slo.DeployOutcome{"success": slo.DeploySucceeded, "inactive": slo.DeploySucceeded, "failure": slo.DeployFailed, "error": slo.DeployFailed}

// over takes the news that a deployment has ended, so that the next one need not wait
// for its lease.
func (g *GitHub) over(w http.ResponseWriter, r *http.Request, e event) {
	outcome, over := outcomes[e.Status.State]
	environment := cmp.Or(e.Environment, e.Deployment.Environment)
	if !over || g.cfg.Marks == nil || !fullName.MatchString(e.Repository.FullName) || e.Deployment.SHA == "" || environment == "" {
		reply.JSON(w, http.StatusOK, map[string]string{"status": "nothing to decide"})
		return
	}
	end := slo.DeployEnd{Service: g.service(e.Repository.FullName), Env: named(g.cfg.Envs, environment, environment), Ref: e.Deployment.SHA,
		Key: slo.DeployKey(e.Deployment.SHA, ""), Outcome: outcome, By: auth.From(r.Context()).Name, IfHeld: true}
	n, err := g.cfg.Marks.EndDeploy(r.Context(), end, g.cfg.Now().UTC().Truncate(time.Microsecond))
	if err != nil {
		reply.Problem(w, http.StatusServiceUnavailable, "database_away", "that the deployment is over cannot be written down at present; deliver it again")
		return
	}
	reply.JSON(w, http.StatusOK, map[string]any{"status": "over", "ended": n})
}

// question is what the gate is asked about p. What ran before what runs now is a
// rollback, and is asked about as one.
func (g *GitHub) question(p Pending) (gate.Request, error) {
	r := gate.Request{Service: p.Service, Env: p.Env, Ref: p.SHA, Once: clip("github/"+p.Key, 256)}
	if p.SHA != "" && g.cfg.Ran(p.Service, p.Env, p.SHA) {
		r.Kind = gate.Rollback
	}
	return r.Check()
}
