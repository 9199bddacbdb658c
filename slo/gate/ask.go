package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"breakwater/slo/freeze"
)

// Refused is an answer that was no decision: a bad question, a missing token.
type Refused struct {
	Status int
	Detail string
}

func (r *Refused) Error() string {
	return fmt.Sprintf("the gate answered %d: %s", r.Status, r.Detail)
}

// Ask puts r to the gate of the control at base. An error means there is no
// decision; ExitCode knows what that is worth.
func Ask(ctx context.Context, base, token string, r Request) (Decision, error) {
	u, err := url.Parse(strings.TrimSuffix(base, "/") + "/api/v1/gate/decision")
	if err != nil {
		return Decision{}, fmt.Errorf("address of control: %w", err)
	}
	q := url.Values{"service": {r.Service}}
	for name, value := range map[string]string{"env": r.Env, "kind": string(r.Kind), "ref": r.Ref,
		"incident": r.Incident, "attestation": r.Attestation, "once": r.Once} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if r.DryRun {
		q.Set("dry_run", "true")
	}
	u.RawQuery = q.Encode()
	return put(ctx, http.MethodGet, u.String(), token, nil)
}

// Platform is a question that a part of ours asks on behalf of a platform, with
// what it has seen there for itself. Only our own machines may ask it: whoever
// could send a proof would need none.
type Platform struct {
	Service     string       `json:"service"`
	Env         string       `json:"env"`
	Kind        Kind         `json:"kind"`
	Ref         string       `json:"ref"`
	Incident    string       `json:"incident,omitempty"`
	Attestation string       `json:"attestation,omitempty"`
	Once        string       `json:"once,omitempty"`
	Seen        freeze.Proof `json:"seen,omitempty"`
	// DryRun asks without any effect: nothing is used up or kept.
	DryRun bool `json:"dry_run,omitempty"`
}

// AskPlatform puts r to the gate of the control at base, with r.Seen.
func AskPlatform(ctx context.Context, base, token string, r Request, dryRun bool) (Decision, error) {
	body, err := json.Marshal(Platform{r.Service, r.Env, r.Kind, r.Ref, r.Incident, r.Attestation, r.Once, r.Seen, dryRun})
	if err != nil {
		return Decision{}, fmt.Errorf("ask the gate: %w", err)
	}
	return put(ctx, http.MethodPost, strings.TrimSuffix(base, "/")+"/api/v1/gate/platform", token, body)
}

func put(ctx context.Context, method, address, token string, question []byte) (Decision, error) {
	var d Decision
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(question))
	if err != nil {
		return d, fmt.Errorf("ask the gate: %w", err)
	}
	if len(question) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// A redirect would be a login page of some proxy, not a gate.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return d, fmt.Errorf("ask the gate: %w", err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return d, fmt.Errorf("read the gate's answer: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		var problem struct{ Detail string }
		if json.Unmarshal(body, &problem) != nil || problem.Detail == "" {
			problem.Detail = http.StatusText(resp.StatusCode)
		}
		return d, &Refused{resp.StatusCode, problem.Detail}
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return Decision{}, fmt.Errorf("read the gate's answer: %w", err)
	}
	// Whatever else answers 200 at this address has not allowed anything.
	if !slices.Contains([]Verdict{Allow, Deny, Hold, Unclear}, d.Decision) {
		return Decision{}, fmt.Errorf("read the gate's answer: %.40q is no decision", d.Decision)
	}
	d.raw = body
	return d, nil
}

// ExitCode is what a pipeline is told: 0 allow, 1 deny, 3 hold, 4 unknown, 2 a
// question that is none. onUnknown, "allow" or "deny", settles what is unknown.
func ExitCode(d Decision, err error, onUnknown string) int {
	if refused, ok := errors.AsType[*Refused](err); ok && refused.Status == http.StatusBadRequest {
		return 2
	}
	switch {
	case err == nil && d.Decision == Allow:
		return 0
	case err == nil && d.Decision == Deny:
		return 1
	case err == nil && d.Decision == Hold:
		return 3
	case onUnknown == "allow":
		return 0
	case onUnknown == "deny":
		return 1
	}
	return 4
}
