package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"

	"breakwater/internal/auth"
	"breakwater/slo/alert"
	"breakwater/slo/webhook"
)

// alertRoutes is who may tell control of alerts and causes, under /api/v1: those that
// hold a token, and those that sign what they send.
func (c *control) alertRoutes(r chi.Router, bell *alert.Desk) {
	tells := c.guard.Require(auth.Operator, auth.Pipeline)
	// Alertmanager cannot sign; it has a token, as http_config.authorization.
	r.With(tells).Post("/webhooks/alertmanager", bell.Hear(c.store))
	if c.hooks == nil {
		return
	}
	who := auth.Principal{Name: "webhook facts", Role: auth.Pipeline}
	signed := webhook.Receiver{Source: "facts", Secret: c.hooks, Who: who, Seen: c.store, Log: c.log}
	r.With(c.guard.Hosts).Method(http.MethodPost, "/webhooks/facts", signed.Then(http.HandlerFunc(bell.Tell)))
}

// hookSecret is the secret of those that sign as Standard Webhooks has it; nil: there
// is none, and nobody is let in that way.
func hookSecret() (webhook.Secret, error) {
	path := env("WEBHOOK_SECRET_FILE", "")
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("BREAKWATER_WEBHOOK_SECRET_FILE: %w", err)
	}
	secret, err := webhook.ParseSecret(string(text))
	if err != nil {
		return nil, fmt.Errorf("BREAKWATER_WEBHOOK_SECRET_FILE: %w", err)
	}
	return secret, nil
}

// pagesURL checks the address that messages link to.
func pagesURL(text string) (string, error) {
	if text == "" {
		return "", nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("must be an http or https URL such as https://breakwater.example.com, without a user and a query, got %q", text)
	}
	return strings.TrimSuffix(text, "/"), nil
}

// firing remembers the alerts of others that fire, a second old at most.
type firing struct {
	mu  sync.Mutex
	all []alert.Foreign
	err error
}

// Run looks every second until ctx ends.
func (f *firing) Run(ctx context.Context, look func(context.Context, time.Time) ([]alert.Foreign, error)) error {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		each, cancel := context.WithTimeout(ctx, 5*time.Second)
		all, err := look(each, time.Now())
		cancel()
		f.mu.Lock()
		if f.err = err; err == nil {
			f.all = all
		}
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// on says which L1 alert of others fires on service; "": none. It keeps new
// experiments away: whoever is called already needs no drill on top.
func (f *firing) on(service string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.all {
		if a.Service == service && a.Tier == alert.L1 {
			return fmt.Sprintf("alert %s of %s fires on %s since %s: %s", a.Name, a.Source, service, a.From.Format("2 Jan 15:04 UTC"), a.Text)
		}
	}
	return ""
}
