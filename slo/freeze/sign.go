package freeze

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// Key signs what control decides. Ed25519 and not a shared secret: a pipeline that
// can check a signature must not thereby be able to make one.
type Key struct {
	ID      string
	private ed25519.PrivateKey
}

// NewKey makes a key from 32 random bytes.
func NewKey(seed []byte) (Key, error) {
	if len(seed) != ed25519.SeedSize {
		return Key{}, fmt.Errorf("signing key: must be %d bytes, got %d", ed25519.SeedSize, len(seed))
	}
	private := ed25519.NewKeyFromSeed(seed)
	return Key{ID: keyID(private.Public().(ed25519.PublicKey)), private: private}, nil
}

func keyID(public ed25519.PublicKey) string {
	sum := sha256.Sum256(public)
	return hex.EncodeToString(sum[:8])
}

// Public is the key that checks, as text.
func (k Key) Public() string {
	return base64.StdEncoding.EncodeToString(k.private.Public().(ed25519.PublicKey))
}

// Signature is what a signed JSON object carries as its member "signature". The
// signature is over the object without that member, in canonical form.
type Signature struct {
	Key   string `json:"key"` // id
	Alg   string `json:"alg"` // ed25519
	Value string `json:"value"`
}

// ErrSignature says that a signature does not fit.
var ErrSignature = errors.New("the signature does not fit")

// Sign signs v, an object in JSON.
func (k Key) Sign(v any) (*Signature, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	canonical, _, err := canonical(body)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return &Signature{k.ID, "ed25519", base64.StdEncoding.EncodeToString(ed25519.Sign(k.private, canonical))}, nil
}

// Verify checks a signed object against a public key as Public gives it.
func Verify(body []byte, public string) error {
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(public))
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return fmt.Errorf("%w: the public key is none", ErrSignature)
	}
	canonical, sig, err := canonical(body)
	if err != nil {
		return err
	}
	if sig.Alg != "ed25519" || sig.Key != keyID(raw) {
		return fmt.Errorf("%w: made by another key", ErrSignature)
	}
	value, err := base64.StdEncoding.DecodeString(sig.Value)
	if err != nil || !ed25519.Verify(raw, canonical, value) {
		return fmt.Errorf("%w: the text was altered", ErrSignature)
	}
	return nil
}

// canonical is body without its signature: keys sorted, no spaces, nothing
// escaped that need not be, numbers as they were written. What the text does not
// say twice it must not say twice: a second key of one name is refused.
func canonical(body []byte) ([]byte, Signature, error) {
	var sig Signature
	if err := Single(body); err != nil {
		return nil, sig, err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var object map[string]any
	if err := dec.Decode(&object); err != nil || object == nil {
		return nil, sig, fmt.Errorf("%w: no JSON object", ErrSignature)
	}
	if held, ok := object["signature"].(map[string]any); ok {
		text := func(name string) string { s, _ := held[name].(string); return s }
		sig = Signature{text("key"), text("alg"), text("value")}
	}
	delete(object, "signature")
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return nil, sig, fmt.Errorf("canonical form: %w", err)
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), sig, nil
}

// Single reports a JSON text that is not one value, or in which a key stands twice
// in one object: readers differ in which of the two they take.
func Single(body []byte) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if err := single(dec, 0); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("JSON: more than one value")
	}
	return nil
}

const maxDepth = 64

func single(dec *json.Decoder, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("JSON: nested more than %d deep", maxDepth)
	}
	t, err := dec.Token()
	if err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	open, ok := t.(json.Delim)
	if !ok {
		return nil
	}
	seen := map[string]bool{}
	for dec.More() {
		if open == '{' {
			k, err := dec.Token()
			if err != nil {
				return fmt.Errorf("JSON: %w", err)
			}
			name, _ := k.(string)
			// As encoding/json matches members, whatever their case.
			if fold := strings.ToLower(name); seen[fold] {
				return fmt.Errorf("JSON: key %.40q stands twice", name)
			} else {
				seen[fold] = true
			}
		}
		if err := single(dec, depth+1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return fmt.Errorf("JSON: %w", err)
	}
	return nil
}

// Statement says of one change what kind it is: an annotation or a label's value
// that nobody can write by themselves.
type Statement struct {
	Service   string     `json:"service"`
	Env       string     `json:"env"` // "": all
	Kind      Kind       `json:"kind"`
	Ref       string     `json:"ref"`
	By        string     `json:"by"`
	ExpiresAt time.Time  `json:"expires_at"`
	Signature *Signature `json:"signature,omitempty"`
}

// Attest signs s and returns it as one word.
func (k Key) Attest(s Statement) (string, error) {
	s.Signature = nil
	sig, err := k.Sign(s)
	if err != nil {
		return "", err
	}
	s.Signature = sig
	body, err := json.Marshal(s)
	if err != nil {
		return "", fmt.Errorf("attest: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(body), nil
}

// Attested reads a word of Attest and reports why it does not prove that ref of
// service in env is of kind; the zero Statement with an error.
func (k Key) Attested(word, service, env string, kind Kind, ref string, now time.Time) (Statement, error) {
	body, err := base64.RawURLEncoding.DecodeString(word)
	if err != nil || len(body) > 4096 {
		return Statement{}, fmt.Errorf("%w: the attestation cannot be read", ErrSignature)
	}
	if err := Verify(body, k.Public()); err != nil {
		return Statement{}, err
	}
	var s Statement
	if err := json.Unmarshal(body, &s); err != nil {
		return Statement{}, fmt.Errorf("%w: %w", ErrSignature, err)
	}
	switch {
	case !now.Before(s.ExpiresAt):
		return Statement{}, fmt.Errorf("the attestation expired at %s", s.ExpiresAt.UTC().Format(time.RFC3339))
	case s.Service != service || s.Env != "" && s.Env != env || s.Kind != kind || s.Ref != ref || ref == "":
		return Statement{}, fmt.Errorf("the attestation is about another change")
	}
	return s, nil
}
