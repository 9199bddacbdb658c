// Package dialect answers the release gate in the words of other products: each
// asks the one gate and only adapts its answer, and none makes an allow of what
// nobody knows.
package dialect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"breakwater/internal/auth"
	"breakwater/internal/reply"
	"breakwater/slo"
	"breakwater/slo/freeze"
	"breakwater/slo/gate"
)

// Gate is what every dialect asks.
type Gate interface {
	// Answer decides, signs and keeps; Look decides without any effect.
	Answer(ctx context.Context, r gate.Request) gate.Decision
	Look(r gate.Request) gate.Decision
}

// Marks takes deploys that a product told of.
type Marks interface {
	AddCause(ctx context.Context, c slo.Cause, now time.Time) error
	EndDeploy(ctx context.Context, e slo.DeployEnd, now time.Time) (ended int, err error)
}

// Config is what the dialects need.
type Config struct {
	Gate   Gate
	Source gate.Source      // what services there are, for exports
	Marks  Marks            // nil: deploys that products tell of are not marked
	Now    func() time.Time // nil: the clock
	Log    *slog.Logger     // nil: none
}

// Desk serves the dialects over HTTP. Who may call what is for the routes; the
// scope of services is settled here.
type Desk struct{ cfg Config }

// New returns a Desk.
func New(cfg Config) *Desk {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Desk{cfg}
}

// onUnknown is the parameter by which a caller settles an unknown answer.
const onUnknown = "on_unknown"

// question is a gate's question with what the caller wants of an unknown answer.
type question struct {
	gate.Request
	onUnknown string // "", allow or deny
}

// errScope says that a token does not speak for the service asked about.
var errScope = errors.New("this token does not speak for the service")

// read takes a question from the parameters of an address, over what a product
// sent by itself in its body.
func read(r *http.Request, sent map[string]string) (question, error) {
	v := url.Values{}
	for name, value := range sent {
		if value != "" {
			v.Set(name, value)
		}
	}
	for name, values := range r.URL.Query() {
		v[name] = values
	}
	q := question{onUnknown: v.Get(onUnknown)}
	if n := len(v[onUnknown]); n > 1 || n == 1 && q.onUnknown != "allow" && q.onUnknown != "deny" {
		return q, fmt.Errorf("%s: must be allow or deny, once", onUnknown)
	}
	v.Del(onUnknown)
	var err error
	if q.Request, err = gate.Question(v); err != nil {
		return q, err
	}
	if !auth.From(r.Context()).Covers(q.Service) {
		return q, fmt.Errorf("%w %.63q", errScope, q.Service)
	}
	return q, nil
}

// refuse answers a question that is none.
func refuse(w http.ResponseWriter, err error) {
	if errors.Is(err, errScope) {
		reply.Problem(w, http.StatusForbidden, "out_of_scope", err.Error())
		return
	}
	reply.Problem(w, http.StatusBadRequest, "bad_parameter", err.Error())
}

// settle turns what nobody knows into what the caller asked for in writing, and
// says so in the answer.
func (q question) settle(d gate.Decision) gate.Decision {
	if d.Decision != gate.Unclear || q.onUnknown == "" {
		return d
	}
	d.Decision, d.ReasonCode = gate.Deny, "unknown_denied"
	if q.onUnknown == "allow" {
		d.Decision, d.ReasonCode = gate.Allow, "unknown_allowed"
	}
	d.Reasons = append(d.Reasons, fmt.Sprintf("Nothing is known; the caller asked for %s then, by %s=%s.", d.Decision, onUnknown, q.onUnknown))
	return d
}

// Said is a decision as most products show it. It is not signed: the signed
// answer is kept under its id.
type Said struct {
	OK         bool         `json:"ok"`
	Decision   gate.Verdict `json:"decision"`
	State      slo.Level    `json:"state"`
	ReasonCode string       `json:"reason_code"`
	Text       string       `json:"text"`
	Remaining  *json.Number `json:"remaining"`
	ThawAt     *time.Time   `json:"thaw_at"`
	DecisionID string       `json:"decision_id"`
	ValidUntil *time.Time   `json:"valid_until"`
}

func said(d gate.Decision) Said {
	s := Said{OK: d.Decision == gate.Allow, Decision: d.Decision, State: d.State, ReasonCode: d.ReasonCode, Text: Text(d),
		Remaining: d.Remaining, ThawAt: d.ThawAt, DecisionID: d.DecisionID}
	if !d.ValidUntil.IsZero() {
		s.ValidUntil = &d.ValidUntil
	}
	return s
}

// unsaid is what is said where there is no decision.
func unsaid(code, detail string) Said {
	return Said{Decision: gate.Unclear, State: slo.Unknown, ReasonCode: code, Text: "UNKNOWN: " + detail}
}

// Text is a decision in a sentence or two, with its id.
func Text(d gate.Decision) string {
	text := strings.ToUpper(string(d.Decision)) + ": " + strings.Join(d.Reasons, " ")
	if d.DecisionID == "" {
		return text + " (This decision was not written down.)"
	}
	return text + " (decision " + d.DecisionID + ")"
}

// clip cuts text to at most n bytes, at a whole character, and shows that it did.
func clip(text string, n int) string {
	const more = "..."
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n-len(more)], "") + more
}

// maxBody bounds what a product sends.
const maxBody = 1 << 20

// body reads a JSON object into v. Products add members as they grow, so unknown
// ones are let be; a key that stands twice is not.
func body(w http.ResponseWriter, r *http.Request, v any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return fmt.Errorf("body: cut, or larger than %d bytes", maxBody)
	}
	return object(text, v)
}

func object(text []byte, v any) error {
	if err := freeze.Single(text); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return errors.New("body: must be a JSON object")
	}
	if err := json.Unmarshal(text, v); err != nil {
		return fmt.Errorf("body: %w", err)
	}
	return nil
}
