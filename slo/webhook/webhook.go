// Package webhook signs what is sent to others and checks what others send, as
// Standard Webhooks has it: HMAC-SHA256 over id, timestamp and the very body.
package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers.
const (
	ID        = "Webhook-Id"
	Timestamp = "Webhook-Timestamp"
	Sign      = "Webhook-Signature"
)

// Tolerance is how far a timestamp may be off, either way: what is older was
// recorded and is played again.
const Tolerance = 5 * time.Minute

// Secret is a shared secret.
type Secret []byte

// ParseSecret reads a secret: "whsec_" and base64, or any text of 24 bytes or more
// as it stands.
func ParseSecret(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "whsec_"); ok {
		b, err := base64.StdEncoding.DecodeString(rest)
		if err != nil {
			return nil, errors.New("secret: what follows whsec_ must be base64")
		}
		text = string(b)
	}
	if len(text) < 24 {
		return nil, fmt.Errorf("secret: must be at least 24 bytes, got %d", len(text))
	}
	return Secret(text), nil
}

// Header sets the three headers for body on h.
func (s Secret) Header(h http.Header, id string, at time.Time, body []byte) {
	stamp := strconv.FormatInt(at.Unix(), 10)
	h.Set(ID, id)
	h.Set(Timestamp, stamp)
	h.Set(Sign, "v1,"+base64.StdEncoding.EncodeToString(s.sum(id, stamp, body)))
}

func (s Secret) sum(id, stamp string, body []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write([]byte(id + "." + stamp + "."))
	mac.Write(body)
	return mac.Sum(nil)
}

// ErrForged says that nobody who knows the secret sent this, or not now.
var ErrForged = errors.New("the webhook is not believed")

// Check reports why a message is not to be believed, and returns its id. Of
// several signatures, as while a secret is being replaced, one must fit.
func (s Secret) Check(h http.Header, body []byte, now time.Time) (id string, err error) {
	id, stamp := h.Get(ID), h.Get(Timestamp)
	if id == "" || len(id) > 200 || strings.Contains(id, ".") || len(h.Values(ID)) != 1 || len(h.Values(Timestamp)) != 1 {
		return "", fmt.Errorf("%w: its id or timestamp is missing, or stands twice", ErrForged)
	}
	seconds, err := strconv.ParseInt(stamp, 10, 64)
	if err != nil {
		return "", fmt.Errorf("%w: its timestamp is no number of seconds", ErrForged)
	}
	if off := now.Sub(time.Unix(seconds, 0)); off > Tolerance || off < -Tolerance {
		return "", fmt.Errorf("%w: its timestamp is off by more than %s", ErrForged, Tolerance)
	}
	want := s.sum(id, stamp, body)
	fits := false
	for _, one := range strings.Fields(h.Get(Sign)) {
		value, ok := strings.CutPrefix(one, "v1,")
		got, err := base64.StdEncoding.DecodeString(value)
		if ok && err == nil && hmac.Equal(got, want) {
			fits = true
		}
	}
	if !fits {
		return "", fmt.Errorf("%w: its signature does not fit", ErrForged)
	}
	return id, nil
}
