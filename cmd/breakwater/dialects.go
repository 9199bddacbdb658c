package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo/gate"
	"breakwater/slo/gate/dialect"
)

// dialectRoutes is who may ask the gate in the words of other products, under
// /api/v1. Whoever asks is a pipeline's token; GitHub signs what it sends.
func (c *control) dialectRoutes(r chi.Router) {
	asks := c.guard.Require(auth.Viewer, auth.Pipeline)
	ours := c.guard.Require(auth.Gateway) // with proofs: our own machines, no pipeline
	desk := dialect.New(dialect.Config{Gate: c.gate, Source: c.slo, Marks: c.store, Log: c.log})
	for _, method := range []string{"GET", "POST", "PUT"} {
		r.With(dialect.ArgoAlways, asks).MethodFunc(method, "/gate/argo", desk.Argo)
	}
	r.With(asks).Post("/gate/flagger/confirm", desk.FlaggerConfirm)
	r.With(asks).Post("/gate/flagger/rollback", desk.FlaggerRollback)
	r.With(asks).Post("/gate/flagger/event", desk.FlaggerEvent)
	r.With(asks).Post("/gate/spinnaker", desk.Spinnaker)
	r.With(asks).Get("/gate/spinnaker/{ticket}", desk.SpinnakerStatus)
	r.With(asks).Get("/gate/gitlab/freeze_periods", desk.GitLab)
	r.With(asks).Get("/gate/kubernetes/policy", desk.Policy)
	r.With(asks).Get("/gate/kubernetes/freezes", desk.Freezes)
	r.With(ours).Post("/gate/platform", desk.Platform)
	if c.github != nil {
		r.With(c.guard.Hosts).Method("POST", "/gate/github", c.github.Handler())
	}
}

// newGitHub returns what answers GitHub; nil where no App is configured. It is
// configured by variables, as secrets of a process are.
func (c *control) newGitHub() (*dialect.GitHub, error) {
	id := env("GITHUB_APP_ID", "")
	if id == "" {
		return nil, nil
	}
	key, err := os.ReadFile(env("GITHUB_APP_KEY_FILE", ""))
	if err != nil {
		return nil, fmt.Errorf("BREAKWATER_GITHUB_APP_KEY_FILE: %w", err)
	}
	secret, err := os.ReadFile(env("GITHUB_WEBHOOK_SECRET_FILE", ""))
	if err != nil {
		return nil, fmt.Errorf("BREAKWATER_GITHUB_WEBHOOK_SECRET_FILE: %w", err)
	}
	secret = []byte(strings.TrimSpace(string(secret)))
	if len(secret) < 16 {
		return nil, fmt.Errorf("BREAKWATER_GITHUB_WEBHOOK_SECRET_FILE: must hold 16 bytes or more, got %d", len(secret))
	}
	app, err := dialect.NewApp(id, key, env("GITHUB_API", "https://api.github.com"))
	if err != nil {
		return nil, err
	}
	cfg := dialect.GitHubConfig{Gate: c.gate, Shelf: c.store, Seen: c.store, Marks: c.store, App: app, Secret: secret, Checks: env("GITHUB_CHECKS", ""), Log: c.log,
		Ran:     func(service, env, sha string) bool { return c.releases.book.Known().Ran(service, env, sha) },
		Running: func(service, env string) string { return c.releases.book.Known().Running(service, env) }}
	if cfg.Labels, err = labelKinds(env("GITHUB_LABELS", "")); err != nil {
		return nil, fmt.Errorf("BREAKWATER_GITHUB_LABELS: %w", err)
	}
	for login := range strings.SplitSeq(env("GITHUB_LABEL_OWNERS", ""), ",") {
		if login = strings.TrimSpace(login); login != "" {
			cfg.Owners = append(cfg.Owners, login)
		}
	}
	for name, into := range map[string]*map[string]string{"GITHUB_SERVICES": &cfg.Services, "GITHUB_ENVIRONMENTS": &cfg.Envs} {
		if *into, err = pairs(env(name, "")); err != nil {
			return nil, fmt.Errorf("BREAKWATER_%s: %w", name, err)
		}
	}
	switch on := env("GITHUB_ON_DENY", "wait"); on {
	case "wait":
	case "reject":
		cfg.Reject = true
	default:
		return nil, fmt.Errorf("BREAKWATER_GITHUB_ON_DENY: must be wait or reject, got %q", on)
	}
	return dialect.NewGitHub(cfg), nil
}

// labelKinds reads label=kind,...
func labelKinds(text string) (map[string]gate.Kind, error) {
	all, err := pairs(text)
	out := map[string]gate.Kind{}
	for label, kind := range all {
		if !slices.Contains(gate.Kinds(), gate.Kind(kind)) {
			return nil, fmt.Errorf("must be one of %s, got %q", kindNames(), kind)
		}
		out[strings.ToLower(label)] = gate.Kind(kind)
	}
	return out, err
}

// pairs reads a=b,c=d.
func pairs(text string) (map[string]string, error) {
	out := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("must be NAME=VALUE,..., got %q", pair)
		}
		out[name] = value
	}
	return out, nil
}

// runDialects looks after what waits at other products until ctx ends.
func (c *control) runDialects(ctx context.Context) error {
	if c.github == nil {
		<-ctx.Done()
		return nil
	}
	return c.github.Run(ctx)
}
