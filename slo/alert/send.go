package alert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"breakwater/slo/webhook"
)

// Sender tells one receiver one message.
type Sender struct {
	// Pages is the address people reach control's pages at; "": messages have no links.
	Pages string
	// Guard judges the address that is about to be dialled; nil: guard.
	Guard func(allowPrivate bool) func(network, address string, _ syscall.RawConn) error
}

// ErrFinal is wrapped by what trying again would not mend.
var ErrFinal = errors.New("it will not be taken")

// Retry is an error with the time the receiver asks us to wait.
type Retry struct {
	After time.Duration
	Err   error
}

func (r *Retry) Error() string { return r.Err.Error() }
func (r *Retry) Unwrap() error { return r.Err }

// sendTimeout bounds one attempt.
const sendTimeout = 10 * time.Second

// Send makes one attempt.
func (s Sender) Send(ctx context.Context, to Receiver, m Message, now time.Time) error {
	at := to.URL
	if to.URLFile != "" {
		b, err := os.ReadFile(to.URLFile)
		if err != nil {
			return fmt.Errorf("read the address: %w", err)
		}
		at = strings.TrimSpace(string(b))
	}
	secret := ""
	if to.SecretFile != "" {
		b, err := os.ReadFile(to.SecretFile)
		if err != nil {
			return fmt.Errorf("read the secret: %w", err)
		}
		secret = strings.TrimSpace(string(b))
	}
	var body any
	kind := "application/json"
	header := http.Header{}
	switch to.Type {
	case Alertmanager:
		at, body = strings.TrimSuffix(at, "/")+"/api/v2/alerts", s.alertmanager(m, now)
		if secret != "" {
			header.Set("Authorization", "Bearer "+secret)
		}
	case Slack:
		body = s.slack(m)
	case PagerDuty:
		body = s.pagerDuty(m, secret)
	case Webhook:
		kind, body = "application/cloudevents+json", s.cloudEvent(m)
	default:
		return fmt.Errorf("%w: there is no sender %q", ErrFinal, to.Type)
	}
	text, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("%w: write the message: %w", ErrFinal, err)
	}
	if to.Type == Webhook {
		key, err := webhook.ParseSecret(secret)
		if err != nil {
			return err
		}
		key.Header(header, m.ID, now, text)
	}
	header.Set("Content-Type", kind)
	header.Set("User-Agent", "breakwater")
	return s.post(ctx, to, at, header, text)
}

func (s Sender) post(ctx context.Context, to Receiver, at string, header http.Header, text []byte) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%w: the address is none", ErrFinal) // not said: it may be the secret
	}
	req.Header = header
	judge := s.Guard
	if judge == nil {
		judge = guard
	}
	dialer := &net.Dialer{Timeout: 5 * time.Second, Control: judge(to.AllowPrivate)}
	transport := &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, ResponseHeaderTimeout: sendTimeout}
	client := http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		// An error of net/http names the address.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return fmt.Errorf("send: %w", err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, 512))
	if resp.StatusCode >= 200 && resp.StatusCode < 300 {
		return nil
	}
	err = fmt.Errorf("answered %d: %s", resp.StatusCode, oneLine(answer))
	switch {
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= 500 || resp.StatusCode == http.StatusRequestTimeout:
		return &Retry{retryAfter(resp.Header.Get("Retry-After")), err}
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden || resp.StatusCode == http.StatusNotFound:
		return err // a secret or an address that somebody may put right
	}
	return fmt.Errorf("%w: %w", ErrFinal, err)
}

func oneLine(b []byte) string {
	return strings.Join(strings.Fields(strings.ToValidUTF8(string(b), "?")), " ")
}

func retryAfter(text string) time.Duration {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return min(time.Duration(min(n, 3600))*time.Second, time.Hour)
}

// metadata are addresses that nothing of ours ever has to talk to: clouds hand out
// credentials there.
func metadata(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() || a == netip.MustParseAddr("fd00:ec2::254") || a == netip.MustParseAddr("100.100.100.200")
}

// guard judges the address itself and not the name: a name can point elsewhere
// between the look and the dial.
func guard(allowPrivate bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %s is no address", ErrFinal, address)
		}
		a := at.Addr().Unmap().WithZone("")
		switch {
		case metadata(a):
			return fmt.Errorf("%w: %s is an address that is never sent to", ErrFinal, a)
		case !allowPrivate && (a.IsLoopback() || a.IsPrivate()):
			return fmt.Errorf("%w: %s is a private address, and the receiver does not say allow_private", ErrFinal, a)
		}
		return nil
	}
}
