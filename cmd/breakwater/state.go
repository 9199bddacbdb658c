package main

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/lockfile"
)

// lockState keeps two processes of one role out of one state directory.
func lockState(dir, role string) (*lockfile.Lock, error) {
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return nil, fmt.Errorf("make the state directory: %w", err)
	}
	lock, err := lockfile.Take(filepath.Join(dir, role+".lock"))
	if errors.Is(err, lockfile.ErrHeld) {
		return nil, exit(exitUsage, fmt.Errorf("another breakwater %s uses %s: stop it, or give --state-dir", role, dir))
	}
	return lock, err
}

// tokenTransport signs requests with the gateway's token. Control may make the
// token after the gateway has started, or anew, so the file is read again after
// each refusal.
type tokenTransport struct {
	fixed string // from --token; "" reads file
	file  string
	next  http.RoundTripper

	mu     sync.Mutex
	secret string
}

func (t *tokenTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	secret, err := t.token()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+secret)
	res, err := t.next.RoundTrip(r)
	if err == nil && res.StatusCode == http.StatusUnauthorized {
		t.mu.Lock()
		t.secret = ""
		t.mu.Unlock()
	}
	return res, err
}

func (t *tokenTransport) token() (string, error) {
	if t.fixed != "" {
		return t.fixed, nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.secret != "" {
		return t.secret, nil
	}
	secret, err := auth.ReadSecret(t.file)
	if err != nil {
		return "", err
	}
	t.secret = secret
	return secret, nil
}

// clientTransport is the transport of our own calls to control: loopback or a
// service address, no proxy from the environment.
func clientTransport() *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		ResponseHeaderTimeout: 30 * time.Second,
		MaxIdleConnsPerHost:   4,
		IdleConnTimeout:       90 * time.Second,
		DisableCompression:    true,
	}
}
