package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"breakwater/slo/freeze"
)

// Memory keeps the last signed decision to each question in a directory, so that a
// pipeline can go by it for a while when control is away. The key that checks the
// signature is either given, or the one that control showed first.
type Memory struct {
	Dir string
	Key string // public key; "": the one kept in Dir
}

// ErrNothingKept says that there is no decision that could stand in.
var ErrNothingKept = errors.New("no decision is kept that could stand in")

// Keep remembers d if its signature fits. A decision about another time or
// without a signature is no use later, and is no error.
func (m Memory) Keep(d Decision) error {
	if d.Signature == nil || len(d.raw) == 0 || d.Decision == Unclear {
		return nil
	}
	key, err := m.key()
	if err != nil {
		return err
	}
	if err := freeze.Verify(d.raw, key); err != nil {
		return fmt.Errorf("the gate's answer is signed by somebody else than before: %w", err)
	}
	return write(m.file(d.question()), d.raw)
}

// Last returns the decision to r that may stand in at now.
func (m Memory) Last(r Request, now time.Time) (Decision, error) {
	key, err := m.key()
	if err != nil {
		return Decision{}, err
	}
	body, err := os.ReadFile(m.file(question{r.Service, r.Env, r.Kind, r.Ref}))
	if err != nil {
		return Decision{}, ErrNothingKept
	}
	if err := freeze.Verify(body, key); err != nil {
		return Decision{}, fmt.Errorf("the decision that is kept proves nothing: %w", err)
	}
	var d Decision
	if err := json.Unmarshal(body, &d); err != nil {
		return Decision{}, fmt.Errorf("the decision that is kept proves nothing: %w", err)
	}
	switch {
	case d.question() != (question{r.Service, r.Env, r.Kind, r.Ref}):
		return Decision{}, ErrNothingKept
	case !now.Before(d.FallbackUntil) || now.Before(d.IssuedAt.Add(-2*time.Minute)):
		return Decision{}, fmt.Errorf("%w: the last one is of %s", ErrNothingKept, d.IssuedAt.UTC().Format(time.RFC3339))
	case d.Override != nil:
		// A use that control does not count would be one too many.
		return Decision{}, fmt.Errorf("%w: the last one rests on an override", ErrNothingKept)
	case d.Slot != nil:
		// Nobody knows who holds the slots meanwhile.
		return Decision{}, fmt.Errorf("%w: deploys are capped, and the last one rests on a slot", ErrNothingKept)
	}
	d.raw = body
	d.Reasons = append(d.Reasons, fmt.Sprintf("Control is away: this is its last signed answer, of %s, which stands until %s.",
		d.IssuedAt.UTC().Format("15:04:05Z"), d.FallbackUntil.UTC().Format("15:04:05Z")))
	return d, nil
}

// Learn asks control at base for its public key, unless one is given or kept.
func (m Memory) Learn(ctx context.Context, base, token string) error {
	if _, err := m.key(); err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(base, "/")+"/api/v1/gate/key", nil)
	if err != nil {
		return fmt.Errorf("ask for the gate's key: %w", err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("ask for the gate's key: %w", err)
	}
	defer resp.Body.Close()
	var answer struct {
		Key string `json:"public_key"`
	}
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<16)).Decode(&answer); err != nil || resp.StatusCode != http.StatusOK || answer.Key == "" {
		return fmt.Errorf("ask for the gate's key: control answered %s", resp.Status)
	}
	return write(filepath.Join(m.Dir, "key"), []byte(answer.Key+"\n"))
}

func (m Memory) key() (string, error) {
	if m.Key != "" {
		return m.Key, nil
	}
	b, err := os.ReadFile(filepath.Join(m.Dir, "key"))
	if err != nil {
		return "", fmt.Errorf("%w: the gate's key is not known", ErrNothingKept)
	}
	return string(b), nil
}

// question is what an answer is an answer to.
type question struct {
	service, env string
	kind         Kind
	ref          string
}

func (d Decision) question() question { return question{d.Service, d.Env, d.Kind, d.Ref} }

func (m Memory) file(q question) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q", q.service, q.env, q.kind, q.ref))
	return filepath.Join(m.Dir, hex.EncodeToString(sum[:12])+".json")
}

func write(name string, body []byte) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return fmt.Errorf("keep the decision: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return fmt.Errorf("keep the decision: %w", err)
	}
	_, err = f.Write(body)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
		return fmt.Errorf("keep the decision: %w", err)
	}
	return nil
}
