package main

import (
	"context"
	"errors"
	"fmt"
	stdio "io"
	"net"
	"net/http"
	"strings"
	"time"

	"breakwater/injector/scenario"
)

// prober asks what hypotheses want to know of addresses. It asks hosts that whoever
// started control has named, and no others: a scenario must not make control the hand
// that reaches into its network.
type prober struct {
	hosts  []string // name, name:port, or .suffix of names
	client *http.Client
}

// maxProbed is how much of a body a hypothesis may look at.
const maxProbed = 64 << 10

func newProber(hosts []string) *prober {
	p := &prober{client: &http.Client{
		Transport: &http.Transport{DialContext: (&net.Dialer{Timeout: 3 * time.Second}).DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		// Where it leads elsewhere, elsewhere was not allowed.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	for _, h := range hosts {
		if h = strings.ToLower(strings.TrimSpace(h)); h != "" {
			p.hosts = append(p.hosts, h)
		}
	}
	return p
}

// may reports whether the host of q was named.
func (p *prober) may(q scenario.Probe) bool {
	name, port := q.Host()
	if name == "" {
		return false
	}
	for _, h := range p.hosts {
		if h == name || h == net.JoinHostPort(name, port) || strings.HasPrefix(h, ".") && strings.HasSuffix(name, h) {
			return true
		}
	}
	return false
}

// ask makes one GET.
func (p *prober) ask(ctx context.Context, q scenario.Probe) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, q.URL, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("make the request: %w", err)
	}
	req.Header.Set("User-Agent", "breakwater-probe")
	res, err := p.client.Do(req)
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			return 0, nil, fmt.Errorf("nothing within %v", q.Timeout)
		}
		return 0, nil, reason(err)
	}
	defer res.Body.Close()
	body, err = stdio.ReadAll(stdio.LimitReader(res.Body, maxProbed))
	if err != nil {
		return 0, nil, fmt.Errorf("its body was cut: %w", err)
	}
	return res.StatusCode, body, nil
}

// reason is an error of a client without the address, which is told beside it.
func reason(err error) error {
	for inner := errors.Unwrap(err); inner != nil; inner = errors.Unwrap(inner) {
		if _, ok := errors.AsType[*net.OpError](inner); ok {
			return inner
		}
	}
	return err
}
